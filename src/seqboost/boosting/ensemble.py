"""The model while it grows: trees by round and label, the table, and the scores of all training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting.outputs import LabelOutputs, Outputs
from seqboost.boosting.sampling import Examples, Sample, Sampler
from seqboost.core.compiler import wait
from seqboost.core.contexts import Space
from seqboost.core.threads import run_tasks
from seqboost.objectives import Derivatives
from seqboost.trees import (
    DenseColumns,
    LabelSampleGrower,
    Limits,
    Partition,
    Policies,
    RiderPartition,
    SparseColumns,
    Tree,
    WeightedPartition,
    label_grower,
)

__all__ = ["MAX_LEAF_VALUE", "Ensemble", "Round", "TreeFitter", "Trees"]

MAX_LEAF_VALUE = 2.0
"""Cap on leaf values: curvature vanishes where the model is confidently wrong."""

WORTH_A_THREAD = 500_000  # cells; fewer are drawn from before another thread has woken

Trees: TypeAlias = tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Round:
    """One round at full step: trees of all labels, with what gives their outputs on the rows, and the table's move.

    A round may have several *bags*: forests of one tree per label, or of one tree for all labels, whose average is the
    round.
    """

    bags: tuple[Trees, ...]
    outputs: tuple[tuple[Outputs, ...], ...]
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
        for trees, outputs in zip(bags, self.outputs, strict=True):
            places = zip(trees, outputs, strict=True)
            tasks = [task for tree, place in places for task in place.tasks(tree.value, old, new)]
            run_tasks(lambda add, *arrays: add(*arrays), tasks, n_threads)
            old = new


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
    policies : Policies, optional
        What to do about missing values; by default they are one more value of a feature.
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
        policies: Policies | None = None,
    ) -> None:
        self.limits, self.n_threads, self.policies = limits, n_threads, policies
        self.max_leaf_value, self.learning_rate = max_leaf_value, learning_rate
        self._make_growers(dense, sparse, space)

    def _make_growers(self, dense: DenseColumns, sparse: SparseColumns, space: Space) -> None:
        """Allocate what trees are grown with."""
        self._growers: SimpleQueue[LabelSampleGrower] = SimpleQueue()
        for _ in range(min(self.n_threads, space.n_labels)):
            grower = label_grower(dense, sparse, space, self.limits, self.policies)
            self._growers.put(LabelSampleGrower(grower))

    def n_trees(self, n_labels: int) -> int:
        """Return how many trees a round, or one of its bags, has: each gets a seed."""
        return n_labels

    def draw(
        self, sampler: Sampler, derivatives: Derivatives, examples: Examples, seeds: Sequence[int]
    ) -> list[Sample]:
        """Draw what the trees of a round, or of one of its bags, are fitted to; a seed for each label."""
        cells = zip(derivatives.gradient, derivatives.hessian, range(len(seeds)), seeds, strict=True)
        tasks = [(gradient, hessian, label, examples, seed) for gradient, hessian, label, seed in cells]
        is_worth = derivatives.gradient.size > WORTH_A_THREAD
        return run_tasks(sampler.draw, tasks, self.n_threads if is_worth else 1)

    def fit(self, samples: Sequence[Sample], seeds: Sequence[int]) -> tuple[Trees, tuple[Outputs, ...]]:
        """Grow the trees of one round, or of one of its bags: a sample and a seed for each label."""
        wait()  # for the kernels of the first fit of all
        tasks = [(sample, seed) for sample, seed in zip(samples, seeds, strict=True)]
        grown = run_tasks(self._grow, tasks, self.n_threads)
        outputs = (LabelOutputs(partitions, label) for label, (_, partitions) in enumerate(grown))
        return tuple(tree for tree, _ in grown), tuple(outputs)

    def _grow(
        self, sample: Sample, seed: int
    ) -> tuple[Tree, tuple[Partition | RiderPartition | WeightedPartition, ...]]:
        grower = self._growers.get()
        try:
            return grower.grow(*sample, self.value, seed)
        finally:
            self._growers.put(grower)

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
