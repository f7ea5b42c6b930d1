"""Histograms of weighted rows: cells as in :mod:`seqboost.trees.histogram`, with weights in place of counts.

::

    2b      G            Σ of the fixed-point gradients, times weights
    2b+1    H·2^s + n    Σ of the fixed-point curvatures, times weights, shifted; below them Σ of the weights
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.trees.fixedpoint import Planes, Scales, curvature_of, gradient_of
from seqboost.trees.histogram import ROWS_AT_ONCE, DenseColumns, SparseColumns
from seqboost.trees.integers import int64, uint64
from seqboost.trees.vectors import add_pair
from seqboost.trees.weighted_rows import WeightedRows

__all__ = ["add_weighted", "add_weighted_contexts", "count_values", "remove_weights"]


# Blocks of 64 KiB of cells, about twice an innermost cache, measured best: smaller ones fetch rows more often.
CELLS_AT_ONCE = 4096


@inner
def _addends(packed: int, count: int, count_bits: int) -> tuple[int, int]:
    """Return what one position adds to the two numbers of a cell."""
    return gradient_of(packed), (curvature_of(packed) << count_bits) + count


@inner
def add_weighted(
    dense: DenseColumns,
    sparse: SparseColumns,
    segments: WeightedRows,  # IN
    first: int,  # IN the part of them
    last: int,  # IN
    count_bits: int,  # IN s
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to the cells, as ``add_dense`` and ``add_sparse`` do."""
    run_start, cell_start = dense.run_start, dense.cell_start
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        for r in range(run_start.size - 1):
            f = run_start[r]
            while f < run_start[r + 1]:
                stop = f + 1
                while stop < run_start[r + 1] and cell_start[stop + 1] - cell_start[f] <= CELLS_AT_ONCE:
                    stop += 1
                _add_features(dense, segments, begin, end, count_bits, f, stop, histogram)
                f = stop
    rows, sums, _, units = segments
    n_dense_cells = cell_start[cell_start.size - 1]
    n_slots = np.int64(sparse.slot_start[sparse.slot_start.size - 1])
    for p in range(first, last if n_slots > 0 else first):
        g, h = _addends(sums[p], int64(units[p]), count_bits)
        for o in range(sparse.offset.size):
            row = sparse.padded_row[rows[p]] + sparse.offset[o]
            shift = n_dense_cells + o * n_slots
            for q in range(sparse.indptr[row], sparse.indptr[row + 1]):
                add_pair(histogram, np.uint64(shift + sparse.indices[q]) << np.uint64(1), g, h)


