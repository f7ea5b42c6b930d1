"""Slow twin of the scorers: one row, one context, one tree at a time, as the contract reads. For tests only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqboost.trees.tree import DENSE, SPARSE, Tree

if TYPE_CHECKING:
    from seqboost.features import BinnedRows
    from seqboost.model.forest import Forest

__all__ = ["reference_scores"]


def reference_scores(forest: Forest, binned: BinnedRows) -> NDArray[np.float32]:
    """Score all rows; the slow twin of `seqboost.model.forest_scores`."""
    n_labels, order = forest.n_labels, forest.order
    scores = np.zeros((n_labels, len(binned.address), n_labels**order), dtype=np.float32)
    rounds = forest.to_trees()
    for begin, end in zip(binned.offsets[:-1], binned.offsets[1:], strict=True):
        for i in range(begin, end):
            j = min(i - begin, order)
            for c in range(n_labels**j):
                lags = [c // n_labels**lag % n_labels if lag < j else n_labels for lag in range(order)]
                for trees in rounds:
                    for k, tree in enumerate(trees):
                        if tree is not None and forest.is_shared:
                            scores[:, i, c] += tree.value[_leaf(tree, binned, i, lags)]
                        elif tree is not None:
                            scores[k, i, c] += tree.value[_leaf(tree, binned, i, lags)]
    return scores


def _leaf(tree: Tree, binned: BinnedRows, i: int, lags: list[int]) -> int:
    """Leaf that row ``i`` reaches when the labels before it are ``lags`` (the nearest first)."""
    node = 0 if len(tree.kind) else -1
    while node >= 0:
        feature, left_set = int(tree.feature[node]), tree.words[tree.word_start[node] : tree.word_start[node + 1]]
        if tree.kind[node] == DENSE:
            tests = [int(binned.codes.ravel()[binned.address[i] + binned.layout.displacement[feature]])]
        elif tree.kind[node] == SPARSE:
            tests = _present(binned, i, feature)
        else:
            tests = [lags[feature - 1]]
        goes_left = any(int(left_set[v // 64]) >> (v % 64) & 1 for v in tests)
        node = int(tree.left[node] if goes_left else tree.right[node])
    return ~node


def _present(binned: BinnedRows, i: int, window_feature: int) -> list[int]:
    """Slots of a sparse window feature that are present in row ``i``, counted from the feature's first."""
    layout = binned.layout
    o, s = divmod(window_feature, len(layout.sparse_kind))
    row = binned.padded_row[i] + layout.sparse_offsets[o]
    slots = binned.slot_indices[binned.slot_indptr[row] : binned.slot_indptr[row + 1]]
    first, end = layout.slot_start[s], layout.slot_start[s + 1]
    return [int(slot - first) for slot in slots if first <= slot < end]
