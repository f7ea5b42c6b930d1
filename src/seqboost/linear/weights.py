"""Weights of a linear model and its two products: rows · weights → scores, rowsᵀ · gradient → gradient of the weights.

    score_t(k) = Σ_o Σ_{(j, x) in row t+o} x · w(feature(o, j), k)

A feature has weights for some labels only (those it was seen with), laid end to end::

    weights of feature f     start[f] : start[f + 1]        label, value
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.offsets import position_bounds, starts_of
from seqboost.core.threads import run_tasks
from seqboost.linear.columns import LinearColumns, LinearRows, damaged
from seqboost.linear.kernels import boundary_gradient, linear_gradient, linear_scores, seen_labels, sort_by_column

__all__ = ["LinearGradient", "LinearWeights"]

SEQUENCES_PER_TASK = 64
COLUMNS_PER_TASK = 4096


@dataclass(frozen=True, eq=False)
class LinearWeights:
    """Weights of the features of a linear model.

    Attributes
    ----------
    columns : LinearColumns
        The features.
    n_labels : int
    start : ndarray of int64, shape (n_features + 1,)
    label : ndarray of int32, shape (n_weights,)
        Increasing within a feature.
    value : ndarray of float32, shape (n_weights,)
    """

    columns: LinearColumns
    n_labels: int
    start: NDArray[np.int64]
    label: NDArray[np.int32]
    value: NDArray[np.float32]

    @classmethod
    def dense(cls, columns: LinearColumns, value: NDArray[np.floating]) -> LinearWeights:
        """Make weights of all features for all labels, (n_features, n_labels)."""
        n_features, n_labels = value.shape
        start = np.arange(0, n_features * n_labels + 1, n_labels, dtype=np.int64)
        label = np.tile(np.arange(n_labels, dtype=np.int32), n_features)
        return cls(columns, n_labels, start, label, np.ascontiguousarray(value, dtype=np.float32).reshape(-1))

    def with_value(self, value: NDArray[Any]) -> LinearWeights:
        """Return the same features with other weights."""
        return replace(self, value=value.astype(np.float32))

    def scores(self, rows: LinearRows, n_threads: int = 1) -> NDArray[np.float32]:
        """Score all rows, (n_labels, n_rows, 1); the result does not depend on the number of threads."""
        scores = np.empty((self.n_labels, rows.n_rows, 1), dtype=np.float32)
        n_sequences, columns = len(rows.offsets) - 1, self.columns
        tasks = [
            (
                (first, min(first + SEQUENCES_PER_TASK, n_sequences), 0), rows.offsets, rows.indptr, rows.column,
                rows.value, columns.offsets, columns.feature_of, columns.boundary, self.start, self.label, self.value,
                np.empty(self.n_labels), scores.reshape(self.n_labels, -1),
            )
            for first in range(0, n_sequences, SEQUENCES_PER_TASK)
        ]  # fmt: skip
        run_tasks(linear_scores, tasks, n_threads)
        return scores

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, including those of the columns."""
        own: dict[str, NDArray[Any]] = {"start": self.start, "label": self.label, "value": self.value}
        return own | {f"columns_{name}": array for name, array in self.columns.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], binner: Any, n_labels: int) -> LinearWeights:
        """Rebuild from the result of `to_arrays`; every number is checked, so that no forged file can reach a kernel.

        Raises
        ------
        ModelFileError
            If an array is missing, of the wrong type or shape, or holds an impossible number.
        """
        prefix = "columns_"
        named = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        columns = LinearColumns.from_arrays(named, binner)
        for name, dtype in (("start", np.int64), ("label", np.int32), ("value", np.float32)):
            if name not in arrays or arrays[name].dtype != np.dtype(dtype) or arrays[name].ndim != 1:
                raise damaged(f"the array {name!r} is missing, or not one dimension of {np.dtype(dtype)}")
        start, label, value = arrays["start"], arrays["label"], arrays["value"]
        rises = len(start) == columns.n_features + 1 and start[0] == 0 and bool((np.diff(start) >= 0).all())
        if not rises or start[-1] != len(label) or len(label) != len(value):
            raise damaged("its weights do not fit its features")
        if len(label) and (label.min() < 0 or label.max() >= n_labels):
            raise damaged("a weight belongs to a label that does not exist")
        if (np.diff(np.repeat(np.arange(columns.n_features), np.diff(start)) * n_labels + label) <= 0).any():
            raise damaged("the labels of a feature's weights do not rise")
        return cls(columns, n_labels, start, label, value).checked(value)

    def checked(self, value: NDArray[np.float32]) -> LinearWeights:
        """Return the same features with other weights of a model file; ModelFileError if they are impossible."""
        if not np.isfinite(value).all():
            raise damaged("a weight is not finite")
        largest = np.zeros(self.columns.n_features, dtype=np.float32)
        weighted = np.diff(self.start) > 0
        if weighted.any():
            largest[weighted] = np.maximum.reduceat(np.abs(value), self.start[:-1][weighted])
        self.columns.check_weights(largest)
        return replace(self, value=value)


