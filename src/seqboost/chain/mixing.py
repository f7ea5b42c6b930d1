"""How much of a label's fate its neighbours decide: contraction coefficients of the posterior chain.

tau is the largest total variation between two rows of a kernel; forwards of P(y_t | c_t, X), backwards of
P(y_{t-m} | c_{t+1}, X), the label that leaves the context between t and t+1.  Rows are the contexts that are possible.
Letters as in :mod:`seqboost.chain.contexts`.

Pair marginals of a block of positions are laid out with the position last, cell (k, c) of its i-th position at
(k*C + c)*WIDTH + i, so that every loop runs over positions side by side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inlined, jit

__all__ = ["IMPOSSIBLE", "factored_mixing", "joint_mixing"]

IMPOSSIBLE = 1e-30
"""Contexts with less posterior probability are no rows: nothing measurable hangs on them."""

WIDTH = 64
"""Positions of a block."""

U = np.uint64


@inlined
def _contraction(
    block: NDArray[np.float32],  # IN (K * C * WIDTH,) P(c_t=c, y_t=k | X)
    sizes: tuple[int, int, int],  # K, C, number of positions
    direction: int,  # 0: P(y_t | c_t), 1: P(y_{t-m} | c_{t+1})
    cond: NDArray[np.float32],  # SCRATCH (K * C * WIDTH,)
    work: NDArray[np.float32],  # SCRATCH ((K + 4) * WIDTH,)
    largest: NDArray[np.float32],  # OUT (WIDTH,) the coefficients
    other: NDArray[np.float32],  # SCRATCH (WIDTH,)
) -> NDArray[np.float32]:
    """Largest total variation between two rows of a kernel: exact for few outcomes, else an upper bound.

    An impossible row takes the law of the outcome by itself, a mixture of the possible rows, which adds nothing to any
    distance.  With up to 3 outcomes every event is an outcome or the complement of one, so TV = max_k |P(k) - Q(k)| and
    the answer is max_k (max_row - min_row).  Beyond 8 outcomes or 16 rows the bound is min(1 - shared, (d1 + d2) / 2):
    ``shared`` = sum_k min_row P(k | row) is mass that all rows have in common, d1 and d2 are the two largest L1
    distances of rows from one distribution, here the mean of the rows (triangle inequality).
    """
    one, zero = np.float32(1.0), np.float32(0.0)
    n_labels, n_contexts, n = sizes
    n_shared = n_contexts // n_labels
    stride = U((n_contexts if direction == 0 else n_shared) * WIDTH)  # from one outcome of a row to the next
    total, high, shared, second = U(0), U(WIDTH), U(2 * WIDTH), U(3 * WIDTH)  # places in ``work``
    law = U(4 * WIDTH)  # of the outcome by itself, later the mean of the rows
    for i in range((n_labels + 4) * WIDTH):
        work[U(i)] = zero
    for i in range(n):
        largest[i] = zero
    for row in range(n_contexts):
        start = U((row if direction == 0 else row // n_shared * n_contexts + row % n_shared) * WIDTH)
        for k in range(n_labels):
            at, to = start + U(k) * stride, law + U(k * WIDTH)
            for i in range(n):
                work[to + U(i)] += block[at + U(i)]
    for row in range(n_contexts):
        start = U((row if direction == 0 else row // n_shared * n_contexts + row % n_shared) * WIDTH)
        for i in range(n):
            work[total + U(i)] = zero
        for k in range(n_labels):
            at = start + U(k) * stride
            for i in range(n):
                work[total + U(i)] += block[at + U(i)]
        for i in range(n):
            mass = work[total + U(i)]
            work[total + U(i)] = one / mass if mass > np.float32(IMPOSSIBLE) else zero
        for k in range(n_labels):
            at, to, alone = start + U(k) * stride, U((row * n_labels + k) * WIDTH), law + U(k * WIDTH)
            for i in range(n):
                scale = work[total + U(i)]
                cond[to + U(i)] = block[at + U(i)] * scale if scale > zero else work[alone + U(i)]
    if n_labels <= 8 and n_contexts <= 16:
        for row in range(n_contexts):
            for earlier in range(row):
                for i in range(n):
                    work[total + U(i)] = zero
                for k in range(n_labels):
                    a, b = U((row * n_labels + k) * WIDTH), U((earlier * n_labels + k) * WIDTH)
                    for i in range(n):
                        work[total + U(i)] += abs(cond[a + U(i)] - cond[b + U(i)])
                for i in range(n):
                    distance = np.float32(0.5) * work[total + U(i)]
                    other[i] = distance if distance > largest[i] else largest[i]
                largest, other = other, largest
    else:
        for k in range(n_labels):
            centre = law + U(k * WIDTH)
            for i in range(n):
                work[total + U(i)], work[high + U(i)], work[centre + U(i)] = one, zero, zero
            for row in range(n_contexts):
                at = U((row * n_labels + k) * WIDTH)
                for i in range(n):
                    prob, low, top = cond[at + U(i)], work[total + U(i)], work[high + U(i)]
                    work[total + U(i)] = min(prob, low)
                    work[high + U(i)] = max(prob, top)
                    work[centre + U(i)] += prob
            for i in range(n):
                work[shared + U(i)] += work[total + U(i)]
                work[centre + U(i)] /= np.float32(n_contexts)
                distance = work[high + U(i)] - work[total + U(i)]
                other[i] = distance if distance > largest[i] else largest[i]
            largest, other = other, largest
        if n_labels > 3:
            for i in range(n):
                largest[i] = zero
            for row in range(n_contexts):
                for i in range(n):
                    work[total + U(i)] = zero
                for k in range(n_labels):
                    at, centre = U((row * n_labels + k) * WIDTH), law + U(k * WIDTH)
                    for i in range(n):
                        work[total + U(i)] += abs(cond[at + U(i)] - work[centre + U(i)])
                for i in range(n):
                    distance, first = work[total + U(i)], largest[i]
                    work[second + U(i)] = max(work[second + U(i)], min(distance, first))
                    other[i] = distance if distance > first else first
                largest, other = other, largest
            for i in range(n):
                bound = np.float32(0.5) * (largest[i] + work[second + U(i)])
                apart = max(one - work[shared + U(i)], zero)
                other[i] = bound if bound < apart else apart
            largest, other = other, largest
    return largest


@jit
def joint_mixing(
    marginals: NDArray[np.float32],  # IN (K * N * C,) P(c_t=c, y_t=k | X)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    sizes: tuple[int, int, int],  # K, C, order
    first: int,
    last: int,
    tau_forward: NDArray[np.float32],  # OUT (N,)
    tau_backward: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Contraction coefficients of the sequences first:last of a joint model."""
    n_labels, n_contexts, order = sizes
    n_positions = marginals.size // (n_labels * n_contexts)
    n_cells = n_labels * n_contexts * WIDTH
    block, cond = np.empty(n_cells, np.float32), np.empty(n_cells, np.float32)
    work = np.empty((n_labels + 4) * WIDTH, np.float32)
    largest, other = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    for start in range(offsets[first], offsets[last] if order > 0 else offsets[first], WIDTH):
        n = min(WIDTH, offsets[last] - start)
        for k in range(n_labels):
            for c in range(n_contexts):
                at, to = U((k * n_positions + start) * n_contexts + c), U((k * n_contexts + c) * WIDTH)
                for i in range(n):
                    block[to + U(i)] = marginals[at + U(i * n_contexts)]
        for direction in range(2):
            found = _contraction(block, (n_labels, n_contexts, n), direction, cond, work, largest, other)
            tau = tau_forward if direction == 0 else tau_backward
            for i in range(n):
                tau[start + i] = found[i]
    for s in range(first, last):
        for t in range(offsets[s], min(offsets[s + 1], offsets[s] + max(order, 1))):
            tau_backward[t] = 0.0
        tau_forward[offsets[s]] = 0.0
    if order == 0:
        for t in range(offsets[first], offsets[last]):
            tau_forward[t], tau_backward[t] = 0.0, 0.0


