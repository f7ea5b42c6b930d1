"""Scores of the labelled paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit

__all__ = ["count_transitions", "path_scores"]


@jit
def path_scores(
    scores: NDArray[np.float32],  # IN (K, N, C) or (K, N, 1)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    complete: NDArray[np.bool_],  # IN (n_sequences,) whether all labels are observed; others are left alone
    setting: tuple[int, int, int],  # first, last (sequences), order
    path_score: NDArray[np.float64],  # OUT (n_sequences,)
) -> None:
    """Fill Σ_t F_t(c_t, y_t) + end[y_T] of the labelled path of a range of sequences."""
    first, last, order = setting
    n_labels = scores.shape[0]
    n_contexts = n_labels**order
    joint = scores.shape[2] == n_contexts
    for sequence in range(first, last):
        if not complete[sequence]:
            continue
        total = 0.0
        slot, n_here, base = 0, 1, 0  # contexts that exist here, and the first extended one
        for t in range(offsets[sequence], offsets[sequence + 1]):
            label = labels[t]
            total += scores[label, t, slot if joint else 0] + table[base + slot, label]
            slot = (label + n_labels * slot) % n_contexts
            if t - offsets[sequence] < order:
                base += n_here
                n_here *= n_labels
        path_score[sequence] = total + end[labels[offsets[sequence + 1] - 1]]


def count_transitions(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
    complete: NDArray[np.bool_],
    n_labels: int,
    order: int,
) -> NDArray[np.float64]:
    """Give the weighted number of times each (extended context, label) is observed, shape (E, K).

    Only sequences whose labels are all observed are counted.
    """
    position = np.arange(len(labels)) - np.repeat(offsets[:-1], np.diff(offsets))
    weight = np.repeat(np.where(complete, weights, 0.0), np.diff(offsets))
    known = np.where(np.repeat(complete, np.diff(offsets)), labels, 0)
    row = np.zeros(len(labels), dtype=np.int64)
    for lag in range(1, order + 1):
        exists = np.flatnonzero(position >= lag)
        row[exists] += n_labels ** (lag - 1) + known[exists - lag] * n_labels ** (lag - 1)
    n_extended = sum(n_labels**i for i in range(order + 1))
    flat = np.bincount(row * n_labels + known, weights=weight, minlength=n_extended * n_labels)
    return flat.reshape(n_extended, n_labels)
