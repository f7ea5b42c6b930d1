"""Sequences with their labels, as estimators hand them on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import DurationPotentials, log_partition
from seqboost.core.exceptions import InputError
from seqboost.core.labelsets import UNOBSERVED, LabelSets
from seqboost.objectives.checks import check_no_sets, check_observed
from seqboost.objectives.durations import raise_if_short
from seqboost.objectives.forbidden import raise_if_forbidden
from seqboost.sequences import SequenceBatch

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Sequences with coded labels and weights."""

    batch: SequenceBatch
    labels: NDArray[np.int32]  # (n_rows,), −1 = unobserved, −3 − i = one of set i
    weights: NDArray[np.float64]  # (n_sequences,)
    name: str = "y"  # what the user calls the labels
    numbers: NDArray[np.intp] | None = None  # (n_sequences,) the user's numbers of the sequences; None: as they come
    position_weights: NDArray[np.float64] | None = None  # (n_rows,); None: all are 1
    sets: LabelSets | None = None  # (n_sets, n_labels) the labels of each set; None: there are none

    def take(self, sequences: NDArray[np.intp]) -> Dataset:
        """Return some of the sequences."""
        rows = np.concatenate([np.arange(*self.batch.offsets[s : s + 2]) for s in sequences])
        numbers = sequences if self.numbers is None else self.numbers[sequences]
        return replace(
            self,
            batch=self.batch[sequences],
            labels=self.labels[rows],
            weights=self.weights[sequences],
            numbers=numbers,
            position_weights=None if self.position_weights is None else self.position_weights[rows],
        )

    def cut(self, offsets: NDArray[np.int64]) -> Dataset:
        """Return the same rows as other sequences: long ones in pieces, which begin at ``offsets``."""
        source = np.searchsorted(self.batch.offsets, offsets[:-1], side="right") - 1
        numbers = source if self.numbers is None else self.numbers[source]
        return replace(self, batch=self.batch.cut(offsets), weights=self.weights[source], numbers=numbers)

    def informative(self) -> Dataset:
        """Return the sequences that say something: with a weight, and with at least one observed label.

        Others would count as rows of leaves, and held out they would stop the training at once.
        """
        counts = self.telling_labels() != UNOBSERVED
        n_observed = np.add.reduceat(counts, self.batch.offsets[:-1], dtype=np.int64)
        useful = (n_observed > 0) & (self.weights > 0)
        if not useful.any():
            raise InputError(
                f"no sequence with a positive weight has an observed label in {self.name}: all their labels are None "
                f"or NaN; give some of them labels"
            )
        return self if useful.all() else self.take(np.flatnonzero(useful))

    def n_judging(self) -> tuple[float, float]:
        """Return what scores per position are sums of, and how many labels of equal weights would tell as much.

        The former counts observed labels with the weights of their sequences; those of positions are in the scores.

        Examples
        --------
        >>> from seqboost.sequences import as_batch
        >>> labels = np.array([0, 1, -1, 0], dtype=np.int32)
        >>> Dataset(as_batch([np.zeros((2, 1)), np.zeros((2, 1))]), labels, np.array([2.0, 2.0])).n_judging()
        (6.0, 3.0)
        """
        is_observed = self.labels != UNOBSERVED
        weights = self.row_weights()[is_observed]
        total = float(np.repeat(self.weights, self.batch.lengths)[is_observed].sum())
        return total, float(weights.sum()) ** 2 / max(float(np.square(weights).sum()), 1e-300)

    def telling_labels(self) -> NDArray[np.int32]:
        """Return the labels, unobserved where their position has no weight."""
        if self.position_weights is None:
            return self.labels
        return np.where(self.position_weights > 0, self.labels, np.int32(UNOBSERVED))

    def row_weights(self) -> NDArray[np.float64]:
        """Return the weight of each row: that of its sequence times that of its position."""
        weights = np.repeat(self.weights, self.batch.lengths)
        return weights if self.position_weights is None else weights * self.position_weights

    def check_observed(self, what: str, cure: str = "use contexts='all'") -> None:
        """Raise InputError at the first unobserved label, which ``what`` needs."""
        check_observed(self.labels, self.batch.offsets, what, cure, self.name, self.numbers)

    def check_no_sets(self, what: str, cure: str) -> None:
        """Raise InputError at the first set of labels, with which ``what`` cannot train."""
        if self.sets is not None:
            check_no_sets(self.labels, self.batch.offsets, what, cure, self.name, self.numbers)

    def check_possible(
        self, table: NDArray[np.float64], end: NDArray[np.float64], order: int, classes: list[Any]
    ) -> None:
        """Raise InputError if labels break a forbidden transition, with the number that the user knows."""
        where = self.labels, self.batch.offsets
        raise_if_forbidden(*where, table, order, end, classes, sets=self.sets, named=self._named)

    def check_lasting(
        self, table: NDArray[np.float64], end: NDArray[np.float64], durations: NDArray[np.int64], n_labels: int
    ) -> None:
        """Raise InputError if the observed labels of a sequence cannot keep to durations and transitions."""
        blank = np.zeros((n_labels, self.batch.n_rows, 1), dtype=np.float32)
        limits = np.where(np.isinf(table), table, 0.0)
        chain = DurationPotentials(blank, limits, self.batch.offsets, 1, end, durations)
        impossible = np.flatnonzero(np.isinf(log_partition(chain, labels=self.labels, allow_impossible=True)))
        if impossible.size:
            raise InputError(
                f"no labels that agree with the observed ones of {self._named(int(impossible[0]))} keep to "
                f"min_duration and transitions; relax these, or drop the sequence"
            )

    def _named(self, sequence: int) -> str:
        return f"{self.name}[{sequence if self.numbers is None else self.numbers[sequence]}]"

    def check_durations(self, durations: NDArray[np.int64], classes: list[Any]) -> None:
        """Raise InputError if a run of labels is shorter than ``durations``, with the number that the user knows."""
        raise_if_short(self.labels, self.batch.offsets, durations, classes, name=self.name, numbers=self.numbers)