@jit
def factored_mixing(
    table: NDArray[np.float64],  # IN (E, K)
    weights: NDArray[np.float64],  # IN (E, K) exp(table - max), or (0, K)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    runs: tuple[int, int, int],  # sequences first:last, first sequence of the chunk
    in_logs: NDArray[np.bool_],  # IN (chunk sequences,)
    before: NDArray[np.float64],  # IN (chunk positions * C,) h_t
    after: NDArray[np.float64],  # IN (chunk positions * C,) w_t
    tau_forward: NDArray[np.float32],  # OUT (N,)
    tau_backward: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Contraction coefficients of the sequences first:last of a factored model, from its pair marginals."""
    first, last, chunk = runs
    n_labels, order = table.shape[1], base.size - 1
    n_contexts = table.shape[0] - base[order]
    n_shared = n_contexts // n_labels
    n_cells = n_labels * n_contexts * WIDTH
    block, cond = np.empty(n_cells, np.float32), np.empty(n_cells, np.float32)
    work = np.empty((n_labels + 4) * WIDTH, np.float32)
    largest, other = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    s = first
    for start in range(offsets[first], offsets[last], WIDTH):
        n = min(WIDTH, offsets[last] - start)
        for i in range(n):
            while start + i >= offsets[s + 1]:
                s += 1
            row = U((start + i - offsets[chunk]) * n_contexts)
            first_context = base[min(start + i - offsets[s], order)]
            use_logs = in_logs[s - chunk]
            for c in range(n_contexts):
                h, at = before[row + U(c)], row + U(n_labels * (c % n_shared))
                for k in range(n_labels):
                    prob = 0.0
                    if use_logs and h > -np.inf:
                        prob = np.exp(h + table[U(first_context + c), U(k)] + after[at + U(k)])
                    elif not use_logs and h > 0.0:
                        prob = h * weights[U(first_context + c), U(k)] * after[at + U(k)]
                    block[U((k * n_contexts + c) * WIDTH + i)] = np.float32(prob)
        for direction in range(2):
            found = _contraction(block, (n_labels, n_contexts, n), direction, cond, work, largest, other)
            tau = tau_forward if direction == 0 else tau_backward
            for i in range(n):
                tau[start + i] = found[i]
    for s in range(first, last):
        for t in range(offsets[s], min(offsets[s + 1], offsets[s] + order)):
            tau_backward[t] = 0.0
        tau_forward[offsets[s]] = 0.0
