"""Columns of a linear model: indicators of categories, and numbers of mean 0 and standard deviation 1.

A row is a short list of (column, value) pairs, most of them indicators::

    number x      value (x − mean) / deviation, within the range of training; missing: 0, and an indicator of its own
    category      an indicator of the category; missing: one of its own; unknown at prediction: nothing
    sparse x      value x / root mean square of the column, so that an indicator is 1; range and missing: as for numbers

A *feature* of the linear model is a column at an offset of its window. The window is looked up, never copied: position
t sees the pairs of row t + o at offset o. Beyond the ends of the sequence there are no pairs, but one indicator for
each offset. Only features that were seen in training exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ModelFileError
from seqboost.core.offsets import position_bounds, starts_of
from seqboost.core.stored import LARGEST_SCORE
from seqboost.features.binner import FeatureBinner
from seqboost.features.categories import category_lookup
from seqboost.features.layout import CATEGORICAL, NUMERIC
from seqboost.sequences import SequenceBatch

__all__ = ["LinearColumns", "LinearRows"]

ABSENT = -1  # no such column, no such feature
MAX_VALUE = 1e6  # of a model file: n standardised numbers lie within the square root of n


@dataclass(frozen=True, eq=False)
class LinearRows:
    """Rows as lists of (column, value) pairs.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_rows + 1,)
        Pairs of row r are ``indptr[r] : indptr[r + 1]``.
    column : ndarray of int32, shape (n_pairs,)
        −1 for a category that training did not have.
    value : ndarray of float32, shape (n_pairs,)
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where sequences begin.
    """

    indptr: NDArray[np.int64]
    column: NDArray[np.int32]
    value: NDArray[np.float32]
    offsets: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of positions."""
        return len(self.indptr) - 1

    def take(self, sequences: NDArray[np.intp]) -> tuple[LinearRows, NDArray[np.int64]]:
        """Return the rows of some sequences, and their numbers."""
        rows, offsets = _spread(self.offsets, sequences)
        pairs, indptr = _spread(self.indptr, rows)
        return LinearRows(indptr, self.column[pairs], self.value[pairs], offsets), rows

    @staticmethod
    def concatenate(first: LinearRows, second: LinearRows) -> LinearRows:
        """Return the sequences of ``first``, then those of ``second``."""
        return LinearRows(
            np.concatenate([first.indptr, second.indptr[1:] + first.indptr[-1]]),
            np.concatenate([first.column, second.column]),
            np.concatenate([first.value, second.value]),
            np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]]),
        )


