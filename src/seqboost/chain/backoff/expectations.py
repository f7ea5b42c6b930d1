"""Expected counts of the parameters of the back-off chain, summed over positions, and the memory of the passes.

Legend as in :mod:`seqboost.chain.backoff.scaled`. θ(s,k) counts whenever (s,k) is an arc of an end of the history, so
its expectation is P(the longest arc of y_t is (s,k) | X) plus that of all arcs whose parent it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.automaton import Graph, reachable
from seqboost.chain.backoff.contraction import arc_reach
from seqboost.core.jit import inner

__all__ = ["Sums", "Work", "add_up", "flush_sums", "make_work"]

U = np.uint64


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


@inner
def _gather(first: int, last: int, arc_parent: NDArray[np.int32], prob: NDArray[np.float64]) -> None:
    """Add the probabilities of arcs to those of their parents, longest histories first."""
    for a in range(last - 1, first - 1, -1):
        prob[U(arc_parent[U(a)])] += prob[U(a)]


@inner
def _add(
    first: int,
    last: int,
    prob: NDArray[np.float64],  # IN
    mean: NDArray[np.float64],  # INOUT += p
    variance: NDArray[np.float64],  # INOUT += p(1 - p)
) -> None:
    for i in range(first, last):
        p = prob[U(i)]
        mean[U(i)] += p
        variance[U(i)] += p * (1.0 - p)


@inner
def add_up(
    graph: Graph,
    t: int,
    prob: NDArray[np.float64],  # INOUT (A,) p in, with that of all children out
    unseen: NDArray[np.float64],  # IN (S,) P(y_t has no arc at the end s of the history)
    mean: NDArray[np.float64],  # INOUT (A + S,)
    variance: NDArray[np.float64],  # INOUT (A + S,)
) -> None:
    """Add a position's expectations of all parameters, and their p(1 - p)."""
    n_arcs, arc_start = graph.arc_label.size, graph.arc_start
    n, begin, end = reachable(graph.level, graph.start_level, t)
    _gather(arc_start[begin], arc_start[end], graph.arc_parent, prob)
    _gather(arc_start[1], arc_start[n], graph.arc_parent, prob)
    _add(arc_start[begin], arc_start[end], prob, mean, variance)
    _add(0, arc_start[n], prob, mean, variance)
    _add(begin, end, unseen, mean[n_arcs:], variance[n_arcs:])
    _add(1, n, unseen, mean[n_arcs:], variance[n_arcs:])


@inner
def _flush(factor: float, part: NDArray[np.float64], whole: NDArray[np.float64]) -> None:
    for i in range(whole.size):
        whole[U(i)] += factor * part[U(i)]
        part[U(i)] = 0.0


@inner
def flush_sums(s: int, order: int, n_positions: int, sums: Sums, work: Work) -> None:
    """Add the sums of sequence s, with their weight, to those of the chunk."""
    factor = sums.weights[s]
    if sums.mixing:
        factor *= 2.0 * (order + 1) * arc_reach(n_positions, order, work.reach)
    _flush(sums.weights[s], work.mean, sums.mean)
    _flush(factor, work.variance, sums.variance)
