"""Kernels of shared trees with policies for missing values: rows have weights.

A row's vector is that of :mod:`seqboost.trees.shared_cells` times its weight, rounded anew in each node; so *parent −
child = sibling* holds but for rounding, a unit of 2^−30 of a label's sum for each row, and cells that no row is left in
are told by their counts, which are exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner_slicing, jit, reassociating
from seqboost.core.missing import INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.missing import Policies
from seqboost.trees.shared_cells import Units, add_to, set_zero
from seqboost.trees.shared_histogram import FIRST, FIRST_CELL, LAST, LAST_CELL, OFFSET, SORT, subtract_child
from seqboost.trees.shared_search import Finds, Pair, Sums, search_block
from seqboost.trees.shared_splitting import Scratch
from seqboost.trees.surrogates import rank_surrogates
from seqboost.trees.tree import DENSE, LAG
from seqboost.trees.weighted_buffers import Detours, WeightedScratch
from seqboost.trees.weighted_grower import record_surrogates, send_by_surrogates, share_of
from seqboost.trees.weighted_histogram import count_values
from seqboost.trees.weighted_rows import LEFT, RIGHT, WeightedRows, divide_weighted, mark_rows

__all__ = [
    "divide_by_policy",
    "search_weighted",
    "sum_weighted_contexts",
    "sum_weighted_leaves",
    "sum_weighted_row_contexts",
    "sum_weights",
]


@inner_slicing
def _weigh(
    vector: NDArray[np.int32],  # IN/OUT (2 * n_labels,)
    weight: np.float32,  # IN
) -> None:
    """Multiply a vector by a weight, rounding."""
    w = np.float64(weight)
    for x in range(vector.size):
        vector[x] = np.int32(np.floor(vector[x] * w + 0.5))


@jit
def sum_weighted_row_contexts(
    cells: NDArray[np.int32],  # IN (n_rows, n_contexts, 2 * n_labels)
    mask: NDArray[np.bool_],  # IN (n_extended,) the node's contexts
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    weight: NDArray[np.float32],  # IN
    first: int,  # IN
    last: int,  # IN
    origin: int,  # IN the first turn
    vectors: NDArray[np.int32],  # OUT (n_rows, 2 * n_labels) w·Σ_c over the node's contexts, in the order of rows
) -> None:
    """Sum the cells of rows over the contexts of a node, times their weights."""
    for p in range(first, last):
        i = rows[p]
        total = vectors[p - origin]
        set_zero(total)
        j = space.row_type[i]
        base = space.base[j]
        for c in range(space.n_contexts_of[j]):
            if mask[base + c]:
                add_to(cells[i, c], total)
        if weight[p] != np.float32(1.0):
            _weigh(total, weight[p])


@jit
def sum_weighted_contexts(
    cells: NDArray[np.int32],  # IN (n_rows, n_contexts, 2 * n_labels)
    mask: NDArray[np.bool_],  # IN (n_extended,) the node's contexts
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    weight: NDArray[np.float32],  # IN
    first: int,  # IN
    last: int,  # IN
    contexts: tuple[int, int],  # IN those to sum, counted within each type
    sums: NDArray[np.int32],  # OUT (n_extended, 2 * n_labels)
) -> None:
    """Sum a node's rows per extended context, times their weights, of some of its contexts."""
    for j in range(space.base.size):
        for c in range(contexts[0], min(contexts[1], space.n_contexts_of[j])):
            set_zero(sums[space.base[j] + c])
    for p in range(first, last):
        i = rows[p]
        j = space.row_type[i]
        base, w = space.base[j], np.float64(weight[p])
        for c in range(contexts[0], min(contexts[1], space.n_contexts_of[j])):
            if not mask[base + c]:
                continue
            cell, total = cells[i, c], sums[base + c]
            if w == 1.0:
                add_to(cell, total)
            else:
                for x in range(total.size):
                    total[x] += np.int32(np.floor(cell[x] * w + 0.5))


@jit
def sum_weights(
    row_type: NDArray[np.uint8],  # IN (n_rows,)
    segments: WeightedRows,  # IN
    first: int,  # IN
    last: int,  # IN
    types: NDArray[np.int64],  # OUT (order + 1,)
) -> None:
    """Sum the weights of positions by their type."""
    order = types.size - 1
    for j in range(types.size):
        types[j] = 0
    n = int64(0)
    for p in range(first, last):
        n += segments.units[p]
        j = row_type[segments.rows[p]]
        if j < order:  # few: near the starts of sequences
            types[j] += segments.units[p]
            n -= segments.units[p]
    types[order] += n


