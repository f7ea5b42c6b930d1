"""Bounds of the contraction coefficients of factored models of order 1 with 9 to 32 labels, without pair marginals.

Letters as in :mod:`seqboost.chain.exact.factored`; g_t(c) = P(y_{t-1} = c | X), f_t(k) = P(y_t = k | X).  Pair
marginals are h(c) a(c,k) w(k).  Rows of P(y_t | y_{t-1}) are their rows, rows of P(y_{t-1} | y_t) their columns; either
way the bound is that of :mod:`seqboost.chain.contraction.pairs`, min(1 - shared, (d1 + d2) / 2), with distances from
the marginal law.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.contraction.pairs import IMPOSSIBLE
from seqboost.core.jit import allocating, inlined

__all__ = ["factored_bounds"]

FAR = 1e30
"""Largest ratio trusted to single precision; beyond it a bound is replaced by the trivial one."""

U = np.uint64


@inlined
def _shared_and_apart(
    cells: NDArray[np.float32],  # IN (K * K,) a(i, j)
    of_row: NDArray[np.float32],  # IN (K,) marginal law of i
    of_column: NDArray[np.float32],  # IN (K,) marginal law of j
    row_factor: NDArray[np.float64],  # IN (K,)
    column_factor: NDArray[np.float64],  # IN (K,)
    possible: NDArray[np.int64],  # SCRATCH (K,)
    ratio: NDArray[np.float32],  # SCRATCH (K,)
    spread: NDArray[np.float32],  # SCRATCH (K,)
    low: NDArray[np.float32],  # SCRATCH (K,)
    other: NDArray[np.float32],  # SCRATCH (K,)
) -> tuple[float, float]:
    """Return what the rows share, sum_j min_i P(j | i), and the bound (d1 + d2) / 2 of the distances between columns.

        P(j | i) = a(i,j) column(j) row(i) / of_row(i)        P(i | j) = a(i,j) row(i) column(j) / of_column(j)

    Factors are divided by their largest.  Rows are taken two at a time, the weight of what is missing is 0.
    """
    n_labels, n_rows = of_row.size, 0
    row_top, column_top = 0.0, 0.0
    for j in range(n_labels):
        row_top = row_factor[j] if row_factor[j] > row_top else row_top
        column_top = column_factor[j] if column_factor[j] > column_top else column_top
    for j in range(n_labels):
        scale = column_factor[j] / of_column[j] * row_top if of_column[j] > IMPOSSIBLE else 0.0
        ratio[j], spread[j], low[j] = scale if scale < FAR else -1.0, 0.0, np.inf
        if of_row[j] > IMPOSSIBLE:
            possible[n_rows] = j
            n_rows += 1
    for place in range(0, n_rows, 2):
        i0, i1 = possible[place], possible[min(place + 1, n_rows - 1)]
        at0, at1 = U(i0 * n_labels), U(i1 * n_labels)
        f0, g0 = np.float32(row_factor[i0] / row_top), of_row[i0]
        f1, g1 = (np.float32(row_factor[i1] / row_top), of_row[i1]) if i1 != i0 else (np.float32(0.0), np.float32(0.0))
        u0 = np.float32(min(row_factor[i0] / of_row[i0] * column_top, FAR))
        u1 = np.float32(min(row_factor[i1] / of_row[i1] * column_top, FAR))
        for j in range(n_labels):
            a0, a1, r = cells[at0 + U(j)], cells[at1 + U(j)], ratio[j]
            here = a0 * u0 if a0 * u0 < a1 * u1 else a1 * u1
            other[j] = here if here < low[j] else low[j]
            spread[j] += abs(a0 * f0 * r - g0) + abs(a1 * f1 * r - g1)
        low, other = other, low  # in place it would be a conditional store, which is not vectorised
    shared, largest, second = 0.0, 0.0, 0.0
    for j in range(n_labels):
        shared += np.float64(low[j]) * (column_factor[j] / column_top) if column_factor[j] > 0.0 else 0.0
        if of_column[j] > IMPOSSIBLE:
            distance = np.float64(spread[j]) if ratio[j] >= 0.0 else 2.0
            second = max(second, min(largest, distance))
            largest = max(largest, distance)
    return shared, 0.5 * (largest + second)


@allocating
def factored_bounds(
    weights: NDArray[np.float32],  # IN (K * K,) a(c, k)
    turned: NDArray[np.float32],  # IN (K * K,) the same, transposed
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    runs: tuple[int, int],  # first, last sequence of the chunk
    in_logs: NDArray[np.bool_],  # IN (chunk sequences,) these are left out
    before: NDArray[np.float64],  # IN (chunk positions * K,) h_t
    after: NDArray[np.float64],  # IN (chunk positions * K,) w_t
    marginals: NDArray[np.float32],  # IN (K * N,) P(y_t=k | X)
    tau_forward: NDArray[np.float32],  # OUT (N,)
    tau_backward: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Upper bounds of both contraction coefficients of the sequences first:last, without any sum along a row.

    The minimum over rows and the distances of rows from the marginal run along different axes, so the weights are read
    once as they lie and once transposed: every inner loop then adds one vector to another.
    """
    n_labels = np.int64(np.sqrt(weights.size) + 0.5)
    n_positions = marginals.size // n_labels
    possible = np.empty(n_labels, np.int64)
    ratio, spread = np.empty(n_labels, np.float32), np.empty(n_labels, np.float32)
    low, other = np.empty(n_labels, np.float32), np.empty(n_labels, np.float32)
    earlier, later = np.empty(n_labels, np.float32), np.empty(n_labels, np.float32)
    h, w = np.empty(n_labels), np.empty(n_labels)
    for s in range(runs[0], runs[1]):
        tau_forward[offsets[s]], tau_backward[offsets[s]] = 0.0, 0.0
        for t in range(offsets[s] + 1, offsets[s] if in_logs[s - runs[0]] else offsets[s + 1]):
            row, total = U((t - offsets[runs[0]]) * n_labels), np.float32(0.0)
            for k in range(n_labels):
                h[k], w[k] = before[row + U(k)], after[row + U(k)]
                earlier[k], later[k] = marginals[U(k * n_positions + t - 1)], marginals[U(k * n_positions + t)]
                total += later[k]
            shared_forward, apart_forward, shared_backward, apart_backward = 1.0, 0.0, 1.0, 0.0
            for turn in range(2 if total > np.float32(0.0) else 0):
                # columns (vector): y_t then y_{t-1};  rows (outer loop): y_{t-1} then y_t
                shared, apart = _shared_and_apart(
                    weights if turn == 0 else turned,
                    earlier if turn == 0 else later,
                    later if turn == 0 else earlier,
                    h if turn == 0 else w,
                    w if turn == 0 else h,
                    possible, ratio, spread, low, other,
                )  # fmt: skip
                if turn == 0:
                    shared_forward, apart_backward = shared, apart
                else:
                    shared_backward, apart_forward = shared, apart
            tau_forward[t] = max(min(apart_forward, 1.0 - shared_forward), 0.0)
            tau_backward[t] = max(min(apart_backward, 1.0 - shared_backward), 0.0)
