"""The two children of a split: their positions, their contexts, and what both add up to.

Only one child is summed from its rows; the other is what that leaves of the parent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.trees.buffers import FITTED, SIZE, SLOT, START, G, H, Leaves, Scratch, Segments
from seqboost.trees.criterion import SplitRule
from seqboost.trees.fixedpoint import Scales, add_contexts, curvature_of, gradient_of
from seqboost.trees.histogram import (
    Addition,
    DenseColumns,
    SparseColumns,
    add_dense,
    add_sparse,
    clear,
    remove_counts,
    subtract,
)
from seqboost.trees.integers import int64, uint64
from seqboost.trees.partition import divide_dense, divide_marked, mark_sparse, share
from seqboost.trees.tree import DENSE

__all__ = ["divide_contexts", "divide_rows", "measure", "sum_children"]

ENTRIES_PER_CELL = 2
"""A histogram is subtracted if a node has more entries than that for each of its cells: each costs about as much."""


@inner
def measure(
    dense: DenseColumns,
    sparse: SparseColumns,
    scales: Scales,
    leaves: Leaves,
    leaf: int,
    segments: Segments,  # IN
    wants_histogram: bool | np.bool_,
    block: NDArray[np.int64],  # SCRATCH (ROWS_AT_ONCE, N_BLOCK)
) -> None:
    """Compute a leaf's sums and, if wanted, its histogram from its rows."""
    rows, sums = segments
    first = leaves.state[leaf, START]
    last = first + leaves.state[leaf, FITTED]
    histogram = leaves.histogram[leaves.state[leaf, SLOT]]
    g, h = int64(0), int64(0)
    if wants_histogram:
        clear(histogram)
        addition = Addition(scales.count_bits, int64(1), int64(1))
        _add_rows(dense, sparse, segments, first, last, addition, block, histogram)
    if wants_histogram and dense.feature.size > 0:  # a feature's cells hold every position once
        for b in range(dense.cell_start[0], dense.cell_start[1]):
            g += histogram[2 * b]
            h += histogram[2 * b + 1] >> scales.count_bits
    else:
        for p in range(uint64(first), uint64(last)):
            g += gradient_of(sums[p])
            h += curvature_of(sums[p])
    leaves.state[leaf, G] = g
    leaves.state[leaf, H] = h


