"""Histograms of a shared tree: for each bin of each window feature, the vector of sums over a node's rows.

A cell of the histogram holds the 2K sums of its labels (:mod:`seqboost.trees.shared_cells`) and, apart, the number of
its positions; cells are numbered as in :mod:`seqboost.trees.histogram`. Adding a row to a cell is one loop over labels,
which the processor's vector unit does eight at a time.

The sums of a cell are valid only if its number of positions is not 0: the first row that meets a slot's cell overwrites
it, so that of the many cells of sparse features nothing but the counts need be cleared.

Features are taken in *blocks*: histogram, difference to the parent and search for the best split of the block's
features are done while its cells are in the cache. Threads share the blocks out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inlined, inner_slicing
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.shared_cells import add_to, set_zero
from seqboost.trees.tree import DENSE, LAG, SPARSE
from seqboost.trees.vectors import add_eight_integers, add_four_integers, add_two_integers

__all__ = ["add_rows", "block_tasks", "feature_blocks", "remove_rows", "subtract_child"]

BLOCK_BYTES = 192 * 1024  # of one node's cells: two nodes and the rows that come by fit the second cache


# Columns of a block: what it holds (DENSE, SPARSE or LAG), its features (or lags − 1), the number of its sparse offset,
# its cells. Features of a block follow one another.
SORT, FIRST, LAST, OFFSET, FIRST_CELL, LAST_CELL, N_BLOCK = range(7)


def feature_blocks(dense: DenseColumns, sparse: SparseColumns, n_lags: int, bytes_per_cell: int) -> NDArray[np.int64]:
    """Divide the features into blocks, (n_blocks, N_BLOCK): dense ones, sparse ones by offset, then each lag."""
    n_dense_cells, n_slots = int(dense.cell_start[-1]), int(sparse.slot_start[-1])
    most = BLOCK_BYTES // bytes_per_cell
    blocks = [
        (DENSE, a, b, 0, int(dense.cell_start[a]), int(dense.cell_start[b])) for a, b in _parts(dense.cell_start, most)
    ]
    for o in range(sparse.offset.size if n_slots else 0):
        shift, starts = n_dense_cells + o * n_slots, sparse.slot_start
        blocks += [(SPARSE, a, b, o, shift + int(starts[a]), shift + int(starts[b])) for a, b in _parts(starts, most)]
    blocks += [(LAG, lag, lag + 1, 0, 0, 0) for lag in range(n_lags)]
    return np.array(blocks, dtype=np.int64).reshape(-1, N_BLOCK)


def block_tasks(blocks: NDArray[np.int64], n_tasks: int) -> list[tuple[int, int, int]]:
    """Share the blocks out: number, first and last block of each task, with about as many cells each."""
    size = blocks[:, LAST_CELL] - blocks[:, FIRST_CELL]
    done = np.cumsum(np.where(blocks[:, SORT] == LAG, 64, size)) / max(1, int(size.sum()))
    cuts = [int(np.searchsorted(done, share / n_tasks)) + 1 for share in range(1, n_tasks)]
    ends = sorted({0, len(blocks), *(min(cut, len(blocks)) for cut in cuts)})
    return [(number, a, b) for number, (a, b) in enumerate(zip(ends[:-1], ends[1:], strict=True))]


def _parts(start: NDArray[np.generic], most: int) -> list[tuple[int, int]]:
    """Divide features, whose cells begin at ``start``, into parts of at most so many cells, or of one feature."""
    parts, first = [], 0
    for last in range(1, len(start)):
        if last == len(start) - 1 or int(start[last + 1]) - int(start[first]) > most:
            parts.append((first, last))
            first = last
    return parts


@inner_slicing
def _add(
    cell: int,
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    sums: NDArray[np.int32],  # IN/OUT (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # IN/OUT (n_cells,)
) -> None:
    """Add a row to a cell."""
    if counts[cell] == 0:
        total = sums[cell]
        for w in range(total.size):
            total[w] = vector[w]
    else:
        add_to(vector, sums[cell])
    counts[cell] += 1


@inlined
def _cell(
    dense: DenseColumns,
    here: int,  # IN address of the row
    f: int,  # IN
) -> tuple[np.uint64, bool]:
    """Return the cell of a row, and whether it has none: unknown categories, which a warm start may bring."""
    code = dense.codes[np.uint64(here + dense.displacement[f])]
    return np.uint64(dense.cell_start[f]) + np.uint64(code), code >= dense.n_values[f] + 2


@inner_slicing
def _add_dense(
    dense: DenseColumns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN the part of them that the node has
    last: int,  # IN
    vectors: NDArray[np.int32],  # IN (n_rows, 2 * n_labels)
    by_row: bool,  # IN
    sums: NDArray[np.int32],  # IN/OUT (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # IN/OUT (n_cells,)
) -> None:
    """Add rows to the cells of dense features; a cell has an even number of sums."""
    width, eight, four, two = np.uint64(vectors.shape[1]), np.uint64(8), np.uint64(4), np.uint64(2)
    total, added = sums.reshape(-1), vectors.reshape(-1)
    for p in range(first, last):
        row = width * np.uint64(rows[p] if by_row else p - first)
        here = dense.address[rows[p]]
        for f in range(block[FIRST], block[LAST]):
            b, unknown = _cell(dense, here, f)
            if unknown:
                continue
            counts[b] += 1
            at, w, end = width * b, row, width * b + width
            while at + eight <= end:
                add_eight_integers(total, total, added, at, w)
                at, w = at + eight, w + eight
            if width & four:
                add_four_integers(total, total, added, at, w)
                at, w = at + four, w + four
            if width & two:
                add_two_integers(total, total, added, at, w)


@inner_slicing
def add_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN the part of them that the node has
    last: int,  # IN
    vectors: NDArray[np.int32],  # IN (n_rows, 2 * n_labels)
    by_row: bool,  # IN whether a row's vector stands at its own place, or at that of its turn
    sums: NDArray[np.int32],  # OUT (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # OUT (n_cells,)
) -> None:
    """Make the histogram of a node, for the features of a block."""
    for cell in range(block[FIRST_CELL], block[LAST_CELL]):
        counts[cell] = 0
    if block[SORT] == DENSE:
        for cell in range(np.uint64(block[FIRST_CELL]), np.uint64(block[LAST_CELL])):
            set_zero(sums[cell])
        _add_dense(dense, block, rows, first, last, vectors, by_row, sums, counts)
        return
    first_slot, last_slot = sparse.slot_start[block[FIRST]], sparse.slot_start[block[LAST]]
    shift = block[FIRST_CELL] - first_slot
    for p in range(first, last):
        vector = vectors[rows[p] if by_row else p - first]
        padded = sparse.padded_row[rows[p]] + sparse.offset[block[OFFSET]]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                _add(shift + slot, vector, sums, counts)


@inner_slicing
def subtract_child(
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    child_sums: NDArray[np.int32],  # IN (n_cells, 2 * n_labels)
    child_counts: NDArray[np.int32],  # IN (n_cells,)
    same_rows: bool,  # IN whether both children hold the same positions (a split of contexts)
    sums: NDArray[np.int32],  # IN/OUT (n_cells, 2 * n_labels) of the parent; becomes the sibling's
    counts: NDArray[np.int32],  # IN/OUT (n_cells,)
) -> None:
    """Turn a parent's histogram into that of its other child, for the features of a block."""
    for cell in range(block[FIRST_CELL], block[LAST_CELL]):
        if child_counts[cell] > 0:
            child, total = child_sums[cell], sums[cell]
            for w in range(total.size):
                total[w] -= child[w]
            if not same_rows:
                counts[cell] -= child_counts[cell]


@inner_slicing
def remove_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    rows: NDArray[np.int32],  # IN positions to take out
    counts: NDArray[np.int32],  # IN/OUT (n_cells,)
) -> None:
    """Take positions out of the counts (their derivatives are zero there already)."""
    if block[SORT] == DENSE:
        for p in range(rows.size):
            here = dense.address[rows[p]]
            for f in range(block[FIRST], block[LAST]):
                code = dense.codes[here + dense.displacement[f]]
                if code < dense.n_values[f] + 2:
                    counts[dense.cell_start[f] + code] -= 1
        return
    first_slot, last_slot = sparse.slot_start[block[FIRST]], sparse.slot_start[block[LAST]]
    for p in range(rows.size):
        padded = sparse.padded_row[rows[p]] + sparse.offset[block[OFFSET]]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                counts[block[FIRST_CELL] - first_slot + slot] -= 1
