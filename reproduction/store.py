"""Where results of cells are kept, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import seqboost
from reproduction.experiment import Cell, Experiment, Outcome
from seqboost.core.replacing import replacing
from seqboost.datasets import cache_folder

__all__ = ["Kept", "Store"]


class Kept(NamedTuple):
    """An outcome that was kept, and how long it took."""

    outcome: Outcome
    seconds: float


class Store:
    """One JSON file for each cell, below ``$SEQBOOST_CACHE/reproduction`` unless another folder is given.

    A file counts only for the version of seqboost and the protocol that it was made by.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = cache_folder() / "reproduction" if folder is None else folder

    def path(self, experiment: Experiment, cell: Cell, quick: bool) -> Path:
        """Return the file of a cell."""
        told = "-".join(re.sub(r"\W+", "_", str(value)) for value in cell.values())
        digest = hashlib.sha256(json.dumps(dict(cell), sort_keys=True).encode()).hexdigest()[:8]
        return self.folder / "cells" / (experiment.name + ("-quick" if quick else "")) / f"{told[:60]}-{digest}.json"

    def get(self, experiment: Experiment, cell: Cell, quick: bool) -> Kept | None:
        """Return what was kept of a cell; None if there is nothing, or nothing that still counts."""
        try:
            found = json.loads(self.path(experiment, cell, quick).read_text(encoding="utf-8"))
            if found["made by"] != _maker(experiment, quick):
                return None
            return Kept(Outcome(**found["outcome"]), float(found["seconds"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # also half a file of another program
            return None

    def put(self, experiment: Experiment, cell: Cell, quick: bool, kept: Kept) -> None:
        """Keep an outcome: the whole of it or, if interrupted, nothing."""
        path = self.path(experiment, cell, quick)
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "cell": dict(cell), "seconds": kept.seconds, "outcome": asdict(kept.outcome),
            "made by": _maker(experiment, quick),
        }  # fmt: skip
        with replacing(str(path)) as temporary:
            Path(temporary).write_text(json.dumps(document, indent=1), encoding="utf-8")

    def complete(self, experiment: Experiment, quick: bool) -> list[Outcome] | None:
        """Return the outcomes of all cells; None if one is wanting."""
        found = [self.get(experiment, cell, quick) for cell in experiment.cells(quick)]
        return [kept.outcome for kept in found if kept] if all(found) else None


def _maker(experiment: Experiment, quick: bool) -> dict[str, Any]:
    protocol = experiment.protocol + (experiment.quick if quick else "")
    return {"version": seqboost.__version__, "protocol": protocol}
