"""Leaves of rows found by masks, all splits of a tree at once and without a branch.

A mask has one bit for each leaf of a tree (Lucchese et al. 2015, "QuickScorer: a fast algorithm to rank documents with
additive ensembles of regression trees"). A split strikes out the leaves on its other side::

    keep[way, s]           leaves that split s leaves if it goes right (0) or left (1)
    survivors(i)           AND over the features f that the tree tests of  table[f, code of f at row i]
    leaf of (i, c)         lowest bit of  survivors(i) & of_context[extended context of (i, c)]

All splits of a tree on one feature make one line of the table, with a mask for each code; all its lag splits make one
mask for each extended context. Leaves are numbered so that the leaf reached is the *lowest survivor*: the leaves of the
left child come first. Only splits on sparse features have those of the right child first: absent goes right, the usual
case, so that nothing need be done for it.

This is used twice. Rows that a tree was not fitted to are sent down the finished tree (:class:`Router`), and forests
are scored (:mod:`seqboost.model.quick`). Both build their tables here, but combine them by loops of their own: a forest
combines the masks of many trees for one row at a time, as vectors of trees; a single tree would leave these vectors
all but empty (measured: 31 leaves, 20 features, four times as long).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import int64, jit, lowest_bit, uint64
from seqboost.trees.columns import DenseColumns
from seqboost.trees.leaves import Patterns
from seqboost.trees.tree import LAG, SPARSE, Tree

__all__ = [
    "ALL_LEAVES",
    "MAX_LEAVES",
    "N_CODES",
    "FrozenSplits",
    "Router",
    "Targets",
    "context_masks",
    "leaf_masks",
    "strike_out",
]

MAX_LEAVES = 64
N_CODES = 256
ALL_LEAVES = ~np.uint64(0)
FEWEST_PATTERNS = 256
_EVERY_CODE = np.arange(N_CODES, dtype=np.int32)[None], np.array([N_CODES])
_ENTER, _HALFWAY, _LEAVE = 0, 1, 2


class FrozenSplits(NamedTuple):
    """The splits of a tree, or of trees laid end to end, as in `Tree`; all read-only."""

    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    word_start: NDArray[np.int64]
    words: NDArray[np.uint64]

    @classmethod
    def of(cls, trees: Any) -> FrozenSplits:
        """Return the splits of a tree or a forest, which have attributes of these names."""
        arrays = [trees.kind, trees.feature, trees.left, trees.right, trees.word_start.astype(np.int64), trees.words]
        views = [np.ascontiguousarray(array).view() for array in arrays]
        for view in views:
            view.flags.writeable = False
        return cls(*views)


class Targets(NamedTuple):
    """Where splits strike out leaves: at the cells ``first``, ``first + stride``, … of a table, one for each value."""

    split: NDArray[np.int64]  # (n,)
    first: NDArray[np.int64]  # (n,)
    line: NDArray[np.int64]  # (n,) of the lists of values


@jit
def _number_leaves(
    splits: FrozenSplits,  # IN
    starts: tuple[NDArray[np.int64], NDArray[np.int64]],  # IN (n_trees + 1,) first split and first leaf of each tree
    stack: NDArray[np.int64],  # SCRATCH (4 * MAX_LEAVES, 2)
    leaf_bit: NDArray[np.int64],  # OUT (n_leaves,)
    keep: NDArray[np.uint64],  # OUT (2, n_splits)
) -> None:
    """Give each leaf of a tree its bit, and find which leaves each split leaves; a walk through each tree."""
    split_start, leaf_start = starts
    one = np.uint64(1)
    for t in range(split_start.size - 1):
        n, depth = np.uint64(0), 1
        stack[0, 0], stack[0, 1] = _ENTER, 0 if split_start[t + 1] > split_start[t] else -1
        while depth > 0:
            depth -= 1
            what, node = stack[depth, 0], stack[depth, 1]
            if node < 0:
                leaf_bit[leaf_start[t] + ~node] = n
                n += one
                continue
            s = split_start[t] + node
            right_first = splits.kind[s] == SPARSE
            if what == _ENTER:
                keep[0, s] = n
                left, right = splits.left[s], splits.right[s]
                stack[depth, 0], stack[depth, 1] = _LEAVE, node
                stack[depth + 1, 0], stack[depth + 1, 1] = _ENTER, left if right_first else right
                stack[depth + 2, 0], stack[depth + 2, 1] = _HALFWAY, node
                stack[depth + 3, 0], stack[depth + 3, 1] = _ENTER, right if right_first else left
                depth += 4
            elif what == _HALFWAY:
                keep[1, s] = n
            else:
                begin, middle = keep[0, s], keep[1, s]
                in_first = ((one << (middle - begin)) - one) << begin
                in_second = ((one << (n - middle)) - one) << middle
                keep[0, s] = ~(in_second if right_first else in_first)
                keep[1, s] = ~(in_first if right_first else in_second)


@jit
def strike_out(
    splits: FrozenSplits,  # IN
    keep: NDArray[np.uint64],  # IN (2, n_splits)
    targets: Targets,  # IN
    values: tuple[NDArray[np.int32], NDArray[np.int64]],  # IN (n_lines, n or more) lists of values, and their lengths n
    stride: int,  # IN
    table: NDArray[np.uint64],  # IN/OUT (n_cells,) masks
) -> None:
    """Combine splits into masks: strike out what each split does not leave if its feature has some value."""
    value, n_values = values
    for x in range(targets.split.size):
        s, cell, line = targets.split[x], uint64(targets.first[x]), targets.line[x]
        first, going_right, going_left = splits.word_start[s], keep[0, s], keep[1, s]
        for q in range(n_values[line]):
            v = value[line, q]
            goes_left = (splits.words[first + (v >> 6)] >> np.uint64(v & 63)) & np.uint64(1)
            table[cell] &= going_left if goes_left != 0 else going_right
            cell += uint64(stride)


def leaf_masks(
    splits: FrozenSplits, split_start: NDArray[np.int64], leaf_start: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Give each leaf of a tree its bit, and find which leaves each split leaves, whichever way it goes.

    Returns
    -------
    leaf_bit : ndarray of int64, shape (n_leaves,)
    keep : ndarray of uint64, shape (2, n_splits)
        Survivors if a split goes right (0), left (1).
    """
    leaf_bit, keep = np.empty(leaf_start[-1], dtype=np.int64), np.empty((2, splits.kind.size), dtype=np.uint64)
    _number_leaves(splits, (split_start, leaf_start), np.empty((4 * MAX_LEAVES, 2), dtype=np.int64), leaf_bit, keep)
    return leaf_bit, keep


