"""Given labellings of back-off chains: the arcs they take, their scores, and how often parameters count along them.

Legend as in :mod:`seqboost.chain.backoff.automaton`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.automaton import Graph, SeenContexts, find_arc
from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.core.jit import jit

__all__ = ["seen_counts", "seen_path_scores", "seen_steps"]


def seen_path_scores(p: SeenPotentials, labels: NDArray[np.int32], first: int, last: int) -> NDArray[np.float64]:
    """Return the scores of given labelings of the sequences ``first:last``; -inf if one is forbidden."""
    begin, stop = int(p.offsets[first]), int(p.offsets[last])
    part, offsets = labels[begin:stop], p.offsets[first : last + 1] - begin
    arcs, states = seen_steps(p.contexts, part, offsets)
    score = np.where(arcs >= 0, p.arc_scores[arcs], -np.inf) + p.state_scores[states].sum(axis=1)
    score += p.scores[part, np.arange(begin, stop), 0]
    total: NDArray[np.float64] = np.add.reduceat(score, offsets[:-1]) + p.end[part[offsets[1:] - 1]]
    return total


def seen_steps(
    contexts: SeenContexts, labels: NDArray[np.int32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Follow labelled paths through the states.

    Returns
    -------
    arcs : int32 array (N,)
        The longest arc of each label, -1 if it is forbidden: its score holds those of all its ancestors.
    states : int32 array (N, m)
        The states at which the label has no arc, whose β it pays; ε (β = 0) elsewhere.
    """
    arcs, states = np.empty(len(labels), np.int32), np.empty((len(labels), contexts.order), np.int32)
    _trace_labels(contexts.graph, contexts.open, labels, offsets, arcs, states)
    return arcs, states


def seen_counts(
    contexts: SeenContexts, steps: tuple[NDArray[np.int32], NDArray[np.int32]], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how often each parameter counts along labelled paths, shape (A + S,).

    Parameters
    ----------
    contexts : SeenContexts
        States and arcs.
    steps : (int32 array (N,), int32 array (N, m))
        From :func:`seen_steps`.
    weights : float64 array (N,)
        Weights of positions.
    """
    arcs = np.bincount(np.maximum(steps[0], 0), weights=weights, minlength=contexts.n_arcs)
    parent = contexts.graph.arc_parent.tolist()
    for a in range(contexts.n_arcs - 1, contexts.n_labels - 1, -1):  # an arc counts for all its ancestors
        arcs[parent[a]] += arcs[a]
    states = np.zeros(contexts.n_states)
    for failed in steps[1].T:
        states += np.bincount(failed, weights=weights, minlength=contexts.n_states)
    states[0] = 0.0
    return np.concatenate([arcs, states])


@jit
def _trace_labels(
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
