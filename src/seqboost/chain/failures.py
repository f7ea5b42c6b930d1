"""Forward-backward of chains of seen contexts: sums over all labels of all states from the arcs alone.

Legend as in :mod:`seqboost.chain.histories`; u_t(k) = exp(U_t(k) - max_t), a(s,k) = exp T(s,k) at an arc,
f(s) = exp β(s), to(s,k) the next state, b_{t+1} = 1 after the last position.

    v(s,k) = a(s,k) u_t(k) b_{t+1}(to(s,k))                                        at arcs
    r(s)   = f(s) [ Σ_{arcs of back(s) whose label has no arc at s} v + r(back(s)) ]      all labels that have no arc at s
    b_t(s) = Σ_{arcs of s} v + r(s)                                                log Z = log b_0(⊥)

because a label that has no arc at s goes to the same state, with the same score but for β, from s as from back(s).  At a
state of one symbol back(s) = ε and r(s) = f(s) Σ_k open(s,k) v(ε,k), which also keeps to the constraint: what is
forbidden after a label was not seen after any history that ends with it.  Forwards, with g_t(s) = P(s_t = s | X) and
h = g_t / b_t, the same sums turned round:

    d(s)   = h(s) + Σ_{r: back(r) = s} f(r) d(r)                          what meets a label that has no arc at s
    p(s,k) = v(s,k) [ h(s) + Σ_{r: back(r) = s, (r,k) no arc} f(r) d(r) ]        P(the longest arc of y_t is (s,k) | X)
    P(y_t has no arc at the end s of the history | X) = d(s) r(s)

Every sum is of terms >= 0: nothing cancels, whatever the scores.  θ(s,k) counts whenever (s,k) is an arc of an end of
the history, so its expectation is p(s,k) plus that of all arcs whose parent it is.

How far a label reaches: P(k | s) = v / b_t along each state.  With overlap(s) = Σ_k min(P(k | s), P(y_t=k | X)), two
states' laws of y_t differ by at most δ(s) + δ(s'), δ = 1 - overlap, in total variation, so τ_t is at most the sum of the
two largest δ.  Labels that have no arc at s are those of back(s) times one factor: min(c x, y) >= min(c, 1) min(x, y).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import inlined, jit
from seqboost.chain._numeric import SMALLEST
from seqboost.chain.histories import Graph
from seqboost.chain.mixing import IMPOSSIBLE
from seqboost.chain.reach import arc_reach, label_reach

__all__ = ["Sums", "Weights", "Work", "add_up", "flush_sums", "make_work", "reachable", "seen_posterior"]

SPREAD = 100.0
"""Largest spread of finite scores at a position for which products of probabilities hold, if some labels are forced."""

U = np.uint64


class Weights(NamedTuple):
    """Exponentials of the scores of a chain, divided by their largest."""

    arc: NDArray[np.float64]  # (A,) a(s,k)
    state: NDArray[np.float64]  # (S,) f(s)
    open: NDArray[np.float64]  # (K + 1, K) 1 where a label is allowed without an arc
    turned: NDArray[np.float64]  # (K, K) the same transposed, without the row of ⊥
    log_scale: float  # logarithm of what a was divided by


class Work(NamedTuple):
    """Memory of one thread."""

    unary: NDArray[np.float64]  # (longest, K) u_t
    total: NDArray[np.float64]  # (longest + 1, S) b_t
    rest: NDArray[np.float64]  # (longest, S) r_t
    states: NDArray[np.float64]  # (4, S)
    arcs: NDArray[np.float64]  # (2, A)
    nodes: NDArray[np.float64]  # (2, K)
    mean: NDArray[np.float64]  # (A + S,) of one sequence
    variance: NDArray[np.float64]  # (A + S,) of one sequence
    tau: NDArray[np.float64]  # (longest,)
    reach: NDArray[np.float64]  # (4, longest)


class Sums(NamedTuple):
    """Expectations of the parameters' indicators, added up over positions; empty arrays if they are not wanted."""

    weights: NDArray[np.float64]  # IN (n_sequences,) 0 = leave out
    mean: NDArray[np.float64]  # INOUT (A + S,) += weight * Σ_t p
    variance: NDArray[np.float64]  # INOUT (A + S,) += weight * factor * Σ_t p(1 - p)
    mixing: bool  # factor: 2 (m + 1) times the largest reach of a position's arcs in the sequence; else 1