def context_masks(
    splits: FrozenSplits, keep: NDArray[np.uint64], lane: NDArray[np.int64], n_lanes: int, lag_label: NDArray[np.int32]
) -> NDArray[np.uint64]:
    """Combine the lag splits of each tree into one mask for each extended context, (n_extended, n_lanes).

    Parameters
    ----------
    splits : FrozenSplits
        All splits of the trees.
    keep : ndarray of uint64, shape (2, n_splits)
        What they leave.
    lane : ndarray of int64, shape (n_splits,)
        Column of the tree of each split.
    n_lanes : int
        Number of columns.
    lag_label : ndarray of int32, shape (order, n_extended)
        Label at each lag.
    """
    order, n_extended = lag_label.shape
    masks = np.full((n_extended, n_lanes), ALL_LEAVES)
    lags = np.flatnonzero(splits.kind == LAG)
    if lags.size:
        targets = Targets(lags, lane[lags], splits.feature[lags] - np.int64(1))
        strike_out(splits, keep, targets, (lag_label, np.full(order, n_extended)), n_lanes, masks.reshape(-1))
    return masks


@jit
def _find_survivors(
    codes: NDArray[np.uint8],  # IN
    address: NDArray[np.int64],  # IN (n_rows,) first code of a position
    displacement: NDArray[np.int64],  # IN of the tested features
    table: NDArray[np.uint64],  # IN (n_tested, N_CODES)
    rows: NDArray[np.int32],  # IN positions
    survivors: NDArray[np.uint64],  # OUT (rows.size,)
) -> None:
    """Find the leaves that the window tests leave to each row."""
    for p in range(rows.size):
        here = address[uint64(rows[p])]
        left = ~np.uint64(0)
        for u in range(uint64(displacement.size)):
            left &= table[u, codes[uint64(here + displacement[u])]]
        survivors[p] = left