@inner_slicing
def _add_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    segments: WeightedRows,  # IN
    first: int,  # IN the part of them that the node has
    last: int,  # IN
    vectors: NDArray[np.int32],  # IN (n_rows, 2 * n_labels)
    by_row: bool,  # IN whether a row's vector stands at its own place, or at that of its turn
    sums: NDArray[np.int32],  # OUT (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # OUT (n_cells,)
) -> None:
    """Make the histogram of a node, for the features of a block; counts are weights."""
    rows, units = segments.rows, segments.units
    for cell in range(block[FIRST_CELL], block[LAST_CELL]):
        counts[cell] = 0
        set_zero(sums[cell])
    if block[SORT] == DENSE:
        width = np.uint64(vectors.shape[1])
        last_four = block[LAST] - (block[LAST] - block[FIRST]) % 4
        for p in range(first, last):
            i, n = np.uint64(rows[p] if by_row else p - first), units[p]
            here = dense.address[rows[p]]
            for f in range(block[FIRST], last_four, 4):
                b0, known0 = _cell(dense, here, f)
                b1, known1 = _cell(dense, here, f + 1)
                b2, known2 = _cell(dense, here, f + 2)
                b3, known3 = _cell(dense, here, f + 3)
                if not (known0 and known1 and known2 and known3):
                    for g in range(f, f + 4):
                        b, known = _cell(dense, here, g)
                        if known:
                            add_to(vectors[i], sums[b])
                            counts[b] += n
                    continue
                counts[b0] += n
                counts[b1] += n
                counts[b2] += n
                counts[b3] += n
                for w in range(width):
                    x = vectors[i, w]
                    sums[b0, w] += x
                    sums[b1, w] += x
                    sums[b2, w] += x
                    sums[b3, w] += x
            for f in range(last_four, block[LAST]):
                b, known = _cell(dense, here, f)
                if known:
                    add_to(vectors[i], sums[b])
                    counts[b] += n
        return
    first_slot, last_slot = sparse.slot_start[block[FIRST]], sparse.slot_start[block[LAST]]
    shift = block[FIRST_CELL] - first_slot
    for p in range(first, last):
        vector = vectors[rows[p] if by_row else p - first]
        padded = sparse.padded_row[rows[p]] + sparse.offset[block[OFFSET]]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                add_to(vector, sums[shift + slot])
                counts[shift + slot] += units[p]


@inner_slicing
def _cell(
    dense: DenseColumns,
    here: int,  # IN address of the row
    f: int,  # IN
) -> tuple[np.uint64, bool]:
    """Return the cell of a row, and whether it has one: unknown categories, which a warm start may bring, have not."""
    code = dense.codes[np.uint64(here + dense.displacement[f])]
    return np.uint64(dense.cell_start[f]) + np.uint64(code), code < dense.n_values[f] + 2


@inner_slicing
def _remove_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    rows: NDArray[np.int32],  # IN positions to take out
    units: NDArray[np.int32],  # IN their weights
    counts: NDArray[np.int32],  # IN/OUT (n_cells,)
) -> None:
    """Take positions out of the counts (their derivatives are zero there already)."""
    first_slot, last_slot = int64(0), int64(0)
    if block[SORT] != DENSE:
        first_slot, last_slot = sparse.slot_start[block[FIRST]], sparse.slot_start[block[LAST]]
    for p in range(rows.size):
        if block[SORT] == DENSE:
            here = dense.address[rows[p]]
            for f in range(block[FIRST], block[LAST]):
                b, known = _cell(dense, here, f)
                if known:
                    counts[b] -= units[p]
            continue
        padded = sparse.padded_row[rows[p]] + sparse.offset[block[OFFSET]]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                counts[block[FIRST_CELL] - first_slot + slot] -= units[p]


