"""Scoring by walking down every tree: works for any forest.

A walk carries a *set of contexts*. Window tests (DENSE, SPARSE) send the whole set one way and are answered once per
row and tree; a LAG test divides the set in place::

    contexts   [ 0 1 2 3 4 5 6 7 8 ]         LAG split, goes left: 1 4 7
               [ 1 4 7 | 0 2 3 5 6 8 ]       left walk: [a, mid), right walk: [mid, b), put aside on the stack
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import ContextSpace, row_types
from seqboost.core.jit import jit, uint64
from seqboost.trees.tree import DENSE, SPARSE

if TYPE_CHECKING:
    from seqboost.features import BinnedRows, FeatureLayout
    from seqboost.model.forest import Forest

__all__ = [
    "ContextArrays",
    "ForestArrays",
    "RowArrays",
    "context_arrays",
    "forest_arrays",
    "row_arrays",
    "stamp_slots",
    "traverse",
]


class RowArrays(NamedTuple):
    """What kernels read of `BinnedRows`, all read-only and C-ordered (one type, one compilation)."""

    codes: NDArray[np.uint8]  # IN (n_padded * n_dense,)
    address: NDArray[np.int64]  # IN (n_rows,)
    displacement: NDArray[np.int64]  # IN (n_dense_features,)
    row_type: NDArray[np.uint8]  # IN (n_rows,) min(position in the sequence, order)
    padded_row: NDArray[np.int64]  # IN (n_rows,)
    slot_indptr: NDArray[np.int64]  # IN (n_padded + 1,)
    slot_indices: NDArray[np.int32]  # IN (n_slots_present,)
    slot_feature: NDArray[np.int32]  # IN (n_slots,) sparse feature of each slot
    slot_start: NDArray[np.int32]  # IN (n_sparse + 1,)
    sparse_offsets: NDArray[np.int32]  # IN (n_sparse_offsets,)
    feature_use: NDArray[np.int32]  # IN (n_sparse_offsets * n_sparse,) number among the features in use, or -1


class ForestArrays(NamedTuple):
    """What the walk reads of a `Forest`."""

    tree_label: NDArray[np.int32]  # IN (n_trees,)
    split_start: NDArray[np.int64]  # IN (n_trees + 1,)
    leaf_start: NDArray[np.int64]  # IN (n_trees + 1,)
    kind: NDArray[np.uint8]  # IN (n_splits,)
    feature: NDArray[np.int32]  # IN (n_splits,) SPARSE: number among the features in use
    left: NDArray[np.int32]  # IN (n_splits,)
    right: NDArray[np.int32]  # IN (n_splits,)
    word_start: NDArray[np.int64]  # IN (n_splits + 1,)
    words: NDArray[np.uint64]  # IN (n_words,)
    value: NDArray[np.float32]  # IN (n_leaves, 1), or (n_leaves, K) of shared trees


class ContextArrays(NamedTuple):
    """Contexts of each type of position."""

    n_existing: NDArray[np.int64]  # IN (order + 1,) K**j
    digit: NDArray[np.int32]  # IN (order, C) label at lag l + 1 in context c
    start_label: NDArray[np.int32]  # IN (1,) number of the start symbol, K


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Give a read-only C-ordered view, so that kernels are compiled for one type of array only."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def used_sparse(forest: Forest) -> NDArray[np.int32]:
    """Sparse window features that the forest tests, in increasing order."""
    return np.unique(forest.feature[forest.kind == SPARSE])


def layout_arrays(forest: Forest, layout: FeatureLayout) -> dict[str, NDArray[Any]]:
    """Lay out the features for the kernels, and check that the forest fits them; remembered for the last layout.

    Raises
    ------
    ModelFileError
        If the forest tests features that the layout does not have.
    """
    known = forest._cache.get("layout")
    if known is not None and known[0] is layout:
        remembered: dict[str, NDArray[Any]] = known[1]
        return remembered
    n_slots, n_offsets = np.diff(layout.slot_start).astype(np.int64), len(layout.sparse_offsets)
    forest.check_layout(len(layout.displacement), n_slots, n_offsets)
    used = used_sparse(forest)
    feature_use = np.full(n_offsets * len(n_slots), -1, dtype=np.int32)
    feature_use[used] = np.arange(len(used), dtype=np.int32)
    arrays = {
        "displacement": read_only(np.asarray(layout.displacement, dtype=np.int64)),
        "slot_feature": read_only(np.repeat(np.arange(len(n_slots), dtype=np.int32), n_slots)),
        "slot_start": read_only(np.asarray(layout.slot_start, dtype=np.int32)),
        "sparse_offsets": read_only(np.asarray(layout.sparse_offsets, dtype=np.int32)),
        "feature_use": read_only(feature_use),
    }
    forest._cache["layout"] = (layout, arrays)
    return arrays


def row_arrays(forest: Forest, binned: BinnedRows) -> RowArrays:
    """Lay out the rows for the kernels."""
    arrays: dict[str, tuple[NDArray[Any], type[np.generic]]] = {
        "codes": (binned.codes.reshape(-1), np.uint8),
        "address": (binned.address, np.int64),
        "row_type": (row_types(binned.offsets, forest.order), np.uint8),
        "padded_row": (binned.padded_row, np.int64),
        "slot_indptr": (binned.slot_indptr, np.int64),
        "slot_indices": (binned.slot_indices, np.int32),
    }
    of_rows = {name: read_only(np.asarray(array, dtype=dtype)) for name, (array, dtype) in arrays.items()}
    return RowArrays(**of_rows, **layout_arrays(forest, binned.layout))


def forest_arrays(forest: Forest) -> ForestArrays:
    """Lay out the forest for the walk."""
    feature = forest.feature.copy()
    sparse = forest.kind == SPARSE
    feature[sparse] = np.searchsorted(used_sparse(forest), feature[sparse])
    values = {name: getattr(forest, name) for name in ForestArrays._fields}
    values["feature"] = read_only(feature)
    values["value"] = read_only(forest.value if forest.is_shared else forest.value[:, None])
    return ForestArrays(**values)


def context_arrays(n_labels: int, order: int) -> ContextArrays:
    """List the contexts of a model of this order."""
    space = ContextSpace(n_labels, order)
    return ContextArrays(
        n_existing=read_only(space.n_contexts_of),
        digit=read_only(space.lag_labels()[:, space.base[-1] :].copy()),
        start_label=read_only(np.array([n_labels], dtype=np.int32)),
    )


@jit
def stamp_slots(
    i: int,
    tick: int,
    rows: RowArrays,  # IN
    stamp: NDArray[np.int64],  # OUT (n_used,) tick << 32 | slot counted from the feature's first
) -> None:
    """Note which slots of the sparse features in use are present in row ``i``'s window."""
    n_sparse = len(rows.slot_start) - 1
    for o in range(len(rows.sparse_offsets)):
        p = rows.padded_row[i] + rows.sparse_offsets[o]
        for q in range(rows.slot_indptr[p], rows.slot_indptr[p + 1]):
            slot = rows.slot_indices[q]
            s = rows.slot_feature[slot]
            use = rows.feature_use[o * n_sparse + s]
            if use >= 0:
                stamp[use] = (tick << 32) | (slot - rows.slot_start[s])


