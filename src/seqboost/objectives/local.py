"""The log-likelihood of a chain that is normalised at each position (MEMM), and its derivatives: no forward-backward.

    L = Σ_sequences w · Σ_t log p_t(y_t)          p_t(k) = exp S_t(k) / Σ_j exp S_t(j),   S_t(k) = F_t(c_t, k)

with the observed context c_t. Letters as in ``likelihood``. Only the cells (c_t, k) of the observed contexts have a
part in L, so a position is one example, whatever the number of contexts:

    gradient   ∂L/∂F_t(c_t, k) = w (I(y_t = k) − p_t(k))

In a factored model F_t(c,k) = U_t(k) + A(c,k), and A has the gradients of its cells summed over positions.

Curvature
---------
Positions do not see each other; minus the second derivative by two cells of one position is w·p(k)(I(j = k) − p(j)), so

    newton   h = w p(1 − p)            the diagonal
    mixing   h = w 2p(1 − p)           absolute row sums: p(1 − p) + Σ_{j≠k} p(k) p(j) = 2 p(1 − p)
    count    h = w                     at all labels of the observed context

As 2|δ_i δ_j H_ij| <= |H_ij| (δ_i² + δ_j²), no step finds more curvature than that of "mixing": G / H climbs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import locally_normalised
from seqboost.core.contexts import observed_contexts
from seqboost.core.jit import jit
from seqboost.core.offsets import sequence_chunks
from seqboost.core.threads import run_tasks
from seqboost.objectives.chains import ChainObjective
from seqboost.objectives.curvature import COUNT, MIXING
from seqboost.objectives.derivatives import Derivatives

__all__ = ["LocalLikelihood"]

VALUES = -1  # in place of a curvature: no derivatives


class LocalLikelihood(ChainObjective):
    """Log of the probabilities of the observed labels, each given the labels before it.

    The interface is that of :class:`~seqboost.objectives.Likelihood`. Buffers are allocated once: what ``derivatives``
    returns is overwritten by its next call. Cells of contexts that are not observed are zeroed once and never again.

    Parameters
    ----------
    labels, offsets, n_labels, order, joint, sequence_weights, curvature, classes
        As in :class:`~seqboost.objectives.Likelihood`.
    end : ndarray of float64, shape (K,), optional
        Scores of closing a sequence, which have no place in a model that is normalised as it goes; they only refuse
        labels that end in a forbidden way.

    Attributes
    ----------
    n_observed : ndarray of int64, shape (n_sequences,)
        Scored positions of each sequence: those whose own label and m labels before are observed. Others are left out.

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
    >>> found.gradient[:, 1]                         # label 1 after label 0; nothing is said about label 1 before it
    array([[-0.5,  0. ],
           [ 0.5,  0. ]], dtype=float32)
    """

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        space, offsets = self._space, self._offsets
        marked, _ = observed_contexts(self._labels, offsets, space.n_labels, space.order, mark_unobserved=True)
        scored = (self._labels >= 0) & (marked >= 0)
        self._is_scored = scored
        self._ends_checked = not np.any(self._end == -np.inf)
        self._set_up(weights, scored)
        self._slot, self._extended = self._observed_path()
        self._chunks = sequence_chunks(offsets)
        n_sums = (len(self._chunks), space.n_extended if self.has_table else 0, space.n_labels)
        self._table_gradient, self._table_hessian = np.zeros(n_sums), np.zeros(n_sums)

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Give gradient and curvature at these scores; see :meth:`ChainObjective.derivatives`."""
        log_prob, n_correct = self._run(scores, table, self._curvature, n_threads)
        watched = self._watched(scores, table)
        self._predict_watched(None if watched is None else locally_normalised(watched), n_threads)
        sums = (self._table_gradient.sum(axis=0), self._table_hessian.sum(axis=0))
        return self._as_derivatives(log_prob, n_correct, sums if self.has_table else (None, None))

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Give Σ_t log p_t(y_t) of each sequence, unweighted, without derivatives."""
        return self._run(scores, table, VALUES, n_threads)[0]

    @property
    def scored_rows(self) -> NDArray[np.intp]:
        """The positions that are scored."""
        return np.flatnonzero(self._is_scored)

    def observed_scores(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return S_t(k) of the scored positions, (n_scored, K)."""
        rows = self.scored_rows
        of_context = table[self._extended[rows]]
        cells = scores[:, rows, self._slot[rows]].T.astype(np.float64)
        # What is forbidden stays so, whatever was added to its score.
        return np.where(np.isneginf(of_context), -np.inf, cells + of_context)

    def _run(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], curvature: int, n_threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Work through all chunks; complain if labels are impossible."""
        self._check_shape(scores)
        n_sequences = len(self._offsets) - 1
        log_prob, n_correct = np.zeros(n_sequences), np.zeros(n_sequences, dtype=np.int64)
        tasks = [
            (
                (first, last, curvature), scores, table, self._offsets, self._labels, self._is_scored, self._slot,
                self._extended, self._row_weights, np.empty(self._space.n_labels), self._gradient, self._hessian,
                self._table_gradient[chunk], self._table_hessian[chunk], log_prob, n_correct,
            )
            for chunk, (first, last) in enumerate(self._chunks)
        ]  # fmt: skip
        run_tasks(local_chunk, tasks, n_threads)
        if not np.all(np.isfinite(log_prob)) or not self._ends_checked:
            self._raise_if_forbidden(table)
            self._ends_checked = True
        return log_prob, n_correct


@jit
def local_chunk(
    setting: tuple[int, int, int],  # sequences first, last; curvature, or VALUES
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    labels: NDArray[np.int32],  # IN (N,)
    is_scored: NDArray[np.bool_],  # IN (N,)
    slot: NDArray[np.int32],  # IN (N,) of the observed context; 0 for factored models
    extended: NDArray[np.int32],  # IN (N,) of the observed context
    row_weights: NDArray[np.float64],  # IN (N,)
    prob: NDArray[np.float64],  # SCRATCH (K,)
    gradient: NDArray[np.float32],  # OUT (K, N, C)
    hessian: NDArray[np.float32],  # OUT (K, N, C)
    table_gradient: NDArray[np.float64],  # OUT (E, K), or (0, K)
    table_hessian: NDArray[np.float64],  # OUT (E, K), or (0, K)
    log_prob: NDArray[np.float64],  # OUT (n_sequences,)
    n_correct: NDArray[np.int64],  # OUT (n_sequences,)
) -> None:
    """Fill the rows of a range of sequences."""
    n_labels = table.shape[1]
    first, last, curvature = setting
    has_table = table_gradient.shape[0] > 0
    if curvature != VALUES:
        table_gradient[:] = 0.0
        table_hessian[:] = 0.0
    for s in range(first, last):
        total, right = 0.0, 0
        for t in range(offsets[s], offsets[s + 1]):
            if not is_scored[t]:
                continue
            c, e, y = slot[t], extended[t], labels[t]
            highest, best = -np.inf, 0
            for k in range(n_labels):
                score = table[e, k]
                if score > -np.inf:
                    score += np.float64(scores[k, t, c])
                prob[k] = score
                if score > highest:
                    highest, best = score, k
            norm = 0.0
            for k in range(n_labels):
                norm += np.exp(prob[k] - highest)
            total += prob[y] - highest - np.log(norm)
            right += best == y
            w = row_weights[t]
            if curvature == VALUES:
                continue
            for k in range(n_labels):
                p = np.exp(prob[k] - highest) / norm
                g = w * ((1.0 if k == y else 0.0) - p)
                h = w
                if curvature != COUNT:
                    h = w * p * (1.0 - p) * (2.0 if curvature == MIXING else 1.0)
                gradient[k, t, c] = np.float32(g)
                hessian[k, t, c] = np.float32(h)
                if has_table:
                    table_gradient[e, k] += g
                    table_hessian[e, k] += h
        log_prob[s] = total
        n_correct[s] = right
