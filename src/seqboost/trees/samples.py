"""Trees fitted to some of the rows, and what they add to the others.

A tree on a third of the rows is not three times as fast where those lie scattered: each costs its own line of memory,
at every level of the tree. So the sample is renumbered, and the tree grows on its derivatives, addresses and types
alone, side by side; bin codes stay where they are, for a window is a slice::

    rows      [ 2 5 6 9 … | 0 1 3 4 … ]        gathered: 0 1 2 3 …      the tree grows on these numbers
                fitted      others                                      its leaves get the rows' own numbers back

The other rows do not ride along in the growing tree, where each would cost as much as a fitted one; they are sent down
the finished one, all splits at once and without a branch (:mod:`seqboost.trees.masks`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import jit
from seqboost.trees.columns import Columns, Problem
from seqboost.trees.grower import Grower, LeafValue
from seqboost.trees.leaves import LeafRows
from seqboost.trees.masks import MAX_LEAVES, Router
from seqboost.trees.tree import Tree

__all__ = ["Fitted", "SampleGrower", "gather_cells"]


class Fitted(NamedTuple):
    """The rows of a tree, and the weights of those that it is fitted to."""

    rows: NDArray[np.int32]  # every position once: first the fitted ones, then the others, each in rising order
    n_fitted: int
    weight: NDArray[np.float32]  # (n_fitted, w) w = n_labels * n_contexts: of cells; 1: of rows; 0: none

    @property
    def is_whole(self) -> bool:
        """Whether the fitted rows are the first of all, as they are."""
        return self.weight.shape[1] == 0 and bool(self.rows[self.n_fitted - 1] == self.n_fitted - 1)


@jit
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


@jit
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


@jit
def _renumber(
    rows: NDArray[np.int32],  # IN
    numbers: NDArray[np.int32],  # IN/OUT places in ``rows``; become what stands there
) -> None:
    """Give gathered rows their own numbers back."""
    for p in range(np.uint64(numbers.size)):
        numbers[p] = rows[np.uint64(numbers[p])]


class SampleGrower:
    """Grows trees on all rows, or on samples of them, in buffers that are used again: one per thread.

    Parameters
    ----------
    grower : Grower
        Grows trees on all rows; its buffers are used.
    """

    def __init__(self, grower: Grower) -> None:
        self.grower = grower
        (dense, sparse), space, limits = grower.problem
        # Rows that go both ways, or as surrogates say, ride along.
        self._sends = grower.one_way and sparse.kind.size == 0 and limits.max_leaf_nodes <= MAX_LEAVES
        self._router = Router(dense, space)
        self._rows = np.empty_like(dense.address), np.empty_like(sparse.padded_row), np.empty_like(space.row_type)
        self._cells = np.empty((2, 0), dtype=np.float32)

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        fitted: Fitted,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, LeafRows]:
        """Grow a tree from derivatives (n_outputs, n_rows, n_contexts); return it and the leaves of all rows."""
        grower = self.grower
        if fitted.is_whole:
            return grower.grow(gradient, hessian, fitted.rows, fitted.n_fitted, leaf_value, seed)
        n = fitted.n_fitted if self._sends else fitted.rows.size
        carried, others = fitted.rows[:n], fitted.rows[n:]
        new_gradient, new_hessian = self._derivatives(gradient, hessian, fitted, n)
        numbers = np.arange(n, dtype=np.int32)
        tree, leaves = grower.grow(
            new_gradient, new_hessian, numbers, fitted.n_fitted, leaf_value, seed, problem=self._problem(carried)
        )
        _renumber(carried, leaves.rows)
        leaves = replace(leaves, space=grower.problem.space, positions=carried)
        return tree, replace(leaves, others=self._router.route(tree, others)) if others.size else leaves

    def _problem(self, rows: NDArray[np.int32]) -> Problem:
        """Return the problem of ``rows`` alone, valid until the next call."""
        (dense, sparse), space, limits = self.grower.problem
        _gather_rows(rows, (dense.address, sparse.padded_row, space.row_type), self._rows)
        (address, padded_row, row_type), n = self._rows, rows.size
        columns = Columns(dense._replace(address=address[:n]), sparse._replace(padded_row=padded_row[:n]))
        return Problem(columns, space._replace(row_type=row_type[:n]), limits)

    def _derivatives(
        self, gradient: NDArray[np.float32], hessian: NDArray[np.float32], fitted: Fitted, n: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the weighted derivatives of ``n`` rows, valid until the next call; those of fitted rows are meant."""
        n_labels, n_rows, n_contexts = gradient.shape
        if self._cells.shape[1] < n_labels * n_rows * n_contexts:
            self._cells = np.empty((2, n_labels * n_rows * n_contexts), dtype=np.float32)
        new_gradient, new_hessian = self._cells[:, : n_labels * n * n_contexts].reshape(2, n_labels, n, n_contexts)
        gather_cells(gradient, hessian, fitted, new_gradient, new_hessian)
        return new_gradient, new_hessian
