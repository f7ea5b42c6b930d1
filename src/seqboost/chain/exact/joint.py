"""Forward-backward where scores depend on the context: one exponential per (position, context, label), in place.

Legend as in :mod:`seqboost.chain.contexts`; c' = next(c, k), S = K**(m-1), psi_t(c,k) = exp(F_t(c,k) - max_t).

Backwards, b_t(c) = sum_k psi_t(c,k) b_{t+1}(c') gives log Z = log b_0(start), and the posterior kernel

    q_t(c,k) = P(y_t=k | c_t=c, X) = psi_t(c,k) b_{t+1}(c') / b_t(c)

Forwards, from g_0(start) = 1, the context marginals need no scaling at all:

    P(c_t=c, y_t=k | X) = g_t(c) q_t(c,k)        g_{t+1}(c') = sum over (c, k) that lead to c'

psi, q and P live one after the other in the same memory, the array of marginals.  Sequences whose psi or b would
underflow are done again in log space; only the backward pass differs.

Arrays (K, N, C) are walked flat, cell (k, t, c) at (k*N + t)*C + c, with unsigned indices (``U``): signed ones would be
tested for negative values at every access, which keeps loops from being vectorised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import MAX_RANGE, SMALLEST, add_exp, exp32
from seqboost.chain.potentials import Lattice, lattice_part
from seqboost.core.jit import inlined, jit
from seqboost.core.offsets import sequence_chunks

__all__ = ["exponentiate", "joint_log_partition", "joint_posterior"]

BLOCK = 256
"""Scores exponentiated together (at least one position): their maxima and the tiled table stay in the nearest cache."""

RUN_CELLS = 65536
"""Cells (position, context, label) that are taken from scores to marginals together, so that they stay in a cache."""

U = np.uint64


def joint_posterior(
    lattice: Lattice, first: int, last: int, marginals: NDArray[np.float32], log_z: NDArray[np.float64]
) -> None:
    """Fill marginals (K, N, C) and log Z of the sequences ``first:last``."""
    cells, work = marginals.reshape(-1), np.empty((3, marginals.shape[2]))
    for a, b in _runs(lattice, first, last):
        _backward(lattice, a, b, marginals, log_z, work, wants_kernel=True)
        joint_forward(lattice.offsets, _sizes(lattice), a, b, work[0], work[1], log_z, cells)


def joint_log_partition(lattice: Lattice, first: int, last: int, log_z: NDArray[np.float64]) -> None:
    """Fill log Z of the sequences ``first:last``, by the backward pass alone."""
    work = np.empty((3, lattice.scores.shape[2]))
    for a, b in _runs(lattice, first, last):
        run = lattice_part(lattice, a, b)
        _backward(run, 0, b - a, np.empty_like(run.scores), log_z[a:b], work, wants_kernel=False)


def _runs(lattice: Lattice, first: int, last: int) -> list[tuple[int, int]]:
    """Cut the sequences ``first:last`` into runs whose cells stay in a near cache."""
    n_labels, _, n_contexts = lattice.scores.shape
    chunks = sequence_chunks(lattice.offsets[first : last + 1], max(1, RUN_CELLS // (n_labels * n_contexts)))
    return [(first + a, first + b) for a, b in chunks]


def _sizes(lattice: Lattice) -> tuple[int, int, int]:
    return lattice.scores.shape[0], lattice.scores.shape[2], lattice.base.size - 1


def _backward(
    lattice: Lattice,
    first: int,
    last: int,
    kernel: NDArray[np.float32],
    log_z: NDArray[np.float64],
    work: NDArray[np.float64],
    *,
    wants_kernel: bool,
) -> None:
    """Fill log Z and, if wanted, the posterior kernel of a run; in log space where it would underflow."""
    exponentiate(lattice, first, last, kernel, log_z)
    joint_backward(lattice.offsets, (*_sizes(lattice), int(wants_kernel)), first, last, work, kernel.reshape(-1), log_z)
    for s in first + np.flatnonzero(np.isnan(log_z[first:last])):
        log_z[s] = joint_backward_log(lattice, lattice.offsets[s], lattice.offsets[s + 1], kernel, work)


def exponentiate(lattice: Lattice, first: int, last: int, psi: NDArray[np.float32], log_z: NDArray[np.float64]) -> None:
    """Fill exp(scores + table - their maximum at each position), and log Z with the sums of the maxima."""
    tile = np.tile(lattice.table[lattice.base[-1] :].T, (1, max(1, BLOCK // psi.shape[2])))
    special, tops = np.empty((psi.shape[0], psi.shape[2])), np.empty((2, tile.shape[1]), np.float32)
    _exponentiate(lattice, tile, (first, last, int(not lattice.end.any())), special, tops, psi, log_z)


@jit
def _exponentiate(
    lattice: Lattice,
    tile: NDArray[np.float64],  # IN (K, width) table of full contexts, label-major, for width / C positions
    runs: tuple[int, int, int],  # sequences first:last, and whether any label may close them
    special: NDArray[np.float64],  # SCRATCH (K, C) table of a position that is not like the others
    tops: NDArray[np.float32],  # SCRATCH (2, width) running maxima
    cells: NDArray[np.float32],  # OUT (K, N, C) psi
    log_z: NDArray[np.float64],  # OUT (n_sequences,) sum of the subtracted maxima, NaN if a score is out of their reach
) -> None:
    """Fill psi of the sequences first:last.

    Running maxima go to and fro between two buffers: writing them back in place becomes a conditional store, which is
    not vectorised.  Where the table is -inf psi is 0, even if the score is NaN: comparisons with NaN are false.
    """
    scores, labels, offsets, base = lattice.scores.reshape(-1), lattice.labels, lattice.offsets, lattice.base
    n_labels, _, n_contexts = cells.shape
    psi, top, other = cells.reshape(-1), tops[0], tops[1]
    n_cells, order = scores.size // n_labels, base.size - 1
    for s in range(runs[0], runs[1]):
        offset, lost = 0.0, np.int32(0)
        t, stop = offsets[s], offsets[s + 1]
        while t < stop:
            # positions that have all contexts, no mask and no end constraint; else one position
            here, until = tile, min(t + tile.shape[1] // n_contexts, stop if runs[2] else stop - 1)
            if labels.size > 0 or t < offsets[s] + order or until <= t:
                here, until = special, t + 1
                context_type = min(t - offsets[s], order)
                n_existing = n_contexts if context_type == order else base[context_type + 1] - base[context_type]
                for k in range(n_labels):
                    may_be = labels.size == 0 or labels[t] < 0 or labels[t] == k
                    closing = lattice.end[k] if t == stop - 1 else 0.0
                    for c in range(n_contexts):
                        exists = may_be and c < n_existing
                        special[k, c] = lattice.table[U(base[context_type] + c), U(k)] + closing if exists else -np.inf
            n = (until - t) * n_contexts
            for i in range(n):
                top[i] = -np.inf
            for k in range(n_labels):
                source = U(k * n_cells + t * n_contexts)
                for i in range(n):
                    score = scores[source + U(i)] + np.float32(here[U(k), U(i)])
                    other[i] = score if score > top[i] else top[i]
                top, other = other, top
            for i in range(0, n, n_contexts):
                highest = top[U(i)]
                for c in range(n_contexts):
                    highest = top[U(i) + U(c)] if top[U(i) + U(c)] > highest else highest
                lost |= np.int32(highest == np.float32(-np.inf))
                offset += highest
                for c in range(n_contexts):
                    top[U(i) + U(c)] = highest
            for k in range(n_labels):
                source = U(k * n_cells + t * n_contexts)
                for i in range(n):
                    score = np.float64(scores[source + U(i)]) + here[U(k), U(i)]
                    relative = np.float32(score - np.float64(top[i]))
                    lost |= np.int32(relative < np.float32(-MAX_RANGE)) & np.int32(relative > np.float32(-np.inf))
                    psi[source + U(i)] = exp32(relative)
            t = until
        log_z[s] = offset if lost == 0 else np.nan


@jit
def joint_backward(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    sizes: tuple[int, int, int, int],  # K, C, order, whether q is wanted
    first: int,
    last: int,
    work: NDArray[np.float64],  # SCRATCH (3, C)
    psi: NDArray[np.float32],  # INOUT (K * N * C,): psi in, q out if wanted
    log_z: NDArray[np.float64],  # INOUT (n_sequences,) log b_0(start) is added; NaN if log space is needed
) -> None:
    """Turn psi of the sequences first:last into the posterior kernel.

    b is brought back to 1 only where it has left 1e-30 .. 1e30, for every step would wait for the division.
    """
    n_labels, n_contexts, order, wants_kernel = sizes
    n_positions = psi.size // (n_labels * n_contexts)
    now, following, inverse = work[0], work[1], work[2]
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    for s in range(first, last):
        for c in range(n_contexts):
            following[c] = 1.0
        for t in range(offsets[s + 1] - 1 if log_z[s] == log_z[s] else offsets[s] - 1, offsets[s] - 1, -1):
            for c in range(n_contexts):
                now[c] = 0.0
            for k in range(n_labels):
                at = U((k * n_positions + t) * n_contexts)
                after = following[k * step]
                if n_shared == 1:
                    for c in range(n_contexts):
                        now[c] += psi[at + U(c)] * after
                else:
                    for c in range(n_contexts):
                        now[c] += psi[at + U(c)] * following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
            scale, lost = 0.0, np.int64(0)
            for c in range(n_contexts):
                scale = now[c] if now[c] > scale else scale
            for c in range(n_contexts):
                inverse[c] = 1.0 / now[c] if now[c] > 0.0 else 0.0
                lost |= np.int64(inverse[c] * scale > 1.0 / SMALLEST)
            if scale == 0.0 or lost != 0:
                log_z[s] = np.nan if lost != 0 else -np.inf
                break
            for k in range(n_labels if wants_kernel else 0):
                at = U((k * n_positions + t) * n_contexts)
                after = following[k * step]
                if n_shared == 1:
                    for c in range(n_contexts):
                        psi[at + U(c)] = np.float32(psi[at + U(c)] * after * inverse[c])
                else:
                    for c in range(n_contexts):
                        after = following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
                        psi[at + U(c)] = np.float32(psi[at + U(c)] * after * inverse[c])
            unit = 1.0
            if scale < 1e-30 or scale > 1e30 or t == offsets[s]:  # at the start one context is left: it is the scale
                log_z[s] += np.log(scale)
                unit = 1.0 / scale
            for c in range(n_contexts):
                following[c] = now[c] * unit


@jit
def joint_forward(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    sizes: tuple[int, int, int],  # K, C, order
    first: int,
    last: int,
    now: NDArray[np.float64],  # SCRATCH (C,)
    following: NDArray[np.float64],  # SCRATCH (C,)
    log_z: NDArray[np.float64],  # IN (n_sequences,)
    kernel: NDArray[np.float32],  # INOUT (K * N * C,): q in, P(c_t=c, y_t=k | X) out; 0 if no labelling is allowed
) -> None:
    """Turn the posterior kernel of the sequences first:last into marginals."""
    n_labels, n_contexts, order = sizes
    n_positions = kernel.size // (n_labels * n_contexts)
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    for s in range(first, last):
        for c in range(n_contexts):
            now[c] = 0.0
        now[0] = 1.0 if log_z[s] > -np.inf else 0.0
        for t in range(offsets[s], offsets[s + 1]):
            for c in range(n_contexts):
                following[c] = 0.0
            total = 0.0
            for k in range(n_labels):
                at = U((k * n_positions + t) * n_contexts)
                mass = 0.0
                for c in range(n_contexts):
                    prob = now[c] * kernel[at + U(c)] if now[c] > 0.0 else 0.0
                    kernel[at + U(c)] = np.float32(prob)
                    mass += prob
                    if n_shared > 1:
                        following[U(k) + U(n_labels) * (U(c) % U(n_shared))] += prob
                if n_shared == 1:
                    following[k * step] += mass
                total += mass
            scale = 1.0 / total if total > 0.0 else 0.0
            for c in range(n_contexts):
                now[c] = following[c] * scale


@inlined
def _score(lattice: Lattice, begin: int, stop: int, t: int, c: int, k: int) -> float:
    """Return F_t(c, k), or -inf where the slot does not exist or the observed label is another one."""
    base, labels = lattice.base, lattice.labels
    context_type = min(t - begin, base.size - 1)
    extended = base[context_type] + c
    score = -np.inf
    exists = context_type == base.size - 1 or extended < base[context_type + 1]
    if exists and (labels.size == 0 or labels[t] < 0 or labels[t] == k):
        score = lattice.table[extended, k]
        if t == stop - 1:
            score += lattice.end[k]
        if score > -np.inf:
            score += lattice.scores[k, t, c]
    return score


@jit
def joint_backward_log(
    lattice: Lattice,
    begin: int,
    stop: int,
    kernel: NDArray[np.float32],  # OUT (K, N, C): q
    work: NDArray[np.float64],  # SCRATCH (>= 2, C)
) -> float:
    """Do what :func:`joint_backward` does for one sequence, in log space; return log Z."""
    n_labels, _, n_contexts = lattice.scores.shape
    n_shared = n_contexts // n_labels if lattice.base.size > 2 else 1
    step = 1 if lattice.base.size > 1 else 0
    for c in range(n_contexts):
        work[1, c] = 0.0
    for t in range(stop - 1, begin - 1, -1):
        for c in range(n_contexts):
            highest, total = -np.inf, 0.0  # log of the sum so far = highest + log(total)
            for k in range(n_labels):
                score = _score(lattice, begin, stop, t, c, k)
                score += work[1, step * (k + n_labels * (c % n_shared))]
                highest, total = add_exp(highest, total, score)
            work[0, c] = highest + np.log(total) if highest > -np.inf else -np.inf
            for k in range(n_labels):
                score = _score(lattice, begin, stop, t, c, k)
                score += work[1, step * (k + n_labels * (c % n_shared))]
                kernel[k, t, c] = np.float32(np.exp(score - work[0, c])) if score > -np.inf else np.float32(0.0)
        for c in range(n_contexts):
            work[1, c] = work[0, c]
    log_z: float = work[1, 0]
    return log_z
