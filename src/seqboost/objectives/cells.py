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

from seqboost.core.jit import jit
from seqboost.objectives.curvature import COUNT, MIXING

__all__ = ["add_observed", "score_cells", "subtract_expected"]

U = np.uint64
BLOCK = 1024
"""Cells of one label worked on together, so that loops run over contiguous memory that stays in the nearest cache."""


def score_cells(known: NDArray[np.int32], slot: NDArray[np.int32], n_slots: int) -> NDArray[np.int64]:
    """Return the place of each position's label ``known`` and context ``slot`` in the flat scores (K * N * C,)."""
    n_positions = len(known)
    return (known.astype(np.int64) * n_positions + np.arange(n_positions)) * n_slots + slot


def subtract_expected(
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
    row_weights: NDArray[np.float64],
    right: NDArray[np.float32],
    left: NDArray[np.float32],
    best: NDArray[np.int32],
    setting: tuple[int, int, int],
) -> None:
    """Fill the hessian, the most probable labels and the expected part of the gradient of a range of positions.

    Parameters
    ----------
    gradient : ndarray of float32, shape (K, N, C)
        IN: marginals p, OUT: −w p.
    hessian : ndarray of float32, shape (K, N, C)
        OUT; left alone if curvature is COUNT.
    row_weights : ndarray of float64, shape (N,)
        w.
    right, left : ndarray of float32, shape (N,)
        R_t and L_t, for MIXING.
    best : ndarray of int32, shape (N,)
        OUT: most probable label.
    setting : (int, int, int)
        First and last row, curvature.
    """
    n_slots = gradient.shape[2]
    size = max(1, BLOCK // n_slots)
    weight, here, before, beside = np.empty((4, size * n_slots), dtype=np.float32)
    node, best_prob, to_right = np.empty((3, size), dtype=np.float32)
    label, other = np.empty((2, size), dtype=np.int32)
    _subtract_expected(
        gradient.reshape(-1), hessian.reshape(-1), gradient.shape, row_weights, right, left, setting,
        weight, here, before, beside, node, best_prob, to_right, label, other, best,
    )  # fmt: skip


@jit
def _subtract_expected(
    cells: NDArray[np.float32],  # IN marginals p, OUT −w p (K * N * C,)
    curved: NDArray[np.float32],  # OUT (K * N * C,)
    shape: tuple[int, int, int],  # K, N, C
    row_weights: NDArray[np.float64],  # IN (N,)
    right: NDArray[np.float32],  # IN (N,)
    left: NDArray[np.float32],  # IN (N,)
    setting: tuple[int, int, int],  # first and last row, curvature
    weight: NDArray[np.float32],  # SCRATCH (block * C,) w
    here: NDArray[np.float32],  # SCRATCH (block * C,) the factor of p(1 − p)
    before: NDArray[np.float32],  # SCRATCH (block * C,) 2w L_t (1 − P(c_t = c)), where P(c_t = c) = Σ_k p
    beside: NDArray[np.float32],  # SCRATCH (block * C,) before + 2w R_t (1 − P(c_{t+1}))
    node: NDArray[np.float32],  # SCRATCH (block,) P(y_t = k)
    best_prob: NDArray[np.float32],  # SCRATCH (block,)
    to_right: NDArray[np.float32],  # SCRATCH (block,) 2w R_t
    label: NDArray[np.int32],  # SCRATCH (block,) most probable label so far
    other: NDArray[np.int32],  # SCRATCH (block,)
    best: NDArray[np.int32],  # OUT (N,)
) -> None:
    n_labels, n_rows, n_slots = shape
    n_kept = max(1, n_slots // n_labels)  # contexts without their oldest label
    mixing, wide = setting[2] == MIXING, setting[2] == MIXING and n_slots > 1
    one, zero = np.float32(1.0), np.float32(0.0)
    for start in range(setting[0], setting[1], node.size):
        n_here = min(node.size, setting[1] - start)
        n_cells = n_here * n_slots
        for i in range(n_cells):
            before[i], beside[i] = one, zero
        for k in range(n_labels if wide else 0):
            at = U((k * n_rows + start) * n_slots)
            for i in range(n_cells):
                before[i] -= cells[at + U(i)]
        for t in range(n_here):
            w = np.float32(row_weights[start + t])
            factor = np.float32(2.0) * w if mixing else w
            to_left = factor * left[start + t] if wide else zero
            to_right[t] = factor * right[start + t] if wide else zero
            if mixing and not wide:
                factor *= one + right[start + t] + left[start + t]
            for i in range(t * n_slots, (t + 1) * n_slots):
                weight[U(i)], here[U(i)] = w, factor
                before[U(i)] = to_left * max(before[U(i)], zero)
            best_prob[t], label[t] = -one, 0
        for k in range(n_labels):
            at = U((k * n_rows + start) * n_slots)
            if n_slots == 1:  # to and fro between two buffers: in place it would not be vectorised
                for t in range(n_here):
                    p, high = cells[at + U(t)], best_prob[t]
                    node[t] = p if p > high else high
                    other[t] = np.int32(k) if p > high else label[t]
                node, best_prob, label, other = best_prob, node, other, label
            for t in range(n_here if n_slots > 1 else 0):
                row, total = at + U(t * n_slots), zero
                for c in range(n_slots):
                    total += cells[row + U(c)]
                node[t] = total
                if total > best_prob[t]:
                    best_prob[t], best[start + t] = total, k
            for t in range(n_here if wide else 0):
                for q in range(n_kept):
                    after, cell = node[t], U(t * n_slots + q)
                    if n_kept > 1:
                        after = zero
                        for oldest in range(n_labels):
                            after += cells[at + cell + U(oldest * n_kept)]
                    part = to_right[t] * max(one - after, zero)
                    for oldest in range(n_labels):
                        beside[cell + U(oldest * n_kept)] = before[cell + U(oldest * n_kept)] + part
            for i in range(n_cells if setting[2] != COUNT else 0):
                p = cells[at + U(i)]
                curved[at + U(i)] = p * (here[i] * max(one - p, zero) + beside[i])
            for i in range(n_cells):
                cells[at + U(i)] *= -weight[i]
        for t in range(n_here if n_slots == 1 else 0):
            best[start + t] = label[t]


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
