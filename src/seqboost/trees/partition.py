"""Dividing a node's positions between its children.

A split first marks where each position goes: left, right, or both ways. A window test sends it one way, unless its
value is missing and the policy is INSTANCE_WEIGHTING; then the position goes to both children,

    to the left with  w·s,  to the right with  w·(1 − s),          s = n_l / (n_l + n_r)

with n_l and n_r the weights of the positions that the split can tell. A lag test sends a position both ways, with all
of its weight, if both children have contexts of its type.

Then the segment is divided, stably: in place if no position goes both ways; otherwise one child takes the place of its
parent, and the other goes to the end of the segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner, int64, uint64
from seqboost.trees.columns import Columns, DenseColumns
from seqboost.trees.nodes import Weighted
from seqboost.trees.tree import DENSE

__all__ = ["BOTH", "LEFT", "RIGHT", "divide_in_place", "divide_to_end", "mark_contexts", "mark_rows", "value_of"]

RIGHT, LEFT, BOTH = 0, 1, 2  # where a position goes


@inner
def value_of(
    columns: Columns,
    kind: int,  # IN DENSE or SPARSE
    feature: int,  # IN
    row: int,  # IN a position
) -> int:
    """Return the value of a window feature: a code, or a slot counted from the feature's first one; −1: absent."""
    dense, sparse = columns
    if kind == DENSE:
        return int64(dense.codes[dense.address[row] + dense.displacement[feature]])
    s = feature % sparse.kind.size
    padded = sparse.padded_row[row] + sparse.offset[feature // sparse.kind.size]
    found = int64(-1)
    for q in range(sparse.indptr[padded], sparse.indptr[padded + 1]):
        if sparse.slot_start[s] <= sparse.indices[q] < sparse.slot_start[s + 1]:
            found = int64(sparse.indices[q] - sparse.slot_start[s])
    return found


@inner
def mark_rows(
    columns: Columns,
    split: tuple[int, int],  # IN kind and feature
    left: NDArray[np.bool_],  # IN (max_values,)
    missing: int,  # IN the value that stands for missing; −1: none does
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    mark: NDArray[np.uint8],  # OUT (last - first,)
) -> tuple[int, int]:
    """Mark where positions go by their values; return how many go left and how many have no value."""
    kind, feature = split
    n_left, n_missing = int64(0), int64(0)
    if kind == DENSE:
        dense = columns.dense
        codes, address, displacement = dense.codes, dense.address, dense.displacement[feature]
        for p in range(uint64(first), uint64(last)):
            code = int64(codes[uint64(address[uint64(rows[p])] + displacement)])
            is_missing = int64(code == missing)
            here = max(int64(left[uint64(code)]), BOTH * is_missing)
            mark[p - uint64(first)] = here
            n_missing += is_missing
            n_left += here
        return n_left - BOTH * n_missing, n_missing
    for p in range(first, last):
        v = value_of(columns, kind, feature, int64(rows[p]))
        here = int64(RIGHT)
        if v >= 0:
            here = int64(BOTH if v == missing else left[v])
        mark[p - first] = here
        n_missing += int64(here == BOTH)
        n_left += int64(here == LEFT)
    return n_left, n_missing


@inner
def mark_contexts(
    space: Space,
    has: NDArray[np.bool_],  # IN (2, order + 1) types of rows that have a context on the left and on the right
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    mark: NDArray[np.uint8],  # OUT (last - first,)
) -> None:
    """Mark where positions go by the contexts that they have."""
    for p in range(first, last):
        j = space.row_type[rows[p]]
        mark[p - first] = BOTH if has[0, j] and has[1, j] else (LEFT if has[0, j] else RIGHT)


@inner
def divide_in_place(
    dense: DenseColumns | None,
    feature: int,  # IN a dense one
    left: NDArray[Any],  # IN (max_values,) whether a code goes left; without ``dense``: marks, LEFT or RIGHT
    rows: NDArray[np.int32],  # IN/OUT positions
    spare: NDArray[np.int32],  # SCRATCH (n_rows,)
    span: tuple[int, int, int],  # IN first, end of the fitted, end
) -> tuple[int, int]:
    """Move the positions that go left to the front; return how many they are, and how many of them are fitted."""
    first, fitted, last = uint64(span[0]), uint64(span[1]), uint64(span[2])
    a, b, n_left_fitted = first, uint64(0), uint64(0)
    for p in range(first, last):
        row = rows[p]
        if dense is None:
            step = uint64(left[p - first])
        else:
            step = uint64(left[dense.codes[uint64(dense.address[uint64(row)] + dense.displacement[feature])]])
        # Both places are written and one counter moves: no branch to mispredict.
        rows[a] = row
        spare[b] = row
        a += step
        b += uint64(1) - step
        n_left_fitted = a if p < fitted else n_left_fitted
    for q in range(b):
        rows[a + q] = spare[q]
    return int64(a - first), int64(max(n_left_fitted, first) - first)


@inner
def divide_to_end(
    mark: NDArray[np.uint8],  # IN (last - first,)
    rows: NDArray[np.int32],  # IN/OUT positions
    weighted: Weighted | None,  # IN/OUT their weights
    share: float,  # IN s: which part of a position that goes both ways goes left; −1: all of it goes to both sides
    span: tuple[int, int, int],  # IN first, end of the fitted, end
    leaving: int,  # IN the side whose child goes to the end: LEFT or RIGHT
    end: int,  # IN where the end is
) -> tuple[int, int, int, int]:
    """Divide positions; return how many stay and how many of them are fitted; the same of those that leave."""
    first, fitted, last = span
    a, b = uint64(first), uint64(end)
    n_stays, n_leaves = int64(0), int64(0)
    for p in range(uint64(first), uint64(last)):
        if p == uint64(fitted):
            n_stays, n_leaves = int64(a) - first, int64(b) - end
        row, here = rows[p], mark[p - uint64(first)]
        rows[a] = row
        rows[b] = row
        if weighted is not None:
            w, n = weighted.weight[p], weighted.units[p]
            to_left = np.float32(1.0 if here == LEFT else 0.0)
            part, rest, n_part, n_rest = w, w, n, n
            if here != BOTH or share >= 0.0:
                to_left = np.float32(share) if here == BOTH else to_left
                # What goes left is rounded; the right gets the rest.
                part, rest = w * to_left, w * (np.float32(1.0) - to_left)
                n_part = np.int32(n * np.float64(to_left) + 0.5)
                n_rest = np.int32(n - n_part)
            weighted.weight[a], weighted.units[a] = (rest, n_rest) if leaving == LEFT else (part, n_part)
            weighted.weight[b], weighted.units[b] = (part, n_part) if leaving == LEFT else (rest, n_rest)
        a += uint64(here != leaving)
        b += uint64(here in (leaving, BOTH))
    if fitted == last:
        n_stays, n_leaves = int64(a) - first, int64(b) - end
    return int64(a) - first, n_stays, int64(b) - end, n_leaves
