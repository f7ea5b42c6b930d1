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

from seqboost._jit import inner
from seqboost.trees.buffers import Segments
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64, uint64
from seqboost.trees.space import Space

__all__ = ["divide", "mark_dense", "mark_sparse", "share"]


@inner
def mark_dense(
    dense: DenseColumns,
    feature: int,  # IN place in DenseColumns
    left: NDArray[np.bool_],  # IN (max_values,)
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    goes_left: NDArray[np.bool_],  # OUT (last - first,)
) -> None:
    """Tell which positions go left by the code of a dense feature."""
    codes, address = dense.codes, dense.address
    displacement = dense.displacement[feature]
    for p in range(first, last):
        goes_left[p - first] = left[codes[np.uint64(address[rows[p]] + displacement)]]


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
def divide(
    goes_left: NDArray[np.bool_],  # IN (last - first,)
    segments: Segments,  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node
    last: int,  # IN
    spare: Segments,  # SCRATCH
) -> tuple[int, int]:
    """Move what goes left to the front, stably; return how many positions go left, and how many of them are fitted."""
    rows, sums = segments
    spare_rows, spare_sums = spare
    one = uint64(1)
    start, n_left, n_right = uint64(first), uint64(first), uint64(0)
    for p in range(start, uint64(first + n_fitted)):
        row, packed = rows[p], sums[p]
        # Both places are written and one counter moves: no branch to mispredict.
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
    for q in range(n_right):
        rows[n_left + q] = spare_rows[q]
    for q in range(n_right_fitted):
        sums[n_left + q] = spare_sums[q]
    return int64(n_left - start), int64(n_left_fitted)


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
    row_type, order = space.row_type, space.base.size - 1
    here, there = uint64(side), uint64(1 - side)
    a, b = uint64(to[0]), uint64(to[1])
    for p in range(uint64(first), uint64(first + n_fitted)):
        row, whole = rows[p], sums[p]
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
