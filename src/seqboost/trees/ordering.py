"""Categories in order of their mean, G/(H+λ).

Of all divisions of the categories into two, the best for a convex criterion is a prefix of this order (Fisher 1958).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner
from seqboost.trees.criterion import unpack
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.integers import int64

__all__ = ["MIN_ROWS_OF_WIDE_CATEGORY", "Ranks", "order_categories", "sort"]

# Ordering thousands of categories by the gradients of one or two rows each is ordering noise.
MIN_ROWS_OF_WIDE_CATEGORY = 5


class Ranks(NamedTuple):
    """Scratch for ordering categories, and what a lag's labels add up to."""

    keys: NDArray[np.float64]  # (max_values,) G/(H+λ), rising
    order: NDArray[np.int64]  # (max_values,) the categories in this order
    sums: NDArray[np.float64]  # (2, n_labels + 1) G and H of the labels at a lag
    present: NDArray[np.int64]  # (n_labels + 1, order + 1) contexts of each label and type
    on_left: NDArray[np.int64]  # (order + 1,) contexts of each type on the left


@inner
def order_categories(
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    start: int,  # IN first cell of the feature
    n_cells: int,  # IN its number of cells
    min_rows: int,  # IN
    scales: Scales,
    lam: float,  # IN λ
    ranks: Ranks,  # OUT
) -> int:
    """Order the categories that have at least ``min_rows`` positions; return their number."""
    keys, order = ranks.keys, ranks.order
    n = int64(0)
    for v in range(n_cells):
        packed = histogram[2 * (start + v) + 1]
        if packed == 0:
            continue
        g, h, count = unpack(histogram, start + v, scales)
        if count < min_rows:
            continue
        keys[n] = g / max(h + lam, 1e-300)
        order[n] = v
        n += 1
    sort(keys, order, n)
    return n


@inner
def sort(
    keys: NDArray[np.float64],  # IN/OUT (max_values,)
    order: NDArray[np.int64],  # IN/OUT (max_values,)
    n: int,
) -> None:
    """Sort the first ``n`` of ``order`` by ``keys``, equal keys by value.

    Shell's sort, which is insertion sort for short lists.
    """
    gap = 1
    while 3 * gap < n - 32:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            key = keys[r]
            value = order[r]
            q = r - gap
            while q >= 0 and (keys[q] > key or (keys[q] == key and order[q] > value)):
                keys[q + gap] = keys[q]
                order[q + gap] = order[q]
                q -= gap
            keys[q + gap] = key
            order[q + gap] = value
        gap //= 3
