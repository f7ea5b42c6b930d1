"""Growing one tree for all labels, best split first, on the product space rows × contexts.

As for the trees of one label (:mod:`seqboost.trees.grower`), a node is a set of positions times a set of contexts. Its
leaves hold a value for each label, so that a round of boosting costs one growth instead of K::

    split of rows       small child: fewer positions     new histogram        large child: parent − small
    split of contexts   small child: fewer contexts      new histogram        large child: parent − small

Threads take blocks of features (:mod:`seqboost.trees.shared_search`).

With more than ``MAX_DECIDING`` labels, so many are drawn to decide on a tree's splits
(:mod:`seqboost.trees.shared_cells`); the leaves hold values of all labels.

A histogram has 8 bytes a bin and deciding label, so with many bins not every leaf can keep its own. When no slot is
free, the leaf with the smallest gain gives up its histogram and, should it be split after all, has it made anew. Sums
are exact, so the tree is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import jit
from seqboost.core.threads import run_tasks
from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.missing import Policies
from seqboost.trees.shared_buffers import MAX_DECIDING, Buffers
from seqboost.trees.shared_cells import Units, label_cells, sum_contexts, sum_row_contexts, sum_rows
from seqboost.trees.shared_partition import SharedPartition, divide_rows, find_leaves, keep_rows, sum_leaves
from seqboost.trees.shared_search import Pair, search
from seqboost.trees.tree import DENSE, LAG, Tree
from seqboost.trees.weighted_partition import WeightedPartition

__all__ = ["Growth", "Leaf", "SharedGrower", "parts_of"]

WORTH_A_THREAD = 100_000  # additions; fewer are done before another thread has woken
CONTEXTS_PER_TASK = 8
LABELS_PER_TASK = 34
ROWS_PER_TASK = 1024
NO_ROWS = np.empty(0, dtype=np.int32)

LeafValue = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class SharedGrower:
    """Grows trees for all labels on the same columns, one after another, reusing its buffers.

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
    n_threads : int, default=1
        Number of threads; the trees do not depend on it.
    max_deciding : int, default=32
        With more labels than these, so many are drawn for each tree to decide on its splits
        (:mod:`seqboost.trees.shared_cells`).
    """

    def __init__(
        self,
        dense: DenseColumns,
        sparse: SparseColumns,
        space: Space,
        limits: Limits,
        n_threads: int = 1,
        max_deciding: int = MAX_DECIDING,
    ) -> None:
        self.dense, self.sparse, self.space, self.limits, self.n_threads = dense, sparse, space, limits, n_threads
        self.policies = Policies(np.zeros(dense.feature.size, np.uint8), np.zeros(sparse.kind.size, np.uint8))
        self.n_deciding = min(space.n_labels, max_deciding)
        self.buffers = Buffers(dense, sparse, space, limits, self.n_deciding, n_threads)

    def grow(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        rows: NDArray[np.int32],
        n_fitted: int,
        leaf_value: LeafValue,
        seed: int = 0,
    ) -> tuple[Tree, SharedPartition | WeightedPartition]:
        """Grow a tree for all labels.

        Parameters
        ----------
        gradient, hessian : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
            Derivatives; zero where a context does not exist.
        rows : ndarray of int32
            Every position once: first those the tree is fitted to, then the others, each part in rising order.
        n_fitted : int
            How many of ``rows`` the tree is fitted to.
        leaf_value : callable
            From the leaves' sums of gradient and curvature, both (n_leaves, n_labels), to their values.
        seed : int, default=0
            Seed of the labels that decide and of the features drawn at each node.

        Returns
        -------
        tree : Tree
            Its ``value`` has shape (n_leaves, n_labels).
        partition : SharedPartition
            Of a grower with policies for missing values, a WeightedPartition.
        """
        lam, buffers = self.limits.l2_regularization, self.buffers
        units, labels = label_cells(gradient, hessian, rows, n_fitted, lam, buffers.cells, self.n_threads, seed)
        buffers.random[0] = seed
        buffers.pool = _pool(buffers.shuffled.size, self.limits.n_tree_features, seed)
        growth = self._growth(units, rows, n_fitted)
        growth.run()
        sums = growth.fixed_sums() if len(labels) == len(gradient) else growth.sums(gradient, hessian)
        return growth.tree(leaf_value(*sums)), growth.partition()

    def _growth(self, units: Units, rows: NDArray[np.int32], n_fitted: int) -> Growth:
        """Begin a tree."""
        return Growth(self, units, rows, n_fitted)


@dataclass(eq=False)
class Leaf:
    """A leaf that may still be split; the left child of a split keeps its parent's number."""

    number: int
    depth: int
    start: int  # its segment of rows
    size: int
    fitted: int
    mask: NDArray[np.bool_]  # (n_extended,) its contexts
    type_rows: NDArray[np.int64]  # (order + 1,) fitted positions by type
    total: NDArray[np.int32]  # (2 * n_labels,)
    above: int = -1  # split above it
    slot: int = -1  # of its histogram; −1: it has none
    gain: float = -1.0  # of its best split; < 0: there is none
    kind: int = 0
    feature: int = 0
    left: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def span(self) -> tuple[int, int, int]:
        """First row, end of the fitted rows, end."""
        return self.start, self.start + self.fitted, self.start + self.size


