"""Shared trees with policies for missing values: their grower, and the choice of it.

The growth is that of :mod:`seqboost.trees.shared_growing`; rows have weights as in the trees for one label
(:mod:`seqboost.trees.weighted_grower`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.missing import DIRECTION
from seqboost.core.threads import run_tasks
from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.missing import Policies, with_shares
from seqboost.trees.shared_buffers import MAX_DECIDING
from seqboost.trees.shared_cells import Units
from seqboost.trees.shared_growing import (
    CONTEXTS_PER_TASK,
    LABELS_PER_TASK,
    NO_ROWS,
    ROWS_PER_TASK,
    Growth,
    Leaf,
    LeafValue,
    SharedGrower,
    parts_of,
)
from seqboost.trees.shared_partition import SharedPartition
from seqboost.trees.shared_search import Pair
from seqboost.trees.shared_weighted import (
    divide_by_policy,
    search_weighted,
    sum_weighted_contexts,
    sum_weighted_leaves,
    sum_weighted_row_contexts,
    sum_weights,
)
from seqboost.trees.tree import DENSE, Tree
from seqboost.trees.weighted_growing import frozen_routes, needs_weights, new_detours, new_scratch, weight_bits
from seqboost.trees.weighted_partition import WeightedPartition, leaves_in_order
from seqboost.trees.weighted_rows import WeightedRows

__all__ = ["CompleteSharedGrower", "WeightedSharedGrower", "shared_grower"]


def shared_grower(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    limits: Limits,
    policies: Policies | None,
    n_threads: int = 1,
) -> SharedGrower:
    """Return a grower of trees for all labels that does what the policies ask for, the fastest there is."""
    if policies is None or not (policies.dense.any() or policies.sparse.any()):
        return SharedGrower(dense, sparse, space, limits, n_threads)
    kind = WeightedSharedGrower if needs_weights(dense, sparse, policies) else CompleteSharedGrower
    return kind(dense, sparse, space, limits, policies, n_threads)


class CompleteSharedGrower(SharedGrower):
    """Grows shared trees on rows that lack no value, and gives their splits shares for rows that do.

    Parameters
    ----------
    dense, sparse, space, limits, n_threads, max_deciding
        As in :class:`SharedGrower`.
    policies : Policies
        What to do about missing values.
    """

    def __init__(
        self,
        dense: DenseColumns,
        sparse: SparseColumns,
        space: Space,
        limits: Limits,
        policies: Policies,
        n_threads: int = 1,
        max_deciding: int = MAX_DECIDING,
    ) -> None:
        super().__init__(dense, sparse, space, limits, n_threads, max_deciding)
        self.policies = policies

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, SharedPartition | WeightedPartition]:
        """Grow a tree for all labels, as :meth:`SharedGrower.grow` does."""
        tree, partition = super().grow(gradient, hessian, rows, n_fitted, leaf_value, seed)
        return with_shares(tree, self.dense, self.sparse, self.policies), partition


class WeightedSharedGrower(SharedGrower):
    """Grows shared trees with policies for missing values; parameters as in :class:`CompleteSharedGrower`."""

    def __init__(
        self,
        dense: DenseColumns,
        sparse: SparseColumns,
        space: Space,
        limits: Limits,
        policies: Policies,
        n_threads: int = 1,
        max_deciding: int = MAX_DECIDING,
    ) -> None:
        super().__init__(dense, sparse, space, limits, n_threads, max_deciding)
        self.policies = policies
        n_rows, buffers = dense.address.size, self.buffers
        n_cells = buffers.sums.counts.shape[1]
        max_values = max(258, space.n_labels + 1, int(np.diff(sparse.slot_start).max(initial=0)))
        self.segments = WeightedRows(
            rows=np.empty(2 * n_rows, dtype=np.int32),
            sums=np.zeros(2 * n_rows, dtype=np.int64),  # not used: sums of rows are vectors here
            weight=np.empty(2 * n_rows, dtype=np.float32),
            units=np.empty(2 * n_rows, dtype=np.int32),
        )
        self.node_vectors = np.empty((n_rows, buffers.cells.shape[2]), dtype=np.int32)
        self.detours = new_detours(limits.max_leaf_nodes, limits.n_surrogates, max_values)
        self.scratch = new_scratch(dense, sparse, space, limits, max_values, n_cells)

    def _growth(self, units: Units, rows: NDArray[np.int32], n_fitted: int) -> Growth:
        return WeightedGrowth(self, units, rows, n_fitted)


class WeightedGrowth(Growth):
    """One shared tree while it grows on weighted rows."""

    grower: WeightedSharedGrower

    def __init__(self, grower: WeightedSharedGrower, units: Units, rows: NDArray[np.int32], n_fitted: int) -> None:
        self.bits = max(0, min(weight_bits(n_fitted), 30 - int(n_fitted).bit_length()))
        segments = grower.segments
        segments.rows[: rows.size] = rows
        segments.sums[: rows.size] = 0
        segments.weight[: rows.size] = 1.0
        segments.units[: rows.size] = 1 << self.bits
        self.segments = segments
        self.divided: set[int] = set()  # leaves with rows of less than full weight
        self.limits = grower.limits._replace(min_samples_leaf=grower.limits.min_samples_leaf << self.bits)
        self.removed_units = segments.units[:0]
        grower.buffers.rows = segments.rows
        super().__init__(grower, units, rows, n_fitted)

    def _types(self, start: int, fitted: int) -> NDArray[np.int64]:
        """Sum the weights of fitted positions by type."""
        types = np.empty(self.space.base.size, dtype=np.int64)
        sum_weights(self.space.row_type, self.segments, start, start + fitted, types)
        return types

    def _vectors(self, leaf: Leaf) -> tuple[NDArray[np.int32], bool]:
        whole = leaf.mask.all() and leaf.number not in self.divided
        return (self.buffers.vectors, True) if whole else (self.grower.node_vectors, False)

    def _make_room(self, n_rows: int) -> None:
        while self.segments.rows.size < n_rows:
            self.segments = WeightedRows(*(np.concatenate([part, np.empty_like(part)]) for part in self.segments))
        self.grower.segments, self.buffers.rows = self.segments, self.segments.rows

    def _policy(self, leaf: Leaf) -> tuple[int, int]:
        """Return the policy of a leaf's split, and the value that stands for missing."""
        dense, sparse, policies = self.grower.dense, self.grower.sparse, self.grower.policies
        if leaf.kind == DENSE:
            policy, missing = int(policies.dense[leaf.feature]), int(dense.n_values[leaf.feature])
        else:
            s = leaf.feature % sparse.kind.size
            missing = int(sparse.missing[s])
            policy = int(policies.sparse[s]) if missing >= 0 else DIRECTION
        return policy, missing if policy != DIRECTION else -1

    def _divide_rows(self, leaf: Leaf, other: Leaf) -> tuple[Leaf, Leaf, NDArray[np.int32]]:
        grower = self.grower
        self._make_room(self.n_used + leaf.size)
        policy, missing = self._policy(leaf)
        both, left_leaves, *sizes = divide_by_policy(
            grower.dense, grower.sparse, leaf.kind, leaf.feature, leaf.left, policy, missing, leaf.above, leaf.span,
            self.n_used, self.segments, grower.detours, grower.scratch,
        )  # fmt: skip
        stays, leaves = (other, leaf) if left_leaves else (leaf, other)
        stays.start, leaves.start = leaf.start, self.n_used
        stays.size, stays.fitted, leaves.size, leaves.fitted = sizes
        self.n_used += leaves.size
        if both or leaf.number in self.divided:
            self.divided |= {leaf.number, other.number}
        small, large = (leaf, other) if leaf.fitted <= other.fitted else (other, leaf)
        small.type_rows = self._types(small.start, small.fitted)
        large.type_rows = large.type_rows - small.type_rows
        return small, large, NO_ROWS

    def _divide_contexts(self, leaf: Leaf, other: Leaf) -> tuple[Leaf, Leaf, NDArray[np.int32]]:
        self._make_room(self.n_used + leaf.size)
        space, segments, (first, fitted, last) = self.space, self.segments, leaf.span
        goes_left = leaf.left[space.lag_label[leaf.feature]]
        leaf.mask, other.mask = leaf.mask & goes_left, leaf.mask & ~goes_left
        detours = self.grower.detours
        detours.share[leaf.above], detours.start[leaf.above + 1] = 0.0, detours.start[leaf.above]
        if leaf.number in self.divided:
            self.divided.add(other.number)
        small, large = (leaf, other) if leaf.mask.sum() < other.mask.sum() else (other, leaf)
        types = space.row_type[segments.rows[first:last]]
        lost = np.flatnonzero(~self._has_types(large)[types[: fitted - first]]) + first
        removed, self.removed_units = segments.rows[lost], segments.units[lost]
        other.start = self.n_used
        for child in (other, leaf):  # the one that leaves first: the other is moved in place
            has = self._has_types(child)
            kept = np.flatnonzero(has[types])
            child.size, child.fitted = len(kept), int(np.searchsorted(kept, fitted - first))
            for part in segments:
                part[child.start : child.start + child.size] = part[first + kept]
            child.type_rows = np.where(has, leaf.type_rows, 0)
        self.n_used += other.size
        return small, large, removed

    def _sum_row_contexts(self, leaf: Leaf, vectors: NDArray[np.int32], *, by_row: bool) -> None:
        if by_row:
            super()._sum_row_contexts(leaf, vectors, by_row=True)
            return
        (first, last, _), rows, weight = leaf.span, self.segments.rows, self.segments.weight

        def task(a: int, b: int) -> None:
            sum_weighted_row_contexts(
                self.buffers.cells, leaf.mask, self.space, rows, weight, a, b, first, vectors
            )  # fmt: skip

        size = ROWS_PER_TASK if self.grower.n_threads > 1 else leaf.fitted + 1
        self._run(task, parts_of(first, last, size), leaf.fitted * leaf.mask.size)

    def _sum_contexts(self, leaf: Leaf) -> None:
        if leaf.number not in self.divided:
            super()._sum_contexts(leaf)
            return
        (first, last, _), rows, weight = leaf.span, self.segments.rows, self.segments.weight
        sums = self.buffers.sums.contexts[leaf.slot]

        def task(a: int, b: int) -> None:
            sum_weighted_contexts(
                self.buffers.cells, leaf.mask, self.space, rows, weight, first, last, (a, b), sums
            )  # fmt: skip

        n_contexts = int(self.space.n_contexts_of[-1])
        self._run(task, parts_of(0, n_contexts, CONTEXTS_PER_TASK), leaf.fitted * leaf.mask.size)

    def _pair(
        self,
        small: Leaf,
        large: Leaf | None,
        removed: NDArray[np.int32],
        searched: tuple[bool, bool],
        *,
        same_rows: bool,
    ) -> Pair:
        pair = super()._pair(small, large, removed, searched, same_rows=same_rows)
        n_small, n_large = (int(n) for n in pair.type_rows.sum(axis=1))
        return pair._replace(n=(n_small, n_large), unit=1 << self.bits)

    def _run_search(self, pair: Pair) -> None:
        grower, buffers = self.grower, self.buffers
        vectors = buffers.vectors if pair.by_row else grower.node_vectors

        def task(number: int, first: int, last: int) -> None:
            scratch = buffers.scratch.get()
            try:
                search_weighted(
                    grower.dense, grower.sparse, grower.policies, self.space, self.limits, self.units, buffers.blocks,
                    (number, first, last), pair, self.removed_units, self.segments, vectors, buffers.sums, scratch,
                    buffers.finds,
                )  # fmt: skip
            finally:
                buffers.scratch.put(scratch)

        n_vectors = (pair.last - pair.first) * grower.dense.feature.size + 8 * buffers.sums.counts.shape[1]
        self._run(task, buffers.tasks, n_vectors)

    def sums(
        self, gradient: NDArray[np.float32], hessian: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the leaves' sums of gradient and curvature, (n_leaves, n_labels), of any labels."""
        start, fitted, mask = (
            np.array([getattr(leaf, name) for leaf in self.leaves]) for name in ("start", "fitted", "mask")
        )
        sums = np.empty((2, len(self.leaves), len(gradient)))

        def task(a: int, b: int) -> None:
            sum_weighted_leaves(self.space, self.segments, start, fitted, mask, gradient, hessian, (a, b), sums)

        run_tasks(task, parts_of(0, len(gradient), LABELS_PER_TASK), self.grower.n_threads)
        return sums[0], sums[1]

    def tree(self, value: NDArray[np.float64]) -> Tree:
        """Freeze the tree, with the values of its leaves."""
        tree = super().tree(value)
        self._in_order = leaves_in_order(tree)
        return replace(tree, routes=frozen_routes(self.grower.detours, tree.n_splits))

    def partition(self) -> WeightedPartition:
        """Return which positions and contexts each leaf holds, and with which weights."""
        parts = [slice(leaf.start, leaf.start + leaf.size) for leaf in self.leaves]
        sizes = np.array([leaf.size for leaf in self.leaves], dtype=np.int64)
        return WeightedPartition(
            space=self.space,
            rows=np.concatenate([self.segments.rows[part] for part in parts]),
            weight=np.concatenate([self.segments.weight[part] for part in parts]),
            start=np.cumsum(sizes) - sizes,
            size=sizes,
            mask=np.array([leaf.mask for leaf in self.leaves]).astype(np.int32),
            in_order=self._in_order,
        )
