"""Forward-backward over labels with minimum durations, at a cost that does not depend on the durations.

States as in :mod:`seqboost.chain.durations.potentials`; F_t(j,k) is the score of label k at t after j.  Between (k,1)
and (k,d_k) nothing is decided, so only two kinds of states need a message, as logarithms of sums over what follows t:

    free   B_t(k) = log Σ over the labels after t, given state (k,d_k) at t;   at the last position end(k)
    entry  D_t(k) = W_t(k) + B_u(k), given state (k,1) at t,                   u = min(t + d_k − 1, last position)
           W_t(k) = F_{t+1}(k,k) + … + F_u(k,k)                                the rest of the run

    B_{t-1}(j) = log( exp(F_t(j,j) + B_t(j)) + Σ_{k≠j} exp(F_t(j,k) + D_t(k)) )
    log Z      = log Σ_k exp(F_1(start,k) + B_1(k))

Forwards, probabilities need no scaling: with f_t(k) = P(state (k,d_k) at t) and e_t(k) = P(state (k,1) at t),

    P(y_{t-1}=j, y_t=k) = f_{t-1}(j) exp(F_t(j,k) + D_t(k) − B_{t-1}(j))       k ≠ j; their sum over j is e_t(k)
    P(y_{t-1}=k, y_t=k) = stay_t(k) + Σ e_s(k) over s = t−d_k+1 .. t−1         stay_t(k) the same with B_t(k)
    f_t(k)              = stay_t(k) + e_{t−d_k+1}(k)                           (d_k = 1: stay_t(k) + e_t(k))

Sums over a window are two terms, without cancellation: sums from the edges of blocks as long as the window.  So a
position costs K² exponentials each way, for any d.  All messages are logarithms in double precision: no score is too
large.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.potentials import Lattice
from seqboost.core.jit import inlined, inner, jit

__all__ = ["Rests", "make_rests", "pair_score", "posterior_sequences", "run_scores", "start_score"]


class Rests(NamedTuple):
    """Messages of one sequence, and room for rows."""

    free: NDArray[np.float64]  # (longest, K) B
    entry: NDArray[np.float64]  # (longest, K) D, then e
    sums: NDArray[np.float64]  # (3, longest)
    rows: NDArray[np.float64]  # (5, K)


def make_rests(longest: int, n_labels: int) -> Rests:
    """Make room for sequences of up to ``longest`` positions."""
    shape = (longest, n_labels)
    return Rests(np.empty(shape), np.empty(shape), np.empty((3, longest)), np.empty((5, n_labels)))


@inlined
def pair_score(lattice: Lattice, t: int, j: int, k: int) -> float:
    """Return F_t(j, k) inside a sequence; -inf if it is forbidden or another label is observed."""
    score: float = lattice.table[1 + j, k]
    if lattice.labels.size > 0 and lattice.labels[t] >= 0 and lattice.labels[t] != k:
        score = -np.inf
    if score > -np.inf:
        score += lattice.scores[k, t, j if lattice.scores.shape[2] > 1 else 0]
    return score


@inlined
def start_score(lattice: Lattice, t: int, k: int) -> float:
    """Return the score of label k at the first position t of a sequence."""
    score: float = lattice.table[0, k]
    if lattice.labels.size > 0 and lattice.labels[t] >= 0 and lattice.labels[t] != k:
        score = -np.inf
    if score > -np.inf:
        score += lattice.scores[k, t, 0]
    return score


@inner
def run_scores(
    lattice: Lattice,
    bounds: tuple[int, int],  # first position and one beyond the last of a sequence
    durations: NDArray[np.int64],  # IN (K,)
    sums: NDArray[np.float64],  # SCRATCH (3, longest)
    runs: NDArray[np.float64],  # OUT (longest, K) W
) -> None:
    """Fill W_t(k) of a sequence: the score of the rest of a run of k that was entered at t."""
    begin, stop = bounds
    length = stop - begin
    own, head, tail = sums[0], sums[1], sums[2]  # of blocks as long as the window: from their start, to their end
    for k in range(durations.size):
        width = durations[k] - 1
        for i in range(length if width == 0 else 0):
            runs[i, k] = 0.0
        place = 0  # in the block
        for i in range(length if width > 0 else 0):
            own[i] = pair_score(lattice, begin + i, k, k) if i > 0 else 0.0
            head[i] = own[i] if place == 0 else head[i - 1] + own[i]
            place = place + 1 if place + 1 < width else 0
        place = (length - 1) % max(width, 1)
        for i in range(length - 1 if width > 0 else -1, -1, -1):
            tail[i] = own[i] if place == width - 1 or i == length - 1 else tail[i + 1] + own[i]
            place = place - 1 if place > 0 else width - 1
        place = 1 % max(width, 1)  # of i + 1, where the window begins
        for i in range(length - 1 if width > 0 else 0):
            total = tail[i + 1]
            if place > 0 and i + 1 - place + width < length:  # the window reaches into the next block
                total += head[min(i + width, length - 1)]
            runs[i, k] = total
            place = place + 1 if place + 1 < width else 0
        runs[length - 1, k] = 0.0


@inner
def _backward(
    lattice: Lattice, bounds: tuple[int, int], durations: NDArray[np.int64], rests: Rests
) -> float:  # log Z; free and entry are filled
    free, entry, row = rests.free, rests.entry, rests.rows[0]
    n_labels, (begin, stop) = durations.size, bounds
    length = stop - begin
    run_scores(lattice, bounds, durations, rests.sums, entry)
    for k in range(n_labels):
        free[length - 1, k] = lattice.end[k]
    for i in range(length - 1, -1, -1):
        for k in range(n_labels):
            entry[i, k] += free[min(i + durations[k] - 1, length - 1), k]
        for j in range(n_labels if i > 0 else 1):
            highest, total = -np.inf, 0.0
            for k in range(n_labels):
                if i > 0:
                    row[k] = pair_score(lattice, begin + i, j, k) + (free[i, k] if k == j else entry[i, k])
                else:
                    row[k] = start_score(lattice, begin, k) + free[0, k]
                highest = row[k] if row[k] > highest else highest
            if highest > -np.inf:
                for k in range(n_labels):
                    total += np.exp(row[k] - highest)
                highest += np.log(total)
            if i == 0:
                return highest
            free[i - 1, j] = highest
    return -np.inf


@inner
def _forward(
    lattice: Lattice,
    bounds: tuple[int, int],
    durations: NDArray[np.int64],  # IN (K,)
    rests: Rests,  # as the backward pass left them; e replaces D, sums of e replace B
    pairs: NDArray[np.float32],  # OUT (K, n, K) P(y_{t-1}=j, y_t=k | X) as [k, t, j]; at the first position j = 0
    place: int,  # row of the first position in pairs
) -> None:
    free, entry = rests.free, rests.entry
    row, now, stay, fresh, inside = rests.rows[0], rests.rows[1], rests.rows[2], rests.rows[3], rests.rows[4]
    n_labels, (begin, stop) = durations.size, bounds
    for k in range(n_labels):
        now[k], inside[k], stay[k] = 0.0, 0.0, 0.0
    for i in range(stop - begin):
        for k in range(n_labels):
            fresh[k] = 0.0
        for j in range(n_labels):
            mass = (1.0 if j == 0 else 0.0) if i == 0 else now[j]
            highest, total = -np.inf, 0.0
            for k in range(n_labels if mass > 0.0 else 0):
                if i > 0:
                    row[k] = pair_score(lattice, begin + i, j, k) + (free[i, k] if k == j else entry[i, k])
                else:
                    row[k] = start_score(lattice, begin, k) + free[0, k]
                highest = row[k] if row[k] > highest else highest
            for k in range(n_labels if mass > 0.0 else 0):
                row[k] = np.exp(row[k] - highest)
                total += row[k]
            for k in range(n_labels):
                prob = row[k] * mass / total if mass > 0.0 else 0.0
                pairs[k, place + i, j] = prob
                if k == j and i > 0:
                    stay[k] = prob
                else:
                    fresh[k] += prob
        for k in range(n_labels):
            width = durations[k] - 1
            if i == 0 or width == 0:
                now[k], entry[i, k] = stay[k] + fresh[k], 0.0
                continue
            if i % width == 0:  # a block of e is complete: its sums to the end replace B, which is done with
                total, inside[k] = 0.0, 0.0
                for u in range(i - 1, i - width - 1, -1):
                    total += entry[u, k]
                    free[u, k] = total
            pairs[k, place + i, k] = stay[k] + (inside[k] + (free[i - width, k] if i >= width else 0.0))
            now[k] = stay[k] + (entry[i - width, k] if i >= width else 0.0)
            entry[i, k] = fresh[k]
            inside[k] += fresh[k]


@jit
def posterior_sequences(
    lattice: Lattice,
    durations: NDArray[np.int64],  # IN (K,)
    first: int,
    last: int,
    rests: Rests,  # SCRATCH
    shift: int,  # position of row 0 of pairs
    pairs: NDArray[np.float32],  # OUT (K, n, K), or (0, 0, 0): log Z is enough
    log_z: NDArray[np.float64],  # OUT (n_sequences,)
) -> None:
    """Fill log Z and the probabilities of pairs of the sequences first:last; 0 if no labelling is allowed."""
    for s in range(first, last):
        bounds = (lattice.offsets[s], lattice.offsets[s + 1])
        log_z[s] = _backward(lattice, bounds, durations, rests)
        if pairs.size > 0 and log_z[s] > -np.inf:
            _forward(lattice, bounds, durations, rests, pairs, bounds[0] - shift)
        elif pairs.size > 0:
            for k in range(durations.size):
                for t in range(bounds[0] - shift, bounds[1] - shift):
                    for j in range(durations.size):
                        pairs[k, t, j] = 0.0