class LinearGradient:
    """Sum over training rows, feature by feature: the labels it is seen with, and the gradient of its weights.

    Rows are sorted by column once; threads then sum different features, each in the order of rows.

    Parameters
    ----------
    columns : LinearColumns
        The features.
    rows : LinearRows
        Training sequences, and optionally others after them.
    n_sequences : int
        Number of training sequences.
    """

    def __init__(self, columns: LinearColumns, rows: LinearRows, n_sequences: int) -> None:
        self._columns = columns
        self._sequences = rows.offsets[: n_sequences + 1]
        n_rows = int(self._sequences[-1])
        begin, stop = position_bounds(self._sequences)
        self._position = (np.arange(n_rows) - begin).astype(np.int32)
        self._remaining = (stop - np.arange(n_rows)).astype(np.int32)
        column = rows.column[: rows.indptr[n_rows]]
        n_columns = columns.feature_of.shape[1]
        counts = np.bincount(column[column >= 0], minlength=n_columns)
        self._start = starts_of(counts)
        self._row = np.empty(self._start[-1], dtype=np.int32)
        self._value = np.empty(self._start[-1], dtype=np.float32)
        sort_by_column(rows.indptr[: n_rows + 1], column, rows.value, self._start[:-1].copy(), self._row, self._value)

    def label_pairs(
        self, labels: NDArray[np.int32], n_labels: int, all_from: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the labels each feature has weights for: those it was seen with, or all from ``all_from`` rows on.

        Returns
        -------
        start : ndarray of int64, shape (n_features + 1,)
        label : ndarray of int32, shape (n_weights,)
        """
        columns, n_rows = self._columns, len(self._position)
        taken = np.zeros((columns.n_features, -(-n_labels // 8)), dtype=np.uint8)
        count = np.zeros(columns.n_features, dtype=np.int64)
        seen_labels(
            self._start, self._row, self._position, self._remaining, self._sequences, columns.offsets,
            columns.feature_of, columns.boundary, np.ascontiguousarray(labels[:n_rows]), taken, count,
        )  # fmt: skip
        taken[count >= all_from] = 255
        bits = np.unpackbits(taken, axis=1, bitorder="little")[:, :n_labels]
        start = starts_of(bits.sum(axis=1, dtype=np.int64))
        return start, np.nonzero(bits)[1].astype(np.int32)

    def __call__(
        self, weights: LinearWeights, gradient: NDArray[np.float32], n_threads: int = 1, *, squared: bool = False
    ) -> NDArray[np.float64]:
        """Return Σ_t x_t · gradient_t(k) of each weight, (n_weights,); with ``squared``, of x² instead of x.

        Parameters
        ----------
        weights : LinearWeights
            Which weights there are.
        gradient : ndarray of float32, shape (n_labels, n_rows, 1)
            Gradient of the scores.
        n_threads : int, default=1
            The result does not depend on it.
        """
        columns, n_rows = self._columns, len(self._position)
        by_row = np.ascontiguousarray(gradient[:, :n_rows, 0].T)
        total = np.zeros(len(weights.label))
        n_columns = columns.feature_of.shape[1]
        common = (
            self._start, self._row, self._value**2 if squared else self._value, self._position, self._remaining,
            columns.offsets, columns.feature_of, weights.start, weights.label, by_row,
        )  # fmt: skip
        tasks = [
            ((first, min(first + COLUMNS_PER_TASK, n_columns)), *common, np.empty(weights.n_labels), total)
            for first in range(0, n_columns, COLUMNS_PER_TASK)
        ]
        run_tasks(linear_gradient, tasks, n_threads)
        boundary_gradient(
            self._sequences, columns.offsets, columns.boundary, weights.start, weights.label, by_row, total
        )
        return total
