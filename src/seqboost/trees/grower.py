"""Grow trees on the same columns, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from seqboost.core.linking import address_of
from seqboost.core.missing import INSTANCE_WEIGHTING
from seqboost.core.packed import Packer, packed
from seqboost.core.threads import run_tasks
from seqboost.trees.columns import Policies, Problem, needs_weights
from seqboost.trees.grow import MORE_ROOM, REDUCE, SEARCH, SHARES, Turn, advance
from seqboost.trees.histogram import block_tasks, feature_blocks
from seqboost.trees.leaves import LeafRows
from seqboost.trees.nodes import (
    FITTED,
    LEFT_CHILD,
    N_LEAVES,
    N_PENDING,
    PHASE,
    RIGHT_CHILD,
    SIZE,
    SLOT,
    SMALL,
    START,
    Workspace,
    aligned,
    histogram_slots,
    new_finds,
    new_nodes,
    new_scratch,
    new_splits,
    new_sums,
    new_weighted,
)
from seqboost.trees.quantise import MAX_DECIDING, Rounded, Units, choose_units, n_lanes, round_derivatives
from seqboost.trees.scan import Scratch
from seqboost.trees.split import search
from seqboost.trees.tree import DENSE, LAG, Routes, Tree

__all__ = ["Grower", "LeafValue", "Reducer", "grow_together"]

LeafValue = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

WORTH_A_THREAD = 100_000  # additions; fewer are done before another thread has woken
NEVER = 1 << 62  # rows
LABELS_PER_TASK = 34


class Reducer(Protocol):
    """Adds integer arrays over the machines, or groups of rows, that grow one tree together."""

    def sum(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Replace each array by its sum over all parties, which all call this with arrays of the same shapes."""


def weight_bits(n_rows: int) -> int:
    """Return in how many bits the weight 1 is written: fewer for many rows, as their sum must fit an int32."""
    size = int(n_rows).bit_length()
    return max(0, min(max(8, min(12, 28 - size)), 30 - size))


