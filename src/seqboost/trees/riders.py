"""Rows that a tree was not fitted to: which of its leaves they fall into.

A tree fitted to a sample owes its outputs to all other rows as well. Carrying them through every split would cost those
rows as much as a fitted one, so they are sent down the finished tree instead, all splits at once and without a branch
(Lucchese et al. 2015, "QuickScorer")::

    survivors(i)      = AND over tested features f of  table[f, code of f at row i]          bit l: leaf l
    leaf of (i, c)    = the one bit of  survivors(i) & of_context[c]

``table[f, v]`` holds the leaves that remain if feature f has code v, ``of_context[c]`` those that hold context c: a
split strikes out the leaves on its other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import jit, lean, lowest_bit
from seqboost.trees.histogram import DenseColumns
from seqboost.trees.integers import uint64
from seqboost.trees.tree import LAG, Tree

__all__ = ["MAX_ROUTED_LEAVES", "RiderPartition", "Router", "find_survivors", "strike_out"]

MAX_ROUTED_LEAVES = 64
N_CODES = 256


class Tables(NamedTuple):
    """What is left of a tree's leaves, by code and by context."""

    place: NDArray[np.int64]  # (n_numbers,) row of ``table`` of each window feature, −1: not tested
    displacement: NDArray[np.int64]  # (MAX_ROUTED_LEAVES,) of the tested features
    table: NDArray[np.uint64]  # (MAX_ROUTED_LEAVES, N_CODES)
    of_context: NDArray[np.uint64]  # (n_extended,)
    below: NDArray[np.uint64]  # (MAX_ROUTED_LEAVES,) leaves below each split


