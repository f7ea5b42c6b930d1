"""From a label's plane of derivatives to the fixed-point numbers that trees are grown on.

A cell (t, c) has gradient Δ and curvature h; they enter all sums as

    q(Δ) = ⌊Δ·2^a + ½⌋          q(h) = ⌊h·2^b + ½⌋

with the largest powers of two for which a row's sum over contexts fits 30 bits and all sums together fit an int64 beside
the count of positions (``count_bits``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from seqboost._jit import inner, jit

__all__ = ["Scales", "add_contexts", "choose_scales", "quantise", "row_sums", "totals"]

ROW_BITS = 30


class Scales(NamedTuple):
    """How gradients and curvatures are written in fixed point."""

    gradient: float  # 2^a
    curvature: float  # 2^b
    count_bits: int  # s: curvature cells hold H·2^s + n


@jit
def totals(
    gradient,  # IN (n_rows, n_contexts) float32
    hessian,  # IN (n_rows, n_contexts) float32
    rows,  # IN int32
    n_fitted,  # IN the first so many rows count
):
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
        total += sum_hessian
        largest_gradient = max(largest_gradient, sum_gradient)
        largest_hessian = max(largest_hessian, sum_hessian)
    return largest_gradient, largest_hessian, total


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
    plane,  # IN (n_rows, n_contexts) float32
    scale,  # IN 2^a
    out,  # OUT (n_rows, n_contexts) int32
):
    """Write a plane in fixed point."""
    flat, result = plane.ravel(), out.ravel()
    factor, half = np.float32(scale), np.float32(0.5)
    for b in range(flat.size):
        result[b] = np.int32(np.floor(flat[b] * factor + half))


@inner
def row_sums(
    gradient,  # IN (n_rows, n_contexts) int32
    curvature,  # IN (n_rows, n_contexts) int32
    mask,  # IN (n_extended,) int32: −1 for the node's contexts, 0 for others
    space,  # IN Space
    rows,  # IN int32
    row_gradient,  # OUT int32 Σ_c q(Δ) over the node's contexts
    row_curvature,  # OUT int32 Σ_c q(h)
    first,  # IN the part of the three arrays above
    last,  # IN
):
    """Sum the fixed-point derivatives of rows over the contexts of a node."""
    order = space.base.size - 1
    n_contexts = gradient.shape[1]
    mask_inside = mask[space.base[order] :]
    for p in range(first, last):
        i = rows[p]
        g = np.int32(0)
        h = np.int32(0)
        for c in range(n_contexts):
            g += gradient[i, c] & mask_inside[c]
            h += curvature[i, c] & mask_inside[c]
        row_gradient[p] = g
        row_curvature[p] = h
    for p in range(first, last if order > 0 else first):
        i = rows[p]
        j = space.row_type[i]
        if j < order:  # few: near the starts of sequences other contexts exist
            g = np.int32(0)
            h = np.int32(0)
            for c in range(space.n_contexts_of[j]):
                g += gradient[i, c] & mask[space.base[j] + c]
                h += curvature[i, c] & mask[space.base[j] + c]
            row_gradient[p] = g
            row_curvature[p] = h


@inner
def add_contexts(
    plane,  # IN (n_rows, n_contexts) int32
    space,  # IN Space
    rows,  # IN int32
    first,  # IN
    last,  # IN
    sums,  # IN/OUT (n_extended,) int64
):
    """Add rows to the sums per extended context."""
    order = space.base.size - 1
    n_contexts = plane.shape[1]
    inside = sums[space.base[order] :]
    for p in range(first, last):
        i = rows[p]
        for c in range(n_contexts):
            inside[c] += plane[i, c]
    for p in range(first, last if order > 0 else first):
        i = rows[p]
        j = space.row_type[i]
        if j < order:  # few: near the starts of sequences other contexts exist
            for c in range(space.n_contexts_of[j]):
                inside[c] -= plane[i, c]
                sums[space.base[j] + c] += plane[i, c]
