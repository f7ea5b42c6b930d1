"""Metrics of evaluation sets, computed each round beside log-likelihood and accuracy.

A metric is a name of :data:`METRICS` or a function ``metric(y_true, y_pred)``. The function gets two lists with an
array of labels for each sequence, as the user names them. Positions whose label is unobserved are left out, and so are
sequences that have no other positions or a weight of 0. It returns a number, where more is better, or LightGBM's
``(name, value, is_higher_better)``. Named metrics weight sequences and positions (that of whole
sequences, the former alone); functions are not told the weights.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.core.metrics import COUNT_METRICS, LabelCounts, log_loss, sequence_accuracy
from seqboost.objectives import Predictions

__all__ = ["METRICS", "Evaluator", "Measured", "Metric", "as_metrics"]

RECORDED = {"log_likelihood": "score", "accuracy": "accuracy"}
"""Metrics that every history has, and what its lists call them."""

METRICS = tuple(sorted({*RECORDED, *COUNT_METRICS, "sequence_accuracy", "log_loss"}))
"""Names that ``eval_metric`` may be."""

LOWER_IS_BETTER = ("log_loss",)


class Measured(NamedTuple):
    """What a metric came to."""

    name: str
    value: float
    is_higher_better: bool


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric by name, or by a function.

    Attributes
    ----------
    name : str
        What it is called.
    function : callable or None
        The user's function of true and predicted labels.
    """

    name: str
    function: Callable[[list[NDArray[Any]], list[NDArray[Any]]], Any] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether every history has it."""
        return self.function is None and self.name in RECORDED


def as_metrics(eval_metric: Any) -> tuple[Metric, ...]:
    """Return metrics from names and functions: one, a list, or None for none.

    Examples
    --------
    >>> [metric.name for metric in as_metrics(["macro_f1", "log_loss"])]
    ['macro_f1', 'log_loss']
    """
    if eval_metric is None:
        return ()
    listed = eval_metric if isinstance(eval_metric, (list, tuple)) else [eval_metric]
    metrics = tuple(_as_metric(metric) for metric in listed)
    _check_names([metric.name for metric in metrics])
    return metrics


def _as_metric(metric: Any) -> Metric:
    if isinstance(metric, str) and metric in METRICS:
        return Metric(metric)
    if callable(metric):
        return Metric(_name_of(metric), metric)
    raise ParameterError(
        f"eval_metric must be one of {', '.join(METRICS)}, a function metric(y_true, y_pred), or a list of these; "
        f"got {metric!r:.80}"
    )


def _name_of(function: Any) -> str:
    """Return the name of a function, or of the class of a callable object."""
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__name__", type(inner).__name__)
    return "custom" if name == "<lambda>" else str(name)


def _check_names(names: Sequence[str]) -> None:
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ParameterError(
            f"eval_metric has a metric called {twice!r}, which is the name of another one; have functions return "
            f"(name, value, is_higher_better) with names of their own"
        )


class EvaluatedSet:
    """The observed positions of some sequences.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        Label codes of all sequences, -1 = unobserved.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    classes : ndarray, shape (K,)
        The labels as the user names them.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences; 0: not one of the set.
    position_weights : ndarray of float64, shape (N,), optional
        Weights of positions, by which those of their sequences are multiplied.
    """

    def __init__(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        classes: NDArray[Any],
        weights: NDArray[np.float64],
        position_weights: NDArray[np.float64] | None = None,
    ) -> None:
        sequence = np.repeat(np.arange(len(weights)), np.diff(offsets))
        counts = (labels >= 0) & (weights[sequence] > 0)
        self._rows = np.flatnonzero(counts if position_weights is None else counts & (position_weights > 0))
        self._true = labels[self._rows]
        self._sequence = sequence[self._rows]
        self._weights, self._row_weights = weights, weights[self._sequence]
        if position_weights is not None:
            self._row_weights = self._row_weights * position_weights[self._rows]
        self._cuts = np.flatnonzero(np.diff(self._sequence)) + 1
        self._classes = classes

    @cached_property
    def _true_labels(self) -> list[NDArray[Any]]:
        return self._by_sequence(self._true)

    def measure(self, metric: Metric, predictions: Predictions, name: str) -> Measured:
        """Return what a metric comes to; NaN without observed labels. ``name`` is that of the set, for messages."""
        if metric.function is not None:
            return self._call(metric, predictions, name)
        is_higher_better = metric.name not in LOWER_IS_BETTER
        predicted = predictions.labels[self._rows]
        if metric.name == "log_loss":
            value = log_loss(predictions.prob[self._rows], self._row_weights)
        elif metric.name == "sequence_accuracy":
            value = sequence_accuracy(predicted == self._true, self._sequence, self._weights)
        else:
            counts = LabelCounts.from_codes(self._true, predicted, len(self._classes), self._row_weights)
            value = COUNT_METRICS[metric.name](counts)
        return Measured(metric.name, value, is_higher_better)

    def _call(self, metric: Metric, predictions: Predictions, name: str) -> Measured:
        """Ask the user's function."""
        if not len(self._rows):
            return Measured(metric.name, math.nan, True)
        assert metric.function is not None
        predicted = self._by_sequence(predictions.labels[self._rows])
        try:
            answer = metric.function(list(self._true_labels), predicted)
        except Exception as error:
            raise ParameterError(
                f"eval_metric {metric.name!r} failed on the evaluation set {name!r} with {type(error).__name__}: "
                f"{error}. It is called as metric(y_true, y_pred) with two lists of label arrays, one for each sequence"
            ) from error
        return _measured(metric, answer)

    def _by_sequence(self, codes: NDArray[np.int32]) -> list[NDArray[Any]]:
        """Return labels of the observed positions, sequence by sequence."""
        return np.split(self._classes[codes], self._cuts) if len(codes) else []


