"""Histograms: for each bin of each window feature, the sums of gradient, curvature and positions of a node.

A histogram is one flat int64 array of *cells*, two numbers a cell::

    2b      G            Σ of the fixed-point gradients
    2b+1    H·2^s + n    Σ of the fixed-point curvatures, shifted, and below them the number of positions

Fixed point makes every sum exact: it does not depend on the order of rows or on threads, and *parent − child = sibling*
holds to the bit. The scales are chosen per tree (:mod:`seqboost.trees.fixedpoint`).

Cells of dense features come first, feature by feature; then those of the sparse slots, offset by offset::

    dense feature f, code v          cell_start[f] + v
    sparse offset o, slot s          n_dense_cells + o·n_slots + s
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inlined, inner
from seqboost.trees.fixedpoint import curvature_of, gradient_of
from seqboost.trees.integers import uint64
from seqboost.trees.vectors import ADDENDS, ADDRESS, add_pair, add_two_rows, prefetch

__all__ = [
    "DenseColumns",
    "SparseColumns",
    "add_dense",
    "add_sparse",
    "clear",
    "remove_counts",
    "subtract",
]


ROWS_AT_ONCE = 512
"""Positions whose codes stay at hand while feature after feature is added; even, for they are added in pairs."""
FAR = 2**19
"""More codes than that are not at hand: those of a block are asked for while it is laid out."""
FEATURES_AT_ONCE = 6
"""Features whose cells a position is added to at once: more do not fit the processor's registers."""


class DenseColumns(NamedTuple):
    """The bin codes as the kernels see them; window features are sorted by displacement.

    Features whose displacements follow one another form a *run*: a window over all columns is a single run, and a row's
    part of it is one contiguous slice of memory.
    """

    codes: NDArray[np.uint8]  # (n_padded * n_dense,) row-major, boundary rows between sequences
    address: NDArray[np.int64]  # (n_rows,) first code of a position
    feature: NDArray[np.int32]  # (n_features,) number of the window feature in the user's order
    displacement: NDArray[np.int64]  # (n_features,) code of a position: codes[address + displacement]
    n_values: NDArray[np.int32]  # (n_features,) B: codes 0..B-1 are values, B missing, B+1 boundary, B+2 unknown
    kind: NDArray[np.uint8]  # (n_features,) 0 numeric, 1 categorical
    cell_start: NDArray[np.int64]  # (n_features + 1,) first cell of a feature
    run_start: NDArray[np.int64]  # (n_runs + 1,) features of a run


class SparseColumns(NamedTuple):
    """The slots of every padded row, and which sparse feature they belong to."""

    padded_row: NDArray[np.int64]  # (n_rows,)
    indptr: NDArray[np.int64]  # (n_padded + 1,)
    indices: NDArray[np.int32]  # (n_entries,)
    slot_start: NDArray[np.int32]  # (n_sparse + 1,) slots of a sparse feature
    kind: NDArray[np.uint8]  # (n_sparse,) 0 ordered, 1 subset
    absent_rank: NDArray[np.int32]  # (n_sparse,) where "absent" stands among the ordered slots
    missing: NDArray[np.int32]  # (n_sparse,) which of its slots stands for missing values; −1: none
    offset: NDArray[np.int64]  # (n_sparse_offsets,)
    enabled: NDArray[np.bool_]  # (n_sparse_offsets, n_sparse)


class Addition(NamedTuple):
    """How positions enter the cells of a histogram."""

    count_bits: int  # s
    sign: int  # 1: they are added, −1: they are taken out
    per_position: int  # what each adds to n


@inner
def _addends(packed: int, addition: Addition) -> tuple[int, int]:
    """Return what one position adds to the two numbers of a cell, from its packed sums over contexts."""
    count_bits, sign, per_position = addition
    return sign * gradient_of(packed), sign * (curvature_of(packed) << count_bits) + per_position


