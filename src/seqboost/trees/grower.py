"""Growing one tree, best split first, on the product space rows × contexts.

A node is a set of positions times a set of contexts and stays one: a window test divides its positions, a lag test its
contexts. So a node needs its positions' derivatives summed over its contexts only once, histograms over positions
alone, and the sums per context for the lag tests::

    root ──► sums over all contexts ──► histogram ──► best split
      │
      ├─ window test   positions divided     smaller child: new histogram         larger: parent − smaller
      └─ lag test      contexts divided      its share of the sums of rows,       larger: parent − smaller
                                             smaller child: new histogram
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner, lean
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
    Scratch,
    Segments,
    Splits,
)
from seqboost.trees.children import divide_contexts, divide_rows, measure, sum_children
from seqboost.trees.criterion import Limits, Node, SplitRule
from seqboost.trees.fixedpoint import Planes, Scales, add_contexts, block_end, quantise, row_sums
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.leftsets import left_values
from seqboost.trees.splitting import best_split
from seqboost.trees.tree import DENSE, LAG
from seqboost.trees.weighted_buffers import WeightedScratch

__all__ = ["best_leaf", "draw_features", "draw_pool", "grow_tree", "record_split"]


@inner
def _next_random(
    state: NDArray[np.uint64],  # IN/OUT (1,)
    bound: int,  # IN
) -> int:
    """Return a random number below ``bound`` (SplitMix64) and move the state on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int64((z ^ (z >> np.uint64(31))) % np.uint64(bound))


@inner
def draw_pool(scratch: Scratch | WeightedScratch, n_pool: int) -> None:
    """Draw the window features that the nodes of a tree draw theirs from."""
    pool = scratch.pool
    for f in range(pool.size):
        pool[f] = f  # what is drawn depends on the seed alone, not on the trees this grower grew before
    if n_pool < pool.size:
        for r in range(n_pool):
            q = r + _next_random(scratch.random, pool.size - r)
            pool[r], pool[q] = pool[q], pool[r]


@inner
def draw_features(scratch: Scratch | WeightedScratch, n_drawn: int, n_pool: int) -> None:
    """Draw the window features that the next node may use (without replacement)."""
    drawn, shuffled = scratch.drawn, scratch.shuffled
    n = min(n_pool, drawn.size)
    if n_drawn >= drawn.size and n == drawn.size:
        return
    for f in range(drawn.size):
        drawn[f] = False
    for r in range(n):
        shuffled[r] = scratch.pool[r]
    for r in range(min(n_drawn, n)):
        if n_drawn < n:
            q = r + _next_random(scratch.random, n - r)
            shuffled[r], shuffled[q] = shuffled[q], shuffled[r]
        drawn[shuffled[r]] = True


@inlined
def _node(
    state: NDArray[np.int64],  # IN (max_leaves, N_STATE)
    leaf: int,
    limits: Limits,
    scales: Scales,
) -> Node:
    """Return (G, H, n, G²/(H+λ)) of a leaf."""
    g = state[leaf, G] / scales.gradient
    h = state[leaf, H] / scales.curvature
    return g, h, state[leaf, FITTED], g * g / max(h + limits.l2_regularization, 1e-300)


@inlined
def _find(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    limits: Limits,
    scales: Scales,
    leaves: Leaves,
    leaf: int,
    scratch: Scratch,
) -> None:
    """Find and store the best split of a leaf."""
    stored, state = leaves.rule[leaf], leaves.state
    slot = state[leaf, SLOT]
    stored[0] = -1.0
    if state[leaf, DEPTH] >= limits.max_depth:
        return
    draw_features(scratch, limits.n_drawn_features, limits.n_tree_features)
    rule = best_split(
        dense, sparse, space, limits, scales, _node(state, leaf, limits, scales), leaves.histogram[slot],
        leaves.contexts[slot], leaves.mask[leaf], leaves.type_rows[leaf], scratch.drawn, scratch.ranks,
    )  # fmt: skip
    if rule.kind >= 0:
        stored[0], stored[1], stored[2], stored[3], stored[4] = rule


@inlined
def best_leaf(
    rule: NDArray[np.float64],  # IN (max_leaves, 5)
    n_leaves: int,  # IN
) -> int:
    """Return the leaf with the largest gain, −1 if none can be split."""
    best = -1
    gain = 0.0
    for leaf in range(n_leaves):
        if rule[leaf, 0] > gain:
            best, gain = leaf, rule[leaf, 0]
    return best


