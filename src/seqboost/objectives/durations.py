"""The log-likelihood of chains whose labels have minimum durations, and its derivatives by scores and by the table.

    L = Σ_sequences w · log P(observed labels | X)          P over the labellings within the durations

Letters as in ``likelihood``.  The gradient is that of any chain, observed minus expected labels (or pairs of labels):
scores are those of labels and pairs, whatever the position in a run.

The curvature "mixing" is no bound here.  Minus the second derivative is still the covariance of cells, and its row sums
are still 2 p Σ_s TV(P(e_s | e_t=e), P(e_s)).  But labels with durations are no Markov chain, and the chain of states
has coefficients of 1 inside a run, where nothing is decided, so that their products bound nothing.  The coefficients
of P(y_t | y_{t-1}, X) stand in for them: how far a label reaches, on average over the places in its run.  On random
chains of up to 10 positions and durations of up to 5, δᵀHδ was at most 2.8 times what this curvature makes of it,
mostly below 1.  A step of η times the whole way is good for ratios below 2/η, which is 8 at the learning rate of 0.25;
where one is too long after all, the loop halves it (``SafeStep``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import (
    DurationPotentials,
    Potentials,
    duration_log_partition_chunk,
    duration_pair_runs,
    log_partition,
    short_run,
)
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.jit import jit
from seqboost.core.offsets import locate, sequence_chunks
from seqboost.objectives.cells import add_observed, subtract_expected
from seqboost.objectives.curvature import MIXING, mixing_sums
from seqboost.objectives.likelihood import Likelihood
from seqboost.objectives.partial import ClampedSequences

__all__ = ["DurationLikelihood", "raise_if_short"]


class _ClampedRuns(ClampedSequences):
    """The partly observed sequences of a batch, in a chain with minimum durations."""

    def _inner(self, potentials: Potentials) -> DurationPotentials:
        assert isinstance(potentials, DurationPotentials)
        p = super()._inner(potentials)
        return DurationPotentials(p.scores, p.table, p.offsets, 1, p.end, potentials.durations)

    def _evaluate(self, inner: DurationPotentials, first: int, last: int) -> None:  # type: ignore[override]
        duration_log_partition_chunk(inner, first, last, self.log_z)

    def _posterior_chunk(  # type: ignore[override]
        self, inner: DurationPotentials, chunk: int, first: int, last: int, with_pairs: bool
    ) -> None:
        weights, mean = (self._row_weights, self._row_weights), self._means[chunk]
        for a, b, pairs in duration_pair_runs(inner, first, last, self.marginals, self.log_z):
            if with_pairs:
                _sum_pairs(pairs, inner.offsets, (a, b), weights, mean, np.zeros_like(mean))


class DurationLikelihood(Likelihood):
    """Log-likelihood of the observed labels under a chain of order 1 whose labels have minimum durations.

    Buffers are allocated once: what ``derivatives`` returns is overwritten by its next call.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        Label codes, -1 = unobserved. Unobserved labels are summed over (marginal likelihood).
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    durations : ndarray of int64, shape (K,)
        Smallest number of positions of a run of each label; runs at the start or the end of a sequence may be shorter.
    n_labels, joint, sequence_weights, curvature, end, classes
        As of :class:`Likelihood`.
    order : int, default=1
        1.

    Examples
    --------
    >>> labels, offsets = np.array([0, 1, 1, 0], np.int32), np.array([0, 4])
    >>> objective = DurationLikelihood(labels, offsets, np.array([1, 2]), n_labels=2, joint=False)
    >>> found = objective.derivatives(np.zeros((2, 4, 1), np.float32), np.zeros((3, 2)))
    >>> np.exp(-found.log_likelihood).round(6)  # 16 labellings, without 0100, 0101, 0010 and 1010
    array([12.])
    """

    _clamping = _ClampedRuns

    def __init__(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        durations: NDArray[np.int64],
        *,
        n_labels: int,
        joint: bool,
        order: int = 1,
        sequence_weights: NDArray[np.float64] | None = None,
        curvature: str = "mixing",
        end: NDArray[np.float64] | None = None,
        classes: Sequence[object] | None = None,
    ) -> None:
        if order != 1:
            raise ParameterError(f"minimum durations need a chain of order 1, got order {order}")
        self._durations = np.ascontiguousarray(durations, dtype=np.int64)
        super().__init__(
            labels, offsets, n_labels=n_labels, order=order, joint=joint, sequence_weights=sequence_weights,
            curvature=curvature, end=end, classes=classes,
        )  # fmt: skip
        raise_if_short(self._labels, self._offsets, self._durations, classes)

    def _prepare(self, weights: NDArray[np.float64]) -> None:
        self._set_up(weights, self._labels >= 0)
        self._complete = self.n_observed == np.diff(self._offsets)
        self._chunks = sequence_chunks(self._offsets)
        self._allocate()

    def _potentials(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> DurationPotentials:
        self._check_shape(scores)
        return DurationPotentials(scores, table, self._offsets, 1, self._end, self._durations)

    def _differentiate(self, potentials: DurationPotentials, chunk: int, first: int, last: int) -> None:  # type: ignore[override]
        """Fill the rows of one chunk of sequences: forward-backward, then cell by cell."""
        mixing = self._curvature == MIXING and bool(self._weights[first:last].any())
        if self.has_table:
            self._means[chunk], self._variances[chunk] = 0.0, 0.0
        right, left = self._reach
        runs = duration_pair_runs(
            potentials, first, last, self._gradient, self._log_z, taus=self._tau if mixing else None
        )
        for a, b, pairs in runs:
            if mixing:
                mixing_sums(self._offsets, a, b, 1, self._n_slots > 1, self._tau[0], self._tau[1], right, left)
            if self.has_table:
                self._add_pairs(chunk, a, b, pairs, mixing)
        rows = slice(self._offsets[first], self._offsets[last])
        self._keep_predictions(int(rows.start), int(rows.stop))
        setting = (rows.start, rows.stop, self._curvature)
        subtract_expected(self._gradient, self._hessian, self._row_weights, right, left, self._best, setting)
        add_observed(
            self._gradient, self._clamped.marginals, self._clamped.start, self._labels, self._slot, self._offsets,
            self._weights, self._best, self._n_correct, (first, last),
        )  # fmt: skip
        self._score_paths(potentials, first, last)

    def _add_pairs(self, chunk: int, a: int, b: int, pairs: NDArray[np.float32], mixing: bool) -> None:
        """Add the sums of pairs of the sequences a:b to those of their chunk."""
        rows = slice(self._offsets[a], self._offsets[b])
        if mixing:
            right, left = self._pair_reach
            mixing_sums(self._offsets, a, b, 1, True, self._tau[0], self._tau[1], right, left)
            self._variance_weights[rows] = 2.0 * self._row_weights[rows] * (1.0 + right[rows] + left[rows])
        weights = (self._row_weights, self._variance_weights)
        _sum_pairs(pairs, self._offsets, (a, b), weights, self._means[chunk], self._variances[chunk])

    def _evaluate(self, potentials: DurationPotentials, first: int, last: int) -> None:  # type: ignore[override]
        """Fill log Z and the path scores of one chunk of sequences."""
        duration_log_partition_chunk(potentials, first, last, self._log_z)
        self._score_paths(potentials, first, last)

    def _raise_if_forbidden(self, table: NDArray[np.float64]) -> None:
        super()._raise_if_forbidden(table)
        impossible = self._clamped.sequences[self._clamped.log_z == -np.inf]
        if len(impossible):
            raise InputError(
                f"no labels for the unobserved positions of y[{impossible[0]}] keep to both min_duration and "
                f"transitions; relax one of them, or leave more of its labels unobserved"
            )


def raise_if_short(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    durations: NDArray[np.int64],
    classes: Sequence[object] | None = None,
    *,
    name: str = "y",
    numbers: NDArray[np.intp] | None = None,
) -> None:
    """Raise InputError if a run of labels is too short, whatever the unobserved labels may be.

    Parameters
    ----------
    labels, offsets, durations, classes
        As of :class:`DurationLikelihood`.
    name, numbers : str and ndarray, optional
        What the labels and the sequences are called in messages.
    """
    numbers = np.arange(len(offsets) - 1) if numbers is None else numbers
    short = short_run(labels, offsets, durations)
    if short is not None:
        (row, length), code = short, int(labels[short[0]])
        sequence, position = locate(offsets, row)
        label = code if classes is None else classes[code]
        raise InputError(
            f"{name}[{numbers[sequence]}] has a run of {length} position(s) of {label!r} that starts at position "
            f"{position}, but min_duration asks for {durations[code]} or more; smooth the labels, or lower "
            f"min_duration of {label!r}"
        )
    if np.all(labels >= 0):
        return
    n_labels = len(durations)
    scores, table = np.zeros((n_labels, len(labels), 1), np.float32), np.zeros((1 + n_labels, n_labels))
    chain = DurationPotentials(scores, table, offsets, 1, durations=durations)
    impossible = np.flatnonzero(log_partition(chain, labels=labels, allow_impossible=True) == -np.inf)
    if len(impossible):
        raise InputError(
            f"no labels for the unobserved positions of {name}[{numbers[impossible[0]]}] make every run of a label as "
            f"long as min_duration asks for; lower min_duration, or leave more of its labels unobserved"
        )


@jit
def _sum_pairs(
    pairs: NDArray[np.float32],  # IN (K, n, K) P(y_{t-1}=j, y_t=k | X) as [k, t, j]; at the first position j = 0
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    setting: tuple[int, int],  # sequences that pairs holds
    weights: tuple[NDArray[np.float64], NDArray[np.float64]],  # IN (N,) of means and of variances
    mean: NDArray[np.float64],  # INOUT (1 + K, K) Σ w p is added
    variance: NDArray[np.float64],  # INOUT (1 + K, K) Σ v p(1 − p) is added
) -> None:
    n_labels, begin = pairs.shape[0], offsets[setting[0]]
    for s in range(setting[0], setting[1]):
        for t in range(offsets[s], offsets[s + 1]):
            is_start = t == offsets[s]
            for k in range(n_labels):
                for j in range(1 if is_start else n_labels):
                    prob, row = np.float64(pairs[k, t - begin, j]), 0 if is_start else 1 + j
                    mean[row, k] += weights[0][t] * prob
                    variance[row, k] += weights[1][t] * prob * (1.0 - prob)
