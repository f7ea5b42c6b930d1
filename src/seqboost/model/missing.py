"""Scoring rows that lack a value which the forest knows how to do without: both ways at once, or by surrogates.

Rows that lack none of these values (most, if few values are missing) are scored like any others, by masks or by the
walk. The rest walks down every tree as :mod:`seqboost.model.traversal` does, with a weight::

    share s, value missing     left walk with w·s; right walk with w·(1 − s), put aside on the stack
    surrogates, value missing  the first one that has a value decides; if none has, the left set
    leaf                       scores += w·value, leaves from left to right, in float32

This is what the partition of training adds (:mod:`seqboost.trees.weighted_partition`), to the bit. A row visits each
node of a tree at most once, whatever it lacks: the cost of a row is bounded by the number of leaves of the forest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import int64, jit
from seqboost.model.traversal import ContextArrays, ForestArrays, RowArrays, forest_arrays, read_only, stamp_slots
from seqboost.trees.tree import DENSE, LAG, SPARSE

if TYPE_CHECKING:
    from seqboost.features import FeatureLayout
    from seqboost.model.forest import Forest

__all__ = ["RouteArrays", "find_incomplete", "route_arrays", "walk_both_ways"]


class RouteArrays(NamedTuple):
    """What the walk reads of a forest's `Routes`, and which values are missing ones; all read-only."""

    share: NDArray[np.float32]  # IN (n_splits,)
    missing: NDArray[np.int64]  # IN (n_splits,) the value that takes another way than the left set's; -1: none
    start: NDArray[np.int64]  # IN (n_splits + 1,) surrogates
    kind: NDArray[np.uint8]  # IN (n_surrogates,)
    feature: NDArray[np.int32]  # IN (n_surrogates,) SPARSE: number among the features in use
    other_missing: NDArray[np.int64]  # IN (n_surrogates,) the value that stands for missing; -1: none does
    word_start: NDArray[np.int64]  # IN (n_surrogates + 1,)
    words: NDArray[np.uint64]  # IN (n_words,)
    feature_use: NDArray[np.int32]  # IN (n_sparse_offsets * n_sparse,) number among the features in use, or -1
    asked: NDArray[np.int32]  # IN (n_asked,) dense features that a row must have to be scored as others are
    asked_code: NDArray[np.int64]  # IN (n_asked,) what they hold if it has not
    asked_slot: NDArray[np.bool_]  # IN (n_sparse_offsets, n_slots) the same of sparse features, by slot


