"""Slow twins of this package's code: plain loops over Python values, used by tests only."""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from seqboost.features.binner import FeatureBinner
from seqboost.features.categories import MAX_DENSE_CATEGORIES, NoValue
from seqboost.features.layout import CATEGORICAL, FeatureLayout
from seqboost.features.rows import BinnedRows
from seqboost.sequences import SequenceBatch

__all__ = [
    "ABSENT",
    "category_code",
    "cell_values",
    "expected_window_value",
    "reference_filled",
    "reference_rows",
    "reference_thresholds",
    "window_value",
]

ABSENT = -1  # value of a sparse window feature that has no slot in a row


def reference_thresholds(values: Sequence[float], max_bins: int) -> list[float]:
    """Thresholds of a column: between all neighbours of few distinct values, at the quantiles of many."""
    ordered = sorted(float(value) for value in values if not math.isnan(value))
    distinct = sorted(set(ordered))
    pairs = list(zip(distinct, distinct[1:], strict=False))
    if len(distinct) > max_bins:
        quantiles = set()
        for i in range(1, max_bins):
            # The smallest value with at least a fraction i / max_bins of all values at or below it; where the fraction
            # is met exactly, the mean of that value and the next.
            whole, rest = divmod(len(ordered) * i, max_bins)
            quantiles.add((ordered[whole - 1] + ordered[whole]) / 2 if rest == 0 else ordered[whole])
        pairs = [(a, b) for a, b in pairs if any(a <= quantile < b for quantile in quantiles)]
    thresholds = [_reference_threshold(a, b) for a, b in pairs]
    bins = {count_below(thresholds, x) for x in distinct}
    if len(bins) == len(pairs) + 1 or not distinct:
        return thresholds
    return [_middle(a, b) for a, b in pairs]


def _middle(a: float, b: float) -> float:
    middle = a / 2 + b / 2
    return middle if a <= middle < b else a


def _reference_threshold(a: float, b: float) -> float:
    """Largest float64 that rounds to the float32 nearest to the midpoint, or to one that is nearer to a."""
    single, beyond = _rounded(_middle(a, b)), _rounded(b)
    if single == beyond:
        with np.errstate(over="ignore"):
            single = max(_rounded(a), float(np.nextafter(np.float32(beyond), np.float32(-np.inf))))
    if single == math.inf:
        return sys.float_info.max
    low, high = a, b
    while _rounded(high) <= single:  # float32 does not tell a and b apart
        high += abs(high) + 1e-45
    while math.nextafter(low, math.inf) < high:  # low rounds to `single` or less, high to more
        middle = _middle(low, high)
        middle = middle if low < middle else math.nextafter(low, math.inf)
        low, high = (middle, high) if _rounded(middle) <= single else (low, middle)
    return low


