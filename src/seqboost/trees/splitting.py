"""The best split of a node, found from its histogram and its sums per context.

For a left side with gradient sum G_l and curvature sum H_l, of a node with G and H,

    gain = G_l²/(H_l+λ) + G_r²/(H_r+λ) − G²/(H+λ)

* numeric feature: every threshold, with missing values and the boundary each tried on both sides;
* categorical feature: categories (missing and boundary are two of them) ordered by G/(H+λ), then every prefix, which
  holds the best of all subsets for a convex criterion (Fisher 1958); or each category against the rest;
* sparse feature: each slot present against absent, ordered slots by threshold, many categories by ordered subsets;
* lag: the labels at one lag (⊥ is one of them), like a categorical feature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqboost._jit import inlined, inner
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["Limits", "SplitRule", "best_split", "left_values"]

MISSING_LEFT, BOUNDARY_LEFT = 1, 2

# Inside kernels, constants are handed on as int64: numba would compile a callee anew for every literal.
I = np.int64

# Ordering thousands of categories by the gradients of one or two rows each is ordering noise.
MIN_ROWS_OF_WIDE_CATEGORY = 5


class Limits(NamedTuple):
    """What a tree may do."""

    max_leaf_nodes: int
    max_depth: int
    min_samples_leaf: int
    l2_regularization: float
    min_gain: float
    one_against_rest: bool
    n_drawn_features: int  # window features drawn at each node; all of them if not smaller


class SplitRule(NamedTuple):
    """A split, as found: enough to build its left set from the histogram again."""

    gain: float
    kind: int
    feature: int  # DENSE: place in Columns; SPARSE: offset · n_sparse + feature; LAG: lag − 1
    cut: int  # last value, or rank of the last category, that goes left
    flags: int  # MISSING_LEFT | BOUNDARY_LEFT, numeric features only


@inlined
def _gain(g_left, h_left, g_right, h_right):
    """Return G_l²/H_l + G_r²/H_r with one division; both H already hold λ."""
    return (g_left * g_left * h_right + g_right * g_right * h_left) / (h_left * h_right)


@inner
def _try_split(best, node, limits, g_left, h_left, n_left, kind, feature, cut, flags):
    """Return the better of ``best`` and the split with this left side."""
    g, h, n, parent_gain = node
    h_l = h_left + limits.l2_regularization
    h_r = h - h_left + limits.l2_regularization
    if n_left < limits.min_samples_leaf or n - n_left < limits.min_samples_leaf or h_l <= 0.0 or h_r <= 0.0:
        return best
    gain = _gain(g_left, h_l, g - g_left, h_r) - parent_gain
    if gain > best.gain:
        return SplitRule(gain, kind, feature, cut, flags)
    return best


@inlined
def _unpack(histogram, cell, scales):
    """Return G, H and n of a cell as real numbers and a count."""
    packed = histogram[2 * cell + 1]
    count = packed & ((np.int64(1) << scales.count_bits) - 1)
    return (
        np.float64(histogram[2 * cell]) / scales.gradient,
        np.float64(packed >> scales.count_bits) / scales.curvature,
        count,
    )


@inlined
def _numeric(best, node, limits, histogram, start, n_values, scales, feature):
    """Scan the thresholds of one numeric feature."""
    g_missing, h_missing, n_missing = _unpack(histogram, start + n_values, scales)
    g_boundary, h_boundary, n_boundary = _unpack(histogram, start + n_values + 1, scales)
    specials = n_missing + n_boundary > 0
    gradient_unit = 1.0 / scales.gradient
    curvature_unit = 1.0 / scales.curvature
    lam = limits.l2_regularization
    g, h, n, parent_gain = node
    to_beat = best.gain + parent_gain
    count_mask = (np.int64(1) << scales.count_bits) - 1
    sum_g = np.int64(0)
    sum_h = np.int64(0)
    for v in range(n_values if specials else n_values - 1):
        cell = 2 * (start + v)
        packed = histogram[cell + 1]
        if packed == 0:
            continue
        sum_g += histogram[cell]
        sum_h += packed
        n_left = sum_h & count_mask
        g_left = sum_g * gradient_unit
        h_left = (sum_h >> scales.count_bits) * curvature_unit
        if not specials:
            # The common case, kept free of calls and divisions: no missing value and no boundary in this node.
            if n_left < limits.min_samples_leaf:
                continue
            if n - n_left < limits.min_samples_leaf:
                break
            h_l = h_left + lam
            h_r = h - h_left + lam
            g_right = g - g_left
            if g_left * g_left * h_r + g_right * g_right * h_l > to_beat * (h_l * h_r) and h_l > 0.0 and h_r > 0.0:
                gain = _gain(g_left, h_l, g_right, h_r) - parent_gain
                if gain > best.gain:
                    best = SplitRule(gain, I(DENSE), I(feature), I(v), I(0))
                    to_beat = gain + parent_gain
            continue
        best = _try_split(best, node, limits, g_left, h_left, n_left, I(DENSE), I(feature), I(v), I(0))
        if n_missing > 0:
            best = _try_split(
                best, node, limits, g_left + g_missing, h_left + h_missing, n_left + n_missing,
                I(DENSE), I(feature), I(v), I(MISSING_LEFT),
            )  # fmt: skip
        if n_boundary > 0:
            best = _try_split(
                best, node, limits, g_left + g_boundary, h_left + h_boundary, n_left + n_boundary,
                I(DENSE), I(feature), I(v), I(BOUNDARY_LEFT),
            )  # fmt: skip
        if n_missing > 0 and n_boundary > 0:
            best = _try_split(
                best, node, limits, g_left + g_missing + g_boundary, h_left + h_missing + h_boundary,
                n_left + n_missing + n_boundary, I(DENSE), I(feature), I(v), I(MISSING_LEFT | BOUNDARY_LEFT),
            )  # fmt: skip
    return best


@inner
def order_categories(histogram, start, n_cells, min_rows, scales, lam, keys, order):
    """Write the categories with at least ``min_rows`` positions to ``order``, by rising G/(H+λ); return their number."""
    n = I(0)
    for v in range(n_cells):
        packed = histogram[2 * (start + v) + 1]
        if packed == 0:
            continue
        g, h, count = _unpack(histogram, start + v, scales)
        if count < min_rows:
            continue
        keys[n] = g / max(h + lam, 1e-300)
        order[n] = v
        n += 1
    _sort(keys, order, n)
    return n


@inner
def _sort(keys, order, n):
    """Sort ``order[:n]`` by ``keys[:n]``, equal keys by value: Shell's sort, which is insertion sort for short lists."""
    gap = 1
    while 3 * gap < n - 32:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            key = keys[r]
            value = order[r]
            q = r - gap
            while q >= 0 and (keys[q] > key or (keys[q] == key and order[q] > value)):
                keys[q + gap] = keys[q]
                order[q + gap] = order[q]
                q -= gap
            keys[q + gap] = key
            order[q + gap] = value
        gap //= 3


