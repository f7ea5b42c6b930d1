"""Best labelling of back-off chains (Viterbi).

Legend as in :mod:`seqboost.chain.backoff.automaton`.  The recursion is the backward pass of
:mod:`seqboost.chain.backoff.scaled` with max for +, on log-scores; of equally good labellings the one with the lowest
label at the first difference wins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.automaton import Graph, reachable
from seqboost.chain.backoff.potentials import BackoffLattice, SeenPotentials
from seqboost.core.jit import allocating, jit

__all__ = ["seen_viterbi_chunk"]


def seen_viterbi_chunk(
    potentials: SeenPotentials, first: int, last: int, path: NDArray[np.int32], path_score: NDArray[np.float64]
) -> None:
    """Fill the best labelling (N,) and its score (n_sequences,) of the sequences ``first:last``."""
    longest = int(np.diff(potentials.offsets[first : last + 1]).max())
    choice = np.empty((longest, potentials.contexts.n_states), np.int32)
    _viterbi(potentials.lattice(), (first, last), choice, path, path_score)


@allocating
def _viterbi(
    lattice: BackoffLattice,
    runs: tuple[int, int],  # first, last sequence
    choice: NDArray[np.int32],  # SCRATCH (longest, S) best arc
    path: NDArray[np.int32],  # OUT (N,)
    path_score: NDArray[np.float64],  # OUT (n_sequences,) -inf if no labelling is allowed
) -> None:
    graph, arc_score, state_score, open_ = lattice.graph, lattice.arc_score, lattice.state_score, lattice.open
    scores, end, offsets = lattice.scores, lattice.end, lattice.offsets
    n_labels, n_states = scores.shape[0], graph.newest.size
    value = np.empty(arc_score.size)
    best, following, rest = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    rest_arc = np.empty(n_states, np.int32)
    for sequence in range(runs[0], runs[1]):
        begin, stop = offsets[sequence], offsets[sequence + 1]
        following[:] = 0.0
        for t in range(stop - begin - 1, -1, -1):
            n, first, last = reachable(graph.level, graph.start_level, t)
            for part in range(2):
                low = graph.arc_start[0] if part == 0 else graph.arc_start[first]
                for a in range(low, graph.arc_start[n] if part == 0 else graph.arc_start[last]):
                    k = graph.arc_label[a]
                    value[a] = arc_score[a] + np.float64(scores[k, begin + t, 0]) + following[graph.arc_to[a]]
                    value[a] += end[k] if begin + t == stop - 1 else 0.0
            for part in range(2):
                for s in range(1 if part == 0 else first, n if part == 0 else last):
                    highest, chosen, back = -np.inf, np.int32(-1), graph.backoff[s]
                    if back == 0:
                        row = s - 1 if s <= n_labels else n_labels
                        for k in range(n_labels):
                            if open_[row, k] > 0.0 and value[k] > highest:
                                highest, chosen = value[k], np.int32(k)
                    else:
                        highest, chosen = rest[back], rest_arc[back]
                        for i in range(graph.rest_start[s], graph.rest_start[s + 1]):
                            a = graph.rest_arc[i]
                            if _is_better(graph, value[a], a, highest, chosen):
                                highest, chosen = value[a], a
                    highest += state_score[s]
                    rest[s], rest_arc[s] = highest, chosen
                    for a in range(graph.arc_start[s], graph.arc_start[s + 1]):
                        if _is_better(graph, value[a], a, highest, chosen):
                            highest, chosen = value[a], np.int32(a)
                    best[s], choice[t, s] = highest, chosen
            best, following = following, best
        s = graph.start_level[1]
        path_score[sequence] = following[s]
        for t in range(stop - begin):
            arc = choice[t, s] if path_score[sequence] > -np.inf else 0
            path[begin + t] = graph.arc_label[arc]
            s = graph.arc_to[arc]


@jit
def _is_better(graph: Graph, score: float, arc: int, highest: float, chosen: np.int32) -> bool:
    """Check whether an arc is better than the chosen one: a higher score, or the same and a lower label."""
    if score != highest or chosen < 0:
        return score > highest
    is_lower: bool = graph.arc_label[arc] < graph.arc_label[chosen]
    return is_lower
