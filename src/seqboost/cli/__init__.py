"""The ``seqboost`` command: thin subcommands over the library's public names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from seqboost.cli.console import EXIT_CODES, Commands, guarded, show
from seqboost.cli.options import (
    ALL_READING,
    LARGEST_SEED,
    TRAINING,
    Data,
    Decoding,
    Format,
    Given,
    Json,
    Model,
    NJobs,
    OneFile,
    Quiet,
    Scheme,
    Seed,
    SkipBad,
    given_options,
    listed,
    parsed,
    reading_from,
    reading_options,
)
from seqboost.cli.plots import Plot

__all__ = ["main"]

# Arrow's own allocators reserve a gigabyte of addresses more than they use, which `ulimit -v` counts.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

app = typer.Typer(
    cls=Commands,
    help="""Gradient-boosted trees for label sequences: train, predict, evaluate and explain, from files to files.

\b
Three commands, from a table of sensor readings to labels:
  seqboost train readings.csv --sequence trial --label activity --model activity.seqboost
  seqboost evaluate activity.seqboost test.csv
  seqboost predict activity.seqboost new.csv --output labelled.csv

\b
Formats, told by the suffix (or --format), also packed (.gz, .bz2, .xz):
  .csv .tsv .parquet .arrow          a table, a row for each position, --sequence names the column of sequences
  .conll .iob2 .crfpp .wapiti        columns, label last, an empty line between sequences
  .crfsuite                          label and attributes between tabs
  .jsonl                             an object for each sequence
  .txt                               a sequence of characters for each line, labels after a tab
  .sparse                            indices of indicators
