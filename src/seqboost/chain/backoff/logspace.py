"""Forward-backward of the back-off chain in log space, where products of probabilities would underflow.

Legend as in :mod:`seqboost.chain.backoff.automaton`.  Here T(s,k) is looked up by walking from s to shorter and
shorter ends until one has an arc of k, for each of the S · K pairs: slow, and needed for few sequences if for any.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import add_exp
from seqboost.chain.backoff.automaton import Graph, find_arc, reachable
from seqboost.chain.backoff.contraction import write_reach
from seqboost.chain.backoff.expectations import Sums, Work, add_up, flush_sums
from seqboost.chain.backoff.potentials import BackoffLattice
from seqboost.core.jit import allocating, jit

__all__ = ["log_posterior"]


@jit
def _longest_arc(
    graph: Graph,
    state_score: NDArray[np.float64],  # IN (S,) β
    open_: NDArray[np.float64],  # IN (K + 1, K)
    s: int,
    k: int,
) -> tuple[int, float]:
    """Return the arc that label k takes from s, -1 if it is forbidden, and the sum of β on the way."""
    arc, score, n_labels = find_arc(graph, s, k), 0.0, open_.shape[1]
    while arc < 0:
        if graph.backoff[s] == 0 and open_[s - 1 if s <= n_labels else n_labels, k] == 0.0:
            return -1, -np.inf
        score += state_score[s]
        s = graph.backoff[s]
        arc = find_arc(graph, s, k)
    return arc, score


@jit
def _label_score(lattice: BackoffLattice, k: int, t: int, is_last: bool) -> float:
    """Return U_t(k), with the score of closing at the last position; -inf for labels other than an observed one."""
    if lattice.labels.size > 0 and lattice.labels[t] >= 0 and lattice.labels[t] != k:
        return -np.inf
    return np.float64(lattice.scores[k, t, 0]) + (lattice.end[k] if is_last else 0.0)


@jit
def _backward(
    lattice: BackoffLattice,
    runs: tuple[int, int],  # begin, stop
    total: NDArray[np.float64],  # OUT (longest + 1, S) log b_t
) -> None:
    graph = lattice.graph
    n_labels, n_states, n_positions = lattice.scores.shape[0], graph.newest.size, runs[1] - runs[0]
    for s in range(n_states):
        total[n_positions, s] = 0.0
    for t in range(n_positions - 1, -1, -1):
        n, first, last = reachable(graph.level, graph.start_level, t)
        for part in range(2):
            for s in range(1 if part == 0 else first, n if part == 0 else last):
                highest, summed = -np.inf, 0.0
                for k in range(n_labels):
                    arc, score = _longest_arc(graph, lattice.state_score, lattice.open, s, k)
                    if arc >= 0:
                        score += lattice.arc_score[arc] + total[t + 1, graph.arc_to[arc]]
                        score += _label_score(lattice, k, runs[0] + t, t == n_positions - 1)
                    highest, summed = add_exp(highest, summed, score)
                total[t, s] = highest + np.log(summed) if highest > -np.inf else -np.inf


@allocating
def log_posterior(
    lattice: BackoffLattice,
    sequence: int,
    work: Work,
    marginals: NDArray[np.float32],  # OUT (K, N, 1); or (0, 0, 0): log Z alone, by the backward pass alone
    reach: NDArray[np.float32],  # OUT (2, N) or (2, 0)
    sums: Sums,
) -> float:
    """Do for one sequence what ``scaled_posterior`` does; return log Z.  Contraction coefficients are set to 1."""
    graph, begin = lattice.graph, lattice.offsets[sequence]
    n_labels, order = lattice.scores.shape[0], graph.level.size - 2
    n_positions = lattice.offsets[sequence + 1] - begin
    total, now, following, unseen = work.total, work.states[0], work.states[1], work.states[2]
    prob = work.arcs[0]
    runs = (begin, begin + n_positions)
    _backward(lattice, runs, total)
    log_z: float = total[0, graph.start_level[1]]
    if marginals.size == 0:
        return log_z
    summing = sums.mean.size > 0 and sums.weights[sequence] > 0.0 and log_z > -np.inf
    now[:] = 0.0
    now[graph.start_level[1]] = 1.0 if log_z > -np.inf else 0.0
    for t in range(n_positions):
        n, first, last = reachable(graph.level, graph.start_level, t)
        prob[:], following[:], unseen[:] = 0.0, 0.0, 0.0
        for k in range(n_labels):
            node = 0.0
            for part in range(2):
                for s in range(1 if part == 0 else first, n if part == 0 else last):
                    if now[s] > 0.0:
                        arc, score = _longest_arc(graph, lattice.state_score, lattice.open, s, k)
                        if arc >= 0:
                            score += lattice.arc_score[arc] + total[t + 1, graph.arc_to[arc]] - total[t, s]
                            score += _label_score(lattice, k, begin + t, t == n_positions - 1)
                        p = now[s] * np.exp(score)
                        if p > 0.0:
                            node += p
                            prob[arc] += p
                            following[graph.arc_to[arc]] += p
                            end_of = s
                            while find_arc(graph, end_of, k) < 0:
                                unseen[end_of] += p
                                end_of = graph.backoff[end_of]
            marginals[k, begin + t, 0] = np.float32(node)
        summed = following.sum()
        now[:] = following / (summed if summed > 0.0 else 1.0)
        work.tau[t] = 1.0 if t > 0 else 0.0
        if summing:
            add_up(graph, t, prob, unseen, work.mean, work.variance)
    if reach.size > 0:
        write_reach(work.tau, runs, order, work.reach, reach)
    if summing:
        flush_sums(sequence, order, n_positions, sums, work)
    return log_z