@jit
def search_weighted(
    dense: DenseColumns,
    sparse: SparseColumns,
    policies: Policies,
    space: Space,
    limits: Limits,
    units: Units,
    blocks: NDArray[np.int64],  # IN (n_blocks, N_BLOCK)
    task: tuple[int, int, int],  # IN number of the task, its first block, its last
    pair: Pair,
    removed_units: NDArray[np.int32],  # IN weights of pair.removed
    segments: WeightedRows,  # IN
    vectors: NDArray[np.int32],  # IN (n_rows, 2 * n_labels)
    sums: Sums,  # IN/OUT
    scratch: Scratch,
    finds: Finds,  # OUT
) -> None:
    """Make the histograms of two nodes and find their best splits, as :func:`seqboost.trees.shared_search.search`."""
    small, large = pair.slot
    number, first_block, last_block = task
    for q in range(2):
        finds.gain[number, q] = -1.0
    for b in range(first_block, last_block):
        block = blocks[b]
        if block[SORT] != LAG:
            _add_rows(
                dense, sparse, block, segments, pair.first, pair.last, vectors, pair.by_row, sums.cells[small],
                sums.counts[small],
            )  # fmt: skip
            if pair.has_large:
                subtract_child(
                    block, sums.cells[small], sums.counts[small], pair.same_rows, sums.cells[large], sums.counts[large]
                )
                if pair.same_rows:
                    _remove_rows(dense, sparse, block, pair.removed, removed_units, sums.counts[large])
        for q in range(2):
            if pair.searched[q]:
                search_block(
                    dense, sparse, policies, space, limits, units, block, pair, q, sums, scratch, finds, number
                )  # fmt: skip


@jit
def divide_by_policy(
    dense: DenseColumns,
    sparse: SparseColumns,
    kind: int,  # IN DENSE or SPARSE
    feature: int,  # IN place in DenseColumns, or offset · n_sparse + sparse feature
    left: NDArray[np.bool_],  # IN (max_values,)
    policy: int,  # IN of the feature
    missing: int,  # IN the value that stands for missing; −1: policy DIRECTION
    number: int,  # IN of the split
    span: tuple[int, int, int],  # IN first, end of the fitted, end
    end: int,  # IN where the child that leaves goes
    segments: WeightedRows,  # IN/OUT
    detours: Detours,  # OUT
    scratch: WeightedScratch,
) -> tuple[bool, bool, int, int, int, int]:
    """Divide the positions of a node.

    Return whether any goes both ways, whether the left child goes to the end; how many positions stay and how many of
    them are fitted, and the same of those that leave.
    """
    first, fitted, last = span
    mark, units = scratch.mark, segments.units
    n_left, n_missing = mark_rows(dense, sparse, kind, feature, left, missing, segments.rows, first, last, mark)
    leaving = LEFT if 2 * n_left + n_missing < last - first else RIGHT
    share = np.float32(0.0)
    detours.start[number + 1] = detours.start[number]
    if policy == INSTANCE_WEIGHTING:
        n_left, n_right = int64(0), int64(0)
        for p in range(first, fitted):
            n_left += units[p] if mark[p - first] == LEFT else 0
            n_right += units[p] if mark[p - first] == RIGHT else 0
        share = share_of(n_left, n_right)
    elif policy == SURROGATE:
        larger_left = left[missing]
        n_left = count_values(dense, sparse, segments, mark, int64(LEFT), first, fitted, scratch.on_left)
        n_right = count_values(dense, sparse, segments, mark, int64(RIGHT), first, fitted, scratch.on_right)
        n = rank_surrogates(
            dense, sparse, kind, feature, scratch.on_left, scratch.on_right, n_left, n_right, scratch.ranking
        )
        record_surrogates(dense, sparse, n, number, larger_left, detours, scratch)
        if n_missing > 0:
            send_by_surrogates(dense, sparse, detours, number, larger_left, segments.rows, first, last, mark)
    detours.share[number] = share
    sizes = divide_weighted(mark, share, scratch.part_left, segments, first, fitted - first, last, int64(leaving), end)
    both = policy == INSTANCE_WEIGHTING and n_missing > 0
    return both, leaving == LEFT, sizes[0], sizes[1], sizes[2], sizes[3]


@reassociating
def sum_weighted_leaves(
    space: Space,
    segments: WeightedRows,  # IN
    start: NDArray[np.int64],  # IN (n_leaves,)
    fitted: NDArray[np.int64],  # IN (n_leaves,)
    mask: NDArray[np.bool_],  # IN (n_leaves, n_extended)
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    labels: tuple[int, int],  # IN those to sum
    sums: NDArray[np.float64],  # OUT (2, n_leaves, n_labels)
) -> None:
    """Sum the derivatives of some labels over the leaves, times weights."""
    rows, weight = segments.rows, segments.weight
    for k in range(labels[0], labels[1]):
        for leaf in range(start.size):
            g, h = 0.0, 0.0
            for p in range(start[leaf], start[leaf] + fitted[leaf]):
                i, w = rows[p], float(weight[p])
                j = space.row_type[i]
                for c in range(space.n_contexts_of[j]):
                    if mask[leaf, space.base[j] + c]:
                        g += w * float(gradient[k, i, c])
                        h += w * float(hessian[k, i, c])
            sums[0, leaf, k] = g
            sums[1, leaf, k] = h
