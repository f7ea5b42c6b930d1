"""``python -m seqboost``: the command line."""

from __future__ import annotations

from seqboost.cli import main

if __name__ == "__main__":
    main()
