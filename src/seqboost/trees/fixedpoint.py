"""From a label's plane of derivatives to the fixed-point numbers that trees are grown on.

A cell (t, c) has gradient Δ and curvature h; they enter all sums as

    q(Δ) = ⌊Δ·2^a + ½⌋          q(h) = ⌊h·2^b + ½⌋

with the largest powers of two for which a row's sum over contexts fits 30 bits and all sums together fit an int64
beside the count of positions (``count_bits``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inner, jit, reassociating
from seqboost.trees.space import Space

__all__ = ["Scales", "add_contexts", "choose_scales", "quantise", "row_sums", "totals"]

ROW_BITS = 30


class Scales(NamedTuple):
    """How gradients and curvatures are written in fixed point."""

    gradient: float  # 2^a
    curvature: float  # 2^b
    count_bits: int  # s: curvature cells hold H·2^s + n


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


@jit
def quantise(
    gradient: NDArray[np.float32],  # IN (n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_rows, n_contexts)
    scales: Scales,
    cells: NDArray[np.int32],  # OUT (n_rows, 2 * n_contexts) a row's gradients, then its curvatures
) -> None:
    """Write a label's derivatives in fixed point."""
    n_contexts = gradient.shape[1]
    a, b, half = np.float32(scales.gradient), np.float32(scales.curvature), np.float32(0.5)
    for i in range(gradient.shape[0]):
        for c in range(n_contexts):
            cells[i, c] = np.int32(np.floor(gradient[i, c] * a + half))
        for c in range(n_contexts):
            cells[i, n_contexts + c] = np.int32(np.floor(hessian[i, c] * b + half))


@inner
def row_sums(
    cells: NDArray[np.int32],  # IN (n_rows, 2 * n_contexts)
    mask: NDArray[np.int32],  # IN (n_extended,) −1 for the node's contexts, 0 for others
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    row_gradient: NDArray[np.int32],  # OUT Σ_c q(Δ) over the node's contexts
    row_curvature: NDArray[np.int32],  # OUT Σ_c q(h)
    first: int,  # IN the part of the three arrays above
    last: int,  # IN
) -> None:
    """Sum the fixed-point derivatives of rows over the contexts of a node."""
    order = space.base.size - 1
    n_contexts = cells.shape[1] // 2
    for p in range(first, last):
        i = rows[p]
        j = space.row_type[i]
        base = space.base[j]
        g = np.int32(0)
        h = np.int32(0)
        for c in range(n_contexts if j == order else space.n_contexts_of[j]):
            g += cells[i, c] & mask[base + c]
            h += cells[i, n_contexts + c] & mask[base + c]
        row_gradient[p] = g
        row_curvature[p] = h


@inner
def add_contexts(
    cells: NDArray[np.int32],  # IN (n_rows, 2 * n_contexts)
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    inside: NDArray[np.int64],  # SCRATCH (2 * n_contexts,)
    sums: NDArray[np.int64],  # OUT (2, n_extended) sums of gradient and of curvature per extended context
) -> None:
    """Sum rows per extended context."""
    order = space.base.size - 1
    n_contexts = cells.shape[1] // 2
    for c in range(2 * n_contexts):
        inside[c] = 0
    for p in range(first, last):
        i = rows[p]
        for c in range(2 * n_contexts):
            inside[c] += cells[i, c]
    for e in range(sums.shape[1]):
        sums[0, e] = 0
        sums[1, e] = 0
    for p in range(first, last if order > 0 else first):
        i = rows[p]
        j = space.row_type[i]
        if j < order:  # few: near the starts of sequences other contexts exist
            for c in range(n_contexts):
                inside[c] -= cells[i, c]
                inside[n_contexts + c] -= cells[i, n_contexts + c]
            for c in range(space.n_contexts_of[j]):
                sums[0, space.base[j] + c] += cells[i, c]
                sums[1, space.base[j] + c] += cells[i, n_contexts + c]
    for c in range(n_contexts):
        sums[0, space.base[order] + c] = inside[c]
        sums[1, space.base[order] + c] = inside[n_contexts + c]