@inlined
def record_split(
    splits: Splits,
    number: int,
    leaf: int,
    other: int,
    rule: SplitRule,
    feature: int,
    left: NDArray[np.bool_],  # IN (max_values,)
    n_values: int,
    n_rows: int,
) -> None:
    """Write split ``number``, which turned ``leaf`` into itself (left) and ``other`` (right), into the tree."""
    splits.kind[number] = rule.kind
    splits.feature[number] = feature
    splits.gain[number] = rule.gain
    splits.n_rows[number] = n_rows
    left_child, right_child, parent, words = splits.left, splits.right, splits.parent, splits.words
    above = parent[leaf]
    if above >= 0:
        if left_child[above] == ~leaf:
            left_child[above] = number
        else:
            right_child[above] = number
    left_child[number] = ~leaf
    right_child[number] = ~other
    parent[leaf] = number
    parent[other] = number
    first = splits.word_start[number]
    n_words = (n_values + 63) // 64
    for w in range(n_words):
        words[first + w] = 0
    for v in range(n_values):
        if left[v]:
            words[first + v // 64] |= np.uint64(1) << np.uint64(v % 64)
    splits.word_start[number + 1] = first + n_words


@inlined
def _plant(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    planes: Planes,
    cells: NDArray[np.int64],  # OUT (n_rows, n_contexts)
    sizes: tuple[int, int],  # IN fitted positions, all positions
    segments: Segments,
    leaves: Leaves,
    splits: Splits,
    block: NDArray[np.int64],  # SCRATCH (ROWS_AT_ONCE, N_BLOCK)
) -> None:
    """Make the root."""
    rows, sums = segments
    n_fitted, n_rows = sizes
    state = leaves.state
    state[0, START], state[0, SIZE], state[0, FITTED], state[0, DEPTH] = 0, n_rows, n_fitted, 0
    for leaf in range(state.shape[0]):
        state[leaf, SLOT] = leaf
    for e in range(leaves.mask.shape[1]):
        leaves.mask[0, e] = -1
    contexts, types = leaves.contexts[0], leaves.type_rows[0]
    for j in range(types.size):
        types[j] = 0
    for e in range(contexts.shape[1]):
        contexts[0, e] = 0
        contexts[1, e] = 0
    first = int64(0)
    while first < n_fitted:  # a block of rows is written and summed while the processor still has it at hand
        last = block_end(rows, first, n_fitted, planes.n_contexts)
        quantise(planes, scales, int64(rows[first]), last - first)
        row_sums(cells, rows, first, last, sums)
        if contexts.shape[1] > 1:
            add_contexts(cells, space, rows, first, last, contexts, types)
        first = last
    measure(dense, sparse, scales, leaves, int64(0), segments, np.bool_(True), block)
    splits.parent[0] = -1
    splits.word_start[0] = 0
    progress = leaves.progress
    progress[N_LEAVES], progress[USED], progress[NEWEST], progress[NEWEST + 1] = 1, n_rows, 0, -1


@lean
def grow_tree(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    limits: Limits,
    scales: Scales,
    planes: Planes,
    cells: NDArray[np.int64],  # OUT (n_rows, n_contexts) the derivatives in fixed point
    sizes: tuple[int, int],  # IN positions the tree is fitted to, which come first in the segments; all positions
    segments: Segments,  # IN/OUT rows filled
    leaves: Leaves,  # OUT
    splits: Splits,  # OUT
    scratch: Scratch,
) -> bool:
    """Grow a tree, or go on growing it; return False when the segments must be made longer before it can go on."""
    state, progress = leaves.state, leaves.progress
    if progress[N_LEAVES] == 0:
        draw_pool(scratch, limits.n_tree_features)
        _plant(dense, sparse, space, scales, planes, cells, sizes, segments, leaves, splits, scratch.block)
    while True:
        for q in range(NEWEST, NEWEST + 2):
            newest = progress[q]
            if newest >= 0:
                _find(dense, sparse, space, limits, scales, leaves, newest, scratch)
                progress[q] = -1
        other = progress[N_LEAVES]
        leaf = best_leaf(leaves.rule, other)
        if leaf < 0 or other == limits.max_leaf_nodes:
            return True
        r = leaves.rule[leaf]
        rule = SplitRule(r[0], int64(r[1]), int64(r[2]), int64(r[3]), int64(r[4]))
        if rule.kind == LAG:
            if progress[USED] + state[leaf, SIZE] > segments[0].size:
                return False
            state[other, START] = progress[USED]
        n_values = left_values(
            dense, sparse, space, limits, scales, rule, _node(state, leaf, limits, scales),
            leaves.histogram[state[leaf, SLOT]], leaves.contexts[state[leaf, SLOT]], leaves.mask[leaf], scratch.left,
            scratch.ranks,
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
            divide_contexts(space, cells, leaves, leaf, other, rule, segments, scratch)
            progress[USED] += state[other, SIZE]
        else:
            divide_rows(dense, sparse, leaves, leaf, other, rule, segments, scratch)
        sum_children(
            dense, sparse, space, scales, cells, leaves, leaf, other, n_fitted, rule.kind == LAG, segments, scratch,
            not is_last, limits.min_samples_leaf,
        )  # fmt: skip
        state[leaf, DEPTH] += 1
        state[other, DEPTH] = state[leaf, DEPTH]
        progress[N_LEAVES] += 1
        if not is_last:
            progress[NEWEST], progress[NEWEST + 1] = leaf, other
