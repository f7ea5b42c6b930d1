"""All positions of a fit, those of training sequences first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.estimators.labelled import Labelled
from seqboost.features import BinnedRows, FeatureBinner

__all__ = ["Positions"]


@dataclass(frozen=True, eq=False)
class Positions:
    """Training sequences, then validation sequences, as boosting sees them.

    Attributes
    ----------
    parts : tuple of Labelled
        The training sequences, and the validation sequences if there are any.
    binned : BinnedRows
        Columns of all of them.
    labels : ndarray of int32, shape (n_rows,)
        −1 = unobserved.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences.
    """

    parts: tuple[Labelled, ...]
    binned: BinnedRows
    labels: NDArray[np.int32]
    weights: NDArray[np.float64]

    @classmethod
    def together(
        cls, binner: FeatureBinner, training: Labelled, validation: Labelled | None, n_threads: int
    ) -> Positions:
        """Bin training and validation sequences."""
        binned = binner.transform(training.batch, n_threads=n_threads)
        if validation is None:
            return cls((training,), binned, training.labels, training.weights)
        return cls(
            (training, validation),
            BinnedRows.concatenate(binned, binner.transform(validation.batch, n_threads=n_threads)),
            np.concatenate([training.labels, validation.labels]),
            np.concatenate([training.weights, validation.weights]),
        )

    @property
    def training(self) -> Labelled:
        """The training sequences."""
        return self.parts[0]

    @property
    def n_fitted(self) -> int:
        """Number of positions of training sequences."""
        return self.training.batch.n_rows

    @property
    def is_training(self) -> NDArray[np.bool_]:
        """Whether each sequence is one of training."""
        return np.arange(len(self.weights)) < len(self.training.weights)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin, (n_sequences + 1,)."""
        return self.binned.offsets

    def check_possible(
        self, table: NDArray[np.float64], end: NDArray[np.float64], order: int, classes: list[Any]
    ) -> None:
        """Raise InputError if labels break a forbidden transition, with the number that the user knows."""
        for part in self.parts:
            part.check_possible(table, end, order, classes)
