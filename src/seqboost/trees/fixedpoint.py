"""From a label's plane of derivatives to the fixed-point numbers that trees are grown on.

A cell (t, c) has gradient Δ and curvature h; they enter all sums as

    q(Δ) = ⌊Δ·2^a + ½⌋          q(h) = ⌊h·2^b + ½⌋

with the largest powers of two for which a row's sum over contexts fits 30 bits and all sums together fit an int64
beside the count of positions (``count_bits``). Both stand in one number,

    q(h)·2^32 + q(Δ)

and so do a row's sums over contexts: one addition adds two sums, and their parts can be told apart again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inner, reassociating
from seqboost.trees.integers import uint64
from seqboost.trees.space import Space

__all__ = [
    "Planes",
    "Scales",
    "add_contexts",
    "choose_scales",
    "curvature_of",
    "gradient_of",
    "quantise",
    "row_sums",
    "run_length",
    "totals",
]

ROW_BITS = 30
HALF = 32  # bits of a packed number's lower half


class Scales(NamedTuple):
    """How gradients and curvatures are written in fixed point."""

    gradient: float  # 2^a
    curvature: float  # 2^b
    count_bits: int  # s: curvature cells hold H·2^s + n
    unit: int = 1  # what one position of full weight adds to n


class Planes(NamedTuple):
    """A label's derivatives as they come (zero where a context does not exist) and in fixed point, row by row."""

    n_contexts: int
    gradient: NDArray[np.float32]  # (n_rows * n_contexts,) Δ
    hessian: NDArray[np.float32]  # (n_rows * n_contexts,) h
    cells: NDArray[np.int64]  # (n_rows * n_contexts,)


@reassociating
def totals(
    gradient: NDArray[np.float32],  # IN (n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_rows, n_contexts)
    rows: NDArray[np.int32],  # IN positions
    n_fitted: int,  # IN the first so many rows count
) -> tuple[float, float, float]:
    """Return max_t Σ_c |Δ|, max_t Σ_c h and Σ_t Σ_c h: what the scales depend on."""
    largest_gradient = np.float32(0.0)
    largest_hessian = np.float32(0.0)
    total = 0.0
    for p in range(n_fitted):
        i = rows[p]
        sum_gradient = np.float32(0.0)
        sum_hessian = np.float32(0.0)
        for c in range(gradient.shape[1]):
            sum_gradient += abs(gradient[i, c])
            sum_hessian += hessian[i, c]
        total += float(sum_hessian)
        largest_gradient = max(largest_gradient, sum_gradient)
        largest_hessian = max(largest_hessian, sum_hessian)
    return float(largest_gradient), float(largest_hessian), total


def choose_scales(largest_gradient: float, largest_hessian: float, total_hessian: float, n_rows: int) -> Scales:
    """Choose the powers of two from what :func:`totals` returns."""
    count_bits = int(n_rows).bit_length()
    gradient_bits = ROW_BITS - _exponent(largest_gradient)
    curvature_bits = min(ROW_BITS - _exponent(largest_hessian), 61 - count_bits - _exponent(total_hessian))
    return Scales(math.ldexp(1.0, gradient_bits), math.ldexp(1.0, curvature_bits), count_bits)


def _exponent(x: float) -> int:
    """Return the e with x < 2^e, within what float32 can scale."""
    return min(max(math.frexp(x)[1], -90), 160) if x > 0 else 0


@inner
def gradient_of(packed: int) -> int:
    """Return the gradient of a cell, or of a row's sum of cells: the lower half, with its sign."""
    return (packed << HALF) >> HALF


@inner
def curvature_of(packed: int) -> int:
    """Return the curvature of a cell, or of a row's sum of cells."""
    return (packed - gradient_of(packed)) >> HALF


@inner
def run_length(
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
) -> int:
    """Return how many of ``rows[first:last]`` lie side by side in memory, from the first on."""
    n = 1
    while first + n < last and rows[uint64(first + n)] == rows[uint64(first)] + n:
        n += 1
    return n


@inner
def quantise(
    planes: Planes,
    scales: Scales,
    first: int,  # IN first row
    n_rows: int,  # IN
) -> None:
    """Write the derivatives of rows that lie side by side in fixed point, as if they were one: contexts may be few."""
    gradient, hessian, cells = planes.gradient, planes.hessian, planes.cells
    a, b, half = np.float32(scales.gradient), np.float32(scales.curvature), np.float32(0.5)
    begin = uint64(first * planes.n_contexts)
    for q in range(begin, begin + uint64(n_rows * planes.n_contexts)):
        g = np.int32(np.floor(gradient[q] * a + half))
        h = np.int32(np.floor(hessian[q] * b + half))
        cells[q] = (np.int64(h) << HALF) + np.int64(g)


@inner
def row_sums(
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN the part of ``rows`` and ``sums``
    last: int,  # IN
    sums: NDArray[np.int64],  # OUT Σ_c of each row
) -> None:
    """Sum the cells of rows over all contexts; those that do not exist at a row hold zero."""
    for p in range(uint64(first), uint64(last)):
        i = uint64(rows[p])
        total = np.int64(0)
        for c in range(cells.shape[1]):
            total += cells[i, c]
        sums[p] = total


@inner
def add_contexts(
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN the part of ``rows``
    last: int,  # IN
    sums: NDArray[np.int64],  # IN/OUT (2, n_extended) sums of gradient and of curvature per extended context
) -> None:
    """Add rows to the sums per extended context, four at a time so that sums are fetched and stored less often."""
    order = space.base.size - 1
    n_contexts = cells.shape[1]
    gradient, curvature = sums[0, space.base[order] :], sums[1, space.base[order] :]
    last_four = last - (last - first) % 4
    for p in range(uint64(first), uint64(last_four), uint64(4)):
        i0, i1 = uint64(rows[p]), uint64(rows[p + uint64(1)])
        i2, i3 = uint64(rows[p + uint64(2)]), uint64(rows[p + uint64(3)])
        for c in range(n_contexts):
            cell0, cell1, cell2, cell3 = cells[i0, c], cells[i1, c], cells[i2, c], cells[i3, c]
            gradient[c] += gradient_of(cell0) + gradient_of(cell1) + gradient_of(cell2) + gradient_of(cell3)
            curvature[c] += curvature_of(cell0) + curvature_of(cell1) + curvature_of(cell2) + curvature_of(cell3)
    for p in range(uint64(last_four), uint64(last)):
        for c in range(n_contexts):
            cell = cells[uint64(rows[p]), c]
            gradient[c] += gradient_of(cell)
            curvature[c] += curvature_of(cell)
    for p in range(uint64(first), uint64(last if order > 0 else first)):
        i = uint64(rows[p])
        t = space.row_type[i]
        if t < order:  # few: near the starts of sequences other contexts exist
            for c in range(n_contexts):
                gradient[c] -= gradient_of(cells[i, c])
                curvature[c] -= curvature_of(cells[i, c])
            for c in range(space.n_contexts_of[t]):
                sums[0, space.base[t] + c] += gradient_of(cells[i, c])
                sums[1, space.base[t] + c] += curvature_of(cells[i, c])
