"""Contraction coefficients of the back-off chain from the arcs alone, and how far labels and arcs reach by them.

Legend as in :mod:`seqboost.chain.backoff.scaled`. P(k | s) = v / b_t along each state.  With
overlap(s) = Σ_k min(P(k | s), P(y_t=k | X)), two states' laws of y_t differ by at most δ(s) + δ(s'), δ = 1 - overlap,
in total variation, so τ_t is at most the sum of the two largest δ.  Labels that have no arc at s are those of back(s)
times one factor c, and min(c x, y) >= min(c, 1) min(x, y).

τ_t bounds the total variation between the laws of y_t from any two states at t, so two copies of the chain
that are coupled as well as can be have different labels at t with probability at most τ_t, and after m positions they
are still apart with at most κ_t = 1 − Π_{u=t+1}^{t+m} (1 − τ_u).

For X_t a function of what is seen at t, Cov(X_t, X_s) <= ρ_ts σ_t σ_s with ρ the maximal correlation, whose square is
at most Dobrushin's coefficient η of the law of what is seen at s given that at t < s (Polyanskiy and Wu 2017).  So

    Var Σ_t X_t <= Σ_t γ_t Var X_t,            γ_t = 1 + R_t + L_t,  R_t = Σ_{s>t} √η_ts,  L_t = Σ_{s<t} √η_st

Unlike row sums this needs no coefficients of the backward chain, whose states are not those of the forward one.  Labels
are apart at s with η <= τ_s if all before may be apart; what shares labels (arcs at most m apart) has η <= 1:

    labels    R_t = Σ_{s=t+1}^{t+m} √τ_s + √κ_t R_{t+m}         L_s = √τ_s (Q_{s-1} + .. + Q_{s-m})
    arcs      R_t = Σ_{s=t+1}^{t+m} 1    + √κ_t R_{t+m}         L_s =       Q_{s-1} + .. + Q_{s-m}

with Q_v = 1 + √κ_{v-m} Q_{v-m}, nothing beyond the ends of the sequence.

References
----------
Polyanskiy, Y. and Wu, Y. (2017). Strong data-processing inequalities for channels and Bayesian networks. In: Convexity
and Concentration. Springer. (η of χ² is at most Dobrushin's coefficient.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.automaton import Graph, reachable
from seqboost.chain.backoff.potentials import Weights
from seqboost.core.jit import inner, jit

__all__ = ["NEGLIGIBLE", "arc_reach", "contraction", "label_reach", "write_reach"]

NEGLIGIBLE = 1e-30
"""States with less posterior probability are left out; their effect is negligible."""

U = np.uint64


@inner
def _shared_of_labels(
    turned: NDArray[np.float64],  # IN (K, K) open, label-major
    weight: NDArray[np.float64],  # IN (S,) f
    total: NDArray[np.float64],  # IN (S,) b_t
    value: NDArray[np.float64],  # IN (A,) v
    node: NDArray[np.float64],  # IN (K,) P(y_t = k | X)
    scale: NDArray[np.float64],  # SCRATCH (K,)
    shared: NDArray[np.float64],  # OUT (S,) overlap of labels without arcs
) -> None:
    """Fill the overlap of labels that have no arc at the states of one label."""
    n_labels = turned.shape[0]
    of_labels = shared[1 : n_labels + 1]
    for s in range(n_labels):
        scale[s] = weight[1 + s] / total[1 + s] if total[1 + s] > 0.0 else 0.0
        of_labels[s] = 0.0
    for k in range(n_labels):
        v, y, row = value[U(k)], node[U(k)], turned[k]
        for s in range(n_labels):
            x = scale[U(s)] * v
            of_labels[U(s)] += row[U(s)] * (x if x < y else y)


@inner
def _shared(
    first: int,
    last: int,
    graph: tuple[
        NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]
    ],  # backoff, rest_start, rest_arc, arc_label
    weight: NDArray[np.float64],  # IN (S,) f
    total: NDArray[np.float64],  # IN (S,) b_t
    value: NDArray[np.float64],  # IN (A,) v
    node: NDArray[np.float64],  # IN (K,)
    shared: NDArray[np.float64],  # INOUT (S,)
) -> None:
    """Fill the overlap of labels that have no arc at states of two or more symbols, shorter ones first."""
    backoff, rest_start, rest_arc, arc_label = graph
    for s in range(first, last):
        back, summed = U(backoff[U(s)]), 0.0
        scale = weight[U(s)] / total[U(s)] if total[U(s)] > 0.0 else 0.0
        for i in range(rest_start[U(s)], rest_start[U(s + 1)]):
            a = U(rest_arc[U(i)])
            x, y = scale * value[a], node[U(arc_label[a])]
            summed += x if x < y else y
        shared[U(s)] = summed + min(scale * total[back], 1.0) * shared[back]


@inner
def _apart(
    first: int,
    last: int,
    arcs: tuple[NDArray[np.int64], NDArray[np.int32]],  # arc_start, arc_label
    now: NDArray[np.float64],  # IN (S,) g_t
    total: NDArray[np.float64],  # IN (S,) b_t
    value: NDArray[np.float64],  # IN (A,) v
    node: NDArray[np.float64],  # IN (K,)
    shared: NDArray[np.float64],  # IN (S,)
    so_far: tuple[float, float],
) -> tuple[float, float]:
    """Return the two largest δ so far."""
    arc_start, arc_label = arcs
    largest, second = so_far
    for s in range(first, last):
        if now[U(s)] > NEGLIGIBLE:
            overlap, unit = shared[U(s)], 1.0 / total[U(s)]
            for a in range(arc_start[U(s)], arc_start[U(s + 1)]):
                x, y = unit * value[U(a)], node[U(arc_label[U(a)])]
                overlap += x if x < y else y
            apart = 1.0 - overlap
            second = max(second, min(largest, apart))
            largest = max(largest, apart)
    return largest, second


@inner
def contraction(
    graph: Graph,
    weights: Weights,
    t: int,
    node: NDArray[np.float64],  # IN (K,) P(y_t = k | X)
    now: NDArray[np.float64],  # IN (S,) g_t
    total: NDArray[np.float64],  # IN (S,) b_t
    value: NDArray[np.float64],  # IN (A,) v
    scale: NDArray[np.float64],  # SCRATCH (K,)
    shared: NDArray[np.float64],  # SCRATCH (S,)
) -> float:
    """Return an upper bound of the total variation between the laws of y_t from two states."""
    if t == 0:
        return 0.0
    n_labels = weights.turned.shape[0]
    n, begin, end = reachable(graph.level, graph.start_level, t)
    _shared_of_labels(weights.turned, weights.state, total, value, node, scale, shared)
    structure = (graph.backoff, graph.rest_start, graph.rest_arc, graph.arc_label)
    _shared(n_labels + 1, n, structure, weights.state, total, value, node, shared)
    _shared(begin, end, structure, weights.state, total, value, node, shared)
    arcs = (graph.arc_start, graph.arc_label)
    largest, second = _apart(1, n, arcs, now, total, value, node, shared, (0.0, 0.0))
    largest, second = _apart(begin, end, arcs, now, total, value, node, shared, (largest, second))
    return min(largest + second, 1.0)


@jit
def label_reach(
    tau: NDArray[np.float64],  # IN (>= n,)
    n: int,
    order: int,
    reach: NDArray[np.float64],  # OUT (4, >= n) R_t and L_t of labels, √κ_t, Q_t
) -> None:
    """Fill the sums of one sequence of n positions."""
    for t in range(n - 1, -1, -1):
        near, meet = 0.0, 1.0
        for u in range(t + 1, min(t + order, n - 1) + 1):
            near += np.sqrt(tau[u])
            meet *= 1.0 - tau[u]
        reach[2, t] = np.sqrt(max(1.0 - meet, 0.0))
        reach[0, t] = near + (reach[2, t] * reach[0, t + order] if t + order < n else 0.0)
    for t in range(n):
        reach[3, t] = 1.0 + (reach[2, t - order] * reach[3, t - order] if t >= order else 0.0)
        near = 0.0
        for v in range(max(t - order, 0), t):
            near += reach[3, v]
        reach[1, t] = np.sqrt(tau[t]) * near


@jit
def arc_reach(
    n: int,
    order: int,
    reach: NDArray[np.float64],  # INOUT (4, >= n) from label_reach; the first row is used up
) -> float:
    """Return the largest γ_t of arcs in one sequence of n positions."""
    largest = 0.0
    for t in range(n - 1, -1, -1):
        right = float(min(order, n - 1 - t))
        if t + order < n:
            right += reach[2, t] * reach[0, t + order]
        reach[0, t] = right
        left = 0.0
        for v in range(max(t - order, 0), t):
            left += reach[3, v]
        largest = max(largest, 1.0 + right + left)
    return largest


@inner
def write_reach(
    tau: NDArray[np.float64],  # IN (>= n,)
    rows: tuple[int, int],  # begin, stop
    order: int,
    work: NDArray[np.float64],  # OUT (4, >= n) as of label_reach
    reach: NDArray[np.float32],  # OUT (2, N) R_t and L_t
) -> None:
    """Fill R_t and L_t of the labels of one sequence."""
    begin, stop = rows
    label_reach(tau, stop - begin, order, work)
    for t in range(stop - begin):
        reach[0, begin + t], reach[1, begin + t] = work[0, t], work[1, t]
