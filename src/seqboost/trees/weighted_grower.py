"""Growing one tree with policies for missing values (:mod:`seqboost.trees.missing`), best split first.

The product space and the loop are those of :mod:`seqboost.trees.grower`. What differs: rows have weights
(:mod:`seqboost.trees.weighted_rows`), gains count rows where a feature is present
(:mod:`seqboost.trees.weighted_search`), and a split may have surrogates (:mod:`seqboost.trees.surrogates`)::

    split ──► left set, weights n_l and n_r of the rows with a value ──► where do rows without a value go?
      │
      ├─ DIRECTION            where the left set says
      ├─ INSTANCE_WEIGHTING   both ways, with shares n_l/(n_l+n_r) and n_r/(n_l+n_r)
      └─ SURROGATE            rows by value and side ──► surrogates ──► the first that is present; or the larger side

A row lies in as many leaves as it has missing values to be divided at: at most in all of them, and the cost of a tree
grows by that. With a share m of values missing and even splits, level d holds up to (1 + m)^d times the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner, lean
from seqboost.core.missing import INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees.buffers import (
    DEPTH,
    FITTED,
    N_LEAVES,
    NEWEST,
    SIZE,
    SLOT,
    START,
    USED,
    G,
    H,
    Leaves,
    Splits,
)
from seqboost.trees.criterion import Limits, Node, SplitRule
from seqboost.trees.fixedpoint import Planes, Scales, block_end, curvature_of, gradient_of, quantise, row_sums
from seqboost.trees.grower import best_leaf, draw_features, draw_pool, record_split
from seqboost.trees.histogram import DenseColumns, SparseColumns, clear, subtract
from seqboost.trees.integers import int64, uint64
from seqboost.trees.missing import SHARES, Policies
from seqboost.trees.surrogates import rank_surrogates, surrogate_left
from seqboost.trees.tree import DENSE, LAG
from seqboost.trees.weighted_buffers import Detours, W, WeightedScratch
from seqboost.trees.weighted_histogram import add_weighted, add_weighted_contexts, count_values, remove_weights
from seqboost.trees.weighted_rows import (
    BOTH,
    LEFT,
    RIGHT,
    WeightedRows,
    divide_weighted,
    mark_rows,
    share_weighted,
)
from seqboost.trees.weighted_search import best_weighted_split, policy_of, weighted_left

__all__ = ["grow_weighted", "record_surrogates", "send_by_surrogates", "share_of"]

SMALLEST_SHARE, LARGEST_SHARE = SHARES


@inlined
def _node(
    state: NDArray[np.int64],  # IN (max_leaves, N_WEIGHTED_STATE)
    leaf: int,
    limits: Limits,
    scales: Scales,
) -> Node:
    """Return (G, H, n, G²/(H+λ)) of a leaf."""
    g = state[leaf, G] / scales.gradient
    h = state[leaf, H] / scales.curvature
    return g, h, state[leaf, W], g * g / max(h + limits.l2_regularization, 1e-300)


@inner
def share_of(n_left: int, n_right: int) -> np.float32:
    """Return n_l/(n_l+n_r), neither 0 nor 1."""
    share = np.float32(n_left / max(n_left + n_right, 1))
    return min(max(share, SMALLEST_SHARE), LARGEST_SHARE)


@inner
def _measure(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    leaves: Leaves,
    leaf: int,
    segments: WeightedRows,  # IN
    wants_histogram: bool | np.bool_,
) -> None:
    """Compute a leaf's sums, its weights by type and, if wanted, its histogram from its rows."""
    state, types = leaves.state, leaves.type_rows[leaf]
    first = state[leaf, START]
    last = first + state[leaf, FITTED]
    order = types.size - 1
    for j in range(types.size):
        types[j] = 0
    g, h, n = int64(0), int64(0), int64(0)
    for p in range(uint64(first), uint64(last)):
        g += gradient_of(segments.sums[p])
        h += curvature_of(segments.sums[p])
        n += segments.units[p]
        j = space.row_type[uint64(segments.rows[p])]
        if j < order:  # few: near the starts of sequences
            types[j] += segments.units[p]
            types[order] -= segments.units[p]
    types[order] += n
    state[leaf, G], state[leaf, H], state[leaf, W] = g, h, n
    if wants_histogram:
        histogram = leaves.histogram[state[leaf, SLOT]]
        clear(histogram)
        add_weighted(dense, sparse, segments, first, last, scales.count_bits, histogram)


