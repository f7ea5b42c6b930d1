"""Where the labelled paths run, which never changes during training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["observed_contexts", "score_cells"]


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


def score_cells(known: NDArray[np.int32], slot: NDArray[np.int32], n_slots: int) -> NDArray[np.int64]:
    """Give the place of each position's label ``known`` and context ``slot`` in the flat scores (K * N * C,)."""
    n_positions = len(known)
    return (known.astype(np.int64) * n_positions + np.arange(n_positions)) * n_slots + slot
