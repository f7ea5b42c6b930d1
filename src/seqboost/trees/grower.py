"""Growing one tree, best split first, on the product space rows × contexts.

A node is a set of positions times a set of contexts and stays one: a window test divides its positions, a lag test its
contexts. So a node needs its positions' derivatives summed over its contexts only once, histograms over positions alone,
and the sums per context for the lag tests::

    root ──► sums over all contexts ──► histogram ──► best split
      │
      ├─ window test   positions divided     smaller child: new histogram         larger: parent − smaller
      └─ lag test      contexts divided      right child: what is left of the     left: parent − right
                                             sums of rows, new histogram
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inlined, inner, jit
from seqboost.trees.fixedpoint import add_contexts, row_sums
from seqboost.trees.histogram import add_dense, add_sparse, clear, remove_counts, subtract, subtract_contexts
from seqboost.trees.partition import divide, keep_types, mark_dense, mark_sparse, regrown
from seqboost.trees.splitting import SplitRule, best_split, left_values
from seqboost.trees.tree import DENSE, LAG

__all__ = ["Leaves", "Scratch", "Splits", "grow_tree"]

# Constants are handed on as int64: numba would compile a callee anew for every literal.
I = np.int64

# Columns of Leaves.state.
START, SIZE, FITTED, DEPTH, SLOT, G, H, N_STATE = range(8)


class Leaves(NamedTuple):
    """Open and finished leaves; leaf number = first index. The left child of a split keeps its parent's number."""

    state: NDArray[np.int64]  # (max_leaves, N_STATE) segment, positions, depth, row of ``histogram``, sums
    mask: NDArray[np.int32]  # (max_leaves, n_extended) −1: the leaf holds this context
    type_rows: NDArray[np.int64]  # (max_leaves, order + 1) fitted positions of each type
    contexts: NDArray[np.int64]  # (max_leaves, 2, n_extended) sums of gradient and curvature per context
    histogram: NDArray[np.int64]  # (max_leaves, 2 * n_cells)
    rule: NDArray[np.float64]  # (max_leaves, 5) SplitRule; gain < 0: no split


class Splits(NamedTuple):
    """The tree so far, as in :class:`~seqboost.trees.tree.Tree`."""

    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float32]
    n_rows: NDArray[np.int32]
    word_start: NDArray[np.int32]
    words: NDArray[np.uint64]
    parent: NDArray[np.int64]  # (max_leaves,) split above a leaf, −1 for the root


class Scratch(NamedTuple):
    """Buffers of one thread."""

    keys: NDArray[np.float64]  # (max_values,)
    order: NDArray[np.int64]  # (max_values,)
    left: NDArray[np.bool_]  # (max_values,)
    drawn: NDArray[np.bool_]  # (n_window_features,)
    shuffled: NDArray[np.int64]  # (n_window_features,)
    random: NDArray[np.uint64]  # (1,) state of the generator
    goes_left: NDArray[np.bool_]  # (n_rows,)
    spare: NDArray[np.int32]  # (3, n_rows)


