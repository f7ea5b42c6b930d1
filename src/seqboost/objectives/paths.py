"""The labelled paths: their contexts, which never change, and their scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit

__all__ = ["observed_contexts", "path_scores"]


def observed_contexts(
    labels: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int, order: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Give slot and extended context (row of the table) of each position on its labelled path.

    Positions that have an unobserved label among their lags get those of label 0 in its place.
    """
    position = np.arange(len(labels)) - np.repeat(offsets[:-1], np.diff(offsets))
    known = np.maximum(labels, 0).astype(np.int64)
    slot = np.zeros(len(labels), dtype=np.int64)
    base = np.zeros(len(labels), dtype=np.int64)
    for lag in range(1, order + 1):
        exists = np.flatnonzero(position >= lag)
        slot[exists] += known[exists - lag] * n_labels ** (lag - 1)
        base[exists] += n_labels ** (lag - 1)
    return slot.astype(np.int32), (base + slot).astype(np.int32)


@jit
def path_scores(
    scores: NDArray[np.float32],  # IN (K, N, C) or (K, N, 1)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,)
    slot: NDArray[np.int32],  # IN (N,) of the observed context; 0 for factored models
    extended: NDArray[np.int32],  # IN (N,) of the observed context
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    complete: NDArray[np.bool_],  # IN (n_sequences,) whether all labels are observed; others are left alone
    first: int,  # sequences first .. last-1
    last: int,
    path_score: NDArray[np.float64],  # OUT (n_sequences,)
) -> None:
    """Fill Σ_t F_t(c_t, y_t) + end[y_T] of the labelled path of a range of sequences."""
    for sequence in range(first, last):
        if not complete[sequence]:
            continue
        total = end[labels[offsets[sequence + 1] - 1]]
        for t in range(offsets[sequence], offsets[sequence + 1]):
            total += scores[labels[t], t, slot[t]] + table[extended[t], labels[t]]
        path_score[sequence] = total
