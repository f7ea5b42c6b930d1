"""The model while it grows: trees by round and label, the table, and the scores of all training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting.sampling import Examples, Sample, Sampler
from seqboost.core.threads import run_tasks
from seqboost.objectives import Derivatives
from seqboost.trees import Grower, LeafRows, Policies, Problem, SampleGrower, Tree
from seqboost.trees.warmup import await_kernels

__all__ = ["MAX_LEAF_VALUE", "Ensemble", "Round", "TreeFitter", "Trees"]

MAX_LEAF_VALUE = 2.0
"""Cap on leaf values: curvature vanishes where the model is confidently wrong."""

LABELS_PER_TASK = 16
WORTH_A_THREAD = 500_000  # cells; fewer are drawn from before another thread has woken

Trees: TypeAlias = tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Round:
    """One round at full step: trees of all labels, with what gives their outputs on the rows, and the table's move.

    A round may have several *bags*: forests of one tree per label, or of one tree for all labels, whose average is the
    round.
    """

    bags: tuple[Trees, ...]
    leaves: tuple[tuple[LeafRows, ...], ...]
    table_move: NDArray[np.float64] | None  # (E, K)

    def scaled(self, step: float) -> tuple[Trees, ...]:
        """Return the trees with their values times ``step``; growing a value does not lift it above the cap."""
        factor = step / len(self.bags)
        if factor == 1.0:
            return self.bags
        return tuple(
            tuple(replace(tree, value=_grown(tree.value, factor).astype(np.float32)) for tree in trees)
            for trees in self.bags
        )

    def table_step(self, step: float) -> NDArray[np.float64] | float:
        """Return the table's move times ``step``, within the same cap."""
        return 0.0 if self.table_move is None else _grown(self.table_move, step)

    def write(
        self,
        bags: tuple[Trees, ...],
        old: NDArray[np.float32],
        new: NDArray[np.float32],
        n_threads: int,
    ) -> None:
        """Write ``old`` scores plus the outputs of this round's trees, with the values that they have in ``bags``."""
        for trees, leaves in zip(bags, self.leaves, strict=True):
            pairs = enumerate(zip(trees, leaves, strict=True))
            tasks = [task for label, pair in pairs for task in _writing(*pair, label, old, new)]
            run_tasks(lambda add, *arrays: add(*arrays), tasks, n_threads)
            old = new


def _writing(
    tree: Tree, leaves: LeafRows, label: int, old: NDArray[np.float32], new: NDArray[np.float32]
) -> list[tuple[Any, ...]]:
    """Return functions and their arguments that together write ``old`` scores plus a tree's outputs to ``new``."""
    leaves.prepare()
    if tree.value.ndim == 1:
        return [(leaves.add, tree.value[:, None], old[label : label + 1], new[label : label + 1])]
    parts = [slice(k, k + LABELS_PER_TASK) for k in range(0, len(old), LABELS_PER_TASK)]
    return [(leaves.add, tree.value[:, part], old[part], new[part]) for part in parts]


def _grown(value: NDArray[Any], step: float) -> NDArray[Any]:
    """Return values times ``step``, at most at the cap unless they were above it before."""
    limit = np.maximum(np.abs(value), MAX_LEAF_VALUE)
    grown: NDArray[Any] = np.clip(value * step, -limit, limit)
    return grown