@inner
def _categorical(best, node, limits, histogram, span, min_rows, scales, kind, feature, scratch):
    """Scan the ordered subsets, or each category against the rest, of the cells ``span`` = (first, number)."""
    keys, order = scratch
    start, n_cells = span
    n = order_categories(histogram, start, n_cells, min_rows, scales, limits.l2_regularization, keys, order)
    g_left, h_left, n_left = 0.0, 0.0, np.int64(0)
    for r in range(n):
        g, h, count = _unpack(histogram, start + order[r], scales)
        if limits.one_against_rest:
            best = _try_split(best, node, limits, g, h, count, kind, I(feature), I(r), I(0))
        else:
            g_left += g
            h_left += h
            n_left += count
            best = _try_split(best, node, limits, g_left, h_left, n_left, kind, I(feature), I(r), I(0))
    return best


@inlined
def _ordered_slots(best, node, limits, histogram, start, n_slots, absent_rank, scales, feature):
    """Scan the thresholds of one sparse feature; "absent" stands at its rank among the slots."""
    g, h, n, _ = node
    if n_slots == 1:
        if histogram[2 * start + 1] == 0:
            return best
        g_slot, h_slot, n_slot = _unpack(histogram, start, scales)
        return _try_split(best, node, limits, g_slot, h_slot, n_slot, I(SPARSE), I(feature), I(0), I(0))
    g_slots, h_slots, n_all = 0.0, 0.0, np.int64(0)
    for s in range(n_slots):
        g_slot, h_slot, n_slot = _unpack(histogram, start + s, scales)
        g_slots += g_slot
        h_slots += h_slot
        n_all += n_slot
    if n_all == 0:
        return best
    g_left, h_left, n_left = 0.0, 0.0, np.int64(0)
    for s in range(n_slots):
        if s == absent_rank:
            g_left += g - g_slots
            h_left += h - h_slots
            n_left += n - n_all
            best = _try_split(best, node, limits, g_left, h_left, n_left, I(SPARSE), I(feature), I(s), I(1))
        g_slot, h_slot, n_slot = _unpack(histogram, start + s, scales)
        g_left += g_slot
        h_left += h_slot
        n_left += n_slot
        best = _try_split(best, node, limits, g_left, h_left, n_left, I(SPARSE), I(feature), I(s), I(0))
    return best


