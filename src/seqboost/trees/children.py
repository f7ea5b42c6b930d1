"""The two children of a split: their positions, their contexts, and what both add up to.

Only one child is summed from its rows; the other is what that leaves of the parent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inlined, inner
from seqboost.trees.buffers import FITTED, SIZE, SLOT, START, G, H, Leaves, Scratch, Segments
from seqboost.trees.criterion import SplitRule
from seqboost.trees.fixedpoint import Scales, add_contexts, curvature_of, gradient_of
from seqboost.trees.histogram import (
    DenseColumns,
    SparseColumns,
    add_dense,
    add_sparse,
    clear,
    remove_counts,
    subtract,
)
from seqboost.trees.integers import int64, uint64
from seqboost.trees.partition import divide, mark_dense, mark_sparse, share
from seqboost.trees.space import Space
from seqboost.trees.tree import DENSE

__all__ = ["divide_contexts", "divide_rows", "measure", "sum_children"]


@inner
def measure(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    leaves: Leaves,
    leaf: int,
    segments: Segments,  # IN
    wants_histogram: bool | np.bool_,
) -> None:
    """Compute a leaf's sums, its positions by type and, if wanted, its histogram from its rows."""
    rows, sums = segments
    first = leaves.state[leaf, START]
    last = first + leaves.state[leaf, FITTED]
    order = space.base.size - 1
    types = leaves.type_rows[leaf]
    for j in range(order):
        types[j] = 0
    types[order] = last - first
    g, h = int64(0), int64(0)
    for p in range(uint64(first), uint64(last)):
        g += gradient_of(sums[p])
        h += curvature_of(sums[p])
        j = space.row_type[uint64(rows[p])]
        if j < order:  # few: near the starts of sequences
            types[j] += 1
            types[order] -= 1
    leaves.state[leaf, G] = g
    leaves.state[leaf, H] = h
    if wants_histogram:
        histogram = leaves.histogram[leaves.state[leaf, SLOT]]
        clear(histogram)
        add_dense(dense, rows, sums, first, last, scales.count_bits, histogram)
        if sparse.kind.size > 0:
            n_dense_cells = dense.cell_start[dense.cell_start.size - 1]
            add_sparse(sparse, n_dense_cells, rows, sums, first, last, scales.count_bits, histogram)


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
    if rule.kind == DENSE:
        mark_dense(dense, rule.feature, scratch.left, segments[0], start, start + size, scratch.goes_left)
    else:
        mark_sparse(sparse, rule.feature, scratch.left, segments[0], start, start + size, scratch.goes_left)
    n_left, n_left_fitted = divide(scratch.goes_left, segments, start, fitted, start + size, scratch.spare)
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
) -> None:
    """Sum the child with fewer positions from its rows; the other takes what the parent had and gives that away."""
    state, type_rows, contexts = leaves.state, leaves.type_rows, leaves.contexts
    small, large = (leaf, other) if state[leaf, FITTED] <= state[other, FITTED] else (other, leaf)
    if small == leaf:
        state[leaf, SLOT], state[other, SLOT] = state[other, SLOT], state[leaf, SLOT]
        state[other, G], state[other, H] = state[leaf, G], state[leaf, H]
        for j in range(type_rows.shape[1]):
            type_rows[other, j] = type_rows[leaf, j]
    measure(dense, sparse, space, scales, leaves, int64(small), segments, wants_histogram)
    state[large, G] -= state[small, G]
    state[large, H] -= state[small, H]
    has_large = scratch.has[0 if large == leaf else 1]
    for j in range(type_rows.shape[1]):
        if not by_contexts:
            type_rows[large, j] -= type_rows[small, j]
        elif not has_large[j]:
            type_rows[large, j] = 0
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
            row = segments[0][p]
            if not has_large[space.row_type[row]]:
                remove_counts(dense, sparse, row, leaves.histogram[from_slot])
        return
    subtract(leaves.histogram[from_slot], leaves.histogram[slot], int64(-1))
    for e in range(contexts.shape[2]):
        contexts[slot, 0, e] = 0
        contexts[slot, 1, e] = 0
    if contexts.shape[2] > 1:
        add_contexts(cells, space, segments[0], first, last, contexts[slot])
    for e in range(contexts.shape[2]):
        contexts[from_slot, 0, e] -= contexts[slot, 0, e]
        contexts[from_slot, 1, e] -= contexts[slot, 1, e]
