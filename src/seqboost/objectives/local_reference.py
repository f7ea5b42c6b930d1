"""Slow, obviously right twins of the objectives that score labels one by one; for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["bag_log_likelihood", "bag_members", "local_log_likelihood"]


def local_log_likelihood(
    scores: NDArray[np.floating], table: NDArray[np.float64], labels: Sequence[int], order: int
) -> tuple[float, int, int]:
    """Return Σ_t log P(y_t | labels before) of one sequence, labels that are best, and labels that count."""
    n_labels = scores.shape[0]
    total, n_correct, n_counted = 0.0, 0, 0
    for t, label in enumerate(labels):
        lags = [labels[t - lag] for lag in range(1, min(order, t) + 1)]
        if label < 0 or min(lags, default=0) < 0:
            continue
        slot = sum(lag * n_labels**i for i, lag in enumerate(lags))
        extended = sum(n_labels**i for i in range(len(lags))) + slot
        of_labels = [
            float(scores[k, t, slot if scores.shape[2] > 1 else 0]) + table[extended, k]
            if table[extended, k] > -math.inf
            else -math.inf
            for k in range(n_labels)
        ]
        top = max(of_labels)
        log_z = top + math.log(sum(math.exp(s - top) for s in of_labels))
        total += of_labels[label] - log_z
        n_correct += of_labels.index(top) == label
        n_counted += 1
    return total, n_correct, n_counted


def bag_members(t: int, length: int, size: int | None, direction: str) -> list[int]:
    """Return the positions in the bag of position ``t``."""
    reach = length if size is None else size
    later, earlier = range(t + 1, min(t + reach, length - 1) + 1), range(max(t - reach, 0), t)
    return {"future": [*later], "past": [*earlier], "both": [*earlier, *later]}[direction]


def bag_log_likelihood(
    pattern: NDArray[np.floating],
    base: NDArray[np.float64],
    effect: NDArray[np.float64],
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    size: int | None,
    direction: str,
) -> NDArray[np.float64]:
    """Return the log-likelihood of each sequence by the definition, bag by bag."""
    found = []
    for start, stop in pairwise(offsets):
        total = 0.0
        for t in range(stop - start):
            if labels[start + t] < 0:
                continue
            none = 1.0
            for s in bag_members(t, stop - start, size, direction):
                none *= 1.0 - 1.0 / (1.0 + math.exp(-float(pattern[start + s])))
            score = base[start + t] + effect * (1.0 - none)
            total += score[labels[start + t]] - np.logaddexp.reduce(score)
        found.append(total)
    return np.array(found)
