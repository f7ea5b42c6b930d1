"""Contraction coefficients of the posterior chain, from pair marginals.

tau is the largest total variation between two rows of a kernel; forwards of P(y_t | c_t, X), backwards of
P(y_{t-m} | c_{t+1}, X), the label that leaves the context between t and t+1.  Rows are the contexts that are possible;
an impossible one takes the law of the outcome by itself, a mixture of the possible rows, which adds nothing to any
distance.  Letters as in :mod:`seqboost.chain.contexts`.

Probabilities of a block of n positions are laid out with the position last, cell (k, c) of the i-th at (k*C + c)*n + i,
so that every loop runs over positions side by side.  Outcome k of row r is then cell start(r) + k*stride: r + k*C
forwards, (r // S)*C + r % S + k*S backwards, S = K**(m-1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import jit

__all__ = ["IMPOSSIBLE", "block_buffers", "clear_starts", "contraction", "position_blocks"]

IMPOSSIBLE = 1e-30
"""Contexts with less posterior probability are left out; their effect is negligible."""

BLOCK_CELLS = 32768
"""Cells (position, context, label) worked on together, so that they stay in a near cache."""

U = np.uint64


def position_blocks(begin: int, stop: int, n_cells: int) -> list[tuple[int, int]]:
    """Cut positions of ``n_cells`` cells each into blocks."""
    size = min(max(BLOCK_CELLS // n_cells, 64), 1024)
    return [(a, min(a + size, stop)) for a in range(begin, stop, size)]


def block_buffers(n_labels: int, n_contexts: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Make the buffers of :func:`contraction`."""
    size = position_blocks(0, 1024, n_labels * n_contexts)[0][1]
    return np.empty(3 * n_labels * n_contexts * size, np.float32), np.empty((n_labels + 3) * size, np.float32)


def contraction(
    marginals: NDArray[np.float32],
    shape: tuple[int, ...],
    start: int,
    buffers: tuple[NDArray[np.float32], NDArray[np.float32]],
    tau_forward: NDArray[np.float32],
    tau_backward: NDArray[np.float32],
) -> None:
    """Fill the coefficients of a block of positions: exact for few labels and contexts, else upper bounds.

    Parameters
    ----------
    marginals : float32 array (K * N * C,)
        P(c_t=c, y_t=k | X).
    shape : (K, N, C)
        Shape of the marginals.
    start : int
        First position.
    buffers : float32 arrays
        From :func:`block_buffers`.
    tau_forward, tau_backward : float32 arrays (n,)
        OUT: of the n positions from ``start`` on.  Where lags do not exist ``tau_backward`` means nothing.
    """
    n_labels, n_positions, n_contexts = shape
    n = tau_forward.size
    cond = buffers[0][: 3 * n_labels * n_contexts * n].reshape(3, -1)
    work = buffers[1][: (n_labels + 3) * n].reshape(-1, n)
    conditional_rows(marginals, (n_labels, n_positions, n_contexts), start, n, cond[2], buffers[1], cond)
    distances = pair_distances if n_labels <= 8 and n_contexts <= 27 else bounded_distances
    centre = buffers[1][3 * n :]
    for rows, tau in ((cond[0], tau_forward), (cond[1], tau_backward)):
        distances(rows, n_labels, n_contexts, work[0], work[1], work[2], centre, tau)