@inner
def _next_random(state, bound):
    """Return a random number below ``bound`` (SplitMix64) and move the state on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) % np.uint64(bound))


@inner
def _draw_features(scratch, n_drawn):
    """Draw the window features that the next node may use (without replacement)."""
    drawn, shuffled = scratch.drawn, scratch.shuffled
    n = drawn.size
    if n_drawn >= n:
        return
    for f in range(n):
        drawn[f] = False
        shuffled[f] = f  # what is drawn depends on the seed alone, not on the trees this grower grew before
    for r in range(n_drawn):
        q = r + _next_random(scratch.random, n - r)
        shuffled[r], shuffled[q] = shuffled[q], shuffled[r]
        drawn[shuffled[r]] = True


@inlined
def _node(leaves, leaf, limits, scales):
    """Return (G, H, n, G²/(H+λ)) of a leaf."""
    g = leaves.state[leaf, G] / scales.gradient
    h = leaves.state[leaf, H] / scales.curvature
    return g, h, leaves.state[leaf, FITTED], g * g / max(h + limits.l2_regularization, 1e-300)


@inlined
def _find(dense, sparse, space, limits, scales, leaves, leaf, scratch):
    """Find and store the best split of a leaf."""
    stored = leaves.rule[leaf]
    stored[0] = -1.0
    if leaves.state[leaf, DEPTH] >= limits.max_depth:
        return
    _draw_features(scratch, limits.n_drawn_features)
    rule = best_split(
        dense, sparse, space, limits, scales, _node(leaves, leaf, limits, scales),
        leaves.histogram[leaves.state[leaf, SLOT]], leaves.contexts[leaf], leaves.mask[leaf], leaves.type_rows[leaf],
        scratch.drawn, (scratch.keys, scratch.order),
    )  # fmt: skip
    if rule.kind >= 0:
        stored[0], stored[1], stored[2], stored[3], stored[4] = rule


@inlined
def _best_leaf(rule, n_leaves):
    """Return the leaf with the largest gain, −1 if none can be split."""
    best = -1
    gain = 0.0
    for leaf in range(n_leaves):
        if rule[leaf, 0] > gain:
            best, gain = leaf, rule[leaf, 0]
    return best


@inlined
def _record(splits, number, leaf, other, rule, feature, left, n_values, n_rows):
    """Write split ``number``, which turned ``leaf`` into itself (left) and ``other`` (right), into the tree."""
    splits.kind[number] = rule.kind
    splits.feature[number] = feature
    splits.gain[number] = rule.gain
    splits.n_rows[number] = n_rows
    above = splits.parent[leaf]
    if above >= 0:
        if splits.left[above] == ~leaf:
            splits.left[above] = number
        else:
            splits.right[above] = number
    splits.left[number] = ~leaf
    splits.right[number] = ~other
    splits.parent[leaf] = number
    splits.parent[other] = number
    first = splits.word_start[number]
    n_words = (n_values + 63) // 64
    for w in range(n_words):
        splits.words[first + w] = 0
    for v in range(n_values):
        if left[v]:
            splits.words[first + v // 64] |= np.uint64(1) << np.uint64(v % 64)
    splits.word_start[number + 1] = first + n_words


@inner
def _measure(dense, sparse, space, scales, leaves, leaf, rows, gradient, curvature, wants_histogram):
    """Compute a leaf's sums, its positions by type and, if wanted, its histogram from its rows."""
    first = leaves.state[leaf, START]
    last = first + leaves.state[leaf, FITTED]
    g = np.int64(0)
    h = np.int64(0)
    types = leaves.type_rows[leaf]
    for j in range(types.size):
        types[j] = 0
    for p in range(first, last):
        g += gradient[p]
        h += curvature[p]
        types[space.row_type[rows[p]]] += 1
    leaves.state[leaf, G] = g
    leaves.state[leaf, H] = h
    if wants_histogram:
        histogram = leaves.histogram[leaves.state[leaf, SLOT]]
        clear(histogram)
        add_dense(dense, rows, gradient, curvature, first, last, scales.count_bits, histogram)
        if sparse.kind.size > 0:
            n_dense_cells = dense.cell_start[dense.cell_start.size - 1]
            add_sparse(sparse, n_dense_cells, rows, gradient, curvature, first, last, scales.count_bits, histogram)


@inlined
def _subtract_small(leaves, large, small, wants_histogram):
    """Turn the parent's sums, which ``large`` holds, into its own: parent − small."""
    leaves.state[large, G] -= leaves.state[small, G]
    leaves.state[large, H] -= leaves.state[small, H]
    for j in range(leaves.type_rows.shape[1]):
        leaves.type_rows[large, j] -= leaves.type_rows[small, j]
    if wants_histogram:
        subtract(leaves.histogram[leaves.state[large, SLOT]], leaves.histogram[leaves.state[small, SLOT]])
        for e in range(leaves.mask.shape[1]):
            leaves.contexts[large, 0, e] -= leaves.contexts[small, 0, e]
            leaves.contexts[large, 1, e] -= leaves.contexts[small, 1, e]


