"""Which positions and contexts the leaves of a tree hold: what the tree adds to the scores of its rows.

Unless rows go both ways, every (row, context) lies in just one leaf, but a row lies in several if contexts were
divided. Leaf by leaf, its scores would be fetched and stored again for each. Rows that lie in the same leaves, which
form a *pattern*, get the same::

    leaf   0  1  2  3        pattern      contexts  0    1    2
    row 7  x  x              {0, 1}       leaf      0    1    1
    row 8  x     x           {0, 2}                 0    2    2
    row 9  x  x              {0, 1}

So rows are given the numbers of their patterns once, and then the scores of each label are passed over once.

Rows that go both ways lie in several leaves with weights that add up to 1, and get

    Σ over leaves, from left to right, of w·value          in float32: the scores of the frozen forest, to the bit
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import int64, jit, uint64
from seqboost.core.threads import run_tasks
from seqboost.trees.intrinsics import add_eight_floats, add_one_float
from seqboost.trees.tree import Tree

__all__ = ["LeafRows", "Patterns"]

FEWEST_PATTERNS = 256
LABELS_PER_TASK = 34


@dataclass(frozen=True, eq=False)
class Patterns:
    """The leaves of some rows, by pattern.

    Attributes
    ----------
    rows : ndarray of int32
        Positions.
    number : ndarray of int32 of shape (n_rows,)
        Pattern of each of these positions, at its own place.
    leaf : ndarray of uint16 of shape (n_patterns, n_contexts)
        Leaf of each context; the number of leaves where a context does not exist.
    """

    rows: NDArray[np.int32]
    number: NDArray[np.int32]
    leaf: NDArray[np.uint16]

    def add(self, value: NDArray[np.float32], old: NDArray[np.float32], new: NDArray[np.float32]) -> None:
        """Write ``old`` plus values to ``new`` at these rows; parameters as in :meth:`LeafRows.add`."""
        outputs = np.empty((value.shape[1], *self.leaf.shape), dtype=np.float32)
        _add_outputs(self.rows, self.number, self.leaf, value, outputs, old, new)


@dataclass(frozen=True, eq=False)
class LeafRows:
    """Which positions and contexts each leaf of a tree holds.

    Attributes
    ----------
    space : Space
        Contexts and types of the rows.
    positions : ndarray of int32
        Every position of the tree, once.
    rows : ndarray of int32
        Positions, leaf by leaf; no leaf has one twice.
    weight : ndarray of float32 or None
        Their weights; None: rows go one way.
    start, size : ndarray of int64 of shape (n_leaves,)
        Segment of each leaf.
    mask : ndarray of bool of shape (n_leaves, n_extended)
        Contexts of each leaf.
    in_order : ndarray of int64 of shape (n_leaves,)
        The leaves from left to right, if rows have weights.
    others : Patterns, optional
        Rows that the tree was not grown with, and their leaves.
    """

    space: Space
    positions: NDArray[np.int32]
    rows: NDArray[np.int32]
    weight: NDArray[np.float32] | None
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    mask: NDArray[np.bool_]
    in_order: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    others: Patterns | None = None

    def ordered(self, tree: Tree) -> LeafRows:
        """Return the same with the order of the leaves from left to right."""
        found, stack = [], [0 if tree.n_splits else -1]
        left, right = tree.left.tolist(), tree.right.tolist()
        while stack:
            node = stack.pop()
            if node < 0:
                found.append(~node)
            else:
                stack += [right[node], left[node]]
        return replace(self, in_order=np.array(found, dtype=np.int64))

    def prepare(self) -> None:
        """Find the rows' patterns, before threads need them."""
        if self.weight is None:
            assert self.patterns is not None  # found once

    @cached_property
    def patterns(self) -> Patterns:
        """The rows' patterns."""
        n_rows, n_contexts = self.space.row_type.size, int(self.space.n_contexts_of[-1])
        number = np.empty(n_rows, dtype=np.int32)
        if n_contexts == 1:
            _number_leaves(self.rows, self.start, self.size, number)
            return Patterns(self.positions, number, np.arange(len(self.start), dtype=np.uint16)[:, None])
        n_patterns = FEWEST_PATTERNS
        while True:
            leaf, after = np.empty((n_patterns, n_contexts), dtype=np.uint16), np.empty(n_patterns, dtype=np.int32)
            segments = self.rows, self.start, self.size
            n = _number_patterns(self.space, self.positions, segments, self.mask, number, after, leaf)
            if n >= 0:
                return Patterns(self.positions, number, leaf[:n])
            n_patterns *= 2

    def add(self, value: NDArray[np.float32], old: NDArray[np.float32], new: NDArray[np.float32]) -> None:
        """Write ``old`` plus the tree's outputs to ``new``.

        Parameters
        ----------
        value : ndarray of float32 of shape (n_leaves, n_labels)
            Values of some labels.
        old, new : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
            Scores of these labels before and after.
        """
        if self.weight is None:
            self.patterns.add(value, old, new)
        else:
            np.copyto(new, old)
            listed = np.empty(old.shape[2], dtype=np.uint64)
            segments = self.rows, self.start, self.size
            for of_label, scores in zip(np.ascontiguousarray(value.T), new, strict=True):
                _add_weighted(self.space, segments, self.weight, self.mask, self.in_order, of_label, scores, listed)
        if self.others is not None:
            self.others.add(value, old, new)

    def sums(
        self,
        gradient: NDArray[np.float32],
        hessian: NDArray[np.float32],
        n_fitted: NDArray[np.int64],
        n_threads: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the leaves' sums of gradient and curvature, (n_leaves, n_labels), of any labels.

        Parameters
        ----------
        gradient, hessian : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
            Derivatives.
        n_fitted : ndarray of int64 of shape (n_leaves,)
            How many rows of each leaf count; they come first.
        n_threads : int
            Number of threads.
        """
        n_labels = len(gradient)
        sums = np.empty((2, len(self.start), n_labels))
        segments = self.rows, self.start, n_fitted

        def task(first: int, last: int) -> None:
            if self.weight is None and gradient.shape[2] == 1:
                _sum_rows(segments, gradient, hessian, (first, last), sums)
                return
            weight = np.ones(self.rows.size, dtype=np.float32) if self.weight is None else self.weight
            _sum_leaves(self.space, segments, weight, self.mask, gradient, hessian, (first, last), sums)

        parts = [(k, min(k + LABELS_PER_TASK, n_labels)) for k in range(0, n_labels, LABELS_PER_TASK)]
        run_tasks(task, parts, n_threads)
        return sums[0], sums[1]


@jit
def _number_leaves(
    rows: NDArray[np.int32],  # IN positions, leaf by leaf
    start: NDArray[np.int64],  # IN (n_leaves,)
    size: NDArray[np.int64],  # IN (n_leaves,)
    number: NDArray[np.int32],  # OUT (n_rows,)
) -> None:
    """Write the leaf of every row, where there is one context."""
    for leaf in range(start.size):
        for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
            number[uint64(rows[p])] = leaf


@jit
def _number_patterns(
    space: Space,
    positions: NDArray[np.int32],  # IN
    segments: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],  # IN positions, start and size of leaves
    mask: NDArray[np.bool_],  # IN (n_leaves, n_extended)
    number: NDArray[np.int32],  # OUT (n_rows,) those of the positions
    after: NDArray[np.int32],  # SCRATCH (max_patterns,) a pattern with the leaf in hand; 0: none yet
    leaves: NDArray[np.uint16],  # OUT (max_patterns, n_contexts)
) -> int:
    """Give numbers to the patterns of the rows; return how many there are, −1 if there is no room for them.

    The first patterns are empty ones, one for each type of rows.
    """
    rows, start, size = segments
    n_types, n_contexts = space.base.size, leaves.shape[1]
    n = n_types
    for j in range(n_types):
        for c in range(n_contexts):
            leaves[j, c] = start.size
    for p in range(uint64(positions.size)):
        i = uint64(positions[p])
        number[i] = space.row_type[i]
    for leaf in range(start.size):
        if 2 * n > after.size:  # each pattern may become another
            return -1
        for q in range(n):
            after[q] = 0
        for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
            i = uint64(rows[p])
            was = uint64(number[i])
            if after[was] == 0:
                after[was] = n
                j = int64(space.row_type[i])
                for c in range(n_contexts):
                    leaves[n, c] = leaves[was, c]
                for c in range(space.n_contexts_of[j]):
                    if mask[leaf, space.base[j] + c]:
                        leaves[n, c] = leaf
                n += 1
            number[i] = after[was]
    return n


@jit
def _add_outputs(
    rows: NDArray[np.int32],  # IN positions
    number: NDArray[np.int32],  # IN (n_rows,)
    leaf: NDArray[np.uint16],  # IN (n_patterns, n_contexts)
    value: NDArray[np.float32],  # IN (n_leaves, n_labels)
    outputs: NDArray[np.float32],  # SCRATCH (n_labels, n_patterns, n_contexts)
    old: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    new: NDArray[np.float32],  # OUT (n_labels, n_rows, n_contexts)
) -> None:
    """Write old scores plus the outputs of each position's pattern."""
    n_labels, n_rows, _ = old.shape
    eight, one, n_contexts, n_patterns = uint64(8), uint64(1), uint64(old.shape[2]), uint64(outputs.shape[1])
    here, there, added = old.reshape(-1), new.reshape(-1), outputs.reshape(-1)
    is_whole = rows.size == n_rows
    for k in range(n_labels):
        for q in range(leaf.shape[0]):
            for c in range(leaf.shape[1]):
                outputs[k, q, c] = value[leaf[q, c], k] if leaf[q, c] < value.shape[0] else 0.0
    for k in range(n_labels if n_contexts == one else 0):
        first, line = uint64(k * n_rows), uint64(k) * n_patterns
        for p in range(uint64(rows.size)):
            i = p if is_whole else uint64(rows[p])
            there[first + i] = here[first + i] + added[line + uint64(number[i])]
    for k in range(n_labels if n_contexts > one else 0):
        for p in range(uint64(rows.size)):
            i = p if is_whole else uint64(rows[p])
            row = n_contexts * (uint64(k * n_rows) + i)
            line = n_contexts * (uint64(k) * n_patterns + uint64(number[i]))
            end = row + n_contexts
            while row + eight <= end:
                add_eight_floats(there, here, added, row, line)
                row, line = row + eight, line + eight
            while row < end:
                add_one_float(there, here, added, row, line)
                row, line = row + one, line + one


@jit
def _add_weighted(
    space: Space,
    segments: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],  # IN positions, start and size of leaves
    weight: NDArray[np.float32],  # IN weights of the positions
    mask: NDArray[np.bool_],  # IN (n_leaves, n_extended)
    in_order: NDArray[np.int64],  # IN (n_leaves,) leaves from left to right
    value: NDArray[np.float32],  # IN (n_leaves,)
    new: NDArray[np.float32],  # IN/OUT (n_rows, n_contexts)
    listed: NDArray[np.uint64],  # SCRATCH (n_contexts,)
) -> None:
    """Add the tree's outputs to scores, where rows go both ways."""
    rows, start, size = segments
    n_contexts, order = new.shape[1], space.base.size - 1
    for leaf in in_order:
        v = value[leaf]
        n_listed = 0
        for c in range(n_contexts):
            listed[n_listed] = c
            n_listed += mask[leaf, space.base[order] + c]
        for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
            i, x = uint64(rows[p]), weight[p] * v
            j = space.row_type[i]
            if j < order:  # few: near the starts of sequences other contexts exist
                for c in range(space.n_contexts_of[j]):
                    if mask[leaf, space.base[j] + c]:
                        new[i, c] += x
            elif n_listed == n_contexts:
                for c in range(n_contexts):
                    new[i, c] += x
            else:
                for q in range(n_listed):
                    new[i, listed[q]] += x