@inlined
def _plant(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    planes: Planes,
    cells: NDArray[np.int64],  # OUT (n_rows, n_contexts)
    sizes: tuple[int, int],  # IN fitted positions, all positions
    segments: WeightedRows,
    leaves: Leaves,
    splits: Splits,
    detours: Detours,
) -> None:
    """Make the root."""
    rows, sums, weight, units = segments
    n_fitted, n_rows = sizes
    state = leaves.state
    state[0, START], state[0, SIZE], state[0, FITTED], state[0, DEPTH] = 0, n_rows, n_fitted, 0
    for leaf in range(state.shape[0]):
        state[leaf, SLOT] = leaf
    for e in range(leaves.mask.shape[1]):
        leaves.mask[0, e] = -1
    for p in range(n_rows):
        weight[p] = np.float32(1.0)
        units[p] = scales.unit
    first = int64(0)
    while first < n_fitted:
        last = block_end(rows, first, n_fitted, planes.n_contexts)
        quantise(planes, scales, int64(rows[first]), last - first)
        row_sums(cells, rows, first, last, sums)
        first = last
    contexts = leaves.contexts[0]
    for e in range(contexts.shape[1]):
        contexts[0, e] = 0
        contexts[1, e] = 0
    if contexts.shape[1] > 1:
        add_weighted_contexts(planes, scales, space, segments, int64(0), n_fitted, contexts)
    _measure(dense, sparse, space, scales, leaves, int64(0), segments, np.bool_(True))
    splits.parent[0] = -1
    splits.word_start[0] = 0
    detours.start[0] = 0
    detours.word_start[0] = 0
    progress = leaves.progress
    progress[N_LEAVES], progress[USED], progress[NEWEST], progress[NEWEST + 1] = 1, n_rows, 0, -1


@inlined
def _find(
    dense: DenseColumns,
    sparse: SparseColumns,
    policies: Policies,
    space: Space,
    limits: Limits,
    scales: Scales,
    leaves: Leaves,
    leaf: int,
    scratch: WeightedScratch,
) -> None:
    """Find and store the best split of a leaf."""
    stored, state = leaves.rule[leaf], leaves.state
    slot = state[leaf, SLOT]
    stored[0] = -1.0
    if state[leaf, DEPTH] >= limits.max_depth:
        return
    draw_features(scratch, limits.n_drawn_features, limits.n_tree_features)
    rule = best_weighted_split(
        dense, sparse, policies, space, limits, scales, _node(state, leaf, limits, scales), leaves.histogram[slot],
        leaves.contexts[slot], leaves.mask[leaf], leaves.type_rows[leaf], scratch.drawn, scratch.ranks,
    )  # fmt: skip
    if rule.kind >= 0:
        stored[0], stored[1], stored[2], stored[3], stored[4] = rule


