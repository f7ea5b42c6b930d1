"""How much of a label's fate its neighbours decide: contraction coefficients of the posterior chain.

tau is the largest total variation between two rows of a kernel; forwards of P(y_t | c_t, X), backwards of
P(y_{t-m} | c_{t+1}, X), the label that leaves the context between t and t+1.  Rows are the contexts that are possible.
Letters as in :mod:`seqboost.chain.contexts`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit

__all__ = ["bounded_contraction", "joint_mixing", "mixing_position"]

IMPOSSIBLE = 1e-30
"""Contexts with less posterior probability are no rows: nothing measurable hangs on them."""

U = np.uint64


@jit
def joint_mixing(
    marginals: NDArray[np.float32],  # IN (K, N, C) P(c_t=c, y_t=k | X)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    order: int,
    first: int,
    last: int,
    tau_forward: NDArray[np.float32],  # OUT (N,)
    tau_backward: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Contraction coefficients of the sequences first:last of a joint model."""
    n_labels, n_positions, n_contexts = marginals.shape
    cells = marginals.reshape(-1)
    cond = np.empty(n_labels * n_contexts, np.float32)
    work = np.empty((5, n_contexts), np.float32)
    for s in range(first, last):
        for t in range(offsets[s], offsets[s + 1]):
            tau_forward[t], tau_backward[t] = 0.0, 0.0
            if order == 1 and n_labels <= 3 and t > offsets[s]:
                tau_forward[t], tau_backward[t] = _few_labels(cells, n_positions, t, n_labels, work)
            elif order > 0 and t > offsets[s]:
                tau_forward[t], tau_backward[t] = mixing_position(
                    cells, n_positions, t, n_labels, n_contexts, t >= offsets[s] + order, cond, work
                )


@jit
def _few_labels(
    cells: NDArray[np.float32],  # IN (K * N * K,) P(c_t=c, y_t=k | X) at (k*N + t)*K + c
    n_positions: int,
    t: int,
    n_labels: int,
    work: NDArray[np.float32],  # SCRATCH (4, K)
) -> tuple[np.float32, np.float32]:
    """Do what :func:`mixing_position` does for order 1 and up to 3 labels, from the range of each outcome alone."""
    tau = (np.float32(0.0), np.float32(0.0))
    low, high = work[0], work[1]
    for direction in range(2):
        step = U(n_positions * n_labels if direction == 0 else 1)  # from one outcome of a row to the next
        jump = U(1 if direction == 0 else n_positions * n_labels)  # from row to row
        at = U(t * n_labels)
        for k in range(n_labels):
            low[k], high[k] = 1.0, 0.0
        for _ in range(n_labels):
            total = np.float32(0.0)
            for k in range(n_labels):
                total += cells[at + U(k) * step]
            if total > np.float32(IMPOSSIBLE):
                scale = np.float32(1.0) / total
                for k in range(n_labels):
                    prob = cells[at + U(k) * step] * scale
                    low[k] = prob if prob < low[k] else low[k]
                    high[k] = prob if prob > high[k] else high[k]
            at += jump
        largest = np.float32(0.0)
        for k in range(n_labels):
            largest = high[k] - low[k] if high[k] - low[k] > largest else largest
        tau = (largest, tau[1]) if direction == 0 else (tau[0], largest)
    return tau