def make_work(graph: Graph, n_labels: int, longest: int, *, sums: bool) -> Work:
    """Allocate the memory of one thread for sequences of up to ``longest`` positions."""
    n_states, n_arcs = len(graph.newest), len(graph.arc_label)
    n_summed = n_arcs + n_states if sums else 0
    return Work(
        np.empty((longest, n_labels)), np.empty((longest + 1, n_states)), np.empty((longest, n_states)),
        np.empty((4, n_states)), np.empty((2, n_arcs)), np.empty((2, n_labels)),
        np.zeros(n_summed), np.zeros(n_summed), np.empty(longest), np.empty((4, longest)),
    )  # fmt: skip


@inlined
def reachable(graph: Graph, t: int) -> tuple[int, int, int]:
    """Return n, begin, end: the states below n and those from begin to end can be reached at position t."""
    order = graph.level.size - 2
    n = graph.level[min(t, order) + 1]
    if t < order:
        return n, graph.start_level[t + 1], graph.start_level[t + 2]
    return n, graph.start_level[order + 1], graph.start_level[order + 1]


@jit
def exponentiate(
    scores: NDArray[np.float32],  # IN (K, N, 1)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,); -1 = any
    begin: int,
    stop: int,
    limit: float,
    unary: NDArray[np.float64],  # OUT (>= stop - begin, K)
) -> float:
    """Fill u_t of one sequence; return Σ max_t, -inf if nothing is possible, NaN if scores spread beyond ``limit``."""
    n_labels, log_total = scores.shape[0], 0.0
    for t in range(begin, stop):
        highest, lowest = -np.inf, np.inf
        for k in range(n_labels):
            score = np.float64(scores[k, t, 0])
            if t == stop - 1:
                score += end[k]
            if labels.size > 0 and labels[t] >= 0 and labels[t] != k:
                score = -np.inf
            unary[t - begin, k] = score
            highest = max(highest, score)
            lowest = score if -np.inf < score < lowest else lowest
        if highest == -np.inf:
            return -np.inf
        if highest - lowest > limit:
            return np.nan
        log_total += highest
        for k in range(n_labels):
            unary[t - begin, k] = np.exp(unary[t - begin, k] - highest)
    return log_total


@inlined
def _arc_values(
    graph: Graph,
    weights: Weights,
    t: int,
    unary: NDArray[np.float64],  # IN (K,) u_t
    following: NDArray[np.float64],  # IN (S,) b_{t+1}
    after: NDArray[np.float64],  # SCRATCH (S,) u_t b_{t+1}
    value: NDArray[np.float64],  # OUT (A,) v
) -> None:
    """Fill v at the arcs of the states that can be reached at t."""
    n, begin, end = reachable(graph, t + 1)
    for s in range(1, n):
        after[U(s)] = unary[U(graph.newest[U(s)])] * following[U(s)]
    for s in range(begin, end):
        after[U(s)] = unary[U(graph.newest[U(s)])] * following[U(s)]
    n, begin, end = reachable(graph, t)
    for a in range(graph.arc_start[n]):
        value[U(a)] = weights.arc[U(a)] * after[U(graph.arc_to[U(a)])]
    for a in range(graph.arc_start[begin], graph.arc_start[end]):
        value[U(a)] = weights.arc[U(a)] * after[U(graph.arc_to[U(a)])]


@inlined
def _rest_and_total(
    graph: Graph,
    weights: Weights,
    s: int,
    value: NDArray[np.float64],  # IN (A,) v
    rest: NDArray[np.float64],  # INOUT (S,) r_t
    total: NDArray[np.float64],  # OUT (S,) b_t
) -> None:
    """Fill r and b of a state of two or more symbols."""
    summed = 0.0
    for i in range(graph.rest_start[U(s)], graph.rest_start[U(s + 1)]):
        summed += value[U(graph.rest_arc[U(i)])]
    left = weights.state[U(s)] * (summed + rest[U(graph.backoff[U(s)])])
    rest[U(s)] = left
    for a in range(graph.arc_start[U(s)], graph.arc_start[U(s + 1)]):
        left += value[U(a)]
    total[U(s)] = left


