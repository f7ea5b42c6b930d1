"""``python -m seqboost`` and the command ``seqboost``: the command line, if the extra ``cli`` is installed."""

from __future__ import annotations

import sys

__all__ = ["main"]

MISSING = 3  # the exit code of seqboost.cli.console, which cannot be imported then


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        from seqboost.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("rich", "typer"):
            raise
        print("seqboost: the command line needs typer and rich: pip install 'seqboost[cli]'", file=sys.stderr)
        sys.exit(MISSING)
    run()


if __name__ == "__main__":
    main()