@lean
def strike_out(
    kind: NDArray[np.uint8],  # IN (n_splits,)
    feature: NDArray[np.int32],  # IN (n_splits,)
    children: tuple[NDArray[np.int32], NDArray[np.int32]],  # IN (n_splits,) left and right
    sets: tuple[NDArray[np.int32], NDArray[np.uint64]],  # IN where the left sets begin, and their words
    displacement_of: NDArray[np.int64],  # IN (n_numbers,) of each window feature
    lag_label: NDArray[np.int32],  # IN (order, n_extended)
    tables: Tables,  # OUT
) -> int:
    """Write what is left of a tree's leaves; return the number of tested features. Children follow their parents."""
    left, right = children
    start, words = sets
    place, displacement, table, of_context, below = tables
    n_used = 0
    place[:] = -1
    of_context[:] = ~np.uint64(0)
    for s in range(kind.size - 1, -1, -1):
        on_left = below[left[s]] if left[s] >= 0 else np.uint64(1) << np.uint64(~left[s])
        on_right = below[right[s]] if right[s] >= 0 else np.uint64(1) << np.uint64(~right[s])
        below[s] = on_left | on_right
        if kind[s] == LAG:
            for e in range(of_context.size):
                v = lag_label[feature[s] - 1, e]
                goes_left = (words[start[s] + v // 64] >> np.uint64(v % 64)) & np.uint64(1)
                of_context[e] &= ~(on_right if goes_left != 0 else on_left)
            continue
        u = place[feature[s]]
        if u < 0:
            u = n_used
            place[feature[s]] = u
            displacement[u] = displacement_of[feature[s]]
            table[u, :] = ~np.uint64(0)
            n_used += 1
        for v in range(N_CODES):
            goes_left = (words[start[s] + v // 64] >> np.uint64(v % 64)) & np.uint64(1)
            table[u, v] &= ~(on_right if goes_left != 0 else on_left)
    return n_used


@lean
def find_survivors(
    codes: NDArray[np.uint8],  # IN
    address: NDArray[np.int64],  # IN (n_rows,) first code of a position
    displacement: NDArray[np.int64],  # IN of the tested features
    table: NDArray[np.uint64],  # IN (n_tested or more, N_CODES)
    n_used: int,  # IN tested features
    rows: NDArray[np.int32],  # IN positions
    survivors: NDArray[np.uint64],  # OUT (rows.size,)
) -> None:
    """Find the leaves that the window tests leave to each row."""
    for p in range(rows.size):
        here = address[uint64(rows[p])]
        left = ~np.uint64(0)
        for u in range(uint64(n_used)):
            left &= table[u, codes[uint64(here + displacement[u])]]
        survivors[p] = left


@jit
def _add_values(
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    survivors: NDArray[np.uint64],  # IN (rows.size,)
    of_context: NDArray[np.uint64],  # IN (n_extended,)
    by_context: bool,  # IN do leaves differ between contexts?
    value: NDArray[np.float32],  # IN (n_leaves,)
    old: NDArray[np.float32],  # IN (n_rows, n_contexts)
    new: NDArray[np.float32],  # OUT (n_rows, n_contexts)
) -> None:
    """Write old scores plus the tree's outputs at the existing contexts of rows."""
    order = space.base.size - 1
    for p in range(rows.size):
        i = uint64(rows[p])
        j = space.row_type[i]
        if by_context:
            base = space.base[j]
            for c in range(space.n_contexts_of[j]):
                new[i, c] = old[i, c] + value[lowest_bit(survivors[p] & of_context[base + c])]
        else:
            v = value[lowest_bit(survivors[p])]
            for c in range(old.shape[1] if j == order else space.n_contexts_of[j]):
                new[i, c] = old[i, c] + v


@jit
def _write_leaves(
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    survivors: NDArray[np.uint64],  # IN (rows.size,)
    of_context: NDArray[np.uint64],  # IN (n_extended,)
    n_leaves: int,  # IN
    leaf_of: NDArray[np.uint16],  # OUT (n_rows, n_contexts)
) -> None:
    """Write the leaf of every (row, context) of rows; where a context does not exist, the number of leaves."""
    for p in range(rows.size):
        i = rows[p]
        j = space.row_type[i]
        for c in range(leaf_of.shape[1]):
            leaf_of[i, c] = n_leaves
        for c in range(space.n_contexts_of[j]):
            leaf_of[i, c] = lowest_bit(survivors[p] & of_context[space.base[j] + c])


@dataclass(frozen=True, eq=False)
class RiderPartition:
    """Which leaves of a tree the rows fall into that it was not fitted to.

    Attributes
    ----------
    space : Space
        Contexts and types of the rows.
    rows : ndarray of int32
        Positions.
    survivors : ndarray of uint64
        Leaves that the window tests leave to each of them, one bit each.
    of_context : ndarray of uint64 of shape (n_extended,)
        Leaves that hold each context.
    by_context : bool
        Does the tree test contexts at all?
    """

    space: Space
    rows: NDArray[np.int32]
    survivors: NDArray[np.uint64]
    of_context: NDArray[np.uint64]
    by_context: bool

    def add(self, value: NDArray[np.float32], old: NDArray[np.float32], new: NDArray[np.float32]) -> None:
        """Write ``old`` plus the value of each leaf to ``new``, both (n_rows, n_contexts), at these rows alone."""
        _add_values(self.space, self.rows, self.survivors, self.of_context, self.by_context, value, old, new)

    def fill(self, leaf_of: NDArray[np.uint16], n_leaves: int) -> None:
        """Write the leaves of these rows' contexts to (n_rows, n_contexts); ``n_leaves`` where there is no context."""
        _write_leaves(self.space, self.rows, self.survivors, self.of_context, n_leaves, leaf_of)


class Router:
    """Sends rows down finished trees, reusing its buffers: one router per thread.

    Parameters
    ----------
    dense : DenseColumns
        Bin codes of all rows.
    space : Space
        Contexts.
    """

    def __init__(self, dense: DenseColumns, space: Space) -> None:
        self.dense, self.space = dense, space
        n_numbers = int(dense.feature.max(initial=-1)) + 1
        self._displacement_of = np.zeros(n_numbers, dtype=np.int64)
        self._displacement_of[dense.feature] = dense.displacement
        self._tables = Tables(
            place=np.empty(n_numbers, dtype=np.int64),
            displacement=np.empty(MAX_ROUTED_LEAVES, dtype=np.int64),
            table=np.empty((MAX_ROUTED_LEAVES, N_CODES), dtype=np.uint64),
            of_context=np.empty(space.type_of.size, dtype=np.uint64),
            below=np.empty(MAX_ROUTED_LEAVES, dtype=np.uint64),
        )

    def route(self, tree: Tree, rows: NDArray[np.int32]) -> RiderPartition:
        """Find the leaves of ``rows``; the tree tests no sparse features."""
        tables = self._tables
        n_used = strike_out(
            tree.kind, tree.feature, (tree.left, tree.right), (tree.word_start, tree.words), self._displacement_of,
            self.space.lag_label, tables,
        )  # fmt: skip
        survivors = np.empty(rows.size, dtype=np.uint64)
        dense = self.dense
        find_survivors(dense.codes, dense.address, tables.displacement, tables.table, n_used, rows, survivors)
        by_context = bool(np.any(tree.kind == LAG))
        return RiderPartition(self.space, rows, survivors, tables.of_context.copy(), by_context)
