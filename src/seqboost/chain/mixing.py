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
    work = np.empty((4, n_contexts), np.float32)
    for s in range(first, last):
        for t in range(offsets[s], offsets[s + 1]):
            tau_forward[t], tau_backward[t] = 0.0, 0.0
            if order > 0 and t > offsets[s]:
                tau_forward[t], tau_backward[t] = mixing_position(
                    cells, n_positions, t, n_labels, n_contexts, t >= offsets[s] + order, cond, work
                )


@jit
def mixing_position(
    cells: NDArray[np.float32],  # IN (K * N * C,) P(c_t=c, y_t=k | X) at (k*N + t)*C + c
    n_positions: int,
    t: int,
    n_labels: int,
    n_contexts: int,
    full: bool,  # whether all lags exist at t
    cond: NDArray[np.float32],  # SCRATCH (K * C,)
    work: NDArray[np.float32],  # SCRATCH (4, C)
) -> tuple[np.float32, np.float32]:
    """Contraction coefficients of P(y_t | c_t) and of P(y_{t-m} | c_{t+1}) at one position of a chain of order >= 1."""
    n_shared = n_contexts // n_labels
    forward, backward = np.float32(0.0), np.float32(0.0)
    now, following, centre, spread = work[0], work[1], work[2], work[3]
    for c in range(n_contexts):
        now[c], following[c] = 0.0, 0.0
    for k in range(n_labels):
        at = U((k * n_positions + t) * n_contexts)
        for oldest in range(n_labels):
            for shared in range(n_shared):
                prob = cells[at]
                now[U(oldest * n_shared + shared)] += prob
                following[U(shared * n_labels + k)] += prob
                at += U(1)
    for direction in range(2):
        if direction == 1 and not full:
            break
        mass = now if direction == 0 else following
        n_rows = np.int64(0)
        for k in range(n_labels):
            centre[k] = 0.0
        for row in range(n_contexts):
            if mass[row] > np.float32(IMPOSSIBLE):
                scale = np.float32(1.0) / mass[row]
                # a row of cells: over labels in context ``row``, or over oldest labels before context ``row``
                at, stride = U(t * n_contexts + row), U(n_positions * n_contexts)
                if direction == 1:
                    shared, k = row // n_labels, row % n_labels
                    at, stride = U((k * n_positions + t) * n_contexts + shared), U(n_shared)
                for k in range(n_labels):
                    prob = cells[at]
                    centre[k] += prob
                    cond[U(k * n_contexts + n_rows)] = prob * scale
                    at += stride
                n_rows += 1
        tau = _contraction(cond, n_labels, n_contexts, n_rows, centre, spread)
        forward, backward = (tau, backward) if direction == 0 else (forward, tau)
    return forward, backward


@jit
def _contraction(
    cond: NDArray[np.float32],  # IN (n_outcomes * stride,) P(outcome | row) at outcome*stride + row
    n_outcomes: int,
    stride: int,
    n_rows: int,
    centre: NDArray[np.float32],  # IN (n_outcomes,) any distribution; the nearer to all rows the better
    spread: NDArray[np.float32],  # SCRATCH (>= n_rows,)
) -> np.float32:
    """Largest total variation between two rows of a kernel: exact for few outcomes, else an upper bound.

    With up to 3 outcomes every event is an outcome or the complement of one, so TV = max_k |P(k) - Q(k)| and the
    answer is max_k (max_row - min_row).  Beyond 8 outcomes or 16 rows see :func:`bounded_contraction`.
    """
    largest, shared = np.float32(0.0), np.float32(0.0)
    if n_outcomes > 3 and n_outcomes <= 8 and n_rows <= 16:
        for i in range(n_rows):
            for j in range(i + 1, n_rows):
                total = np.float32(0.0)
                for k in range(n_outcomes):
                    total += abs(cond[U(k * stride + i)] - cond[U(k * stride + j)])
                largest = total if total > largest else largest
        return np.float32(0.5) * largest
    for row in range(n_rows):
        spread[row] = 0.0
    for k in range(n_outcomes):
        at = U(k * stride)
        low, high = np.float32(1.0), np.float32(0.0)
        for row in range(n_rows):
            prob = cond[at + U(row)]
            low = prob if prob < low else low
            high = prob if prob > high else high
        shared += low
        largest = high - low if high - low > largest else largest
        if n_outcomes > 3:
            middle = centre[k]
            for row in range(n_rows):
                spread[row] += abs(cond[at + U(row)] - middle)
    if n_outcomes <= 3:
        return largest
    return bounded_contraction(shared, spread, n_rows)


@jit
def bounded_contraction(
    shared: np.float32,
    spread: NDArray[np.float32],  # IN (>= n_rows,) L1 distance of each row from one and the same distribution
    n_rows: int,
) -> np.float32:
    """Upper bound of the largest total variation between two rows: min(1 - shared, (1st + 2nd largest spread) / 2).

    ``shared`` = sum_k min_row P(k | row) is mass that all rows have in common; the other is the triangle inequality.
    """
    largest, second = np.float32(0.0), np.float32(0.0)
    for row in range(n_rows):
        if spread[row] > largest:
            second = largest
            largest = spread[row]
        elif spread[row] > second:
            second = spread[row]
    bound = np.float32(0.5) * (largest + second)
    bound = bound if bound < np.float32(1.0) - shared else np.float32(1.0) - shared
    return bound if bound > np.float32(0.0) else np.float32(0.0)
