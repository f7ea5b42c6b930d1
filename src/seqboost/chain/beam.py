"""Beam search: forward-backward and Viterbi over the most promising contexts of each position only.

Letters as in :mod:`seqboost.chain.contexts`.  At every position the ``width`` contexts with the largest forward score
are kept (the log-sum over labellings that lead there, or their maximum); all others count as impossible.  Everything is
in log space, and costs N * width * K whatever the number of contexts.

In training the contexts of the observed labels are ``forced``: where one is not among the best, it takes the place of
the last of them.  So the observed labelling is always possible, and log P <= 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.potentials import Lattice
from seqboost.core.jit import allocating, jit

__all__ = ["Beam", "beam_sequence", "make_beam"]


class Beam(NamedTuple):
    """Contexts kept at each position of a sequence of up to n positions; memory of one thread."""

    kept: NDArray[np.int64]  # (n + 1, width) contexts, best first; -1 = none
    alpha: NDArray[np.float64]  # (n + 1, width) their forward scores
    parent: NDArray[np.int64]  # (n + 1, width) width * label + place of the best way there
    dense: NDArray[np.float64]  # (2, C)


def make_beam(longest: int, width: int, n_contexts: int) -> Beam:
    """Allocate the memory for sequences of up to ``longest`` positions."""
    shape = (longest + 1, width)
    return Beam(np.empty(shape, np.int64), np.empty(shape), np.empty(shape, np.int64), np.empty((2, n_contexts)))


@allocating
def beam_sequence(
    lattice: Lattice,
    begin: int,
    stop: int,
    beam: Beam,  # SCRATCH
    path: NDArray[np.int32],  # OUT (N,) of the best labelling; or (0,): sum over labellings instead
    marginals: NDArray[np.float32],  # OUT (K, N, C) or (K, N, 1); or (0, 0, 0)
    forced: NDArray[np.int64],  # IN (stop - begin + 1,) contexts to keep; or (0,): none
    pairs: NDArray[np.float64],  # INOUT (2, E, K) sums of P(c_t=c, y_t=k) and of P(1 - P) over positions; or (0, 0, 0)
) -> float:
    """Return log Z over the labellings within the beam, or the score of the best of them."""
    scores, table, end, base = lattice.scores, lattice.table, lattice.end, lattice.base
    kept, alpha, parent = beam.kept, beam.alpha, beam.parent
    n_labels, _, n_slots = scores.shape
    order = base.size - 1
    n_contexts, width = beam.dense.shape[1], kept.shape[1]
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    forward = beam.dense[0]
    way = np.empty(n_contexts, np.int64)
    touched = np.empty(min(width * n_labels, n_contexts), np.int64)
    forward[:] = -np.inf
    kept[:] = -1
    kept[0, 0] = 0
    alpha[0, 0] = 0.0
    for t in range(begin, stop):
        row = t - begin
        n_touched = np.int64(0)
        for place in range(width):
            c = kept[row, place]
            if c < 0:
                break
            for k in range(n_labels):
                score = alpha[row, place] + table[base[min(row, order)] + c, k] + (end[k] if t == stop - 1 else 0.0)
                if score > -np.inf:
                    score += scores[k, t, c if n_slots > 1 else 0]
                if score > -np.inf:
                    to = step * (k + n_labels * (c % n_shared))
                    if forward[to] == -np.inf:
                        touched[n_touched] = to
                        n_touched += 1
                    if path.size == 0:
                        high, low = max(score, forward[to]), min(score, forward[to])
                        forward[to] = high + np.log1p(np.exp(low - high))
                    elif score > forward[to]:
                        forward[to] = score
                        way[to] = width * k + place
        for i in range(n_touched):
            _insert(kept[row + 1], alpha[row + 1], parent[row + 1], touched[i], forward[touched[i]], way[touched[i]])
        if forced.size > 0:
            c = forced[row + 1]
            is_kept = False
            for place in range(width):
                is_kept |= kept[row + 1, place] == c
            if not is_kept and forward[c] > -np.inf:
                kept[row + 1, width - 1], alpha[row + 1, width - 1] = c, forward[c]
        for i in range(n_touched):
            forward[touched[i]] = -np.inf
    total = -np.inf
    if kept[stop - begin, 0] >= 0:
        total = alpha[stop - begin, 0]
        if path.size == 0:
            for place in range(width):
                if kept[stop - begin, place] >= 0:
                    total = max(total, alpha[stop - begin, place])
            summed = 0.0
            for place in range(width):
                if kept[stop - begin, place] >= 0:
                    summed += np.exp(alpha[stop - begin, place] - total)
            total += np.log(summed)
    if path.size > 0:
        place = 0
        for row in range(stop - begin, 0, -1):
            code = parent[row, place] if total > -np.inf else 0
            path[begin + row - 1] = code // width
            place = code % width
    elif marginals.size > 0:
        _beam_backward(lattice, begin, stop, beam, total, marginals, pairs)
    return total


@jit
def _insert(
    kept: NDArray[np.int64],  # INOUT (width,)
    alpha: NDArray[np.float64],  # INOUT (width,)
    parent: NDArray[np.int64],  # INOUT (width,)
    c: int,
    score: float,
    way: int,
) -> None:
    """Insert a context into the list of the best ones; lower numbers first among equals."""
    width = kept.size
    place = width
    while place > 0 and (
        kept[place - 1] < 0 or alpha[place - 1] < score or (alpha[place - 1] == score and kept[place - 1] > c)
    ):
        place -= 1
    for i in range(width - 1, place, -1):
        kept[i], alpha[i], parent[i] = kept[i - 1], alpha[i - 1], parent[i - 1]
    if place < width:
        kept[place], alpha[place], parent[place] = c, score, way


@jit
def _beam_backward(
    lattice: Lattice,
    begin: int,
    stop: int,
    beam: Beam,  # IN kept contexts and their scores
    log_z: float,
    marginals: NDArray[np.float32],  # OUT (K, N, C) or (K, N, 1)
    pairs: NDArray[np.float64],  # INOUT (2, E, K), or (0, 0, 0)
) -> None:
    """Fill P(c_t=c, y_t=k | X) = exp(alpha_t(c) + F_t(c,k) + log b_{t+1}(c') - log Z) over kept contexts."""
    scores, table, end, base = lattice.scores, lattice.table, lattice.end, lattice.base
    kept, alpha, dense = beam.kept, beam.alpha, beam.dense  # dense: log b_{t+1} and log b_t
    n_labels, _, n_slots = scores.shape
    order = base.size - 1
    n_contexts, width = dense.shape[1], kept.shape[1]
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    dense[:] = -np.inf
    for place in range(width):
        if kept[stop - begin, place] >= 0:
            dense[stop % 2, kept[stop - begin, place]] = 0.0
    for t in range(stop - 1, begin - 1, -1):
        row = t - begin
        now, following = t % 2, (t + 1) % 2
        for k in range(n_labels):
            for c in range(n_slots):
                marginals[k, t, c] = 0.0
        for place in range(width):
            c = kept[row, place]
            if c < 0 or log_z == -np.inf:
                break
            total = 0.0
            for k in range(n_labels):
                score = alpha[row, place] + table[base[min(row, order)] + c, k] + (end[k] if t == stop - 1 else 0.0)
                score += dense[following, step * (k + n_labels * (c % n_shared))]
                if score > -np.inf:
                    prob = np.exp(score + scores[k, t, c if n_slots > 1 else 0] - log_z)
                    marginals[k, t, c if n_slots > 1 else 0] += np.float32(prob)
                    total += prob
                    if pairs.size > 0:
                        pairs[0, base[min(row, order)] + c, k] += prob
                        pairs[1, base[min(row, order)] + c, k] += prob * max(1.0 - prob, 0.0)
            # b_t(c) from the context's own marginal; what is too unlikely for that stays impossible
            dense[now, c] = np.log(total) + log_z - alpha[row, place] if total > 0.0 else -np.inf
        for place in range(width):
            if kept[row + 1, place] >= 0:
                dense[following, kept[row + 1, place]] = -np.inf
