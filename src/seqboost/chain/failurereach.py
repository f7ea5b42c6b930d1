"""How far a label reaches in a chain of seen contexts: contraction coefficients from the arcs alone.

Legend as in :mod:`seqboost.chain.failures`. P(k | s) = v / b_t along each state.  With
overlap(s) = Σ_k min(P(k | s), P(y_t=k | X)), two states' laws of y_t differ by at most δ(s) + δ(s'), δ = 1 - overlap,
in total variation, so τ_t is at most the sum of the two largest δ.  Labels that have no arc at s are those of back(s)
times one factor c, and min(c x, y) >= min(c, 1) min(x, y).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.failuresums import Weights, reachable
from seqboost.chain.histories import Graph
from seqboost.core.jit import inner

__all__ = ["NEGLIGIBLE", "contraction"]

NEGLIGIBLE = 1e-30
"""States with less posterior probability are left out: nothing measurable hangs on them."""

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
    arc_start: NDArray[np.int64],  # IN (S + 1,)
    arc_label: NDArray[np.int32],  # IN (A,)
    now: NDArray[np.float64],  # IN (S,) g_t
    total: NDArray[np.float64],  # IN (S,) b_t
    value: NDArray[np.float64],  # IN (A,) v
    node: NDArray[np.float64],  # IN (K,)
    shared: NDArray[np.float64],  # IN (S,)
    largest: float,
    second: float,
) -> tuple[float, float]:
    """Return the two largest δ so far."""
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
    largest, second = _apart(1, n, *arcs, now, total, value, node, shared, 0.0, 0.0)
    largest, second = _apart(begin, end, *arcs, now, total, value, node, shared, largest, second)
    return min(largest + second, 1.0)
