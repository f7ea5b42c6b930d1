"""Rows of a shared tree's nodes, and what its leaves add to the scores.

Every node owns a segment of one array of positions: fitted ones first, then those that ride along. A split of rows
divides a segment in place, stably; a split of contexts gives both children the node's positions, the right child's at
the end of the array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import jit, reassociating
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.tree import DENSE

__all__ = ["SharedPartition", "divide_rows", "find_leaves", "keep_rows", "sum_leaves"]


@jit
def divide_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    kind: int,  # IN DENSE or SPARSE
    feature: int,  # IN place in DenseColumns, or offset · n_sparse + sparse feature
    left: NDArray[np.bool_],  # IN (max_values,)
    span: tuple[int, int, int],  # IN first, end of the fitted, end
    rows: NDArray[np.int32],  # IN/OUT positions
    spare: NDArray[np.int32],  # SCRATCH (n_rows,)
) -> tuple[int, int]:
    """Move the positions that go left to the front; return how many they are, and how many of them are fitted."""
    first, fitted, last = span
    n_left, n_right, n_left_fitted = first, int64(0), int64(0)
    displacement, offset = int64(0), int64(0)
    first_slot, last_slot = int64(0), int64(0)
    if kind == DENSE:
        displacement = dense.displacement[feature]
    else:
        s = feature % sparse.kind.size
        offset = sparse.offset[feature // sparse.kind.size]
        first_slot, last_slot = int64(sparse.slot_start[s]), int64(sparse.slot_start[s + 1])
    for p in range(first, last):
        i = rows[p]
        if kind == DENSE:
            goes_left = left[dense.codes[dense.address[i] + displacement]]
        else:
            goes_left = False
            padded = sparse.padded_row[i] + offset
            for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
                slot = sparse.indices[q]
                if first_slot <= slot < last_slot:
                    goes_left = goes_left or left[slot - first_slot]
        # Both places are written and one counter moves: no branch to mispredict.
        rows[n_left] = i
        spare[n_right] = i
        n_left += int64(goes_left)
        n_right += 1 - int64(goes_left)
        if p == fitted - 1:
            n_left_fitted = n_left - first
    for q in range(n_right):
        rows[n_left + q] = spare[q]
    return n_left - first, n_left_fitted


@jit
def keep_rows(
    row_type: NDArray[np.uint8],  # IN (n_rows,)
    has: NDArray[np.bool_],  # IN (order + 1,) does a type stay?
    span: tuple[int, int, int],  # IN first, end of the fitted, end
    rows: NDArray[np.int32],  # IN/OUT positions
) -> tuple[int, int]:
    """Drop the rows of types that ``has`` excludes, stably; return how many stay and how many of them are fitted."""
    first, fitted, last = span
    n, n_fitted = first, int64(0)
    for p in range(first, last):
        i = rows[p]
        rows[n] = i
        n += int64(has[row_type[i]])
        if p == fitted - 1:
            n_fitted = n - first
    return n - first, n_fitted


@jit
def find_leaves(
    space: Space,
    rows: NDArray[np.int32],  # IN positions, leaf by leaf
    start: NDArray[np.int64],  # IN (n_leaves,)
    size: NDArray[np.int64],  # IN (n_leaves,)
    mask: NDArray[np.bool_],  # IN (n_leaves, n_extended)
    leaf_of: NDArray[np.uint16],  # OUT (n_rows, n_contexts)
) -> None:
    """Write the leaf of every (row, context); where a context does not exist, the number of leaves."""
    n_leaves = start.size
    for leaf in range(n_leaves):
        for p in range(start[leaf], start[leaf] + size[leaf]):
            i = rows[p]
            j = space.row_type[i]
            for c in range(space.n_contexts_of[j]):
                if mask[leaf, space.base[j] + c]:
                    leaf_of[i, c] = leaf
            for c in range(space.n_contexts_of[j], leaf_of.shape[1]):
                leaf_of[i, c] = n_leaves


@reassociating
def sum_leaves(
    space: Space,
    rows: NDArray[np.int32],  # IN positions, leaf by leaf
    start: NDArray[np.int64],  # IN (n_leaves,)
    fitted: NDArray[np.int64],  # IN (n_leaves,)
    mask: NDArray[np.bool_],  # IN (n_leaves, n_extended)
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    labels: tuple[int, int],  # IN those to sum
    sums: NDArray[np.float64],  # OUT (2, n_leaves, n_labels)
) -> None:
    """Sum the derivatives of some labels over the leaves."""
    for k in range(labels[0], labels[1]):
        for leaf in range(start.size):
            g, h = 0.0, 0.0
            if gradient.shape[2] == 1:  # no contexts to choose from
                for p in range(start[leaf], start[leaf] + fitted[leaf]):
                    g += float(gradient[k, rows[p], 0])
                    h += float(hessian[k, rows[p], 0])
                sums[0, leaf, k] = g
                sums[1, leaf, k] = h
                continue
            for p in range(start[leaf], start[leaf] + fitted[leaf]):
                i = rows[p]
                j = space.row_type[i]
                for c in range(space.n_contexts_of[j]):
                    if mask[leaf, space.base[j] + c]:
                        g += float(gradient[k, i, c])
                        h += float(hessian[k, i, c])
            sums[0, leaf, k] = g
            sums[1, leaf, k] = h


@jit
def _add_values(
    leaf_of: NDArray[np.uint16],  # IN (n_cells,)
    value: NDArray[np.float32],  # IN (n_leaves + 1,) of one label, the last one 0
    old: NDArray[np.float32],  # IN (n_cells,)
    new: NDArray[np.float32],  # OUT (n_cells,)
) -> None:
    """Write a label's old scores plus the values of the leaves."""
    for q in range(leaf_of.size):
        new[q] = old[q] + value[leaf_of[q]]


@dataclass(frozen=True, eq=False)
class SharedPartition:
    """The leaf of every position and context; from it a shared tree's outputs on the training rows are known.

    Attributes
    ----------
    leaf_of : ndarray of uint16 of shape (n_rows, n_contexts)
        The number of leaves where a context does not exist.
    """

    leaf_of: NDArray[np.uint16]

    def add(self, value: NDArray[np.float32], old: NDArray[np.float32], new: NDArray[np.float32]) -> None:
        """Write ``old`` plus the values of the leaves to ``new``.

        Parameters
        ----------
        value : ndarray of float32 of shape (n_leaves, n_labels)
            Values of some labels.
        old, new : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
            Scores of these labels before and after.
        """
        with_none = np.zeros((value.shape[1], value.shape[0] + 1), dtype=np.float32)
        with_none[:, :-1] = value.T
        leaf_of = self.leaf_of.reshape(-1)
        for of_label, before, after in zip(with_none, old, new, strict=True):
            _add_values(leaf_of, of_label, before.reshape(-1), after.reshape(-1))
