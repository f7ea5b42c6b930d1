"""Chains of seen contexts: their scores, and forward-backward and best labellings of a run of sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.failurelogs import seen_posterior_log, trace_labels, viterbi_seen
from seqboost.chain.failures import seen_posterior
from seqboost.chain.failuresums import Sums, Weights, make_work
from seqboost.chain.histories import SeenContexts
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.offsets import sequence_chunks

__all__ = [
    "SeenPotentials",
    "seen_chunks",
    "seen_counts",
    "seen_paths_chunk",
    "seen_posterior_chunk",
    "seen_steps",
]

CHUNK_POSITIONS, MAX_CHUNKS = 512, 64
"""A position costs as many steps as there are arcs, so chunks are short; each has sums, so their number is bounded."""

MAX_SPREAD = 150.0
"""Largest spread of transition scores for which products of probabilities are tried."""

NO_LABELS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class SeenPotentials:
    """Log-scores of a set of chains of seen contexts, F_t(s, k) = scores[k, t, 0] + T(s, k).

    Parameters
    ----------
    scores : float32 array (K, N, 1)
        Label-major scores; -inf = impossible.
    table : float64 array (A + S,)
        θ of arcs, then β of states (see :mod:`seqboost.chain.histories`).
    offsets : int64 array (n_sequences + 1,)
        Where sequences begin; none is empty.
    contexts : SeenContexts
        States and arcs.
    end : float64 array (K,), optional
        Score of closing a sequence with label k: 0, or -inf = forbidden.
    """

    scores: NDArray[np.float32]
    table: NDArray[np.float64]
    offsets: NDArray[np.int64]
    contexts: SeenContexts
    end: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Check shapes and types."""
        shape = (self.contexts.n_labels, int(self.offsets[-1]), 1)
        if self.scores.shape != shape or self.scores.dtype != np.float32 or not self.scores.flags.c_contiguous:
            raise ParameterError(
                f"scores must be a C-contiguous float32 array of shape {shape}, got {self.scores.dtype} of shape "
                f"{self.scores.shape}"
            )
        if self.table.shape != (self.contexts.n_parameters,) or not np.isfinite(self.table).all():
            raise ParameterError(
                f"table must hold {self.contexts.n_parameters} finite numbers (arcs, then states), got shape "
                f"{self.table.shape}"
            )
        if self.end.shape != (self.contexts.n_labels,):
            if self.end.size:
                raise ParameterError(f"end must have shape ({self.contexts.n_labels},), got {self.end.shape}")
            object.__setattr__(self, "end", np.zeros(self.contexts.n_labels))
        empty = np.flatnonzero(np.diff(self.offsets) <= 0)
        if self.offsets[0] != 0 or empty.size:
            where = f"sequence {empty[0]} is empty" if empty.size else f"they begin at {self.offsets[0]}"
            raise InputError(f"offsets must rise from 0, but {where}; drop empty sequences before scoring")

    @property
    def order(self) -> int:
        """Markov order m."""
        return self.contexts.order

    @property
    def n_labels(self) -> int:
        """K."""
        return self.contexts.n_labels

    @property
    def n_positions(self) -> int:
        """N."""
        return int(self.scores.shape[1])

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    @cached_property
    def arc_scores(self) -> NDArray[np.float64]:
        """T at arcs: θ of the arc and of all its ancestors, shape (A,)."""
        graph, theta = self.contexts.graph, self.table[: self.contexts.n_arcs]
        total = theta.copy()
        ends = np.append(graph.level[1:], graph.start_level[2:])  # states of one length after another
        for low, high in zip(graph.arc_start[ends[:-1]], graph.arc_start[ends[1:]], strict=True):
            total[low:high] += total[graph.arc_parent[low:high]]
        return total

    @property
    def state_scores(self) -> NDArray[np.float64]:
        """β, shape (S,)."""
        return self.table[self.contexts.n_arcs :]

    @cached_property
    def weights(self) -> Weights:
        """Exponentials of the scores; the first array is empty if their range is too wide for that."""
        arc, state, open_ = self.arc_scores, self.state_scores, self.contexts.open
        highest = float(arc.max())
        spread = highest - float(arc.min()) + self.order * float(np.abs(state).max())
        turned = np.ascontiguousarray(open_[:-1].T)
        prob = np.exp(arc - highest) if spread <= MAX_SPREAD else np.empty(0)
        return Weights(prob, np.exp(np.clip(state, -MAX_SPREAD, MAX_SPREAD)), open_, turned, highest)


def seen_chunks(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut the sequences into runs ``first, last``, by their lengths alone."""
    return sequence_chunks(offsets, max(CHUNK_POSITIONS, int(offsets[-1]) // MAX_CHUNKS))


def seen_posterior_chunk(
    potentials: SeenPotentials,
    first: int,
    last: int,
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
    reach: NDArray[np.float32] | None = None,
    sums: Sums | None = None,
) -> None:
    """Forward-backward of the sequences ``first:last``; safe to call from several threads on different chunks.

    Parameters
    ----------
    potentials : SeenPotentials
        The log-scores.
    first, last : int
        Range of sequences; only their rows of the outputs are written.
    marginals : float32 array (K, N, 1)
        OUT: P(y_t=k | X).
    log_z : float64 array (n_sequences,)
        OUT: -inf where no labelling is allowed (marginals are then 0).
    labels : int32 array (N,), optional
        Observed labels, -1 = unobserved: only labellings that agree with them count.
    reach : float32 array (2, N), optional
        OUT: R_t and L_t of labels (:mod:`seqboost.chain.reach`).
    sums : Sums, optional
        INOUT: expectations of the table's indicators; use one per chunk.  ``mixing`` needs ``reach``.
    """
    p, contexts = potentials, potentials.contexts
    observed = NO_LABELS if labels is None else labels
    reached = np.empty((2, 0), np.float32) if reach is None else reach
    summed = Sums(np.zeros(0), np.zeros(0), np.zeros(0), False) if sums is None else sums
    longest = int(np.diff(p.offsets[first : last + 1]).max())
    work = make_work(contexts.graph, p.n_labels, longest, sums=sums is not None)
    if p.weights.arc.size:
        seen_posterior(
            contexts.graph, p.weights, contexts.is_constrained, p.scores, p.end, observed, p.offsets, (first, last),
            work, marginals, log_z, reached, summed,
        )  # fmt: skip
    else:
        log_z[first:last] = np.nan
    for s in first + np.flatnonzero(np.isnan(log_z[first:last])):
        log_z[s] = seen_posterior_log(
            contexts.graph, p.arc_scores, p.state_scores, contexts.open, p.scores, p.end, observed, p.offsets, int(s),
            work, marginals, reached, summed,
        )  # fmt: skip


def seen_paths_chunk(
    potentials: SeenPotentials, first: int, last: int, path: NDArray[np.int32], path_score: NDArray[np.float64]
) -> None:
    """Fill the best labelling (N,) and its score (n_sequences,) of the sequences ``first:last``."""
    p, contexts = potentials, potentials.contexts
    longest = int(np.diff(p.offsets[first : last + 1]).max())
    choice = np.empty((longest, contexts.n_states), np.int32)
    viterbi_seen(
        contexts.graph, p.arc_scores, p.state_scores, contexts.open, p.scores, p.end, p.offsets, (first, last),
        choice, path, path_score,
    )  # fmt: skip


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
    trace_labels(contexts.graph, contexts.open, labels, offsets, arcs, states)
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