@inner
def record_surrogates(
    dense: DenseColumns,
    sparse: SparseColumns,
    n: int,  # IN surrogates of the split, in scratch.ranking
    number: int,  # IN of the split
    larger_left: bool,  # IN
    detours: Detours,  # OUT
    scratch: WeightedScratch,
) -> None:
    """Write the surrogates of a split into the tree."""
    ranking, words = scratch.ranking, detours.words
    start = detours.start[number]
    for r in range(n):
        q = start + r
        size = surrogate_left(
            dense, sparse, ranking, int64(r), scratch.on_left, scratch.on_right, larger_left, scratch.other_left
        )
        place = ranking.place[r]
        detours.kind[q] = ranking.kind[r]
        detours.place[q] = place
        detours.feature[q] = dense.feature[place] if ranking.kind[r] == DENSE else place
        first = detours.word_start[q]
        n_words = (size + 63) // 64
        for w in range(n_words):
            words[first + w] = 0
        for v in range(size):
            if scratch.other_left[v]:
                words[first + v // 64] |= np.uint64(1) << np.uint64(v % 64)
        detours.word_start[q + 1] = first + n_words
    detours.start[number + 1] = start + n


@inner
def _by_surrogates(
    dense: DenseColumns,
    sparse: SparseColumns,
    detours: Detours,
    number: int,  # IN of the split
    row: int,  # IN a position
) -> int:
    """Return where the first surrogate with a value sends a position; BOTH if none has one."""
    for q in range(detours.start[number], detours.start[number + 1]):
        place, first, v = detours.place[q], detours.word_start[q], int64(-1)
        if detours.kind[q] == DENSE:
            v = int64(dense.codes[dense.address[row] + dense.displacement[place]])
            if v == dense.n_values[place]:
                continue
        else:
            s = place % sparse.kind.size
            padded = sparse.padded_row[row] + sparse.offset[place // sparse.kind.size]
            for x in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
                slot = sparse.indices[x]
                if sparse.slot_start[s] <= slot < sparse.slot_start[s + 1]:
                    v = int64(slot - sparse.slot_start[s])
            if v >= 0 and v == int64(sparse.missing[s]):
                continue
        if v >= 0 and (detours.words[first + (v >> 6)] >> np.uint64(v & 63)) & np.uint64(1) != 0:
            return int64(LEFT)
        return int64(RIGHT)
    return int64(BOTH)


@inner
def send_by_surrogates(
    dense: DenseColumns,
    sparse: SparseColumns,
    detours: Detours,
    number: int,  # IN of the split
    larger_left: bool,  # IN
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    mark: NDArray[np.uint8],  # IN/OUT (last - first,)
) -> None:
    """Send the positions without a value one way."""
    for p in range(first, last):
        if mark[p - first] == BOTH:
            side = _by_surrogates(dense, sparse, detours, number, int64(rows[p]))
            if side == BOTH:
                side = int64(LEFT if larger_left else RIGHT)
            mark[p - first] = side


@inner
def _divide_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    policy: int,  # IN
    missing: int,  # IN the value that stands for missing
    weights: tuple[int, int],  # IN n_l, n_r
    segments: WeightedRows,
    detours: Detours,  # OUT
    scratch: WeightedScratch,
) -> None:
    """Divide the positions of ``leaf``: its left part stays ``leaf``, its right part becomes ``other``."""
    state, mask, mark = leaves.state, leaves.mask, scratch.mark
    first, n_fitted = state[leaf, START], state[leaf, FITTED]
    last = first + state[leaf, SIZE]
    rows = segments.rows
    n_left, n_missing = mark_rows(
        dense, sparse, rule.kind, rule.feature, scratch.left, missing, rows, first, last, mark
    )
    leaving = LEFT if 2 * n_left + n_missing < last - first else RIGHT
    number = int64(other) - 1
    share = np.float32(0.0)
    larger_left = weights[0] > weights[1]
    detours.start[number + 1] = detours.start[number]
    if policy == INSTANCE_WEIGHTING:
        share = share_of(weights[0], weights[1])
    elif policy == SURROGATE:
        fitted_last = first + n_fitted
        n_left = count_values(dense, sparse, segments, mark, int64(LEFT), first, fitted_last, scratch.on_left)
        n_right = count_values(dense, sparse, segments, mark, int64(RIGHT), first, fitted_last, scratch.on_right)
        n = rank_surrogates(
            dense, sparse, rule.kind, rule.feature, scratch.on_left, scratch.on_right, n_left, n_right,
            scratch.ranking,
        )  # fmt: skip
        record_surrogates(dense, sparse, n, number, larger_left, detours, scratch)
        if n_missing > 0:
            send_by_surrogates(dense, sparse, detours, number, larger_left, rows, first, last, mark)
    detours.share[number] = share
    end = leaves.progress[USED]
    stays, leaves_ = (leaf, other) if leaving == RIGHT else (other, leaf)
    n_stays, n_stays_fitted, n_leaves, n_leaves_fitted = divide_weighted(
        mark, share, scratch.part_left, segments, first, n_fitted, last, int64(leaving), end
    )
    state[stays, START], state[stays, SIZE], state[stays, FITTED] = first, n_stays, n_stays_fitted
    state[leaves_, START], state[leaves_, SIZE], state[leaves_, FITTED] = end, n_leaves, n_leaves_fitted
    leaves.progress[USED] += n_leaves
    for e in range(mask.shape[1]):
        mask[other, e] = mask[leaf, e]


@inner
def _divide_contexts(
    space: Space,
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    lag: int,  # IN lag − 1
    segments: WeightedRows,
    scratch: WeightedScratch,
) -> None:
    """Divide the contexts of ``leaf``; the segment of ``other`` lies at the end."""
    state, mask, has = leaves.state, leaves.mask, scratch.has
    for j in range(has.shape[1]):
        has[0, j] = False
        has[1, j] = False
    for e in range(mask.shape[1]):
        goes_left = scratch.left[space.lag_label[lag, e]]
        j = space.type_of[e]
        was = mask[leaf, e]
        mask[leaf, e] = was if goes_left else 0
        mask[other, e] = 0 if goes_left else was
        has[0, j] |= mask[leaf, e] != 0
        has[1, j] |= mask[other, e] != 0
    first, n_fitted, last = state[leaf, START], state[leaf, FITTED], state[leaf, START] + state[leaf, SIZE]
    state[other, START] = leaves.progress[USED]
    state[leaf, SIZE], state[other, SIZE], state[leaf, FITTED], state[other, FITTED] = share_weighted(
        cells, space, mask[leaf], has, int64(0), segments, first, n_fitted, last, (first, state[other, START])
    )
    leaves.progress[USED] += state[other, SIZE]


@inner
def _sum_children(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    planes: Planes,
    leaves: Leaves,
    leaf: int,
    other: int,
    n_fitted: int,  # IN positions that ``leaf`` had before it was split
    by_contexts: bool,  # IN were contexts divided, or positions?
    segments: WeightedRows,
    scratch: WeightedScratch,
    wants_histogram: bool,
) -> None:
    """Sum the child with fewer positions from its rows; the other takes what the parent had and gives that away."""
    state, type_rows, contexts = leaves.state, leaves.type_rows, leaves.contexts
    small, large = (leaf, other) if state[leaf, FITTED] <= state[other, FITTED] else (other, leaf)
    if small == leaf:
        state[leaf, SLOT], state[other, SLOT] = state[other, SLOT], state[leaf, SLOT]
        state[other, G], state[other, H], state[other, W] = state[leaf, G], state[leaf, H], state[leaf, W]
        for j in range(type_rows.shape[1]):
            type_rows[other, j] = type_rows[leaf, j]
    _measure(dense, sparse, space, scales, leaves, int64(small), segments, wants_histogram)
    state[large, G] -= state[small, G]
    state[large, H] -= state[small, H]
    state[large, W] = 0
    has_large = scratch.has[0 if large == leaf else 1]
    for j in range(type_rows.shape[1]):
        if not by_contexts:
            type_rows[large, j] -= type_rows[small, j]
        elif not has_large[j]:
            type_rows[large, j] = 0
        state[large, W] += type_rows[large, j]
    if not wants_histogram:
        return
    slot, from_slot = state[small, SLOT], state[large, SLOT]
    first, last = state[small, START], state[small, START] + state[small, FITTED]
    if by_contexts:  # both keep the sums per context; their masks tell whose they are
        subtract(leaves.histogram[from_slot], leaves.histogram[slot], -(int64(1) << scales.count_bits))
        for e in range(contexts.shape[2]):
            contexts[slot, 0, e] = contexts[from_slot, 0, e]
            contexts[slot, 1, e] = contexts[from_slot, 1, e]
        for p in range(first, last if state[large, FITTED] < n_fitted else first):
            row = segments.rows[p]
            if not has_large[space.row_type[row]]:
                remove_weights(dense, sparse, int64(row), int64(segments.units[p]), leaves.histogram[from_slot])
        return
    subtract(leaves.histogram[from_slot], leaves.histogram[slot], int64(-1))
    for e in range(contexts.shape[2]):
        contexts[slot, 0, e] = 0
        contexts[slot, 1, e] = 0
    if contexts.shape[2] > 1:
        add_weighted_contexts(planes, scales, space, segments, first, last, contexts[slot])
    for e in range(contexts.shape[2]):
        contexts[from_slot, 0, e] -= contexts[slot, 0, e]
        contexts[from_slot, 1, e] -= contexts[slot, 1, e]


@lean
def grow_weighted(
    dense: DenseColumns,
    sparse: SparseColumns,
    policies: Policies,
    space: Space,
    limits: Limits,
    scales: Scales,
    planes: Planes,
    cells: NDArray[np.int64],  # OUT (n_rows, n_contexts) the derivatives in fixed point
    sizes: tuple[int, int],  # IN positions the tree is fitted to, which come first in the segments; all positions
    segments: WeightedRows,  # IN/OUT rows filled
    leaves: Leaves,  # OUT
    splits: Splits,  # OUT
    detours: Detours,  # OUT
    scratch: WeightedScratch,
) -> bool:
    """Grow a tree, or go on growing it; return False when the segments must be made longer before it can go on.

    ``limits.min_samples_leaf`` is a weight in fixed point here.
    """
    state, progress = leaves.state, leaves.progress
    if progress[N_LEAVES] == 0:
        draw_pool(scratch, limits.n_tree_features)
        _plant(dense, sparse, space, scales, planes, cells, sizes, segments, leaves, splits, detours)
    while True:
        for q in range(NEWEST, NEWEST + 2):
            newest = progress[q]
            if newest >= 0:
                _find(dense, sparse, policies, space, limits, scales, leaves, newest, scratch)
                progress[q] = -1
        other = progress[N_LEAVES]
        leaf = best_leaf(leaves.rule, other)
        if leaf < 0 or other == limits.max_leaf_nodes:
            return True
        if progress[USED] + state[leaf, SIZE] > segments.rows.size:
            return False
        r = leaves.rule[leaf]
        rule = SplitRule(r[0], int64(r[1]), int64(r[2]), int64(r[3]), int64(r[4]))
        policy = policy_of(sparse, policies, rule.kind, rule.feature)
        slot = state[leaf, SLOT]
        n_values, missing, n_left, n_right = weighted_left(
            dense, sparse, policy, space, limits, scales, rule, _node(state, leaf, limits, scales),
            leaves.histogram[slot], leaves.contexts[slot], leaves.mask[leaf], scratch.left, scratch.ranks,
        )  # fmt: skip
        feature = rule.feature
        if rule.kind == DENSE:
            feature = int64(dense.feature[rule.feature])
        if rule.kind == LAG:
            feature = rule.feature + 1
        record_split(splits, other - 1, leaf, other, rule, feature, scratch.left, n_values, state[leaf, FITTED])
        is_last = other + 1 == limits.max_leaf_nodes
        n_fitted = state[leaf, FITTED]
        if rule.kind == LAG:
            detours.share[other - 1] = np.float32(0.0)
            detours.start[other] = detours.start[other - 1]
            _divide_contexts(space, cells, leaves, int64(leaf), int64(other), rule.feature, segments, scratch)
        else:
            _divide_rows(
                dense, sparse, leaves, int64(leaf), int64(other), rule, policy, missing, (n_left, n_right), segments,
                detours, scratch,
            )  # fmt: skip
        _sum_children(
            dense, sparse, space, scales, planes, leaves, int64(leaf), int64(other), n_fitted, rule.kind == LAG,
            segments, scratch, not is_last,
        )  # fmt: skip
        state[leaf, DEPTH] += 1
        state[other, DEPTH] = state[leaf, DEPTH]
        progress[N_LEAVES] += 1
        if not is_last:
            progress[NEWEST], progress[NEWEST + 1] = leaf, other
