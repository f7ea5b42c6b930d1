"""Trees fitted to some of the rows, and what they give to the others.

A tree on a third of the rows is not three times as fast where those lie scattered: each costs its own line of memory,
at every level of the tree. So the sample is renumbered, and the tree grows on its derivatives, addresses and types
alone, side by side; bin codes stay where they are, for a window is a slice. The other rows do not ride along in the
growing tree; they are sent down the finished one (:mod:`seqboost.trees.riders`)::

    rows      [ 2 5 6 9 … | 0 1 3 4 … ]        gathered: 0 1 2 3 …      the tree grows on these numbers
                fitted      others                                      its leaves get the rows' own numbers back
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import lean
from seqboost.trees.growing import TreeGrower
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.outputs import Partition
from seqboost.trees.riders import MAX_ROUTED_LEAVES, RiderPartition, Router
from seqboost.trees.shared_growing import SharedGrower
from seqboost.trees.shared_missing import WeightedSharedGrower
from seqboost.trees.shared_partition import SharedPartition
from seqboost.trees.tree import Tree
from seqboost.trees.weighted_growing import WeightedGrower
from seqboost.trees.weighted_partition import WeightedPartition

__all__ = ["Fitted", "LabelSampleGrower", "SampleColumns", "SharedSampleGrower", "gather_cells"]

LeafValue = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class Fitted(NamedTuple):
    """The rows of a tree, and the weights of those that it is fitted to."""

    rows: NDArray[np.int32]  # every position once: first the fitted ones, then the others, each in rising order
    n_fitted: int
    weight: NDArray[np.float32]  # (n_fitted, w) w = n_labels * n_contexts: of cells; 1: of rows; 0: none

    @property
    def is_whole(self) -> bool:
        """Whether the fitted rows are the first of all, as they are."""
        return self.weight.shape[1] == 0 and bool(self.rows[self.n_fitted - 1] == self.n_fitted - 1)


@lean
def gather_cells(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    fitted: Fitted,  # IN
    new_gradient: NDArray[np.float32],  # OUT (n_labels, n_fitted or more, n_contexts)
    new_hessian: NDArray[np.float32],  # OUT
) -> None:
    """Write the derivatives of the fitted rows side by side, times the weights of their cells."""
    rows, n_fitted, weight = fitted
    n_labels, _, n_contexts = gradient.shape
    for k in range(n_labels):
        for p in range(np.uint64(n_fitted)):
            i = np.uint64(rows[p])
            if weight.shape[1] > 1 or n_labels * n_contexts == weight.shape[1]:
                for c in range(n_contexts):
                    new_gradient[k, p, c] = gradient[k, i, c] * weight[p, k * n_contexts + c]
                    new_hessian[k, p, c] = hessian[k, i, c] * weight[p, k * n_contexts + c]
            else:
                w = weight[p, 0] if weight.shape[1] == 1 else np.float32(1.0)
                for c in range(n_contexts):
                    new_gradient[k, p, c] = gradient[k, i, c] * w
                    new_hessian[k, p, c] = hessian[k, i, c] * w


@lean
def _gather_rows(
    rows: NDArray[np.int32],  # IN
    columns: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]],  # IN (n_rows,) address, padded row, type
    new: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]],  # OUT (rows.size or more,)
) -> None:
    """Write where the codes and slots of rows are, and their types, side by side."""
    address, padded_row, row_type = columns
    new_address, new_padded_row, new_row_type = new
    for p in range(np.uint64(rows.size)):
        i = np.uint64(rows[p])
        new_address[p] = address[i]
        new_padded_row[p] = padded_row[i]
        new_row_type[p] = row_type[i]


@lean
def _renumber(
    rows: NDArray[np.int32],  # IN
    numbers: NDArray[np.int32],  # IN/OUT places in ``rows``; become what stands there
) -> None:
    """Give gathered rows their own numbers back."""
    for p in range(np.uint64(numbers.size)):
        numbers[p] = rows[np.uint64(numbers[p])]


@lean
def _scatter_leaves(
    rows: NDArray[np.int32],  # IN
    gathered: NDArray[np.uint16],  # IN (rows.size, n_contexts)
    leaf_of: NDArray[np.uint16],  # OUT (n_rows, n_contexts) at ``rows``
) -> None:
    """Give the leaves of gathered rows to the rows."""
    for p in range(np.uint64(rows.size)):
        i = np.uint64(rows[p])
        for c in range(leaf_of.shape[1]):
            leaf_of[i, c] = gathered[p, c]


class SampleColumns:
    """Columns, contexts and derivatives of some rows side by side, in buffers that are used again: one per thread.

    Parameters
    ----------
    dense, sparse, space : DenseColumns, SparseColumns, Space
        Columns and contexts of all rows.
    """

    def __init__(self, dense: DenseColumns, sparse: SparseColumns, space: Space) -> None:
        self.dense, self.sparse, self.space = dense, sparse, space
        self._rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]] | None = None
        self._cells = np.empty((2, 0), dtype=np.float32)

    def of(self, rows: NDArray[np.int32]) -> tuple[DenseColumns, SparseColumns, Space]:
        """Return the columns and the contexts of ``rows``, valid until the next call."""
        dense, sparse, space, n = self.dense, self.sparse, self.space, rows.size
        columns = dense.address, sparse.padded_row, space.row_type
        if self._rows is None:
            self._rows = np.empty_like(dense.address), np.empty_like(sparse.padded_row), np.empty_like(space.row_type)
        _gather_rows(rows, columns, self._rows)
        address, padded_row, row_type = self._rows
        return (
            dense._replace(address=address[:n]),
            sparse._replace(padded_row=padded_row[:n]),
            space._replace(row_type=row_type[:n]),
        )

    def derivatives(
        self, gradient: NDArray[np.float32], hessian: NDArray[np.float32], fitted: Fitted, n_carried: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the weighted derivatives (n_labels, n_carried, n_contexts), valid until the next call.

        Those of the fitted rows, which come first, are meaningful.
        """
        n_labels, n_rows, n_contexts = gradient.shape
        if self._cells.shape[1] < n_labels * n_rows * n_contexts:
            self._cells = np.empty((2, n_labels * n_rows * n_contexts), dtype=np.float32)
        size = n_labels * n_carried * n_contexts
        new_gradient, new_hessian = self._cells[:, :size].reshape(2, n_labels, n_carried, n_contexts)
        gather_cells(gradient, hessian, fitted, new_gradient, new_hessian)
        return new_gradient, new_hessian