@jit
def _sum_rows(
    segments: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],  # IN positions, start and size of leaves
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, 1)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, 1)
    labels: tuple[int, int],  # IN those to sum
    sums: NDArray[np.float64],  # OUT (2, n_leaves, n_labels)
) -> None:
    """Sum the derivatives of some labels over the leaves, where there is one context; four sums are added at once."""
    rows, start, size = segments
    g, h, n_rows = gradient.reshape(-1), hessian.reshape(-1), uint64(gradient.shape[1])
    one, two, three = uint64(1), uint64(2), uint64(3)
    for k in range(labels[0], labels[1]):
        at = uint64(k) * n_rows
        for leaf in range(start.size):
            g0, g1, g2, g3, h0, h1, h2, h3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            last = uint64(start[leaf] + size[leaf])
            last_four = last - uint64(size[leaf] % 4)
            for p in range(uint64(start[leaf]), last_four, uint64(4)):
                a, b = at + uint64(rows[p]), at + uint64(rows[p + one])
                c, d = at + uint64(rows[p + two]), at + uint64(rows[p + three])
                g0, g1, g2, g3 = g0 + g[a], g1 + g[b], g2 + g[c], g3 + g[d]
                h0, h1, h2, h3 = h0 + h[a], h1 + h[b], h2 + h[c], h3 + h[d]
            for p in range(last_four, last):
                a = at + uint64(rows[p])
                g0, h0 = g0 + g[a], h0 + h[a]
            sums[0, leaf, k] = (g0 + g1) + (g2 + g3)
            sums[1, leaf, k] = (h0 + h1) + (h2 + h3)


@jit
def _sum_leaves(
    space: Space,
    segments: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],  # IN positions, start and size of leaves
    weight: NDArray[np.float32],  # IN weights of the positions
    mask: NDArray[np.bool_],  # IN (n_leaves, n_extended)
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    labels: tuple[int, int],  # IN those to sum
    sums: NDArray[np.float64],  # OUT (2, n_leaves, n_labels)
) -> None:
    """Sum the derivatives of some labels over the leaves, times weights."""
    rows, start, size = segments
    for k in range(labels[0], labels[1]):
        for leaf in range(start.size):
            g, h = 0.0, 0.0
            for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
                i, w = uint64(rows[p]), float(weight[p])
                j = space.row_type[i]
                for c in range(space.n_contexts_of[j]):
                    if mask[leaf, space.base[j] + c]:
                        g += w * float(gradient[k, i, c])
                        h += w * float(hessian[k, i, c])
            sums[0, leaf, k] = g
            sums[1, leaf, k] = h
