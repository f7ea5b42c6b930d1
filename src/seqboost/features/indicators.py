"""Sparse columns: indicators and sparse numbers become slots.

The slots of a column, in increasing order of the values they stand for::

    negative bins | (absent: no slot) | bins from zero on | missing (explicit NaN, if training had any)

A column whose values are all the same is an indicator: one slot. No bin holds values of both signs, so "absent" has a
place of its own among them, `absent_rank` = number of negative bins. A stored zero is a value like others if training
had one in that column (rare keys of dicts, where 0 is not the same as no value), and otherwise as good as absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError
from seqboost.core.jit import jit
from seqboost.core.offsets import starts_of
from seqboost.core.stored import Stored
from seqboost.features.binning import MAX_NUMERIC_BINS, find_thresholds, rise_within

__all__ = ["IndicatorCoder"]


@dataclass(frozen=True, eq=False)
class IndicatorCoder:
    """Slots of sparse columns; one feature for each column that is kept.

    Attributes
    ----------
    feature_of : ndarray of shape (n_columns,), dtype int32
        Feature of each column, -1 if it was dropped.
    n_negative, n_positive : ndarray of shape (n_features,), dtype int32
        Number of bins below zero, and from zero on.
    has_missing : ndarray of shape (n_features,), dtype uint8
        Whether there is a slot for missing values.
    has_zero : ndarray of shape (n_features,), dtype uint8
        Whether a stored zero is a value of its own; if not, it counts as absent.
    thresholds : ndarray, dtype float64
        For each feature the thresholds between its negative bins, then those between its positive ones.
    threshold_start : ndarray of shape (n_features + 1,), dtype int64
    """

    feature_of: NDArray[np.int32]
    n_negative: NDArray[np.int32]
    n_positive: NDArray[np.int32]
    has_missing: NDArray[np.uint8]
    has_zero: NDArray[np.uint8]
    thresholds: NDArray[np.float64]
    threshold_start: NDArray[np.int64]

    @classmethod
    def fit(cls, sparse: Any, max_bins: int, min_count: int) -> IndicatorCoder:
        """Find the slots of each column that is present in at least `min_count` rows.

        Parameters
        ----------
        sparse : scipy.sparse array of shape (n_rows, n_columns), or None
        max_bins : int
            Largest number of bins of a column of numbers.
        min_count : int
        """
        if sparse is None:
            nothing, none = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8)
            return cls(nothing, nothing, nothing, none, none, np.empty(0), np.zeros(1, dtype=np.int64))
        by_column = sparse.tocsc(copy=True)
        by_column.sum_duplicates()
        values = by_column.data
        start = by_column.indptr.astype(np.int64)
        kept = np.flatnonzero(np.diff(start) >= max(min_count, 1))
        feature_of = np.full(by_column.shape[1], -1, dtype=np.int32)
        feature_of[kept] = np.arange(kept.size)
        smallest, largest = _extremes(values, start, kept)
        # NaN is equal to nothing, so columns with missing values are not constant.
        n_negative = (largest < 0).astype(np.int32)
        n_positive = (smallest >= 0).astype(np.int32)
        has_missing = np.zeros(kept.size, dtype=np.uint8)
        cuts: list[NDArray[np.float64]] = [np.empty(0)] * kept.size
        for feature in np.flatnonzero(smallest != largest):
            column = values[start[kept[feature]] : start[kept[feature] + 1]]
            below, above = _split_bins(column, max_bins)
            n_negative[feature], n_positive[feature] = below[0], above[0]
            cuts[feature] = np.concatenate([below[1], above[1]])
            has_missing[feature] = np.isnan(column).any()
        with_zero = np.searchsorted(start, np.flatnonzero(values == 0), side="right") - 1
        has_zero = np.isin(kept, with_zero).astype(np.uint8)
        threshold_start = starts_of([cut.size for cut in cuts])
        thresholds = np.concatenate([np.empty(0), *cuts])
        return cls(feature_of, n_negative, n_positive, has_missing, has_zero, thresholds, threshold_start)

    @property
    def n_features(self) -> int:
        """Number of columns kept."""
        return self.n_negative.size

    @property
    def kept(self) -> NDArray[np.intp]:
        """Columns kept, in increasing order."""
        return np.flatnonzero(self.feature_of >= 0)

    @property
    def n_slots(self) -> NDArray[np.int32]:
        """Number of slots of each feature."""
        return (self.n_negative + self.n_positive + self.has_missing).astype(np.int32)

    @property
    def missing_slot(self) -> NDArray[np.int32]:
        """Which slot of each feature stands for missing values, its last; -1: none does."""
        return np.where(self.has_missing != 0, self.n_slots - 1, -1).astype(np.int32)

    def encode(self, sparse: Any, slot_start: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Slots of each row, as a CSR pair (indptr, slots).

        Parameters
        ----------
        sparse : scipy.sparse array of shape (n_rows, n_columns)
        slot_start : ndarray of shape (n_features + 1,), dtype int32
            First slot of each feature.
        """
        if sparse.shape[1] != self.feature_of.size:
            raise InputError(
                f"X has {sparse.shape[1]} indicator columns, but the model was trained with {self.feature_of.size}; "
                f"make the batch with the schema of the training data."
            )
        rows = sparse.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        slots = np.empty(rows.nnz, dtype=np.int32)
        encode_entries(
            np.ascontiguousarray(rows.indices, dtype=np.int32),
            np.ascontiguousarray(rows.data, dtype=np.float64),
            self.feature_of,
            self.n_negative,
            self.n_positive,
            self.has_missing,
            self.has_zero,
            self.thresholds,
            self.threshold_start,
            slot_start,
            slots,
        )
        present = slots >= 0
        kept_before = starts_of(present)
        return kept_before[rows.indptr], slots[present]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, stored: Stored) -> IndicatorCoder:
        """Rebuild from what `to_arrays` gave; ModelFileError unless every slot is one that the arrays account for."""
        negative = stored.array("indicators_n_negative", np.int32, (None,), low=0, high=MAX_NUMERIC_BINS)
        n = negative.size
        positive = stored.array("indicators_n_positive", np.int32, (n,), low=0, high=MAX_NUMERIC_BINS)
        has_missing = stored.array("indicators_has_missing", np.uint8, (n,), low=0, high=1)
        has_zero = stored.array("indicators_has_zero", np.uint8, (n,), low=0, high=1)
        stored.require(np.all(negative + positive + has_missing > 0), "a sparse column has no slot")
        feature_of = stored.array("indicators_feature_of", np.int32, (None,), low=-1)
        in_order = np.array_equal(feature_of[feature_of >= 0], np.arange(n))
        stored.require(in_order, "the sparse columns and their features differ in number or order")
        thresholds = stored.array("indicators_thresholds", np.float64, (None,))
        start = stored.starts("indicators_threshold_start", n, thresholds.size)
        of_sides = np.maximum(np.column_stack([negative, positive]) - 1, 0)
        fits = np.array_equal(np.diff(start), of_sides.sum(axis=1))
        stored.require(fits, "a sparse column does not have a threshold between each two bins")
        sides = np.append(0, np.cumsum(of_sides.reshape(-1)))
        stored.require(rise_within(thresholds, sides), "thresholds of a sparse column do not rise")
        return cls(feature_of, negative, positive, has_missing, has_zero, thresholds, start)