@inlined
def _best_lag(best, node, limits, context_sums, mask, type_rows, space, scales, scratch):
    """Scan the labels at each lag, from the sums per context.

    Both sides of such a split hold the same positions, except where a side has no context of a position's type.
    """
    order = scratch[1]
    n_types = space.base.size
    sums = np.empty((2, space.n_labels + 1))
    present = np.empty((space.n_labels + 1, n_types), dtype=np.int64)
    left = np.empty(n_types, dtype=np.int64)
    lam = limits.l2_regularization
    for lag in range(space.lag_label.shape[0]):
        n = _order_lag(context_sums, mask, space, scales, lag, lam, sums, present, scratch)
        g_left, h_left = 0.0, 0.0
        left[:] = 0
        for r in range(n if limits.one_against_rest else n - 1):
            v = order[r]
            if limits.one_against_rest:
                g_left, h_left = 0.0, 0.0
                left[:] = 0
            g_left += sums[0, v]
            h_left += sums[1, v]
            for j in range(n_types):
                left[j] += present[v, j]
            n_left, n_right = _rows_of_sides(left, present, order, n, type_rows)
            h_l = h_left + lam
            h_r = node[1] - h_left + lam
            if min(n_left, n_right) >= limits.min_samples_leaf and h_l > 0.0 and h_r > 0.0:
                gain = _gain(g_left, h_l, node[0] - g_left, h_r) - node[3]
                if gain > best.gain:
                    best = SplitRule(gain, I(LAG), I(lag), I(r), I(0))
    return best


@inlined
def _rows_of_sides(left, present, order, n, type_rows):
    """Return the positions that have a context on the left, and those that have one on the right."""
    n_left, n_right = np.int64(0), np.int64(0)
    for j in range(type_rows.size):
        total = np.int64(0)
        for r in range(n):
            total += present[order[r], j]
        n_left += type_rows[j] if left[j] > 0 else 0
        n_right += type_rows[j] if total > left[j] else 0
    return n_left, n_right


