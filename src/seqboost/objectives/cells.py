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

U = np.uint64
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
    n_labels, n_rows, n_slots = gradient.shape
    cells, curved = gradient.reshape(-1), hessian.reshape(-1)
    n_kept = max(1, n_slots // n_labels)  # contexts without their oldest label
    wide = curvature == MIXING and n_slots > 1
    block = max(1, BLOCK // n_slots)
    factors = np.zeros((3, block * n_slots), dtype=np.float32)
    weight, here, before = factors[0], factors[1], factors[2]
    beside = np.zeros(block * n_slots, dtype=np.float32)  # before + 2w R_t (1 − P(c_{t+1}))
    node, best_prob = np.empty(block, dtype=np.float32), np.empty(block, dtype=np.float32)
    leader = np.empty(block, dtype=np.int32)
    one, zero = np.float32(1.0), np.float32(0.0)
    for start in range(first, last, block):
        n_here = min(block, last - start)
        _spread_factors(gradient, row_weights, right, left, start, n_here, curvature, factors)
        for k in range(n_labels):
            at = U((k * n_rows + start) * n_slots)
            for t in range(n_here):
                total = zero
                for c in range(n_slots):
                    total += cells[at + U(t * n_slots) + U(c)]
                node[t] = total
            for t in range(n_here):
                better = k == 0 or node[t] > best_prob[t]
                best_prob[t] = node[t] if better else best_prob[t]
                leader[t] = np.int32(k) if better else leader[t]
            for t in range(n_here if wide else 0):
                row = U(t * n_slots)
                to_right = np.float32(2.0 * row_weights[start + t]) * right[start + t]
                for q in range(n_kept):
                    after = node[t]
                    if n_kept > 1:
                        after = zero
                        for oldest in range(n_labels):
                            after += cells[at + row + U(oldest * n_kept + q)]
                    part = to_right * max(one - after, zero)
                    for oldest in range(n_labels):
                        cell = row + U(oldest * n_kept + q)
                        beside[cell] = before[cell] + part
            if curvature != COUNT:
                for i in range(n_here * n_slots):
                    p = cells[at + U(i)]
                    curved[at + U(i)] = p * (here[i] * max(one - p, zero) + beside[i])
            for i in range(n_here * n_slots):
                cells[at + U(i)] *= -weight[i]
        for t in range(n_here):
            best[start + t] = leader[t]


@jit
def _spread_factors(
    prob: NDArray[np.float32],  # IN (K, N, C), n_here rows from start on
    row_weights: NDArray[np.float64],  # IN (N,)
    right: NDArray[np.float32],  # IN (N,)
    left: NDArray[np.float32],  # IN (N,)
    start: int,
    n_here: int,
    curvature: int,
    factors: NDArray[np.float32],  # OUT (3, block * C): w, the factor of p(1 − p), 2w L_t (1 − P(c_t = c))
) -> None:
    """Fill what all labels have in common, for every cell; P(c_t = c) = Σ_k p."""
    n_labels, n_rows, n_slots = prob.shape
    cells = prob.reshape(-1)
    weight, here, before = factors[0], factors[1], factors[2]
    wide = curvature == MIXING and n_slots > 1
    if wide:
        for i in range(n_here * n_slots):
            before[i] = 1.0
        for k in range(n_labels):
            at = U((k * n_rows + start) * n_slots)
            for i in range(n_here * n_slots):
                before[i] -= cells[at + U(i)]
    for t in range(n_here):
        w = np.float32(row_weights[start + t])
        factor, to_left = w, np.float32(0.0)
        if curvature == MIXING:
            factor = np.float32(2.0) * w
            to_left = factor * left[start + t]
            if not wide:
                factor *= np.float32(1.0) + right[start + t] + left[start + t]
        for c in range(n_slots):
            cell = U(t * n_slots) + U(c)
            weight[cell] = w
            here[cell] = factor
            if wide:
                before[cell] = to_left * max(before[cell], np.float32(0.0))


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
