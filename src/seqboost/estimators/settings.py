"""What a fit is given, and what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import Callback, History, Stopping
from seqboost.linear import LinearFit
from seqboost.model import FrozenModel

__all__ = ["Settings", "Trained"]


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a fit, checked."""

    parameters: dict[str, Any]
    classes: NDArray[Any]
    class_weights: NDArray[np.float64] | None  # (n_labels,) of the terms of single positions; None: all are 1
    n_threads: int
    seed: int
    stopping: Stopping | None
    callbacks: Sequence[Callback]

    def __getitem__(self, name: str) -> Any:
        """Return a parameter."""
        return self.parameters[name]


@dataclass(frozen=True, eq=False)
class Trained:
    """What training gives: the model, how it went, and the number of rounds kept.

    ``linear_fit`` is the way to its linear start; ``refitted``: it was trained again, with what had been held out.
    """

    model: FrozenModel
    history: History
    best_iteration: int
    linear_fit: LinearFit | None = None
    refitted: bool = False

    @property
    def best_score(self) -> float:
        """Log-likelihood per position of the kept rounds: of validation sequences, or else of training sequences."""
        return (self.history.validation_score or self.history.train_score)[self.best_iteration]

    @property
    def potentials(self) -> str:
        """What ``potentials="auto"`` came to."""
        return "joint" if self.model.forest.order == self.model.order else "factored"