@inner
def _order_lag(context_sums, mask, space, scales, lag, lam, sums, present, scratch):
    """Sum the node's contexts by their label at ``lag``; order those labels by rising G/(H+λ); return their number."""
    keys, order = scratch
    sums[:] = 0.0
    present[:] = 0
    for e in range(mask.size):
        if mask[e] != 0:
            v = space.lag_label[lag, e]
            sums[0, v] += context_sums[0, e] / scales.gradient
            sums[1, v] += context_sums[1, e] / scales.curvature
            present[v, space.type_of[e]] += 1
    n = I(0)
    for v in range(sums.shape[1]):
        there = False
        for j in range(present.shape[1]):
            there = there or present[v, j] > 0
        if there:
            keys[n] = sums[0, v] / max(sums[1, v] + lam, 1e-300)
            order[n] = v
            n += 1
    _sort(keys, order, n)
    return n


@inner
def best_split(
    dense,  # IN DenseColumns
    sparse,  # IN SparseColumns
    space,  # IN Space
    limits,  # IN Limits
    scales,  # IN Scales
    node,  # IN (G, H, n, G²/(H+λ))
    histogram,  # IN (2 * n_cells,) int64
    context_sums,  # IN (2, n_extended) int64
    mask,  # IN (n_extended,) int32: −1 for the node's contexts, 0 for others
    type_rows,  # IN (order + 1,) int64
    drawn,  # IN (n_window_features,) bool: features this node may use
    scratch,  # (keys, order)
):
    """Return the best split of a node; its gain is ``limits.min_gain`` if there is none."""
    best = SplitRule(max(limits.min_gain, 1e-12), I(-1), I(0), I(0), I(0))
    n_features = dense.feature.size
    divisible = node[2] >= 2 * limits.min_samples_leaf
    for f in range(n_features if divisible else 0):
        if not drawn[f]:
            continue
        start = dense.cell_start[f]
        if dense.kind[f] == 0:
            best = _numeric(best, node, limits, histogram, start, dense.n_values[f], scales, f)
        else:
            span = (start, np.int64(dense.n_values[f]) + 2)
            best = _categorical(best, node, limits, histogram, span, I(1), scales, I(DENSE), I(f), scratch)
    n_sparse = sparse.kind.size
    n_slots = np.int64(sparse.slot_start[n_sparse])
    for o in range(sparse.offset.size if n_sparse > 0 and divisible else 0):
        shift = dense.cell_start[n_features] + o * n_slots
        for s in range(n_sparse):
            feature = o * n_sparse + s
            if not (sparse.enabled[o, s] and drawn[n_features + feature]):
                continue
            first = np.int64(sparse.slot_start[s])
            n = np.int64(sparse.slot_start[s + 1]) - first
            if sparse.kind[s] == 0:
                best = _ordered_slots(
                    best, node, limits, histogram, shift + first, n, sparse.absent_rank[s], scales, feature
                )
            else:
                best = _categorical(
                    best, node, limits, histogram, (shift + first, n), I(MIN_ROWS_OF_WIDE_CATEGORY), scales,
                    I(SPARSE), I(feature), scratch,
                )  # fmt: skip
    if space.lag_label.shape[0] > 0:
        best = _best_lag(best, node, limits, context_sums, mask, type_rows, space, scales, scratch)
    return best


@inlined
def _clear(left, n):
    """Empty a left set of ``n`` values."""
    for v in range(n):
        left[v] = False


