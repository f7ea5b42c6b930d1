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
    subtract_contexts,
)
from seqboost.trees.integers import int64, uint64
from seqboost.trees.partition import divide, mark_dense, mark_sparse, share
from seqboost.trees.space import Space
from seqboost.trees.tree import DENSE

__all__ = ["measure", "split_contexts", "split_rows"]


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
def _small_and_large(leaves: Leaves, leaf: int, other: int) -> tuple[int, int]:
    """Return the child with fewer positions, then the one with more, which gets all that the parent added up to."""
    state, type_rows = leaves.state, leaves.type_rows
    small, large = (leaf, other) if state[leaf, FITTED] <= state[other, FITTED] else (other, leaf)
    if small == leaf:
        state[leaf, SLOT], state[other, SLOT] = state[other, SLOT], state[leaf, SLOT]
        state[large, G], state[large, H] = state[leaf, G], state[leaf, H]
        for j in range(type_rows.shape[1]):
            type_rows[large, j] = type_rows[leaf, j]
    return small, large


@inlined
def split_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    segments: Segments,
    scratch: Scratch,
    wants_histogram: bool,
) -> None:
    """Divide the positions of ``leaf``: its left part stays ``leaf``, its right part becomes ``other``."""
    rows = segments[0]
    state, mask, type_rows, contexts = leaves.state, leaves.mask, leaves.type_rows, leaves.contexts
    start, size, fitted = state[leaf, START], state[leaf, SIZE], state[leaf, FITTED]
    goes_left = scratch.goes_left
    if rule.kind == DENSE:
        mark_dense(dense, rule.feature, scratch.left, rows, start, start + size, goes_left)
    else:
        mark_sparse(sparse, rule.feature, scratch.left, rows, start, start + size, goes_left)
    n_left, n_left_fitted = divide(goes_left, segments, start, fitted, start + size, scratch.spare)
    state[leaf, SIZE], state[leaf, FITTED] = n_left, n_left_fitted
    state[other, START], state[other, SIZE] = start + n_left, size - n_left
    state[other, FITTED] = fitted - n_left_fitted
    for e in range(mask.shape[1]):
        mask[other, e] = mask[leaf, e]
    small, large = _small_and_large(leaves, leaf, other)
    measure(dense, sparse, space, scales, leaves, int64(small), segments, wants_histogram)
    state[large, G] -= state[small, G]
    state[large, H] -= state[small, H]
    for j in range(type_rows.shape[1]):
        type_rows[large, j] -= type_rows[small, j]
    if wants_histogram:
        slot, from_slot = state[small, SLOT], state[large, SLOT]
        subtract(leaves.histogram[from_slot], leaves.histogram[slot])
        for e in range(contexts.shape[2]):
            contexts[slot, 0, e] = 0
            contexts[slot, 1, e] = 0
        if contexts.shape[2] > 1:
            first, last = state[small, START], state[small, START] + state[small, FITTED]
            add_contexts(cells, space, rows, first, last, contexts[slot])
        for e in range(contexts.shape[2]):
            contexts[from_slot, 0, e] -= contexts[slot, 0, e]
            contexts[from_slot, 1, e] -= contexts[slot, 1, e]


@inlined
def _share_contexts(
    space: Space,
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    left: NDArray[np.bool_],  # IN (max_values,)
    has: NDArray[np.bool_],  # OUT (2, order + 1) types of rows that have a context in ``leaf`` and in ``other``
) -> None:
    """Divide the contexts of ``leaf`` between it and ``other``; both keep the sums per context."""
    mask, contexts = leaves.mask, leaves.contexts
    from_slot, slot = leaves.state[leaf, SLOT], leaves.state[other, SLOT]
    for j in range(has.shape[1]):
        has[0, j] = False
        has[1, j] = False
    for e in range(mask.shape[1]):
        side = 0 if left[space.lag_label[rule.feature, e]] else 1
        was = mask[leaf, e]
        mask[leaf, e] = was if side == 0 else 0
        mask[other, e] = was if side == 1 else 0
        has[side, space.type_of[e]] |= was != 0
        contexts[slot, 0, e] = contexts[from_slot, 0, e]
        contexts[slot, 1, e] = contexts[from_slot, 1, e]


@inlined
def _full_contexts(
    space: Space,
    mask: NDArray[np.int32],  # IN (n_extended,)
    contexts: NDArray[np.int64],  # OUT (n_contexts,)
) -> int:
    """Write the contexts of ``mask`` that rows of full type have; return their number."""
    base = space.base[space.base.size - 1]
    n = 0
    for c in range(contexts.size):
        if mask[base + c] != 0:
            contexts[n] = c
            n += 1
    return n


@inlined
def _share_rows(
    space: Space,
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    segments: Segments,
    scratch: Scratch,
) -> None:
    """Give ``leaf`` and ``other`` their positions; sums are taken over the contexts of the side that has fewer."""
    state, mask, has, chosen = leaves.state, leaves.mask, scratch.has, scratch.chosen
    first, last, n_fitted = state[leaf, START], state[leaf, START] + state[leaf, SIZE], state[leaf, FITTED]
    one, two = leaf, other
    n_other = _full_contexts(space, mask[other], chosen)
    n = _full_contexts(space, mask[leaf], chosen)
    if n_other < n:
        n = _full_contexts(space, mask[other], chosen)
        one, two = other, leaf
        has = has[::-1]
    to = (state[one, START], state[two, START])
    state[one, SIZE], state[two, SIZE], state[one, FITTED], state[two, FITTED] = share(
        cells, space, mask[one], chosen[:n], has, segments, first, n_fitted, last, to
    )


@inlined
def split_contexts(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    segments: Segments,
    scratch: Scratch,
    wants_histogram: bool,
) -> None:
    """Divide the contexts of ``leaf``; the segment of ``other`` lies at its START, with room for a copy of the rows."""
    state, type_rows = leaves.state, leaves.type_rows
    n_fitted = state[leaf, FITTED]
    _share_contexts(space, leaves, leaf, other, rule, scratch.left, scratch.has)
    _share_rows(space, cells, leaves, leaf, other, segments, scratch)
    small, large = _small_and_large(leaves, leaf, other)
    measure(dense, sparse, space, scales, leaves, int64(small), segments, wants_histogram)
    state[large, G] -= state[small, G]
    state[large, H] -= state[small, H]
    has_large = scratch.has[0 if large == leaf else 1]
    for j in range(type_rows.shape[1]):
        type_rows[large, j] = type_rows[large, j] if has_large[j] else 0
    if wants_histogram:
        histogram = leaves.histogram[state[large, SLOT]]
        subtract_contexts(histogram, leaves.histogram[state[small, SLOT]], scales.count_bits)
        if state[large, FITTED] < n_fitted:  # some positions are the small child's alone
            for p in range(state[small, START], state[small, START] + state[small, FITTED]):
                row = segments[0][p]
                if not has_large[space.row_type[row]]:
                    remove_counts(dense, sparse, row, histogram)