@inlined
def _single_states(
    graph: Graph,
    weights: Weights,
    t: int,
    value: NDArray[np.float64],  # IN (A,) v
    rest: NDArray[np.float64],  # OUT (S,) r_t
    total: NDArray[np.float64],  # OUT (S,) b_t
) -> None:
    """Fill r and b of the states of one symbol: ⊥ at the first position, the labels after it."""
    n_labels = weights.turned.shape[0]
    rest[0], total[0] = 0.0, 0.0
    first, last = (1, n_labels + 1) if t > 0 else (graph.start_level[1], graph.start_level[1] + 1)
    if t > 0:
        for s in range(n_labels):
            rest[U(1 + s)] = 0.0
        for k in range(n_labels):
            v = value[U(k)]
            for s in range(n_labels):
                rest[U(1 + s)] += weights.turned[U(k), U(s)] * v
    else:
        summed = 0.0
        for k in range(n_labels):
            summed += weights.open[U(n_labels), U(k)] * value[U(k)]
        rest[U(first)] = summed
    for s in range(first, last):
        left = weights.state[U(s)] * rest[U(s)]
        rest[U(s)] = left
        for a in range(graph.arc_start[U(s)], graph.arc_start[U(s + 1)]):
            left += value[U(a)]
        total[U(s)] = left


@jit
def backward(graph: Graph, weights: Weights, n_positions: int, constrained: bool, work: Work) -> float:
    """Fill b and r of one sequence, divided by the largest b of a position; return the logarithm of b_0(⊥).

    -inf if nothing is possible, NaN if something that can be reached underflowed.
    """
    n_labels, n_states = weights.turned.shape[0], graph.newest.size
    after, value = work.states[0], work.arcs[0]
    for s in range(n_states):
        work.total[U(n_positions), U(s)] = 1.0
    log_total, product = weights.log_scale * n_positions, 1.0
    for t in range(n_positions - 1, -1, -1):
        rest, total = work.rest[t], work.total[t]
        _arc_values(graph, weights, t, work.unary[t], work.total[t + 1], after, value)
        _single_states(graph, weights, t, value, rest, total)
        n, begin, end = reachable(graph, t)
        for s in range(n_labels + 1, n):
            _rest_and_total(graph, weights, s, value, rest, total)
        for s in range(begin if t > 0 else end, end):
            _rest_and_total(graph, weights, s, value, rest, total)
        scale = 0.0
        for s in range(1, n):
            scale = max(scale, total[U(s)])
        for s in range(begin, end):
            scale = max(scale, total[U(s)])
        if scale <= 0.0:
            return np.nan if not constrained else -np.inf
        unit, lost = 1.0 / scale, False
        for part in range(2):
            for s in range(1 if part == 0 else begin, n if part == 0 else end):
                total[U(s)] *= unit
                rest[U(s)] *= unit
                lost |= total[U(s)] < SMALLEST and (total[U(s)] > 0.0 or not constrained)
        for k in range(n_labels):
            work.unary[U(t), U(k)] *= unit  # so that v, computed again, is of the scale of b_t and r_t
        if lost:
            return np.nan
        product *= scale
        if product < 1e-100 or product > 1e100:
            log_total += np.log(product)
            product = 1.0
    opening = work.total[0, graph.start_level[1]]
    return log_total + np.log(product) + np.log(opening) if opening > 0.0 else -np.inf


@inlined
def _hand_down(
    graph: Graph,
    weights: Weights,
    s: int,
    down: NDArray[np.float64],  # INOUT (S,) d
    flow: NDArray[np.float64],  # INOUT (A,)
) -> None:
    """Pass what meets no arc at s on to back(s)."""
    passed = weights.state[U(s)] * down[U(s)]
    if passed > 0.0:
        down[U(graph.backoff[U(s)])] += passed
        for i in range(graph.rest_start[U(s)], graph.rest_start[U(s + 1)]):
            flow[U(graph.rest_arc[U(i)])] += passed


@inlined
def _arc_flows(
    graph: Graph,
    weights: Weights,
    t: int,
    now: NDArray[np.float64],  # IN (S,) g_t
    total: NDArray[np.float64],  # IN (S,) b_t
    down: NDArray[np.float64],  # OUT (S,) d
    flow: NDArray[np.float64],  # OUT (A,) p / v
) -> None:
    """Fill d and p / v of the states that can be reached at t and of their arcs."""
    n_labels = weights.turned.shape[0]
    n, begin, end = reachable(graph, t)
    for k in range(n_labels):
        flow[U(k)] = 0.0
    for part in range(2):
        for s in range(1 if part == 0 else begin, n if part == 0 else end):
            h = now[U(s)] / total[U(s)] if now[U(s)] > 0.0 else 0.0
            down[U(s)] = h
            for a in range(graph.arc_start[U(s)], graph.arc_start[U(s + 1)]):
                flow[U(a)] = h
    for s in range(end - 1, begin - 1 if t > 0 else end - 1, -1):
        _hand_down(graph, weights, s, down, flow)
    for s in range(n - 1, n_labels, -1):
        _hand_down(graph, weights, s, down, flow)
    first, last = (1, n_labels + 1) if t > 0 else (begin, end)
    for s in range(first, last):
        passed, row = weights.state[U(s)] * down[U(s)], s - 1 if t > 0 else n_labels
        if passed > 0.0:
            for k in range(n_labels):
                flow[U(k)] += weights.open[U(row), U(k)] * passed


