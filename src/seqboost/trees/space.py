"""The context side of the product space: which contexts exist at a row, and what their lags are.

A row of type j = min(t, order) has K^j contexts; context c of type j is number ``base[j] + c`` among the extended
contexts. A test on lag l asks for the label l positions back, or ⊥ (= K) where the sequence had not begun.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Space", "context_space"]


class Space(NamedTuple):
    """Contexts of a model of some order, and the type of every row."""

    n_labels: int
    base: NDArray[np.int64]  # (order + 1,) first extended context of each type
    n_contexts_of: NDArray[np.int64]  # (order + 1,) K^j
    lag_label: NDArray[np.int32]  # (order, n_extended) label at each lag, K = before the start
    type_of: NDArray[np.uint8]  # (n_extended,)
    row_type: NDArray[np.uint8]  # (n_rows,)


def context_space(n_labels: int, order: int, offsets: NDArray[np.int64]) -> Space:
    """Lay out the contexts of ``order`` and give each position of the sequences at ``offsets`` its type."""
    n_contexts_of = np.array([n_labels**j for j in range(order + 1)], dtype=np.int64)
    base = np.concatenate([[0], np.cumsum(n_contexts_of)[:-1]]).astype(np.int64)
    n_extended = int(n_contexts_of.sum())
    lag_label = np.full((order, n_extended), n_labels, dtype=np.int32)
    type_of = np.empty(n_extended, dtype=np.uint8)
    for j in range(order + 1):
        contexts = np.arange(n_contexts_of[j])
        type_of[base[j] : base[j] + n_contexts_of[j]] = j
        for lag in range(j):
            lag_label[lag, base[j] : base[j] + n_contexts_of[j]] = contexts // n_labels**lag % n_labels
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    row_type = np.minimum(position, order).astype(np.uint8)
    return Space(n_labels, base, n_contexts_of, lag_label, type_of, row_type)
