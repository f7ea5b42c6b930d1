"""Chains of seen contexts label by label: log space where products of probabilities would underflow, and single paths.

Legend as in :mod:`seqboost.chain.histories`.  Here T(s,k) is looked up by walking from s to shorter and shorter ends
until one has an arc of k, for each of the S · K pairs: slow, and needed for few sequences if for any.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.failuresums import Sums, Work, add_up, flush_sums, reachable
from seqboost.chain.histories import Graph
from seqboost.chain.reach import label_reach
from seqboost.core.jit import jit

__all__ = ["find_arc", "seen_posterior_log", "trace_labels", "viterbi_seen"]

U = np.uint64


@jit
def find_arc(graph: Graph, s: int, k: int) -> int:
    """Return the arc of label k at state s, -1 if there is none."""
    low, high = graph.arc_start[s], graph.arc_start[s + 1]
    while low < high:
        middle = (low + high) // 2
        if graph.arc_label[middle] < k:
            low = middle + 1
        else:
            high = middle
    return low if low < graph.arc_start[s + 1] and graph.arc_label[low] == k else -1


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
def _label_score(
    scores: NDArray[np.float32], end: NDArray[np.float64], labels: NDArray[np.int32], k: int, t: int, is_last: bool
) -> float:
    """Return U_t(k), with the score of closing at the last position; -inf for labels other than an observed one."""
    if labels.size > 0 and labels[t] >= 0 and labels[t] != k:
        return -np.inf
    return np.float64(scores[k, t, 0]) + (end[k] if is_last else 0.0)


@jit
def _backward_log(
    graph: Graph,
    arc_score: NDArray[np.float64],
    state_score: NDArray[np.float64],
    open_: NDArray[np.float64],
    scores: NDArray[np.float32],
    end: NDArray[np.float64],
    labels: NDArray[np.int32],
    runs: tuple[int, int],  # begin, stop
    total: NDArray[np.float64],  # OUT (longest + 1, S) log b_t
) -> None:
    n_labels, n_states, n_positions = scores.shape[0], graph.newest.size, runs[1] - runs[0]
    for s in range(n_states):
        total[n_positions, s] = 0.0
    for t in range(n_positions - 1, -1, -1):
        n, first, last = reachable(graph.level, graph.start_level, t)
        for part in range(2):
            for s in range(1 if part == 0 else first, n if part == 0 else last):
                highest, summed = -np.inf, 0.0
                for k in range(n_labels):
                    arc, score = _longest_arc(graph, state_score, open_, s, k)
                    if arc >= 0:
                        score += arc_score[arc] + total[t + 1, graph.arc_to[arc]]
                        score += _label_score(scores, end, labels, k, runs[0] + t, t == n_positions - 1)
                    if score > highest:
                        summed = summed * np.exp(highest - score) + 1.0
                        highest = score
                    elif score > -np.inf:
                        summed += np.exp(score - highest)
                total[t, s] = highest + np.log(summed) if highest > -np.inf else -np.inf


@jit
def seen_posterior_log(
    graph: Graph,
    arc_score: NDArray[np.float64],  # IN (A,) T
    state_score: NDArray[np.float64],  # IN (S,) β
    open_: NDArray[np.float64],  # IN (K + 1, K)
    scores: NDArray[np.float32],  # IN (K, N, 1)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    sequence: int,
    work: Work,
    marginals: NDArray[np.float32],  # OUT (K, N, 1)
    reach: NDArray[np.float32],  # OUT (2, N) or (2, 0)
    sums: Sums,
) -> float:
    """Do for one sequence what ``seen_posterior`` does; return log Z.  Contraction coefficients are set to 1."""
    n_labels, order, begin = scores.shape[0], graph.level.size - 2, offsets[sequence]
    n_positions = offsets[sequence + 1] - begin
    total, now, following, unseen = work.total, work.states[0], work.states[1], work.states[2]
    prob = work.arcs[0]
    runs = (begin, begin + n_positions)
    _backward_log(graph, arc_score, state_score, open_, scores, end, labels, runs, total)
    log_z = total[0, graph.start_level[1]]
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
                        arc, score = _longest_arc(graph, state_score, open_, s, k)
                        if arc >= 0:
                            score += arc_score[arc] + total[t + 1, graph.arc_to[arc]] - total[t, s]
                            score += _label_score(scores, end, labels, k, begin + t, t == n_positions - 1)
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
        label_reach(work.tau, n_positions, order, work.reach)
        for t in range(n_positions):
            reach[0, begin + t], reach[1, begin + t] = work.reach[0, t], work.reach[1, t]
    if summing:
        flush_sums(sequence, order, n_positions, sums, work)
    return log_z


@jit
def trace_labels(
    graph: Graph,
    open_: NDArray[np.float64],  # IN (K + 1, K)
    labels: NDArray[np.int32],  # IN (N,) all observed
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    path_arc: NDArray[np.int32],  # OUT (N,) the longest arc of each label, -1 if it is forbidden
    path_state: NDArray[np.int32],  # OUT (N, m) states at which the label has no arc; ε elsewhere
) -> None:
    """Follow labelled paths through the states."""
    n_labels, order = open_.shape[1], path_state.shape[1]
    for sequence in range(offsets.size - 1):
        s = graph.start_level[1]
        for t in range(offsets[sequence], offsets[sequence + 1]):
            k, n_failed, here = labels[t], 0, s
            for j in range(order):
                path_state[t, j] = 0
            arc = find_arc(graph, here, k)
            forbidden = False
            while arc < 0:
                row = here - 1 if here <= n_labels else n_labels
                forbidden |= graph.backoff[here] == 0 and open_[row, k] == 0.0
                path_state[t, n_failed] = here
                n_failed += 1
                here = graph.backoff[here]
                arc = find_arc(graph, here, k)
            path_arc[t] = -1 if forbidden else arc
            s = graph.arc_to[arc]


@jit
def viterbi_seen(
    graph: Graph,
    arc_score: NDArray[np.float64],  # IN (A,) T
    state_score: NDArray[np.float64],  # IN (S,) β
    open_: NDArray[np.float64],  # IN (K + 1, K)
    scores: NDArray[np.float32],  # IN (K, N, 1)
    end: NDArray[np.float64],  # IN (K,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    runs: tuple[int, int],  # first, last sequence
    choice: NDArray[np.int32],  # SCRATCH (longest, S) best arc
    path: NDArray[np.int32],  # OUT (N,)
    path_score: NDArray[np.float64],  # OUT (n_sequences,) -inf if no labelling is allowed
) -> None:
    """Best labelling of each of the sequences first:last; the sums of ``failures.backward`` with max for +.

    Of equally good labellings that with the lowest label at the first difference.
    """
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
    """Tell whether an arc is better than the chosen one: a higher score, or the same and a lower label."""
    if score != highest or chosen < 0:
        return score > highest
    return graph.arc_label[arc] < graph.arc_label[chosen]
