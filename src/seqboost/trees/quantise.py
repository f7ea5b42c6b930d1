"""From derivatives to the integers that trees are grown on.

A tree for D outputs (one label, or several) adds up, for each cell of a histogram, a vector of integers::

    [ g_1 … g_D | h_1 … h_D | n | lost | 0 … ]          *lanes*, padded to a multiple of four

with the gradient q(Δ) and the curvature q(h) of each output, the number of positions, and how many of them the sibling
of the node does not hold (:mod:`seqboost.trees.grow`). Derivatives are written as

    q(x) = x·2^a, rounded

with the largest a for which Σ_t Σ_c |x|·2^a < 2^30, so that every sum over any rows and contexts fits an int32. Sums
are exact: they depend neither on the order of rows nor on threads, and *parent − child = sibling* holds to the bit.

Each output has scales of its own: those of a rare label are fine. With more than ``MAX_DECIDING`` labels only some of
them decide on the splits of a tree, drawn anew for each in proportion to Σ_t Σ_c |Δ| (a sketch of the outputs, after
Iosipoi and Vakhrushev 2022, "SketchBoost: fast gradient boosted decision tree for multioutput problems").
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, int64, jit, reassociating, uint64
from seqboost.core.threads import run_tasks

__all__ = ["MAX_DECIDING", "Rounded", "Units", "choose_units", "draw_labels", "n_lanes", "round_derivatives"]

# NETtalk, 134 labels: with 32 of them deciding as good as with all, with 16 a point worse after 100 rounds.
MAX_DECIDING = 32

SUM_BITS = 30
LARGEST = 1e300  # λ in units of curvature must stay finite
MAX_ROUNDED_CELLS = 1 << 29  # beyond that many cells, rounding up could carry a sum out of its bits
LABELS_PER_TASK = 16
ROWS_PER_TASK = 4096
CELLS_AT_ONCE = 256


class Units(NamedTuple):
    """What an integer one of each output stands for, and the same for the criterion.

    With g and h in integers, G²/(H+λ) = weight·g²/(h+penalty).
    """

    gradient: NDArray[np.float64]  # (n_outputs,) 2^−a
    curvature: NDArray[np.float64]  # (n_outputs,) 2^−b
    weight: NDArray[np.float64]  # (n_outputs,) 2^−2a / 2^−b
    penalty: NDArray[np.float64]  # (n_outputs,) λ / 2^−b


class Rounded(NamedTuple):
    """The derivatives of all rows as integers."""

    cells: NDArray[np.int32]  # (n_rows, n_contexts, 2 * n_outputs) of each context; no rows if there is but one
    vectors: NDArray[np.int32]  # (n_rows, n_lanes) summed over all contexts
    node_vectors: NDArray[np.int32]  # (n_rows, n_lanes) of one node's rows, in their order, summed over its contexts


def n_lanes(n_outputs: int) -> int:
    """Return the length of a vector: gradients, curvatures and two counts, padded to a multiple of four."""
    return -(-(2 * n_outputs + 2) // 4) * 4


@reassociating
def _output_sums(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    rows: NDArray[np.int32],  # IN positions
    n_fitted: int,  # IN the first of them count
    first: int,  # IN labels
    last: int,  # IN
    sums: NDArray[np.float64],  # OUT (2, n_labels) Σ |Δ| and Σ h
) -> None:
    """Sum what the scales of int32 sums depend on."""
    flat_gradient, flat_hessian = gradient.reshape(-1), hessian.reshape(-1)
    n_contexts, n = gradient.shape[2], gradient.shape[1] * gradient.shape[2]
    for k in range(first, last):
        sum_gradient, sum_hessian = 0.0, 0.0
        p = 0
        while p < n_fitted:  # a stretch of rows that follow one another
            begin = p
            p += 1
            while p < n_fitted and rows[p] == rows[begin] + p - begin:
                p += 1
            at = uint64(k * n + rows[begin] * n_contexts)
            for q in range(at, at + uint64((p - begin) * n_contexts)):
                sum_gradient += abs(float(flat_gradient[q]))
                sum_hessian += float(flat_hessian[q])
        sums[0, k] = sum_gradient
        sums[1, k] = sum_hessian


@jit
def _fill_units(
    sums: NDArray[np.float64],  # IN (2, n_labels) Σ |Δ| and Σ h
    labels: NDArray[np.int64],  # IN (n_outputs,)
    lam: float,  # IN λ
    units: Units,  # OUT
) -> None:
    """Choose the scales: the largest powers of two for which sums stay below 2^30, as far as float32 can scale."""
    for k in range(labels.size):
        for side in range(2):
            total = sums[side, labels[k]]
            exponent = min(max(math.frexp(total)[1], -90), 150) if total > 0 else 0
            unit = math.ldexp(1.0, int(exponent - SUM_BITS))
            if side == 0:
                units.gradient[k] = unit
            else:
                units.curvature[k] = unit
        units.weight[k] = units.gradient[k] * units.gradient[k] / units.curvature[k]
        units.penalty[k] = lam / max(units.curvature[k], lam / LARGEST)


def choose_units(
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
    rows: NDArray[np.int32],
    n_fitted: int,
    l2_regularization: float,
    *,
    n_deciding: int,
    seed: int,
    n_threads: int,
) -> tuple[Units, NDArray[np.int64]]:
    """Choose the labels that decide on splits and the scales of their derivatives.

    Parameters
    ----------
    gradient, hessian : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
        Derivatives of all labels.
    rows : ndarray of int32
        Positions; the first ``n_fitted`` count, in rising order.
    n_fitted : int
        Number of positions that the tree is fitted to.
    l2_regularization : float
        λ.
    n_deciding : int
        Number of labels that decide.
    seed : int
        Seed of the labels drawn.
    n_threads : int
        Number of threads.

    Returns
    -------
    units : Units
    labels : ndarray of int64 of shape (n_deciding,)
        The labels that decide, in rising order.
    """
    n_labels = len(gradient)
    sums = np.empty((2, n_labels))
    parts = [(k, min(k + LABELS_PER_TASK, n_labels)) for k in range(0, n_labels, LABELS_PER_TASK)]
    run_tasks(lambda a, b: _output_sums(gradient, hessian, rows, n_fitted, a, b, sums), parts, n_threads)
    labels = draw_labels(sums[0], n_deciding, seed)
    units = Units(*np.empty((4, len(labels))))
    _fill_units(sums, labels, l2_regularization, units)
    return units, labels


def draw_labels(influence: NDArray[np.float64], n_deciding: int, seed: int) -> NDArray[np.int64]:
    """Draw labels without replacement, in proportion to their influence; return them in rising order.

    The first arrivals of Poisson processes with these rates (Efraimidis and Spirakis 2006).
    """
    if n_deciding >= len(influence):
        return np.arange(len(influence))
    arrival = np.random.default_rng(seed).exponential(size=len(influence)) / np.maximum(influence, 1e-300)
    return np.sort(np.argsort(arrival, kind="stable")[:n_deciding])


@inner
def _round_cells(
    values: NDArray[np.float32],  # IN (n_labels * n_rows * n_contexts,)
    first: int,  # IN
    n: int,  # IN
    scale: np.float32,  # IN 2^a
    half: np.float32,  # IN ½, or 0 to round towards zero
    buffer: NDArray[np.int32],  # OUT (…)
    at: int,  # IN
) -> None:
    """Write derivatives that follow one another as integers."""
    begin, place = uint64(first), uint64(at)
    for q in range(uint64(n)):
        x = values[begin + q] * scale
        buffer[place + q] = np.int32(x + (half if x >= 0 else -half))


@inner
def _lay_rows(
    buffer: NDArray[np.int32],  # IN (2 * n_outputs * size,) integers, output by output
    size: int,  # IN
    first: int,  # IN row
    n_rows: int,  # IN
    count: int,  # IN what a row counts
    rounded: Rounded,  # OUT
) -> None:
    """Write cells and vectors of rows that follow one another."""
    cells, vectors = rounded.cells.reshape(-1), rounded.vectors.reshape(-1)
    n_contexts, width, lanes = rounded.cells.shape[1], uint64(rounded.cells.shape[2]), uint64(rounded.vectors.shape[1])
    has_cells, q, stride = rounded.cells.shape[0] > 0, uint64(0), uint64(size)
    for x in range(uint64(first), uint64(first + n_rows)):
        at, here = x * lanes, x * uint64(n_contexts) * width
        for w in range(at + width + uint64(2), at + lanes):
            vectors[w] = 0
        vectors[at + width], vectors[at + width + uint64(1)] = count, count
        if width == uint64(2):  # one output
            g, h = np.int32(0), np.int32(0)
            for _ in range(n_contexts):
                one, other = buffer[q], buffer[q + stride]
                if has_cells:
                    cells[here], cells[here + uint64(1)] = one, other
                g, h = np.int32(g + one), np.int32(h + other)
                q, here = q + uint64(1), here + uint64(2)
            vectors[at], vectors[at + uint64(1)] = g, h
            continue
        for w in range(width):
            vectors[at + w] = 0
        for _ in range(n_contexts):
            for w in range(width):
                value = buffer[w * stride + q]
                vectors[at + w] += value
                if has_cells:
                    cells[here + w] = value
            q, here = q + uint64(1), here + width


@jit
def _round_rows(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows, n_contexts)
    rows: NDArray[np.int32],  # IN positions, in rising order
    labels: NDArray[np.int64],  # IN (n_outputs,)
    units: Units,
    half: np.float32,  # IN ½, or 0 to round towards zero
    count: int,  # IN what a row counts
    buffer: NDArray[np.int32],  # SCRATCH (2 * n_outputs * size,) of the rows at a time
    rounded: Rounded,  # OUT
) -> None:
    """Write the derivatives of rows, a few rows at a time: both sides then stay in the cache."""
    _, n_rows, n_contexts = gradient.shape
    flat_gradient, flat_hessian = gradient.reshape(-1), hessian.reshape(-1)
    n, size, p = n_rows * n_contexts, buffer.size // (2 * labels.size), int64(0)
    at_once = size // n_contexts
    while p < rows.size:
        i, r = int64(rows[p]), int64(1)
        while p + r < rows.size and r < at_once and rows[p + r] == i + r:
            r += 1
        m = r * n_contexts
        for k in range(labels.size):
            at = labels[k] * n + i * n_contexts
            a, b = np.float32(1.0 / units.gradient[k]), np.float32(1.0 / units.curvature[k])
            _round_cells(flat_gradient, at, m, a, half, buffer, k * size)
            _round_cells(flat_hessian, at, m, b, half, buffer, (labels.size + k) * size)
        _lay_rows(buffer, size, i, r, count, rounded)
        p += r


def round_derivatives(
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
    rows: NDArray[np.int32],
    n_fitted: int,
    units: Units,
    labels: NDArray[np.int64],
    rounded: Rounded,
    *,
    count: int = 1,
    n_threads: int = 1,
) -> None:
    """Write the derivatives of the fitted rows, which count ``count`` each, as integers; see :func:`choose_units`."""
    n_contexts = gradient.shape[2]
    half = np.float32(0.5 if n_fitted * n_contexts <= MAX_ROUNDED_CELLS else 0.0)
    size = max(1, CELLS_AT_ONCE // n_contexts) * n_contexts

    def task(first: int, last: int) -> None:
        buffer = np.empty(2 * len(labels) * size, dtype=np.int32)
        _round_rows(gradient, hessian, rows[first:last], labels, units, half, count, buffer, rounded)

    parts = [(p, min(p + ROWS_PER_TASK, n_fitted)) for p in range(0, n_fitted, ROWS_PER_TASK)]
    run_tasks(task, parts, n_threads)
