"""What a tree adds to the scores of the rows it was grown with, from the rows and contexts of its leaves.

Every (row, context) lies in just one leaf, but a row lies in several if contexts were divided. Leaf by leaf, its scores
would be fetched and stored again for each. Rows that lie in the same leaves, which form a *pattern*, get the same::

    leaf   0  1  2  3        pattern      contexts  0    1    2
    row 7  x  x              {0, 1}       outputs   v0   v1   v1
    row 8  x     x           {0, 2}                 v0   v2   v2
    row 9  x  x              {0, 1}

So rows are given the numbers of their patterns, and then all scores are passed over once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import lean
from seqboost.trees.integers import int64, uint64
from seqboost.trees.vectors import add_eight_floats, add_four_floats, add_one_float, add_two_floats

__all__ = ["Partition"]

MOST_PATTERNS, FEWEST_PATTERNS = 1024, 64
"""How many there is room for. A tree of 31 leaves seldom has a hundred; where they are too many, scores are passed over
before there are more."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Which positions and contexts each leaf of a tree holds; from it a tree's outputs on the training rows are known.

    Attributes
    ----------
    space : Space
        Contexts and types of the rows.
    positions : ndarray of int32
        Every position of the tree, once.
    rows : ndarray of int32
        Positions, leaf by leaf; no leaf has one twice.
    start, size : ndarray of int64 of shape (n_leaves,)
        Segment of each leaf.
    mask : ndarray of int32 of shape (n_leaves, n_extended)
        Contexts of each leaf: −1 where it holds one.
    """

    space: Space
    positions: NDArray[np.int32]
    rows: NDArray[np.int32]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    mask: NDArray[np.int32]

    def add(self, value: NDArray[np.float32], old: NDArray[np.float32], new: NDArray[np.float32]) -> None:
        """Write ``old`` plus the value of each leaf to ``new``, both (n_rows, n_contexts)."""
        if old.shape[1] == 1:
            _add_single(self.rows, self.start, self.size, value, old, new)
            return
        n_patterns = min(max(self.positions.size, FEWEST_PATTERNS, 4 * self.space.base.size), MOST_PATTERNS)
        pattern = np.empty(len(old), dtype=np.uint16)
        after, width = np.empty(n_patterns, dtype=np.uint16), np.empty(n_patterns, dtype=np.uint64)
        outputs = np.empty((n_patterns, old.shape[1]), dtype=np.float32)
        leaf = 0
        while leaf < len(value):
            leaf = _number_patterns(
                self.space, self.positions, self.rows, self.start, self.size, self.mask, value, leaf, pattern, after,
                width, outputs,
            )  # fmt: skip
            _add_outputs(self.positions, pattern, width, outputs, old, new)
            old = new


@lean
def _add_single(
    rows: NDArray[np.int32],  # IN positions, leaf by leaf
    start: NDArray[np.int64],  # IN (n_leaves,)
    size: NDArray[np.int64],  # IN (n_leaves,)
    value: NDArray[np.float32],  # IN (n_leaves,)
    old: NDArray[np.float32],  # IN (n_rows, 1)
    new: NDArray[np.float32],  # OUT (n_rows, 1)
) -> None:
    """Write old scores plus the tree's outputs where there is one context: a row lies in one leaf."""
    for leaf in range(start.size):
        for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
            i = uint64(rows[p])
            new[i, 0] = old[i, 0] + value[leaf]


@lean
def _number_patterns(
    space: Space,
    positions: NDArray[np.int32],  # IN
    rows: NDArray[np.int32],  # IN positions, leaf by leaf
    start: NDArray[np.int64],  # IN (n_leaves,)
    size: NDArray[np.int64],  # IN (n_leaves,)
    mask: NDArray[np.int32],  # IN (n_leaves, n_extended)
    value: NDArray[np.float32],  # IN (n_leaves,)
    leaf: int,  # IN the first leaf
    pattern: NDArray[np.uint16],  # OUT (n_rows,) those of the positions
    after: NDArray[np.uint16],  # SCRATCH (max_patterns,) a pattern with the leaf in hand; 0: none yet
    width: NDArray[np.uint64],  # OUT (max_patterns,) contexts that rows of a pattern have
    outputs: NDArray[np.float32],  # OUT (max_patterns, n_contexts) zero in contexts of no leaf
) -> int:
    """Give numbers and outputs to the patterns that leaves from some leaf on make; return the leaf after these.

    The first patterns are empty ones, one for each type of rows.
    """
    n = space.base.size
    for j in range(n):
        width[j] = space.n_contexts_of[j]
        for c in range(space.n_contexts_of[j]):
            outputs[j, c] = 0.0
    for p in range(uint64(positions.size)):
        i = uint64(positions[p])
        pattern[i] = space.row_type[i]
    while leaf < start.size and 2 * n <= after.size:  # each pattern may become another
        for q in range(n):
            after[q] = 0
        for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
            i = uint64(rows[p])
            was = uint64(pattern[i])
            if after[was] == 0:
                after[was] = n
                j = int64(space.row_type[i])
                width[n] = width[j]
                for c in range(space.n_contexts_of[j]):
                    outputs[n, c] = value[leaf] if mask[leaf, space.base[j] + c] != 0 else outputs[was, c]
                n += 1
            pattern[i] = after[was]
        leaf += 1
    return leaf


@lean
def _add_outputs(
    positions: NDArray[np.int32],  # IN
    pattern: NDArray[np.uint16],  # IN (n_rows,)
    width: NDArray[np.uint64],  # IN (max_patterns,)
    outputs: NDArray[np.float32],  # IN (max_patterns, n_contexts)
    old: NDArray[np.float32],  # IN (n_rows, n_contexts)
    new: NDArray[np.float32],  # OUT (n_rows, n_contexts)
) -> None:
    """Write old scores plus the outputs of each position's pattern."""
    eight, four, two, one = uint64(8), uint64(4), uint64(2), uint64(1)
    n_contexts = uint64(old.shape[1])
    here, there, added = old.reshape(-1), new.reshape(-1), outputs.reshape(-1)
    for p in range(uint64(positions.size)):
        i = uint64(positions[p])
        q = uint64(pattern[i])
        n, row, line = width[q], n_contexts * i, n_contexts * q
        end = row + n
        while row + eight <= end:
            add_eight_floats(there, here, added, row, line)
            row, line = row + eight, line + eight
        if n & four:
            add_four_floats(there, here, added, row, line)
            row, line = row + four, line + four
        if n & two:
            add_two_floats(there, here, added, row, line)
            row, line = row + two, line + two
        if n & one:
            add_one_float(there, here, added, row, line)
