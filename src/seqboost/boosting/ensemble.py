"""The model while it grows: trees by round and label, the table, and the scores of all training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import run_tasks
from seqboost.objectives import Derivatives
from seqboost.boosting.outputs import LabelOutputs, Outputs, SharedOutputs
from seqboost.trees import DenseColumns, Limits, SharedGrower, Space, SparseColumns, Tree, TreeGrower

__all__ = ["MAX_LEAF_VALUE", "Ensemble", "Round", "SharedTreeFitter", "TreeFitter"]

MAX_LEAF_VALUE = 2.0
"""Cap on leaf values: curvature vanishes where the model is confidently wrong."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round's trees at full step, what gives their outputs on the training rows, and the table's move."""

    trees: tuple[Tree, ...]
    outputs: tuple[Outputs, ...]
    table_move: NDArray[np.float64] | None  # (E, K)

    def scaled(self, step: float) -> tuple[Tree, ...]:
        """Return the trees with their values times ``step``; growing a value does not lift it above the cap."""
        if step == 1.0:
            return self.trees
        return tuple(replace(tree, value=_grown(tree.value, step).astype(np.float32)) for tree in self.trees)

    def table_step(self, step: float) -> NDArray[np.float64] | float:
        """Return the table's move times ``step``, within the same cap."""
        return 0.0 if self.table_move is None else _grown(self.table_move, step)


def _grown(value: NDArray[Any], step: float) -> NDArray[Any]:
    """Return values times ``step``, at most at the cap unless they were above it before."""
    limit = np.maximum(np.abs(value), MAX_LEAF_VALUE)
    grown: NDArray[Any] = np.clip(value * step, -limit, limit)
    return grown


class TreeFitter:
    """Fits one tree per label to the derivatives, on threads; every thread has a grower of its own.

    Parameters
    ----------
    dense, sparse : DenseColumns, SparseColumns
        The binned columns.
    space : Space
        Contexts of the trees.
    limits : Limits
        What a tree may do.
    max_leaf_value : float
        Cap on leaf values before the learning rate: curvature vanishes where the model is confidently wrong.
    learning_rate : float
        Factor on leaf values.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self,
        dense: DenseColumns,
        sparse: SparseColumns,
        space: Space,
        limits: Limits,
        *,
        max_leaf_value: float,
        learning_rate: float,
        n_threads: int,
    ) -> None:
        self.limits, self.n_threads = limits, n_threads
        self.max_leaf_value, self.learning_rate = max_leaf_value, learning_rate
        self._prepare(dense, sparse, space)

    def _prepare(self, dense: DenseColumns, sparse: SparseColumns, space: Space) -> None:
        """Allocate what trees are grown with."""
        self._growers: SimpleQueue[TreeGrower] = SimpleQueue()
        for _ in range(min(self.n_threads, space.n_labels)):
            self._growers.put(TreeGrower(dense, sparse, space, self.limits))

    def fit(
        self, derivatives: Derivatives, rows: NDArray[np.int32], n_fitted: int, seeds: list[int]
    ) -> tuple[tuple[Tree, ...], tuple[Outputs, ...]]:
        """Grow the trees of one round; ``seeds`` has one number per label."""
        tasks = [
            (gradient, hessian, rows, n_fitted, seed)
            for gradient, hessian, seed in zip(derivatives.gradient, derivatives.hessian, seeds, strict=True)
        ]
        grown = run_tasks(self._grow, tasks, self.n_threads)
        outputs = (LabelOutputs(partition, label) for label, (_, partition) in enumerate(grown))
        return tuple(tree for tree, _ in grown), tuple(outputs)

    def _grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        seed: int,
    ) -> tuple[Tree, Partition]:
        grower = self._growers.get()
        try:
            return grower.grow(gradient, hessian, rows, n_fitted, self.value, seed)
        finally:
            self._growers.put(grower)

    def value(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ν · clip(G / (H + λ)), of leaves or of the table's cells."""
        newton = gradient / np.maximum(hessian + self.limits.l2_regularization, 1e-12)
        step: NDArray[np.float64] = self.learning_rate * np.clip(newton, -self.max_leaf_value, self.max_leaf_value)
        return step


class SharedTreeFitter(TreeFitter):
    """Fits one tree for all labels to the derivatives; parameters as in :class:`TreeFitter`."""

    def _prepare(self, dense: DenseColumns, sparse: SparseColumns, space: Space) -> None:
        self._grower = SharedGrower(dense, sparse, space, self.limits, self.n_threads)

    def fit(
        self, derivatives: Derivatives, rows: NDArray[np.int32], n_fitted: int, seeds: list[int]
    ) -> tuple[tuple[Tree, ...], tuple[Outputs, ...]]:
        """Grow the tree of one round, with the first of the ``seeds``."""
        tree, partition = self._grower.grow(
            derivatives.gradient, derivatives.hessian, rows, n_fitted, self.value, seeds[0]
        )
        return (tree,), (SharedOutputs(partition),)


class Ensemble:
    """Trees by round, the table and the scores of the rows that ride along.

    Scores are kept twice, before and after the newest round, so that a round can be taken back and repeated with a
    smaller step without rounding errors.

    Parameters
    ----------
    scores : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
        Scores to start from.
    table : ndarray of float64 of shape (n_extended, n_labels)
        Baseline (joint) or transition scores (factored) to start from; −inf = forbidden.
    n_threads : int
        Number of threads that add trees to scores.
    """

    def __init__(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int) -> None:
        self.rounds: list[tuple[Tree, ...]] = []
        self.scores, self.table = scores, table
        self._before = np.zeros_like(scores)
        self._table_before = table
        self._n_threads = n_threads

    def add(self, boosted: Round, step: float) -> None:
        """Add a round's trees and table, times ``step``."""
        self._before, self.scores = self.scores, self._before
        self._table_before = self.table
        self.rounds.append(())
        self._put(boosted, step)

    def repeat(self, boosted: Round, step: float) -> None:
        """Take the newest round back and add it with another step."""
        self._put(boosted, step)

    def undo(self) -> None:
        """Take the newest round back."""
        self.scores, self._before = self._before, self.scores
        self.table = self._table_before
        self.rounds.pop()

    def _put(self, boosted: Round, step: float) -> None:
        trees = boosted.scaled(step)
        tasks = [
            task
            for outputs, tree in zip(boosted.outputs, trees, strict=True)
            for task in outputs.tasks(tree.value, self._before, self.scores)
        ]
        run_tasks(lambda add, *arrays: add(*arrays), tasks, self._n_threads)
        if boosted.table_move is not None:
            self.table = self._table_before + boosted.table_step(step)
        self.rounds[-1] = trees