class _Carrier:
    """Which rows a growing tree takes along: what both kinds of trees share."""

    def __init__(
        self, dense: DenseColumns, sparse: SparseColumns, space: Space, max_leaf_nodes: int, *, one_way: bool
    ) -> None:
        self.columns, self.router = SampleColumns(dense, sparse, space), Router(dense, space)
        # Rows that go both ways, or as surrogates say, ride along.
        self.routes = one_way and sparse.kind.size == 0 and max_leaf_nodes <= MAX_ROUTED_LEAVES

    def divided(self, fitted: Fitted) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the rows that the growing tree takes along, and those that are sent down the finished one."""
        n = fitted.n_fitted if self.routes else fitted.rows.size
        return fitted.rows[:n], fitted.rows[n:]


class LabelSampleGrower(_Carrier):
    """Grows trees of one label on samples of the rows: one per thread.

    Parameters
    ----------
    grower : TreeGrower or WeightedGrower
        Grows trees on all rows; its buffers are used.
    """

    def __init__(self, grower: TreeGrower | WeightedGrower) -> None:
        one_way = isinstance(grower, TreeGrower)
        super().__init__(grower.dense, grower.sparse, grower.space, grower.limits.max_leaf_nodes, one_way=one_way)
        self.grower, self._gathered = grower, copy.copy(grower)

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        fitted: Fitted,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, tuple[Partition | RiderPartition | WeightedPartition, ...]]:
        """Grow a tree for one label from derivatives (n_rows, n_contexts); return it and the leaves of all rows."""
        if fitted.is_whole:
            tree, partition = self.grower.grow(gradient, hessian, fitted.rows, fitted.n_fitted, leaf_value, seed)
            return tree, (partition,)
        carried, others = self.divided(fitted)
        grower = self._gathered
        grower.dense, grower.sparse, grower.space = self.columns.of(carried)
        (gradient,), (hessian,) = self.columns.derivatives(gradient[None], hessian[None], fitted, carried.size)
        numbers = np.arange(carried.size, dtype=np.int32)
        tree, partition = grower.grow(gradient, hessian, numbers, fitted.n_fitted, leaf_value, seed)
        _renumber(carried, partition.rows)
        own: Partition | WeightedPartition
        if isinstance(partition, Partition):
            own = replace(partition, space=self.grower.space, positions=carried)
        else:
            own = replace(partition, space=self.grower.space)
        return tree, (own, self.router.route(tree, others)) if others.size else (own,)


class SharedSampleGrower(_Carrier):
    """Grows trees for all labels on samples of the rows.

    Parameters
    ----------
    grower : SharedGrower
        Grows trees on all rows; its buffers are used.
    """

    def __init__(self, grower: SharedGrower) -> None:
        one_way = not isinstance(grower, WeightedSharedGrower)
        super().__init__(grower.dense, grower.sparse, grower.space, grower.limits.max_leaf_nodes, one_way=one_way)
        self.grower, self._gathered = grower, copy.copy(grower)
        self._gathered.buffers = copy.copy(grower.buffers)

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        fitted: Fitted,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, SharedPartition | WeightedPartition]:
        """Grow a tree from derivatives (n_labels, n_rows, n_contexts); return it and the leaves of all rows."""
        if fitted.is_whole:
            return self.grower.grow(gradient, hessian, fitted.rows, fitted.n_fitted, leaf_value, seed)
        carried, others = self.divided(fitted)
        grower, n = self._gathered, carried.size
        grower.dense, grower.sparse, grower.space = self.columns.of(carried)
        grower.buffers.cells = self.grower.buffers.cells[:n]
        grower.buffers.vectors = self.grower.buffers.vectors[:n]
        new_gradient, new_hessian = self.columns.derivatives(gradient, hessian, fitted, n)
        numbers = np.arange(n, dtype=np.int32)
        tree, partition = grower.grow(new_gradient, new_hessian, numbers, fitted.n_fitted, leaf_value, seed)
        if isinstance(partition, WeightedPartition):
            _renumber(carried, partition.rows)
            return tree, replace(partition, space=self.grower.space)
        leaf_of = np.empty((fitted.rows.size, partition.leaf_of.shape[1]), dtype=np.uint16)
        _scatter_leaves(carried, partition.leaf_of, leaf_of)
        if others.size:
            self.router.route(tree, others).fill(leaf_of, tree.n_leaves)
        return tree, SharedPartition(leaf_of)