def clear_starts(
    offsets: NDArray[np.int64],
    order: int,
    first: int,
    last: int,
    taus: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    """Set the coefficients of the sequences ``first:last`` to 0 where no earlier label exists."""
    taus[0][offsets[first:last]] = 0.0
    for j in range(order):
        starts = offsets[first:last] + j
        taus[1][starts[starts < offsets[first + 1 : last + 1]]] = 0.0


@jit
def conditional_rows(
    marginals: NDArray[np.float32],  # IN (K * N * C,) P(c_t=c, y_t=k | X)
    shape: tuple[int, int, int],  # K, N, C
    start: int,
    n: int,
    block: NDArray[np.float32],  # SCRATCH (K * C * n,)
    work: NDArray[np.float32],  # SCRATCH ((K + 1) * n,)
    cond: NDArray[np.float32],  # OUT (2, K * C * n) P(outcome k | row r) forwards and backwards at (r*K + k)*n + i
) -> None:
    """Lay out the rows of both kernels of the positions start:start + n."""
    n_labels, n_positions, n_contexts = shape
    n_shared = n_contexts // n_labels
    for cell in range(n_labels * n_contexts):
        k, c = cell // n_contexts, cell % n_contexts
        at, to = U((k * n_positions + start) * n_contexts + c), U(cell * n)
        for i in range(n):
            block[to + U(i)] = marginals[at + U(i * n_contexts)]
    for direction in range(2):
        # work: the outcomes by themselves, then the mass of a row
        for i in range(n_labels * n):
            work[U(i)] = 0.0
        for cell in range(n_labels * n_contexts):
            outcome = cell // n_contexts if direction == 0 else cell % n_contexts // n_shared
            at, to = U(cell * n), U(outcome * n)
            for i in range(n):
                work[to + U(i)] += block[at + U(i)]
        mass, stride = U(n_labels * n), n_contexts if direction == 0 else n_shared
        for row in range(n_contexts):
            first = row if direction == 0 else row // n_shared * n_contexts + row % n_shared
            for i in range(n):
                work[mass + U(i)] = 0.0
            for k in range(n_labels):
                at = U((first + k * stride) * n)
                for i in range(n):
                    work[mass + U(i)] += block[at + U(i)]
            for k in range(n_labels):
                at, to, alone = U((first + k * stride) * n), U((row * n_labels + k) * n), U(k * n)
                for i in range(n):
                    total = work[mass + U(i)]
                    prob = block[at + U(i)] / total
                    cond[U(direction), to + U(i)] = prob if total > np.float32(IMPOSSIBLE) else work[alone + U(i)]


@jit
def pair_distances(
    cond: NDArray[np.float32],  # IN (C * K * n,) P(outcome k | row r) at (r*K + k)*n + i
    n_labels: int,
    n_contexts: int,
    total: NDArray[np.float32],  # SCRATCH (n,)
    largest: NDArray[np.float32],  # SCRATCH (n,)
    other: NDArray[np.float32],  # SCRATCH (n,)
    unused: NDArray[np.float32],  # as of bounded_distances
    tau: NDArray[np.float32],  # OUT (n,)
) -> None:
    """Largest total variation between two rows, from all pairs.

    Maxima go to and fro between two buffers: in place they would be conditional stores, which are not vectorised.
    """
    n = tau.size
    for i in range(n):
        largest[i] = 0.0
    for row in range(n_contexts):
        for earlier in range(row):
            for i in range(n):
                total[i] = 0.0
            for k in range(n_labels):
                a, b = U((row * n_labels + k) * n), U((earlier * n_labels + k) * n)
                for i in range(n):
                    total[i] += abs(cond[a + U(i)] - cond[b + U(i)])
            for i in range(n):
                other[i] = total[i] if total[i] > largest[i] else largest[i]
            largest, other = other, largest
    for i in range(n):
        tau[i] = np.float32(0.5) * largest[i]


@jit
def bounded_distances(
    cond: NDArray[np.float32],  # IN (C * K * n,) P(outcome k | row r) at (r*K + k)*n + i
    n_labels: int,
    n_contexts: int,
    low: NDArray[np.float32],  # SCRATCH (n,)
    other: NDArray[np.float32],  # SCRATCH (n,)
    shared: NDArray[np.float32],  # SCRATCH (n,)
    centre: NDArray[np.float32],  # SCRATCH (K * n,)
    tau: NDArray[np.float32],  # OUT (n,)
) -> None:
    """Upper bound of the largest total variation between two rows: min(1 - shared, (d1 + d2) / 2).

    ``shared`` = sum_k min_row P(k | row) is mass that all rows have in common; d1 and d2 are the two largest L1
    distances of rows from one distribution, here the mean of the rows (triangle inequality).  For 2 labels the first is
    exact.
    """
    n = tau.size
    for i in range(n):
        shared[i] = 0.0
    for k in range(n_labels):
        to = U(k * n)
        for i in range(n):
            low[i], centre[to + U(i)] = 1.0, 0.0
        for row in range(n_contexts):
            at = U((row * n_labels + k) * n)
            for i in range(n):
                prob = cond[at + U(i)]
                other[i] = prob if prob < low[i] else low[i]
                centre[to + U(i)] += prob
            low, other = other, low
        for i in range(n):
            shared[i] += low[i]
            centre[to + U(i)] /= np.float32(n_contexts)
    largest, distance, second = low, other, tau
    for i in range(n):
        largest[i], second[i] = 0.0, 0.0
    for row in range(n_contexts):
        for i in range(n):
            distance[i] = 0.0
        for k in range(n_labels):
            at, to = U((row * n_labels + k) * n), U(k * n)
            for i in range(n):
                distance[i] += abs(cond[at + U(i)] - centre[to + U(i)])
        for i in range(n):
            apart, nearer = distance[i], second[i]
            swapped = apart > largest[i]
            high = apart if swapped else largest[i]
            less = largest[i] if swapped else apart
            largest[i], second[i] = high, less if less > nearer else nearer
    for i in range(n):
        bound, rest = np.float32(0.5) * (largest[i] + second[i]), np.float32(1.0) - shared[i]
        rest = rest if rest > np.float32(0.0) else np.float32(0.0)
        tau[i] = bound if bound < rest else rest