def _rounded(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def count_below(thresholds: Iterable[float], x: float) -> int:
    """Code of a value: number of thresholds below it."""
    return sum(float(threshold) < float(x) for threshold in thresholds)


def reference_rows(binner: FeatureBinner, batch: SequenceBatch) -> list[tuple[list[int], list[int]]]:
    """Codes and slots of each position, without padding."""
    return [
        (_row_codes(binner, batch, row), sorted(_row_slots(binner, batch, row))) for row in range(batch.offsets[-1])
    ]


def _row_codes(binner: FeatureBinner, batch: SequenceBatch, row: int) -> list[int]:
    codes = []
    numeric = categorical = 0
    for kind in binner.column_kinds:
        if kind == CATEGORICAL:
            known = binner.categories[categorical]
            if len(known) <= MAX_DENSE_CATEGORIES:
                n_values = max(len(known), 1)
                codes.append(category_code(batch, row, categorical, known, n_values, n_values + 2))
            categorical += 1
        else:
            first, last = binner.threshold_start[numeric : numeric + 2]
            x = batch.numeric[row, numeric]
            codes.append(int(last - first) + 1 if math.isnan(x) else count_below(binner.thresholds[first:last], x))
            numeric += 1
    return codes


def category_code(batch: SequenceBatch, row: int, column: int, known: Sequence[Any], missing: int, unknown: int) -> int:
    """Return the number of a categorical value among the known ones, or ``missing``, or ``unknown``."""
    code = batch.categorical[row, column]
    if code < 0:
        return missing
    value = batch.categories[column][code]
    if value in known:
        return known.index(value)
    if not isinstance(value, float):
        return unknown
    same = [k for k, other in enumerate(known) if isinstance(other, float) and np.float32(other) == np.float32(value)]
    return same[0] if len(same) == 1 else unknown


def _row_slots(binner: FeatureBinner, batch: SequenceBatch, row: int) -> list[int]:
    slot_start = binner.layout.slot_start
    slots = []
    s = 0
    for column, known in enumerate(binner.categories):
        if len(known) > MAX_DENSE_CATEGORIES:
            code = category_code(batch, row, column, known, len(known), ABSENT)
            if code != ABSENT:
                slots.append(int(slot_start[s]) + code)
            s += 1
    if batch.sparse is None:
        return slots
    stored = batch.sparse[[row]].tocoo()
    cells: dict[int, float] = {}
    for column, x in zip(stored.coords[1].tolist(), stored.data.tolist(), strict=True):
        cells[column] = cells.get(column, 0.0) + x
    for feature, column in enumerate(binner.indicators.kept):
        local = _indicator_slot(binner, feature, cells[column]) if column in cells else ABSENT
        if local != ABSENT:
            slots.append(int(slot_start[s + feature]) + local)
    return slots


def _indicator_slot(binner: FeatureBinner, feature: int, x: float) -> int:
    coder = binner.indicators
    below, above = int(coder.n_negative[feature]), int(coder.n_positive[feature])
    cuts = list(coder.thresholds[coder.threshold_start[feature] : coder.threshold_start[feature + 1]])
    if x == 0 and not coder.has_zero[feature]:
        return ABSENT
    if math.isnan(x):
        return below + above if coder.has_missing[feature] else ABSENT
    if x < 0:
        return count_below(cuts[: max(below - 1, 0)], x) if below else ABSENT
    return below + count_below(cuts[max(below - 1, 0) :], x) if above else ABSENT


def cell_values(batch: SequenceBatch) -> dict[str, list[Any]]:
    """Values of every column, dense and sparse, by name; None = missing, 0.0 = absent."""
    columns: dict[str, list[Any]] = {}
    numeric = categorical = 0
    for column in batch.schema.columns:
        if column.kind == "categorical":
            values = batch.categories[categorical]
            columns[column.name] = [None if c < 0 else values[c] for c in batch.categorical[:, categorical].tolist()]
            categorical += 1
        else:
            columns[column.name] = [None if math.isnan(x) else x for x in batch.numeric[:, numeric].tolist()]
            numeric += 1
    if batch.sparse is not None:
        for j, name in enumerate(batch.schema.sparse_names):
            columns[name] = [None if math.isnan(x) else x for x in batch.sparse[:, [j]].toarray()[:, 0].tolist()]
    return columns


def reference_filled(train: SequenceBatch, batch: SequenceBatch, policies: Sequence[str]) -> dict[str, list[Any]]:
    """Values of every column of a batch after filling, by name; `policies` as for `Filler.fit`."""
    dense = {column.name: column.kind for column in train.schema.columns}
    of_column = dict(zip(dense, policies, strict=False))
    seen, columns = cell_values(train), cell_values(batch)
    filled, told = {}, {}
    for name, values in columns.items():
        policy, kind = of_column.get(name, policies[-1]), dense.get(name, "sparse")
        stand_in = _stand_in(seen[name], policy, kind)
        filled[name] = [stand_in if value is None else value for value in values]
        if policy == "indicator" and None in seen[name]:
            told[f"{name} is missing"] = [float(value is None) for value in values]
    return filled | told


def _stand_in(seen: Sequence[Any], policy: str, kind: str) -> Any:
    """Say what a missing value becomes; None: it stays missing."""
    present = [value for value in seen if value is not None]
    if policy not in ("impute", "impute_mean", "indicator"):
        return None
    if policy == "indicator" and kind != "numeric":
        return NoValue.MISSING if kind == "categorical" else 0.0
    if not present:
        return 0.0 if kind == "sparse" else None
    if kind == "categorical":
        counts = Counter(present)
        most = max(counts.values())
        return sorted((value for value in counts if counts[value] == most), key=lambda v: (isinstance(v, str), v))[0]
    return statistics.fmean(present) if policy == "impute_mean" else statistics.median(present)


def window_value(binned: BinnedRows, row: int, feature: int) -> int:
    """Value of a window feature as trees read it: a code, or a slot counted from the feature's first (-1: absent).

    Sparse window features are numbered after the dense ones.
    """
    layout = binned.layout
    if feature < layout.n_dense_features:
        return int(binned.codes.ravel()[binned.address[row] + layout.displacement[feature]])
    o_idx, s = divmod(feature - layout.n_dense_features, layout.n_sparse)
    at = binned.padded_row[row] + layout.sparse_offsets[o_idx]
    slots = binned.slot_indices[binned.slot_indptr[at] : binned.slot_indptr[at + 1]]
    return _slot_of_feature(layout, [int(slot) for slot in slots], s)


def expected_window_value(binner: FeatureBinner, batch: SequenceBatch, row: int, feature: int) -> int:
    """Value of a window feature found without padding or addresses: look for the neighbour, see whether it exists."""
    layout = binner.layout
    dense = feature < layout.n_dense_features
    o_idx, s = (0, 0) if dense else divmod(feature - layout.n_dense_features, layout.n_sparse)
    at = row + int(layout.offset[feature] if dense else layout.sparse_offsets[o_idx])
    sequence = next(i for i in range(batch.offsets.size - 1) if batch.offsets[i] <= row < batch.offsets[i + 1])
    inside = batch.offsets[sequence] <= at < batch.offsets[sequence + 1]
    if dense:
        boundary = int(layout.n_values[feature]) + 1
        return _row_codes(binner, batch, at)[layout.column[feature]] if inside else boundary
    if not inside:
        is_wide = s < layout.n_sparse - binner.indicators.n_features
        return int(layout.slot_start[s + 1] - layout.slot_start[s]) - 1 if is_wide else ABSENT
    return _slot_of_feature(layout, _row_slots(binner, batch, at), s)


def _slot_of_feature(layout: FeatureLayout, slots: Sequence[int], s: int) -> int:
    first, last = int(layout.slot_start[s]), int(layout.slot_start[s + 1])
    mine = [slot - first for slot in slots if first <= slot < last]
    if len(mine) > 1:
        raise AssertionError(f"sparse feature {s} has {len(mine)} slots in one row")
    return mine[0] if mine else ABSENT
