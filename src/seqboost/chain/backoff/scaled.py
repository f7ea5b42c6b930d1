"""Forward-backward of the back-off chain with scaled probabilities: sums over all labels of all states from the arcs.

Legend as in :mod:`seqboost.chain.backoff.automaton`; u_t(k) = exp(U_t(k) - max_t), a(s,k) = exp T(s,k) at an arc,
f(s) = exp β(s), to(s,k) the next state, b_{t+1} = 1 after the last position.

    v(s,k) = a(s,k) u_t(k) b_{t+1}(to(s,k))                                               at arcs
    r(s)   = f(s) [ Σ_{arcs of back(s) whose label has no arc at s} v + r(back(s)) ]      of labels without an arc at s
    b_t(s) = Σ_{arcs of s} v + r(s)                                                       log Z = log b_0(⊥)

because a label that has no arc at s goes to the same state, with the same score but for β, from s as from back(s).  At
a state of one symbol back(s) = ε and r(s) = f(s) Σ_k open(s,k) v(ε,k), which also keeps to the constraint: what is
forbidden after a label was not seen after any history that ends with it.  Forwards, with g_t(s) = P(s_t = s | X) and
h = g_t / b_t, the same sums turned round:

    d(s)   = h(s) + Σ_{r: back(r) = s} f(r) d(r)                          what meets a label that has no arc at s
    p(s,k) = v(s,k) [ h(s) + Σ_{r: back(r) = s, (r,k) no arc} f(r) d(r) ]        P(the longest arc of y_t is (s,k) | X)
    P(y_t has no arc at the end s of the history | X) = d(s) r(s)

Every sum is of terms >= 0: nothing cancels, whatever the scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import SMALLEST
from seqboost.chain.backoff.automaton import Graph, reachable
from seqboost.chain.backoff.contraction import NEGLIGIBLE, contraction, write_reach
from seqboost.chain.backoff.expectations import Sums, Work, add_up, flush_sums
from seqboost.chain.backoff.potentials import BackoffLattice, Weights
from seqboost.core.jit import inner, jit

__all__ = ["scaled_posterior"]

SPREAD = 100.0
"""Largest spread of finite scores at a position for which products of probabilities hold, if some labels are forced."""

U = np.uint64


@inner
def exponentiate(
    lattice: BackoffLattice,
    begin: int,
    stop: int,
    limit: float,
    unary: NDArray[np.float64],  # OUT (>= stop - begin, K)
) -> float:
    """Fill u_t of one sequence; return Σ max_t, -inf if nothing is possible, NaN if scores spread beyond ``limit``."""
    scores, end, labels = lattice.scores, lattice.end, lattice.labels
    n_labels, log_total = scores.shape[0], 0.0
    for t in range(begin, stop):
        highest, lowest = -np.inf, np.inf
        for k in range(n_labels):
            score = float(scores[k, t, 0])
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


@inner
def _after(
    first: int,
    last: int,
    newest: NDArray[np.int32],  # IN (S,)
    unary: NDArray[np.float64],  # IN (K,) u_t
    following: NDArray[np.float64],  # IN (S,) b_{t+1}
    after: NDArray[np.float64],  # OUT (S,) u_t b_{t+1}
) -> None:
    for s in range(first, last):
        after[U(s)] = unary[U(newest[U(s)])] * following[U(s)]


@inner
def _value(
    first: int,
    last: int,
    arc_to: NDArray[np.int32],  # IN (A,)
    weight: NDArray[np.float64],  # IN (A,) a
    after: NDArray[np.float64],  # IN (S,) u_t b_{t+1}
    value: NDArray[np.float64],  # OUT (A,) v
) -> None:
    for a in range(first, last):
        value[U(a)] = weight[U(a)] * after[U(arc_to[U(a)])]


@inner
def _arc_values(
    graph: Graph,
    weight: NDArray[np.float64],  # IN (A,) a
    t: int,
    unary: NDArray[np.float64],  # IN (K,) u_t
    following: NDArray[np.float64],  # IN (S,) b_{t+1}
    after: NDArray[np.float64],  # SCRATCH (S,)
    value: NDArray[np.float64],  # OUT (A,) v
) -> None:
    """Fill v at the arcs of the states that can be reached at t."""
    n, begin, end = reachable(graph.level, graph.start_level, t + 1)
    _after(1, n, graph.newest, unary, following, after)
    _after(begin, end, graph.newest, unary, following, after)
    n, begin, end = reachable(graph.level, graph.start_level, t)
    _value(0, graph.arc_start[n], graph.arc_to, weight, after, value)
    _value(graph.arc_start[begin], graph.arc_start[end], graph.arc_to, weight, after, value)


@inner
def _rests(
    first: int,
    last: int,
    backoff: NDArray[np.int32],  # IN (S,)
    rest_start: NDArray[np.int64],  # IN (S + 1,)
    rest_arc: NDArray[np.int32],
    weight: NDArray[np.float64],  # IN (S,) f
    value: NDArray[np.float64],  # IN (A,) v
    rest: NDArray[np.float64],  # INOUT (S,) r_t
) -> None:
    """Fill r of states of two or more symbols, shorter ones first."""
    for s in range(first, last):
        summed = rest[U(backoff[U(s)])]
        for i in range(rest_start[U(s)], rest_start[U(s + 1)]):
            summed += value[U(rest_arc[U(i)])]
        rest[U(s)] = weight[U(s)] * summed


@inner
def _rests_of_labels(
    turned: NDArray[np.float64],  # IN (K, K) open, label-major
    weight: NDArray[np.float64],  # IN (S,) f
    value: NDArray[np.float64],  # IN (A,) v
    rest: NDArray[np.float64],  # OUT (S,) r_t
) -> None:
    """Fill r of the states of one label."""
    n_labels = turned.shape[0]
    of_labels = rest[1 : n_labels + 1]
    for s in range(n_labels):
        of_labels[U(s)] = 0.0
    for k in range(n_labels):
        v, row = value[U(k)], turned[k]
        for s in range(n_labels):
            of_labels[U(s)] += row[U(s)] * v
    for s in range(n_labels):
        of_labels[U(s)] *= weight[U(1 + s)]


@inner
def _totals(
    first: int,
    last: int,
    arc_start: NDArray[np.int64],  # IN (S + 1,)
    value: NDArray[np.float64],  # IN (A,) v
    rest: NDArray[np.float64],  # IN (S,) r_t
    total: NDArray[np.float64],  # OUT (S,) b_t
) -> float:
    """Fill b; return the largest."""
    largest = 0.0
    for s in range(first, last):
        summed = rest[U(s)]
        for a in range(arc_start[U(s)], arc_start[U(s + 1)]):
            summed += value[U(a)]
        total[U(s)] = summed
        largest = max(largest, summed)
    return largest


@inner
def _rescale(
    first: int, last: int, unit: float, total: NDArray[np.float64], rest: NDArray[np.float64], smallest: float
) -> float:
    """Multiply b and r; return the smallest b > 0 seen so far."""
    for s in range(first, last):
        b = total[U(s)] * unit
        total[U(s)] = b
        rest[U(s)] *= unit
        smallest = b if 0.0 < b < smallest else smallest
    return smallest


@inner
def backward(graph: Graph, weights: Weights, n_positions: int, constrained: bool, work: Work) -> float:
    """Fill b and r of one sequence, divided by the largest b of a position; return the logarithm of b_0(⊥).

    -inf if nothing is possible, NaN if something that can be reached underflowed.
    """
    n_labels, start = weights.turned.shape[0], graph.start_level[1]
    work.total[n_positions, :] = 1.0
    log_total, product = weights.log_scale * n_positions, 1.0
    value = work.arcs[0]
    for t in range(n_positions - 1, -1, -1):
        rest, total, unary = work.rest[t], work.total[t], work.unary[t]
        _arc_values(graph, weights.arc, t, unary, work.total[t + 1], work.states[0], value)
        n, begin, end = reachable(graph.level, graph.start_level, t)
        if t > 0:
            _rests_of_labels(weights.turned, weights.state, value, rest)
            long_state = (graph.backoff, graph.rest_start, graph.rest_arc, weights.state)
            _rests(n_labels + 1, n, *long_state, value, rest)
            _rests(begin, end, *long_state, value, rest)
        else:
            rest[start] = weights.state[start] * np.dot(weights.open[n_labels], value[:n_labels])
        scale = _totals(begin, end, graph.arc_start, value, rest, total)
        scale = max(scale, _totals(1, n, graph.arc_start, value, rest, total))
        if scale <= 0.0:
            return -np.inf if constrained else np.nan
        smallest = _rescale(begin, end, 1.0 / scale, total, rest, 1.0)
        smallest = _rescale(1, n, 1.0 / scale, total, rest, smallest)
        for k in range(n_labels):
            unary[k] /= scale  # so that v, computed again, is of the scale of b_t and r_t
        if smallest < SMALLEST:
            return np.nan
        product *= scale
        if product < 1e-100 or product > 1e100:
            log_total += np.log(product)
            product = 1.0
    opening = work.total[0, start]
    return log_total + np.log(product) + np.log(opening) if opening > 0.0 else -np.inf


@inner
def _spread_out(
    first: int,
    last: int,
    arc_start: NDArray[np.int64],  # IN (S + 1,)
    now: NDArray[np.float64],  # IN (S,) g_t
    total: NDArray[np.float64],  # IN (S,) b_t
    down: NDArray[np.float64],  # OUT (S,) h
    flow: NDArray[np.float64],  # OUT (A,) h of the arc's state
) -> None:
    for s in range(first, last):
        h = now[U(s)] / total[U(s)] if now[U(s)] > NEGLIGIBLE else 0.0
        down[U(s)] = h
        for a in range(arc_start[U(s)], arc_start[U(s + 1)]):
            flow[U(a)] = h


@inner
def _hand_down(
    first: int,
    last: int,
    backoff: NDArray[np.int32],  # IN (S,)
    rest_start: NDArray[np.int64],  # IN (S + 1,)
    rest_arc: NDArray[np.int32],
    weight: NDArray[np.float64],  # IN (S,) f
    down: NDArray[np.float64],  # INOUT (S,) d
    flow: NDArray[np.float64],  # INOUT (A,)
) -> None:
    """Pass what meets no arc at states of two or more symbols on to shorter ones, longer ones first."""
    for s in range(last - 1, first - 1, -1):
        passed = weight[U(s)] * down[U(s)]
        if passed > 0.0:
            down[U(backoff[U(s)])] += passed
            for i in range(rest_start[U(s)], rest_start[U(s + 1)]):
                flow[U(rest_arc[U(i)])] += passed


@inner
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
    n, begin, end = reachable(graph.level, graph.start_level, t)
    _spread_out(1, n, graph.arc_start, now, total, down, flow)
    _spread_out(begin, end, graph.arc_start, now, total, down, flow)
    at_root = flow[:n_labels]
    at_root[:] = 0.0
    if t == 0:
        passed, row = weights.state[begin] * down[begin], weights.open[n_labels]
        for k in range(n_labels):
            at_root[U(k)] = row[U(k)] * passed
        return
    long_state = (graph.backoff, graph.rest_start, graph.rest_arc, weights.state)
    _hand_down(begin, end, *long_state, down, flow)
    _hand_down(n_labels + 1, n, *long_state, down, flow)
    for s in range(1, n_labels + 1):
        passed, row = weights.state[s] * down[s], weights.open[s - 1]
        if passed > 0.0:
            for k in range(n_labels):
                at_root[U(k)] += row[U(k)] * passed


@inner
def _move(
    first: int,
    last: int,
    arc_to: NDArray[np.int32],  # IN (A,)
    value: NDArray[np.float64],  # IN (A,) v
    prob: NDArray[np.float64],  # INOUT (A,) p / v in, p out
    following: NDArray[np.float64],  # INOUT (S,) g_{t+1}
) -> None:
    for a in range(first, last):
        p = prob[U(a)] * value[U(a)]
        prob[U(a)] = p
        following[U(arc_to[U(a)])] += p


@inner
def _nodes(
    newest: NDArray[np.int32],  # IN (S,)
    start: int,
    following: NDArray[np.float64],  # INOUT (S,) g_{t+1}, of sum 1 on the way out
    node: NDArray[np.float64],  # OUT (K,) P(y_t = k | X)
) -> None:
    summed = 0.0
    node[:] = 0.0
    for s in range(1, newest.size):
        if s != start:
            node[U(newest[U(s)])] += following[U(s)]
            summed += following[U(s)]
    unit = 1.0 / summed if summed > 0.0 else 0.0
    for s in range(newest.size):
        following[U(s)] *= unit


@inner
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
    now, following, down, spare = work.states[0], work.states[1], work.states[2], work.states[3]
    value, prob, node = work.arcs[0], work.arcs[1], work.nodes[0]
    arc_start, start = graph.arc_start, graph.start_level[1]
    now[:] = 0.0
    now[start] = 1.0
    for t in range(n_positions):
        total, rest = work.total[t], work.rest[t]
        _arc_values(graph, weights.arc, t, work.unary[t], work.total[t + 1], spare, value)
        _arc_flows(graph, weights, t, now, total, down, prob)
        n, begin, end = reachable(graph.level, graph.start_level, t)
        following[:] = 0.0
        _move(arc_start[begin], arc_start[end], graph.arc_to, value, prob, following)
        _move(0, arc_start[n], graph.arc_to, value, prob, following)
        _nodes(graph.newest, start, following, node)
        for k in range(node.size):
            marginals[k, row + t, 0] = np.float32(node[k])
        if wants[0]:
            work.tau[t] = contraction(graph, weights, t, node, now, total, value, work.nodes[1], spare)
        if wants[1]:
            for s in range(1, n):
                down[U(s)] *= rest[U(s)]
            for s in range(begin, end):
                down[U(s)] *= rest[U(s)]
            add_up(graph, t, prob, down, work.mean, work.variance)
        now, following = following, now


@jit
def scaled_posterior(
    lattice: BackoffLattice,
    weights: Weights,
    constrained: bool,
    runs: tuple[int, int],  # first, last sequence
    work: Work,
    marginals: NDArray[np.float32],  # OUT (K, N, 1); or (0, 0, 0): log Z alone, by the backward pass alone
    log_z: NDArray[np.float64],  # OUT (n_sequences,) NaN: do it in log space
    reach: NDArray[np.float32],  # OUT (2, N) R_t and L_t, or (2, 0)
    sums: Sums,
) -> None:
    """Do forward-backward of the sequences first:last."""
    graph, offsets = lattice.graph, lattice.offsets
    order = graph.level.size - 2
    limit = SPREAD if constrained else np.inf  # without constraint a label of probability 0 changes nothing
    for s in range(runs[0], runs[1]):
        begin, n_positions = offsets[s], offsets[s + 1] - offsets[s]
        summing = sums.mean.size > 0 and sums.weights[s] > 0.0
        log_total = exponentiate(lattice, begin, offsets[s + 1], limit, work.unary)
        if log_total > -np.inf:
            log_total += backward(graph, weights, n_positions, constrained, work)
        log_z[s] = log_total
        if marginals.size == 0:
            continue
        if not log_total > -np.inf:
            for k in range(marginals.shape[0]):
                for t in range(begin, begin + n_positions):
                    marginals[k, t, 0] = 0.0
            for i in range(begin, begin + n_positions if reach.size > 0 else begin):
                reach[0, i], reach[1, i] = 0.0, 0.0
            continue
        forward(graph, weights, begin, n_positions, (reach.size > 0, summing), work, marginals)
        if reach.size > 0:
            write_reach(work.tau, (begin, begin + n_positions), order, work.reach, reach)
        if summing:
            flush_sums(s, order, n_positions, sums, work)
