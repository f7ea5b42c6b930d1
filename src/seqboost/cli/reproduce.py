"""``seqboost reproduce``: the experiments of the sources, which are part of the repository, not of the package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from seqboost.core.exceptions import SeqboostError

__all__ = ["run_reproduce"]

CHECKOUT = Path(__file__).resolve().parents[3]


def run_reproduce(*arguments: Any, **options: Any) -> None:
    """Run :func:`reproduction.command.run_reproduce` of the checkout that seqboost was installed from."""
    if not (CHECKOUT / "reproduction" / "command.py").is_file():
        raise SeqboostError(
            "the experiments of the papers are part of seqboost's repository, not of the installed package; clone it, "
            "run `pip install --editable '.[cli]'` there, and then this command again"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    importlib.import_module("reproduction.command").run_reproduce(*arguments, **options)
