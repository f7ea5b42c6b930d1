"""Rows of the nodes of a tree that sends rows both ways.

As in :mod:`seqboost.trees.partition`, every node owns a segment of parallel arrays, fitted positions first, then those
that ride along. Here a position has a weight w as well, 1 at the root. Where a split's feature is missing and its
policy is INSTANCE_WEIGHTING, the position goes to both children,

    to the left with  w·s,  to the right with  w·(1 − s),          s = n_l / (n_l + n_r)

with n_l and n_r the weights of the positions that the split can tell. Its fixed-point sums are divided likewise, the
left part rounded and the right one what that leaves: *left + right = parent* holds to the bit.

One child takes the place of its parent, the other one, which has fewer positions, goes to the end of the arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner
from seqboost.trees.fixedpoint import curvature_of, gradient_of
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import HALF, int64, uint64
from seqboost.trees.tree import DENSE

__all__ = ["BOTH", "LEFT", "RIGHT", "WeightedRows", "divide_weighted", "mark_rows", "scaled", "share_weighted"]

RIGHT, LEFT, BOTH = 0, 1, 2  # where a position goes

SHIFT = 1 << 33  # more than any half of a packed number
ABOVE = SHIFT + 0.5


class WeightedRows(NamedTuple):
    """Segments of the leaves."""

    rows: NDArray[np.int32]  # positions
    sums: NDArray[np.int64]  # their packed sums over a leaf's contexts, times their weights
    weight: NDArray[np.float32]  # w
    units: NDArray[np.int32]  # w in fixed point


@inner
def scaled(packed: int, factor: float) -> int:
    """Return packed sums times a factor, rounded."""
    # Towards zero from a number that is never negative: the same as ``floor``, which costs more.
    g = int64(gradient_of(packed) * factor + ABOVE) - SHIFT
    h = int64(curvature_of(packed) * factor + ABOVE) - SHIFT
    return (h << HALF) + g


@inner
def mark_rows(
    dense: DenseColumns,
    sparse: SparseColumns,
    kind: int,  # IN DENSE or SPARSE
    feature: int,  # IN as in SplitRule
    left: NDArray[np.bool_],  # IN (max_values,)
    missing: int,  # IN the value that stands for missing; −1: none does
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    mark: NDArray[np.uint8],  # OUT (last - first,)
) -> tuple[int, int]:
    """Tell where positions go by their values; return how many go left and how many have no value."""
    n_left, n_missing = int64(0), int64(0)
    if kind == DENSE:
        codes, address, displacement = dense.codes, dense.address, dense.displacement[feature]
        for p in range(uint64(first), uint64(last)):
            code = int64(codes[uint64(address[uint64(rows[p])] + displacement)])
            is_missing = int64(code == missing)
            here = max(int64(left[code]), BOTH * is_missing)
            mark[p - uint64(first)] = here
            n_missing += is_missing
            n_left += here
        return n_left - BOTH * n_missing, n_missing
    s = feature % sparse.kind.size
    offset = sparse.offset[feature // sparse.kind.size]
    first_slot, last_slot = sparse.slot_start[s], sparse.slot_start[s + 1]
    for p in range(first, last):
        row = sparse.padded_row[rows[p]] + offset
        here = int64(RIGHT)
        for q in range(sparse.indptr[row], sparse.indptr[row + 1]):
            slot = sparse.indices[q]
            if first_slot <= slot < last_slot:
                if slot - first_slot == missing:
                    here = int64(BOTH)
                elif left[slot - first_slot]:
                    here = int64(LEFT)
        mark[p - first] = here
        n_missing += int64(here == BOTH)
        n_left += int64(here == LEFT)
    return n_left, n_missing


@inner
def divide_weighted(
    mark: NDArray[np.uint8],  # IN (last - first,)
    share: np.float32,  # IN s
    part_left: NDArray[np.float32],  # SCRATCH (3,) what goes left of a position, by its mark
    segments: WeightedRows,  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node
    last: int,  # IN
    leaving: int,  # IN the side whose child goes to the end: LEFT or RIGHT
    end: int,  # IN where the end is
) -> tuple[int, int, int, int]:
    """Divide positions stably: return how many stay and how many of them are fitted; the same of those that leave.

    Both places are written and their counters move or not: there is no branch to mispredict. Factors come from a table
    for the same reason, as a choice between floating-point numbers is compiled to a branch.
    """
    part_left[RIGHT], part_left[LEFT], part_left[BOTH] = 0.0, 1.0, share
    rows, sums, weight, units = segments
    one = np.float32(1.0)
    a, b = uint64(first), uint64(end)
    begin = uint64(first)
    for p in range(begin, uint64(first + n_fitted)):
        here = mark[p - begin]
        row, w, packed, n = rows[p], weight[p], sums[p], units[p]
        # What goes left is rounded; the right gets the rest.
        to_left = part_left[here]
        factor = np.float64(to_left)
        part, part_n = scaled(packed, factor), np.int32(n * factor + 0.5)
        if leaving == LEFT:
            rows[a], sums[a], units[a], weight[a] = row, packed - part, n - part_n, w * (one - to_left)
            rows[b], sums[b], units[b], weight[b] = row, part, part_n, w * to_left
            a += uint64(here != LEFT)
            b += uint64(here != RIGHT)
        else:
            rows[a], sums[a], units[a], weight[a] = row, part, part_n, w * to_left
            rows[b], sums[b], units[b], weight[b] = row, packed - part, n - part_n, w * (one - to_left)
            a += uint64(here != RIGHT)
            b += uint64(here != LEFT)
    fitted_a, fitted_b = int64(a) - first, int64(b) - end
    for p in range(uint64(first + n_fitted), uint64(last)):
        here = mark[p - begin]
        row, w = rows[p], weight[p]
        to_left = part_left[here]
        to_stay = one - to_left if leaving == LEFT else to_left
        rows[a], weight[a] = row, w * to_stay
        rows[b], weight[b] = row, w * (one - to_left if leaving == RIGHT else to_left)
        a += uint64(here != leaving)
        b += uint64(here in (leaving, BOTH))
    return int64(a) - first, fitted_a, int64(b) - end, fitted_b


@inner
def share_weighted(
    cells: NDArray[np.int64],  # IN (n_rows, n_contexts)
    space: Space,
    mask: NDArray[np.int32],  # IN (n_extended,) contexts of the first child
    has: NDArray[np.bool_],  # IN (2, order + 1) types of rows that have a context on the left and on the right
    side: int,  # IN that of the first child: 0 left, 1 right
    segments: WeightedRows,  # IN/OUT
    first: int,  # IN
    n_fitted: int,  # IN fitted positions of the node
    last: int,  # IN
    to: tuple[int, int],  # IN where the children's segments begin
) -> tuple[int, int, int, int]:
    """Give both children of a split of contexts their positions, as :func:`seqboost.trees.partition.share` does."""
    rows, sums, weight, units = segments
    row_type = space.row_type
    here, there = uint64(side), uint64(1 - side)
    a, b = uint64(to[0]), uint64(to[1])
    fitted_a, fitted_b = int64(0), int64(0)
    for p in range(uint64(first), uint64(last)):
        if p == uint64(first + n_fitted):
            fitted_a, fitted_b = int64(a) - to[0], int64(b) - to[1]
        row, w = rows[p], weight[p]
        i = uint64(row)
        j = uint64(row_type[i])
        whole, part, n = int64(0), int64(0), np.int32(0)
        if p < uint64(first + n_fitted):
            whole, n = sums[p], units[p]
            for c in range(space.n_contexts_of[j]):
                part += cells[i, c] if mask[space.base[j] + c] != 0 else 0
            if w != np.float32(1.0):
                part = scaled(part, np.float64(w))
            if not (has[here, j] and has[there, j]):  # nothing is lost to rounding
                part = whole if has[here, j] else int64(0)
        rows[a], sums[a], weight[a], units[a] = row, part, w, n
        a += uint64(has[here, j])
        rows[b], sums[b], weight[b], units[b] = row, whole - part, w, n
        b += uint64(has[there, j])
    if n_fitted == last - first:
        fitted_a, fitted_b = int64(a) - to[0], int64(b) - to[1]
    return int64(a) - to[0], int64(b) - to[1], fitted_a, fitted_b
