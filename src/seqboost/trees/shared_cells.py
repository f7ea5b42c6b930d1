"""Derivatives of all labels for one shared tree: fixed-point vectors, label by label side by side.

A tree for all K labels needs, of a cell (t, c), the vector of its gradients and curvatures, so derivatives are turned
from label-major (K, N, C) to label-minor once a round::

    cells[t, c] = [ q(Δ_1) … q(Δ_D) | q(h_1) … q(h_D) ]          int32, 2D numbers side by side

    q(x) = x·2^a, rounded          a of each label: the largest with Σ_t Σ_c |x|·2^a < 2^30

so that every sum over any rows and contexts fits an int32 as well. Sums are exact: they depend neither on the order of
rows nor on threads, and *parent − child = sibling* holds to the bit. Each label has scales of its own, chosen by its
sums: a rare label has small ones and is written finely.

With many labels only D of them decide on the splits, others each round, drawn in proportion to Σ_t Σ_c |Δ| (a sketch of
the outputs, after Iosipoi and Vakhrushev 2022, "SketchBoost: fast gradient boosted decision tree for multioutput
problems"). All labels get values in the leaves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner_slicing, jit, reassociating
from seqboost.core.threads import run_tasks

__all__ = [
    "Units",
    "add_to",
    "copy_to",
    "draw_labels",
    "label_cells",
    "set_zero",
    "subtract_from",
    "sum_contexts",
    "sum_row_contexts",
    "sum_rows",
]

SUM_BITS = 30
LARGEST = 1e300  # λ in units of curvature must stay finite
MAX_ROUNDED_CELLS = 1 << 29  # beyond that many cells, rounding up could carry a sum out of its bits
CELLS_PER_TASK = 2048
CELLS_AT_ONCE = 32
LABELS_AT_ONCE = 16


class Units(NamedTuple):
    """What a fixed-point one of each label stands for, and the same for the criterion.

    With g and h in fixed point, G²/(H+λ) = weight·g²/(h+penalty).
    """

    gradient: NDArray[np.float64]  # (n_labels,) 2^−a
    curvature: NDArray[np.float64]  # (n_labels,) 2^−b
    weight: NDArray[np.float64]  # (n_labels,) 2^−2a / 2^−b
    penalty: NDArray[np.float64]  # (n_labels,) λ / 2^−b


@reassociating
def _label_sums(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows * n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows * n_contexts)
    runs: NDArray[np.int64],  # IN (n_runs, 2) first and last fitted cell of rows that follow one another
    first: int,  # IN labels
    last: int,  # IN
    sums: NDArray[np.float64],  # OUT (2, n_labels) Σ |Δ| and Σ h
) -> None:
    """Sum what the scales of labels depend on."""
    for k in range(first, last):
        sum_gradient = 0.0
        sum_hessian = 0.0
        for r in range(runs.shape[0]):
            for q in range(runs[r, 0], runs[r, 1]):
                sum_gradient += abs(float(gradient[k, q]))
                sum_hessian += float(hessian[k, q])
        sums[0, k] = sum_gradient
        sums[1, k] = sum_hessian


@jit
def _quantise(
    gradient: NDArray[np.float32],  # IN (n_labels, n_rows * n_contexts)
    hessian: NDArray[np.float32],  # IN (n_labels, n_rows * n_contexts)
    runs: NDArray[np.int64],  # IN (n_runs, 2)
    span: tuple[int, int],  # IN the cells to do, of those in runs
    labels: NDArray[np.int64],  # IN (n_deciding,)
    scale: NDArray[np.float32],  # IN (2, n_deciding) 2^a and 2^b
    half: np.float32,  # IN ½, or 0 to round towards zero
    cells: NDArray[np.int32],  # OUT (n_rows * n_contexts, 2 * n_deciding)
) -> None:
    """Write derivatives in fixed point, a few cells and labels at a time: both sides then stay in the cache."""
    n_labels = labels.size
    for r in range(runs.shape[0]):
        first, last = max(runs[r, 0], span[0]), min(runs[r, 1], span[1])
        for q0 in range(first, last, CELLS_AT_ONCE):
            q1 = min(q0 + CELLS_AT_ONCE, last)
            for k0 in range(0, n_labels, LABELS_AT_ONCE):
                for k in range(k0, min(k0 + LABELS_AT_ONCE, n_labels)):
                    a, b = scale[0, k], scale[1, k]
                    for q in range(np.uint64(q0), np.uint64(q1)):
                        g = gradient[labels[k], q] * a
                        cells[q, k] = np.int32(g + (half if g >= 0 else -half))
                    for q in range(np.uint64(q0), np.uint64(q1)):
                        cells[q, n_labels + k] = np.int32(hessian[labels[k], q] * b + half)


def label_cells(
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
    rows: NDArray[np.int32],
    n_fitted: int,
    lam: float,
    cells: NDArray[np.int32],
    n_threads: int,
    seed: int = 0,
) -> tuple[Units, NDArray[np.int64]]:
    """Write the derivatives of the fitted rows in fixed point, for the labels that decide on splits.

    Parameters
    ----------
    gradient, hessian : ndarray of float32 of shape (n_labels, n_rows, n_contexts)
        Derivatives of all labels.
    rows : ndarray of int32
        Positions; the first ``n_fitted`` are written.
    n_fitted : int
        Number of fitted positions.
    lam : float
        λ.
    cells : ndarray of int32 of shape (n_rows, n_contexts, 2 * n_deciding)
        Written to.
    n_threads : int
        Number of threads.
    seed : int, default=0
        Seed of the labels drawn.

    Returns
    -------
    units : Units
        What the numbers stand for.
    labels : ndarray of int64 of shape (n_deciding,)
        The labels that decide, in rising order; all of them if there is room.
    """
    n_labels, n_rows, n_contexts = gradient.shape
    gradient, hessian = gradient.reshape(n_labels, -1), hessian.reshape(n_labels, -1)
    runs = _runs(rows[:n_fitted]) * n_contexts
    sums = np.zeros((2, n_labels))
    blocks = [(k, min(k + LABELS_AT_ONCE, n_labels)) for k in range(0, n_labels, LABELS_AT_ONCE)]
    run_tasks(lambda a, b: _label_sums(gradient, hessian, runs, a, b, sums), blocks, n_threads)
    labels = draw_labels(sums[0], cells.shape[2] // 2, seed)
    exponent = [[SUM_BITS - _exponent(total) for total in part] for part in sums[:, labels].tolist()]
    scale = np.ldexp(1.0, exponent).astype(np.float32)
    half = np.float32(0.5 if n_fitted * n_contexts <= MAX_ROUNDED_CELLS else 0.0)
    flat = cells.reshape(n_rows * n_contexts, -1)
    spans = [((q, q + CELLS_PER_TASK),) for q in range(0, n_rows * n_contexts, CELLS_PER_TASK)]
    run_tasks(lambda span: _quantise(gradient, hessian, runs, span, labels, scale, half, flat), spans, n_threads)
    unit = 1.0 / scale.astype(np.float64)
    lam_in_units = lam / np.maximum(unit[1], lam / LARGEST)
    return Units(unit[0], unit[1], unit[0] ** 2 / unit[1], lam_in_units), labels


def draw_labels(influence: NDArray[np.float64], n_deciding: int, seed: int) -> NDArray[np.int64]:
    """Draw labels without replacement, in proportion to their influence; return them in rising order.

    The first arrivals of Poisson processes with these rates (Efraimidis and Spirakis 2006).
    """
    if n_deciding >= len(influence):
        return np.arange(len(influence))
    arrival = np.random.default_rng(seed).exponential(size=len(influence)) / np.maximum(influence, 1e-300)
    return np.sort(np.argsort(arrival, kind="stable")[:n_deciding])


def _runs(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return first and last + 1 of the rows that follow one another, (n_runs, 2)."""
    ordered = np.sort(rows).astype(np.int64)
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    starts, ends = np.append(ordered[:1], ordered[breaks + 1]), np.append(ordered[breaks], ordered[-1:]) + 1
    return np.stack([starts, ends], axis=1)