@jit
def traverse(
    span: tuple[int, int],  # rows begin, end
    block: int,  # trees are taken so many at a time, to stay in the cache
    rows: RowArrays,  # IN
    forest: ForestArrays,  # IN
    context: ContextArrays,  # IN
    stamp: NDArray[np.int64],  # BUFFER (n_used_sparse,) zeros
    stack: NDArray[np.int32],  # BUFFER (max_leaves + 1, 3)
    order_of: NDArray[np.int32],  # BUFFER (C,) the contexts, in the order of the walk
    scores: NDArray[np.float32],  # OUT (K, n_rows, C) added to; of shared trees, (end - begin, C, K)
) -> None:
    """Add every tree's values to the scores of rows ``span``.

    ``scores[k, i, c] += value of the leaf that (row i, context c) reaches``, for the trees of label k in their order.
    """
    n_trees, is_shared = len(forest.tree_label), len(forest.tree_label) > 0 and forest.tree_label[0] < 0
    last_type, tick = np.int64(-1), 0
    for t_begin in range(0, n_trees, block):
        for i in range(span[0], span[1]):
            address, j = rows.address[i], np.int64(rows.row_type[i])
            n_c = context.n_existing[j]
            if j != last_type:
                last_type = j
                for c in range(n_c):
                    order_of[c] = c
            if len(stamp):
                tick += 1
                stamp_slots(i, tick, rows, stamp)
            for t in range(t_begin, min(t_begin + block, n_trees)):
                k, s0, leaf0 = forest.tree_label[t], forest.split_start[t], forest.leaf_start[t]
                node = np.int32(0) if forest.split_start[t + 1] > s0 else np.int32(-1)
                a, b, depth = np.int32(0), np.int32(n_c), 0
                while True:
                    if node < 0:
                        v = forest.value[leaf0 + ~node, 0]
                        if is_shared:
                            leaf = uint64(leaf0 + ~node)
                            for x in range(a, b):
                                row, context_of_row = uint64(i - span[0]), uint64(order_of[x])
                                for y in range(uint64(forest.value.shape[1])):
                                    scores[row, context_of_row, y] += forest.value[leaf, y]
                        elif b - a == n_c:
                            for c in range(n_c):
                                scores[k, i, c] += v
                        else:
                            for x in range(a, b):
                                scores[k, i, order_of[x]] += v
                        if depth == 0:
                            break
                        depth -= 1
                        node, a, b = stack[depth, 0], stack[depth, 1], stack[depth, 2]
                        continue
                    s = s0 + node
                    kind, f, w = forest.kind[s], forest.feature[s], forest.word_start[s]
                    if kind == DENSE:
                        bit = np.int64(rows.codes[address + rows.displacement[f]])
                    elif kind == SPARSE:
                        bit = np.int64(stamp[f] & 0xFFFFFFFF if stamp[f] >> 32 == tick else -1)
                    elif f > j:
                        bit = np.int64(context.start_label[0])
                    else:
                        lo, hi = a, b
                        while lo < hi:
                            c = order_of[lo]
                            label = context.digit[f - 1, c]
                            if (forest.words[w + (label >> 6)] >> np.uint64(label & 63)) & np.uint64(1):
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
                            depth += 1
                            node, b = forest.left[s], lo
                        continue
                    inside = bit >= 0 and (forest.words[w + (bit >> 6)] >> np.uint64(bit & 63)) & np.uint64(1) != 0
                    node = forest.left[s] if inside else forest.right[s]
