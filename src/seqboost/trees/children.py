"""The two children of a split: their positions, their contexts, and what both add up to.

Only one child is summed from its rows; the other is what that leaves of the parent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inlined, inner
from seqboost.trees.buffers import FITTED, SIZE, SLOT, START, G, H, Leaves, Scratch, Segments
from seqboost.trees.criterion import SplitRule
from seqboost.trees.fixedpoint import Scales, add_contexts, row_sums
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
from seqboost.trees.integers import int64
from seqboost.trees.partition import divide, keep_types, mark_dense, mark_sparse
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
    rows: NDArray[np.int32],  # IN
    gradient: NDArray[np.int32],  # IN
    curvature: NDArray[np.int32],  # IN
    wants_histogram: bool | np.bool_,
) -> None:
    """Compute a leaf's sums, its positions by type and, if wanted, its histogram from its rows."""
    first = leaves.state[leaf, START]
    last = first + leaves.state[leaf, FITTED]
    g = int64(0)
    h = int64(0)
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
def _subtract_small(leaves: Leaves, large: int, small: int, wants_histogram: bool) -> None:
    """Turn the parent's sums, which ``large`` holds, into its own: parent − small."""
    state, type_rows, contexts = leaves.state, leaves.type_rows, leaves.contexts
    state[large, G] -= state[small, G]
    state[large, H] -= state[small, H]
    for j in range(type_rows.shape[1]):
        type_rows[large, j] -= type_rows[small, j]
    if wants_histogram:
        from_slot, slot = state[large, SLOT], state[small, SLOT]
        subtract(leaves.histogram[from_slot], leaves.histogram[slot])
        for e in range(contexts.shape[2]):
            contexts[from_slot, 0, e] -= contexts[slot, 0, e]
            contexts[from_slot, 1, e] -= contexts[slot, 1, e]


@inlined
def split_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    cells: NDArray[np.int32],  # IN (n_rows, 2 * n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    segments: Segments,
    scratch: Scratch,
    wants_histogram: bool,
) -> None:
    """Divide the positions of ``leaf``: its left part stays ``leaf``, its right part becomes ``other``."""
    rows, gradient, curvature = segments
    state, mask, type_rows = leaves.state, leaves.mask, leaves.type_rows
    start, size, fitted = state[leaf, START], state[leaf, SIZE], state[leaf, FITTED]
    goes_left = scratch.goes_left
    if rule.kind == DENSE:
        mark_dense(dense, rule.feature, scratch.left, rows, start, start + size, goes_left)
    else:
        mark_sparse(sparse, rule.feature, scratch.left, rows, start, start + size, goes_left)
    n_left, n_left_fitted = divide(goes_left, rows, gradient, curvature, start, fitted, start + size, scratch.spare)
    n_right_fitted = fitted - n_left_fitted
    state[leaf, SIZE], state[leaf, FITTED] = n_left, n_left_fitted
    state[other, START], state[other, SIZE], state[other, FITTED] = start + n_left, size - n_left, n_right_fitted
    for e in range(mask.shape[1]):
        mask[other, e] = mask[leaf, e]
    for j in range(type_rows.shape[1]):
        type_rows[other, j] = type_rows[leaf, j]
    state[other, G], state[other, H] = state[leaf, G], state[leaf, H]
    small, large = (leaf, other) if n_left_fitted <= n_right_fitted else (other, leaf)
    if small == leaf:  # the parent's histogram and sums per context go to the large child
        state[leaf, SLOT], state[other, SLOT] = state[other, SLOT], state[leaf, SLOT]
    measure(dense, sparse, space, scales, leaves, int64(small), rows, gradient, curvature, wants_histogram)
    if wants_histogram and mask.shape[1] > 1:
        first, last = state[small, START], state[small, START] + state[small, FITTED]
        add_contexts(cells, space, rows, first, last, scratch.inside, leaves.contexts[state[small, SLOT]])
    _subtract_small(leaves, large, small, wants_histogram)


@inlined
def _types_with_context(
    space: Space,
    mask: NDArray[np.int32],  # IN (n_extended,)
    has: NDArray[np.bool_],  # OUT (order + 1,)
) -> None:
    """Tell which types of rows have a context in ``mask``."""
    for j in range(has.size):
        has[j] = False
    for e in range(mask.size):
        if mask[e] != 0:
            has[space.type_of[e]] = True


@inlined
def _share_contexts(
    space: Space,
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    left: NDArray[np.bool_],  # IN (max_values,)
) -> None:
    """Divide the contexts of ``leaf`` between it and ``other``."""
    mask, contexts = leaves.mask, leaves.contexts
    from_slot, slot = leaves.state[leaf, SLOT], leaves.state[other, SLOT]
    for e in range(mask.shape[1]):
        goes_left = left[space.lag_label[rule.feature, e]]
        was = mask[leaf, e]
        mask[leaf, e] = was if goes_left else 0
        mask[other, e] = 0 if goes_left else was
        contexts[slot, 0, e] = contexts[from_slot, 0, e]
        contexts[slot, 1, e] = contexts[from_slot, 1, e]


@inlined
def split_contexts(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    scales: Scales,
    cells: NDArray[np.int32],  # IN (n_rows, 2 * n_contexts)
    leaves: Leaves,
    leaf: int,
    other: int,
    rule: SplitRule,
    segments: Segments,
    scratch: Scratch,
    wants_histogram: bool,
) -> None:
    """Divide the contexts of ``leaf``; the segment of ``other`` lies at its START, with room for a copy of the rows."""
    rows, gradient, curvature = segments
    state, mask, type_rows, row_type = leaves.state, leaves.mask, leaves.type_rows, space.row_type
    start, size, fitted = state[leaf, START], state[leaf, SIZE], state[leaf, FITTED]
    there = state[other, START]
    _share_contexts(space, leaves, leaf, other, rule, scratch.left)
    has_left, has_right = scratch.has[0], scratch.has[1]
    _types_with_context(space, mask[leaf], has_left)
    _types_with_context(space, mask[other], has_right)
    for p in range(size):
        rows[there + p] = rows[start + p]
        gradient[there + p] = gradient[start + p]
        curvature[there + p] = curvature[start + p]
    row_sums(cells, mask[leaf], space, rows, gradient, curvature, start, start + fitted)
    for p in range(fitted):
        gradient[there + p] -= gradient[start + p]
        curvature[there + p] -= curvature[start + p]
    left_histogram = leaves.histogram[state[leaf, SLOT]]
    for p in range(start, start + fitted):
        if wants_histogram and not has_left[row_type[rows[p]]]:
            remove_counts(dense, sparse, rows[p], left_histogram)
    state[leaf, SIZE], state[leaf, FITTED] = keep_types(
        row_type, has_left, rows, gradient, curvature, start, size, fitted
    )
    state[other, SIZE], state[other, FITTED] = keep_types(
        row_type, has_right, rows, gradient, curvature, there, size, fitted
    )
    measure(dense, sparse, space, scales, leaves, int64(other), rows, gradient, curvature, wants_histogram)
    if wants_histogram:
        subtract_contexts(left_histogram, leaves.histogram[state[other, SLOT]], scales.count_bits)
    state[leaf, G] -= state[other, G]
    state[leaf, H] -= state[other, H]
    for j in range(type_rows.shape[1]):
        type_rows[leaf, j] = type_rows[leaf, j] if has_left[j] else 0
