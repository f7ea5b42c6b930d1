"""Rows of the nodes: dividing a node's positions between its children.

Every node owns a segment of three parallel arrays (positions, gradients, curvatures). In each segment the positions
that the tree is fitted to come first, in rising order, then those that only ride along (held-out sequences)::

    [ fitted ........ | riders .... ][ fitted ... | riders . ] ...
      node 0                           node 1

A split of rows divides a segment in place, stably, so this order survives. A split of contexts gives both children the
node's positions; the right child's go to the end of the arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inner
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64

__all__ = ["divide", "keep_types", "mark_dense", "mark_sparse"]


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
    rows: NDArray[np.int32],  # IN/OUT
    gradient: NDArray[np.int32],  # IN/OUT
    curvature: NDArray[np.int32],  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node; the riders after them have no derivatives
    last: int,  # IN
    spare: NDArray[np.int32],  # SCRATCH (3, n_rows)
) -> tuple[int, int]:
    """Move what goes left to the front, stably; return how many positions go left, and how many of them are fitted."""
    n_left = first
    n_right = int64(0)
    for p in range(first, first + n_fitted):
        i, g, h = rows[p], gradient[p], curvature[p]
        # Both places are written and one counter moves: no branch to mispredict.
        rows[n_left], gradient[n_left], curvature[n_left] = i, g, h
        spare[0, n_right], spare[1, n_right], spare[2, n_right] = i, g, h
        step = int64(goes_left[p - first])
        n_left += step
        n_right += 1 - step
    n_left_fitted, n_right_fitted = n_left - first, n_right
    for p in range(first + n_fitted, last):
        i = rows[p]
        rows[n_left] = i
        spare[0, n_right] = i
        step = int64(goes_left[p - first])
        n_left += step
        n_right += 1 - step
    for q in range(n_right_fitted):
        rows[n_left + q] = spare[0, q]
        gradient[n_left + q] = spare[1, q]
        curvature[n_left + q] = spare[2, q]
    for q in range(n_right_fitted, n_right):
        rows[n_left + q] = spare[0, q]
    return n_left - first, n_left_fitted


@inner
def keep_types(
    row_type: NDArray[np.uint8],  # IN (n_rows,)
    has: NDArray[np.bool_],  # IN (order + 1,) does a type stay?
    rows: NDArray[np.int32],  # IN/OUT
    gradient: NDArray[np.int32],  # IN/OUT
    curvature: NDArray[np.int32],  # IN/OUT
    first: int,  # IN the part of the three arrays above
    size: int,  # IN
    fitted: int,  # IN
) -> tuple[int, int]:
    """Drop the rows of types that ``has`` excludes, stably; return how many stay and how many of them are fitted."""
    n = first
    n_fitted = 0
    for p in range(first, first + size):
        i = rows[p]
        rows[n] = i
        gradient[n] = gradient[p]
        curvature[n] = curvature[p]
        n += int64(has[row_type[i]])
        if p == first + fitted - 1:
            n_fitted = n - first
    return n - first, n_fitted