@dataclass(frozen=True, eq=False)
class LinearColumns:
    """Turn batches into rows of a linear model; hold its features.

    Columns are numbered: value and missing indicator of each numeric column; categories and missing indicator of each
    categorical column; sparse columns; missing indicators of sparse columns.

    Attributes
    ----------
    binner : FeatureBinner
        Knows categories and windows.
    mean, scale, low, high : ndarray of float64, shape (n_numeric,)
        Of the numeric columns in training; ``low`` and ``high`` are standardised.
    sparse_scale, sparse_limit : ndarray of float64, shape (n_sparse_columns,)
        Root mean squares of the sparse columns, and their largest absolute values after division by these.
    offsets : ndarray of int32, shape (n_offsets,)
        Offsets of all windows together, increasing.
    feature_of : ndarray of int32, shape (n_offsets, n_columns)
        Feature of each column at each offset, −1 = none.
    boundary : ndarray of int32, shape (n_offsets,)
        Feature of "beyond the end of the sequence" at each offset, −1 = none.
    """

    binner: FeatureBinner
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sparse_scale: NDArray[np.float64]
    sparse_limit: NDArray[np.float64]
    offsets: NDArray[np.int32]
    feature_of: NDArray[np.int32]
    boundary: NDArray[np.int32]

    @classmethod
    def fit(cls, batch: SequenceBatch, binner: FeatureBinner) -> LinearColumns:
        """Learn scales and features from training sequences.

        Parameters
        ----------
        batch : SequenceBatch
            Training sequences.
        binner : FeatureBinner
            Fitted to them.
        """
        filled = binner.filled(batch)
        mean, scale, low, high = (np.array(part) for part in _standard(binner.numbers(filled)))
        sparse_scale, sparse_limit = _root_mean_squares(filled)
        offsets = np.unique(np.concatenate(binner.windows)).astype(np.int32)
        n_columns = _column_counts(binner, len(sparse_scale)).sum()
        blank = np.full((len(offsets), n_columns), ABSENT, dtype=np.int32)
        columns = cls(
            binner, mean, scale, low, high, sparse_scale, sparse_limit, offsets, blank, np.full_like(offsets, ABSENT)
        )
        rows = columns.transform(batch)
        feature_of, boundary = _seen_features(rows, offsets, columns.windows())
        return replace(columns, feature_of=feature_of, boundary=boundary)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(max(self.feature_of.max(initial=ABSENT), self.boundary.max(initial=ABSENT))) + 1

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """First columns of the numeric columns, each categorical column, the sparse ones, their missing indicators."""
        return starts_of(_column_counts(self.binner, len(self.sparse_scale)))

    def windows(self) -> NDArray[np.bool_]:
        """Return whether the window of a column has an offset, (n_offsets, n_columns)."""
        binner, starts = self.binner, self._starts
        seen = np.array([np.isin(self.offsets, window) for window in binner.windows]).T  # (n_offsets, columns + 1)
        allowed = np.empty((len(self.offsets), starts[-1]), dtype=np.bool_)
        allowed[:, : starts[1]] = np.repeat(seen[:, :-1][:, binner.column_kinds == NUMERIC], 2, axis=1)
        for j, column in enumerate(np.flatnonzero(binner.column_kinds == CATEGORICAL)):
            allowed[:, starts[1 + j] : starts[2 + j]] = seen[:, [column]]
        allowed[:, starts[-3] :] = seen[:, [-1]]
        return allowed

    def transform(self, batch: SequenceBatch) -> LinearRows:
        """Turn a batch, read with the schema of the training data, into rows."""
        batch = self.binner.filled(batch)
        numeric, known = self.binner.numbers(batch), self.binner._category_codes
        n_numeric, n_dense = numeric.shape[1], numeric.shape[1] + len(known)
        counts = np.full(batch.n_rows, n_dense, dtype=np.int64)
        if batch.sparse is not None:
            counts += np.diff(batch.sparse.indptr)
        indptr = starts_of(counts)
        column = np.empty(indptr[-1], dtype=np.int32)
        value = np.ones(indptr[-1], dtype=np.float32)
        for j in range(n_numeric):
            at, x = indptr[:-1] + j, numeric[:, j]
            missing = np.isnan(x)
            with np.errstate(over="ignore"):  # what is too large is clipped
                standard = np.clip((x - self.mean[j]) / self.scale[j], self.low[j], self.high[j])
            column[at] = 2 * j + missing
            value[at] = np.where(missing, 1.0, standard)
        for j, codes in enumerate(known):
            lookup = category_lookup(batch.categories[j], codes, missing=len(codes), unknown=ABSENT)
            lookup[lookup >= 0] += np.int32(self._starts[1 + j])
            column[indptr[:-1] + n_numeric + j] = lookup[batch.categorical[:, j]]
        if batch.sparse is not None:
            entries = batch.sparse.indices.astype(np.int64)
            at = np.arange(len(entries)) + n_dense * (1 + np.repeat(np.arange(batch.n_rows), counts - n_dense))
            x = batch.sparse.data.astype(np.float64)
            missing = np.isnan(x)
            column[at] = entries + np.where(missing, self._starts[-2], self._starts[-3])
            limit = self.sparse_limit[entries]
            with np.errstate(over="ignore"):
                value[at] = np.where(missing, 1.0, np.clip(x / self.sparse_scale[entries], -limit, limit))
        return LinearRows(indptr, column, value, np.asarray(batch.offsets, dtype=np.int64))

    # ------------------------------------------------------------------------------------------------ model file

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, except those of the binner."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], binner: FeatureBinner) -> LinearColumns:
        """Rebuild from the result of `to_arrays`; ModelFileError if an array is missing or does not fit the binner."""
        for name, (dtype, n_axes) in ARRAYS.items():
            if name not in arrays:
                raise damaged(f"the array {name!r} is missing")
            if arrays[name].dtype != np.dtype(dtype) or arrays[name].ndim != n_axes:
                raise damaged(f"the array {name!r} is not of {n_axes} dimension(s) of {np.dtype(dtype)}")
        columns = cls(binner, **{name: arrays[name] for name in ARRAYS})
        n_numeric = int(np.count_nonzero(binner.column_kinds == NUMERIC))
        n_offsets, n_columns = len(columns.offsets), columns._starts[-1]
        shapes_fit = (
            all(getattr(columns, name).shape == (n_numeric,) for name in ("mean", "scale", "low", "high"))
            and columns.sparse_scale.shape == columns.sparse_limit.shape == binner.indicators.feature_of.shape
            and columns.feature_of.shape == (n_offsets, n_columns)
            and columns.boundary.shape == (n_offsets,)
        )
        if not shapes_fit:
            raise damaged("its arrays do not have the shapes that its columns ask for")
        numbers = np.concatenate([getattr(columns, name) for name, (dtype, _) in ARRAYS.items() if dtype is np.float64])
        if not np.isfinite(numbers).all() or (columns.scale <= 0).any() or (columns.sparse_scale <= 0).any():
            raise damaged("a mean or a scale is not a possible one")
        limits = (columns.low, columns.high, columns.sparse_limit)
        if max(np.abs(limit).max(initial=0.0) for limit in limits) > MAX_VALUE or (columns.low > columns.high).any():
            raise damaged("the range of a column is not a possible one")
        if np.abs(columns.offsets.astype(np.int64)).max(initial=0) > np.abs(np.concatenate(binner.windows)).max():
            raise damaged("it looks beyond the window")
        if (np.diff(columns.offsets) <= 0).any() or not len(columns.offsets):
            raise damaged("its offsets do not rise")
        used = np.concatenate([columns.feature_of.reshape(-1), columns.boundary])
        if used.min(initial=ABSENT) < ABSENT:
            raise damaged("a feature has a negative number")
        used = np.sort(used[used != ABSENT])
        if len(used) != columns.n_features or not np.array_equal(used, np.arange(len(used))):
            raise damaged("its columns do not fit its features: one has no column, or two")
        return columns

    def check_weights(self, largest: NDArray[np.floating]) -> None:
        """Refuse weights of a model file, given by the largest of each feature, that could make scores overflow."""
        n_numeric = len(self.mean)
        limit = np.ones(self.feature_of.shape[1])
        limit[: 2 * n_numeric : 2] = np.maximum(np.abs(self.low), np.abs(self.high))
        limit[self._starts[-3] : self._starts[-2]] = np.abs(self.sparse_limit)
        of_feature = np.ones(self.n_features)
        offset, column = np.nonzero(self.feature_of >= 0)
        of_feature[self.feature_of[offset, column]] = limit[column]
        if (largest.astype(np.float64) * of_feature > LARGEST_SCORE).any():
            raise damaged(f"a weight makes scores above {LARGEST_SCORE:g}")


