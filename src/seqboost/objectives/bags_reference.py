"""The slow, obviously right twin of :mod:`seqboost.objectives.bags`; for tests."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["bag_log_likelihood", "bag_members"]


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
