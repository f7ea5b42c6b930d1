"""The conditional log-likelihood of the observed labels, and its derivatives by the scores.

    L = Σ_sequences w · log P(observed labels | X)

Letters: N positions of all sequences laid end to end, K labels, order m, C context slots (1 for factored models), E
extended contexts, w weights of sequences.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, factored_chunks, log_partition_chunk, pair_sums_chunk, posterior_chunk
from seqboost.core.contexts import row_types
from seqboost.core.labelsets import UNOBSERVED
from seqboost.core.offsets import sequence_chunks
from seqboost.core.threads import run_tasks
from seqboost.objectives.cells import add_observed, score_cells, subtract_expected
from seqboost.objectives.chains import ChainObjective
from seqboost.objectives.curvature import COUNT, MIXING, count_cells, count_table, mean_caution, mixing_sums
from seqboost.objectives.derivatives import Derivatives
from seqboost.objectives.partial import ClampedSequences

__all__ = ["Likelihood"]


class Likelihood(ChainObjective):
    """Log-likelihood of the observed labels under the chain.

    Buffers are allocated once: what ``derivatives`` returns is overwritten by its next call.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        Label codes, -1 = unobserved, -3 - i = one of the labels of set i. Labels that are not known exactly are summed
        over (marginal likelihood).
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    n_labels, order : int
        K and m.
    joint : bool
        Whether scores depend on the context (K, N, K**m) or not (K, N, 1), with a table to learn.
    sequence_weights : ndarray of float64, shape (n_sequences,), optional
        0 for held-out sequences: they get a log-likelihood and correct labels, but no gradient.
    curvature : {"mixing", "newton", "count"}, default="mixing"
        What stands for the second derivative: a bound that makes steps safe, p(1 − p), or the number of examples.
    end : ndarray of float64, shape (K,), optional
        Score of closing a sequence with a label, -inf = forbidden.
    classes : sequence, optional
        Names of the labels, for messages.
    sets : ndarray of bool, shape (n_sets, K), optional
        Which labels each set holds.

    Attributes
    ----------
    has_table : bool
        Whether ``derivatives`` gives those of the table: factored models with order >= 1 and K >= 2.
    n_observed : ndarray of int64, shape (n_sequences,)
        Observed positions of each sequence, with those whose label is one of a set.

    References
    ----------
    Dietterich, T. G., Hao, G. and Ashenfelter, A. (2008). Gradient tree boosting for training conditional random
    fields. JMLR 9. (The gradient.)

    Chen, T., Singh, S., Taskar, B. and Guestrin, C. (2015). Efficient second-order gradient boosting for conditional
    random fields. AISTATS. (Curvature "mixing".)

    Examples
    --------
    >>> objective = Likelihood(np.array([0, 1, 1], np.int32), np.array([0, 2, 3]), n_labels=2, order=1, joint=True)
    >>> found = objective.derivatives(np.zeros((2, 3, 2), np.float32), np.zeros((3, 2)))
    >>> found.log_likelihood.round(3)
    array([-1.386, -0.693])
    >>> found.gradient[:, 2, 0]
    array([-0.5,  0.5], dtype=float32)
    """

    takes_sets = True
    _clamping: type[ClampedSequences] = ClampedSequences

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        self._set_up(weights, self._labels != UNOBSERVED)
        lengths = np.diff(self._offsets)
        self._complete = (self.n_observed if self._n_exact is None else self._n_exact) == lengths
        n_labels, offsets = self._space.n_labels, self._offsets
        self._chunks = factored_chunks(offsets, n_labels) if self.has_table else sequence_chunks(offsets)
        self._allocate()

    def _allocate(self) -> None:
        """Make the buffers, and what stays the same from round to round."""
        space, n_positions, n_sequences = self._space, len(self._labels), len(self._offsets) - 1
        lengths = np.diff(self._offsets)
        self._log_z = np.empty(n_sequences)
        self._path_score = np.empty(n_sequences)
        self._n_correct = np.empty(n_sequences, dtype=np.int64)
        self._best = np.empty(n_positions, dtype=np.int32)
        self._slot, extended = self._observed_path()
        self._known = np.maximum(self._labels, 0)
        # where the labelled paths run, in flat table and scores
        self._table_cell = extended.astype(np.int64) * space.n_labels + self._known
        self._score_cell = score_cells(self._known, self._slot, self._n_slots)
        n_tau = n_positions if self._curvature == MIXING else 0
        self._tau = np.zeros((2, n_tau), dtype=np.float32)  # forward, backward
        self._reach = np.zeros((2, n_tau), dtype=np.float32)  # R_t, L_t of the cells
        partly = ~self._complete & (self.n_observed > 0)
        self._clamped = self._clamping(self._labels, self._offsets, self._weights, partly, self._sets)
        context_type = row_types(self._offsets, space.order)
        if self._curvature == COUNT:
            count_cells(space, self._row_weights, context_type, self._hessian)
        if self.has_table:
            table_shape = (len(self._chunks), space.n_extended, space.n_labels)
            self._pair_reach = np.zeros_like(self._reach)  # R_t, L_t of the pairs (c_t, y_t)
            self._variance_weights = self._row_weights.copy()
            self._means, self._variances = np.empty(table_shape), np.empty(table_shape)
            counted = np.flatnonzero(np.repeat(self._complete, lengths))
            self._observed = np.zeros(table_shape[1:])
            np.add.at(self._observed, (extended[counted], self._labels[counted]), self._row_weights[counted])
            self._table_count = count_table(space, self._row_weights, context_type)

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Return gradient and curvature at these scores; see :meth:`ChainObjective.derivatives`."""
        potentials = self._potentials(scores, table)
        self._clamped.posterior(potentials, n_threads, with_pairs=self.has_table)
        tasks = [(potentials, chunk, first, last) for chunk, (first, last) in enumerate(self._chunks)]
        run_tasks(self._differentiate, tasks, n_threads)
        of_table = self._table_derivatives() if self.has_table else (None, None)
        return self._as_derivatives(
            self._finish_log_likelihood(table), self._n_correct.copy(), of_table, self._caution()
        )

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Return log P(observed labels | X) of each sequence, unweighted, without derivatives."""
        potentials = self._potentials(scores, table)
        self._clamped.log_partition(potentials, n_threads)
        run_tasks(self._evaluate, [(potentials, first, last) for first, last in self._chunks], n_threads)
        return self._finish_log_likelihood(table)

    def _differentiate(self, potentials: Potentials, chunk: int, first: int, last: int) -> None:
        """Fill the rows of one chunk of sequences: forward-backward, then cell by cell."""
        # Where nothing is fitted (held-out sequences) no curvature is needed.
        order, mixing = self._space.order, self._curvature == MIXING and bool(self._weights[first:last].any())
        messages = posterior_chunk(
            potentials,
            first,
            last,
            self._gradient,
            self._log_z,
            tau_forward=self._tau[0] if mixing else None,
            tau_backward=self._tau[1] if mixing else None,
        )
        self._keep_predictions(int(self._offsets[first]), int(self._offsets[last]))
        right, left = self._reach
        if mixing:
            joint = self._n_slots > 1
            mixing_sums(self._offsets, first, last, order, joint, self._tau[0], self._tau[1], right, left)
        rows = slice(self._offsets[first], self._offsets[last])
        setting = (rows.start, rows.stop, self._curvature)
        subtract_expected(self._gradient, self._hessian, self._row_weights, right, left, self._best, setting)
        add_observed(
            self._gradient,
            self._clamped.marginals,
            self._clamped.start,
            self._labels,
            self._slot,
            self._offsets,
            self._weights,
            self._best,
            self._n_correct,
            (first, last),
        )
        self._score_paths(potentials, first, last)
        if messages is not None:
            if mixing:
                right, left = self._pair_reach
                mixing_sums(self._offsets, first, last, order, True, self._tau[0], self._tau[1], right, left)
                self._variance_weights[rows] = 2.0 * self._row_weights[rows] * (1.0 + right[rows] + left[rows])
            mean, variance = self._means[chunk], self._variances[chunk]
            mean[:], variance[:] = 0.0, 0.0
            pair_sums_chunk(potentials, messages, self._row_weights, self._variance_weights, mean, variance)

    def _evaluate(self, potentials: Potentials, first: int, last: int) -> None:
        """Fill log Z and the path scores of one chunk of sequences."""
        log_partition_chunk(potentials, first, last, self._log_z)
        self._score_paths(potentials, first, last)

    def _score_paths(self, p: Potentials, first: int, last: int) -> None:
        """Fill the scores of the labelled paths; those with unobserved labels are replaced later."""
        starts, stops = self._offsets[first:last], self._offsets[first + 1 : last + 1]
        rows = slice(starts[0], stops[-1])
        score = p.table.reshape(-1).take(self._table_cell[rows])
        score += p.scores.reshape(-1).take(self._score_cell[rows])
        self._path_score[first:last] = np.add.reduceat(score, starts - starts[0]) + p.end[self._known[stops - 1]]

    def _table_derivatives(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Add up what the chunks left, in the order of chunks."""
        gradient = self._observed + self._clamped.pair_sums() - self._means.sum(axis=0)
        if self._curvature == COUNT:
            return gradient, self._table_count.copy()
        return gradient, np.maximum(self._variances.sum(axis=0), 0.0)

    def _finish_log_likelihood(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log P of the observed labels from what the chunks left, or say which labels are impossible."""
        self._path_score[self._clamped.sequences] = self._clamped.log_z
        with np.errstate(invalid="ignore"):  # -inf - -inf: the check below explains it
            found = np.where(self.n_observed > 0, np.minimum(self._path_score - self._log_z, 0.0), 0.0)
        if not np.all(np.isfinite(found)):
            self._raise_if_forbidden(table)
        return found

    def _caution(self) -> float:
        """Return how many times the curvature exceeds p(1 − p), on average."""
        if self._curvature != MIXING or not self._reach.size:
            return 1.0
        return mean_caution(self._hessian, self._reach)
