"""Rows of the nodes: dividing a node's positions between its children.

Every node owns a segment of two parallel arrays: positions, and their derivatives summed over the node's contexts
(:mod:`seqboost.trees.fixedpoint`). In each segment the positions that the tree is fitted to come first, in rising
order, then those that only ride along (held-out sequences) and have no derivatives::

    [ fitted ........ | riders .... ][ fitted ... | riders . ] ...
      node 0                           node 1

A split of rows divides a segment in place, stably, so this order survives. A split of contexts gives both children the
node's positions; the right child's go to the end of the arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.trees.buffers import Segments
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64, uint64
from seqboost.trees.vectors import prefetch

__all__ = ["divide_dense", "divide_marked", "mark_sparse", "share"]

AHEAD = uint64(16)
"""How many positions on cells are asked for: they lie far from one another, and fetching each takes long."""


@inner
def mark_sparse(
    sparse: SparseColumns,
    feature: int,  # IN offset · n_sparse + sparse feature
    left: NDArray[np.bool_],  # IN (max_values,)
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    goes_left: NDArray[np.bool_],  # OUT (last - first,)
) -> None:
    """Tell which positions go left by the slots they carry; those without a slot of the feature go right."""
    s = feature % sparse.kind.size
    offset = sparse.offset[feature // sparse.kind.size]
    first_slot, last_slot = sparse.slot_start[s], sparse.slot_start[s + 1]
    for p in range(first, last):
        row = sparse.padded_row[rows[p]] + offset
        found = False
        for q in range(sparse.indptr[row], sparse.indptr[row + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                found = found or left[slot - first_slot]
        goes_left[p - first] = found


@inner
def divide_dense(
    dense: DenseColumns,
    feature: int,  # IN place in DenseColumns
    left: NDArray[np.bool_],  # IN (max_values,)
    segments: Segments,  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node
    last: int,  # IN
    spare: Segments,  # SCRATCH
) -> tuple[int, int]:
    """Move what goes left by the code of a dense feature to the front, stably.

    Return how many positions go left, and how many of them are fitted.
    """
    rows, sums = segments
    spare_rows, spare_sums = spare
    codes, address, displacement = dense.codes, dense.address, dense.displacement[feature]
    one = uint64(1)
    start, n_left, n_right = uint64(first), uint64(first), uint64(0)
    for p in range(start, uint64(first + n_fitted)):
        row, packed = rows[p], sums[p]
        step = uint64(left[codes[uint64(address[uint64(row)] + displacement)]])
        # Both places are written and one counter moves: no branch to mispredict.
        rows[n_left], sums[n_left] = row, packed
        spare_rows[n_right], spare_sums[n_right] = row, packed
        n_left += step
        n_right += one - step
    n_left_fitted, n_right_fitted = n_left - start, n_right
    for p in range(uint64(first + n_fitted), uint64(last)):
        row = rows[p]
        step = uint64(left[codes[uint64(address[uint64(row)] + displacement)]])
        rows[n_left] = row
        spare_rows[n_right] = row
        n_left += step
        n_right += one - step
    _append(segments, n_left, spare, n_right, n_right_fitted)
    return int64(n_left - start), int64(n_left_fitted)


@inner
def divide_marked(
    goes_left: NDArray[np.bool_],  # IN (last - first,)
    segments: Segments,  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node
    last: int,  # IN
    spare: Segments,  # SCRATCH
) -> tuple[int, int]:
    """Move marked positions to the front, as ``divide_dense`` does, and return the same."""
    rows, sums = segments
    spare_rows, spare_sums = spare
    one = uint64(1)
    start, n_left, n_right = uint64(first), uint64(first), uint64(0)
    for p in range(start, uint64(first + n_fitted)):
        row, packed = rows[p], sums[p]
        rows[n_left], sums[n_left] = row, packed
        spare_rows[n_right], spare_sums[n_right] = row, packed
        step = uint64(goes_left[p - start])
        n_left += step
        n_right += one - step
    n_left_fitted, n_right_fitted = n_left - start, n_right
    for p in range(uint64(first + n_fitted), uint64(last)):
        row = rows[p]
        rows[n_left] = row
        spare_rows[n_right] = row
        step = uint64(goes_left[p - start])
        n_left += step
        n_right += one - step
    _append(segments, n_left, spare, n_right, n_right_fitted)
    return int64(n_left - start), int64(n_left_fitted)


@inlined
def _append(
    segments: Segments,  # OUT
    first: int,  # IN where in the segments
    spare: Segments,  # IN
    n_rows: int,  # IN how many of its positions
    n_sums: int,  # IN how many of its sums
) -> None:
    """Put what was laid aside behind what was not."""
    rows, sums = segments
    spare_rows, spare_sums = spare
    for q in range(n_rows):
        rows[first + q] = spare_rows[q]
    for q in range(n_sums):
        sums[first + q] = spare_sums[q]


@inner
def share(
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    space: Space,
    mask: NDArray[np.int32],  # IN (n_extended,) contexts of the first child
    contexts: NDArray[np.int64],  # IN those of them that rows of full type have
    has: NDArray[np.bool_],  # IN (2, order + 1) types of rows that have a context on the left and on the right
    side: int,  # IN that of the first child: 0 left, 1 right
    segments: Segments,  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node
    last: int,  # IN
    to: tuple[int, int],  # IN where the children's segments begin
) -> tuple[int, int, int, int]:
    """Give both children of a split of contexts their positions, stably; one child may take the place of the node.

    Each gets its part of the sums of a position, and no position that has none of its contexts. Return how many
    positions each child has, then how many of them are fitted.
    """
    rows, sums = segments
    flat, n_contexts, end = cells.reshape(-1), uint64(cells.shape[1]), uint64(first + n_fitted)
    row_type, order = space.row_type, space.base.size - 1
    here, there = uint64(side), uint64(1 - side)
    a, b = uint64(to[0]), uint64(to[1])
    first_context = uint64(contexts[0]) if contexts.size > 0 else uint64(0)
    for p in range(uint64(first), end):
        row, whole = rows[p], sums[p]
        prefetch(flat, uint64(rows[min(p + AHEAD, end - uint64(1))]) * n_contexts + first_context)
        i = uint64(row)
        j = uint64(row_type[i])
        part = int64(0)
        if j == uint64(order):
            for q in range(contexts.size):
                part += cells[i, uint64(contexts[q])]
        else:
            for c in range(space.n_contexts_of[j]):
                part += cells[i, c] if mask[space.base[j] + c] != 0 else 0
        rows[a], sums[a] = row, part
        a += uint64(has[here, j])
        rows[b], sums[b] = row, whole - part
        b += uint64(has[there, j])
    fitted = int64(a) - to[0], int64(b) - to[1]
    for p in range(uint64(first + n_fitted), uint64(last)):
        row = rows[p]
        j = uint64(row_type[uint64(row)])
        rows[a] = row
        a += uint64(has[here, j])
        rows[b] = row
        b += uint64(has[there, j])
    return int64(a) - to[0], int64(b) - to[1], fitted[0], fitted[1]