@jit
def mixing_position(
    cells: NDArray[np.float32],  # IN (K * N * C,) P(c_t=c, y_t=k | X) at (k*N + t)*C + c
    n_positions: int,
    t: int,
    n_labels: int,
    n_contexts: int,
    full: bool,  # whether all lags exist at t
    cond: NDArray[np.float32],  # SCRATCH (K * C,)
    work: NDArray[np.float32],  # SCRATCH (5, C)
) -> tuple[np.float32, np.float32]:
    """Contraction coefficients of P(y_t | c_t) and of P(y_{t-m} | c_{t+1}) at one position of a chain of order >= 1."""
    n_shared = n_contexts // n_labels
    now, following = work[0], work[1]
    for c in range(n_contexts):
        now[c], following[c] = 0.0, 0.0
    for k in range(n_labels):
        at = U((k * n_positions + t) * n_contexts)
        total = np.float32(0.0)
        for c in range(n_contexts):
            now[c] += cells[at + U(c)]
            total += cells[at + U(c)]
        following[k] = total
        if n_shared > 1:
            following[k] = 0.0
            for c in range(n_contexts):
                following[U(k) + U(n_labels) * (U(c) % U(n_shared))] += cells[at + U(c)]
    forward, backward = np.float32(0.0), np.float32(0.0)
    for direction in range(2 if full else 1):
        # row i of the kernel: cells[start(i) + k*stride] / mass[i] over outcomes k
        mass = now if direction == 0 else following
        stride = U(n_positions * n_contexts if direction == 0 else n_shared)
        n_rows = np.int64(0)
        to = U(0)
        for row in range(n_contexts):
            if mass[row] > np.float32(IMPOSSIBLE):
                at = U(t * n_contexts + row)
                if direction == 1 and n_shared == 1:
                    at = U((row * n_positions + t) * n_contexts)
                elif direction == 1:
                    at = U((row % n_labels * n_positions + t) * n_contexts + row // n_labels)
                scale = np.float32(1.0) / mass[row]
                for _ in range(n_labels):
                    cond[to] = cells[at] * scale
                    to += U(1)
                    at += stride
                n_rows += 1
        tau = _contraction(cond, n_labels, n_rows, work[2], work[3], work[4])
        forward, backward = (tau, backward) if direction == 0 else (forward, tau)
    return forward, backward


@jit
def _contraction(
    cond: NDArray[np.float32],  # IN (n_rows * K,) P(outcome | row), row by row
    n_outcomes: int,
    n_rows: np.int64,
    low: NDArray[np.float32],  # SCRATCH (>= K,)
    other: NDArray[np.float32],  # SCRATCH (>= K,)
    centre: NDArray[np.float32],  # SCRATCH (>= max(K, n_rows),)
) -> np.float32:
    """Largest total variation between two rows of a kernel: exact for few outcomes, else an upper bound.

    With up to 3 outcomes every event is an outcome or the complement of one, so TV = max_k |P(k) - Q(k)| and the
    answer is max_k (max_row - min_row).  Beyond 8 outcomes or 16 rows see :func:`bounded_contraction`, here with the
    mean of the rows in their middle.
    """
    largest, shared = np.float32(0.0), np.float32(0.0)
    if n_outcomes <= 3:
        for k in range(n_outcomes):
            lowest, highest = np.float32(1.0), np.float32(0.0)
            for i in range(n_rows):
                prob = cond[U(i * n_outcomes + k)]
                lowest = prob if prob < lowest else lowest
                highest = prob if prob > highest else highest
            largest = highest - lowest if highest - lowest > largest else largest
        return largest
    if n_outcomes <= 8 and n_rows <= 16:
        for i in range(n_rows):
            for j in range(i):
                total = np.float32(0.0)
                for k in range(n_outcomes):
                    total += abs(cond[U(i * n_outcomes + k)] - cond[U(j * n_outcomes + k)])
                largest = total if total > largest else largest
        return np.float32(0.5) * largest
    for k in range(n_outcomes):
        low[k], centre[k] = 1.0, 0.0
    for i in range(n_rows):
        at = U(i * n_outcomes)
        for k in range(n_outcomes):
            prob = cond[at + U(k)]
            other[k] = prob if prob < low[k] else low[k]
            centre[k] += prob
        low, other = other, low  # in place it would be a conditional store, which is not vectorised
    for k in range(n_outcomes):
        shared += low[k]
        centre[k] /= np.float32(n_rows)
    second = np.float32(0.0)
    for i in range(n_rows):
        at = U(i * n_outcomes)
        even, odd = np.float32(0.0), np.float32(0.0)
        for k in range(0, n_outcomes - 1, 2):
            even += abs(cond[at + U(k)] - centre[k])
            odd += abs(cond[at + U(k + 1)] - centre[k + 1])
        if n_outcomes % 2 == 1:
            even += abs(cond[at + U(n_outcomes - 1)] - centre[n_outcomes - 1])
        second = max(second, min(largest, even + odd))
        largest = max(largest, even + odd)
    return bounded_contraction(shared, largest, second)


@jit
def bounded_contraction(shared: np.float32, largest: np.float32, second: np.float32) -> np.float32:
    """Upper bound of the largest total variation between two rows: min(1 - shared, (largest + second) / 2).

    ``shared`` = sum_k min_row P(k | row) is mass that all rows have in common; ``largest`` and ``second`` are the two
    largest L1 distances of rows from any one distribution (triangle inequality).
    """
    bound = min(np.float32(0.5) * (largest + second), np.float32(1.0) - shared)
    return max(bound, np.float32(0.0))
