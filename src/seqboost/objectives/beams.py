"""The log-likelihood within a beam: Z sums over the labellings that a beam holds, and over the observed one.

    L = Σ_sequences w · (F(Y) − log Z_beam),     Z_beam = Σ exp F over labellings whose contexts are all kept

Kept are, at each position, the most promising contexts and one more: that of the observed labels, or the next best if
those are among them (``seqboost.chain.beam``). So L <= 0; it is the likelihood if the beam holds all contexts, and
higher otherwise. With P within the beam,

    gradient   Δ_t(c,k) = w (I(c_t = c, y_t = k) − P(c_t = c, y_t = k | X))

While the kept contexts stay the same this is the derivative; where they change L jumps, so a step may lower it
although the gradient is right: ``step="safe"`` then halves it.

Curvature: newton w·P(1 − P), count w, as for the likelihood. The mixing rates of the chain are not known from the
beam alone; "mixing" takes γ = 1 + 2m, as if each label moved with m to either side: 2γ w·P(1 − P).

References
----------
Pal, C., Sutton, C. and McCallum, A. (2006). Sparse forward-backward using minimum divergence beams for fast training of
conditional random fields. ICASSP.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, beam_sequence, make_beam
from seqboost.core.contexts import observed_contexts, row_types
from seqboost.core.exceptions import ParameterError
from seqboost.core.offsets import sequence_chunks
from seqboost.core.threads import run_tasks
from seqboost.objectives import checks
from seqboost.objectives.chains import ChainObjective
from seqboost.objectives.curvature import COUNT, MIXING, count_cells, count_table
from seqboost.objectives.derivatives import Derivatives

__all__ = ["BeamLikelihood"]


class BeamLikelihood(ChainObjective):
    """Log-likelihood of the observed labels among the labellings within a beam.

    Interface of :class:`~seqboost.objectives.Likelihood`. Buffers are allocated once: what ``derivatives`` returns is
    overwritten by its next call.

    Parameters
    ----------
    labels, offsets, n_labels, order, joint, sequence_weights, curvature, end, classes
        As in :class:`~seqboost.objectives.Likelihood`; every label must be observed.
    beam : int
        Contexts to keep at each position.

    Attributes
    ----------
    n_observed : ndarray of int64, shape (n_sequences,)
        Lengths of the sequences.

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 1], np.int32), np.array([0, 2, 3])
    >>> objective = BeamLikelihood(labels, offsets, n_labels=2, order=1, joint=True, beam=1)
    >>> objective.derivatives(np.zeros((2, 3, 2), np.float32), np.zeros((3, 2))).log_likelihood.round(3)
    array([-1.386, -0.693])
    """

    def __init__(self, labels: NDArray[np.int32], offsets: NDArray[np.int64], *, beam: int, **settings: Any) -> None:
        if beam < 1:
            raise ParameterError(f"beam must be 1 or more, got {beam}")
        self._beam = beam
        super().__init__(labels, offsets, **settings)

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        checks.check_observed(self._labels, self._offsets, "training with a beam", "use beam=None in fit")
        self._set_up(weights, self._labels >= 0)
        space = self._space
        self._slot, self._extended = self._observed_path()
        context, _ = observed_contexts(self._labels, self._offsets, space.n_labels, space.order)
        self._context = context.astype(np.int64)
        self._chunks = sequence_chunks(self._offsets)
        self._factor = 2.0 * (1 + 2 * space.order) if self._curvature == MIXING else 1.0
        n_tables, n_extended, n_labels = (2, space.n_extended, space.n_labels) if self.has_table else (0, 0, 0)
        self._pairs = np.zeros((len(self._chunks), n_tables, n_extended, n_labels))
        self._context_type = row_types(self._offsets, space.order)

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Return gradient and curvature at these scores; see :meth:`ChainObjective.derivatives`."""
        value, n_correct = self._run(scores, table, self._gradient, n_threads, with_derivatives=True)
        of_table = self._table_derivatives() if self.has_table else (None, None)
        if self._curvature == COUNT:
            count_cells(self._space, self._row_weights, self._context_type, self._hessian)
        return self._as_derivatives(value, n_correct, of_table)

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Return the value of each sequence, unweighted, without derivatives."""
        return self._run(scores, table, np.empty((0, 0, 0), np.float32), n_threads, with_derivatives=False)[0]

    def _run(
        self,
        scores: NDArray[np.float32],
        table: NDArray[np.float64],
        marginals: NDArray[np.float32],
        n_threads: int,
        *,
        with_derivatives: bool,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        p = self._potentials(scores, table)
        rows = np.arange(len(self._labels))
        path = p.table[self._extended, self._labels] + p.scores[self._labels, rows, self._slot]
        value = np.add.reduceat(path, self._offsets[:-1]) + p.end[self._labels[self._offsets[1:] - 1]]
        if not np.all(np.isfinite(value)):
            self._raise_if_forbidden(table)
        n_correct = np.zeros(len(value), dtype=np.int64)
        tasks = [(p, chunk, marginals, value, n_correct, with_derivatives) for chunk in range(len(self._chunks))]
        run_tasks(self._run_chunk, tasks, n_threads)
        return np.minimum(value, 0.0), n_correct

    def _run_chunk(
        self,
        p: Potentials,
        chunk: int,
        marginals: NDArray[np.float32],
        value: NDArray[np.float64],
        n_correct: NDArray[np.int64],
        with_derivatives: bool,
    ) -> None:
        """Take log Z off the value of each sequence of a chunk, and fill its rows."""
        first, last = self._chunks[chunk]
        space, width = self._space, min(self._beam + 1, self._space.n_contexts)  # one more for the observed context
        beam, path = make_beam(int(self.n_observed[first:last].max()), width, space.n_contexts), np.empty(0, np.int32)
        lattice = p.lattice()
        of_sequence = np.zeros(self._pairs.shape[1:])
        if with_derivatives:
            self._pairs[chunk] = 0.0
        for s in range(first, last):
            begin, stop = int(self._offsets[s]), int(self._offsets[s + 1])
            ends = space.next_context(int(self._context[stop - 1]), int(self._labels[stop - 1]))
            forced = np.append(self._context[begin:stop], ends)
            of_sequence[...] = 0.0
            pairs = of_sequence if with_derivatives else np.empty((0, 0, 0))
            value[s] -= beam_sequence(lattice, begin, stop, beam, path, marginals, forced, pairs)
            if with_derivatives:
                self._pairs[chunk] += self._weights[s] * of_sequence
        if with_derivatives:
            self._fill(slice(int(self._offsets[first]), int(self._offsets[last])), n_correct, first, last)

    def _fill(self, rows: slice, n_correct: NDArray[np.int64], first: int, last: int) -> None:
        """Turn marginals into gradient and curvature."""
        self._keep_predictions(rows.start, rows.stop)
        prob, weights = self._gradient[:, rows], self._row_weights[rows].astype(np.float32)[None, :, None]
        best = prob.sum(axis=2).argmax(axis=0)
        starts = self._offsets[first:last] - rows.start
        n_correct[first:last] = np.add.reduceat((best == self._labels[rows]).astype(np.int64), starts)
        self._hessian[:, rows] = np.float32(self._factor) * weights * prob * np.maximum(1 - prob, 0)
        prob *= -weights
        here = np.arange(rows.start, rows.stop)
        self._gradient[self._labels[rows], here, self._slot[rows]] += weights[0, :, 0]

    def _table_derivatives(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Add up what the chunks left, in the order of chunks."""
        observed = np.zeros(self._pairs.shape[2:])
        np.add.at(observed, (self._extended, self._labels), self._row_weights)
        means, variances = self._pairs.sum(axis=0)
        if self._curvature == COUNT:
            return observed - means, count_table(self._space, self._row_weights, self._context_type)
        return observed - means, self._factor * variances