def route_arrays(forest: Forest, layout: FeatureLayout) -> tuple[ForestArrays, RouteArrays]:
    """Lay out the forest and its routes for the walk; remembered for the last layout."""
    known = forest._cache.get("routes")
    if known is not None and known[0] is layout:
        remembered: tuple[ForestArrays, RouteArrays] = known[1]
        return remembered
    routes = forest.routes
    assert routes is not None
    n_slots, n_offsets = np.diff(layout.slot_start).astype(np.int64), len(layout.sparse_offsets)
    of_sparse = np.tile(np.asarray(layout.sparse_missing, dtype=np.int64), max(1, n_offsets))
    of_dense = np.asarray(layout.n_values, dtype=np.int64)

    def missing(kind: NDArray[np.uint8], feature: NDArray[np.int32]) -> NDArray[np.int64]:
        value = np.full(len(kind), -1, dtype=np.int64)
        value[kind == DENSE] = of_dense[feature[kind == DENSE]]
        value[kind == SPARSE] = of_sparse[feature[kind == SPARSE]]
        return value

    both = [(forest.kind, forest.feature), (routes.surrogate_kind, routes.surrogate_feature)]
    used = np.unique(np.concatenate([feature[kind == SPARSE] for kind, feature in both]))
    feature_use = np.full(n_offsets * len(n_slots), -1, dtype=np.int32)
    feature_use[used] = np.arange(len(used), dtype=np.int32)

    def numbered(kind: NDArray[np.uint8], feature: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(kind == SPARSE, np.searchsorted(used, feature), feature).astype(np.int32)

    detours = (forest.kind != LAG) & ((routes.share > 0) | (np.diff(routes.surrogate_start) > 0))
    value = np.where(detours, missing(forest.kind, forest.feature), -1)
    asked = np.unique(forest.feature[detours & (forest.kind == DENSE)])
    asked_slot = np.zeros((n_offsets, int(layout.slot_start[-1])), dtype=np.bool_)
    for feature in np.unique(forest.feature[(value >= 0) & (forest.kind == SPARSE)]):
        o, s = divmod(int(feature), len(n_slots))
        asked_slot[o, layout.slot_start[s] + layout.sparse_missing[s]] = True
    arrays = RouteArrays(
        share=routes.share,
        missing=value,
        start=routes.surrogate_start,
        kind=routes.surrogate_kind,
        feature=numbered(routes.surrogate_kind, routes.surrogate_feature),
        other_missing=missing(routes.surrogate_kind, routes.surrogate_feature),
        word_start=routes.surrogate_word_start,
        words=routes.surrogate_words,
        feature_use=feature_use,
        asked=asked.astype(np.int32),
        asked_code=of_dense[asked],
        asked_slot=asked_slot,
    )
    of_forest = forest_arrays(forest)._replace(feature=read_only(numbered(forest.kind, forest.feature)))
    both_arrays = of_forest, RouteArrays(*(read_only(array) for array in arrays))
    forest._cache["routes"] = (layout, both_arrays)
    return both_arrays


@jit
def find_incomplete(
    rows: RowArrays,  # IN
    routes: RouteArrays,  # IN
    incomplete: NDArray[np.bool_],  # OUT (n_rows,) all False
) -> None:
    """Find the rows that lack a value whose lack matters to some split."""
    for i in range(len(rows.address)):
        for x in range(len(routes.asked)):
            if rows.codes[rows.address[i] + rows.displacement[routes.asked[x]]] == routes.asked_code[x]:
                incomplete[i] = True
                break
        for o in range(len(rows.sparse_offsets) if not incomplete[i] else 0):
            p = rows.padded_row[i] + rows.sparse_offsets[o]
            for q in range(rows.slot_indptr[p], rows.slot_indptr[p + 1]):
                if routes.asked_slot[o, rows.slot_indices[q]]:
                    incomplete[i] = True


@jit
def _value(
    kind: int,
    feature: int,
    address: int,  # IN of the row
    tick: int,  # IN
    rows: RowArrays,  # IN
    stamp: NDArray[np.int64],  # IN
) -> int:
    """Return the code or the slot of a feature; -1: absent."""
    if kind == DENSE:
        return int64(rows.codes[address + rows.displacement[feature]])
    return int64(stamp[feature] & 0xFFFFFFFF if stamp[feature] >> 32 == tick else -1)


@jit
def _is_in(
    value: int,
    first: int,  # IN of the words
    words: NDArray[np.uint64],  # IN
) -> bool:
    return value >= 0 and (words[first + (value >> 6)] >> np.uint64(value & 63)) & np.uint64(1) != 0


@jit
def walk_both_ways(
    numbers: NDArray[np.int64],  # IN rows to score
    block: int,  # IN trees are taken so many at a time, to stay in the cache
    rows: RowArrays,  # IN
    forest: ForestArrays,  # IN
    routes: RouteArrays,  # IN
    context: ContextArrays,  # IN
    stamp: NDArray[np.int64],  # BUFFER (n_used_sparse,) zeros
    stack: NDArray[np.int32],  # BUFFER (max_leaves + 1, 3)
    weights: NDArray[np.float32],  # BUFFER (max_leaves + 1,)
    order_of: NDArray[np.int32],  # BUFFER (C,) the contexts, in the order of the walk
    scores: NDArray[np.float32],  # OUT (K, n_rows, C) added to
) -> None:
    """Add every tree's values to the scores of some rows."""
    n_trees, width = len(forest.tree_label), forest.value.shape[1]
    last_type, tick = np.int64(-1), 0
    one = np.float32(1.0)
    for t_begin in range(0, n_trees, block):
        for i in numbers:
            address, j = rows.address[i], np.int64(rows.row_type[i])
            n_c = context.n_existing[j]
            if j != last_type:
                last_type = j
                for c in range(n_c):
                    order_of[c] = c
            tick += 1
            if len(stamp):
                stamp_slots(i, tick, rows, stamp)
            for t in range(t_begin, min(t_begin + block, n_trees)):
                k, s0, leaf0 = max(forest.tree_label[t], 0), forest.split_start[t], forest.leaf_start[t]
                node = np.int32(0) if forest.split_start[t + 1] > s0 else np.int32(-1)
                a, b, depth, w = np.int32(0), np.int32(n_c), 0, one
                while True:
                    if node < 0:
                        for x in range(width):
                            v = w * forest.value[leaf0 + ~node, x]
                            for y in range(a, b):
                                scores[k + x, i, order_of[y]] += v
                        if depth == 0:
                            break
                        depth -= 1
                        node, a, b, w = stack[depth, 0], stack[depth, 1], stack[depth, 2], weights[depth]
                        continue
                    s = s0 + node
                    kind, f, first = forest.kind[s], forest.feature[s], forest.word_start[s]
                    if kind == LAG and f <= j:
                        lo, hi = a, b
                        while lo < hi:
                            c = order_of[lo]
                            if _is_in(int64(context.digit[f - 1, c]), first, forest.words):
                                lo += np.int32(1)
                            else:
                                hi -= np.int32(1)
                                order_of[lo] = order_of[hi]
                                order_of[hi] = c
                        if lo == b:
                            node = forest.left[s]
                        elif lo == a:
                            node = forest.right[s]
                        else:
                            stack[depth, 0], stack[depth, 1], stack[depth, 2] = forest.right[s], lo, b
                            weights[depth] = w
                            depth += 1
                            node, b = forest.left[s], lo
                        continue
                    value = int64(context.start_label[0])
                    if kind != LAG:
                        value = _value(kind, f, address, tick, rows, stamp)
                    goes_left = _is_in(value, first, forest.words)
                    if kind != LAG and value >= 0 and value == routes.missing[s]:
                        share = routes.share[s]
                        if share > 0:
                            stack[depth, 0], stack[depth, 1], stack[depth, 2] = forest.right[s], a, b
                            weights[depth] = w * (one - share)
                            depth += 1
                            node, w = forest.left[s], w * share
                            continue
                        for q in range(routes.start[s], routes.start[s + 1]):
                            other = _value(routes.kind[q], routes.feature[q], address, tick, rows, stamp)
                            if other < 0 or other != routes.other_missing[q]:
                                goes_left = _is_in(other, routes.word_start[q], routes.words)
                                break
                    node = forest.left[s] if goes_left else forest.right[s]
