"""Left sets: from a split as it was found to the values that go left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner
from seqboost.trees.criterion import AFTER_ABSENT, BOUNDARY_LEFT, FROM_TOP, MISSING_LEFT, Limits, Node, SplitRule
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.lags import order_lag
from seqboost.trees.ordering import MIN_ROWS_OF_WIDE_CATEGORY, Ranks, order_categories
from seqboost.trees.tree import DENSE, LAG

__all__ = ["left_values"]


@inner
def left_values(
    dense: DenseColumns,
    sparse: SparseColumns,
    space: Space,
    limits: Limits,
    scales: Scales,
    rule: SplitRule,
    node: Node,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    context_sums: NDArray[np.int64],  # IN (2, n_extended)
    mask: NDArray[np.int32],  # IN (n_extended,) −1 for the node's contexts, 0 for others
    left: NDArray[np.bool_],  # OUT (max_values,) does value v go left?
    ranks: Ranks,
) -> int:
    """Write the left set of a split: bin codes, labels at the lag, or slots of the sparse feature; return its size."""
    lam = limits.l2_regularization
    # Cells of the tested feature, and how many of them count as categories.
    start, n_cells, n_values, min_rows = int64(0), int64(0), int64(space.n_labels) + 1, int64(1)
    rank = int64(-1)  # of "absent", if the feature has ordered slots
    if rule.kind == DENSE:
        start = dense.cell_start[rule.feature]
        n_cells = int64(dense.n_values[rule.feature]) + 2
        n_values = int64(256)
    elif rule.kind != LAG:
        n_sparse = sparse.kind.size
        o, s = rule.feature // n_sparse, rule.feature % n_sparse
        first = int64(sparse.slot_start[s])
        n_cells = int64(sparse.slot_start[s + 1]) - first
        n_values = n_cells
        start = dense.cell_start[dense.feature.size] + o * int64(sparse.slot_start[n_sparse]) + first
        min_rows = MIN_ROWS_OF_WIDE_CATEGORY * int64(scales.unit)
        rank = int64(sparse.absent_rank[s]) if sparse.kind[s] == 0 else rank
    for v in range(n_values):
        left[v] = False
    if rule.kind == DENSE and dense.kind[rule.feature] == 0:
        _numeric_left(rule, histogram, start, n_cells - 2, scales, node, left)
    elif rank >= 0:
        _slots_left(rule, n_cells, rank, left)
    else:
        if rule.kind == LAG:
            n = order_lag(context_sums, mask, space, scales, rule.feature, lam, ranks)
        else:
            n = order_categories(histogram, start, n_cells, min_rows, scales, lam, ranks)
        for r in range(rule.cut if limits.one_against_rest else 0, rule.cut + 1):
            left[ranks.order[n - 1 - r if rule.flags == FROM_TOP else r]] = True
        if rule.kind == DENSE:
            _complete(histogram, start, n_cells, scales, node, left)
    return n_values


@inlined
def _numeric_left(
    rule: SplitRule,
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    start: int,  # IN first cell of the feature
    n_values: int,  # IN
    scales: Scales,
    node: Node,
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> None:
    """Write the codes that go left of a threshold; specials that the node does not hold go with the larger side."""
    count_mask = (int64(1) << scales.count_bits) - 1
    n_left = int64(0)
    for v in range(rule.cut + 1):
        left[v] = True
        n_left += histogram[2 * (start + v) + 1] & count_mask
    n_missing = histogram[2 * (start + n_values) + 1] & count_mask
    n_boundary = histogram[2 * (start + n_values + 1) + 1] & count_mask
    n_left += n_missing if rule.flags & MISSING_LEFT else 0
    n_left += n_boundary if rule.flags & BOUNDARY_LEFT else 0
    larger_left = 2 * n_left > node[2]
    left[n_values] = (rule.flags & MISSING_LEFT) != 0 if n_missing > 0 else larger_left
    left[n_values + 1] = (rule.flags & BOUNDARY_LEFT) != 0 if n_boundary > 0 else larger_left


@inlined
def _slots_left(
    rule: SplitRule,
    n_slots: int,  # IN
    rank: int,  # IN of "absent"
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> None:
    """Write the ordered slots on the side of the threshold where "absent" is not: it always goes right."""
    rank = rank if n_slots > 1 else 0
    low_side_has_absent = rule.flags == AFTER_ABSENT or rule.cut >= rank
    for v in range(n_slots):
        low_side = v < rule.cut if rule.flags == AFTER_ABSENT else v <= rule.cut
        left[v] = low_side != low_side_has_absent if n_slots > 1 else True


@inlined
def _complete(
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    start: int,  # IN first cell of the feature
    n_cells: int,  # IN its number of cells
    scales: Scales,
    node: Node,
    left: NDArray[np.bool_],  # IN/OUT (max_values,)
) -> None:
    """Send an unknown category, and categories that this node does not hold, with the larger side."""
    count_mask = (int64(1) << scales.count_bits) - 1
    n_left = int64(0)
    for v in range(n_cells):
        n_left += histogram[2 * (start + v) + 1] & count_mask if left[v] else 0
    if 2 * n_left > node[2]:
        left[n_cells] = True
        for v in range(n_cells):
            left[v] = left[v] or histogram[2 * (start + v) + 1] == 0