class Growth:
    """One tree while it grows."""

    def __init__(self, grower: SharedGrower, units: Units, rows: NDArray[np.int32], n_fitted: int) -> None:
        self.grower, self.buffers, self.units, self.space = grower, grower.buffers, units, grower.space
        self.buffers.rows[: rows.size] = rows
        self.n_used = rows.size
        self.free = list(range(len(self.buffers.sums.counts)))[::-1]
        self.splits: dict[str, list[Any]] = {
            name: [] for name in ("kind", "feature", "words", "left", "right", "gain", "n_rows")
        }
        root = Leaf(
            0, 0, 0, rows.size, n_fitted, np.ones(self.space.type_of.size, dtype=np.bool_), self._types(0, n_fitted),
            np.zeros(2 * grower.n_deciding, dtype=np.int32),
        )  # fmt: skip
        self.leaves = [root]

    def run(self) -> None:
        """Split the leaf with the largest gain, until none can be split or there are enough leaves."""
        grower, buffers, (root,) = self.grower, self.buffers, self.leaves
        if self.space.base.size > 1:
            self._sum_row_contexts(root, buffers.vectors, by_row=True)
        sum_rows(buffers.vectors, buffers.rows, 0, root.fitted, True, root.total)
        if grower.limits.max_leaf_nodes > 1:
            self._search(root, None, NO_ROWS, [root])
        while len(self.leaves) < grower.limits.max_leaf_nodes:
            leaf = max(self.leaves, key=lambda leaf: leaf.gain)  # the first of equal ones
            if leaf.gain <= 0:
                break
            self._split(leaf)

    def _split(self, leaf: Leaf) -> None:
        """Turn a leaf into its left child, and add its right child."""
        is_last = len(self.leaves) + 1 == self.grower.limits.max_leaf_nodes
        if leaf.slot < 0 and not is_last:
            self._measure_again(leaf)
        number = self._record(leaf)
        other = Leaf(len(self.leaves), leaf.depth + 1, 0, 0, 0, leaf.mask, leaf.type_rows, leaf.total, number)
        leaf.depth, leaf.above, leaf.gain = leaf.depth + 1, number, -1.0
        self.leaves.append(other)
        divide = self._divide_contexts if leaf.kind == LAG else self._divide_rows
        small, large, removed = divide(leaf, other)
        if small is leaf:  # the parent's histogram goes to the large child
            leaf.slot, other.slot = other.slot, leaf.slot
        total = small.total
        small.total = self._total(small)
        large.total = total - small.total
        if not is_last:
            self._search(small, large, removed, [leaf, other], same_rows=leaf.kind == LAG)

    def _record(self, leaf: Leaf) -> int:
        """Write the split of a leaf into the tree; return its number."""
        splits, number, other = self.splits, len(self.splits["kind"]), len(self.leaves)
        if leaf.above >= 0:
            side = "left" if splits["left"][leaf.above] == ~leaf.number else "right"
            splits[side][leaf.above] = number
        dense, sparse = self.grower.dense, self.grower.sparse
        feature, n_values = leaf.feature, 256
        if leaf.kind == DENSE:
            feature = int(dense.feature[leaf.feature])
        elif leaf.kind == LAG:
            feature, n_values = leaf.feature + 1, self.space.n_labels + 1
        else:
            n_values = int(np.diff(sparse.slot_start)[leaf.feature % sparse.kind.size])
        bits = np.zeros(-(-n_values // 64) * 64, dtype=np.bool_)
        bits[:n_values] = leaf.left[:n_values]
        entry = {
            "kind": leaf.kind,
            "feature": feature,
            "words": np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64),
            "left": ~leaf.number,
            "right": ~other,
            "gain": leaf.gain,
            "n_rows": leaf.fitted,
        }
        for name, value in entry.items():
            splits[name].append(value)
        return number

    def _divide_rows(self, leaf: Leaf, other: Leaf) -> tuple[Leaf, Leaf, NDArray[np.int32]]:
        """Divide the positions of ``leaf``; return the small and the large child."""
        grower, buffers = self.grower, self.buffers
        n, n_fitted = leaf.size, leaf.fitted
        leaf.size, leaf.fitted = divide_rows(
            grower.dense, grower.sparse, leaf.kind, leaf.feature, leaf.left, leaf.span, buffers.rows, buffers.spare
        )
        other.start, other.size, other.fitted = leaf.start + leaf.size, n - leaf.size, n_fitted - leaf.fitted
        small, large = (leaf, other) if leaf.fitted <= other.fitted else (other, leaf)
        small.type_rows = self._types(small.start, small.fitted)
        large.type_rows = large.type_rows - small.type_rows
        return small, large, NO_ROWS

    def _divide_contexts(self, leaf: Leaf, other: Leaf) -> tuple[Leaf, Leaf, NDArray[np.int32]]:
        """Divide the contexts of ``leaf``; return both children, and the rows that the large one does not hold."""
        space, (first, fitted, last) = self.space, leaf.span
        goes_left = leaf.left[space.lag_label[leaf.feature]]
        leaf.mask, other.mask = leaf.mask & goes_left, leaf.mask & ~goes_left
        there = self.n_used
        self.n_used += leaf.size
        rows = self.buffers.make_room(self.n_used)
        rows[there : self.n_used] = rows[first:last]
        small, large = (leaf, other) if leaf.mask.sum() < other.mask.sum() else (other, leaf)
        removed = rows[first:fitted]
        removed = removed[~self._has_types(large)[space.row_type[removed]]].copy()
        other.start, other.size, other.fitted = there, leaf.size, leaf.fitted
        for child in (leaf, other):
            has = self._has_types(child)
            child.size, child.fitted = keep_rows(space.row_type, has, child.span, rows)
            child.type_rows = np.where(has, child.type_rows, 0)
        return small, large, removed

    def _has_types(self, leaf: Leaf) -> NDArray[np.bool_]:
        """Tell which types of rows have a context in a leaf."""
        has = np.zeros(self.space.base.size, dtype=np.bool_)
        has[self.space.type_of[leaf.mask]] = True
        return has

    def _types(self, start: int, fitted: int) -> NDArray[np.int64]:
        """Count fitted positions by type."""
        if self.space.base.size == 1:
            return np.array([fitted], dtype=np.int64)
        rows = self.buffers.rows[start : start + fitted]
        return np.bincount(self.space.row_type[rows], minlength=self.space.base.size).astype(np.int64)

    def _vectors(self, leaf: Leaf) -> tuple[NDArray[np.int32], bool]:
        """Return where the sums of rows over a leaf's contexts stand, and whether by row."""
        return (self.buffers.vectors, True) if leaf.mask.all() else (self.buffers.node_vectors, False)

    def _total(self, leaf: Leaf) -> NDArray[np.int32]:
        """Sum a leaf's rows over its contexts, each row and all together."""
        vectors, by_row = self._vectors(leaf)
        if not by_row:
            self._sum_row_contexts(leaf, vectors, by_row=False)
        total = np.empty_like(leaf.total)
        sum_rows(vectors, self.buffers.rows, leaf.start, leaf.start + leaf.fitted, by_row, total)
        return total

    def _sum_row_contexts(self, leaf: Leaf, vectors: NDArray[np.int32], *, by_row: bool) -> None:
        first, last, _ = leaf.span

        def task(a: int, b: int) -> None:
            sum_row_contexts(self.buffers.cells, leaf.mask, self.space, self.buffers.rows, a, b, by_row, first, vectors)

        self._run(task, parts_of(first, last, ROWS_PER_TASK), leaf.fitted * leaf.mask.size)

    def _sum_contexts(self, leaf: Leaf) -> None:
        buffers, (first, last, _) = self.buffers, leaf.span
        sums = buffers.sums.contexts[leaf.slot]

        def task(a: int, b: int) -> None:
            sum_contexts(buffers.cells, leaf.mask, self.space, buffers.rows, first, last, (a, b), sums)

        n_contexts = int(self.space.n_contexts_of[-1])
        self._run(task, parts_of(0, n_contexts, CONTEXTS_PER_TASK), leaf.fitted * leaf.mask.size)

    def _run(self, task: Callable[..., None], parts: list[tuple[Any, ...]], n_vectors: int) -> None:
        """Run tasks, on threads if they add so many vectors that it is worth while."""
        is_worth = n_vectors * 2 * self.grower.n_deciding > WORTH_A_THREAD
        run_tasks(task, parts, self.grower.n_threads if is_worth else 1)

    def _take_slot(self, leaf: Leaf, *kept: Leaf | None) -> None:
        """Give a leaf a slot, if need be that of the leaf with the smallest gain."""
        if not self.free:
            others = [other for other in self.leaves if other.slot >= 0 and other is not leaf and other not in kept]
            self._give_up(min(others, key=lambda other: other.gain))
        leaf.slot = self.free.pop()

    def _give_up(self, leaf: Leaf) -> None:
        if leaf.slot >= 0:
            self.free.append(leaf.slot)
            leaf.slot = -1

    def _measure_again(self, leaf: Leaf) -> None:
        """Make the histogram and the sums per context of a leaf that gave them up."""
        self._total(leaf)
        self._take_slot(leaf)
        if len(self.buffers.sums.contexts):
            self._sum_contexts(leaf)
        self._run_search(self._pair(leaf, None, NO_ROWS, (False, False), same_rows=False))

    def _search(
        self,
        small: Leaf,
        large: Leaf | None,
        removed: NDArray[np.int32],
        in_order: list[Leaf],
        *,
        same_rows: bool = False,
    ) -> None:
        """Measure two new leaves and find their best splits; ``in_order``: left and right."""
        limits, buffers = self.grower.limits, self.buffers
        wanted = [leaf for leaf in in_order if leaf.depth < limits.max_depth]
        if not wanted:
            for leaf in in_order:
                self._give_up(leaf)
            return
        if min(limits.n_drawn_features, limits.n_tree_features) < buffers.shuffled.size:
            for leaf in wanted:
                place = buffers.drawn[0 if leaf is small else 1]
                _draw(buffers.random, limits.n_drawn_features, buffers.pool, buffers.shuffled, place)
        self._take_slot(small, large)
        contexts = buffers.sums.contexts
        if len(contexts):
            if same_rows and large is not None:
                contexts[small.slot] = contexts[large.slot]
            else:
                self._sum_contexts(small)
                if large is not None:
                    contexts[large.slot] -= contexts[small.slot]
        pair = self._pair(small, large, removed, (small in wanted, large in wanted), same_rows=same_rows)
        self._run_search(pair)
        self._keep_best(small, 0)
        if large is not None:
            self._keep_best(large, 1)

    def _pair(
        self,
        small: Leaf,
        large: Leaf | None,
        removed: NDArray[np.int32],
        searched: tuple[bool, bool],
        *,
        same_rows: bool,
    ) -> Pair:
        other = small if large is None else large
        return Pair(
            slot=(small.slot, other.slot),
            n=(small.fitted, other.fitted),
            searched=searched,
            has_large=large is not None,
            same_rows=same_rows,
            by_row=self._vectors(small)[1],
            first=small.start,
            last=small.start + small.fitted,
            total=np.array([small.total, other.total]),
            mask=np.array([small.mask, other.mask]),
            type_rows=np.array([small.type_rows, other.type_rows]),
            removed=removed,
            drawn=self.buffers.drawn,
            unit=1,
        )

    def _run_search(self, pair: Pair) -> None:
        """Run the tasks that measure and search two nodes."""
        grower, buffers = self.grower, self.buffers
        vectors = buffers.vectors if pair.by_row else buffers.node_vectors

        def task(number: int, first: int, last: int) -> None:
            scratch = buffers.scratch.get()
            try:
                search(
                    grower.dense, grower.sparse, grower.policies, self.space, grower.limits, self.units, buffers.blocks,
                    (number, first, last), pair, buffers.rows, vectors, buffers.sums, scratch, buffers.finds,
                )  # fmt: skip
            finally:
                buffers.scratch.put(scratch)

        n_vectors = (pair.last - pair.first) * grower.dense.feature.size + 8 * buffers.sums.counts.shape[1]
        self._run(task, buffers.tasks, n_vectors)

    def _keep_best(self, leaf: Leaf, q: int) -> None:
        """Keep the first of the best splits that the tasks found; a leaf without any needs no histogram."""
        finds = self.buffers.finds
        if len(self.buffers.tasks):
            task = int(np.argmax(finds.gain[:, q]))
            leaf.gain, leaf.kind = float(finds.gain[task, q]), int(finds.kind[task, q])
            leaf.feature, leaf.left = int(finds.feature[task, q]), finds.left[task, q].copy()
        if leaf.gain <= 0:
            self._give_up(leaf)

    def fixed_sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the leaves' sums of gradient and curvature, (n_leaves, n_labels), if all labels decide."""
        total, n = np.array([leaf.total for leaf in self.leaves]), self.grower.n_deciding
        return total[:, :n] * self.units.gradient, total[:, n:] * self.units.curvature

    def sums(
        self, gradient: NDArray[np.float32], hessian: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the leaves' sums of gradient and curvature, (n_leaves, n_labels), of any labels."""
        start, fitted, mask = (
            np.array([getattr(leaf, name) for leaf in self.leaves]) for name in ("start", "fitted", "mask")
        )
        sums = np.empty((2, len(self.leaves), len(gradient)))

        def task(a: int, b: int) -> None:
            sum_leaves(self.space, self.buffers.rows, start, fitted, mask, gradient, hessian, (a, b), sums)

        run_tasks(task, parts_of(0, len(gradient), LABELS_PER_TASK), self.grower.n_threads)
        return sums[0], sums[1]

    def tree(self, value: NDArray[np.float64]) -> Tree:
        """Freeze the tree, with the values of its leaves."""
        splits = self.splits
        n_words = [len(words) for words in splits["words"]]
        return Tree(
            kind=np.array(splits["kind"], dtype=np.uint8),
            feature=np.array(splits["feature"], dtype=np.int32),
            word_start=np.concatenate([[0], np.cumsum(n_words)]).astype(np.int32),
            words=np.concatenate([np.zeros(0, dtype=np.uint64), *splits["words"]]),
            left=np.array(splits["left"], dtype=np.int32),
            right=np.array(splits["right"], dtype=np.int32),
            value=value.astype(np.float32),
            gain=np.array(splits["gain"], dtype=np.float32),
            n_rows=np.array(splits["n_rows"], dtype=np.int32),
            leaf_rows=np.array([leaf.fitted for leaf in self.leaves], dtype=np.int32),
        )

    def partition(self) -> SharedPartition | WeightedPartition:
        """Return the leaf of every position and context."""
        n_rows, n_contexts, _ = self.buffers.cells.shape
        leaf_of = np.empty((n_rows, n_contexts), dtype=np.uint16)
        start, size = (np.array([getattr(leaf, name) for leaf in self.leaves]) for name in ("start", "size"))
        mask = np.array([leaf.mask for leaf in self.leaves])
        find_leaves(self.space, self.buffers.rows, start, size, mask, leaf_of)
        return SharedPartition(leaf_of)


def parts_of(first: int, last: int, size: int) -> list[tuple[int, int]]:
    """Divide a stretch into parts of a size."""
    return [(a, min(a + size, last)) for a in range(first, last, size)]


def _pool(n_features: int, n_drawn: int, seed: int) -> NDArray[np.int64]:
    """Draw the window features that the nodes of a tree draw theirs from."""
    if n_drawn >= n_features:
        return np.arange(n_features)
    return np.sort(np.random.default_rng(seed).permutation(n_features)[:n_drawn])


@jit
def _draw(
    state: NDArray[np.uint64],  # IN/OUT (1,) of the generator (SplitMix64)
    n_drawn: int,  # IN
    pool: NDArray[np.int64],  # IN features of the tree
    shuffled: NDArray[np.int64],  # SCRATCH (n_window_features,)
    drawn: NDArray[np.bool_],  # OUT (n_window_features,)
) -> None:
    """Draw the window features that a node may use, without replacement."""
    n = pool.size
    drawn[:] = False
    shuffled[:n] = pool
    for r in range(min(n_drawn, n)):
        state[0] += np.uint64(0x9E3779B97F4A7C15)
        z = state[0]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        q = r + np.int64((z ^ (z >> np.uint64(31))) % np.uint64(n - r))
        shuffled[r], shuffled[q] = shuffled[q], shuffled[r]
        drawn[shuffled[r]] = True
