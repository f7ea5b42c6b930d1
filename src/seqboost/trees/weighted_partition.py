"""What a tree that sends rows both ways adds to the scores of the training rows.

A row and a context lie in several leaves, with weights that add up to 1, and get

    Σ over leaves, from left to right, of w·value          in float32: the scores of the frozen forest, to the bit
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import jit
from seqboost.trees.integers import uint64
from seqboost.trees.tree import Tree

__all__ = ["WeightedPartition", "leaves_in_order"]


@jit
def _add_values(
    space: Space,
    rows: NDArray[np.int32],  # IN positions, leaf by leaf
    weight: NDArray[np.float32],  # IN their weights
    start: NDArray[np.int64],  # IN (n_leaves,)
    size: NDArray[np.int64],  # IN (n_leaves,)
    mask: NDArray[np.int32],  # IN (n_leaves, n_extended)
    in_order: NDArray[np.int64],  # IN (n_leaves,) leaves from left to right
    value: NDArray[np.float32],  # IN (n_leaves,)
    new: NDArray[np.float32],  # IN/OUT (n_rows, n_contexts)
    listed: NDArray[np.uint64],  # SCRATCH (n_contexts,)
) -> None:
    """Add the tree's outputs to scores."""
    n_contexts, order = new.shape[1], space.base.size - 1
    for leaf in in_order:
        v = value[leaf]
        n_listed = 0
        for c in range(n_contexts):
            listed[n_listed] = c
            n_listed += mask[leaf, space.base[order] + c] != 0
        for p in range(uint64(start[leaf]), uint64(start[leaf] + size[leaf])):
            i, x = uint64(rows[p]), weight[p] * v
            j = space.row_type[i]
            if j < order:  # few: near the starts of sequences other contexts exist
                for c in range(space.n_contexts_of[j]):
                    if mask[leaf, space.base[j] + c] != 0:
                        new[i, c] += x
            elif n_listed == n_contexts:
                for c in range(n_contexts):
                    new[i, c] += x
            else:
                for q in range(n_listed):
                    new[i, listed[q]] += x


@dataclass(frozen=True, eq=False)
class WeightedPartition:
    """Which positions and contexts each leaf of a tree holds, and with which weights; every position is in it.

    Attributes
    ----------
    space : Space
        Contexts and types of the rows.
    rows : ndarray of int32
        Positions, leaf by leaf.
    weight : ndarray of float32
        Their weights.
    start, size : ndarray of int64 of shape (n_leaves,)
        Segment of each leaf.
    mask : ndarray of int32 of shape (n_leaves, n_extended)
        Contexts of each leaf: not 0 where it holds one.
    in_order : ndarray of int64 of shape (n_leaves,)
        The leaves from left to right.
    """

    space: Space
    rows: NDArray[np.int32]
    weight: NDArray[np.float32]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    mask: NDArray[np.int32]
    in_order: NDArray[np.int64]

    def add(self, value: NDArray[np.float32], old: NDArray[np.float32], new: NDArray[np.float32]) -> None:
        """Write ``old`` plus the tree's outputs to ``new``.

        Both are (n_rows, n_contexts), and ``value`` is (n_leaves,); or both are (n_labels, n_rows, n_contexts), and
        ``value`` is (n_leaves, n_labels).
        """
        if value.ndim == 2:
            for k, (before, after) in enumerate(zip(old, new, strict=True)):
                self.add(np.ascontiguousarray(value[:, k]), before, after)
            return
        np.copyto(new, old)
        listed = np.empty(old.shape[1], dtype=np.uint64)
        _add_values(
            self.space, self.rows, self.weight, self.start, self.size, self.mask, self.in_order, value, new, listed
        )


def leaves_in_order(tree: Tree) -> NDArray[np.int64]:
    """Return the leaves of a tree from left to right."""
    found, stack = [], [0 if tree.n_splits else -1]
    left, right = tree.left.tolist(), tree.right.tolist()
    while stack:
        node = stack.pop()
        if node < 0:
            found.append(~node)
        else:
            stack += [right[node], left[node]]
    return np.array(found, dtype=np.int64)
