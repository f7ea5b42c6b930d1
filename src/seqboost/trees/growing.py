"""The grower's Python face: buffers that outlive a tree, and the frozen results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.trees.buffers import (
    FITTED,
    N_LEAVES,
    N_PROGRESS,
    N_STATE,
    SIZE,
    START,
    G,
    H,
    Leaves,
    Scratch,
    Segments,
    Splits,
)
from seqboost.trees.criterion import Limits
from seqboost.trees.fixedpoint import Planes, choose_scales, totals
from seqboost.trees.grower import grow_tree
from seqboost.trees.histogram import ROWS_AT_ONCE, DenseColumns, SparseColumns
from seqboost.trees.ordering import Ranks
from seqboost.trees.outputs import Partition
from seqboost.trees.tree import Tree
from seqboost.trees.vectors import N_BLOCK

__all__ = ["TreeGrower"]

LeafValue = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def _doubled(segments: Segments) -> Segments:
    """Return the segments with as much room again at their end."""
    rows, sums = segments
    return np.concatenate([rows, np.empty_like(rows)]), np.concatenate([sums, np.empty_like(sums)])


class TreeGrower:
    """Grows trees on the same columns, one after another, reusing its buffers: one grower per thread.

    Parameters
    ----------
    dense : DenseColumns
        Bin codes of all rows.
    sparse : SparseColumns
        Slots of all rows.
    space : Space
        Contexts; those of order 0 for factored models.
    limits : Limits
        What a tree may do.
    """

    def __init__(self, dense: DenseColumns, sparse: SparseColumns, space: Space, limits: Limits) -> None:
        self.dense, self.sparse, self.space, self.limits = dense, sparse, space, limits
        n_rows, n = dense.address.size, limits.max_leaf_nodes
        n_extended, n_contexts = int(space.n_contexts_of.sum()), int(space.n_contexts_of[-1])
        n_cells = int(dense.cell_start[-1]) + int(sparse.slot_start[-1]) * sparse.offset.size
        max_values = max(258, space.n_labels + 1, int(np.diff(sparse.slot_start).max(initial=0)))
        n_windowed = dense.feature.size + sparse.kind.size * sparse.offset.size
        self._leaves = Leaves(
            state=np.zeros((n, N_STATE), dtype=np.int64),
            mask=np.zeros((n, n_extended), dtype=np.int32),
            type_rows=np.zeros((n, space.base.size), dtype=np.int64),
            contexts=np.zeros((n, 2, n_extended), dtype=np.int64),
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
        self._scratch = Scratch(
            ranks=Ranks(
                keys=np.empty(max_values),
                order=np.empty(max_values, dtype=np.int64),
                sums=np.empty((2, space.n_labels + 1)),
                present=np.empty((space.n_labels + 1, space.base.size), dtype=np.int64),
                on_left=np.empty(space.base.size, dtype=np.int64),
            ),
            left=np.zeros(max_values, dtype=np.bool_),
            drawn=np.ones(n_windowed, dtype=np.bool_),
            pool=np.arange(n_windowed, dtype=np.int64),
            shuffled=np.arange(n_windowed, dtype=np.int64),
            random=np.zeros(1, dtype=np.uint64),
            goes_left=np.empty(n_rows, dtype=np.bool_),
            spare=(np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.int64)),
            chosen=np.empty(n_contexts, dtype=np.int64),
            has=np.empty((2, space.base.size), dtype=np.bool_),
            block=np.empty((ROWS_AT_ONCE, N_BLOCK), dtype=np.int64),
        )
        self._segments: Segments = (np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.int64))
        self._cells = np.empty((n_rows, n_contexts), dtype=np.int64)

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, Partition]:
        """Grow a tree for one label.

        Parameters
        ----------
        gradient, hessian : ndarray of float32 of shape (n_rows, n_contexts)
            The label's derivatives; zero where a context does not exist.
        rows : ndarray of int32
            Every position once: first those the tree is fitted to, then the others, each part in rising order.
        n_fitted : int
            How many of ``rows`` the tree is fitted to.
        leaf_value : callable
            From the leaves' sums of gradient and curvature to their values.
        seed : int, default=0
            Seed of the features drawn for the tree and at each node.

        Returns
        -------
        tree : Tree
        partition : Partition
        """
        largest_gradient, largest_hessian, total = totals(gradient, hessian, rows, n_fitted)
        scales = choose_scales(largest_gradient, largest_hessian, total, n_fitted)
        self._scratch.random[0] = seed
        self._segments[0][: rows.size] = rows
        planes = Planes(self._cells.shape[1], gradient.reshape(-1), hessian.reshape(-1), self._cells.reshape(-1))
        progress = self._leaves.progress
        progress[N_LEAVES] = 0
        while not grow_tree(
            self.dense, self.sparse, self.space, self.limits, scales, planes, self._cells,
            (n_fitted, rows.size), self._segments, self._leaves, self._splits, self._scratch,
        ):  # fmt: skip
            self._segments = _doubled(self._segments)
        n_leaves = int(progress[N_LEAVES])
        sums = self._leaves.state[:n_leaves]
        value = leaf_value(sums[:, G] / scales.gradient, sums[:, H] / scales.curvature)
        return self._frozen(n_leaves, value.astype(np.float32)), self._partition(n_leaves, rows)

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
        )

    def _partition(self, n_leaves: int, positions: NDArray[np.int32]) -> Partition:
        state = self._leaves.state[:n_leaves]
        start, size = state[:, START].copy(), state[:, SIZE].copy()
        rows = self._segments[0][: int((start + size).max())].copy()
        return Partition(self.space, positions, rows, start, size, self._leaves.mask[:n_leaves].copy())