ARRAYS: dict[str, tuple[type[np.generic], int]] = {
    "mean": (np.float64, 1),
    "scale": (np.float64, 1),
    "low": (np.float64, 1),
    "high": (np.float64, 1),
    "sparse_scale": (np.float64, 1),
    "sparse_limit": (np.float64, 1),
    "offsets": (np.int32, 1),
    "feature_of": (np.int32, 2),
    "boundary": (np.int32, 1),
}


def _spread(starts: NDArray[np.int64], taken: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the elements of some stretches, and where each stretch begins among these."""
    sizes = starts[taken + 1] - starts[taken]
    begins = starts_of(sizes)
    return np.arange(begins[-1]) + np.repeat(starts[taken] - begins[:-1], sizes), begins


def damaged(complaint: str) -> ModelFileError:
    """Return the exception for a model file whose linear part cannot be right."""
    return ModelFileError(f"the linear part of this model makes no sense: {complaint}; save the model again")


def _column_counts(binner: FeatureBinner, n_sparse: int) -> NDArray[np.int64]:
    """Return the numbers of columns: numeric, of each categorical column, sparse, and for missing sparse values."""
    n_numeric = int(np.count_nonzero(binner.column_kinds == NUMERIC))
    return np.array([2 * n_numeric, *(len(c) + 1 for c in binner.categories), n_sparse, n_sparse], dtype=np.int64)


def _standard(numeric: NDArray[np.float64]) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return mean, deviation, and smallest and largest standardised value of each column; constants become 0."""
    means, scales, lows, highs = [], [], [], []
    for x in numeric.T:
        known = x[~np.isnan(x)]
        largest = float(np.abs(known).max(initial=0.0)) or 1.0
        shrunk = known / largest  # squares of huge values would overflow
        mean, deviation = (float(shrunk.mean()), float(shrunk.std())) if known.size else (0.0, 0.0)
        scale = deviation * largest if deviation > 1e-12 else largest
        standard = (known - mean * largest) / scale
        means.append(mean * largest)
        scales.append(scale)
        lows.append(float(standard.min(initial=0.0)))
        highs.append(float(standard.max(initial=0.0)))
    return means, scales, lows, highs


def _root_mean_squares(batch: SequenceBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the root mean square of each sparse column, without zeros and missing values, and its largest over it."""
    if batch.sparse is None:
        return np.empty(0), np.empty(0)
    data, indices, n_columns = batch.sparse.data.astype(np.float64), batch.sparse.indices, batch.sparse.shape[1]
    stored = (data != 0) & ~np.isnan(data)
    largest = np.zeros(n_columns)
    np.maximum.at(largest, indices[stored], np.abs(data[stored]))
    largest[largest == 0] = 1.0
    shrunk = data[stored] / largest[indices[stored]]  # as in `_standard`
    count = np.bincount(indices[stored], minlength=n_columns)
    squares = np.bincount(indices[stored], weights=shrunk**2, minlength=n_columns)
    shrunk_scale = np.where(count > 0, np.sqrt(squares / np.maximum(count, 1)), 1.0)
    return shrunk_scale * largest, 1.0 / shrunk_scale


def _seen_features(
    rows: LinearRows, offsets: NDArray[np.int32], windows: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return `feature_of` and `boundary`: numbers of the (offset, column) pairs that some position sees."""
    n_offsets, n_columns = windows.shape
    seen = np.zeros((n_offsets, n_columns + 1), dtype=np.bool_)  # the last one: beyond the end
    (begin, stop), row = position_bounds(rows.offsets), np.arange(rows.n_rows)
    n_pairs = np.diff(rows.indptr)
    for o, offset in enumerate(offsets):
        looked_at = (row - offset >= begin) & (row - offset < stop)  # row r is what row r − offset sees
        seen[o, rows.column[np.repeat(looked_at, n_pairs)]] = True
        seen[o, -1] = offset != 0
    seen[:, :-1] &= windows
    numbers = np.where(seen, np.cumsum(seen).reshape(seen.shape) - 1, ABSENT).astype(np.int32)
    return np.ascontiguousarray(numbers[:, :-1]), np.ascontiguousarray(numbers[:, -1])