@jit
def _number_survivors(
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    survivors: NDArray[np.uint64],  # IN (rows.size,)
    of_context: NDArray[np.uint64],  # IN (n_extended,)
    leaf_of: NDArray[np.uint16],  # IN (n_leaves,) of each bit
    number: NDArray[np.int32],  # OUT (n_rows,) at the rows
    found: NDArray[np.int32],  # SCRATCH (a power of two,) patterns by hash, all −1
    known: tuple[NDArray[np.uint64], NDArray[np.uint8]],  # SCRATCH (max_patterns,) survivors and types of patterns
    leaves: NDArray[np.uint16],  # OUT (max_patterns, n_contexts)
) -> int:
    """Give numbers to the patterns of rows; return how many there are, −1 if there is no room for them."""
    masks, types = known
    n = int64(0)
    last = uint64(found.size - 1)
    for p in range(rows.size):
        i, mask = uint64(rows[p]), survivors[p]
        j = space.row_type[i]
        at = ((mask + uint64(j)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & last
        while found[at] >= 0 and (masks[found[at]] != mask or types[found[at]] != j):
            at = (at + uint64(1)) & last
        if found[at] < 0:
            if n == masks.size:
                return int64(-1)
            found[at], masks[n], types[n] = n, mask, j
            for c in range(leaves.shape[1]):
                leaves[n, c] = leaf_of.size
            for c in range(space.n_contexts_of[j]):
                leaves[n, c] = leaf_of[lowest_bit(mask & of_context[space.base[j] + c])]
            n += 1
        number[i] = found[at]
    return n


class Router:
    """Sends rows down finished trees.

    Parameters
    ----------
    dense : DenseColumns
        Bin codes of all rows.
    space : Space
        Contexts.
    """

    def __init__(self, dense: DenseColumns, space: Space) -> None:
        self.dense, self.space = dense, space

    def route(self, tree: Tree, rows: NDArray[np.int32]) -> Patterns:
        """Find the leaves of ``rows``; the tree tests no sparse features."""
        dense, space, splits = self.dense, self.space, FrozenSplits.of(tree)
        leaf_bit, keep = leaf_masks(splits, np.array([0, tree.n_splits]), np.array([0, tree.n_leaves]))
        leaf_of = np.empty(tree.n_leaves, dtype=np.uint16)
        leaf_of[leaf_bit] = np.arange(tree.n_leaves)
        lane = np.zeros(tree.n_splits, dtype=np.int64)
        of_context = context_masks(splits, keep, lane, 1, space.lag_label).reshape(-1)
        windows = np.flatnonzero(tree.kind != LAG)
        tested, line = np.unique(tree.feature[windows], return_inverse=True)
        table = np.full((tested.size, N_CODES), ALL_LEAVES)
        strike_out(splits, keep, Targets(windows, line * N_CODES, line * 0), _EVERY_CODE, 1, table.reshape(-1))
        survivors = np.empty(rows.size, dtype=np.uint64)
        _find_survivors(dense.codes, dense.address, dense.displacement[tested], table, rows, survivors)
        number, n_patterns = np.empty(space.row_type.size, dtype=np.int32), FEWEST_PATTERNS
        while True:
            known = np.empty(n_patterns, dtype=np.uint64), np.empty(n_patterns, dtype=np.uint8)
            leaves = np.empty((n_patterns, int(space.n_contexts_of[-1])), dtype=np.uint16)
            found = np.full(4 * n_patterns, -1, dtype=np.int32)
            n = _number_survivors(space, rows, survivors, of_context, leaf_of, number, found, known, leaves)
            if n >= 0:
                return Patterns(rows, number, leaves[:n])
            n_patterns *= 2
