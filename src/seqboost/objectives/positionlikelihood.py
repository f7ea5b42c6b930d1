"""The weighted log-likelihood of single labels, and its derivatives by the scores.

    L = Σ_sequences w · Σ_t v_t log P(y_t | X)            v_t the weight of position t; unobserved labels have no term

A likelihood of whole sequences has no terms per position that could carry weights; the log-posteriors of single labels
have. For sequences of one position, and for order 0, L is the weighted log-loss of a classifier of independent rows.

Gradient
--------
With μ_t(k) = P(y_t = k | X) and e_t(k) = v_t (I(k = y_t) / μ_t(y_t) − 1), whose expectation is 0,

    ∂L/∂F_s(c,k) = w Σ_t v_t (P(c_s = c, y_s = k | y_t) − P(c_s = c, y_s = k))
                 = w P_s(c,k) (A_s(c) + e_s(k) + B_{s+1}(c'))                         c' the context after (c, k)

where A and B add up what the labels before s, and those after it, say about a context:

    A_{s+1}(c') = Σ_{(c,k) → c'} P_s(c,k) (A_s(c) + e_s(k)) / P(c_{s+1} = c')         A = 0 at the first position
    B_s(c)      = Σ_k P_s(c,k) (e_s(k) + B_{s+1}(c')) / P(c_s = c)                    B = 0 after the last position

So two sweeps over the pair marginals P_s(c,k) are all that it takes beyond forward-backward. In a factored model
F_s(c,k) = U_s(k) + A(c,k): U has the gradients of its cells summed over contexts, the table over positions.

Curvature
---------
Labels near s speak about s as well as its own does, so the curvature of ``Likelihood`` at s is multiplied by the weight
of the positions within reach, Ω_s = v_s + Σ_{t≠s} d_st v_t, with the bounds d_st of ``curvature``; where positions are
independent this is v_s. L is not concave, so this is no bound: ``step="safe"`` halves a step that lowers L.

References
----------
Kakade, S., Teh, Y. W. and Roweis, S. (2002). An alternate objective function for Markovian fields. ICML.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import PairMessages, Potentials, factored_chunks, pair_block, position_blocks, posterior_chunk
from seqboost.core.contexts import row_types
from seqboost.core.jit import jit
from seqboost.core.offsets import sequence_chunks
from seqboost.core.threads import run_tasks
from seqboost.objectives import checks
from seqboost.objectives.chains import ChainObjective
from seqboost.objectives.curvature import COUNT, MIXING, count_cells, count_table, mean_caution, mixing_sums
from seqboost.objectives.derivatives import Derivatives

__all__ = ["PositionLikelihood"]

LEAST_PROB = 1e-37
"""Marginals are float32: a smaller one counts as this much, so that its logarithm is finite."""


class _Rows(NamedTuple):
    """What is known of the positions."""

    labels: NDArray[np.int32]  # (N,) -1 = unobserved
    terms: NDArray[np.float64]  # (N,) v_t; 0 where unobserved
    weights: NDArray[np.float64]  # (N,) w of the sequence
    prob: NDArray[np.float64]  # (N,) μ_t(y_t)
    factors: NDArray[np.float64]  # (3, N) of the curvature, see ``_fill_factors``
    offsets: NDArray[np.int64]  # (n_sequences + 1,)
    base: NDArray[np.int64]  # (m + 1,) first extended context of each type


class _Targets(NamedTuple):
    """Where derivatives go."""

    gradient: NDArray[np.float32]  # (K * N * C,), or (K * N,) of a factored model
    hessian: NDArray[np.float32]  # (K * N * C,), or (K * N,)
    table: NDArray[np.float64]  # (2, E, K) gradient and curvature of the table; (2, 0, K) if there is none


class PositionLikelihood(ChainObjective):
    """Weighted sum of the log-posteriors of the observed labels.

    Buffers are allocated once: what ``derivatives`` returns is overwritten by its next call.

    Parameters
    ----------
    labels, offsets, n_labels, order, joint, sequence_weights, curvature, end, classes
        As in :class:`~seqboost.objectives.Likelihood`.
    position_weights : ndarray of float64, shape (N,), optional
        v_t ≥ 0; 1 for every position if not given. For class weights, the weight of the label at t.

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 1], np.int32), np.array([0, 2, 3])
    >>> weights = np.array([1.0, 5.0, 5.0])
    >>> objective = PositionLikelihood(labels, offsets, n_labels=2, order=1, joint=True, position_weights=weights)
    >>> found = objective.derivatives(np.zeros((2, 3, 2), np.float32), np.zeros((3, 2)))
    >>> found.log_likelihood.round(3)
    array([-4.159, -3.466])
    >>> found.gradient[:, 2, 0]
    array([-2.5,  2.5], dtype=float32)
    """

    def __init__(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        *,
        position_weights: NDArray[np.float64] | None = None,
        **settings: Any,
    ) -> None:
        self._terms = checks.position_weights(position_weights, labels)
        super().__init__(labels, offsets, **settings)

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        space, offsets, n_positions = self._space, self._offsets, len(self._labels)
        self._set_up(weights, self._labels >= 0)
        self._chunks = factored_chunks(offsets, space.n_labels) if self.has_table else sequence_chunks(offsets)
        self._table_sums = np.empty((len(self._chunks), 2, space.n_extended if self.has_table else 0, space.n_labels))
        self._tau = np.zeros((2, n_positions), dtype=np.float32)  # forward, backward
        self._reach = np.zeros((2, n_positions), dtype=np.float32)  # R_t, L_t
        self._factors = np.zeros((3, n_positions))
        self._prob = np.empty(n_positions)  # μ_t(y_t)
        self._paths_checked = False
        if self._curvature == COUNT:
            context_type = row_types(offsets, space.order)
            counted = self._row_weights * self._terms
            count_cells(space, counted, context_type, self._hessian)
            self._table_count = count_table(space, counted, context_type)

    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Return gradient and curvature at these scores; see :meth:`ChainObjective.derivatives`."""
        potentials = self._potentials(scores, table)
        value, n_correct = self._results()
        tasks = [(potentials, chunk, value, n_correct) for chunk in range(len(self._chunks))]
        run_tasks(self._differentiate, tasks, n_threads)
        table_gradient, table_hessian = self._table_sums.sum(axis=0) if self.has_table else (None, None)
        if self.has_table and self._curvature == COUNT:
            table_hessian = self._table_count.copy()
        return self._as_derivatives(value, n_correct, (table_gradient, table_hessian), self._caution())

    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Return Σ_t v_t log P(y_t | X) of each sequence, without derivatives."""
        potentials = self._potentials(scores, table)
        value, n_correct = self._results()
        marginals = np.empty_like(self._gradient)
        tasks = [(potentials, marginals, chunk, value, n_correct) for chunk in range(len(self._chunks))]
        run_tasks(self._evaluate, tasks, n_threads)
        return value

    def _results(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return room for the value and the number of correct labels of each sequence."""
        n_sequences = len(self._offsets) - 1
        return np.zeros(n_sequences), np.zeros(n_sequences, dtype=np.int64)

    def _potentials(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> Potentials:
        potentials = super()._potentials(scores, table)
        if not self._paths_checked:
            self._raise_if_forbidden(table)
            self._paths_checked = True
        return potentials

    def _evaluate(
        self,
        potentials: Potentials,
        marginals: NDArray[np.float32],
        chunk: int,
        value: NDArray[np.float64],
        n_correct: NDArray[np.int64],
    ) -> None:
        """Fill the values of one chunk of sequences."""
        first, last = self._chunks[chunk]
        posterior_chunk(potentials, first, last, marginals, np.empty(len(value)))
        self._sum_terms(marginals, first, last, value, n_correct)

    def _sum_terms(
        self,
        marginals: NDArray[np.float32],
        first: int,
        last: int,
        value: NDArray[np.float64],
        n_correct: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Fill the values and the numbers of correct labels of the sequences first:last; return μ_t(y_t)."""
        starts = self._offsets[first:last] - self._offsets[first]
        rows = slice(int(self._offsets[first]), int(self._offsets[last]))
        labels = self._labels[rows]
        node = marginals[:, rows].sum(axis=2)
        prob = np.maximum(node[np.maximum(labels, 0), np.arange(len(labels))].astype(np.float64), LEAST_PROB)
        value[first:last] = np.add.reduceat(self._terms[rows] * np.log(np.minimum(prob, 1.0)), starts)
        n_correct[first:last] = np.add.reduceat((node.argmax(axis=0) == labels).astype(np.int64), starts)
        return prob

    def _differentiate(
        self, potentials: Potentials, chunk: int, value: NDArray[np.float64], n_correct: NDArray[np.int64]
    ) -> None:
        """Fill the rows of one chunk of sequences: forward-backward, then both sweeps."""
        first, last = self._chunks[chunk]
        begin, stop = int(self._offsets[first]), int(self._offsets[last])
        fits = bool(self._weights[first:last].any())
        measures = fits and self._curvature != COUNT
        found = posterior_chunk(
            potentials, first, last, self._gradient, np.empty(len(value)), by_rows=False,
            tau_forward=self._tau[0] if measures else None, tau_backward=self._tau[1] if measures else None,
        )  # fmt: skip
        messages = cast("PairMessages | None", found)
        self._keep_predictions(begin, stop)
        self._prob[begin:stop] = self._sum_terms(self._gradient, first, last, value, n_correct)
        self._table_sums[chunk] = 0.0
        if not fits:  # held-out sequences
            self._gradient[:, begin:stop] = 0.0
            self._hessian[:, begin:stop] = 0.0
            return
        if measures:
            self._fill_factors(first, last)
        space = self._space
        rows = _Rows(self._labels, self._terms, self._row_weights, self._prob, self._factors, self._offsets, space.base)
        targets = _Targets(self._gradient.reshape(-1), self._hessian.reshape(-1), self._table_sums[chunk])
        after = np.empty((stop - begin, space.n_contexts))  # B_{t+1}
        work = np.empty((5, max(space.n_contexts, space.n_labels)))
        sizes = (space.n_labels, space.n_contexts)
        blocks = [(begin, stop)] if messages is None else position_blocks(begin, stop, sizes[0] * sizes[1])
        for a, b in reversed(blocks):
            pairs, where = self._pairs(potentials, messages, a, b)
            sweep_back(pairs, (*sizes, *where), (a, b, first), rows, after, work[0])
        for a, b in blocks:
            pairs, where = self._pairs(potentials, messages, a, b)
            sweep_forward(pairs, (*sizes, *where), (a, b, first, self._curvature), rows, after, work, targets)

    def _pairs(
        self, potentials: Potentials, messages: PairMessages | None, a: int, b: int
    ) -> tuple[NDArray[np.float32], tuple[int, int]]:
        """Return P_t(c,k) of the positions a:b, label by label; with the positions it holds, and the first of them."""
        if messages is None:
            return self._gradient.reshape(-1), (len(self._labels), 0)
        return pair_block(potentials.lattice(), messages, a, b), (b - a, a)

    def _fill_factors(self, first: int, last: int) -> None:
        """Fill what the curvature of each position is multiplied by.

        Row 0: of p(1 − p) of a cell. Rows 1 and 2 of a joint model: of p(1 − P(c_{t+1})) and of p(1 − P(c_t)); row 1
        of a factored one: of p(1 − p) of a pair.
        """
        rows = slice(int(self._offsets[first]), int(self._offsets[last]))
        order, joint, mixing = self._space.order, self._n_slots > 1, self._curvature == MIXING
        right, left = self._reach
        taus = (self._tau[0], self._tau[1])
        mixing_sums(self._offsets, first, last, order, joint, *taus, right, left, self._terms)
        near = self._row_weights[rows] * (self._terms[rows] + right[rows] + left[rows])  # w Ω
        here, beside, before = self._factors[:, rows]
        if self.has_table:
            mixing_sums(self._offsets, first, last, order, True, *taus, right, left)
            beside[:] = near * (2.0 * (1.0 + right[rows] + left[rows]) if mixing else 1.0)
        mixing_sums(self._offsets, first, last, order, joint, *taus, right, left)
        if not joint:
            here[:] = near * (2.0 * (1.0 + right[rows] + left[rows]) if mixing else 1.0)
        else:
            here[:] = 2.0 * near if mixing else near
            beside[:] = 2.0 * near * right[rows] if mixing else 0.0
            before[:] = 2.0 * near * left[rows] if mixing else 0.0

    def _caution(self) -> float:
        """Return Σ_t H_t / Σ_t H_t/(2γ_t), as ``Likelihood`` does."""
        return mean_caution(self._hessian, self._reach) if self._curvature == MIXING else 1.0


@jit
def sweep_back(
    pairs: NDArray[np.float32],  # IN (K * stride * C,) P_t(c,k) as [k, t - shift, c]
    sizes: tuple[int, int, int, int],  # K, C, stride, shift
    run: tuple[int, int, int],  # positions a:b, first sequence of the chunk
    rows: _Rows,  # IN
    after: NDArray[np.float64],  # INOUT (chunk positions, C) B_{t+1}
    here: NDArray[np.float64],  # SCRATCH (C,) B_t
) -> None:
    """Fill B of the positions a:b, last first; those of the positions behind them are there."""
    n_labels, n_contexts, stride, shift = sizes
    begin, stop, first = run
    n_shared, origin = max(1, n_contexts // n_labels), rows.offsets[first]
    s = first
    while rows.offsets[s + 1] < stop:
        s += 1
    for t in range(stop - 1, begin - 1, -1):
        while t < rows.offsets[s]:
            s -= 1
        if t == rows.offsets[s + 1] - 1:
            after[t - origin] = 0.0
        if t == rows.offsets[s]:
            continue
        y, v = rows.labels[t], rows.terms[t]
        surprise = v / rows.prob[t]
        for c in range(n_contexts):
            total, said = 0.0, 0.0
            for k in range(n_labels):
                p = np.float64(pairs[(k * stride + t - shift) * n_contexts + c])
                after_k = after[t - origin, 0 if n_contexts == 1 else n_labels * (c % n_shared) + k]
                total += p
                said += p * (after_k - v + (surprise if k == y else 0.0))
            here[c] = said / total if total > 0.0 else 0.0
        for c in range(n_contexts):
            after[t - 1 - origin, c] = here[c]


@jit
def sweep_forward(
    pairs: NDArray[np.float32],  # IN (K * stride * C,) P_t(c,k) as [k, t - shift, c]; may be the gradient itself
    sizes: tuple[int, int, int, int],  # K, C, stride, shift
    run: tuple[int, int, int, int],  # positions a:b, first sequence of the chunk, curvature
    rows: _Rows,  # IN
    after: NDArray[np.float64],  # IN (chunk positions, C) B_{t+1}
    work: NDArray[np.float64],  # INOUT (5, max(C, K)) A_t; SCRATCH A_{t+1}, P(c_t), P(c_{t+1}), P(y_t)
    targets: _Targets,  # OUT
) -> None:
    """Fill gradient and curvature of the positions a:b, first ones first; A of the position a is in ``work``."""
    n_labels, n_contexts, stride, shift = sizes
    begin, stop, first, curvature = run
    n_shared, origin, n_rows = max(1, n_contexts // n_labels), rows.offsets[first], rows.labels.size
    has_table, order = targets.table.shape[1] > 0, rows.base.size - 1
    before, behind, context, follower, node = work
    s = first
    for t in range(begin, stop):
        while t >= rows.offsets[s + 1]:
            s += 1
        if t == rows.offsets[s]:
            before[:] = 0.0
        behind[:], context[:], follower[:], node[:] = 0.0, 0.0, 0.0, 0.0
        for k in range(n_labels):
            for c in range(n_contexts):
                p = np.float64(pairs[(k * stride + t - shift) * n_contexts + c])
                context[c] += p
                follower[0 if n_contexts == 1 else n_labels * (c % n_shared) + k] += p
                node[k] += p
        y, v, w = rows.labels[t], rows.terms[t], rows.weights[t]
        surprise = v / rows.prob[t]
        first_context = rows.base[min(t - rows.offsets[s], order)]
        for k in range(n_labels):
            own, of_label = (surprise if k == y else 0.0) - v, 0.0
            for c in range(n_contexts):
                to = 0 if n_contexts == 1 else n_labels * (c % n_shared) + k
                cell = (k * stride + t - shift) * n_contexts + c
                p = np.float64(pairs[cell])
                if p == 0.0:
                    if not has_table:
                        targets.gradient[cell] = np.float32(0.0)
                        if curvature != COUNT:
                            targets.hessian[cell] = np.float32(0.0)
                    continue
                behind[to] += p * (before[c] + own)
                gradient = w * p * (before[c] + own + after[t - origin, to])
                if has_table:
                    of_label += gradient
                    targets.table[0, first_context + c, k] += gradient
                    targets.table[1, first_context + c, k] += rows.factors[1, t] * p * max(1.0 - p, 0.0)
                    continue
                targets.gradient[cell] = np.float32(gradient)
                if curvature != COUNT:
                    beside = rows.factors[1, t] * max(1.0 - follower[to], 0.0)
                    beside += rows.factors[2, t] * max(1.0 - context[c], 0.0)
                    targets.hessian[cell] = np.float32(p * (rows.factors[0, t] * max(1.0 - p, 0.0) + beside))
            if has_table:
                targets.gradient[k * n_rows + t] = np.float32(of_label)
                if curvature != COUNT:
                    targets.hessian[k * n_rows + t] = np.float32(rows.factors[0, t] * node[k] * max(1.0 - node[k], 0.0))
        for c in range(n_contexts):
            before[c] = behind[c] / follower[c] if follower[c] > 0.0 else 0.0