@inner
def left_values(
    dense,  # IN DenseColumns
    sparse,  # IN SparseColumns
    space,  # IN Space
    limits,  # IN Limits
    scales,  # IN Scales
    rule,  # IN SplitRule
    node,  # IN (G, H, n, G²/(H+λ))
    histogram,  # IN (2 * n_cells,) int64
    context_sums,  # IN (2, n_extended) int64
    mask,  # IN (n_extended,) int32: −1 for the node's contexts, 0 for others
    left,  # OUT (max_values,) bool: does value v go left?
    scratch,  # (keys, order)
):
    """Write the left set of a split: bin codes, labels at the lag, or slots of the sparse feature; return its size."""
    keys, order = scratch
    lam = limits.l2_regularization
    if rule.kind == DENSE:
        f = rule.feature
        start = dense.cell_start[f]
        n_values = np.int64(dense.n_values[f])
        _clear(left, 256)
        if dense.kind[f] == 0:
            _numeric_left(rule, histogram, start, n_values, scales, node, left)
        else:
            n = order_categories(histogram, start, n_values + 2, I(1), scales, lam, keys, order)
            n_left = _prefix_left(rule.cut, limits.one_against_rest, order, n, histogram, start, scales, left)
            # An unknown category goes with the larger side; so does a category that this node does not hold.
            if 2 * n_left > node[2]:
                left[n_values + 2] = True
                for v in range(n_values + 2):
                    left[v] = left[v] or histogram[2 * (start + v) + 1] == 0
        return 256
    if rule.kind == LAG:
        sums = np.empty((2, space.n_labels + 1))
        present = np.empty((space.n_labels + 1, space.base.size), dtype=np.int64)
        _order_lag(context_sums, mask, space, scales, rule.feature, lam, sums, present, scratch)
        _clear(left, space.n_labels + 1)
        for r in range(rule.cut if limits.one_against_rest else 0, rule.cut + 1):
            left[order[r]] = True
        return np.int64(space.n_labels) + 1
    n_sparse = sparse.kind.size
    o = rule.feature // n_sparse
    s = rule.feature % n_sparse
    first = np.int64(sparse.slot_start[s])
    n_slots = np.int64(sparse.slot_start[s + 1]) - first
    start = dense.cell_start[dense.feature.size] + o * np.int64(sparse.slot_start[n_sparse]) + first
    _clear(left, n_slots)
    if sparse.kind[s] == 1:
        n = order_categories(histogram, start, n_slots, I(MIN_ROWS_OF_WIDE_CATEGORY), scales, lam, keys, order)
        _prefix_left(rule.cut, limits.one_against_rest, order, n, histogram, start, scales, left)
    else:
        # "Absent" always goes right: the left set is the side of the threshold without it.
        rank = sparse.absent_rank[s] if n_slots > 1 else 0
        low_side_has_absent = rule.flags == 1 or rule.cut >= rank
        for v in range(n_slots):
            low_side = v < rule.cut if rule.flags == 1 else v <= rule.cut
            left[v] = low_side != low_side_has_absent if n_slots > 1 else True
    return n_slots


@inlined
def _numeric_left(rule, histogram, start, n_values, scales, node, left):
    """Write the codes that go left of a threshold; specials that the node does not hold go with the larger side."""
    count_mask = (np.int64(1) << scales.count_bits) - 1
    n_left = np.int64(0)
    for v in range(rule.cut + 1):
        left[v] = True
        n_left += histogram[2 * (start + v) + 1] & count_mask
    n_missing = histogram[2 * (start + n_values) + 1] & count_mask
    n_boundary = histogram[2 * (start + n_values + 1) + 1] & count_mask
    n_left += n_missing if rule.flags & MISSING_LEFT else 0
    n_left += n_boundary if rule.flags & BOUNDARY_LEFT else 0
    larger_left = 2 * n_left > node[2]
    left[n_values] = (rule.flags & MISSING_LEFT) != 0 if n_missing > 0 else larger_left
    left[n_values + 1] = (rule.flags & BOUNDARY_LEFT) != 0 if n_boundary > 0 else larger_left


@inlined
def _prefix_left(cut, one_against_rest, order, n, histogram, start, scales, left):
    """Write the categories up to rank ``cut`` (or the one at it) to the left set; return their number of positions."""
    count_mask = (np.int64(1) << scales.count_bits) - 1
    n_left = np.int64(0)
    for r in range(cut if one_against_rest else 0, cut + 1):
        left[order[r]] = True
        n_left += histogram[2 * (start + order[r]) + 1] & count_mask
    return n_left