@inlined
def _contraction(
    graph: Graph,
    weights: Weights,
    t: int,
    node: NDArray[np.float64],  # IN (K,) P(y_t = k | X)
    now: NDArray[np.float64],  # IN (S,) g_t
    total: NDArray[np.float64],  # IN (S,) b_t
    value: NDArray[np.float64],  # IN (A,) v, of the scale of b_t
    shared: NDArray[np.float64],  # SCRATCH (S,) overlap of labels without arcs
) -> float:
    """Return an upper bound of the total variation between the laws of y_t from two states."""
    n_labels = weights.turned.shape[0]
    n, begin, end = reachable(graph, t)
    if t == 0:
        return 0.0
    for s in range(n_labels):
        shared[U(1 + s)] = 0.0
    for k in range(n_labels):
        v, y = value[U(k)], node[U(k)]
        for s in range(n_labels):
            b = total[U(1 + s)]
            x = weights.state[U(1 + s)] * v / b if b > 0.0 else 0.0
            shared[U(1 + s)] += weights.turned[U(k), U(s)] * min(x, y)
    largest, second = 0.0, 0.0
    for part in range(2):
        for s in range(1 if part == 0 else begin, n if part == 0 else end):
            unit = 1.0 / total[U(s)] if total[U(s)] > 0.0 else 0.0
            if s > n_labels:
                back, scale, summed = graph.backoff[U(s)], weights.state[U(s)] * unit, 0.0
                for i in range(graph.rest_start[U(s)], graph.rest_start[U(s + 1)]):
                    a = graph.rest_arc[U(i)]
                    summed += min(scale * value[U(a)], node[U(graph.arc_label[U(a)])])
                shared[U(s)] = summed + min(scale * total[U(back)], 1.0) * shared[U(back)]
            overlap = shared[U(s)]
            for a in range(graph.arc_start[U(s)], graph.arc_start[U(s + 1)]):
                overlap += min(unit * value[U(a)], node[U(graph.arc_label[U(a)])])
            if now[U(s)] > IMPOSSIBLE:
                apart = 1.0 - overlap
                second = max(second, min(largest, apart))
                largest = max(largest, apart)
    return min(largest + second, 1.0)


@jit
def add_up(
    graph: Graph,
    t: int,
    prob: NDArray[np.float64],  # INOUT (A,) p in, with that of all children out
    unseen: NDArray[np.float64],  # IN (S,) P(y_t has no arc at the end s of the history)
    mean: NDArray[np.float64],  # INOUT (A + S,)
    variance: NDArray[np.float64],  # INOUT (A + S,)
) -> None:
    """Add a position's expectations of all parameters, and their p(1 - p)."""
    n_arcs = graph.arc_label.size
    n, begin, end = reachable(graph, t)
    for part in range(2):
        first = graph.arc_start[begin] if part == 0 else graph.arc_start[1]
        last = graph.arc_start[end] if part == 0 else graph.arc_start[n]
        for a in range(last - 1, first - 1, -1):
            prob[U(graph.arc_parent[U(a)])] += prob[U(a)]
    for part in range(2):
        first, last = (graph.arc_start[begin], graph.arc_start[end]) if part == 0 else (0, graph.arc_start[n])
        for a in range(first, last):
            p = prob[U(a)]
            mean[U(a)] += p
            variance[U(a)] += p * max(1.0 - p, 0.0)
        first, last = (begin, end) if part == 0 else (1, n)
        for s in range(first, last):
            p = unseen[U(s)]
            mean[U(n_arcs + s)] += p
            variance[U(n_arcs + s)] += p * max(1.0 - p, 0.0)


