"""Splits of contexts: the labels at one lag, divided like categories.

Both sides of such a split hold the same positions, except where a side has no context of a position's type.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.trees.criterion import Limits, Node, SplitRule, gain_of
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.integers import int64
from seqboost.trees.ordering import Ranks, sort
from seqboost.trees.tree import LAG

__all__ = ["best_lag", "order_lag"]


@inlined
def best_lag(
    best: SplitRule,
    node: Node,
    limits: Limits,
    context_sums: NDArray[np.int64],  # IN (2, n_extended)
    mask: NDArray[np.int32],  # IN (n_extended,) −1 for the node's contexts, 0 for others
    type_rows: NDArray[np.int64],  # IN (order + 1,) positions of each type
    space: Space,
    scales: Scales,
    ranks: Ranks,
) -> SplitRule:
    """Scan the labels at each lag, from the sums per context."""
    order, sums, present, left = ranks.order, ranks.sums, ranks.present, ranks.on_left
    lam = limits.l2_regularization
    for lag in range(space.lag_label.shape[0]):
        n = order_lag(context_sums, mask, space, scales, lag, lam, ranks)
        g_left, h_left = 0.0, 0.0
        for r in range(n if limits.one_against_rest else n - 1):
            v = order[r]
            is_first = r == 0 or limits.one_against_rest
            g_left = (0.0 if is_first else g_left) + sums[0, v]
            h_left = (0.0 if is_first else h_left) + sums[1, v]
            for j in range(left.size):
                left[j] = (0 if is_first else left[j]) + present[v, j]
            n_left, n_right = _rows_of_sides(left, present, order, n, type_rows)
            h_l = h_left + lam
            h_r = node[1] - h_left + lam
            if min(n_left, n_right) >= limits.min_samples_leaf and h_l > 0.0 and h_r > 0.0:
                gain = gain_of(g_left, h_l, node[0] - g_left, h_r) - node[3]
                if gain > best.gain:
                    best = SplitRule(gain, int64(LAG), int64(lag), int64(r), int64(0))
    return best


@inlined
def _rows_of_sides(
    left: NDArray[np.int64],  # IN (order + 1,) contexts of each type on the left
    present: NDArray[np.int64],  # IN (n_labels + 1, order + 1) contexts of each label and type
    order: NDArray[np.int64],  # IN labels
    n: int,  # IN their number
    type_rows: NDArray[np.int64],  # IN (order + 1,)
) -> tuple[int, int]:
    """Return the positions that have a context on the left, and those that have one on the right."""
    n_left, n_right = int64(0), int64(0)
    for j in range(type_rows.size):
        total = int64(0)
        for r in range(n):
            total += present[order[r], j]
        n_left += type_rows[j] if left[j] > 0 else 0
        n_right += type_rows[j] if total > left[j] else 0
    return n_left, n_right


@inner
def order_lag(
    context_sums: NDArray[np.int64],  # IN (2, n_extended)
    mask: NDArray[np.int32],  # IN (n_extended,)
    space: Space,
    scales: Scales,
    lag: int,  # IN lag − 1
    lam: float,  # IN λ
    ranks: Ranks,  # OUT
) -> int:
    """Sum the node's contexts by their label at a lag; order those labels by rising G/(H+λ); return their number."""
    keys, order, sums, present = ranks.keys, ranks.order, ranks.sums, ranks.present
    for v in range(sums.shape[1]):
        sums[0, v] = 0.0
        sums[1, v] = 0.0
        for j in range(present.shape[1]):
            present[v, j] = 0
    for e in range(mask.size):
        if mask[e] != 0:
            v = space.lag_label[lag, e]
            sums[0, v] += context_sums[0, e] / scales.gradient
            sums[1, v] += context_sums[1, e] / scales.curvature
            present[v, space.type_of[e]] += 1
    n = int64(0)
    for v in range(sums.shape[1]):
        there = False
        for j in range(present.shape[1]):
            there = there or present[v, j] > 0
        if there:
            keys[n] = sums[0, v] / max(sums[1, v] + lam, 1e-300)
            order[n] = v
            n += 1
    sort(keys, order, n)
    return n
