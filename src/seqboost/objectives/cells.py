"""Marginals -> gradient and curvature, cell by cell.

Letters: p = P(c_t=c, y_t=k | X) (factored models and order 0: P(y_t=k | X)), w the weight of the sequence, R_t and L_t the
sums of the mixing bound (see ``curvature``). The marginals come in the array in which the gradient leaves:

    gradient  Δ = w (I(c_t=c, y_t=k) − p)                 labels all observed
              Δ = w (P(c,k | X, observed) − p)            some unobserved: P of the chain clamped to the observed labels
    hessian   count w,   newton w p(1−p),   mixing as in ``curvature``

Sequences of weight zero (held-out ones) get zeros, but their correct labels are counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit
from seqboost.objectives.curvature import MIXING, NEWTON

__all__ = ["joint_cells", "node_cells"]


@jit
def _erase(cells: NDArray[np.float32], t: int, first_slot: int) -> None:  # OUT (K, N, C)
    """Put zeros into the slots of position t from first_slot on."""
    n_labels, _, n_slots = cells.shape
    for k in range(n_labels):
        for c in range(first_slot, n_slots):
            cells[k, t, c] = 0.0


@jit
def _joint_curvature(
    prob: NDArray[np.float32],  # IN (K, N, C)
    hessian: NDArray[np.float32],  # OUT (K, N, C), position t
    t: int,
    n_here: int,  # slots that exist at t
    factor: tuple[np.float32, np.float32, np.float32],  # 2w, 2w R_t, 2w L_t
    context_rest: NDArray[np.float32],  # scratch (C,): 1 − P(c_t = c)
    next_rest: NDArray[np.float32],  # scratch (C,): 1 − P(c_{t+1} = c)
) -> None:
    """Fill 2w p [ (1 − p) + R_t (1 − P(c_{t+1})) + L_t (1 − P(c_t)) ] at position t."""
    n_labels, _, n_slots = prob.shape
    kept = n_slots // n_labels  # contexts without their oldest label
    one, zero = np.float32(1.0), np.float32(0.0)
    here, to_right, to_left = factor
    context_rest[:n_here] = one
    next_rest[:] = one
    for k in range(n_labels):
        for c in range(n_here):
            context_rest[c] -= prob[k, t, c]
            next_rest[k + n_labels * (c % kept)] -= prob[k, t, c]
    for k in range(n_labels):
        for c in range(n_here):
            p = prob[k, t, c]
            after = max(next_rest[k + n_labels * (c % kept)], zero)
            before = max(context_rest[c], zero)
            hessian[k, t, c] = p * (here * max(one - p, zero) + to_right * after + to_left * before)


@jit
def joint_cells(
    gradient: NDArray[np.float32],  # IN marginals, OUT gradient (K, N, C)
    hessian: NDArray[np.float32],  # OUT (K, N, C); left alone if curvature is COUNT
    clamped: NDArray[np.float32],  # IN (K, n_clamped, C) marginals given the observed labels
    clamped_start: NDArray[np.int64],  # IN (n_sequences,) first row of a sequence in clamped, -1 = not there
    labels: NDArray[np.int32],  # IN (N,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    weights: NDArray[np.float64],  # IN (n_sequences,)
    right: NDArray[np.float32],  # IN (N,) R_t, for MIXING
    left: NDArray[np.float32],  # IN (N,) L_t, for MIXING
    n_correct: NDArray[np.int64],  # OUT (n_sequences,)
    setting: tuple[int, int, int, int],  # first, last (sequences), order, curvature
) -> None:
    """Fill gradient, hessian and n_correct of a range of sequences of a joint model with order >= 1."""
    first, last, order, curvature = setting
    n_labels, _, n_slots = gradient.shape
    context_rest = np.empty(n_slots, dtype=np.float32)
    next_rest = np.empty(n_slots, dtype=np.float32)
    for sequence in range(first, last):
        start, stop = offsets[sequence], offsets[sequence + 1]
        weight = np.float32(weights[sequence])
        n_correct[sequence] = 0
        n_here, slot = 1, 0
        for t in range(start, stop):
            label = labels[t]
            best, best_prob = 0, np.float32(-1.0)
            for k in range(n_labels):
                node = np.float32(0.0)
                for c in range(n_here):
                    node += gradient[k, t, c]
                if node > best_prob:
                    best, best_prob = k, node
            n_correct[sequence] += label == best
            if weight == 0.0:
                _erase(gradient, t, 0)
                if curvature != 0:
                    _erase(hessian, t, 0)
            else:
                if n_here < n_slots:
                    _erase(gradient, t, n_here)
                    if curvature != 0:
                        _erase(hessian, t, n_here)
                if curvature == MIXING:
                    double = np.float32(2.0) * weight
                    factor = (double, double * right[t], double * left[t])
                    _joint_curvature(gradient, hessian, t, n_here, factor, context_rest, next_rest)
                elif curvature == NEWTON:
                    for k in range(n_labels):
                        for c in range(n_here):
                            p = gradient[k, t, c]
                            hessian[k, t, c] = weight * p * max(np.float32(1.0) - p, np.float32(0.0))
                row = clamped_start[sequence]
                if row >= 0:
                    for k in range(n_labels):
                        for c in range(n_here):
                            gradient[k, t, c] = weight * (clamped[k, row + t - start, c] - gradient[k, t, c])
                else:
                    for k in range(n_labels):
                        for c in range(n_here):
                            gradient[k, t, c] *= -weight
                    gradient[label, t, slot] += weight
            slot = (max(label, 0) + n_labels * slot) % n_slots
            n_here = min(n_here * n_labels, n_slots)


@jit
def node_cells(
    gradient: NDArray[np.float32],  # IN marginals, OUT gradient (K, N, 1)
    hessian: NDArray[np.float32],  # OUT (K, N, 1); left alone if curvature is COUNT
    clamped: NDArray[np.float32],  # IN (K, n_clamped, 1) marginals given the observed labels
    clamped_start: NDArray[np.int64],  # IN (n_sequences,) first row of a sequence in clamped, -1 = not there
    labels: NDArray[np.int32],  # IN (N,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    weights: NDArray[np.float64],  # IN (n_sequences,)
    right: NDArray[np.float32],  # IN (N,) R_t, for MIXING
    left: NDArray[np.float32],  # IN (N,) L_t, for MIXING
    n_correct: NDArray[np.int64],  # OUT (n_sequences,)
    setting: tuple[int, int, int, int],  # first, last (sequences), order, curvature
) -> None:
    """Fill gradient, hessian and n_correct of a range of sequences of a model with one cell per label."""
    first, last, _, curvature = setting
    n_labels = gradient.shape[0]
    longest = 0
    for sequence in range(first, last):
        longest = max(longest, offsets[sequence + 1] - offsets[sequence])
    best = np.empty(longest, dtype=np.int32)
    best_prob = np.empty(longest, dtype=np.float32)
    factor = np.empty(longest, dtype=np.float32)
    for sequence in range(first, last):
        start, length = offsets[sequence], offsets[sequence + 1] - offsets[sequence]
        weight = np.float32(weights[sequence])
        row = clamped_start[sequence]
        best_prob[:] = -1.0
        for t in range(length):
            factor[t] = weight
            if curvature == MIXING:
                factor[t] *= np.float32(2.0) * (np.float32(1.0) + right[start + t] + left[start + t])
        for k in range(n_labels):
            for t in range(length):
                p = gradient[k, start + t, 0]
                if p > best_prob[t]:
                    best[t], best_prob[t] = k, p
                if curvature != 0:
                    hessian[k, start + t, 0] = factor[t] * p * max(np.float32(1.0) - p, np.float32(0.0))
                observed = clamped[k, row + t, 0] if row >= 0 else np.float32(0.0)
                gradient[k, start + t, 0] = weight * (observed - p)
        n_correct[sequence] = 0
        for t in range(length):
            label = labels[start + t]
            n_correct[sequence] += label == best[t]
            if weight == 0.0:
                continue
            if row < 0:
                gradient[label, start + t, 0] += weight
