"""The best labellings within minimum durations; letters as in :mod:`seqboost.chain.durations.kernels`.

Both searches run from the end of the sequence to its start, with maxima in place of sums, so that the labels can be
read off forwards, and of equally good labellings the one with the lowest label at the first difference wins.  A
labelling is one path of states, so no labelling is found twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.durations.kernels import pair_score, run_scores, start_score
from seqboost.chain.durations.potentials import DurationPotentials
from seqboost.chain.potentials import Lattice
from seqboost.core.jit import inner, jit

__all__ = ["duration_k_best", "duration_viterbi_chunk"]


def duration_viterbi_chunk(
    potentials: DurationPotentials, first: int, last: int, path: NDArray[np.int32], scores: NDArray[np.float64]
) -> None:
    """Fill the best labelling of each of the sequences ``first:last`` and its score; -inf if none is allowed."""
    p, rows = potentials, slice(int(potentials.offsets[first]), int(potentials.offsets[last]))
    chain, search = (p.lattice(), p.durations), _make_search(p, first, last, 1)
    _search_sequences(chain, first, last, search, path[None, rows], scores[first:last, None])


def duration_k_best(
    potentials: DurationPotentials, sequence: int, n_best: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the ``n_best`` best labellings of a sequence, (n_best, T), and their scores; -inf if there are fewer."""
    p, length = potentials, int(potentials.offsets[sequence + 1] - potentials.offsets[sequence])
    paths, scores = np.zeros((n_best, length), np.int32), np.empty((1, n_best))
    search = _make_search(p, sequence, sequence + 1, n_best)
    _search_sequences((p.lattice(), p.durations), sequence, sequence + 1, search, paths, scores)
    return paths, scores[0]


class _Search(NamedTuple):
    """Room for the search through one sequence."""

    runs: NDArray[np.float64]  # (longest, K) W
    sums: NDArray[np.float64]  # (3, longest)
    rank: NDArray[np.int64]  # (K,)
    values: NDArray[np.float64]  # (longest, K, n_best) B_t(k) of the 1st, 2nd, … best rest; -inf if there is none
    choice: NDArray[np.int32]  # (longest, K, n_best) after (j,d_j) at t-1: label at t * n_best + rank of its rest


def _make_search(p: DurationPotentials, first: int, last: int, n_best: int) -> _Search:
    longest = int(np.diff(p.offsets[first : last + 1]).max())
    shape = (longest, p.n_labels)
    return _Search(
        np.empty(shape), np.empty((3, longest)), np.empty(p.n_labels, np.int64), np.empty((*shape, n_best)),
        np.empty((*shape, n_best), np.int32),
    )  # fmt: skip


@jit
def _search_sequences(
    chain: tuple[Lattice, NDArray[np.int64]],  # with the durations
    first: int,
    last: int,
    search: _Search,  # SCRATCH
    paths: NDArray[np.int32],  # OUT (n_best, positions of the sequences)
    path_scores: NDArray[np.float64],  # OUT (sequences, n_best), -inf where there are fewer labellings
) -> None:
    """Fill the best labellings of the sequences first:last."""
    lattice, durations = chain
    for s in range(first, last):
        begin, stop = lattice.offsets[s], lattice.offsets[s + 1]
        _search(lattice, durations, (begin, stop), search, path_scores[s - first])
        place = begin - lattice.offsets[first]
        _read_off(search.choice, durations, path_scores[s - first], paths[:, place : place + stop - begin])


@inner
def _search(
    lattice: Lattice,
    durations: NDArray[np.int64],  # IN (K,)
    bounds: tuple[int, int],  # first position and one beyond the last
    search: _Search,  # choice is filled
    path_scores: NDArray[np.float64],  # OUT (n_best,)
) -> None:
    """Merge, at every position and free state, the n best rests of each label that may follow."""
    runs, rank, values, choice = search.runs, search.rank, search.values, search.choice
    begin, length = bounds[0], bounds[1] - bounds[0]
    n_labels, n_best = durations.size, path_scores.size
    run_scores(lattice, bounds, durations, search.sums, runs)
    for k in range(n_labels):
        for r in range(n_best):
            values[length - 1, k, r] = lattice.end[k] if r == 0 else -np.inf
    for i in range(length - 1, -1, -1):
        for j in range(n_labels if i > 0 else 1):
            for k in range(n_labels):
                rank[k] = 0
            for r in range(n_best):
                best_score, best_label = -np.inf, 0
                for k in range(n_labels):
                    score = -np.inf
                    if rank[k] < n_best:
                        if i == 0:
                            score = start_score(lattice, begin, k) + values[0, k, rank[k]]
                        elif k == j:
                            score = pair_score(lattice, begin + i, j, k) + values[i, k, rank[k]]
                        else:
                            until = min(i + durations[k] - 1, length - 1)
                            score = pair_score(lattice, begin + i, j, k) + (runs[i, k] + values[until, k, rank[k]])
                    if score > best_score:
                        best_score, best_label = score, k
                choice[i, j, r] = best_label * n_best + rank[best_label] if best_score > -np.inf else 0
                rank[best_label] += 1
                if i > 0:
                    values[i - 1, j, r] = best_score
                else:
                    path_scores[r] = best_score


@inner
def _read_off(
    choice: NDArray[np.int32],  # IN (longest, K, n_best)
    durations: NDArray[np.int64],  # IN (K,)
    path_scores: NDArray[np.float64],  # IN (n_best,)
    paths: NDArray[np.int32],  # OUT (n_best, T)
) -> None:
    """Follow the choices forwards."""
    n_best, length = paths.shape
    for number in range(n_best):
        if path_scores[number] == -np.inf:
            continue
        label, r = divmod(choice[0, 0, number], n_best)
        paths[number, 0] = label
        i = 1
        while i < length:
            following, r = divmod(choice[i, label, r], n_best)
            until = i + 1 if following == label else min(i + durations[following], length)
            for t in range(i, until):
                paths[number, t] = following
            label, i = following, until
