"""What the boosting loop asks of an objective."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seqboost.objectives.derivatives import Derivatives

__all__ = ["Objective"]


class Objective(Protocol):
    """From scores to derivatives, and to the value alone."""

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Give value, gradient and curvature; valid until the next call."""
        ...

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Give the value of each sequence alone; what ``derivatives`` gave stays valid."""
        ...

    def watch_positions(self, first_row: int = 0, label_weights: NDArray[np.float64] | None = None) -> None:
        """Have ``derivatives`` say from now on what positions are labeled; see ``Predictions``."""
        ...
