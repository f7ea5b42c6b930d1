"""Log-scores of back-off chains, and their exponentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.automaton import Graph, SeenContexts
from seqboost.chain.potentials import NO_LABELS, LabelScores
from seqboost.core.exceptions import InputError, ParameterError

__all__ = ["BackoffLattice", "SeenPotentials", "Weights"]

MAX_SPREAD = 150.0
"""Largest spread of transition scores for which products of probabilities are tried."""


class BackoffLattice(NamedTuple):
    """A set of back-off chains as kernels read them."""

    graph: Graph
    arc_score: NDArray[np.float64]  # (A,) T
    state_score: NDArray[np.float64]  # (S,) β
    open: NDArray[np.float64]  # (K + 1, K) 1 where a label is allowed without an arc
    scores: NDArray[np.float32]  # (K, N, 1)
    end: NDArray[np.float64]  # (K,)
    offsets: NDArray[np.int64]  # (n_sequences + 1,)
    labels: NDArray[np.int32]  # (N,) observed labels, -1 = unobserved; or (0,): nothing is observed


class Weights(NamedTuple):
    """Exponentials of the scores of a chain, divided by their largest."""

    arc: NDArray[np.float64]  # (A,) a(s,k)
    state: NDArray[np.float64]  # (S,) f(s)
    open: NDArray[np.float64]  # (K + 1, K) 1 where a label is allowed without an arc
    turned: NDArray[np.float64]  # (K, K) the same transposed, without the row of ⊥
    log_scale: float  # logarithm of what a was divided by


@dataclass(frozen=True, eq=False)
class SeenPotentials(LabelScores):
    """Log-scores of a set of chains of seen contexts, F_t(s, k) = scores[k, t, 0] + T(s, k).

    Parameters
    ----------
    scores : float32 array (K, N, 1)
        Label-major scores; -inf = impossible.
    table : float64 array (A + S,)
        θ of arcs, then β of states (see :mod:`seqboost.chain.backoff.automaton`).
    offsets : int64 array (n_sequences + 1,)
        Where sequences begin; none is empty.
    contexts : SeenContexts
        States and arcs.
    end : float64 array (K,), optional
        Score of closing a sequence with label k: 0, or -inf = forbidden.
    """

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
        self._complete_end(self.end)
        empty = np.flatnonzero(np.diff(self.offsets) <= 0)
        if self.offsets[0] != 0 or empty.size:
            where = f"sequence {empty[0]} is empty" if empty.size else f"they begin at {self.offsets[0]}"
            raise InputError(f"offsets must rise from 0, but {where}; drop empty sequences before scoring")

    @property
    def order(self) -> int:
        """Markov order m."""
        return self.contexts.order

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

    def lattice(self, labels: NDArray[np.int32] | None = None) -> BackoffLattice:
        """Return the arrays as kernels read them, with observed labels if any."""
        return BackoffLattice(
            self.contexts.graph, self.arc_scores, self.state_scores, self.contexts.open, self.scores, self.end,
            self.offsets, NO_LABELS if labels is None else labels,
        )  # fmt: skip

    @cached_property
    def weights(self) -> Weights:
        """Exponentials of the scores; the first array is empty if their range is too wide for that."""
        arc, state, open_ = self.arc_scores, self.state_scores, self.contexts.open
        highest = float(arc.max())
        spread = highest - float(arc.min()) + self.order * float(np.abs(state).max())
        turned = np.ascontiguousarray(open_[:-1].T)
        prob = np.exp(arc - highest) if spread <= MAX_SPREAD else np.empty(0)
        return Weights(prob, np.exp(np.clip(state, -MAX_SPREAD, MAX_SPREAD)), open_, turned, highest)