@inner
def _add_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    segments: Segments,  # IN
    first: int,  # IN the part of the segments
    last: int,  # IN
    addition: Addition,
    block: NDArray[np.int64],  # SCRATCH (ROWS_AT_ONCE, N_BLOCK)
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to a histogram, or take them out."""
    rows, sums = segments
    add_dense(dense, rows, sums, first, last, addition, block, histogram)
    if sparse.kind.size > 0:
        add_sparse(sparse, dense.cell_start[dense.cell_start.size - 1], rows, sums, first, last, addition, histogram)


@inlined
def _take_out(
    dense: DenseColumns,
    sparse: SparseColumns,
    segments: Segments,  # IN
    leaves: Leaves,
    small: int,
    large: int,
    count_bits: int,
    by_contexts: bool,  # IN do both children have the same positions?
    has_histogram: bool,  # IN was that of ``small`` made?
    block: NDArray[np.int64],  # SCRATCH (ROWS_AT_ONCE, N_BLOCK)
) -> None:
    """Turn the parent's histogram, which ``large`` took over, into that of ``large``.

    A few positions are taken out one by one, many by subtracting the histogram of ``small``, which takes every cell.
    """
    first, n = leaves.state[small, START], leaves.state[small, FITTED]
    histogram = leaves.histogram[leaves.state[large, SLOT]]
    entries = dense.feature.size + sparse.offset.size * (sparse.indices.size // sparse.indptr.size)
    if has_histogram and n * entries > ENTRIES_PER_CELL * histogram.size // 2:
        shared = -(int64(1) << count_bits) if by_contexts else int64(-1)
        subtract(histogram, leaves.histogram[leaves.state[small, SLOT]], shared)
    else:
        addition = Addition(count_bits, int64(-1), int64(0 if by_contexts else -1))
        _add_rows(dense, sparse, segments, first, first + n, addition, block, histogram)


@inlined
def divide_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    segments: Segments,
    scratch: Scratch,
) -> None:
    """Divide the positions of ``leaf``: its left part stays ``leaf``, its right part becomes ``other``."""
    state, mask = leaves.state, leaves.mask
    start, size, fitted = state[leaf, START], state[leaf, SIZE], state[leaf, FITTED]
    end = start + size
    if rule.kind == DENSE:
        n_left, n_left_fitted = divide_dense(
            dense, rule.feature, scratch.left, segments, start, fitted, end, scratch.spare
        )
    else:
        mark_sparse(sparse, rule.feature, scratch.left, segments[0], start, end, scratch.goes_left)
        n_left, n_left_fitted = divide_marked(scratch.goes_left, segments, start, fitted, end, scratch.spare)
    state[leaf, SIZE], state[leaf, FITTED] = n_left, n_left_fitted
    state[other, START], state[other, SIZE] = start + n_left, size - n_left
    state[other, FITTED] = fitted - n_left_fitted
    for e in range(mask.shape[1]):
        mask[other, e] = mask[leaf, e]


@inlined
def divide_contexts(
    space: Space,
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    segments: Segments,
    scratch: Scratch,
) -> None:
    """Divide the contexts of ``leaf``; the segment of ``other`` lies at its START, with room for a copy of the rows.

    Sums of rows are taken over the contexts of the child that has fewer; the rest is the other's.
    """
    state, mask, has, chosen = leaves.state, leaves.mask, scratch.has, scratch.chosen
    for j in range(has.shape[1]):
        has[0, j] = False
        has[1, j] = False
    n_left, n_right = 0, 0
    for e in range(mask.shape[1]):
        goes_left = scratch.left[space.lag_label[rule.feature, e]]
        j = space.type_of[e]
        was = mask[leaf, e]
        mask[leaf, e] = was if goes_left else 0
        mask[other, e] = 0 if goes_left else was
        has[0, j] |= mask[leaf, e] != 0
        has[1, j] |= mask[other, e] != 0
        if j == has.shape[1] - 1:
            n_left += mask[leaf, e] != 0
            n_right += mask[other, e] != 0
    fewer, more = (leaf, other) if n_left <= n_right else (other, leaf)
    base = space.base[has.shape[1] - 1]
    n = 0
    for c in range(chosen.size):
        chosen[n] = c
        n += mask[fewer, base + c] != 0
    first, n_fitted, last = state[leaf, START], state[leaf, FITTED], state[leaf, START] + state[leaf, SIZE]
    side = int64(0 if fewer == leaf else 1)
    state[fewer, SIZE], state[more, SIZE], state[fewer, FITTED], state[more, FITTED] = share(
        cells, space, mask[fewer], chosen[:n], has, side, segments, first, n_fitted, last,
        (state[fewer, START], state[more, START]),
    )  # fmt: skip


@inlined
def sum_children(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    n_fitted: int,  # IN positions that ``leaf`` had before it was split
    by_contexts: bool,  # IN were contexts divided, or positions?
    segments: Segments,
    scratch: Scratch,
    wants_histogram: bool,
    min_samples_leaf: int,
) -> None:
    """Sum the child with fewer positions from its rows; the other takes what the parent had and gives that away."""
    state, type_rows, contexts = leaves.state, leaves.type_rows, leaves.contexts
    small, large = (leaf, other) if state[leaf, FITTED] <= state[other, FITTED] else (other, leaf)
    if small == leaf:
        state[leaf, SLOT], state[other, SLOT] = state[other, SLOT], state[leaf, SLOT]
        state[other, G], state[other, H] = state[leaf, G], state[leaf, H]
        for j in range(type_rows.shape[1]):
            type_rows[other, j] = type_rows[leaf, j]
    # A node with fewer positions than two leaves need is searched for splits of contexts alone.
    wants_small = wants_histogram and state[small, FITTED] >= 2 * min_samples_leaf
    wants_large = wants_histogram and state[large, FITTED] >= 2 * min_samples_leaf
    measure(dense, sparse, scales, leaves, int64(small), segments, wants_small, scratch.block)
    state[large, G] -= state[small, G]
    state[large, H] -= state[small, H]
    if not wants_histogram:
        return
    slot, from_slot = state[small, SLOT], state[large, SLOT]
    first, last = state[small, START], state[small, START] + state[small, FITTED]
    if wants_large:
        _take_out(
            dense, sparse, segments, leaves, small, large, scales.count_bits, by_contexts, wants_small, scratch.block
        )
    if by_contexts:  # both keep the sums per context; their masks tell whose they are
        has_small, has_large = scratch.has[0 if small == leaf else 1], scratch.has[0 if large == leaf else 1]
        for e in range(contexts.shape[2]):
            contexts[slot, 0, e] = contexts[from_slot, 0, e]
            contexts[slot, 1, e] = contexts[from_slot, 1, e]
        for j in range(type_rows.shape[1]):
            type_rows[small, j] = type_rows[large, j] if has_small[j] else 0
            type_rows[large, j] = type_rows[large, j] if has_large[j] else 0
        for p in range(first, last if wants_large and state[large, FITTED] < n_fitted else first):
            row = segments[0][p]
            if not has_large[space.row_type[row]]:
                remove_counts(dense, sparse, row, leaves.histogram[from_slot])
        return
    if contexts.shape[2] == 1:
        return
    for e in range(contexts.shape[2]):
        contexts[slot, 0, e] = 0
        contexts[slot, 1, e] = 0
    for j in range(type_rows.shape[1]):
        type_rows[small, j] = 0
    add_contexts(cells, space, segments[0], first, last, contexts[slot], type_rows[small])
    for e in range(contexts.shape[2]):
        contexts[from_slot, 0, e] -= contexts[slot, 0, e]
        contexts[from_slot, 1, e] -= contexts[slot, 1, e]
    for j in range(type_rows.shape[1]):
        type_rows[large, j] -= type_rows[small, j]
