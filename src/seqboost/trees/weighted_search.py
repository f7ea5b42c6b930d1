"""The best split of a node of weighted rows, with a policy for each feature's missing values.

Under the policies INSTANCE_WEIGHTING and SURROGATE, the gain of a split counts the rows where its feature is present,

    gain = G_l²/(H_l+λ) + G_r²/(H_r+λ) − G_p²/(H_p+λ),        G_p = G_l + G_r = G − G_missing

so such a feature is searched in a node of these rows alone, whose cell of missing values is empty. The candidates are
those of :mod:`seqboost.trees.splitting`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.core.missing import DIRECTION
from seqboost.trees.criterion import Limits, Node, SplitRule, gain_to_beat, unpack
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.lags import best_lag
from seqboost.trees.leftsets import left_values
from seqboost.trees.missing import Policies
from seqboost.trees.ordering import MIN_ROWS_OF_WIDE_CATEGORY, Ranks
from seqboost.trees.splitting import best_slots, best_subset, best_threshold
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["best_weighted_split", "policy_of", "weighted_left"]


@inlined
def _without(
    node: Node,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    cell: int,  # IN
    limits: Limits,
    scales: Scales,
) -> Node:
    """Return the node without the rows of a cell."""
    g_missing, h_missing, n_missing = unpack(histogram, cell, scales)
    g, h = node[0] - g_missing, node[1] - h_missing
    return g, h, node[2] - n_missing, g * g / max(h + limits.l2_regularization, 1e-300)


@inner
def best_weighted_split(
    dense: DenseColumns,
    sparse: SparseColumns,
    policies: Policies,
    space: Space,
    limits: Limits,
    scales: Scales,
    node: Node,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,) changed and changed back
    context_sums: NDArray[np.int64],  # IN (2, n_extended)
    mask: NDArray[np.int32],  # IN (n_extended,)
    type_rows: NDArray[np.int64],  # IN (order + 1,) weights
    drawn: NDArray[np.bool_],  # IN (n_window_features,)
    ranks: Ranks,
) -> SplitRule:
    """Return the best split of a node, as ``best_split`` does."""
    best = SplitRule(gain_to_beat(limits, node[3]), int64(-1), int64(0), int64(0), int64(0))
    n_features = dense.feature.size
    for f in range(n_features):
        if not drawn[f]:
            continue
        start = dense.cell_start[f]
        missing = start + dense.n_values[f]
        here, g, h = node, histogram[2 * missing], histogram[2 * missing + 1]
        if policies.dense[f] != DIRECTION:
            here = _without(node, histogram, missing, limits, scales)
            histogram[2 * missing] = 0
            histogram[2 * missing + 1] = 0
        if here[2] >= 2 * limits.min_samples_leaf:
            if dense.kind[f] == 0:
                best = best_threshold(best, here, limits, histogram, start, dense.n_values[f], scales, f)
            else:
                span = (start, int64(dense.n_values[f]) + 2)
                best = best_subset(best, here, limits, histogram, span, int64(1), scales, int64(DENSE), int64(f), ranks)
        histogram[2 * missing] = g
        histogram[2 * missing + 1] = h
    n_sparse = sparse.kind.size
    n_slots = int64(sparse.slot_start[n_sparse])
    for o in range(sparse.offset.size if n_sparse > 0 else 0):
        shift = dense.cell_start[n_features] + o * n_slots
        for s in range(n_sparse):
            feature = o * n_sparse + s
            if not (sparse.enabled[o, s] and drawn[n_features + feature]):
                continue
            first = int64(sparse.slot_start[s])
            n = int64(sparse.slot_start[s + 1]) - first
            missing = shift + first + max(int64(sparse.missing[s]), 0)
            here, g, h = node, histogram[2 * missing], histogram[2 * missing + 1]
            if sparse.missing[s] >= 0 and policies.sparse[s] != DIRECTION:
                here = _without(node, histogram, missing, limits, scales)
                histogram[2 * missing] = 0
                histogram[2 * missing + 1] = 0
            if here[2] >= 2 * limits.min_samples_leaf:
                if sparse.kind[s] == 0:
                    best = best_slots(
                        best, here, limits, histogram, shift + first, n, sparse.absent_rank[s], scales, feature
                    )
                else:
                    best = best_subset(
                        best, here, limits, histogram, (shift + first, n),
                        MIN_ROWS_OF_WIDE_CATEGORY * int64(scales.unit), scales, int64(SPARSE), int64(feature), ranks,
                    )  # fmt: skip
            histogram[2 * missing] = g
            histogram[2 * missing + 1] = h
    if space.lag_label.shape[0] > 0:
        best = best_lag(best, node, limits, context_sums, mask, type_rows, space, scales, ranks)
    return best


@inlined
def policy_of(sparse: SparseColumns, policies: Policies, kind: int, feature: int) -> int:
    """Return the policy of a split's feature."""
    if kind == LAG:
        return int64(DIRECTION)
    if kind == DENSE:
        return int64(policies.dense[feature])
    s = feature % sparse.kind.size
    return int64(policies.sparse[s]) if sparse.missing[s] >= 0 else int64(DIRECTION)


@inlined
def weighted_left(
    dense: DenseColumns,
    sparse: SparseColumns,
    policy: int,  # IN of the split's feature
    space: Space,
    limits: Limits,
    scales: Scales,
    rule: SplitRule,
    node: Node,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,) changed and changed back
    context_sums: NDArray[np.int64],  # IN (2, n_extended)
    mask: NDArray[np.int32],  # IN (n_extended,)
    left: NDArray[np.bool_],  # OUT (max_values,) does value v go left?
    ranks: Ranks,
) -> tuple[int, int, int, int]:
    """Write the left set of a split; "missing" goes with the larger side, but with the policy DIRECTION as it may.

    Return the size of the set, the value that stands for missing (−1 with the policy DIRECTION), and the weights of the
    rows with a value that go left and right.
    """
    if policy == DIRECTION:
        size = left_values(
            dense, sparse, space, limits, scales, rule, node, histogram, context_sums, mask, left, ranks
        )  # fmt: skip
        return size, int64(-1), int64(0), int64(0)
    if rule.kind == DENSE:
        start, missing = dense.cell_start[rule.feature], int64(dense.n_values[rule.feature])
        n_cells = dense.cell_start[rule.feature + 1] - start
    else:
        s = rule.feature % sparse.kind.size
        start = dense.cell_start[dense.feature.size] + int64(sparse.slot_start[s])
        start += rule.feature // sparse.kind.size * int64(sparse.slot_start[sparse.kind.size])
        n_cells = int64(sparse.slot_start[s + 1]) - int64(sparse.slot_start[s])
        missing = int64(sparse.missing[s])
    cell = start + missing
    here, g, h = _without(node, histogram, cell, limits, scales), histogram[2 * cell], histogram[2 * cell + 1]
    histogram[2 * cell] = 0
    histogram[2 * cell + 1] = 0
    size = left_values(dense, sparse, space, limits, scales, rule, here, histogram, context_sums, mask, left, ranks)
    count_mask = (int64(1) << scales.count_bits) - 1
    n_left = int64(0)
    for v in range(n_cells):
        n_left += histogram[2 * (start + v) + 1] & count_mask if left[v] else 0
    left[missing] = 2 * n_left > here[2]
    histogram[2 * cell] = g
    histogram[2 * cell + 1] = h
    return size, missing, n_left, here[2] - n_left
