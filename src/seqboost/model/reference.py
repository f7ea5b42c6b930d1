"""Slow twin of the scorers: one row, one context, one tree at a time, as the contract reads. For tests only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqboost.trees.tree import DENSE, LAG, Tree

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
                        if tree is None:
                            continue
                        for leaf, weight in _leaves(tree, binned, i, lags):
                            scores[slice(None) if forest.is_shared else k, i, c] += weight * tree.value[leaf]
    return scores


def _leaves(tree: Tree, binned: BinnedRows, i: int, lags: list[int]) -> list[tuple[int, np.float32]]:
    """Leaves that row ``i`` reaches when the labels before it are ``lags`` (the nearest first), and its weights there.

    From left to right; one leaf with the weight 1, unless a value is missing and the tree sends such rows both ways.
    """

    def walk(node: int, weight: np.float32) -> list[tuple[int, np.float32]]:
        if node < 0:
            return [(~node, weight)]
        kind, feature = int(tree.kind[node]), int(tree.feature[node])
        left_set = tree.words[tree.word_start[node] : tree.word_start[node + 1]]
        tests = [lags[feature - 1]] if kind == LAG else _values(binned, i, kind, feature)
        goes_left = _any_in(tests, left_set)
        left, right = int(tree.left[node]), int(tree.right[node])
        if tree.routes is not None and kind != LAG and _lacks(binned, tests, kind, feature):
            routes = tree.routes
            share = routes.share[node]
            if share > 0:
                return walk(left, weight * share) + walk(right, weight * (np.float32(1.0) - share))
            for q in range(routes.surrogate_start[node], routes.surrogate_start[node + 1]):
                other = int(routes.surrogate_kind[q]), int(routes.surrogate_feature[q])
                values = _values(binned, i, *other)
                if not _lacks(binned, values, *other):
                    first, last = routes.surrogate_word_start[q : q + 2]
                    goes_left = _any_in(values, routes.surrogate_words[first:last])
                    break
        return walk(left if goes_left else right, weight)

    return walk(0 if len(tree.kind) else -1, np.float32(1.0))


def _any_in(values: list[int], words: NDArray[np.uint64]) -> bool:
    return any(int(words[v // 64]) >> (v % 64) & 1 for v in values)


def _lacks(binned: BinnedRows, values: list[int], kind: int, feature: int) -> bool:
    """Whether the value of a window feature is missing."""
    layout = binned.layout
    if kind == DENSE:
        return values[0] == layout.n_values[feature]
    return bool(layout.sparse_missing[feature % len(layout.sparse_kind)] in values)  # values are not negative


def _values(binned: BinnedRows, i: int, kind: int, feature: int) -> list[int]:
    """Code of a dense window feature of row ``i``, or the slots of a sparse one that are present."""
    if kind == DENSE:
        return [int(binned.codes.ravel()[binned.address[i] + binned.layout.displacement[feature]])]
    return _present(binned, i, feature)


def _present(binned: BinnedRows, i: int, window_feature: int) -> list[int]:
    """Slots of a sparse window feature that are present in row ``i``, counted from the feature's first."""
    layout = binned.layout
    o, s = divmod(window_feature, len(layout.sparse_kind))
    row = binned.padded_row[i] + layout.sparse_offsets[o]
    slots = binned.slot_indices[binned.slot_indptr[row] : binned.slot_indptr[row + 1]]
    first, end = layout.slot_start[s], layout.slot_start[s + 1]
    return [int(slot - first) for slot in slots if first <= slot < end]
