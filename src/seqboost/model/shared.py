"""Scoring with shared trees: find the leaf of every tree first, then add its row of values.

The leaf is found by the same kernels that score trees of one label. They are given the *numbered* forest: each tree has
a label of its own and the numbers of its leaves for values, so that its "score" is the number of the leaf reached::

    leaf[t, i, c]  = score of "label" t          masks or walk, as for other forests
    scores[k, i, c] = Σ_t value[leaf_start[t] + leaf[t, i, c], k]          in the order of rounds, label by label
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, jit
from seqboost.core.offsets import positions

if TYPE_CHECKING:
    from seqboost.model.forest import Forest

__all__ = ["add_vectors", "numbered_forest", "rows_at_once"]

BLOCK_BYTES = 256 * 1024  # of the leaves' values: trees are taken so many at a time
MAX_LEAF_NUMBERS = 1 << 20  # of a task


def numbered_forest(forest: Forest) -> Forest:
    """Return the forest whose scores are numbers of leaves; made once."""
    if "numbered" not in forest._cache:
        numbers = positions(forest.leaf_start)
        labels = np.arange(forest.n_trees, dtype=np.int32)
        forest._cache["numbered"] = replace(forest, tree_label=labels, value=numbers.astype(np.float32))
    numbered: Forest = forest._cache["numbered"]
    return numbered


def rows_at_once(forest: Forest) -> int:
    """Return how many rows a task takes: as many as keep the numbers of their leaves small."""
    return min(512, max(16, MAX_LEAF_NUMBERS // (forest.n_trees * forest.n_contexts)))


@inner
def _add(
    vector: NDArray[np.float32],  # IN (K,)
    total: NDArray[np.float32],  # IN/OUT (K,)
) -> None:
    for k in range(total.size):
        total[k] += vector[k]


@jit
def add_vectors(
    begin: int,  # IN the first row
    leaf: NDArray[np.float32],  # IN (n_trees, n, C) numbers of leaves
    row_type: NDArray[np.uint8],  # IN (n,)
    n_existing: NDArray[np.int64],  # IN (order + 1,)
    leaf_start: NDArray[np.int64],  # IN (n_trees + 1,)
    value: NDArray[np.float32],  # IN (n_leaves, K)
    totals: NDArray[np.float32],  # IN/OUT (n, C, K) what the trees are added to
    scores: NDArray[np.float32],  # OUT (K, n_rows, C)
) -> None:
    """Write the sums of the leaves' values of rows ``begin`` and after."""
    n_trees, n, _ = leaf.shape
    n_labels = value.shape[1]
    first = 0
    while first < n_trees:
        last = first + 1
        while last < n_trees and (leaf_start[last + 1] - leaf_start[first]) * n_labels * 4 <= BLOCK_BYTES:
            last += 1
        for i in range(n):
            for c in range(n_existing[row_type[i]]):
                total = totals[i, c]
                for t in range(first, last):
                    _add(value[leaf_start[t] + np.int64(leaf[t, i, c])], total)
        first = last
    for k in range(n_labels):
        for i in range(n):
            for c in range(n_existing[row_type[i]]):
                scores[k, begin + i, c] = totals[i, c, k]