def _extremes(
    values: NDArray[np.floating], start: NDArray[np.int64], kept: NDArray[np.intp]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Find the smallest and largest value of each column kept; NaN if it has a missing one."""
    filled = np.flatnonzero(np.diff(start) > 0)  # reduceat misreads empty stretches
    if filled.size == 0:
        return np.empty(0), np.empty(0)
    where = np.searchsorted(filled, kept)
    smallest: NDArray[np.floating] = np.minimum.reduceat(values, start[filled])[where]
    largest: NDArray[np.floating] = np.maximum.reduceat(values, start[filled])[where]
    return smallest, largest


def _split_bins(
    values: NDArray[np.floating], max_bins: int
) -> tuple[tuple[int, NDArray[np.float64]], tuple[int, NDArray[np.float64]]]:
    """Give the number of bins and thresholds of a column's negative values, then of the others.

    Bins are shared out in proportion to the number of values of either sign, at least one each.
    """
    sides: Sequence[NDArray[np.floating]] = (values[values < 0], values[values >= 0])
    distinct = [np.unique(side).size for side in sides]
    limits = list(distinct)
    if sum(distinct) > max_bins:
        share = round(max_bins * sides[0].size / (sides[0].size + sides[1].size))
        below = min(max(share, 1), max_bins - 1) if min(distinct) > 0 else share
        limits = [below, max_bins - below]
    cuts = [find_thresholds(side, max(limit, 1)) for side, limit in zip(sides, limits, strict=True)]
    below_bins, above_bins = (cut.size + (side.size > 0) for cut, side in zip(cuts, sides, strict=True))
    return (int(below_bins), cuts[0]), (int(above_bins), cuts[1])


@jit
def encode_entries(
    column: NDArray[np.int32],  # IN (n_entries,)
    value: NDArray[np.float64],  # IN (n_entries,)
    feature_of: NDArray[np.int32],  # IN (n_columns,)
    n_negative: NDArray[np.int32],  # IN (n_features,)
    n_positive: NDArray[np.int32],  # IN (n_features,)
    has_missing: NDArray[np.uint8],  # IN (n_features,)
    has_zero: NDArray[np.uint8],  # IN (n_features,)
    thresholds: NDArray[np.float64],  # IN (n_thresholds,)
    threshold_start: NDArray[np.int64],  # IN (n_features + 1,)
    slot_start: NDArray[np.int32],  # IN (n_features + 1,)
    slots: NDArray[np.int32],  # OUT (n_entries,) slot, or -1 if the entry counts as absent
) -> None:
    """Find the slot of each stored entry; b(x) = #{i : t_i < x} among the bins of x's sign."""
    for entry in range(column.size):
        slots[entry] = -1
        feature = feature_of[column[entry]]
        x = value[entry]
        if feature < 0 or (x == 0 and not has_zero[feature]):
            continue
        if x != x:
            if has_missing[feature]:
                slots[entry] = slot_start[feature + 1] - 1
            continue
        first = threshold_start[feature]
        before = 0
        bins = n_negative[feature]
        if x >= 0:
            first += max(bins - 1, 0)
            before = bins
            bins = n_positive[feature]
        if bins == 0:  # training had no value of this sign: the nearest thing to it is "absent"
            continue
        low, high = first, first + bins - 1
        while low < high:
            middle = (low + high) >> 1
            if thresholds[middle] < x:
                low = middle + 1
            else:
                high = middle
        slots[entry] = slot_start[feature] + before + (low - first)