def _exponent(x: float) -> int:
    """Return the e with x < 2^e, within what float32 can scale."""
    return min(max(math.frexp(x)[1], -90), 150) if x > 0 else 0


@inner_slicing
def add_to(
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    total: NDArray[np.int32],  # IN/OUT (2 * n_labels,)
) -> None:
    """Add one vector to another."""
    for w in range(total.size):
        total[w] += vector[w]


@inner_slicing
def copy_to(
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    copy: NDArray[np.int32],  # OUT (2 * n_labels,)
) -> None:
    """Write one vector over another; numba's own ``copy[:] = vector`` takes seconds to compile."""
    for w in range(copy.size):
        copy[w] = vector[w]


@inner_slicing
def subtract_from(
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    part: NDArray[np.int32],  # IN (2 * n_labels,)
    rest: NDArray[np.int32],  # OUT (2 * n_labels,)
) -> None:
    """Write what a part leaves of a vector."""
    for w in range(rest.size):
        rest[w] = vector[w] - part[w]


@inner_slicing
def set_zero(
    vector: NDArray[np.int32],  # OUT (n,)
) -> None:
    """Write zeros."""
    for w in range(vector.size):
        vector[w] = 0


@jit
def sum_rows(
    vectors: NDArray[np.int32],  # IN (n_rows, 2 * n_labels)
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    by_row: bool,  # IN whether a row's vector stands at its own place, or at that of its turn
    total: NDArray[np.int32],  # OUT (2 * n_labels,)
) -> None:
    """Sum the vectors of a node's rows."""
    set_zero(total)
    for p in range(first, last):
        add_to(vectors[rows[p] if by_row else p - first], total)


@jit
def sum_row_contexts(
    cells: NDArray[np.int32],  # IN (n_rows, n_contexts, 2 * n_labels)
    mask: NDArray[np.bool_],  # IN (n_extended,) the node's contexts
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    by_row: bool,  # IN whether a row's sum goes to its own place, or to that of its turn
    origin: int,  # IN the first turn
    vectors: NDArray[np.int32],  # OUT (n_rows, 2 * n_labels) Σ_c over the node's contexts
) -> None:
    """Sum the cells of rows over the contexts of a node."""
    for p in range(first, last):
        i = rows[p]
        total = vectors[i if by_row else p - origin]
        set_zero(total)
        j = space.row_type[i]
        base = space.base[j]
        for c in range(space.n_contexts_of[j]):
            if mask[base + c]:
                add_to(cells[i, c], total)


@jit
def sum_contexts(
    cells: NDArray[np.int32],  # IN (n_rows, n_contexts, 2 * n_labels)
    mask: NDArray[np.bool_],  # IN (n_extended,) the node's contexts
    space: Space,
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    contexts: tuple[int, int],  # IN those to sum, counted within each type
    sums: NDArray[np.int32],  # OUT (n_extended, 2 * n_labels)
) -> None:
    """Sum a node's rows per extended context, of some of its contexts."""
    for j in range(space.base.size):
        for c in range(contexts[0], min(contexts[1], space.n_contexts_of[j])):
            sums[space.base[j] + c, :] = 0
    for p in range(first, last):
        i = rows[p]
        j = space.row_type[i]
        base = space.base[j]
        for c in range(contexts[0], min(contexts[1], space.n_contexts_of[j])):
            if mask[base + c]:
                add_to(cells[i, c], sums[base + c])