class TreeFitter:
    """Fits trees to the derivatives: one for all labels, or one per label, each thread with a grower of its own.

    Parameters
    ----------
    problem : Problem
        The binned columns, the contexts of the trees and what a tree may do.
    shared : bool
        Whether there is one tree for all labels.
    max_leaf_value : float
        Cap on leaf values before the learning rate: curvature vanishes where the model is confidently wrong.
    learning_rate : float
        Factor on leaf values.
    n_threads : int
        Number of threads.
    policies : Policies, optional
        What to do about missing values; by default they are one more value of a feature.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        shared: bool,
        max_leaf_value: float,
        learning_rate: float,
        n_threads: int,
        policies: Policies | None = None,
    ) -> None:
        self.limits, self.shared, self.n_threads = problem.limits, shared, n_threads
        self.max_leaf_value, self.learning_rate = max_leaf_value, learning_rate
        n_labels = problem.space.n_labels
        n_outputs, n_own = (n_labels, n_threads) if shared else (1, 1)
        self._growers = [
            SampleGrower(Grower(problem, n_outputs, policies, n_threads=n_own))
            for _ in range(1 if shared else min(n_threads, n_labels))
        ]

    def n_trees(self, n_labels: int) -> int:
        """Return how many trees a round, or one of its bags, has: each gets a seed."""
        return 1 if self.shared else n_labels

    def draw(
        self, sampler: Sampler, derivatives: Derivatives, examples: Examples, seeds: Sequence[int]
    ) -> list[Sample]:
        """Draw what the trees of a round, or of one of its bags, are fitted to; a seed for each tree.

        The sampler of a shared tree sees the derivatives of all labels, (n_labels, n_rows, n_contexts), and no label
        that the tree is for.
        """
        gradient, hessian = derivatives.gradient, derivatives.hessian
        if self.shared:
            return [sampler.draw(gradient, hessian, -1, examples, seeds[0])]
        tasks = [(gradient[k], hessian[k], k, examples, seed) for k, seed in enumerate(seeds)]
        return run_tasks(sampler.draw, tasks, self.n_threads if gradient.size > WORTH_A_THREAD else 1)

    def fit(self, samples: Sequence[Sample], seeds: Sequence[int]) -> tuple[Trees, tuple[LeafRows, ...]]:
        """Grow the trees of one round, or of one of its bags: a sample and a seed for each tree."""
        await_kernels()  # of the first fit of all
        if self.shared:
            tree, rows = self._growers[0].grow(*samples[0], self.value, seeds[0])
            return (tree,), (rows,)
        free: SimpleQueue[SampleGrower] = SimpleQueue()
        for grower in self._growers:
            free.put(grower)
        tasks = [(free, sample, seed) for sample, seed in zip(samples, seeds, strict=True)]
        trees, leaves = zip(*run_tasks(self._grow, tasks, self.n_threads), strict=True)
        return trees, leaves

    def _grow(self, free: SimpleQueue[SampleGrower], sample: Sample, seed: int) -> tuple[Tree, LeafRows]:
        """Grow the tree of one label, with a grower that is free."""
        gradient, hessian, fitted = sample
        grower = free.get()
        try:
            tree, leaves = grower.grow(gradient[None], hessian[None], fitted, self.value, seed)
        finally:
            free.put(grower)
        return replace(tree, value=tree.value[:, 0].copy()), leaves

    def value(self, gradient: NDArray[np.float64], hessian: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ν · clip(G / (H + λ)), of leaves or of the table's cells."""
        newton = gradient / np.maximum(hessian + self.limits.l2_regularization, 1e-12)
        step: NDArray[np.float64] = self.learning_rate * np.clip(newton, -self.max_leaf_value, self.max_leaf_value)
        return step


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
        self.scores, self.table = scores, table
        self._rounds: list[tuple[Trees, ...]] = []
        self._before = np.zeros_like(scores)
        self._table_before = table
        self._n_threads = n_threads

    @property
    def n_rounds(self) -> int:
        """Number of rounds added."""
        return len(self._rounds)

    def kept(self, n_rounds: int) -> list[Trees]:
        """Return the trees of the first rounds, bag by bag, with their final values."""
        return [trees for bags in self._rounds[:n_rounds] for trees in bags]

    def add(self, boosted: Round, step: float) -> None:
        """Add a round's trees and table, times ``step``."""
        self._before, self.scores = self.scores, self._before
        self._table_before = self.table
        self._rounds.append(())
        self.repeat(boosted, step)

    def repeat(self, boosted: Round, step: float) -> None:
        """Take the newest round back and add it with another step."""
        bags = boosted.scaled(step)
        boosted.write(bags, self._before, self.scores, self._n_threads)
        if boosted.table_move is not None:
            self.table = self._table_before + boosted.table_step(step)
        self._rounds[-1] = bags

    def undo(self) -> None:
        """Take the newest round back."""
        self.scores, self._before = self._before, self.scores
        self.table = self._table_before
        self._rounds.pop()

    def slope(self, derivatives: Derivatives) -> float:
        """Return ⟨∇L, newest round⟩: how fast the objective rises along the newest round, per its step.

        The derivatives are those before the round.
        """
        rise = np.vdot(derivatives.gradient, self.scores - self._before)
        if derivatives.table_gradient is not None:
            moves = derivatives.table_gradient != 0  # forbidden cells, at −∞, do not
            rise += derivatives.table_gradient[moves] @ (self.table[moves] - self._table_before[moves])
        return float(rise)
