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

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner, reassociating
from seqboost.trees.integers import HALF, uint64
from seqboost.trees.vectors import add_rows_to_context, add_rows_to_four, add_rows_to_two

__all__ = [
    "Planes",
    "Scales",
    "add_contexts",
    "block_end",
    "choose_scales",
    "curvature_of",
    "gradient_of",
    "quantise",
    "row_sums",
    "totals",
]

ROW_BITS = 30
CELLS_AT_ONCE, FEWEST_AT_ONCE = 1024, 8
"""Cells, in whole rows but not fewer than so many, that are written and summed while the processor has them at hand."""


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
def block_end(
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    n_contexts: int,  # IN
) -> int:
    """Return the end of the block that begins with ``rows[first]``: a few rows that lie side by side in memory."""
    end = min(first + max(FEWEST_AT_ONCE, CELLS_AT_ONCE // n_contexts), last)
    n = 1
    while first + n < end and rows[uint64(first + n)] == rows[uint64(first)] + n:
        n += 1
    return first + n


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
    """Sum the cells of rows over all contexts, four at a time; those that do not exist at a row hold zero."""
    n = uint64(cells.shape[1])
    one, two, three, four = uint64(1), uint64(2), uint64(3), uint64(4)
    for p in range(uint64(first), uint64(last)):
        i = uint64(rows[p])
        total = np.int64(0)
        for c in range(uint64(0), n - n % four, four):
            total += (cells[i, c] + cells[i, c + one]) + (cells[i, c + two] + cells[i, c + three])
        for c in range(n - n % four, n):
            total += cells[i, c]
        sums[p] = total


@inner
def add_contexts(
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN the part of ``rows``
    last: int,  # IN
    by_context: NDArray[np.int64],  # IN/OUT (2, n_extended) sums of gradient and of curvature per extended context
    types: NDArray[np.int64],  # IN/OUT (order + 1,) positions of each type
) -> None:
    """Add rows to the sums per extended context, four at a time so that sums are fetched and stored less often."""
    flat, sums, n = cells.reshape(-1), by_context.reshape(-1), uint64(cells.shape[1])
    gradient = uint64(space.base[space.base.size - 1])
    curvature = gradient + uint64(by_context.shape[1])
    one, two, three, four = uint64(1), uint64(2), uint64(3), uint64(4)
    n_fours, last_four = n - n % four, last - (last - first) % 4
    for p in range(uint64(first), uint64(last_four), four):
        starts = (
            n * uint64(rows[p]), n * uint64(rows[p + one]), n * uint64(rows[p + two]), n * uint64(rows[p + three])
        )  # fmt: skip
        for c in range(uint64(0), n_fours, four):
            add_rows_to_four(sums, gradient, curvature, flat, starts, c)
        if n & two:
            add_rows_to_two(sums, gradient, curvature, flat, starts, n_fours)
        if n & one:
            add_rows_to_context(sums, gradient, curvature, flat, starts, n - one)
    for p in range(uint64(last_four), uint64(last)):
        for c in range(n):
            cell = cells[uint64(rows[p]), c]
            sums[gradient + c] += gradient_of(cell)
            sums[curvature + c] += curvature_of(cell)
    _sort_out_starts(cells, space, rows, first, last, by_context, types)


@inlined
def _sort_out_starts(
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    by_context: NDArray[np.int64],  # IN/OUT (2, n_extended)
    types: NDArray[np.int64],  # IN/OUT (order + 1,)
) -> None:
    """Count the rows by type, and move those near the starts of sequences, a few, to the contexts that they have."""
    order = space.base.size - 1
    row_type, full, base = space.row_type, np.uint8(order), uint64(space.base[order])
    types[order] += last - first
    p, stop = uint64(first), uint64(last if order > 0 else first)
    while True:
        while p < stop and row_type[uint64(rows[p])] == full:
            p += uint64(1)
        if p == stop:
            return
        i = uint64(rows[p])
        t = row_type[i]
        types[t] += 1
        types[order] -= 1
        for c in range(uint64(cells.shape[1])):
            by_context[0, base + c] -= gradient_of(cells[i, c])
            by_context[1, base + c] -= curvature_of(cells[i, c])
        own = uint64(space.base[t])
        for c in range(uint64(space.n_contexts_of[t])):
            by_context[0, own + c] += gradient_of(cells[i, c])
            by_context[1, own + c] += curvature_of(cells[i, c])
        p += uint64(1)