class Grower:
    """Grows trees on the same columns, one after another, reusing its buffers.

    Parameters
    ----------
    problem : Problem
        Columns and contexts of all rows, and what a tree may do.
    n_outputs : int
        Length of the vectors in the leaves: the number of labels for a tree of all labels, 1 for one of a single label.
    policies : Policies, optional
        What to do about missing values; by default they are one more value of a feature.
    n_threads : int, default=1
        Number of threads; the trees do not depend on it.
    max_deciding : int, default=32
        With more outputs than these, this many are drawn for each tree to decide on its splits
        (:mod:`seqboost.trees.quantise`).
    reducer : Reducer, optional
        Adds up the sums of all machines that grow the tree together, each on its rows.
    """

    def __init__(
        self,
        problem: Problem,
        n_outputs: int,
        policies: Policies | None = None,
        *,
        n_threads: int = 1,
        max_deciding: int = MAX_DECIDING,
        reducer: Reducer | None = None,
    ) -> None:
        has_policies = policies is not None and bool(policies.dense.any() or policies.sparse.any())
        self.problem, self.n_threads, self.reducer = problem, n_threads, reducer
        self.policies = policies if has_policies else None
        self.n_deciding = min(n_outputs, max_deciding)
        columns, space, limits = problem
        order = space.base.size - 1
        n_nodes = (2 if reducer is None else 4) * limits.max_leaf_nodes
        n_histograms = limits.max_leaf_nodes if reducer is None else 3 * limits.max_leaf_nodes
        cell_bytes = 4 * n_lanes(self.n_deciding)
        n_slots = histogram_slots(columns.n_cells, cell_bytes + 4, n_histograms)
        blocks = feature_blocks(columns, order, cell_bytes)
        self.tasks = block_tasks(blocks, n_threads) if len(blocks) else []
        is_weighted = self.policies is not None and needs_weights(columns, self.policies)
        if is_weighted and reducer is not None:
            raise ValueError("with a reducer, missing values may not have policies other than a direction")
        if n_outputs > max_deciding and reducer is not None:
            raise ValueError(f"with a reducer, a tree may have {max_deciding} outputs at most, not {n_outputs}")
        self.weighted = new_weighted(problem, self.policies, n_nodes) if is_weighted and self.policies else None
        n_rows, lanes = columns.n_rows, n_lanes(self.n_deciding)
        rounded = Rounded(
            cells=np.empty((n_rows if order else 0, int(space.n_contexts_of[-1]), 2 * self.n_deciding), dtype=np.int32),
            vectors=aligned((n_rows, lanes), np.int32),
            node_vectors=aligned((n_rows if order or is_weighted else 0, lanes), np.int32),
        )
        nodes = new_nodes(problem, n_nodes, n_slots, self.n_deciding)
        if self.weighted is not None:
            nodes = nodes._replace(rows=np.empty(2 * n_rows, dtype=np.int32))
        self.work = Workspace(
            units=Units(*np.zeros((4, self.n_deciding))),
            rounded=rounded,
            nodes=nodes,
            sums=new_sums(problem, n_slots, self.n_deciding),
            finds=new_finds(problem, max(1, len(self.tasks)), n_nodes),
            splits=new_splits(problem),
            blocks=blocks,
        )
        self.scratch: SimpleQueue[Scratch] = SimpleQueue()
        for _ in range(n_threads):
            self.scratch.put(packed(new_scratch(problem, self.n_deciding)))
        self._pack, self._problem = Packer(), problem
        self._address: Any = None  # of the compiled search
        self._last_in_units: tuple[int, int, Problem, Problem] | None = None
        self._turn = Turn(0, 0, np.uint64(0), 0, 0)

    @property
    def one_way(self) -> bool:
        """Whether each row goes one way at each split."""
        return self.weighted is None

    def units(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        seed: int = 0,
    ) -> tuple[Units, NDArray[np.int64]]:
        """Choose the labels that decide on splits and the scales of their derivatives; parameters as in `grow`."""
        return choose_units(
            gradient, hessian, rows, n_fitted, self.problem.limits.l2_regularization,
            n_deciding=self.n_deciding, seed=seed, n_threads=self.n_threads,
        )  # fmt: skip

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        leaf_value: LeafValue,
        seed: int = 0,
        problem: Problem | None = None,
    ) -> tuple[Tree, LeafRows]:
        """Grow a tree.

        Parameters
        ----------
        gradient, hessian : ndarray of float32 of shape (n_outputs, n_rows, n_contexts)
            Derivatives; zero where a context does not exist.
        rows : ndarray of int32
            Every position once: first those the tree is fitted to, then the others, each part in rising order.
        n_fitted : int
            How many of ``rows`` the tree is fitted to.
        leaf_value : callable
            From the leaves' sums of gradient and curvature, both (n_leaves, n_outputs), to their values.
        seed : int, default=0
            Seed of the labels that decide and of the features drawn for the tree and at each node.
        problem : Problem, optional
            That of fewer rows, on which this tree is grown.

        Returns
        -------
        tree : Tree
            Its ``value`` has shape (n_leaves, n_outputs).
        leaves : LeafRows
            Which positions and contexts each leaf holds.
        """
        units, labels = self.units(gradient, hessian, rows, n_fitted, seed)
        self.start(gradient, hessian, rows, n_fitted, units, labels, seed, problem)
        while self.advance():
            pass
        return self.finish(leaf_value)

    def start(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        units: Units,
        labels: NDArray[np.int64],
        seed: int = 0,
        problem: Problem | None = None,
    ) -> None:
        """Begin a tree; ``units`` and ``labels`` are those that :meth:`units` returns, of all rows of all machines."""
        n = gradient.shape[1]
        rounded = Rounded(*(part[:n] for part in self.work.rounded))
        count = 1 if self.weighted is None else 1 << weight_bits(n_fitted)
        round_derivatives(
            gradient, hessian, rows, n_fitted, units, labels, rounded,
            count=count, n_threads=self.n_threads,
        )  # fmt: skip
        self._derivatives, self._labels, self._positions = (gradient, hessian), labels, rows
        self._turn = Turn(n_fitted, rows.size, np.uint64(seed), self._n_threaded(), 0)
        self.work.nodes.rows[: rows.size] = rows
        self.work.nodes.progress[PHASE] = 0
        for kept, unit in zip(self.work.units, units, strict=True):
            kept[:] = unit
        self._problem = problem or self.problem
        if self.weighted is not None:
            self.weighted.weight[: rows.size] = 1.0
            self.weighted.units[: rows.size] = count
            if self.weighted.unit != count:
                self.weighted = self.weighted._replace(unit=count)
            self._problem = self._in_units(self._problem, count)

    def _in_units(self, problem: Problem, unit: int) -> Problem:
        """Return a problem whose leaves hold rows in units of weight; the same object if asked for again."""
        if self._last_in_units is None or self._last_in_units[:2] != (id(problem), unit):
            limits = problem.limits._replace(min_samples_leaf=problem.limits.min_samples_leaf * unit)
            self._last_in_units = id(problem), unit, problem, problem._replace(limits=limits)
        return self._last_in_units[3]

    def advance(self) -> bool:
        """Go on growing until sums must be reduced, or the tree is grown; return whether it is not."""
        status = SEARCH
        while status in (SEARCH, MORE_ROOM):
            self._turn = self._turn._replace(search=self.link())
            problem, weighted, work = self._pack(self._problem, self.weighted, self.work)
            scratch = self.scratch.get()
            try:
                status = advance(problem, weighted, work, self._turn, None if self.reducer is None else True, scratch)
            finally:
                self.scratch.put(scratch)
            if status == MORE_ROOM:
                self._make_room()
            elif status == SEARCH:
                run_tasks(self._search, self.tasks, self.n_threads)
        return bool(status == REDUCE)

    def _search(self, *task: int) -> None:
        """Search some blocks of features: number, first and last of them."""
        self._run(search, task, self.reducer is not None)

    def _run(self, kernel: Callable[..., Any], *rest: Any) -> Any:
        """Call a kernel."""
        problem, weighted, work = self._pack(self._problem, self.weighted, self.work)
        scratch = self.scratch.get()
        try:
            return kernel(problem, weighted, work, *rest, scratch)
        finally:
            self.scratch.put(scratch)

    def link(self) -> Any:
        """Compile the search of splits, if need be, and return its address."""
        if self._address is None:
            self._address = self._run(partial(address_of, search), (0, 0, 0), self.reducer is not None)
        return self._address

    def compile(self) -> None:
        """Compile the growth of trees, but for the search of splits."""
        if not numba.config.DISABLE_JIT:
            compiled: Any = advance
            self._run(lambda *values: compiled.compile(tuple(map(numba.typeof, values))), self._turn, None)

    def _n_threaded(self) -> int:
        """Return from how many rows of new nodes on it is worth while to search features on threads."""
        if self.n_threads == 1 or len(self.tasks) < 2:
            return NEVER
        per_row = self.work.sums.cells.shape[2] * max(1, self.problem.columns.dense.displacement.size)
        return max(0, WORTH_A_THREAD - 8 * self.work.sums.cells[0].size) // per_row

    def _make_room(self) -> None:
        """Make the segments longer."""

        def doubled(array: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([array, np.empty_like(array)])

        nodes = self.work.nodes
        self.work = self.work._replace(nodes=nodes._replace(rows=doubled(nodes.rows)))
        if self.weighted is not None:
            weight, units = doubled(self.weighted.weight), doubled(self.weighted.units)
            self.weighted = self.weighted._replace(weight=weight, units=units)

    def reducible(self) -> list[NDArray[Any]]:
        """Return the arrays that are to be replaced by their sums over all machines."""
        nodes, sums, arrays = self.work.nodes, self.work.sums, []
        for node in nodes.pending[: nodes.progress[N_PENDING], SMALL].tolist():
            arrays += [nodes.total[node], nodes.type_rows[node]]
            slot = int(nodes.state[node, SLOT])
            if slot >= 0:
                arrays += [sums.cells[slot], sums.counts[slot], sums.contexts[slot]]
        return arrays

    def finish(self, leaf_value: LeafValue) -> tuple[Tree, LeafRows]:
        """Return the grown tree, as :meth:`grow` does."""
        nodes, splits = self.work.nodes, self.work.splits
        n = int(nodes.progress[N_LEAVES])
        of_leaf = nodes.leaf_node[:n]
        state, gradient = nodes.state[of_leaf], self._derivatives[0]
        leaves = self._leaf_rows(state)
        if len(self._labels) == len(gradient):
            total, d = nodes.total[of_leaf], self.n_deciding
            sums = total[:, :d] * self.work.units.gradient, total[:, d : 2 * d] * self.work.units.curvature
        else:
            sums = leaves.sums(*self._derivatives, n_fitted=state[:, FITTED].copy(), n_threads=self.n_threads)
        leaf_rows = state[:, FITTED] if self.weighted is not None else nodes.total[of_leaf, 2 * self.n_deciding]
        tree = Tree(
            kind=splits.kind[: n - 1].copy(),
            feature=splits.feature[: n - 1].copy(),
            word_start=splits.word_start[:n].copy(),
            words=splits.words[: splits.word_start[n - 1]].copy(),
            left=splits.left[: n - 1].copy(),
            right=splits.right[: n - 1].copy(),
            value=leaf_value(*sums).astype(np.float32),
            gain=splits.gain[: n - 1].copy(),
            n_rows=splits.n_rows[: n - 1].copy(),
            leaf_rows=leaf_rows.astype(np.int32),
        )
        if self.policies is not None:
            routes = self._shares(tree) if self.weighted is None else self._routes(n - 1)
            tree = replace(tree, routes=routes)
        return tree, leaves.ordered(tree) if self.weighted is not None else leaves

    def _leaf_rows(self, state: NDArray[np.int64]) -> LeafRows:
        """Return which positions and contexts each leaf holds."""
        nodes, n = self.work.nodes, len(state)
        start, size = state[:, START].copy(), state[:, SIZE].copy()  # contiguous: calls of kernels are faster
        mask = nodes.mask[nodes.leaf_node[:n]]
        if self.weighted is None:
            rows = nodes.rows[: int((start + size).max())].copy()
            for leaf in np.flatnonzero(state[:, LEFT_CHILD]).tolist():
                self._restore(state[leaf], rows)
            return LeafRows(self._problem.space, self._positions, rows, None, start, size, mask)
        # Segments of nodes that were split leave gaps: only what the leaves have is kept.
        parts = [slice(a, a + b) for a, b in zip(start.tolist(), size.tolist(), strict=True)]
        rows, weight = (np.concatenate([array[part] for part in parts]) for array in (nodes.rows, self.weighted.weight))
        return LeafRows(self._problem.space, self._positions, rows, weight, np.cumsum(size) - size, size, mask)

    def _restore(self, leaf: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        """Write the positions of a leaf that was split ahead, in vain: its children took its segment."""
        nodes, fitted, others = self.work.nodes, [], []
        for child in nodes.state[leaf[[LEFT_CHILD, RIGHT_CHILD]]]:
            segment = nodes.rows[child[START] : child[START] + child[SIZE]]
            fitted.append(segment[: child[FITTED]])
            others.append(segment[child[FITTED] :])
        both = [np.unique(np.concatenate(part)) for part in (fitted, others)]  # a position may be in both children
        rows[leaf[START] : leaf[START] + leaf[SIZE]] = np.concatenate(both)

    def _routes(self, n_splits: int) -> Routes:
        """Return the shares and surrogates of a finished tree."""
        assert self.weighted is not None
        detours, sparse = self.weighted.detours, self.problem.columns.sparse
        nodes = self.work.splits.node[:n_splits].tolist()
        kinds, features, words = [], [], []
        for node in nodes:
            for q in range(int(detours.n[node])):
                kind, feature = int(detours.kind[node, q]), int(detours.feature[node, q])
                size = 256 if kind == DENSE else int(np.diff(sparse.slot_start)[feature % sparse.kind.size])
                bits = np.zeros(-(-size // 64) * 64, dtype=np.bool_)
                bits[:size] = detours.left[node, q, :size]
                kinds.append(kind)
                features.append(feature)
                words.append(np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64))
        return Routes(
            share=detours.share[nodes].copy(),
            surrogate_start=np.concatenate([[0], np.cumsum(detours.n[nodes])]).astype(np.int64),
            surrogate_kind=np.array(kinds, dtype=np.uint8),
            surrogate_feature=np.array(features, dtype=np.int32),
            surrogate_word_start=np.cumsum([0, *map(len, words)]).astype(np.int64),
            surrogate_words=np.concatenate([np.zeros(0, dtype=np.uint64), *words]),
        )

    def _shares(self, tree: Tree) -> Routes:
        """Return the shares n_l/(n_l+n_r) of a tree that was grown on complete rows, for rows that are not."""
        assert self.policies is not None
        sparse = self.problem.columns.sparse
        rows = np.concatenate([tree.leaf_rows[::-1], tree.n_rows]).astype(np.float64)  # by leaf ~child, then by split
        n_left, n_right = (rows[child.astype(np.int64) + tree.n_leaves] for child in (tree.left, tree.right))
        of_sparse = np.tile((sparse.missing >= 0) & (self.policies.sparse == INSTANCE_WEIGHTING), sparse.offset.size)
        weighs = np.zeros(tree.n_splits, dtype=np.bool_)
        for split in np.flatnonzero(tree.kind != LAG):
            feature = tree.feature[split]
            is_dense = tree.kind[split] == DENSE
            weighs[split] = self.policies.dense[feature] == INSTANCE_WEIGHTING if is_dense else of_sparse[feature]
        share = np.clip((n_left / np.maximum(n_left + n_right, 1)).astype(np.float32), *SHARES)
        return Routes.of_shares(np.where(weighs, share, 0).astype(np.float32))


def grow_together(growers: Sequence[Grower], reducer: Reducer) -> None:
    """Grow the trees that ``growers`` have begun in step, with one reduction for all of them at a time."""
    growing = list(growers)
    while growing:
        growing = [grower for grower in growing if grower.advance()]
        if growing:
            reducer.sum([array for grower in growing for array in grower.reducible()])