@inlined
def _split_rows(
    dense, sparse, space, scales, cells, leaves, leaf, other, rule, segments, scratch, wants_histogram
):  # fmt: skip
    """Divide the positions of ``leaf``: its left part stays ``leaf``, its right part becomes ``other``."""
    rows, gradient, curvature = segments
    state = leaves.state
    start, size, fitted = state[leaf, START], state[leaf, SIZE], state[leaf, FITTED]
    goes_left = scratch.goes_left
    if rule.kind == DENSE:
        mark_dense(dense, rule.feature, scratch.left, rows, start, start + size, goes_left)
    else:
        mark_sparse(sparse, rule.feature, scratch.left, rows, start, start + size, goes_left)
    n_left, n_left_fitted = divide(
        goes_left, rows, gradient, curvature, start, fitted, start + size, scratch.spare
    )
    n_right_fitted = fitted - n_left_fitted
    state[leaf, SIZE], state[leaf, FITTED] = n_left, n_left_fitted
    state[other, START], state[other, SIZE], state[other, FITTED] = start + n_left, size - n_left, n_right_fitted
    for e in range(leaves.mask.shape[1]):
        leaves.mask[other, e] = leaves.mask[leaf, e]
        leaves.contexts[other, 0, e] = leaves.contexts[leaf, 0, e]
        leaves.contexts[other, 1, e] = leaves.contexts[leaf, 1, e]
    for j in range(leaves.type_rows.shape[1]):
        leaves.type_rows[other, j] = leaves.type_rows[leaf, j]
    state[other, G], state[other, H] = state[leaf, G], state[leaf, H]
    small, large = (leaf, other) if n_left_fitted <= n_right_fitted else (other, leaf)
    if small == leaf:  # the parent's histogram goes to the large child
        state[leaf, SLOT], state[other, SLOT] = state[other, SLOT], state[leaf, SLOT]
    _measure(dense, sparse, space, scales, leaves, I(small), rows, gradient, curvature, wants_histogram)
    if wants_histogram and leaves.mask.shape[1] > 1:
        first, last = state[small, START], state[small, START] + state[small, FITTED]
        add_contexts(cells, space, rows, first, last, leaves.contexts[small])
    _subtract_small(leaves, large, small, wants_histogram)


@inlined
def _types_with_context(space, mask):
    """Return which types of rows have a context in ``mask``."""
    has = np.zeros(space.base.size, dtype=np.bool_)
    for e in range(mask.size):
        if mask[e] != 0:
            has[space.type_of[e]] = True
    return has


@inlined
def _share_contexts(space, leaves, leaf, other, rule, left):
    """Divide the contexts of ``leaf`` between it and ``other``."""
    for e in range(leaves.mask.shape[1]):
        goes_left = left[space.lag_label[rule.feature, e]]
        was = leaves.mask[leaf, e]
        leaves.mask[leaf, e] = was if goes_left else 0
        leaves.mask[other, e] = 0 if goes_left else was
        leaves.contexts[other, 0, e] = leaves.contexts[leaf, 0, e]
        leaves.contexts[other, 1, e] = leaves.contexts[leaf, 1, e]


@inlined
def _split_contexts(
    dense, sparse, space, scales, cells, leaves, leaf, other, rule, segments, scratch, wants_histogram
):  # fmt: skip
    """Divide the contexts of ``leaf``; the segment of ``other`` lies at its START, with room for a copy of the rows."""
    rows, gradient, curvature = segments
    state = leaves.state
    start, size, fitted = state[leaf, START], state[leaf, SIZE], state[leaf, FITTED]
    there = state[other, START]
    _share_contexts(space, leaves, leaf, other, rule, scratch.left)
    for p in range(size):
        rows[there + p] = rows[start + p]
        gradient[there + p] = gradient[start + p]
        curvature[there + p] = curvature[start + p]
    row_sums(cells, leaves.mask[leaf], space, rows, gradient, curvature, start, start + fitted)
    for p in range(fitted):
        gradient[there + p] -= gradient[start + p]
        curvature[there + p] -= curvature[start + p]
    has_left = _types_with_context(space, leaves.mask[leaf])
    left_histogram = leaves.histogram[state[leaf, SLOT]]
    for p in range(start, start + fitted):
        if wants_histogram and not has_left[space.row_type[rows[p]]]:
            remove_counts(dense, sparse, rows[p], left_histogram)
    state[leaf, SIZE], state[leaf, FITTED] = keep_types(
        space.row_type, has_left, rows, gradient, curvature, start, size, fitted
    )
    has_right = _types_with_context(space, leaves.mask[other])
    state[other, SIZE], state[other, FITTED] = keep_types(
        space.row_type, has_right, rows, gradient, curvature, there, size, fitted
    )
    _measure(dense, sparse, space, scales, leaves, I(other), rows, gradient, curvature, wants_histogram)
    if wants_histogram:
        subtract_contexts(left_histogram, leaves.histogram[state[other, SLOT]], scales.count_bits)
    state[leaf, G] -= state[other, G]
    state[leaf, H] -= state[other, H]
    for j in range(leaves.type_rows.shape[1]):
        leaves.type_rows[leaf, j] = leaves.type_rows[leaf, j] if has_left[j] else 0