""",
    epilog="\b\nExit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items()),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

SOME_READING = ("format", "label", "sequence", "no_header", "delimiter", "encoding", "allow_missing_columns")


@app.command()
@guarded
@reading_options(*ALL_READING)
def train(
    data: Data,
    model: Annotated[Path, typer.Option("--model", "-m", help="Where to write the model.", show_default=False)],
    validation: Annotated[
        list[Path] | None,
        typer.Option(
            "--validation",
            help="Files to stop early by (without: a tenth of the sequences is held out).",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    *,
    given: Given,
    skip_bad: SkipBad = False,
    window: Annotated[
        str | None,
        typer.Option(help="Neighbours that are seen: 3, or 5,0 (left, right), or JSON.", rich_help_panel=TRAINING),
    ] = None,
    order: Annotated[
        int | None, typer.Option(help="How many labels before one matter (1).", rich_help_panel=TRAINING)
    ] = None,
    max_iter: Annotated[
        int | None, typer.Option(help="Largest number of rounds (500).", rich_help_panel=TRAINING)
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Factor on the steps (0.25, or 0.5 for many labels).", rich_help_panel=TRAINING)
    ] = None,
    transitions: Annotated[
        str | None,
        typer.Option(help="What may follow what: any, seen, or a scheme: IOB1, IOB2, BIOES.", rich_help_panel=TRAINING),
    ] = None,
    decoding: Decoding = None,
    seed: Seed = 0,
    n_jobs: NJobs = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other parameter of TreeCRF or Method, name=value; may be repeated.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    plot: Plot = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a model from files and write it to one file.

    Columns are numbers or categories by what they hold; empty cells are missing. Training stops by itself when held-out
    sequences gain nothing more. Ctrl-C, SIGTERM and SIGHUP stop it too: the best model so far is written.

    \b
    Examples:
      seqboost train readings.csv --sequence trial --label activity --drop time --model activity.seqboost
      seqboost train trial1.csv trial2.csv trial3.csv --label activity --model activity.seqboost
      seqboost train train.conll --features words --transitions IOB2 --model chunks.seqboost
      seqboost train words.txt --window 4 --model hyphens.seqboost
      seqboost train words.txt --model m.seqboost --set max_leaf_nodes=15 --set l2_regularization=1
    """  # noqa: D301
    from seqboost.cli.train import run_train

    parameters = {
        "window": parsed(window, "window"), "order": order, "max_iter": max_iter, "learning_rate": learning_rate,
        "transitions": transitions, "decoding": decoding, "random_state": seed, "n_jobs": n_jobs,
    }  # fmt: skip
    run_train(
        data, model, reading_from(None, data, given), validation or [], parameters, settings or [],
        plot=plot, skip_bad=skip_bad, quiet=quiet, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
@reading_options(*(name for name in SOME_READING if name != "label"))
def predict(
    model: Model,
    data: OneFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write (standard output).", show_default=False)
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of every label.")] = False,
    kbest: Annotated[int, typer.Option("--kbest", min=0, help="Add so many of the most probable labellings.")] = 0,
    decoding: Decoding = None,
    *,
    given: Given,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label a file: it is written again, in its own format, with the labels added.

    Tables get the column `predicted` (and `p(label)`, `path1`, ...), column files a last column, JSON lines the key
    `predicted`; CRFsuite and sparse files get their labels replaced. The file is read as the training files were.

    \b
    Examples:
      seqboost predict activity.seqboost new.csv --output labelled.csv
      seqboost predict chunks.seqboost new.conll --proba > labelled.conll
      seqboost predict hyphens.seqboost words.txt --kbest 3
    """  # noqa: D301
    from seqboost.cli.apply import run_predict

    run_predict(
        model, data, output, given, proba=proba, k=kbest, decoding=decoding, skip_bad=skip_bad, quiet=quiet,
        as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
@reading_options(*SOME_READING)
def evaluate(
    model: Model,
    data: Data,
    scheme: Scheme = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Predictions of another model for the same file: McNemar's test."),
    ] = None,
    plot: Plot = None,
    decoding: Decoding = None,
    *,
    given: Given,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare a model's labels with those of files.

    Shares of positions and sequences that are right; precision, recall and F1 of every label, and of spans if their
    scheme is named (the numbers of conlleval); which label is taken for which; log-likelihood; calibration.

    \b
    Examples:
      seqboost evaluate activity.seqboost test.csv
      seqboost evaluate chunks.seqboost test.conll --scheme IOB2 --decoding viterbi
      seqboost evaluate new.seqboost test.csv --against predictions_of_old.csv
      seqboost evaluate activity.seqboost test.csv --json | jq .accuracy
    """  # noqa: D301
    from seqboost.cli.apply import run_evaluate

    run_evaluate(
        model, data, given, scheme=scheme, against=against, plot=plot, decoding=decoding, skip_bad=skip_bad,
        quiet=quiet, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
@reading_options(*ALL_READING)
def compare(
    data: Data,
    test: Annotated[
        list[Path], typer.Option("--test", "-t", help="Files to test on; may be repeated.", show_default=False)
    ],
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--models",
            "-m",
            help="Some of treecrf, memm, hmm, iohmm, sliding_window, recurrent, linear_crf, perceptron, "
            "output_coding, future (a,b,c; may be repeated).",
            show_default="treecrf,memm,hmm,sliding_window",
        ),
    ] = None,
    table: Annotated[str, typer.Option("--table", help="Form of the table: text or markdown.")] = "text",
    *,
    given: Given,
    skip_bad: SkipBad = False,
    window: Annotated[
        str | None,
        typer.Option(help="Neighbours that are seen, by all that have windows: 3.", rich_help_panel=TRAINING),
    ] = None,
    seed: Seed = 0,
    n_jobs: NJobs = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Another parameter, name=value for all that have it, model.name=value for one; may be repeated.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train several kinds of models on the same files, and compare them on others.

    One table, the best first: shares of positions and of sequences that are right, seconds, memory, and McNemar's test
    against the best.

    \b
    Examples:
      seqboost compare readings.csv --test test.csv --sequence trial --label activity
      seqboost compare train.conll --test test.conll --models treecrf,linear_crf,perceptron --table markdown
      seqboost compare words.txt --test new.txt --models treecrf,hmm --set treecrf.max_iter=100 --json
    """  # noqa: D301
    from seqboost.cli.compare import run_compare

    common = {"window": parsed(window, "window"), "random_state": seed, "n_jobs": n_jobs}
    names = listed(models) if models else ("treecrf", "memm", "hmm", "sliding_window")
    run_compare(
        data, test, names, reading_from(None, data, given), common, settings or [], form=table, skip_bad=skip_bad,
        quiet=quiet, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
def inspect(
    model: Model,
    data: Annotated[list[Path] | None, typer.Argument(help="Data files, for one of their sequences.")] = None,
    sequence: Annotated[
        int | None, typer.Option("--sequence", "-s", min=0, help="Number of a sequence of the data, from 0.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many features to list.")] = 10,
    rival: Annotated[
        str | None, typer.Option("--against", help="Explain labels against this one (the next most probable).")
    ] = None,
    format: Format = None,
    sequence_column: Annotated[
        str | None, typer.Option("--sequence-column", help="Column of a table that tells sequences apart.")
    ] = None,
    plot: Plot = None,
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Show what a model has learnt; with data, why it labels one of their sequences as it does.

    \b
    Examples:
      seqboost inspect activity.seqboost
      seqboost inspect activity.seqboost test.csv --sequence 7 --plot strip.png
    """  # noqa: D301
    from seqboost.cli.inspect import run_inspect

    given = given_options(format=format, sequence=sequence_column)
    run_inspect(
        model, data or [], given, sequence=sequence, top=top, rival=rival, plot=plot, skip_bad=skip_bad, as_json=as_json
    )


@app.command()
@guarded
@reading_options(*SOME_READING)
def report(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.", show_default=False)] = None,
    scheme: Scheme = None,
    max_sequences: Annotated[
        int, typer.Option("--max-sequences", min=0, help="How many sequences the page shows at most.")
    ] = 200,
    decoding: Decoding = None,
    *,
    given: Given,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write one page that shows a model and how it labels files, for any browser, without a network.

    What the data are, how good the labels, how training went, which label is taken for which, what matters, what
    follows what, and the sequences themselves, each position with its probabilities.

    \b
    Examples:
      seqboost report activity.seqboost test.csv --output report.html
      seqboost report chunks.seqboost test.conll --scheme IOB2 --title "Chunks, second try"
    """  # noqa: D301
    from seqboost.cli.report import run_report

    run_report(
        model, data, output, given, title=title, scheme=scheme, max_sequences=max_sequences, decoding=decoding,
        skip_bad=skip_bad, quiet=quiet, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
@reading_options(*(name for name in ALL_READING if name != "time"))
def convert(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write.", show_default=False)],
    to: Annotated[str | None, typer.Option("--to", help="Format to write, if the suffix does not tell.")] = None,
    from_scheme: Annotated[
        str | None, typer.Option("--from-scheme", help="Scheme of the tags: IOB1, IOB2, BIOES.")
    ] = None,
    to_scheme: Annotated[str | None, typer.Option("--to-scheme", help="Scheme to write.")] = None,
    *,
    given: Given,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write files in another format, or with tags of another scheme.

    \b
    Examples:
      seqboost convert readings.csv --sequence trial --label activity --output readings.parquet
      seqboost convert eng.conll --from-scheme IOB1 --to-scheme BIOES --output eng_bioes.conll
      seqboost convert train.conll --features words --output train.crfsuite
    """  # noqa: D301
    from seqboost.cli.apply import run_convert

    run_convert(
        data, output, given, to=to, schemes=(from_scheme, to_scheme), skip_bad=skip_bad, quiet=quiet, as_json=as_json
    )


@app.command()
@guarded
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="list, page, all, or names (or their beginnings) of experiments.", show_default=False),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small version of each: all within minutes.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("reproduced"),
    page: Annotated[
        Path | None,
        typer.Option("--page", help="File of the page of all results.", show_default="results.md in the folder"),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run anew what was run before.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run the experiments of the sources, and show our numbers beside theirs.

    Each writes its table as Markdown and CSV, and its figure; a page has all that was ever run, the full version if
    there is one. Parts that are done are kept in the cache: after Ctrl-C the same command goes on from there. Data
    sets are looked for in $SEQBOOST_DATA. The experiments are part of seqboost's repository: run this in an
    environment that has seqboost installed from a checkout (pip install --editable '.[cli]').

    \b
    Examples:
      seqboost reproduce list
      seqboost reproduce all --quick
      seqboost reproduce dissertation-table5.4 coding --output results
      seqboost reproduce page --page docs/results.md
    """  # noqa: D301
    from seqboost.cli.reproduce import run_reproduce

    run_reproduce(names, output, page, quick=quick, again=again, quiet=quiet, as_json=as_json)


@app.command()
@guarded
def warmup() -> None:
    """Compile all kernels ahead of the first fit; they stay cached on disk."""
    from seqboost.cli.warmup import warm_up

    show(f"Kernels compiled and cached in {warm_up():.1f} s.")


@app.command()
@guarded
def demo(
    words: int = typer.Option(6000, min=100, help="Number of words to learn from and to be tested on."),
    seed: int = typer.Option(
        0, min=0, max=LARGEST_SEED, help="Seed of the split into words learned and words never seen."
    ),
) -> None:
    """Learn to hyphenate English and show it on words never seen."""
    from seqboost.cli.demo import run_demo

    run_demo(n_words=words, seed=seed)


def main() -> None:
    """Run the command line."""
    app(prog_name="seqboost")
