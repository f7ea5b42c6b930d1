"""The Python face of growing with policies for missing values, and the choice of the grower."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.missing import SURROGATE
from seqboost.trees.buffers import FITTED, N_LEAVES, N_PROGRESS, SIZE, START, G, H, Leaves, Splits
from seqboost.trees.criterion import Limits
from seqboost.trees.fixedpoint import Planes, choose_scales, totals
from seqboost.trees.growing import TreeGrower
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.missing import Policies, lacks_values, with_shares
from seqboost.trees.ordering import Ranks
from seqboost.trees.outputs import Partition
from seqboost.trees.routes import Routes
from seqboost.trees.surrogates import Ranking
from seqboost.trees.tree import Tree
from seqboost.trees.weighted_buffers import N_WEIGHTED_STATE, Detours, WeightedScratch
from seqboost.trees.weighted_grower import grow_weighted
from seqboost.trees.weighted_partition import WeightedPartition, leaves_in_order
from seqboost.trees.weighted_rows import WeightedRows

__all__ = [
    "WEIGHTED_ROW_BYTES",
    "CompleteGrower",
    "WeightedGrower",
    "label_grower",
    "needs_weights",
    "row_copies",
    "segment_length",
    "weight_bits",
]

WEIGHTED_ROW_BYTES = 20  # of WeightedRows

LeafValue = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def weight_bits(n_rows: int) -> int:
    """Return in how many bits the weight 1 is written: fewer for many rows, to leave room for the curvatures."""
    return max(8, min(12, 28 - int(n_rows).bit_length()))


def row_copies(rate: float, n_leaves: int) -> tuple[float, float]:
    """Estimate how often a row stands in the segments of a tree, and how often in its leaves.

    With a share m of values missing and even splits, level d holds (1 + m)^d times the rows; at each level the smaller
    half of them is written anew at the end of the segments.
    """
    levels = (1.0 + rate) ** np.arange(1, int(max(1, n_leaves) - 1).bit_length() + 1)
    return 1.0 + levels.sum() / 2, float(levels[-1]) if levels.size else 1.0


def segment_length(n_copies: float) -> float:
    """Return how many rows of all segments are alive at most: they begin with two copies, and twice as many follow."""
    length = 2.0
    while length < n_copies:
        length *= 2
    return length if length == 2.0 else 1.5 * length


def needs_weights(dense: DenseColumns, sparse: SparseColumns, policies: Policies) -> bool:
    """Tell whether the policies change how trees are grown on these rows."""
    slotted = policies.sparse[sparse.missing >= 0]
    return bool((policies.dense == SURROGATE).any() or (slotted == SURROGATE).any()) or lacks_values(
        dense, sparse, policies
    )


def label_grower(
    dense: DenseColumns, sparse: SparseColumns, space: Space, limits: Limits, policies: Policies | None
) -> TreeGrower | WeightedGrower:
    """Return a grower of trees for one label that does what the policies ask for, the fastest there is."""
    if policies is None or not (policies.dense.any() or policies.sparse.any()):
        return TreeGrower(dense, sparse, space, limits)
    if needs_weights(dense, sparse, policies):
        return WeightedGrower(dense, sparse, space, limits, policies)
    return CompleteGrower(dense, sparse, space, limits, policies)


class CompleteGrower(TreeGrower):
    """Grows trees on rows that lack no value, and gives their splits shares for rows that do.

    Parameters
    ----------
    dense, sparse, space, limits
        As in :class:`TreeGrower`.
    policies : Policies
        What to do about missing values.
    """

    def __init__(
        self, dense: DenseColumns, sparse: SparseColumns, space: Space, limits: Limits, policies: Policies
    ) -> None:
        super().__init__(dense, sparse, space, limits)
        self.policies = policies

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, Partition]:
        """Grow a tree for one label, as :meth:`TreeGrower.grow` does."""
        tree, partition = super().grow(gradient, hessian, rows, n_fitted, leaf_value, seed)
        return with_shares(tree, self.dense, self.sparse, self.policies), partition


class WeightedGrower:
    """Grows trees with policies for missing values, one after another, reusing its buffers: one grower per thread.

    Parameters
    ----------
    dense, sparse, space, limits
        As in :class:`TreeGrower`.
    policies : Policies
        What to do about missing values.
    """

    def __init__(
        self, dense: DenseColumns, sparse: SparseColumns, space: Space, limits: Limits, policies: Policies
    ) -> None:
        self.dense, self.sparse, self.space, self.limits, self.policies = dense, sparse, space, limits, policies
        n_rows, n = dense.address.size, limits.max_leaf_nodes
        n_extended, n_contexts = int(space.n_contexts_of.sum()), int(space.n_contexts_of[-1])
        n_cells = int(dense.cell_start[-1]) + int(sparse.slot_start[-1]) * sparse.offset.size
        max_values = max(258, space.n_labels + 1, int(np.diff(sparse.slot_start).max(initial=0)))
        self._leaves = Leaves(
            state=np.zeros((n, N_WEIGHTED_STATE), dtype=np.int64),
            mask=np.zeros((n, n_extended), dtype=np.int32),
            type_rows=np.zeros((n, space.base.size), dtype=np.int64),
            contexts=np.zeros((n, 2, n_extended)),
            histogram=np.zeros((n, 2 * n_cells), dtype=np.int64),
            rule=np.zeros((n, 5)),
            progress=np.zeros(N_PROGRESS, dtype=np.int64),
        )
        self._splits = Splits(
            kind=np.zeros(n, dtype=np.uint8),
            feature=np.zeros(n, dtype=np.int32),
            left=np.zeros(n, dtype=np.int32),
            right=np.zeros(n, dtype=np.int32),
            gain=np.zeros(n, dtype=np.float32),
            n_rows=np.zeros(n, dtype=np.int32),
            word_start=np.zeros(n + 1, dtype=np.int32),
            words=np.zeros(n * ((max_values + 63) // 64), dtype=np.uint64),
            parent=np.zeros(n, dtype=np.int64),
        )
        self._detours = new_detours(n, limits.n_surrogates, max_values)
        self._scratch = new_scratch(dense, sparse, space, limits, max_values, n_cells)
        self._segments = WeightedRows(
            rows=np.empty(2 * n_rows, dtype=np.int32),
            sums=np.empty(2 * n_rows, dtype=np.int64),
            weight=np.empty(2 * n_rows, dtype=np.float32),
            units=np.empty(2 * n_rows, dtype=np.int32),
        )
        self._cells = np.empty((n_rows, n_contexts), dtype=np.int64)

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, WeightedPartition]:
        """Grow a tree for one label, as :meth:`TreeGrower.grow` does."""
        bits = weight_bits(n_fitted)
        largest_gradient, largest_hessian, total = totals(gradient, hessian, rows, n_fitted)
        scales = choose_scales(largest_gradient, largest_hessian, total, n_fitted << bits)._replace(unit=1 << bits)
        limits = self.limits._replace(min_samples_leaf=self.limits.min_samples_leaf << bits)
        self._scratch.random[0] = seed
        self._segments.rows[: rows.size] = rows
        cells = self._cells[: len(gradient)]
        planes = Planes(cells.shape[1], gradient.reshape(-1), hessian.reshape(-1), cells.reshape(-1))
        progress = self._leaves.progress
        progress[N_LEAVES] = 0
        while not grow_weighted(
            self.dense, self.sparse, self.policies, self.space, limits, scales, planes, cells, (n_fitted, rows.size),
            self._segments, self._leaves, self._splits, self._detours, self._scratch,
        ):  # fmt: skip
            self._segments = WeightedRows(*(np.concatenate([part, np.empty_like(part)]) for part in self._segments))
        n_leaves = int(progress[N_LEAVES])
        sums = self._leaves.state[:n_leaves]
        value = leaf_value(sums[:, G] / scales.gradient, sums[:, H] / scales.curvature)
        tree = self._frozen(n_leaves, value.astype(np.float32))
        return tree, self._partition(tree)

    def _frozen(self, n_leaves: int, value: NDArray[np.float32]) -> Tree:
        splits, n = self._splits, n_leaves - 1
        return Tree(
            kind=splits.kind[:n].copy(),
            feature=splits.feature[:n].copy(),
            word_start=splits.word_start[: n + 1].copy(),
            words=splits.words[: splits.word_start[n]].copy(),
            left=splits.left[:n].copy(),
            right=splits.right[:n].copy(),
            value=value,
            gain=splits.gain[:n].copy(),
            n_rows=splits.n_rows[:n].copy(),
            leaf_rows=self._leaves.state[:n_leaves, FITTED].astype(np.int32),
            routes=frozen_routes(self._detours, n),
        )

    def _partition(self, tree: Tree) -> WeightedPartition:
        state = self._leaves.state[: tree.n_leaves]
        # Segments of leaves that were split again leave gaps: only what the leaves have is kept.
        sizes = state[:, SIZE].copy()
        parts = [slice(start, start + size) for start, size in zip(state[:, START], sizes, strict=True)]
        return WeightedPartition(
            space=self.space,
            rows=np.concatenate([self._segments.rows[part] for part in parts]),
            weight=np.concatenate([self._segments.weight[part] for part in parts]),
            start=np.cumsum(sizes) - sizes,
            size=sizes,
            mask=self._leaves.mask[: tree.n_leaves].copy(),
            in_order=leaves_in_order(tree),
        )


def new_detours(n: int, n_surrogates: int, max_values: int) -> Detours:
    """Allocate the shares and surrogates of trees of ``n`` leaves."""
    return Detours(
        share=np.zeros(n, dtype=np.float32),
        start=np.zeros(n + 1, dtype=np.int64),
        kind=np.zeros(n * n_surrogates, dtype=np.uint8),
        feature=np.zeros(n * n_surrogates, dtype=np.int32),
        place=np.zeros(n * n_surrogates, dtype=np.int64),
        word_start=np.zeros(n * n_surrogates + 1, dtype=np.int64),
        words=np.zeros(n * n_surrogates * ((max_values + 63) // 64), dtype=np.uint64),
    )


def new_scratch(
    dense: DenseColumns, sparse: SparseColumns, space: Space, limits: Limits, max_values: int, n_cells: int
) -> WeightedScratch:
    """Allocate the buffers of one thread."""
    n_windowed = dense.feature.size + sparse.kind.size * sparse.offset.size
    return WeightedScratch(
        ranks=Ranks(
            keys=np.empty(max_values),
            order=np.empty(max_values, dtype=np.int64),
            sums=np.empty((2, space.n_labels + 1)),
            present=np.empty((space.n_labels + 1, space.base.size), dtype=np.int64),
            on_left=np.empty(space.base.size, dtype=np.int64),
        ),
        ranking=Ranking(
            agreement=np.empty(limits.n_surrogates),
            kind=np.empty(limits.n_surrogates, dtype=np.int64),
            place=np.empty(limits.n_surrogates, dtype=np.int64),
            cut=np.empty(limits.n_surrogates, dtype=np.int64),
            low_left=np.empty(limits.n_surrogates, dtype=np.bool_),
        ),
        left=np.zeros(max_values, dtype=np.bool_),
        other_left=np.zeros(max_values, dtype=np.bool_),
        drawn=np.ones(n_windowed, dtype=np.bool_),
        pool=np.arange(n_windowed, dtype=np.int64),
        shuffled=np.arange(n_windowed, dtype=np.int64),
        random=np.zeros(1, dtype=np.uint64),
        mark=np.empty(dense.address.size, dtype=np.uint8),
        part_left=np.empty(3, dtype=np.float32),
        on_left=np.empty(n_cells, dtype=np.int64),
        on_right=np.empty(n_cells, dtype=np.int64),
        has=np.empty((2, space.base.size), dtype=np.bool_),
    )


def frozen_routes(detours: Detours, n_splits: int) -> Routes:
    """Copy the shares and surrogates of a finished tree."""
    n = int(detours.start[n_splits])
    return Routes(
        share=detours.share[:n_splits].copy(),
        surrogate_start=detours.start[: n_splits + 1].copy(),
        surrogate_kind=detours.kind[:n].copy(),
        surrogate_feature=detours.feature[:n].copy(),
        surrogate_word_start=detours.word_start[: n + 1].copy(),
        surrogate_words=detours.words[: detours.word_start[n]].copy(),
    )