def _measured(metric: Metric, answer: Any) -> Measured:
    """Return the answer of a user's function, checked."""
    name, value, is_higher_better = metric.name, answer, True
    if isinstance(answer, tuple) and len(answer) == 3:
        name, value, is_higher_better = answer
    is_number = isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0)
    if not is_number or not isinstance(name, str) or not isinstance(is_higher_better, (bool, np.bool_)):
        raise ParameterError(
            f"eval_metric {metric.name!r} returned {answer!r:.80}; expected a number, or a tuple (name, value, "
            f"is_higher_better)"
        )
    return Measured(name, float(value), bool(is_higher_better))


class Evaluator:
    """Metrics, and the labels they compare predictions with.

    Parameters
    ----------
    metrics : sequence of Metric
        What to compute; the first one is what stops a training.
    labels : ndarray of int32, shape (N,)
        Label codes, -1 = unobserved.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    classes : ndarray, shape (K,)
        The labels as the user names them.
    label_weights : ndarray of float64, shape (K,), optional
        Weights of labels at prediction (``class_weight``).
    position_weights : ndarray of float64, shape (N,), optional
        Weights of positions.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        classes: NDArray[Any],
        label_weights: NDArray[np.float64] | None = None,
        position_weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.metrics = tuple(metrics)
        self.offsets, self.label_weights = offsets, label_weights
        self._labels, self._classes, self._position_weights = labels, np.asarray(classes), position_weights

    @property
    def needs_predictions(self) -> bool:
        """Whether there is a metric that a history does not have anyway."""
        return not all(metric.is_recorded for metric in self.metrics)

    def set_of(self, weights: NDArray[np.float64]) -> EvaluatedSet:
        """Return the set of the sequences with these weights, 0 for all others."""
        return EvaluatedSet(self._labels, self.offsets, self._classes, weights, self._position_weights)

    def measure(self, of: EvaluatedSet, predictions: Predictions, name: str) -> list[Measured]:
        """Return what the metrics come to that a history does not have anyway."""
        found = [of.measure(metric, predictions, name) for metric in self.metrics if not metric.is_recorded]
        _check_names(["log_likelihood", "score", "accuracy", *(measured.name for measured in found)])
        return found
