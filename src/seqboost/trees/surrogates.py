"""Surrogate splits: other features that divide the rows of a node as a split does (Breiman et al. 1984, section 5.3).

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.tree import DENSE, SPARSE

__all__ = ["CATEGORIES", "Ranking", "rank_surrogates", "surrogate_left"]

CATEGORIES = -1  # in place of a cut


class Ranking(NamedTuple):
    """The best surrogates found for a split, best first."""

    agreement: NDArray[np.float64]  # (n_surrogates,) A/W
    kind: NDArray[np.int64]  # (n_surrogates,)
    place: NDArray[np.int64]  # (n_surrogates,) as in SplitRule
    cut: NDArray[np.int64]  # (n_surrogates,) last value on the low side, or CATEGORIES
    low_left: NDArray[np.bool_]  # (n_surrogates,) whether the low side goes left


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
    place: int,
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
        ranking.place[q] = ranking.place[q - 1]
        ranking.cut[q] = ranking.cut[q - 1]
        ranking.low_left[q] = ranking.low_left[q - 1]
        q -= 1
    ranking.agreement[q] = agreement
    ranking.kind[q] = kind
    ranking.place[q] = place
    ranking.cut[q] = cut
    ranking.low_left[q] = low_left
    return min(n + 1, ranking.agreement.size)


@inner
def rank_surrogates(
    dense: DenseColumns,
    sparse: SparseColumns,
    kind: int,  # IN of the split
    place: int,  # IN of its feature
    on_left: NDArray[np.int64],  # IN (n_cells,) weight of the rows that the split sends left, where it can tell
    on_right: NDArray[np.int64],  # IN (n_cells,) right
    n_left: int,  # IN that of all of them
    n_right: int,  # IN
    ranking: Ranking,  # OUT
) -> int:
    """Find the features that divide the rows most like a split; return how many there are."""
    n = int64(0)
    if ranking.agreement.size == 0:
        return n
    for f in range(dense.feature.size):
        if kind == DENSE and f == place:
            continue
        start, n_values = dense.cell_start[f], int64(dense.n_values[f])
        cut, low_left = int64(CATEGORIES), True
        if dense.kind[f] == 0:
            best, left, right, cut, low_left = _threshold(on_left, on_right, start, n_values)
        else:
            best, left, right = _majorities(on_left, on_right, start, dense.cell_start[f + 1] - start, n_values)
        if best > max(left, right):
            n = _insert(ranking, n, best / (left + right), int64(DENSE), int64(f), cut, low_left)
    n_sparse = sparse.kind.size
    n_slots = int64(sparse.slot_start[n_sparse])
    for o in range(sparse.offset.size if n_slots > 0 else 0):
        for s in range(n_sparse):
            f = o * n_sparse + s
            if not sparse.enabled[o, s] or (kind == SPARSE and f == place):
                continue
            start = dense.cell_start[dense.feature.size] + o * n_slots + sparse.slot_start[s]
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
def surrogate_left(
    dense: DenseColumns,
    sparse: SparseColumns,
    ranking: Ranking,
    number: int,  # IN
    on_left: NDArray[np.int64],  # IN (n_cells,)
    on_right: NDArray[np.int64],  # IN (n_cells,)
    larger_left: bool,  # IN whether the split sends more rows left
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> int:
    """Write the left set of a surrogate; return its size."""
    place = ranking.place[number]
    if ranking.kind[number] == DENSE:
        start, n_values, size = dense.cell_start[place], int64(dense.n_values[place]), int64(256)
        n_cells = dense.cell_start[place + 1] - start
    else:
        s = place % sparse.kind.size
        start = dense.cell_start[dense.feature.size] + place // sparse.kind.size * int64(
            sparse.slot_start[sparse.kind.size]
        )
        start += sparse.slot_start[s]
        n_cells = int64(sparse.slot_start[s + 1]) - int64(sparse.slot_start[s])
        n_values, size = int64(sparse.missing[s]) if sparse.missing[s] >= 0 else n_cells, n_cells
    for v in range(size):
        left[v] = False
    for v in range(n_cells):
        here_left, here_right = on_left[start + v], on_right[start + v]
        left[v] = here_left > here_right or (here_left == here_right and larger_left)
    if ranking.cut[number] != CATEGORIES:
        for v in range(n_values):
            left[v] = (v <= ranking.cut[number]) == ranking.low_left[number]
    elif ranking.kind[number] == DENSE:
        # An unknown category: only a warm start has cells for it.
        left[n_values + 2] = left[n_values + 2] if n_cells > n_values + 2 else larger_left
    if n_values < n_cells:
        left[n_values] = False  # missing: asked for before
    return size
