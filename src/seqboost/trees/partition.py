"""Rows of the nodes: dividing a node's positions between its children.

Every node owns a segment of three parallel arrays (positions, gradients, curvatures). In each segment the positions that
the tree is fitted to come first, in rising order, then those that only ride along (held-out sequences)::

    [ fitted ........ | riders .... ][ fitted ... | riders . ] ...
      node 0                           node 1

A split of rows divides a segment in place, stably, so this order survives. A split of contexts gives both children the
node's positions; the right child's go to the end of the arrays.
"""

from __future__ import annotations

import numpy as np

from seqboost._jit import inner

__all__ = ["copy_part", "divide", "keep_types", "mark_dense", "mark_sparse", "regrown"]


@inner
def regrown(array, used, needed):
    """Return an array with room for ``needed`` entries, the first ``used`` kept."""
    if needed <= array.size:
        return array
    larger = np.empty(max(needed, 2 * array.size), dtype=array.dtype)
    copy_part(array, np.int64(0), larger, np.int64(0), used)
    return larger


@inner
def copy_part(source, source_start, target, target_start, n):
    """Copy ``n`` entries."""
    for p in range(n):
        target[target_start + p] = source[source_start + p]


@inner
def mark_dense(
    dense,  # IN DenseColumns
    feature,  # IN place in DenseColumns
    left,  # IN (max_values,) bool
    rows,  # IN
    first,  # IN
    last,  # IN
    goes_left,  # OUT (last - first,) bool
):
    """Tell which positions go left by the code of a dense feature."""
    codes, address = dense.codes, dense.address
    displacement = dense.displacement[feature]
    for p in range(first, last):
        goes_left[p - first] = left[codes[np.uint64(address[rows[p]] + displacement)]]


@inner
def mark_sparse(
    sparse,  # IN SparseColumns
    feature,  # IN offset · n_sparse + sparse feature
    left,  # IN (max_values,) bool
    rows,  # IN
    first,  # IN
    last,  # IN
    goes_left,  # OUT (last - first,) bool
):
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
    goes_left,  # IN (last - first,) bool
    rows,  # IN/OUT int32
    gradient,  # IN/OUT int32
    curvature,  # IN/OUT int32
    first,  # IN
    n_fitted,  # IN fitted positions of the node; the riders after them have no derivatives
    last,  # IN
    spare,  # scratch (3, n_rows) int32
):
    """Move what goes left to the front, stably; return how many positions go left, and how many of them are fitted."""
    n_left = first
    n_right = np.int64(0)
    for p in range(first, first + n_fitted):
        i, g, h = rows[p], gradient[p], curvature[p]
        # Both places are written and one counter moves: no branch to mispredict.
        rows[n_left], gradient[n_left], curvature[n_left] = i, g, h
        spare[0, n_right], spare[1, n_right], spare[2, n_right] = i, g, h
        step = np.int64(goes_left[p - first])
        n_left += step
        n_right += 1 - step
    n_left_fitted, n_right_fitted = n_left - first, n_right
    for p in range(first + n_fitted, last):
        i = rows[p]
        rows[n_left] = i
        spare[0, n_right] = i
        step = np.int64(goes_left[p - first])
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
def keep_types(row_type, has, rows, gradient, curvature, first, size, fitted):
    """Drop the rows of types that ``has`` excludes, stably; return how many stay and how many of them are fitted."""
    n = first
    n_fitted = 0
    for p in range(first, first + size):
        i = rows[p]
        rows[n] = i
        gradient[n] = gradient[p]
        curvature[n] = curvature[p]
        n += np.int64(has[row_type[i]])
        if p == first + fitted - 1:
            n_fitted = n - first
    return n - first, n_fitted