@inner
def add_dense(
    dense: DenseColumns,
    rows: NDArray[np.int32],  # IN positions
    sums: NDArray[np.int64],  # IN their sums over contexts, packed
    first: int,  # IN the part of the two arrays above
    last: int,  # IN
    addition: Addition,
    block: NDArray[np.int64],  # SCRATCH (ROWS_AT_ONCE, N_BLOCK)
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to the cells of the dense features: each row is one slice of codes per run.

    A block of rows goes through a few features at a time, so that their cells and codes stay at hand.
    """
    run_start = dense.run_start
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        is_laid_out = False
        for r in range(run_start.size - 1):
            f, stop = run_start[r], run_start[r + 1]
            while stop - f == FEATURES_AT_ONCE or stop - f >= 2 * FEATURES_AT_ONCE:  # one or two left would take long
                if not is_laid_out:
                    _lay_out(dense, rows, sums, begin, end, addition, block)
                    is_laid_out = True
                _add_six(dense, end - begin, f, block, histogram)
                f += FEATURES_AT_ONCE
            if f < stop:
                _add_features(dense, rows, sums, begin, end, addition, f, stop, histogram)


@inlined
def _lay_out(
    dense: DenseColumns,
    rows: NDArray[np.int32],  # IN positions
    sums: NDArray[np.int64],  # IN
    first: int,  # IN the part of the two arrays above
    last: int,  # IN
    addition: Addition,
    block: NDArray[np.int64],  # OUT (ROWS_AT_ONCE, N_BLOCK) addresses, and what is added to the two numbers of a cell
) -> None:
    """Write down what does not depend on the feature; an odd row gets a companion that adds nothing."""
    n, is_far = uint64(last - first), dense.codes.size > FAR
    for q in range(n):
        p = uint64(first) + q
        block[q, ADDRESS] = dense.address[uint64(rows[p])]
        if is_far:
            prefetch(dense.codes, uint64(block[q, ADDRESS]))
        block[q, ADDENDS], block[q, ADDENDS + 1] = _addends(sums[p], addition)
    if n % uint64(2) == 1:
        block[n, ADDRESS] = block[n - uint64(1), ADDRESS]
        block[n, ADDENDS], block[n, ADDENDS + 1] = 0, 0


@inlined
def _add_six(
    dense: DenseColumns,
    n: int,  # IN positions
    f: int,  # IN first of six features of one run
    block: NDArray[np.int64],  # IN (ROWS_AT_ONCE, N_BLOCK)
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to the cells of six neighbouring features: their first cells stay in registers."""
    start, two = dense.cell_start, uint64(2)
    starts = (
        two * uint64(start[f]), two * uint64(start[f + 1]), two * uint64(start[f + 2]),
        two * uint64(start[f + 3]), two * uint64(start[f + 4]), two * uint64(start[f + 5]),
    )  # fmt: skip
    for q in range(uint64(0), uint64(n), two):
        add_two_rows(histogram, starts, dense.codes, uint64(dense.displacement[f]), block, q)


@inlined
def _add_features(
    dense: DenseColumns,
    rows: NDArray[np.int32],  # IN positions
    sums: NDArray[np.int64],  # IN
    first: int,  # IN the part of the two arrays above
    last: int,  # IN
    addition: Addition,
    first_feature: int,  # IN features of one run
    last_feature: int,  # IN
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to the cells of neighbouring features.

    Rows are taken four at a time: their cells rarely coincide, so the processor can work on all of them at once.
    """
    codes, address, cell_start = dense.codes, dense.address, dense.cell_start
    shift = dense.displacement[first_feature] - first_feature
    one, stop = uint64(1), uint64(last_feature)
    last_four = last - (last - first) % 4
    for p in range(first, last_four, 4):
        g0, h0 = _addends(sums[p], addition)
        g1, h1 = _addends(sums[p + 1], addition)
        g2, h2 = _addends(sums[p + 2], addition)
        g3, h3 = _addends(sums[p + 3], addition)
        here0, here1 = uint64(address[rows[p]] + shift), uint64(address[rows[p + 1]] + shift)
        here2, here3 = uint64(address[rows[p + 2]] + shift), uint64(address[rows[p + 3]] + shift)
        for f in range(uint64(first_feature), stop):
            cell = uint64(cell_start[f])
            add_pair(histogram, (cell + uint64(codes[here0 + f])) << one, g0, h0)
            add_pair(histogram, (cell + uint64(codes[here1 + f])) << one, g1, h1)
            add_pair(histogram, (cell + uint64(codes[here2 + f])) << one, g2, h2)
            add_pair(histogram, (cell + uint64(codes[here3 + f])) << one, g3, h3)
    for p in range(last_four, last):
        g0, h0 = _addends(sums[p], addition)
        here0 = uint64(address[rows[p]] + shift)
        for f in range(uint64(first_feature), stop):
            add_pair(histogram, (uint64(cell_start[f]) + uint64(codes[here0 + f])) << one, g0, h0)


@inner
def add_sparse(
    sparse: SparseColumns,
    n_dense_cells: int,  # IN
    rows: NDArray[np.int32],  # IN positions
    sums: NDArray[np.int64],  # IN their sums over contexts, packed
    first: int,  # IN
    last: int,  # IN
    addition: Addition,
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to the cells of the slots they carry: the cost is the number of entries."""
    padded_row, indptr, indices, offset = sparse.padded_row, sparse.indptr, sparse.indices, sparse.offset
    n_slots = np.int64(sparse.slot_start[sparse.slot_start.size - 1])
    for p in range(first, last):
        g, h = _addends(sums[p], addition)
        for o in range(offset.size):
            row = padded_row[rows[p]] + offset[o]
            shift = n_dense_cells + o * n_slots
            for q in range(indptr[row], indptr[row + 1]):
                add_pair(histogram, np.uint64(shift + indices[q]) << np.uint64(1), g, h)


@inner
def clear(
    histogram: NDArray[np.int64],  # OUT (2 * n_cells,)
) -> None:
    """Set all cells to zero."""
    for b in range(histogram.size):
        histogram[b] = 0


@inner
def subtract(
    parent: NDArray[np.int64],  # IN/OUT (2 * n_cells,) becomes the sibling
    child: NDArray[np.int64],  # IN (2 * n_cells,)
    shared: int,  # IN bits of H·2^s + n that are shared out: all (−1), or all but those of n (−2^s)
) -> None:
    """Turn a parent's histogram into that of the other child.

    After a split of contexts both children hold the same positions, so the numbers of positions stay. Positions that
    the sibling does not hold (at the starts of sequences) are taken out by the caller.
    """
    for b in range(0, parent.size, 2):
        parent[b] -= child[b]
        parent[b + 1] -= child[b + 1] & shared


@inner
def remove_counts(
    dense: DenseColumns,
    sparse: SparseColumns,
    row: int,  # IN a position
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Take one position out of the counts (its derivatives are zero there already)."""
    for f in range(dense.displacement.size):
        b = dense.cell_start[f] + dense.codes[dense.address[row] + dense.displacement[f]]
        histogram[2 * b + 1] -= 1
    n_slots = np.int64(sparse.slot_start[sparse.slot_start.size - 1])
    for o in range(sparse.offset.size if n_slots > 0 else 0):
        padded = sparse.padded_row[row] + sparse.offset[o]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            b = dense.cell_start[dense.cell_start.size - 1] + o * n_slots + sparse.indices[q]
            histogram[2 * b + 1] -= 1
