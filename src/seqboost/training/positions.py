"""All positions of a fit, those of training sequences first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import VALIDATION, Metric
from seqboost.core.labelsets import LabelSets, join_sets
from seqboost.features import BinnedRows, FeatureBinner
from seqboost.training.dataset import Dataset
from seqboost.training.result import FitData

__all__ = ["Positions"]


@dataclass(frozen=True, eq=False)
class Positions:
    """Training sequences, then those of each evaluation set, as boosting sees them.

    Attributes
    ----------
    parts : tuple of Dataset
        The training sequences, and those of each evaluation set.
    binned : BinnedRows
        Columns of all of them.
    labels : ndarray of int32, shape (n_rows,)
        −1 = unobserved, −3 − i = one of set i.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences.
    classes : ndarray of shape (n_labels,)
        The labels.
    class_weights : ndarray of float64 of shape (n_labels,) or None
        Weights of labels; None: all are 1.
    sets : ndarray of bool, shape (n_sets, n_labels), or None
        The labels of each set.
    set_names : tuple of str
        Names of the evaluation sets.
    metrics : tuple of Metric
        What is computed of them in every round.
    position_weights : ndarray of float64, shape (n_rows,), or None
        Weights of positions; None: all are 1.
    """

    parts: tuple[Dataset, ...]
    binned: BinnedRows
    labels: NDArray[np.int32]
    weights: NDArray[np.float64]
    classes: NDArray[Any]
    class_weights: NDArray[np.float64] | None = None
    sets: LabelSets | None = None
    set_names: tuple[str, ...] = VALIDATION
    metrics: tuple[Metric, ...] = ()
    position_weights: NDArray[np.float64] | None = None

    @classmethod
    def together(cls, binner: FeatureBinner, data: FitData, n_threads: int) -> Positions:
        """Bin training sequences and those of evaluation sets."""
        parts = (data.training,) if data.validation is None else (data.training, data.validation, *data.others)
        binned = [binner.transform(part.batch, n_threads=n_threads) for part in parts]
        labels, sets = reduce(join_sets, [(part.labels, part.sets) for part in parts])
        return cls(
            parts,
            reduce(BinnedRows.concatenate, binned),
            labels,
            np.concatenate([part.weights for part in parts]),
            data.classes,
            data.class_weights,
            sets,
            data.set_names,
            data.metrics,
            _position_weights(parts),
        )

    def term_weights(self) -> NDArray[np.float64] | None:
        """Return the weights of the terms of single positions: of their labels times their own; None: all are 1."""
        if self.class_weights is None:
            return self.position_weights
        weights = self.class_weights[self.labels]
        return weights if self.position_weights is None else weights * self.position_weights

    @property
    def training(self) -> Dataset:
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
    def part(self) -> NDArray[np.int64]:
        """Number of the evaluation set of each sequence, −1 for training sequences."""
        return np.repeat(np.arange(len(self.parts)) - 1, [len(part.weights) for part in self.parts])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where sequences begin, (n_sequences + 1,)."""
        return self.binned.offsets

    def check_no_sets(self, what: str, cure: str) -> None:
        """Raise InputError at the first set of labels, with which ``what`` cannot train."""
        for part in self.parts:
            part.check_no_sets(what, cure)

    def check_possible(self, table: NDArray[np.float64], end: NDArray[np.float64], order: int) -> None:
        """Raise InputError if labels break a forbidden transition, with the number that the user knows."""
        for part in self.parts:
            part.check_possible(table, end, order, self.classes.tolist())


def _position_weights(parts: tuple[Dataset, ...]) -> NDArray[np.float64] | None:
    """Return the weights of all positions, if some part has any."""
    if all(part.position_weights is None for part in parts):
        return None
    ones = (np.ones(part.batch.n_rows) for part in parts)
    return np.concatenate(
        [one if part.position_weights is None else part.position_weights for part, one in zip(parts, ones, strict=True)]
    )
