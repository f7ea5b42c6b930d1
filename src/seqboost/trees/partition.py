"""Dividing a node's positions between its children.

A split first marks where each position goes: left, right, or both ways. A window test sends it one way, unless its
value is missing and the policy is INSTANCE_WEIGHTING; then the position goes to both children,

    to the left with  w·s,  to the right with  w·(1 − s),          s = n_l / (n_l + n_r)

with n_l and n_r the weights of the positions that the split can tell. A lag test sends a position both ways, with all
of its weight, if both children have contexts of its type.

Then the segment is divided, stably: in place if no position goes both ways; otherwise one child takes the place of its
parent, and the other goes to the end of the segments.

Rows without a value may also go where a *surrogate* sends them: another feature that divides the rows of the node as
the split does (Breiman et al. 1984, section 5.3).

Of the rows where both the split's feature and feature g are present, let L(v) and R(v) be the weight of those that have
value v of g and that the split sends left and right. A surrogate sends each value one way and agrees with the split on

    A = Σ_{v sent left} L(v) + Σ_{v sent right} R(v)          of W = Σ_v L(v) + R(v)

It must do better than sending all one way, A > max(Σ L, Σ R), and surrogates rank by A/W, equal ones in the order of
features.

* numeric feature: the best threshold, low values on either side; the boundary goes where most of its rows go;
* categorical feature: every category goes where most of its rows go, and where the split sends more rows in a tie;
* sparse feature: so does every slot; "absent" goes right, as always.

The value that stands for "missing" is not among those of g.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner, int64, uint64
from seqboost.trees.columns import Columns, DenseColumns
from seqboost.trees.nodes import Ranking, Weighted
from seqboost.trees.tree import DENSE, SPARSE

__all__ = ["LEFT", "RIGHT", "divide_in_place", "divide_to_end", "find_surrogates", "mark_contexts", "mark_rows"]

RIGHT, LEFT, BOTH = 0, 1, 2  # where a position goes

CATEGORIES = -1  # in place of a cut


@inner
def value_of(
    columns: Columns,
    kind: int,  # IN DENSE or SPARSE
    feature: int,  # IN
    row: int,  # IN a position
) -> int:
    """Return the value of a window feature: a code, or a slot counted from the feature's first one; −1: absent."""
    dense, sparse = columns.dense, columns.sparse
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
    part_left = np.float32(share if share >= 0.0 else 1.0)
    part_right = np.float32(1.0) - part_left if share >= 0.0 else np.float32(1.0)
    for p in range(uint64(first), uint64(last)):
        if p == uint64(fitted):
            n_stays, n_leaves = int64(a) - first, int64(b) - end
        row, here = rows[p], mark[p - uint64(first)]
        rows[a] = row
        rows[b] = row
        if weighted is not None:
            w, n, is_both = weighted.weight[p], weighted.units[p], here == BOTH
            to_left = np.float32(here == LEFT) + np.float32(is_both) * part_left
            to_right = np.float32(here == RIGHT) + np.float32(is_both) * part_right
            # What goes left is rounded; the right gets the rest.
            n_left = np.int32(n * np.float64(to_left) + 0.5)
            n_right = np.int32(n - n_left + (n if is_both and share < 0.0 else 0))
            weighted.weight[a] = w * (to_right if leaving == LEFT else to_left)
            weighted.weight[b] = w * (to_left if leaving == LEFT else to_right)
            weighted.units[a] = n_right if leaving == LEFT else n_left
            weighted.units[b] = n_left if leaving == LEFT else n_right
        a += uint64(here != leaving)
        b += uint64(here in (leaving, BOTH))
    if fitted == last:
        n_stays, n_leaves = int64(a) - first, int64(b) - end
    return int64(a) - first, n_stays, int64(b) - end, n_leaves


@inner
def _count_values(
    columns: Columns,
    rows: NDArray[np.int32],  # IN positions
    units: NDArray[np.int32],  # IN their weights
    span: tuple[int, int],  # IN first and last of the fitted positions
    mark: NDArray[np.uint8],  # IN (last - first,)
    side: int,  # IN which positions count
    table: NDArray[np.int64],  # OUT (n_cells,)
) -> int:
    """Sum the weights of the positions that go to one side by their values; return that of all."""
    dense, sparse = columns.dense, columns.sparse
    for b in range(table.size):
        table[b] = 0
    first, last = span
    total = int64(0)
    n_dense_cells = dense.cell_start[dense.cell_start.size - 1]
    n_slots = int64(sparse.slot_start[sparse.slot_start.size - 1])
    for p in range(first, last):
        if mark[p - first] != side:
            continue
        n = int64(units[p])
        total += n
        address = dense.address[rows[p]]
        for f in range(uint64(dense.displacement.size)):
            table[uint64(dense.cell_start[f]) + uint64(dense.codes[uint64(address + dense.displacement[f])])] += n
        for o in range(sparse.offset.size if n_slots > 0 else 0):
            row = sparse.padded_row[rows[p]] + sparse.offset[o]
            for q in range(sparse.indptr[row], sparse.indptr[row + 1]):
                table[n_dense_cells + o * n_slots + sparse.indices[q]] += n
    return total


