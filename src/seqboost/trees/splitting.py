"""The best split of a node, found from its histogram and its sums per context.

* numeric feature: every threshold, with missing values and the boundary each tried on both sides;
* categorical feature: categories (missing and boundary are two of them) ordered by G/(H+λ), then every prefix; or each
  category against the rest;
* sparse feature: each slot present against absent, ordered slots by threshold, many categories by ordered subsets from
  either end: rare categories and unknown ones are on neither;
* lag: the labels at one lag (⊥ is one of them), like a categorical feature (:mod:`seqboost.trees.lags`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.trees.criterion import (
    AFTER_ABSENT,
    BOUNDARY_LEFT,
    FROM_TOP,
    MISSING_LEFT,
    ROUNDING,
    Limits,
    Node,
    SplitRule,
    gain_of,
    gain_to_beat,
    try_split,
    unpack,
)
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64, uint64
from seqboost.trees.lags import best_lag
from seqboost.trees.ordering import MIN_ROWS_OF_WIDE_CATEGORY, Ranks, order_categories
from seqboost.trees.tree import DENSE, SPARSE

__all__ = ["best_slots", "best_split", "best_subset", "best_threshold"]


@inner
def best_threshold(
    best: SplitRule,
    node: Node,
    limits: Limits,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    start: int,  # IN first cell of the feature
    n_values: int,  # IN
    scales: Scales,
    feature: int,  # IN
) -> SplitRule:
    """Scan the thresholds of one numeric feature: free of calls and, but for a few, of divisions.

    The line is scanned once for each side that missing values and the boundary may be on, if the node holds any, with
    what is on the left side before it begins. Of equal gains the lowest threshold counts, then the first side.
    """
    missing, boundary = uint64(2 * (start + n_values)), uint64(2 * (start + n_values + 1))
    count_mask = (int64(1) << scales.count_bits) - 1
    gradient_unit, curvature_unit = 1.0 / scales.gradient, 1.0 / scales.curvature
    lam, min_rows = limits.l2_regularization, limits.min_samples_leaf
    g, h, n, parent_gain = node
    # Sides of the specials: 0 to 3 in bits MISSING_LEFT and BOUNDARY_LEFT, as far as the node holds them.
    has_missing = histogram[missing + uint64(1)] & count_mask > 0
    has_boundary = histogram[boundary + uint64(1)] & count_mask > 0
    step = MISSING_LEFT if has_missing else BOUNDARY_LEFT
    n_sides = 2 * BOUNDARY_LEFT if has_boundary else BOUNDARY_LEFT
    first, last = int64(0), int64(n_values) - 1
    if has_missing or has_boundary:  # they alone are a right side, but no left one
        last += 1
        while first < n_values and histogram[uint64(2 * (start + first) + 1)] == 0:
            first += 1
    best_gain, cut, best_sides = best.gain, int64(n_values), int64(-1)
    for sides in range(0, n_sides, step):
        sum_g, sum_h = int64(0), int64(0)
        if sides & MISSING_LEFT:
            sum_g, sum_h = histogram[missing], histogram[missing + uint64(1)]
        if sides & BOUNDARY_LEFT:
            sum_g, sum_h = sum_g + histogram[boundary], sum_h + histogram[boundary + uint64(1)]
        # What rounding takes from an equal gain is given back: the exact gain decides.
        least = (best_gain + parent_gain) * (1.0 - ROUNDING)
        # An empty cell repeats the threshold before it, which it does not beat; to ask for it would cost more.
        for v in range(first, last):
            sum_g += histogram[uint64(2 * (start + v))]
            sum_h += histogram[uint64(2 * (start + v) + 1)]
            n_left = sum_h & count_mask
            if n_left < min_rows:
                continue
            if n - n_left < min_rows:
                break
            g_left = sum_g * gradient_unit
            g_right = g - g_left
            h_left = (sum_h >> scales.count_bits) * curvature_unit
            h_l = h_left + lam
            h_r = h - h_left + lam
            if g_left * g_left * h_r + g_right * g_right * h_l >= least * (h_l * h_r) and h_l > 0.0 and h_r > 0.0:
                gain = gain_of(g_left, h_l, g_right, h_r) - parent_gain
                if gain > best_gain or (gain == best_gain and best_sides >= 0 and v < cut):
                    best_gain, cut, best_sides = gain, int64(v), int64(sides)
                    least = (gain + parent_gain) * (1.0 - ROUNDING)
    if best_sides < 0:
        return best
    return SplitRule(best_gain, int64(DENSE), int64(feature), cut, best_sides)


@inner
def best_subset(
    best: SplitRule,
    node: Node,
    limits: Limits,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    span: tuple[int, int],  # IN first cell of the feature, its number of cells
    min_rows: int,  # IN positions that a category needs to take part
    scales: Scales,
    kind: int,  # IN DENSE or SPARSE
    feature: int,  # IN
    ranks: Ranks,
) -> SplitRule:
    """Scan the ordered subsets, or each category against the rest.

    Where some positions have a category that takes no part, which always goes right, the subsets at the top of the
    order are not the complements of those at the bottom and are scanned too.
    """
    order = ranks.order
    start, n_cells = span
    n = order_categories(histogram, start, n_cells, min_rows, scales, limits.l2_regularization, ranks)
    for flags in range(0, 2 * FROM_TOP, FROM_TOP):
        g_left, h_left, n_left = 0.0, 0.0, int64(0)
        for r in range(n):
            g, h, count = unpack(histogram, start + order[r if flags == 0 else n - 1 - r], scales)
            alone = limits.one_against_rest
            g_left = g if alone else g_left + g
            h_left = h if alone else h_left + h
            n_left = count if alone else n_left + count
            best = try_split(best, node, limits, g_left, h_left, n_left, kind, feature, int64(r), int64(flags))
        if limits.one_against_rest or n_left == node[2]:
            break
    return best


@inlined
def best_slots(
    best: SplitRule,
    node: Node,
    limits: Limits,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    start: int,  # IN first cell of the feature
    n_slots: int,  # IN
    absent_rank: int,  # IN
    scales: Scales,
    feature: int,  # IN
) -> SplitRule:
    """Scan the thresholds of one sparse feature; "absent" stands at its rank among the slots."""
    g, h, n, _ = node
    g_absent, h_absent, n_absent = g, h, n
    for s in range(n_slots):
        if histogram[2 * (start + s) + 1] == 0:
            continue
        g_slot, h_slot, n_slot = unpack(histogram, start + s, scales)
        g_absent -= g_slot
        h_absent -= h_slot
        n_absent -= n_slot
    if n_absent == n:
        return best
    g_left, h_left, n_left = 0.0, 0.0, int64(0)
    s = int64(0)
    # A single slot needs no threshold beside absent | present; with more, absent is one more value on the line.
    is_absent = n_slots > 1 and absent_rank == 0
    while s < n_slots:
        if is_absent:
            g_left, h_left, n_left = g_left + g_absent, h_left + h_absent, n_left + n_absent
        else:
            g_slot, h_slot, n_slot = unpack(histogram, start + s, scales)
            g_left, h_left, n_left = g_left + g_slot, h_left + h_slot, n_left + n_slot
        flags = int64(AFTER_ABSENT if is_absent else 0)
        best = try_split(best, node, limits, g_left, h_left, n_left, int64(SPARSE), int64(feature), s, flags)
        s += 0 if is_absent else 1
        is_absent = not is_absent and s == absent_rank
    return best


@inner
def best_split(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    limits: Limits,
    scales: Scales,
    node: Node,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    context_sums: NDArray[np.int64],  # IN (2, n_extended)
    mask: NDArray[np.int32],  # IN (n_extended,) −1 for the node's contexts, 0 for others
    type_rows: NDArray[np.int64],  # IN (order + 1,)
    drawn: NDArray[np.bool_],  # IN (n_window_features,) features this node may use
    ranks: Ranks,
) -> SplitRule:
    """Return the best split of a node; its kind is −1 if there is none."""
    best = SplitRule(gain_to_beat(limits, node[3]), int64(-1), int64(0), int64(0), int64(0))
    n_features = dense.feature.size
    divisible = node[2] >= 2 * limits.min_samples_leaf
    for f in range(n_features if divisible else 0):
        if not drawn[f]:
            continue
        start = dense.cell_start[f]
        if dense.kind[f] == 0:
            best = best_threshold(best, node, limits, histogram, start, dense.n_values[f], scales, f)
        else:
            span = (start, int64(dense.n_values[f]) + 2)
            best = best_subset(best, node, limits, histogram, span, int64(1), scales, int64(DENSE), int64(f), ranks)
    n_sparse = sparse.kind.size
    n_slots = int64(sparse.slot_start[n_sparse])
    for o in range(sparse.offset.size if n_sparse > 0 and divisible else 0):
        shift = dense.cell_start[n_features] + o * n_slots
        for s in range(n_sparse):
            feature = o * n_sparse + s
            if not (sparse.enabled[o, s] and drawn[n_features + feature]):
                continue
            first = int64(sparse.slot_start[s])
            n = int64(sparse.slot_start[s + 1]) - first
            if sparse.kind[s] == 0:
                best = best_slots(
                    best, node, limits, histogram, shift + first, n, sparse.absent_rank[s], scales, feature
                )
            else:
                best = best_subset(
                    best, node, limits, histogram, (shift + first, n), int64(MIN_ROWS_OF_WIDE_CATEGORY), scales,
                    int64(SPARSE), int64(feature), ranks,
                )  # fmt: skip
    if space.lag_label.shape[0] > 0:
        best = best_lag(best, node, limits, context_sums, mask, type_rows, space, scales, ranks)
    return best
