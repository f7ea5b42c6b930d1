"""HMM: a hidden Markov model whose states are the labels, trained by counting.

    P(X, Y) = Π_t P(y_t | y_{t-1}, .., y_{t-m}) P(x_t | y_t)

    scores[k, t] = log P(x_t | k)         emissions.py            table[e, k] = log P(k | context e)

Given X this is a chain with factored potentials, so all that is asked of it is answered exactly by ``seqboost.chain``.

Transitions are smoothed towards shorter histories (Witten and Bell 1991), so that a high order does no harm:

    P_j(k | c) = (n(c,k) + d(c) P_{j-1}(k | c')) / (n(c) + d(c))        P_0(k) = (n(k) + 1) / (n + K)

c' is c without its oldest label, d(c) the number of different labels seen after c. Contexts at the start of a sequence,
which hold the start symbol, are smoothed towards the same labels anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials
from seqboost.core.contexts import ContextSpace, observed_contexts
from seqboost.core.offsets import positions
from seqboost.core.parameters import check_parameters, integer, plain_number, real
from seqboost.core.stored import LARGEST_SCORE, MAX_ORDER, Stored
from seqboost.estimators.arguments import unchanged_on_failure
from seqboost.estimators.family.emissions import Emissions, log_probabilities
from seqboost.estimators.prediction import PREDICTION_RULES, SequenceLabeler
from seqboost.sequences import SequenceBatch

__all__ = ["HMM", "transition_scores"]


def transition_scores(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    row_weights: NDArray[np.float64],
    n_labels: int,
    order: int,
) -> NDArray[np.float64]:
    """Return log P(k | context), (E, K), smoothed as the head of this module says; unobserved labels do not count."""
    counted = np.flatnonzero(labels >= 0)
    shares = np.bincount(labels[counted], weights=row_weights[counted], minlength=n_labels) + 1.0
    anywhere = (shares / shares.sum())[None, :]  # P_0
    position = positions(offsets)
    parts = []
    for j in range(order + 1):
        context, _ = observed_contexts(labels, offsets, n_labels, j, mark_unobserved=True)
        known = (labels >= 0) & (context >= 0) & (position >= j)
        if j:
            shorter = anywhere[np.arange(n_labels**j) % n_labels ** (j - 1)]
            rows = np.flatnonzero(known)
            anywhere = _smoothed(labels[rows], context[rows], row_weights[rows], shorter)
        if j < order:  # histories that begin with the sequence
            rows = np.flatnonzero(known & (position == j))
            parts.append(_smoothed(labels[rows], context[rows], row_weights[rows], anywhere))
    table: NDArray[np.float64] = np.log(np.vstack([*parts, anywhere]))
    return table


def _smoothed(
    labels: NDArray[np.int32], context: NDArray[np.int32], weights: NDArray[np.float64], shorter: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (n(c,k) + d(c) P'(k|c)) / (n(c) + d(c)), and P' itself where c was never seen."""
    n_contexts, n_labels = shorter.shape
    cells = context.astype(np.int64) * n_labels + labels
    counts = np.bincount(cells, weights=weights, minlength=n_contexts * n_labels).reshape(n_contexts, n_labels)
    n_different = (counts > 0).sum(axis=1, keepdims=True)
    total = counts.sum(axis=1, keepdims=True) + n_different
    return np.where(total > 0, (counts + n_different * shorter) / np.where(total > 0, total, 1.0), shorter)


class HMM(SequenceLabeler):
    """Label sequences with a hidden Markov model: labels emit the columns, each independently of the others.

    Training is counting, so it takes an instant; columns that say the same thing twice are counted twice.

    Parameters
    ----------
    order : int, default=1
        How many labels back a label depends on; 0 is naive Bayes.
    smoothing : float, default=1.0
        Added to the counts of categories.
    decoding : {"posterior", "viterbi"}, default="posterior"
        As in :class:`~seqboost.TreeCRF`.
    categorical_features : None, list of columns or boolean mask, default=None
        Numeric columns to be treated as categories. Columns of strings always are.
    sequence : str, list of str or None, default=None
        Name of the column that tells sequences apart, if X is a table; a list: columns that do so together.
    time : str or None, default=None
        Name of the column of the table (or of each table in a list) that orders the positions of a sequence: dates
        and times, or numbers. It is no feature; the gap to the position before, in seconds or as a difference, is one.
    n_jobs : int or None, default=None
        Number of threads of prediction.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels.
    transition_scores_ : ndarray of shape (n_contexts, n_labels)
        log P(y_t | the labels before), contexts near the start first, as :mod:`seqboost.core.contexts` has them.
    n_features_in_ : int
        Number of columns.

    See Also
    --------
    seqboost.MEMM, seqboost.TreeCRF : Models of P(Y | X), which may look at overlapping windows.

    References
    ----------
    Rabiner, L. R. (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
    Proceedings of the IEEE 77.

    Witten, I. H. and Bell, T. C. (1991). The zero-frequency problem. IEEE Transactions on Information Theory 37.

    Examples
    --------
    >>> from seqboost import HMM
    >>> model = HMM().fit([["walk", "shop", "clean"], ["walk", "walk"]], [["sun", "sun", "rain"], ["sun", "sun"]])
    >>> print(*model.predict([["walk", "clean", "clean"]])[0])
    sun rain rain
    """

    def __init__(
        self,
        *,
        order: int = 1,
        smoothing: float = 1.0,
        decoding: str = "posterior",
        categorical_features: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.order = order
        self.smoothing = smoothing
        self.decoding = decoding
        self.categorical_features = categorical_features
        self.sequence = sequence
        self.time = time
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HMM:
        """Count labels, transitions and emissions.

        Parameters
        ----------
        X, y : as in :meth:`seqboost.TreeCRF.fit`
            Positions with an unobserved label do not count.
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences.

        Returns
        -------
        self : HMM
        """
        rules = {"order": integer(0, 8), "smoothing": real(0, open_low=True), **PREDICTION_RULES}
        check_parameters("HMM", vars(self), rules)
        with unchanged_on_failure(self):
            training = self._learned(X, y, sample_weight)
            batch, labels, n_labels = training.batch, training.labels, len(self.classes_)
            weights = np.repeat(training.weights, batch.lengths)
            self._order = int(plain_number(self.order))
            self.transition_scores_ = transition_scores(labels, batch.offsets, weights, n_labels, self._order)
            self._emissions = Emissions.fit(batch, labels, weights, n_labels, float(self.smoothing))
        return self

    def _scored(self, batch: SequenceBatch) -> Potentials:
        scores = self._emissions.scores(batch)
        # What all labels have in common cancels; without it, differences keep their digits in single precision.
        scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -LARGEST_SCORE)
        by_label = np.ascontiguousarray(scores.T[:, :, None], dtype=np.float32)
        return Potentials(by_label, self.transition_scores_, batch.offsets, self._order)

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, header = self._emissions.to_arrays()
        return arrays | {"table": self.transition_scores_}, {"emissions": header, "order": self._order}

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        stored, n_labels = Stored("transitions", arrays, header), len(self.classes_)
        self._order = stored.integer("order", 0, MAX_ORDER)
        shape = (ContextSpace(n_labels, self._order).n_extended, n_labels)
        self.transition_scores_ = log_probabilities(stored, "table", shape, axis=1)
        self._emissions = Emissions.from_arrays(arrays, stored.field("emissions", dict), n_labels)
        self._emissions.binner.check_schema(self._schema)