@inlined
def _add_features(
    dense: DenseColumns,
    segments: WeightedRows,  # IN
    first: int,  # IN the part of them
    last: int,  # IN
    count_bits: int,  # IN s
    first_feature: int,  # IN features of one run
    last_feature: int,  # IN
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Add positions to the cells of neighbouring features, four at a time."""
    codes, address, cell_start = dense.codes, dense.address, dense.cell_start
    rows, sums, units = segments.rows, segments.sums, segments.units
    shift = dense.displacement[first_feature] - first_feature
    one, stop = uint64(1), uint64(last_feature)
    last_four = last - (last - first) % 4
    for p in range(first, last_four, 4):
        g0, h0 = _addends(sums[p], int64(units[p]), count_bits)
        g1, h1 = _addends(sums[p + 1], int64(units[p + 1]), count_bits)
        g2, h2 = _addends(sums[p + 2], int64(units[p + 2]), count_bits)
        g3, h3 = _addends(sums[p + 3], int64(units[p + 3]), count_bits)
        here0, here1 = uint64(address[rows[p]] + shift), uint64(address[rows[p + 1]] + shift)
        here2, here3 = uint64(address[rows[p + 2]] + shift), uint64(address[rows[p + 3]] + shift)
        for f in range(uint64(first_feature), stop):
            cell = uint64(cell_start[f])
            add_pair(histogram, (cell + uint64(codes[here0 + f])) << one, g0, h0)
            add_pair(histogram, (cell + uint64(codes[here1 + f])) << one, g1, h1)
            add_pair(histogram, (cell + uint64(codes[here2 + f])) << one, g2, h2)
            add_pair(histogram, (cell + uint64(codes[here3 + f])) << one, g3, h3)
    for p in range(last_four, last):
        g0, h0 = _addends(sums[p], int64(units[p]), count_bits)
        here0 = uint64(address[rows[p]] + shift)
        for f in range(uint64(first_feature), stop):
            add_pair(histogram, (uint64(cell_start[f]) + uint64(codes[here0 + f])) << one, g0, h0)


@inner
def count_values(
    dense: DenseColumns,
    sparse: SparseColumns,
    segments: WeightedRows,  # IN
    mark: NDArray[np.uint8],  # IN (last - first,)
    side: int,  # IN which positions count
    first: int,  # IN
    last: int,  # IN
    table: NDArray[np.int64],  # OUT (n_cells,)
) -> int:
    """Sum the weights of the positions that go to one side by their values; return that of all."""
    for b in range(table.size):
        table[b] = 0
    rows, units, codes, cell_start = segments.rows, segments.units, dense.codes, dense.cell_start
    total = int64(0)
    n_dense_cells = cell_start[cell_start.size - 1]
    n_slots = np.int64(sparse.slot_start[sparse.slot_start.size - 1])
    for p in range(first, last):
        if mark[p - first] != side:
            continue
        n = int64(units[p])
        total += n
        address = dense.address[rows[p]]
        for r in range(dense.run_start.size - 1):
            here = uint64(address + dense.displacement[dense.run_start[r]] - dense.run_start[r])
            for f in range(uint64(dense.run_start[r]), uint64(dense.run_start[r + 1])):
                table[uint64(cell_start[f]) + uint64(codes[here + f])] += n
        for o in range(sparse.offset.size if n_slots > 0 else 0):
            row = sparse.padded_row[rows[p]] + sparse.offset[o]
            for q in range(sparse.indptr[row], sparse.indptr[row + 1]):
                table[n_dense_cells + o * n_slots + sparse.indices[q]] += n
    return total


@inner
def add_weighted_contexts(
    planes: Planes,
    scales: Scales,
    space: Space,
    segments: WeightedRows,  # IN
    first: int,  # IN the part of them
    last: int,  # IN
    sums: NDArray[np.float64],  # IN/OUT (2, n_extended) sums of gradient and of curvature per extended context
) -> None:
    """Add positions, times their weights, to the sums per extended context, in units of fixed point.

    Four at a time, as if all contexts existed at each; then what belongs to others is moved.
    """
    rows, weight, gradient, hessian = segments.rows, segments.weight, planes.gradient, planes.hessian
    order, n_contexts = space.base.size - 1, uint64(planes.n_contexts)
    base = uint64(space.base[order])
    a, b = scales.gradient, scales.curvature
    last_four = last - (last - first) % 4
    one, two, three = uint64(1), uint64(2), uint64(3)
    for p in range(uint64(first), uint64(last_four), uint64(4)):
        w0, w1, w2, w3 = weight[p] * 1.0, weight[p + one] * 1.0, weight[p + two] * 1.0, weight[p + three] * 1.0
        i0, i1 = uint64(rows[p]) * n_contexts, uint64(rows[p + one]) * n_contexts
        i2, i3 = uint64(rows[p + two]) * n_contexts, uint64(rows[p + three]) * n_contexts
        for c in range(n_contexts):
            sums[0, base + c] += a * (
                w0 * gradient[i0 + c] + w1 * gradient[i1 + c] + w2 * gradient[i2 + c] + w3 * gradient[i3 + c]
            )
            sums[1, base + c] += b * (
                w0 * hessian[i0 + c] + w1 * hessian[i1 + c] + w2 * hessian[i2 + c] + w3 * hessian[i3 + c]
            )
    for p in range(uint64(last_four), uint64(last)):
        i, w = uint64(rows[p]) * n_contexts, weight[p] * 1.0
        for c in range(n_contexts):
            sums[0, base + c] += a * (w * gradient[i + c])
            sums[1, base + c] += b * (w * hessian[i + c])
    for p in range(uint64(first), uint64(last if order > 0 else first)):
        t = space.row_type[uint64(rows[p])]
        if t < order:  # few: near the starts of sequences other contexts exist
            i, w, here = uint64(rows[p]) * n_contexts, weight[p] * 1.0, uint64(space.base[t])
            for c in range(uint64(space.n_contexts_of[t])):
                sums[0, base + c] -= a * (w * gradient[i + c])
                sums[1, base + c] -= b * (w * hessian[i + c])
                sums[0, here + c] += a * (w * gradient[i + c])
                sums[1, here + c] += b * (w * hessian[i + c])


@inner
def remove_weights(
    dense: DenseColumns,
    sparse: SparseColumns,
    row: int,  # IN a position
    count: int,  # IN its weight
    histogram: NDArray[np.int64],  # IN/OUT (2 * n_cells,)
) -> None:
    """Take one position out of the weights (its derivatives are zero there already)."""
    for f in range(dense.displacement.size):
        b = dense.cell_start[f] + dense.codes[dense.address[row] + dense.displacement[f]]
        histogram[2 * b + 1] -= count
    n_slots = np.int64(sparse.slot_start[sparse.slot_start.size - 1])
    for o in range(sparse.offset.size if n_slots > 0 else 0):
        padded = sparse.padded_row[row] + sparse.offset[o]
        for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
            b = dense.cell_start[dense.cell_start.size - 1] + o * n_slots + sparse.indices[q]
            histogram[2 * b + 1] -= count