@inner
def _threshold(
    on_left: NDArray[np.int64],  # IN (n_cells,) L
    on_right: NDArray[np.int64],  # IN (n_cells,) R
    start: int,  # IN first cell of the feature
    n_values: int,  # IN
) -> tuple[int, int, int, int, bool]:
    """Return A, Σ L, Σ R, the cut and which way the low side goes, for a numeric feature."""
    left, right = int64(0), int64(0)
    for v in range(n_values):
        left += on_left[start + v]
        right += on_right[start + v]
    best, cut, low_left = int64(-1), int64(0), True
    low = int64(0)  # Σ_{v ≤ cut} L − R
    for v in range(n_values):
        low += on_left[start + v] - on_right[start + v]
        if right + low > best:
            best, cut, low_left = right + low, int64(v), True
        if left - low > best:
            best, cut, low_left = left - low, int64(v), False
    boundary = start + n_values + 1
    best = max(best, int64(0)) + max(on_left[boundary], on_right[boundary])
    return best, left + on_left[boundary], right + on_right[boundary], cut, low_left


@inner
def _majorities(
    on_left: NDArray[np.int64],  # IN (n_cells,) L
    on_right: NDArray[np.int64],  # IN (n_cells,) R
    start: int,  # IN first cell of the feature
    n_cells: int,  # IN its number of cells
    missing: int,  # IN the one that does not count; −1: all do
) -> tuple[int, int, int]:
    """Return A, Σ L and Σ R if every value goes where most of its rows go."""
    best, left, right = int64(0), int64(0), int64(0)
    for v in range(n_cells):
        if v != missing:
            here_left, here_right = on_left[start + v], on_right[start + v]
            best += max(here_left, here_right)
            left += here_left
            right += here_right
    return best, left, right


@inner
def _insert(
    ranking: Ranking,  # IN/OUT
    n: int,  # IN surrogates so far
    agreement: float,
    kind: int,
    feature: int,
    cut: int,
    low_left: bool,
) -> int:
    """Put a surrogate behind all that are as good; return how many there are now."""
    q = min(n, ranking.agreement.size - 1)
    if n == ranking.agreement.size and agreement <= ranking.agreement[q]:
        return n
    while q > 0 and agreement > ranking.agreement[q - 1]:
        ranking.agreement[q] = ranking.agreement[q - 1]
        ranking.kind[q] = ranking.kind[q - 1]
        ranking.feature[q] = ranking.feature[q - 1]
        ranking.cut[q] = ranking.cut[q - 1]
        ranking.low_left[q] = ranking.low_left[q - 1]
        q -= 1
    ranking.agreement[q] = agreement
    ranking.kind[q] = kind
    ranking.feature[q] = feature
    ranking.cut[q] = cut
    ranking.low_left[q] = low_left
    return min(n + 1, ranking.agreement.size)


@inner
def _rank(
    columns: Columns,
    split: tuple[int, int],  # IN kind and feature
    n_left: int,  # IN weight of the rows that the split sends left, where it can tell
    n_right: int,  # IN right
    weighted: Weighted,  # IN on_left and on_right, OUT ranking
) -> int:
    """Find the features that divide the rows most like a split; return how many there are."""
    dense, sparse = columns.dense, columns.sparse
    on_left, on_right, ranking = weighted.on_left, weighted.on_right, weighted.ranking
    kind, feature = split
    n = int64(0)
    if ranking.agreement.size == 0:
        return n
    for f in range(dense.displacement.size):
        if kind == DENSE and f == feature:
            continue
        start, n_values = dense.cell_start[f], int64(dense.n_values[f])
        cut, low_left = int64(CATEGORIES), True
        if dense.kind[f] == 0:
            best, left, right, cut, low_left = _threshold(on_left, on_right, start, n_values)
        else:
            best, left, right = _majorities(on_left, on_right, start, n_values + 3, n_values)
        if best > max(left, right):
            n = _insert(ranking, n, best / (left + right), int64(DENSE), int64(f), cut, low_left)
    n_sparse = sparse.kind.size
    n_slots = int64(sparse.slot_start[n_sparse])
    for o in range(sparse.offset.size if n_slots > 0 else 0):
        for s in range(n_sparse):
            f = o * n_sparse + s
            if not sparse.enabled[o, s] or (kind == SPARSE and f == feature):
                continue
            start = dense.cell_start[dense.displacement.size] + o * n_slots + sparse.slot_start[s]
            size = int64(sparse.slot_start[s + 1]) - int64(sparse.slot_start[s])
            missing = int64(sparse.missing[s])
            best, left, right = _majorities(on_left, on_right, start, size, missing)
            absent_left, absent_right = n_left - left, n_right - right
            if missing >= 0:
                absent_left -= on_left[start + missing]
                absent_right -= on_right[start + missing]
            best += absent_right
            left += absent_left
            right += absent_right
            if best > max(left, right):
                rate = best / (left + right)
                n = _insert(ranking, n, rate, int64(SPARSE), int64(f), int64(CATEGORIES), True)
    return n