@jit
def forward(
    graph: Graph,
    weights: Weights,
    row: int,
    n_positions: int,
    wants: tuple[bool, bool],  # contraction coefficients, sums
    work: Work,
    marginals: NDArray[np.float32],  # OUT (K, N, 1)
) -> None:
    """Fill node marginals of one sequence, which begins at ``row``; work.tau and the sums of the sequence if wanted."""
    n_labels, n_states = weights.turned.shape[0], graph.newest.size
    now, following, down, spare = work.states[0], work.states[1], work.states[2], work.states[3]
    value, prob, node = work.arcs[0], work.arcs[1], work.nodes[0]
    for s in range(n_states):
        now[U(s)] = 0.0
    now[graph.start_level[1]] = 1.0
    for t in range(n_positions):
        total, rest = work.total[t], work.rest[t]
        _arc_values(graph, weights, t, work.unary[t], work.total[t + 1], spare, value)
        _arc_flows(graph, weights, t, now, total, down, prob)
        n, begin, end = reachable(graph, t)
        for s in range(n_states):
            following[U(s)] = 0.0
        for part in range(2):
            first, last = (graph.arc_start[begin], graph.arc_start[end]) if part == 0 else (0, graph.arc_start[n])
            for a in range(first, last):
                p = prob[U(a)] * value[U(a)]
                prob[U(a)] = p
                following[U(graph.arc_to[U(a)])] += p
        summed = 0.0
        for k in range(n_labels):
            node[U(k)] = 0.0
        for s in range(1, n_states):
            node[U(graph.newest[U(s)] % n_labels)] += following[U(s)]
            summed += following[U(s)]
        unit = 1.0 / summed if summed > 0.0 else 0.0
        for k in range(n_labels):
            marginals[U(k), U(row + t), 0] = np.float32(node[U(k)])
        if wants[0]:
            work.tau[t] = _contraction(graph, weights, t, node, now, total, value, spare)
        if wants[1]:
            for part in range(2):
                for s in range(begin if part == 0 else 1, end if part == 0 else n):
                    down[U(s)] *= rest[U(s)]
            add_up(graph, t, prob, down, work.mean, work.variance)
        for s in range(n_states):
            now[U(s)] = following[U(s)] * unit


@inlined
def flush_sums(s: int, order: int, n_positions: int, sums: Sums, work: Work) -> None:
    """Add the sums of sequence s, with their weight, to those of the chunk."""
    factor = sums.weights[s]
    if sums.mixing:
        factor *= 2.0 * (order + 1) * arc_reach(n_positions, order, work.reach)
    for i in range(sums.mean.size):
        sums.mean[U(i)] += sums.weights[s] * work.mean[U(i)]
        sums.variance[U(i)] += factor * work.variance[U(i)]
        work.mean[U(i)], work.variance[U(i)] = 0.0, 0.0


@jit
def seen_posterior(
    graph: Graph,
    weights: Weights,
    constrained: bool,
    scores: NDArray[np.float32],  # IN (K, N, 1)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,); -1 = any
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    runs: tuple[int, int],  # first, last sequence
    work: Work,
    marginals: NDArray[np.float32],  # OUT (K, N, 1)
    log_z: NDArray[np.float64],  # OUT (n_sequences,) NaN: do it in log space
    reach: NDArray[np.float32],  # OUT (2, N) R_t and L_t, or (2, 0)
    sums: Sums,
) -> None:
    """Forward-backward of the sequences first:last."""
    order = graph.level.size - 2
    limit = SPREAD if constrained else np.inf  # without constraint nothing hangs on a label that is out of the question
    for s in range(runs[0], runs[1]):
        begin, n_positions = offsets[s], offsets[s + 1] - offsets[s]
        summing = sums.mean.size > 0 and sums.weights[s] > 0.0
        log_total = exponentiate(scores, end, labels, begin, offsets[s + 1], limit, work.unary)
        if log_total > -np.inf:
            log_total += backward(graph, weights, n_positions, constrained, work)
        log_z[s] = log_total
        if not log_total > -np.inf:
            for k in range(scores.shape[0]):
                for t in range(begin, begin + n_positions):
                    marginals[k, t, 0] = 0.0
            for i in range(begin, begin + n_positions if reach.size > 0 else begin):
                reach[0, i], reach[1, i] = 0.0, 0.0
            continue
        forward(graph, weights, begin, n_positions, (reach.size > 0, summing), work, marginals)
        if reach.size > 0:
            label_reach(work.tau, n_positions, order, work.reach)
            for t in range(n_positions):
                reach[0, begin + t], reach[1, begin + t] = work.reach[0, t], work.reach[1, t]
        if summing:
            flush_sums(s, order, n_positions, sums, work)
