"""The pseudo-log-likelihood of the observed labels, and its derivatives by the scores: no forward-backward.

    PL = Σ_sequences w · Σ_t log P(y_t | all other labels, X)

Letters as in ``likelihood``; S_t(j) is the local score of label j at t (``blankets``), and
p_t(j) = exp S_t(j) / Σ_i exp S_t(i) the law of y_t given the other labels. Of the N·C·K cells F_s(c,k) only few have a
part in PL: the cell (c_s, y_s) of the observed path, and those that differ from it in one place, y_s or one lag.

    gradient   ∂PL/∂F_s(c,k) = w Σ_{(t,j) : cell (s,c,k) is in S_t(j)} (I(j = y_t) − p_t(j))

A cell that differs from the path in one place is in S_t(j) of one t and one j; the cell of the path is in S_t(y_t) of
t = s−m .. s. In a factored model F_s(c,k) = U_s(k) + A(c,k). Of the laws that see U_s only that of s itself depends on
it, ∂PL/∂U_s(k) = w (I(k = y_s) − p_s(k)), and A has the gradients of its cells summed over positions.

Curvature
---------
Minus the second derivative is H = Σ_t w · Cov_{p_t}, the covariances of the indicators of cells under the laws. Under
p_t all cells of S_t(j) are on or off together: any two of them, of S_t(i) and S_t(j), have the covariance

    Cov = p_t(j) (I(i = j) − p_t(i))                 so on the diagonal, newton:  h = w Σ_(t,j) p_t(j) (1 − p_t(j))

Let n_t be the number of terms of S_t: m + 1, or fewer near the end of the sequence. Each cell of S_t(j) has covariances
with n_t cells of S_t(j), p(1 − p) each, and with n_t cells of every S_t(i), i ≠ j, − p_t(j) p_t(i) each, whose sum is
p(1 − p) times n_t again. So its absolute row sum is

    mixing     h = w Σ_(t,j) 2 n_t p_t(j) (1 − p_t(j))          = Σ_cells |H|

with equality, for nothing cancels: two cells that share more than one law are both on the path, where all covariances
are positive. As 2|δ_i δ_j H_ij| <= |H_ij| (δ_i² + δ_j²), no step δ finds more curvature than Σ h δ², so
steps G / H climb, as with the bound of ``curvature`` for the likelihood; but here no mixing rate comes in, for the laws
of different positions are apart once the labels are given: n_t <= m + 1 takes the place of γ_t. Scores U_s(k) of a
factored model have one term, n_t = 1. The table's bound is that of the cells (c,k) summed over positions: a step that
is the same at all positions is one of the steps that it covers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials
from seqboost.core.contexts import row_types
from seqboost.core.offsets import position_bounds, sequence_chunks
from seqboost.core.threads import run_tasks
from seqboost.objectives.blankets import find_blankets
from seqboost.objectives.cells import score_cells
from seqboost.objectives.chains import ChainObjective
from seqboost.objectives.conditionals import VALUES, Found, Sums, Targets, differentiate, fill_observed, nothing_found
from seqboost.objectives.curvature import COUNT, count_cells, count_table
from seqboost.objectives.derivatives import Derivatives

__all__ = ["PseudoLikelihood"]


class PseudoLikelihood(ChainObjective):
    """Log of the probabilities of the observed labels, each given all the others.

    The interface is that of :class:`~seqboost.objectives.Likelihood`, at a fraction of its cost: a law over K labels at
    each position instead of a sum over all labellings. Buffers are allocated once: what ``derivatives`` returns is
    overwritten by its next call. Cells without a part in the pseudo-likelihood are zeroed once and never again, so do
    not write to them.

    Parameters
    ----------
    labels, offsets, n_labels, order, joint, sequence_weights, end, classes
        As in :class:`~seqboost.objectives.Likelihood`; for unobserved labels see Notes.
    curvature : {"mixing", "newton", "count"}, default="mixing"
        What stands for the second derivative: its absolute row sums, which make steps safe, its diagonal, or the number
        of examples.

    Attributes
    ----------
    n_observed : ndarray of int64, shape (n_sequences,)
        Scored positions of each sequence: those whose own label and m labels to either side are observed.

    Notes
    -----
    **Unobserved labels** are not summed over, which would take the forward-backward pass that this objective is there
    to avoid. A position counts if its own label and those of its Markov blanket, m to either side, are observed. Others
    are left out: they have no part in the sum, in ``n_correct`` and in ``n_observed``.

    **Log-likelihoods** given here are pseudo-log-likelihoods, which are not comparable with those of ``Likelihood``. A
    label is correct if it is the best one between the true labels around it.

    References
    ----------
    Besag, J. (1977). Efficiency of pseudolikelihood estimation for simple Gaussian fields. Biometrika 64.

    Dietterich, T. G., Ashenfelter, A. and Bulatov, Y. (2004). Training conditional random fields via gradient tree
    boosting. ICML. (Section 3: the first rounds of boosting climb the pseudo-likelihood.)

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 1], np.int32), np.array([0, 2, 3])
    >>> objective = PseudoLikelihood(labels, offsets, n_labels=2, order=1, joint=True)
    >>> found = objective.derivatives(np.zeros((2, 3, 2), np.float32), np.zeros((3, 2)))
    >>> found.log_likelihood.round(3)
    array([-1.386, -0.693])
    >>> found.gradient[:, 1]                    # (0, 1) is observed: a half each from the laws of both positions
    array([[-0.5,  0. ],
           [ 1. , -0.5]], dtype=float32)
    """

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        self._blankets = find_blankets(self._labels, self._offsets, self._space, self._n_slots)
        self._first_scored = np.searchsorted(self._blankets.rows, self._offsets)
        self._set_up(weights, np.isin(np.arange(len(self._labels)), self._blankets.rows))
        self._chunks = sequence_chunks(self._offsets)
        self._allocate()

    def _allocate(self) -> None:
        """Make the buffers, and what stays the same from round to round."""
        space, n_positions = self._space, len(self._labels)
        self._found = nothing_found(n_positions)
        slot, extended = self._observed_path()
        known = np.maximum(self._labels, 0)
        self._path = score_cells(known, slot, self._n_slots)
        n_sums = 2 * space.n_extended * space.n_labels if self.has_table else 0
        self._means, self._variances = np.zeros((2, len(self._chunks), n_sums))
        if self._curvature == COUNT:
            context_type = row_types(self._offsets, space.order)
            touched = np.where(self._n_laws(space.order + 1) > 0, self._row_weights, 0.0)
            here = np.where(self._n_laws(1) > 0, self._row_weights, 0.0)
            count_cells(space, touched if self._n_slots > 1 else here, context_type, self._hessian)
            self._table_count = count_table(space, touched, context_type)
        if self.has_table:
            # Every law that sees row s holds the cell of the path there.
            self._observed = np.zeros((space.n_extended, space.n_labels))
            np.add.at(self._observed, (extended, known), self._row_weights * self._n_laws(space.order + 1))

    def _n_laws(self, n_terms: int) -> NDArray[np.int64]:
        """Count the scored positions among s − n_terms + 1 .. s of the same sequence, for each row s."""
        row, (begin, _) = np.arange(len(self._labels)), position_bounds(self._offsets)
        scored = np.zeros(len(row) + 1, dtype=np.int64)
        scored[self._blankets.rows + 1] = 1
        before = np.cumsum(scored)
        counts: NDArray[np.int64] = before[row + 1] - before[np.maximum(begin, row - n_terms + 1)]
        return counts

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Give gradient and curvature at these scores; see :meth:`ChainObjective.derivatives`."""
        sums = self._run(scores, table, self._found, self._curvature, n_threads)
        self._predict_watched(self._watched(scores, table), n_threads)
        return self._as_derivatives(
            sums.log_prob, sums.n_correct, self._table_derivatives() if self.has_table else (None, None)
        )

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Give Σ_t log P(y_t | all other labels, X) of each sequence, unweighted, without derivatives."""
        return self._run(scores, table, nothing_found(len(self._labels)), VALUES, n_threads).log_prob

    def _run(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], found: Found, curvature: int, n_threads: int
    ) -> Sums:
        """Work through all chunks; complain if labels are impossible."""
        potentials = self._potentials(scores, table)
        tables = np.concatenate([potentials.table.reshape(-1), potentials.table.T.reshape(-1)])
        n_sequences = len(self._offsets) - 1
        sums = Sums(np.empty(n_sequences), np.empty(n_sequences, dtype=np.int64))
        tasks = [(potentials, tables, found, sums, curvature, chunk) for chunk in range(len(self._chunks))]
        run_tasks(self._run_chunk, tasks, n_threads)
        if not np.all(np.isfinite(sums.log_prob)):
            self._raise_if_forbidden(table)
        return sums

    def _run_chunk(
        self, p: Potentials, tables: NDArray[np.float64], found: Found, sums: Sums, curvature: int, chunk: int
    ) -> None:
        """Fill the rows of one chunk of sequences."""
        first, last = self._chunks[chunk]
        means, variances = self._means[chunk], self._variances[chunk]
        if curvature != VALUES:
            means[:], variances[:] = 0.0, 0.0
        targets = Targets(self._gradient.reshape(-1), self._hessian.reshape(-1), means, variances)
        scored = (int(self._first_scored[first]), int(self._first_scored[last]), curvature)
        differentiate(p.scores.reshape(-1), tables, p.end, self._row_weights, self._blankets, found, targets, scored)
        setting = (first, last, len(self._blankets.score_steps), curvature)
        fill_observed(self._offsets, self._row_weights, self._path, found, targets, sums, setting)

    def _table_derivatives(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Add up what the chunks left, in the order of chunks."""
        gradient = self._observed - self._folded(self._means)
        if self._curvature == COUNT:
            return gradient, self._table_count.copy()
        return gradient, self._folded(self._variances)

    def _folded(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the sums of all chunks, those of the transposed table added to those of the table, (E, K)."""
        shape = (self._space.n_extended, self._space.n_labels)
        straight, turned = sums.sum(axis=0).reshape(2, -1)
        folded: NDArray[np.float64] = straight.reshape(shape) + turned.reshape(shape[::-1]).T
        return folded
