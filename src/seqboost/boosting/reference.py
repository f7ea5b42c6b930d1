"""Slow twins of the kernels that draw samples. For tests only.

Plain loops over rows and cells; the random numbers are those of the kernels, so draws agree row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "arranged",
    "balanced_weights",
    "goss_choice",
    "selected",
    "split_mix",
    "strata_choice",
    "trimmed_choice",
    "trimming_threshold",
]

Cells = NDArray[np.float64]


def split_mix(seed: int, number: int) -> float:
    """Return output ``number`` of SplitMix64 as a fraction of 1, with 32 bits."""
    mask = 2**64 - 1
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 32) / 2**32


def selected(items: Sequence[int], n_wanted: int, fractions: Sequence[float]) -> list[int]:
    """Select items in order: each with the chance (still wanted) / (still to come)."""
    chosen: list[int] = []
    for turn, (item, fraction) in enumerate(zip(items, fractions, strict=True)):
        n_left = len(items) - turn
        if int(fraction * n_left) < n_wanted - len(chosen):
            chosen.append(item)
    return chosen


def arranged(chosen: Sequence[int], n_rows: int) -> list[int]:
    """Return all rows, the chosen ones first."""
    return [*sorted(chosen), *sorted(set(range(n_rows)) - set(chosen))]


def strata_choice(
    labels: NDArray[np.int32],
    slot: NDArray[np.int32],
    label: int,
    n_contexts: int,
    wanted: tuple[int, Sequence[int]],
    seed: int,
    weights: tuple[float, float] = (1.0, 1.0),
) -> dict[int, list[float]]:
    """Draw positive and negative cells; return the weights of the drawn rows' cells.

    ``wanted`` has the number of positive cells, and that of rows drawn for their negative ones: of all, or of those
    without a label and then those of each label.
    """
    n = len(labels)
    rows = range(n)
    n_positive, n_negative = wanted
    strata = [list(rows)] if len(n_negative) == 1 else [[i for i in rows if labels[i] == k] for k in range(-1, n + 1)]
    negative = {
        i
        for stratum, number in zip(strata, n_negative, strict=False)
        for i in selected(stratum, number, [split_mix(seed, 2 * i) for i in stratum])
    }
    positives = [i for i in rows if labels[i] == label]
    positive = set(selected(positives, n_positive, [split_mix(seed, 2 * i + 1) for i in positives]))
    drawn: dict[int, list[float]] = {}
    for i in sorted(negative | positive):
        drawn[i] = [weights[1] if i in negative else 0.0] * n_contexts
        if labels[i] == label:
            drawn[i][slot[i]] = weights[0] if i in positive else 0.0
    return drawn


def balanced_weights(drawn: dict[int, list[float]], is_positive: Cells) -> tuple[float, float]:
    """Return the weights with which positive and negative cells weigh the same, and all of them their number."""
    n_positive = sum(w > 0 and bool(is_positive[i, c]) for i, row in drawn.items() for c, w in enumerate(row))
    n_negative = sum(w > 0 and not is_positive[i, c] for i, row in drawn.items() for c, w in enumerate(row))
    half = (n_positive + n_negative) / 2
    return half / n_positive, half / n_negative


def goss_choice(influence: Cells, n_top: int, n_other: int, seed: int) -> dict[int, float]:
    """Return the rows of the top and some of the others, with their weights; of equals the first belong to the top."""
    by_size = sorted(range(len(influence)), key=lambda i: (-influence[i], i))
    top, rest = set(by_size[:n_top]), sorted(by_size[n_top:])
    other = selected(rest, n_other, [split_mix(seed, i) for i in rest])
    return {i: 1.0 if i in top else len(rest) / n_other for i in sorted(top | set(other))}


def trimming_threshold(influence: NDArray[np.float32], share: float, n_levels: int = 1000) -> float:
    """Return the largest level below which less than ``share`` of the total lies."""
    largest = float(influence.max(initial=0.0))
    if largest == 0:
        return 0.0
    flat = influence.ravel()
    level = (flat * np.float32((n_levels - 1) / largest)).astype(np.int64)
    below = np.cumsum(np.bincount(level, weights=flat, minlength=n_levels))
    return int(np.searchsorted(below, share * below[-1])) * largest / (n_levels - 1)


def trimmed_choice(influence: NDArray[np.float32], threshold: float) -> dict[int, list[float]]:
    """Return the rows with a cell of at least the threshold, and which of their cells stay."""
    keeps = influence >= np.float32(threshold)
    return {i: row.astype(float).tolist() for i, row in enumerate(keeps) if row.any()}
