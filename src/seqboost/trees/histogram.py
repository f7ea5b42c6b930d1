"""Histograms: for each cell of each window feature, the vector of sums over a node's rows.

A cell holds the lanes of :mod:`seqboost.trees.quantise`, so that adding a row to a cell is one or two vector
instructions, the count included.

Sparse features have many cells, most of them empty, and ``counts`` repeats their lane of positions side by side. The
lanes of a sparse cell are valid only if its count is not 0: the first row that meets a slot's cell overwrites it, so
that nothing but the counts need be cleared.

Features are taken in *blocks*: histogram, difference to the parent and search for the best split of the block's
features are done while its cells are in the cache. Threads share the blocks out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, int64, uint64
from seqboost.trees.columns import Columns, DenseColumns
from seqboost.trees.intrinsics import (
    add_lanes,
    add_to_cells_of_eight,
    add_to_cells_of_four,
    add_to_cells_of_sixteen,
    add_to_cells_of_twelve,
    subtract_lanes,
)
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = [
    "FIRST",
    "FIRST_CELL",
    "FIRST_COUNT",
    "LAST",
    "LAST_CELL",
    "OFFSET",
    "SORT",
    "Part",
    "Sums",
    "add_part",
    "block_tasks",
    "clear_block",
    "feature_blocks",
    "subtract_block",
    "take_part",
]

BLOCK_BYTES = 192 * 1024  # of one node's cells: two nodes and the rows that come by fit the second cache
FAR = 2**19  # more codes than that do not stay in the cache

# Columns of a block: what it holds (DENSE, SPARSE or LAG), its features (or lags − 1), the number of its sparse offset,
# its cells, the place of the first one in Sums.counts. Features of a block follow one another.
SORT, FIRST, LAST, OFFSET, FIRST_CELL, LAST_CELL, FIRST_COUNT, N_BLOCK = range(8)


class Sums(NamedTuple):
    """What is known of the nodes, by slot."""

    cells: NDArray[np.int32]  # (n_slots, n_cells, n_lanes) histograms
    counts: NDArray[np.int32]  # (n_slots, n_sparse_cells) positions
    contexts: NDArray[np.int32]  # (n_slots, n_extended, 2 * n_outputs) sums per context


class Part(NamedTuple):
    """Rows of one node, and their vectors."""

    rows: NDArray[np.int32]  # positions of all nodes
    first: int  # the part of them that the node has
    last: int
    vectors: NDArray[np.int32]  # (n_rows, n_lanes)
    by_row: bool  # whether a row's vector stands at its own place, or at that of its turn


def feature_blocks(columns: Columns, n_lags: int, bytes_per_cell: int) -> NDArray[np.int64]:
    """Divide the features into blocks, (n_blocks, N_BLOCK): dense ones, sparse ones by offset, then each lag."""
    dense, sparse = columns
    n_dense_cells, n_slots = int(dense.cell_start[-1]), int(sparse.slot_start[-1])
    most = BLOCK_BYTES // bytes_per_cell
    blocks = [
        (DENSE, a, b, 0, int(dense.cell_start[a]), int(dense.cell_start[b]), 0)
        for a, b in _parts(dense.cell_start, most)
    ]
    for o in range(sparse.offset.size if n_slots else 0):
        for a, b in _parts(sparse.slot_start, most):
            first, last = (o * n_slots + int(sparse.slot_start[f]) for f in (a, b))
            blocks.append((SPARSE, a, b, o, n_dense_cells + first, n_dense_cells + last, first))
    blocks += [(LAG, lag, lag + 1, 0, 0, 0, 0) for lag in range(n_lags)]
    return np.array(blocks, dtype=np.int64).reshape(-1, N_BLOCK)


def block_tasks(blocks: NDArray[np.int64], n_tasks: int) -> list[tuple[int, int, int]]:
    """Share the blocks out: number, first and last block of each task, with about as many cells each."""
    size = blocks[:, LAST_CELL] - blocks[:, FIRST_CELL]
    done = np.cumsum(np.where(blocks[:, SORT] == LAG, 64, size)) / max(1, int(size.sum()))
    cuts = [int(np.searchsorted(done, share / n_tasks)) + 1 for share in range(1, n_tasks)]
    ends = sorted({0, len(blocks), *(min(cut, len(blocks)) for cut in cuts)})
    return [(number, a, b) for number, (a, b) in enumerate(zip(ends[:-1], ends[1:], strict=True))]


def _parts(start: NDArray[np.generic], most: int) -> list[tuple[int, int]]:
    """Divide features, whose cells begin at ``start``, into parts of at most ``most`` cells, or of one feature."""
    parts, first = [], 0
    for last in range(1, len(start)):
        if last == len(start) - 1 or int(start[last + 1]) - int(start[first]) > most:
            parts.append((first, last))
            first = last
    return parts


@inner
def clear_block(
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    all_lanes: bool | np.bool_,  # IN whether those of sparse cells are cleared too
    cells: NDArray[np.int32],  # OUT (n_cells, n_lanes)
    counts: NDArray[np.int32],  # OUT (n_sparse_cells,)
) -> None:
    """Empty the cells of a block."""
    flat, width, n = cells.reshape(-1), uint64(cells.shape[1]), uint64(block[LAST_CELL] - block[FIRST_CELL])
    if block[SORT] == DENSE or all_lanes:
        for x in range(uint64(block[FIRST_CELL]) * width, uint64(block[LAST_CELL]) * width):
            flat[x] = 0
    first = uint64(block[FIRST_COUNT])
    for x in range(first, first + n if block[SORT] == SPARSE else first):
        counts[x] = 0


@inner
def add_part(
    columns: Columns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    part: Part,
    lane: int,  # IN that of positions
    cells: NDArray[np.int32],  # IN/OUT (n_cells, n_lanes)
    counts: NDArray[np.int32],  # IN/OUT (n_sparse_cells,)
) -> None:
    """Add rows to the cells of a block."""
    flat, vectors, width = cells.reshape(-1), part.vectors.reshape(-1), uint64(cells.shape[1])
    if block[SORT] == DENSE:
        _add_dense(columns.dense, block, part, flat, vectors, width)
        return
    sparse = columns.sparse
    first_slot, last_slot = sparse.slot_start[block[FIRST]], sparse.slot_start[block[LAST]]
    shift, count_shift = block[FIRST_CELL] - first_slot, block[FIRST_COUNT] - first_slot
    for p in range(part.first, part.last):
        place = width * uint64(part.rows[p] if part.by_row else p - part.first)
        padded = sparse.padded_row[part.rows[p]] + sparse.offset[block[OFFSET]]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                at, count = uint64(shift + slot) * width, uint64(count_shift + slot)
                if counts[count] == 0:
                    for w in range(width):
                        flat[at + w] = 0
                add_lanes(flat, vectors, at, place, width)
                counts[count] += vectors[place + uint64(lane)]


@inner
def _add_dense(
    dense: DenseColumns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    part: Part,
    flat: NDArray[np.int32],  # IN/OUT (n_cells * n_lanes,)
    vectors: NDArray[np.int32],  # IN (n_rows * n_lanes,)
    width: int,  # IN lanes
) -> None:
    """Add rows to the cells of dense features."""
    rows, first, last, by_row = part.rows, part.first, part.last, part.by_row
    codes, address, displacement, start = dense.codes, dense.address, dense.displacement, dense.cell_start
    # A window over all columns is one slice of codes.
    shift, is_far = displacement[block[FIRST]] - block[FIRST], int64(codes.size > FAR)
    is_slice = displacement[block[LAST] - 1] - displacement[block[FIRST]] == block[LAST] - block[FIRST] - 1
    span = int64(first), int64(last), block[FIRST], block[LAST], shift, int64(by_row), is_far
    if is_slice and width == uint64(4):
        add_to_cells_of_four(flat, vectors, rows, codes, address, start, span)
    elif is_slice and width == uint64(8):
        add_to_cells_of_eight(flat, vectors, rows, codes, address, start, span)
    elif is_slice and width == uint64(12):
        add_to_cells_of_twelve(flat, vectors, rows, codes, address, start, span)
    elif is_slice and width == uint64(16):
        add_to_cells_of_sixteen(flat, vectors, rows, codes, address, start, span)
    else:
        for p in range(uint64(first), uint64(last)):
            i = uint64(rows[p])
            place = width * (i if by_row else p - uint64(first))
            for f in range(uint64(block[FIRST]), uint64(block[LAST])):
                cell = uint64(start[f]) + uint64(codes[uint64(address[i] + displacement[f])])
                add_lanes(flat, vectors, width * cell, place, width)


@inner
def take_part(
    columns: Columns,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    part: Part,
    lanes: tuple[int, int],  # IN those of positions and of positions that the sibling does not hold
    cells: NDArray[np.int32],  # IN/OUT (n_cells, n_lanes)
    counts: NDArray[np.int32],  # IN/OUT (n_sparse_cells,)
) -> None:
    """Take the rows of one child out of the cells of their parent, which become those of the other child."""
    dense, sparse = columns.dense, columns.sparse
    flat, vectors, width = cells.reshape(-1), part.vectors.reshape(-1), uint64(cells.shape[1])
    n, lost = uint64(lanes[0]), uint64(lanes[1])
    first_slot, last_slot = int64(0), int64(0)
    if block[SORT] == SPARSE:
        first_slot, last_slot = int64(sparse.slot_start[block[FIRST]]), int64(sparse.slot_start[block[LAST]])
    for p in range(uint64(part.first), uint64(part.last)):
        i = uint64(part.rows[p])
        place = width * (i if part.by_row else p - uint64(part.first))
        left = vectors[place + lost]
        stays = vectors[place + n] - left
        if block[SORT] == DENSE:
            here = dense.address[i]
            for f in range(uint64(block[FIRST]), uint64(block[LAST])):
                cell = uint64(dense.cell_start[f]) + uint64(dense.codes[uint64(here + dense.displacement[f])])
                subtract_lanes(flat, vectors, width * cell, place, width)
                flat[width * cell + n] += stays
            continue
        padded = sparse.padded_row[i] + sparse.offset[block[OFFSET]]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            slot = int64(sparse.indices[q])
            if first_slot <= slot < last_slot:
                cell = uint64(block[FIRST_CELL] - first_slot + slot)
                subtract_lanes(flat, vectors, width * cell, place, width)
                flat[width * cell + n] += stays
                counts[uint64(block[FIRST_COUNT] - first_slot + slot)] -= left


@inner
def subtract_block(
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    child: NDArray[np.int32],  # IN (n_cells, n_lanes)
    child_counts: NDArray[np.int32],  # IN (n_sparse_cells,)
    lanes: tuple[int, int],  # IN those of positions and of positions that the sibling does not hold
    same_rows: bool,  # IN whether contexts were divided, so that the sibling may hold positions of the child
    cells: NDArray[np.int32],  # IN/OUT (n_cells, n_lanes) of the parent; becomes the sibling's
    counts: NDArray[np.int32],  # IN/OUT (n_sparse_cells,)
) -> None:
    """Turn a parent's histogram into that of its other child, for the cells of a block."""
    flat, taken, width = cells.reshape(-1), child.reshape(-1), uint64(cells.shape[1])
    n, lost = uint64(lanes[0]), uint64(lanes[1])
    first, last = uint64(block[FIRST_CELL]), uint64(block[LAST_CELL])
    if block[SORT] == DENSE:
        for x in range(width * first, width * last):
            flat[x] -= taken[x]
        for cell in range(first, last if same_rows else first):
            flat[width * cell + n] += taken[width * cell + n] - taken[width * cell + lost]
        return
    for cell in range(first, last):
        count = uint64(block[FIRST_COUNT]) + cell - first
        if child_counts[count] > 0:
            kept = child_counts[count] - taken[width * cell + lost] if same_rows else 0
            subtract_lanes(flat, taken, width * cell, width * cell, width)
            flat[width * cell + n] += kept
            counts[count] += kept - child_counts[count]
