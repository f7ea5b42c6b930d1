"""The log-likelihood of chains of seen contexts, and its derivatives by scores and by arcs.

Letters as in :mod:`seqboost.chain.backoff.automaton` and ``likelihood``.  The table is the vector of all θ, then all β.
θ(s,k) adds to the score of every position whose history ends with s and whose label is k (and has an arc there), β(s)
to that of every position whose history ends with s and whose label has no arc there; so with n their number of times,

    ∂L/∂θ(s,k) = Σ w (n_observed − E[n | X])          likewise β

At one position one parameter of each of the m + 1 lengths of s counts at most, whence the curvature
(:mod:`seqboost.chain.backoff.contraction`)

    labels 2 γ_t p(1 − p)          parameters Σ_t 2 (m + 1) γ_t p_t(1 − p_t), p_t the probability that it counts at t

where γ_t of the parameters is replaced by its largest value in the sequence.

β(s) stands for all N(s) labels without an arc at s. It moves as they would if each had a parameter of its own, shrunk
by a λ of its own: by G / (H + N λ), which is what G / N and H / N give. (On NETtalk, order 1, this takes the held-out
log-likelihood from -1.14 to -1.09; training labels hardly ever pay β, so that unshrunk it falls too far.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import (
    SeenContexts,
    SeenPotentials,
    Sums,
    seen_chunks,
    seen_counts,
    seen_posterior_chunk,
    seen_steps,
)
from seqboost.core.contexts import row_types
from seqboost.objectives import checks
from seqboost.objectives.cells import add_observed, subtract_expected
from seqboost.objectives.curvature import COUNT, MIXING
from seqboost.objectives.forbidden import raise_if_forbidden
from seqboost.objectives.likelihood import Likelihood

__all__ = ["SeenLikelihood"]


class SeenLikelihood(Likelihood):
    """Log-likelihood of the observed labels under a chain of seen contexts.

    Buffers are allocated once: what ``derivatives`` returns is overwritten by its next call.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        Label codes, all observed.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    contexts : SeenContexts
        States and arcs of the chain.
    sequence_weights, curvature, end, classes
        As of :class:`Likelihood`.

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 1], np.int32), np.array([0, 2, 3])
    >>> contexts = SeenContexts.from_labels(labels, offsets, n_labels=2, order=2)
    >>> objective = SeenLikelihood(labels, offsets, contexts)
    >>> found = objective.derivatives(np.zeros((2, 3, 1), np.float32), np.zeros(contexts.n_parameters))
    >>> found.log_likelihood.round(3)
    array([-1.386, -0.693])
    >>> found.table_gradient.shape == (contexts.n_parameters,)
    True
    """

    def __init__(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        contexts: SeenContexts,
        *,
        sequence_weights: NDArray[np.float64] | None = None,
        curvature: str = "mixing",
        end: NDArray[np.float64] | None = None,
        classes: Sequence[object] | None = None,
    ) -> None:
        self._contexts = contexts
        # To the base class this is a chain without a table (order 0); arcs take its place here.
        super().__init__(
            labels, offsets, n_labels=contexts.n_labels, order=0, joint=False, sequence_weights=sequence_weights,
            curvature=curvature, end=end, classes=classes,
        )  # fmt: skip
        checks.check_observed(self._labels, self._offsets, "contexts='seen'", "use contexts='all'")
        self.has_table = True
        self._chunks = seen_chunks(self._offsets)
        self._sums = np.empty((2, len(self._chunks), contexts.n_parameters))
        self._path_arc, self._path_state = seen_steps(contexts, self._labels, self._offsets)
        self._observed = seen_counts(contexts, (self._path_arc, self._path_state), self._row_weights)
        self._table_count = self._possible_positions()
        n_without = contexts.n_labels - np.diff(contexts.arc_start)
        self._shares = np.append(np.ones(contexts.n_arcs), 1.0 / np.maximum(n_without, 1))  # 1 / N(s) of β

    def _possible_positions(self) -> NDArray[np.float64]:
        """Return Σ w over the positions at which each parameter's state is possible, for the curvature "count"."""
        contexts, graph, order = self._contexts, self._contexts.graph, self._contexts.order
        at = np.bincount(row_types(self._offsets, order), weights=self._row_weights, minlength=order + 1)
        from_on = np.cumsum(at[::-1])[::-1]
        per_state = np.zeros(contexts.n_states)
        for j in range(order + 1):
            per_state[graph.level[j] : graph.level[j + 1]] = from_on[j]
            per_state[graph.start_level[j] : graph.start_level[j + 1]] = at[j - 1]
        return np.concatenate([np.repeat(per_state, np.diff(contexts.arc_start)), per_state])

    def _potentials(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> SeenPotentials:  # type: ignore[override]
        self._check_shape(scores)
        return SeenPotentials(scores, table, self._offsets, self._contexts, self._end)

    def _differentiate(self, potentials: SeenPotentials, chunk: int, first: int, last: int) -> None:  # type: ignore[override]
        """Fill the rows of one chunk of sequences: forward-backward, then cell by cell."""
        mixing = self._curvature == MIXING
        mean, variance = self._sums[0, chunk], self._sums[1, chunk]
        mean[:], variance[:] = 0.0, 0.0
        seen_posterior_chunk(
            potentials, first, last, self._gradient, self._log_z, reach=self._reach if mixing else None,
            sums=Sums(self._weights, mean, variance, mixing),
        )  # fmt: skip
        rows = slice(self._offsets[first], self._offsets[last])
        self._keep_predictions(int(rows.start), int(rows.stop))
        right, left = self._reach
        setting = (rows.start, rows.stop, self._curvature)
        subtract_expected(self._gradient, self._hessian, self._row_weights, right, left, self._best, setting)
        add_observed(
            self._gradient, self._clamped.marginals, self._clamped.start, self._labels, self._slot, self._offsets,
            self._weights, self._best, self._n_correct, (first, last),
        )  # fmt: skip
        self._score_paths(potentials, first, last)

    def _evaluate(self, potentials: SeenPotentials, first: int, last: int) -> None:  # type: ignore[override]
        """Fill log Z and the path scores of one chunk of sequences."""
        seen_posterior_chunk(potentials, first, last, None, self._log_z)
        self._score_paths(potentials, first, last)

    def _score_paths(self, p: SeenPotentials, first: int, last: int) -> None:  # type: ignore[override]
        starts, stops = self._offsets[first:last], self._offsets[first + 1 : last + 1]
        rows = slice(starts[0], stops[-1])
        arcs = self._path_arc[rows]
        score = np.where(arcs >= 0, p.arc_scores[arcs], -np.inf)
        score += p.scores.reshape(-1).take(self._score_cell[rows])
        score += p.state_scores[self._path_state[rows]].sum(axis=1)
        self._path_score[first:last] = np.add.reduceat(score, starts - starts[0]) + p.end[self._known[stops - 1]]

    def _table_derivatives(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Add up what the chunks left, in the order of chunks."""
        gradient = self._shares * (self._observed - self._sums[0].sum(axis=0))
        gradient[self._contexts.n_arcs] = 0.0  # β(ε) is never used
        if self._curvature == COUNT:
            return gradient, self._shares * self._table_count
        return gradient, self._shares * np.maximum(self._sums[1].sum(axis=0), 0.0)

    def _finish_log_likelihood(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # -inf - -inf: the check below explains it
            found = np.minimum(self._path_score - self._log_z, 0.0)
        if not np.all(np.isfinite(found)):
            raise_if_forbidden(self._labels, self._offsets, self._contexts.constraints(), 1, self._end, self._classes)
        return found
