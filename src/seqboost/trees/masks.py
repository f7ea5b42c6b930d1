"""Leaves of rows found by masks, all splits of a tree at once and without a branch.

A mask has one bit for each leaf of a tree (Lucchese et al. 2015, "QuickScorer")::

    survivors(i)      = AND over tested features f of  table[f, code of f at row i]          bit l: leaf l
    leaf of (i, c)    = the one bit of  survivors(i) & of_context[c]

``table[f, v]`` holds the leaves that remain if feature f has code v, ``of_context[c]`` those that hold context c: a
split strikes out the leaves on its other side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import int64, lean, lowest_bit, uint64
from seqboost.trees.columns import DenseColumns
from seqboost.trees.leaves import Patterns
from seqboost.trees.tree import LAG, Tree

__all__ = ["MAX_LEAVES", "Router"]

MAX_LEAVES = 64
N_CODES = 256
FEWEST_PATTERNS = 256


class Tables(NamedTuple):
    """What is left of a tree's leaves, by code and by context."""

    place: NDArray[np.int64]  # (n_numbers,) row of ``table`` of each window feature, −1: not tested
    displacement: NDArray[np.int64]  # (MAX_LEAVES,) of the tested features
    table: NDArray[np.uint64]  # (MAX_LEAVES, N_CODES)
    of_context: NDArray[np.uint64]  # (n_extended,)
    below: NDArray[np.uint64]  # (MAX_LEAVES,) leaves below each split


@lean
def _strike_out(
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
def _find_survivors(
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


@lean
def _number_survivors(
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    survivors: NDArray[np.uint64],  # IN (rows.size,)
    of_context: NDArray[np.uint64],  # IN (n_extended,)
    n_leaves: int,  # IN
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
                leaves[n, c] = n_leaves
            for c in range(space.n_contexts_of[j]):
                leaves[n, c] = lowest_bit(mask & of_context[space.base[j] + c])
            n += 1
        number[i] = found[at]
    return n


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
        self._tables = Tables(
            place=np.empty(dense.displacement.size, dtype=np.int64),
            displacement=np.empty(MAX_LEAVES, dtype=np.int64),
            table=np.empty((MAX_LEAVES, N_CODES), dtype=np.uint64),
            of_context=np.empty(space.type_of.size, dtype=np.uint64),
            below=np.empty(MAX_LEAVES, dtype=np.uint64),
        )

    def route(self, tree: Tree, rows: NDArray[np.int32]) -> Patterns:
        """Find the leaves of ``rows``; the tree tests no sparse features."""
        tables, dense, space = self._tables, self.dense, self.space
        n_used = _strike_out(
            tree.kind, tree.feature, (tree.left, tree.right), (tree.word_start, tree.words), dense.displacement,
            space.lag_label, tables,
        )  # fmt: skip
        survivors = np.empty(rows.size, dtype=np.uint64)
        _find_survivors(dense.codes, dense.address, tables.displacement, tables.table, n_used, rows, survivors)
        number, n_patterns = np.empty(space.row_type.size, dtype=np.int32), FEWEST_PATTERNS
        while True:
            known = np.empty(n_patterns, dtype=np.uint64), np.empty(n_patterns, dtype=np.uint8)
            leaves = np.empty((n_patterns, int(space.n_contexts_of[-1])), dtype=np.uint16)
            found = np.full(4 * n_patterns, -1, dtype=np.int32)
            n = _number_survivors(
                space, rows, survivors, tables.of_context, tree.n_leaves, number, found, known, leaves
            )
            if n >= 0:
                return Patterns(rows, number, leaves[:n])
            n_patterns *= 2
