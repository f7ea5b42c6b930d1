"""Marginals -> gradient and curvature, cell by cell.

Letters: p = P(c_t=c, y_t=k | X) (factored models and order 0: P(y_t=k | X)), w the weight of the sequence, R_t and L_t
the sums of the mixing bound (see ``curvature``). The marginals come in the array in which the gradient leaves:

    gradient  Δ = w (I(c_t=c, y_t=k) − p)                 labels all observed
              Δ = w (P(c,k | X, observed) − p)            some unobserved: P of the chain clamped to the observed labels
    hessian   count w,   newton w p(1−p),   mixing as in ``curvature``

Slots that do not exist come with p = 0 and leave with zeros; so does all of a sequence of weight zero (a held-out one).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit
from seqboost.objectives.curvature import COUNT, MIXING

__all__ = ["add_observed", "subtract_expected"]

BLOCK = 1024
"""Cells of one label worked on together, so that loops run over contiguous memory that stays in the nearest cache."""


@jit
def subtract_expected(
    gradient: NDArray[np.float32],  # IN marginals p, OUT −w p (K, N, C)
    hessian: NDArray[np.float32],  # OUT (K, N, C); left alone if curvature is COUNT
    row_weights: NDArray[np.float64],  # IN (N,) w
    right: NDArray[np.float32],  # IN (N,) R_t, for MIXING
    left: NDArray[np.float32],  # IN (N,) L_t, for MIXING
    best: NDArray[np.int32],  # OUT (N,) most probable label
    setting: tuple[int, int, int],  # first and last row, curvature
) -> None:
    """Fill the hessian, the most probable labels and the expected part of the gradient of a range of positions."""
    first, last, curvature = setting
    n_labels, _, n_slots = gradient.shape
    wide = curvature == MIXING and n_slots > 1
    block = max(1, BLOCK // n_slots)
    weight = np.empty((block, n_slots), dtype=np.float32)
    here = np.empty((block, n_slots), dtype=np.float32)  # factor of p(1 − p)
    before = np.zeros((block, n_slots), dtype=np.float32)  # 2w L_t (1 − P(c_t))
    beside = np.zeros((block, n_slots), dtype=np.float32)  # before + 2w R_t (1 − P(c_{t+1}))
    node = np.empty(block, dtype=np.float32)  # P(y_t = k)
    best_prob = np.empty(block, dtype=np.float32)
    after = np.empty(max(1, n_slots // n_labels), dtype=np.float32)
    for start in range(first, last, block):
        stop = min(start + block, last)
        n_cells = (stop - start) * n_slots
        _spread_factors(row_weights[start:stop], right[start:stop], left[start:stop], curvature, weight, here)
        if wide:
            _left_part(gradient, start, row_weights[start:stop], left[start:stop], before)
        best_prob[:] = -1.0
        for k in range(n_labels):
            plane = gradient[k, start:stop]
            _update_best(plane, k, node, best[start:stop], best_prob)
            if wide:
                _add_right_part(plane, row_weights[start:stop], right[start:stop], node, before, after, beside)
            if curvature != COUNT:
                _fill(plane.reshape(n_cells), here.ravel(), beside.ravel(), hessian[k, start:stop].reshape(n_cells))
            _scale(plane.reshape(n_cells), weight.ravel())


@jit
def _fill(
    prob: NDArray[np.float32],  # IN (n_cells,)
    here: NDArray[np.float32],  # IN (>= n_cells,)
    beside: NDArray[np.float32],  # IN (>= n_cells,)
    hessian: NDArray[np.float32],  # OUT (n_cells,)
) -> None:
    """Fill p [ here (1 − p) + beside ]."""
    for i in range(prob.size):
        p = prob[i]
        hessian[i] = p * (here[i] * max(np.float32(1.0) - p, np.float32(0.0)) + beside[i])


@jit
def _scale(prob: NDArray[np.float32], weight: NDArray[np.float32]) -> None:  # INOUT (n_cells,), IN (>= n_cells,)
    """Turn p into −w p."""
    for i in range(prob.size):
        prob[i] *= -weight[i]


@jit
def _spread_factors(
    row_weights: NDArray[np.float64],  # IN (n_here,)
    right: NDArray[np.float32],  # IN (n_here,)
    left: NDArray[np.float32],  # IN (n_here,)
    curvature: int,
    weight: NDArray[np.float32],  # OUT (block, C)
    here: NDArray[np.float32],  # OUT (block, C)
) -> None:
    """Repeat w and the factor of p(1 − p) of each position over its slots."""
    n_slots = weight.shape[1]
    for t in range(row_weights.size):
        w = np.float32(row_weights[t])
        factor = w
        if curvature == MIXING:
            factor *= np.float32(2.0)
            if n_slots == 1:
                factor *= np.float32(1.0) + right[t] + left[t]
        for c in range(n_slots):
            weight[t, c] = w
            here[t, c] = factor


@jit
def _left_part(
    prob: NDArray[np.float32],  # IN (K, N, C), rows from start on
    start: int,
    row_weights: NDArray[np.float64],  # IN (n_here,)
    left: NDArray[np.float32],  # IN (n_here,)
    before: NDArray[np.float32],  # OUT (block, C)
) -> None:
    """Fill 2w L_t (1 − P(c_t = c)), P(c_t = c) = Σ_k p."""
    n_labels, _, n_slots = prob.shape
    n_here = left.size
    rest = before.ravel()
    rest[:] = 1.0
    for k in range(n_labels):
        plane = prob[k, start : start + n_here].reshape(n_here * n_slots)
        for i in range(plane.size):
            rest[i] -= plane[i]
    for t in range(n_here):
        factor = np.float32(2.0 * row_weights[t]) * left[t]
        for c in range(n_slots):
            before[t, c] = factor * max(before[t, c], np.float32(0.0))


@jit
def _add_right_part(
    plane: NDArray[np.float32],  # IN (n_here, C) p of one label k
    row_weights: NDArray[np.float64],  # IN (n_here,)
    right: NDArray[np.float32],  # IN (n_here,)
    node: NDArray[np.float32],  # IN (block,) P(y_t = k)
    before: NDArray[np.float32],  # IN (block, C)
    after: NDArray[np.float32],  # scratch (C / K,)
    beside: NDArray[np.float32],  # OUT (block, C)
) -> None:
    """Fill before + 2w R_t (1 − P(c_{t+1} = (k, c without its oldest label))).

    Contexts that differ in their oldest label only lie n_kept slots apart; for order 1, P(c_{t+1}) is P(y_t).
    """
    n_here, n_slots = plane.shape
    n_kept = after.size
    for t in range(n_here):
        factor = np.float32(2.0 * row_weights[t]) * right[t]
        if n_kept == 1:
            part = factor * max(np.float32(1.0) - node[t], np.float32(0.0))
            for c in range(n_slots):
                beside[t, c] = before[t, c] + part
            continue
        after[:] = 1.0
        for oldest in range(n_slots // n_kept):
            for q in range(n_kept):
                after[q] -= plane[t, oldest * n_kept + q]
        for oldest in range(n_slots // n_kept):
            for q in range(n_kept):
                c = oldest * n_kept + q
                beside[t, c] = before[t, c] + factor * max(after[q], np.float32(0.0))


@jit
def _update_best(
    plane: NDArray[np.float32],  # IN (n_here, C) p of one label k
    label: int,
    node: NDArray[np.float32],  # OUT (block,) P(y_t = k)
    best: NDArray[np.int32],  # INOUT (n_here,)
    best_prob: NDArray[np.float32],  # INOUT (block,)
) -> None:
    """Fill the label's own marginals, and keep it where it is more probable than those before it."""
    n_here, n_slots = plane.shape
    for t in range(n_here):
        even, odd = np.float32(0.0), np.float32(0.0)  # two sums, as each addition waits for the last
        for half in range(n_slots // 2):
            even += plane[t, 2 * half]
            odd += plane[t, 2 * half + 1]
        node[t] = even + odd + (plane[t, n_slots - 1] if n_slots % 2 else np.float32(0.0))
        if node[t] > best_prob[t]:
            best_prob[t] = node[t]
            best[t] = label


@jit
def add_observed(
    gradient: NDArray[np.float32],  # INOUT (K, N, C)
    clamped: NDArray[np.float32],  # IN (K, n_clamped, C) marginals given the observed labels
    clamped_start: NDArray[np.int64],  # IN (n_sequences,) first row of a sequence in clamped, -1 = not there
    labels: NDArray[np.int32],  # IN (N,)
    slot: NDArray[np.int32],  # IN (N,) of the observed context; 0 for factored models
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    weights: NDArray[np.float64],  # IN (n_sequences,)
    best: NDArray[np.int32],  # IN (N,) most probable label
    n_correct: NDArray[np.int64],  # OUT (n_sequences,)
    setting: tuple[int, int],  # first, last (sequences)
) -> None:
    """Add the observed part of the gradient of a range of sequences, and count the correct labels."""
    n_labels, _, n_slots = gradient.shape
    for sequence in range(setting[0], setting[1]):
        start, stop = offsets[sequence], offsets[sequence + 1]
        correct = 0
        for t in range(start, stop):
            correct += labels[t] == best[t]
        n_correct[sequence] = correct
        weight = np.float32(weights[sequence])
        if weight == np.float32(0.0):
            continue
        row = clamped_start[sequence]
        if row >= 0:
            for k in range(n_labels):
                for t in range(start, stop):
                    for c in range(n_slots):
                        gradient[k, t, c] += weight * clamped[k, row + t - start, c]
            continue
        for t in range(start, stop):
            gradient[labels[t], t, slot[t]] += weight