@inner
def _write_left(
    columns: Columns,
    weighted: Weighted,
    number: int,  # IN of the surrogate
    larger_left: bool,  # IN whether the split sends more rows left
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> None:
    """Write the left set of a surrogate."""
    dense, sparse = columns.dense, columns.sparse
    ranking, on_left, on_right = weighted.ranking, weighted.on_left, weighted.on_right
    feature = ranking.feature[number]
    if ranking.kind[number] == DENSE:
        start, n_values = dense.cell_start[feature], int64(dense.n_values[feature])
        n_cells = n_values + 2 + int64(dense.kind[feature] != 0)
    else:
        s = feature % sparse.kind.size
        start = dense.cell_start[dense.displacement.size] + int64(sparse.slot_start[s])
        start += feature // sparse.kind.size * int64(sparse.slot_start[sparse.kind.size])
        n_cells = int64(sparse.slot_start[s + 1]) - int64(sparse.slot_start[s])
        n_values = int64(sparse.missing[s]) if sparse.missing[s] >= 0 else n_cells
    for v in range(left.size):
        left[v] = False
    for v in range(n_cells):
        here_left, here_right = on_left[start + v], on_right[start + v]
        left[v] = here_left > here_right or (here_left == here_right and larger_left)
    if ranking.cut[number] != CATEGORIES:
        for v in range(n_values):
            left[v] = (v <= ranking.cut[number]) == ranking.low_left[number]
    if n_values < n_cells:
        left[n_values] = False  # missing: asked for before


@inner
def find_surrogates(
    columns: Columns,
    weighted: Weighted,
    split: tuple[int, int],  # IN kind and feature
    node: int,  # IN
    rows: NDArray[np.int32],  # IN positions
    span: tuple[int, int],  # IN first and last of the fitted positions
    larger_left: bool,  # IN whether the split sends more rows left
    mark: NDArray[np.uint8],  # IN (last - first,)
) -> None:
    """Write the surrogates of a node's split."""
    detours, ranking = weighted.detours, weighted.ranking
    n_left = _count_values(columns, rows, weighted.units, span, mark, int64(LEFT), weighted.on_left)
    n_right = _count_values(columns, rows, weighted.units, span, mark, int64(RIGHT), weighted.on_right)
    n = _rank(columns, split, n_left, n_right, weighted)
    for q in range(n):
        detours.kind[node, q], detours.feature[node, q] = ranking.kind[q], ranking.feature[q]
        _write_left(columns, weighted, int64(q), larger_left, detours.left[node, q])
    detours.n[node] = n


@inner
def send_by_surrogates(
    columns: Columns,
    weighted: Weighted,
    node: int,  # IN
    larger_left: bool,  # IN
    rows: NDArray[np.int32],  # IN positions
    first: int,  # IN
    last: int,  # IN
    mark: NDArray[np.uint8],  # IN/OUT (last - first,)
) -> None:
    """Send the positions without a value where the first surrogate with one says, or with the larger side."""
    dense, sparse = columns.dense, columns.sparse
    detours = weighted.detours
    for p in range(first, last):
        if mark[p - first] != BOTH:
            continue
        mark[p - first] = LEFT if larger_left else RIGHT
        for q in range(detours.n[node]):
            kind, feature = int64(detours.kind[node, q]), int64(detours.feature[node, q])
            v = value_of(columns, kind, feature, int64(rows[p]))
            if kind == DENSE:
                is_missing = v == int64(dense.n_values[feature])
            else:
                is_missing = v >= 0 and v == int64(sparse.missing[feature % sparse.kind.size])
            if not is_missing:
                mark[p - first] = LEFT if v >= 0 and detours.left[node, q, v] else RIGHT
                break
