"""The log-likelihood of labels one by one, each given the true labels before it: the objective of an MEMM.

    L = Σ_sequences w · Σ_t log P(y_t | c_t, X)        P(k | c, X) = exp S_t(c,k) / Σ_j exp S_t(c,j)

    S_t(c,k) = F_t(c,k) + A(c,k) − log v_k             letters as in ``likelihood``; c_t is the observed context

Every position is a choice among K labels of its own, so only the cells of observed contexts have derivatives:

    Δ_t(c_t,k) = w (I(k = y_t) − p_k)                  newton  h = w p_k (1 − p_k)
                                                       mixing  h = 2 w p_k (1 − p_k)      count  h = w

The Hessian of one choice has the entries p_k (I(k = j) − p_j), whose absolute row sums are 2 p_k (1 − p_k): steps by
that bound climb, whatever the other labels do. Choices at different positions are apart. In a factored model the table
has the same derivatives summed over the positions of each context.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from seqboost.exceptions import ParameterError
from seqboost.objectives import checks
from seqboost.objectives.chains import ChainObjective
from seqboost.objectives.curvature import COUNT, MIXING
from seqboost.objectives.derivatives import Derivatives
from seqboost.objectives.forbidden import raise_if_forbidden
from seqboost.objectives.paths import observed_contexts

__all__ = ["LocalLikelihood"]


class LocalLikelihood(ChainObjective):
    """Log-likelihood of each observed label given the true labels before it.

    Parameters as in :class:`~seqboost.objectives.Likelihood`; ``end`` plays no part. Cells of contexts that are not
    observed are zeroed once and never again, so do not write to them.

    Attributes
    ----------
    has_table : bool
        Whether ``derivatives`` gives those of the table: factored models with order >= 1 and K >= 2.
    n_observed : ndarray of int64, shape (n_sequences,)
        Scored positions of each sequence: those whose own label and m labels before are observed.

    Notes
    -----
    A position whose label or one of whose m labels before is unobserved is left out. ``n_correct`` counts labels that
    are best after the *true* labels before them, which is more than a labeller gets right that has to guess those.

    References
    ----------
    McCallum, A., Freitag, D. and Pereira, F. (2000). Maximum entropy Markov models for information extraction and
    segmentation. ICML.

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 1], np.int32), np.array([0, 2, 3])
    >>> objective = LocalLikelihood(labels, offsets, n_labels=2, order=1, joint=True)
    >>> found = objective.derivatives(np.zeros((2, 3, 2), np.float32), np.zeros((3, 2)))
    >>> found.log_likelihood.round(3)
    array([-1.386, -0.693])
    >>> found.gradient[:, 1]                    # after label 0 there is a 1
    array([[-0.5,  0. ],
           [ 0.5,  0. ]], dtype=float32)
    """

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        space, n_positions = self._space, len(self._labels)
        lengths = np.diff(self._offsets)
        slot, extended = observed_contexts(self._labels, self._offsets, space.n_labels, space.order)
        counted = self._labels >= 0
        position = np.arange(n_positions) - np.repeat(self._offsets[:-1], lengths)
        for lag in range(1, space.order + 1):
            exists = np.flatnonzero(position >= lag)
            counted[exists] &= self._labels[exists - lag] >= 0
        self.n_observed: NDArray[np.int64] = np.add.reduceat(counted, self._offsets[:-1], dtype=np.int64)
        self._weights = np.where(self.n_observed > 0, weights, 0.0)
        self._rows = np.flatnonzero(counted)
        self._sequence = np.repeat(np.arange(len(lengths)), lengths)[self._rows]
        self._slot = slot[self._rows] if self._n_slots > 1 else np.zeros(len(self._rows), dtype=np.int32)
        self._extended, self._known = extended[self._rows], self._labels[self._rows]
        self._row_weights = self._weights[self._sequence]
        shape = (space.n_labels, n_positions, self._n_slots)
        self._gradient, self._hessian = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Give gradient and curvature at these scores.

        Parameters
        ----------
        scores : ndarray of float32, shape (K, N, C)
            Scores of the trees.
        table : ndarray of float64, shape (E, K)
            Baseline or transition scores, -inf = forbidden.
        n_threads : int, default=1
            Plays no part.

        Returns
        -------
        Derivatives

        Raises
        ------
        InputError
            If the labels of a sequence break a forbidden transition.
        """
        log_p = self._log_p(scores, table)
        p = np.exp(log_p)
        own = np.arange(len(p)), self._known
        gradient = -self._row_weights[:, None] * p
        gradient[own] += self._row_weights
        if self._curvature == COUNT:
            hessian = np.broadcast_to(self._row_weights[:, None], p.shape)
        else:
            hessian = (2.0 if self._curvature == MIXING else 1.0) * self._row_weights[:, None] * p * (1.0 - p)
        self._gradient[:, self._rows, self._slot] = gradient.T
        self._hessian[:, self._rows, self._slot] = hessian.T
        correct = log_p.argmax(axis=1) == self._known
        largest = float(self._weights.max(initial=0.0)) * checks.ROUNDING
        return Derivatives(
            gradient=self._gradient,
            hessian=self._hessian,
            table_gradient=self._by_context(gradient),
            table_hessian=self._by_context(hessian),
            log_likelihood=self._by_sequence(log_p[own]),
            n_correct=self._by_sequence(correct).astype(np.int64),
            n_observed=self.n_observed,
            gradient_bound=largest,
            hessian_bound=largest if self._curvature == COUNT else 0.5 * largest,
            caution=1.0,
        )

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Give Σ_t log P(y_t | c_t, X) of each sequence, unweighted, without derivatives.

        Leaves what ``derivatives`` returned untouched.

        Parameters
        ----------
        scores, table, n_threads
            As in ``derivatives``.

        Returns
        -------
        ndarray of float64, shape (n_sequences,)
        """
        log_p = self._log_p(scores, table)
        return self._by_sequence(log_p[np.arange(len(log_p)), self._known])

    def observed_scores(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return S_t(c_t, k) of the scored positions, (n_scored, K), up to a constant of each row."""
        cells = scores[:, self._rows, self._slot].T.astype(np.float64)
        of_context = (table + self._offset)[self._extended]
        # What is forbidden stays so, whatever was added to its score.
        return np.where(np.isneginf(of_context), -np.inf, cells + of_context)

    @property
    def scored_rows(self) -> NDArray[np.intp]:
        """The positions that are scored."""
        return self._rows

    def _log_p(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log P(k | c_t, X) of the scored positions; complain if labels are impossible."""
        if scores.shape != self._gradient.shape:
            raise ParameterError(f"scores must have shape {self._gradient.shape}, got {scores.shape}")
        log_p: NDArray[np.float64] = log_softmax(self.observed_scores(scores, table), axis=1)
        if not np.all(np.isfinite(log_p[np.arange(len(log_p)), self._known])):
            raise_if_forbidden(self._labels, self._offsets, table, self._space.order, self._end, self._classes)
        return log_p

    def _by_sequence(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        sums: NDArray[np.float64] = np.zeros(len(self._offsets) - 1)
        np.add.at(sums, self._sequence, values)
        return sums

    def _by_context(self, values: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Sum rows of (n_scored, K) by extended context; None for models without a table to learn."""
        if not self.has_table:
            return None
        sums = np.zeros((self._space.n_extended, self._space.n_labels))
        np.add.at(sums, self._extended, values)
        return sums
