"""The ``seqboost`` command: thin subcommands over the library's public names."""

from __future__ import annotations

import typer

from seqboost.exceptions import SeqboostError

__all__ = ["main"]

app = typer.Typer(
    help="Gradient-boosted trees for label sequences.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def warmup() -> None:
    """Compile all kernels ahead of the first fit; they stay cached on disk."""
    from seqboost.cli.warmup import warm_up

    typer.echo(f"Kernels compiled and cached in {warm_up():.1f} s.")


@app.command()
def demo(
    words: int = typer.Option(6000, min=100, help="Number of words to learn from and to be tested on."),
    seed: int = typer.Option(0, help="Seed of the split into words learned and words never seen."),
) -> None:
    """Learn to hyphenate English and show it on words never seen."""
    from seqboost.cli.demo import run_demo

    run_demo(n_words=words, seed=seed)


def main() -> None:
    """Run the command line; the library's own errors end it with their message and exit code 1."""
    try:
        app()
    except SeqboostError as error:
        typer.echo(f"seqboost: {error}", err=True)
        raise SystemExit(1) from None
