"""Scorers of sequences for scikit-learn's cross-validation and searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost import SequenceBatch, as_labels
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.metrics import COUNT_METRICS, LabelCounts, log_loss
from seqboost.evaluation.chunks import span_scores
from seqboost.evaluation.labelling import UNABLE, by_sequence, known_labels, read_for
from seqboost.evaluation.scores import confusion, is_observed, sequence_accuracy

__all__ = ["SequenceScorer", "sequence_scorer"]

NAMES = tuple(sorted({*COUNT_METRICS, "log_likelihood", "neg_log_loss", "sequence_accuracy", "span_f1"}))


class SequenceScorer:
    """A scorer of fitted labelers, ``scorer(estimator, X, y)``; see :func:`sequence_scorer`."""

    def __init__(self, metric: str | Callable[..., Any], greater_is_better: bool, options: dict[str, Any]) -> None:
        self._metric, self._greater_is_better, self._options = metric, greater_is_better, options

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted labeler on sequences, lists or a table; the higher the better."""
        batch = read_for(estimator, X)
        given = batch if hasattr(estimator, "_schema") else X
        truth = as_labels(y, batch)
        if not any(is_observed(label) for labels in truth for label in labels):
            raise InputError("y has no observed label to score with: every label is None or NaN")
        if self._metric in ("log_likelihood", "neg_log_loss"):
            return self._probable(estimator, batch, given, truth)
        predicted = by_sequence(batch, estimator.predict(given))
        if not isinstance(self._metric, str):
            return self._called(self._metric, truth, predicted)
        if self._metric == "span_f1":
            return span_scores(truth, predicted, **self._options).overall.f1
        if self._metric == "sequence_accuracy":
            return sequence_accuracy(truth, predicted)
        counts = confusion(truth, predicted).counts.astype(np.float64)
        return COUNT_METRICS[self._metric](LabelCounts(counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)))

    def __repr__(self) -> str:
        """Return the call that made it."""
        metric = repr(self._metric) if isinstance(self._metric, str) else getattr(self._metric, "__name__", "metric")
        options = {**({} if self._greater_is_better else {"greater_is_better": False}), **self._options}
        return f"sequence_scorer({', '.join([metric, *(f'{name}={value!r}' for name, value in options.items())])})"

    def _probable(self, estimator: Any, batch: SequenceBatch, given: Any, truth: list[list[Any]]) -> float:
        """Score the probabilities of the true labels."""
        column = {label: k for k, label in enumerate(np.asarray(estimator.classes_).tolist())}
        n_known = sum(label in column for labels in truth for label in labels if is_observed(label))
        if n_known == 0:
            raise InputError(f"y has no label that {type(estimator).__name__} was trained with: {list(column)!r:.80}")
        try:
            if self._metric == "log_likelihood":
                return float(np.sum(estimator.log_prob(given, known_labels(batch, truth, set(column))))) / n_known
            proba = by_sequence(batch, estimator.predict_proba(given))
        except UNABLE as error:
            raise ParameterError(
                f"the scorer {self._metric!r} needs probabilities, which {type(estimator).__name__} does not give: "
                f"{error}. Choose a scorer of labels, as 'accuracy' or 'macro_f1'"
            ) from error
        own = [
            float(rows[t, column[label]]) if label in column else 0.0
            for labels, rows in zip(truth, proba, strict=True)
            for t, label in enumerate(labels)
            if is_observed(label)
        ]
        return -log_loss(np.array(own))

    def _called(self, metric: Callable[..., Any], truth: list[list[Any]], predicted: list[NDArray[Any]]) -> float:
        """Score by the user's function of what is observed."""
        observed = [np.flatnonzero([is_observed(label) for label in labels]) for labels in truth]
        pairs = [
            (_array([labels[t] for t in rows], guesses.dtype), guesses[rows])
            for labels, guesses, rows in zip(truth, predicted, observed, strict=True)
            if len(rows)
        ]
        value = metric([true for true, _ in pairs], [guesses for _, guesses in pairs], **self._options)
        return float(value) if self._greater_is_better else -float(value)


def sequence_scorer(
    metric: str | Callable[..., Any], *, greater_is_better: bool = True, **options: Any
) -> SequenceScorer:
    """Make a scorer for ``scoring=`` of scikit-learn's ``cross_validate``, ``cross_val_score`` and ``GridSearchCV``.

    scikit-learn's own scorers compare flat arrays of labels; these take lists of sequences, and tables, as labelers do.
    Positions whose label is unobserved (None, NaN) do not count.

    Parameters
    ----------
    metric : str or callable
        "accuracy", "balanced_accuracy" (mean recall of labels), "macro_f1" and "weighted_f1" (mean F1 of labels),
        "cohen_kappa", "matthews_corrcoef", "sequence_accuracy" (share of sequences without an error), "span_f1" (F1 of
        spans; needs ``scheme``), "log_likelihood" (mean log P(y | X) per position) or "neg_log_loss" (mean
        log P(y_t | X)). Means over labels are over those that occur in ``y``. Or a function ``metric(y_true, y_pred)``
        of two lists with an array of labels for each sequence, without unobserved positions.
    greater_is_better : bool, default=True
        Whether more is better; False has the scorer change the sign of what a function returns.
    **options
        Further arguments of the function, or ``scheme`` of "span_f1".

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y)`` returns a float, the higher the better.

    Examples
    --------
    >>> from sklearn.model_selection import KFold, cross_validate
    >>> from seqboost import HMM
    >>> from seqboost.evaluation import sequence_scorer
    >>> words, vowels = ["banana", "tomato", "queue"] * 4, ["010101", "010101", "01111"] * 4
    >>> scoring = {name: sequence_scorer(name) for name in ("macro_f1", "neg_log_loss")}
    >>> sorted(cross_validate(HMM(), words, vowels, scoring=scoring, cv=KFold(3)))
    ['fit_time', 'score_time', 'test_macro_f1', 'test_neg_log_loss']
    """
    if isinstance(metric, str):
        _check_named(metric, greater_is_better, options)
    elif not callable(metric):
        raise ParameterError(_expected(metric))
    if not isinstance(greater_is_better, (bool, np.bool_)):
        raise ParameterError(f"greater_is_better must be True or False; got {greater_is_better!r}")
    return SequenceScorer(metric, bool(greater_is_better), options)


def _check_named(name: str, greater_is_better: bool, options: dict[str, Any]) -> None:
    """Raise ParameterError for names that are not known, and for arguments that they do not take."""
    if name not in NAMES:
        raise ParameterError(_expected(name))
    if greater_is_better is False:
        raise ParameterError(f"greater_is_better is for functions; {name!r} knows that more is better")
    takes = {"scheme"} if name == "span_f1" else set()
    if set(options) != takes:
        expected = "scheme=..., as 'IOB2'" if takes else "no further arguments"
        raise ParameterError(f"the scorer {name!r} takes {expected}; got {sorted(options) or 'none'}")


def _expected(metric: Any) -> str:
    return f"metric must be one of {', '.join(NAMES)}, or a function metric(y_true, y_pred); got {metric!r:.80}"


def _array(labels: list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return labels as an array of the kind that predictions have, or of objects if they are of another kind."""
    found = np.array(labels) if dtype.kind != "O" else np.empty(0)
    if found.dtype.kind == dtype.kind and found.shape == (len(labels),):
        return found
    objects = np.empty(len(labels), dtype=object)
    objects[:] = labels
    return objects