@inlined
def _plant(dense, sparse, space, scales, cells, n_fitted, n_rows, segments, leaves, splits):
    """Make the root."""
    rows, gradient, curvature = segments
    state = leaves.state
    state[0, START], state[0, SIZE], state[0, FITTED], state[0, DEPTH] = 0, n_rows, n_fitted, 0
    for leaf in range(state.shape[0]):
        state[leaf, SLOT] = leaf
    for e in range(leaves.mask.shape[1]):
        leaves.mask[0, e] = -1
    row_sums(cells, leaves.mask[0], space, rows, gradient, curvature, I(0), n_fitted)
    if leaves.mask.shape[1] > 1:
        add_contexts(cells, space, rows, I(0), n_fitted, leaves.contexts[0])
    _measure(dense, sparse, space, scales, leaves, I(0), rows, gradient, curvature, np.bool_(True))
    splits.parent[0] = -1
    splits.word_start[0] = 0


@jit
def grow_tree(
    dense,  # IN DenseColumns
    sparse,  # IN SparseColumns
    space,  # IN Space
    limits,  # IN Limits
    scales,  # IN Scales
    cells,  # IN (n_rows, 2 * n_contexts) int32: a row's gradients, then its curvatures, in fixed point
    n_fitted,  # IN the first so many rows of the segments are fitted; the rest ride along
    n_rows,  # IN
    segments,  # IN/OUT (rows, gradient, curvature) int32: rows filled
    leaves,  # OUT Leaves
    splits,  # OUT Splits
    scratch,  # Scratch
):
    """Grow a tree; return its number of leaves and the segments (which may have moved to larger arrays)."""
    _plant(dense, sparse, space, scales, cells, n_fitted, n_rows, segments, leaves, splits)
    state = leaves.state
    used = n_rows
    n_leaves = I(1)
    newest = (I(0), I(-1))
    while True:
        for leaf in newest:
            if leaf >= 0:
                _find(dense, sparse, space, limits, scales, leaves, leaf, scratch)
        leaf = _best_leaf(leaves.rule, n_leaves)
        if leaf < 0 or n_leaves == limits.max_leaf_nodes:
            break
        r = leaves.rule[leaf]
        rule = SplitRule(r[0], np.int64(r[1]), np.int64(r[2]), np.int64(r[3]), np.int64(r[4]))
        other = n_leaves
        n_leaves += 1
        n_values = left_values(
            dense, sparse, space, limits, scales, rule, _node(leaves, leaf, limits, scales),
            leaves.histogram[state[leaf, SLOT]], leaves.contexts[leaf], leaves.mask[leaf], scratch.left,
            (scratch.keys, scratch.order),
        )  # fmt: skip
        feature = rule.feature
        if rule.kind == DENSE:
            feature = np.int64(dense.feature[rule.feature])
        if rule.kind == LAG:
            feature = rule.feature + 1
        _record(splits, other - 1, leaf, other, rule, feature, scratch.left, n_values, state[leaf, FITTED])
        is_last = n_leaves == limits.max_leaf_nodes
        if rule.kind == LAG:
            needed = used + state[leaf, SIZE]
            segments = (
                regrown(segments[0], used, needed), regrown(segments[1], used, needed),
                regrown(segments[2], used, needed),
            )  # fmt: skip
            state[other, START] = used
            used = needed
            _split_contexts(
                dense, sparse, space, scales, cells, leaves, leaf, other, rule, segments, scratch, not is_last
            )
        else:
            _split_rows(
                dense, sparse, space, scales, cells, leaves, leaf, other, rule, segments, scratch, not is_last
            )
        state[leaf, DEPTH] += 1
        state[other, DEPTH] = state[leaf, DEPTH]
        newest = (I(-1), I(-1)) if is_last else (I(leaf), I(other))
    return n_leaves, segments
