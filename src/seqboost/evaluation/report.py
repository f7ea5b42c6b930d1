"""Everything that is usually asked of a labelling, at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqboost import as_labels
from seqboost.core.exceptions import InputError
from seqboost.evaluation.calibration import Calibration, calibration
from seqboost.evaluation.chunks import SpanScores, span_scores
from seqboost.evaluation.scores import (
    Confusion,
    LabelScore,
    accuracy,
    as_floats,
    confusion,
    is_observed,
    label_scores,
    sequence_accuracy,
)

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good a labelling is.

    Attributes
    ----------
    n_sequences, n_positions : int
        Sequences, and positions with an observed label.
    accuracy, sequence_accuracy : float
        Shares of positions and of whole sequences that are right.
    labels : tuple of LabelScore
        Precision, recall and F1 of each label.
    confusion : Confusion
        Which label was taken for which.
    spans : SpanScores or None
        Precision, recall and F1 of spans, if a scheme was named.
    log_likelihood : float or None
        Mean of log P(y | X) per position, if it was given.
    calibration : Calibration or None
        What probabilities are worth, if they were given.
    """

    n_sequences: int
    n_positions: int
    accuracy: float
    sequence_accuracy: float
    labels: tuple[LabelScore, ...]
    confusion: Confusion
    spans: SpanScores | None = None
    log_likelihood: float | None = None
    calibration: Calibration | None = None

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the labels that occur in the truth."""
        return float(np.mean([score.f1 for score in self.labels if score.n_true]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers, ready for JSON."""
        document: dict[str, Any] = {
            "n_sequences": self.n_sequences,
            "n_positions": self.n_positions,
            "accuracy": self.accuracy,
            "sequence_accuracy": self.sequence_accuracy,
            "macro_f1": self.macro_f1,
            "labels": [_plain(score) for score in self.labels],
            "confusion": {
                "labels": [_scalar(label) for label in self.confusion.labels],
                "counts": self.confusion.counts.tolist(),
            },
        }
        if self.spans is not None:
            document["spans"] = {
                "overall": _plain(self.spans.overall),
                "by_type": [_plain(score) for score in self.spans.by_type],
            }
        if self.log_likelihood is not None:
            document["log_likelihood"] = self.log_likelihood if np.isfinite(self.log_likelihood) else None
        if self.calibration is not None:
            document["calibration"] = {
                "error": self.calibration.error,
                "bins": [found._asdict() for found in self.calibration.bins],
            }
        return document


def evaluate(
    y_true: Any,
    y_pred: Any,
    *,
    scheme: str | None = None,
    proba: Any = None,
    classes: Any = None,
    log_prob: Any = None,
) -> Evaluation:
    """Compare predicted labels with true ones in all the usual ways.

    Parameters
    ----------
    y_true, y_pred : list of label sequences
        Labels of the same sequences; None or NaN in ``y_true`` = unobserved.
    scheme : str, optional
        Scheme of the tags, if labels are tags of spans: see :func:`span_scores`.
    proba, classes : optional
        Probabilities and the labels of their columns: see :func:`calibration`.
    log_prob : array-like of shape (n_sequences,), optional
        log P(y | X) of each sequence, as ``TreeCRF.log_prob`` gives it.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from seqboost.evaluation import evaluate
    >>> found = evaluate([["B-NP", "I-NP", "O"], ["O"]], [["B-NP", "O", "O"], ["O"]], scheme="IOB2")
    >>> found.accuracy, found.sequence_accuracy, found.spans.overall.f1
    (0.75, 0.5, 0.0)
    """
    y_true, y_pred = as_labels(y_true, name="y_true"), as_labels(y_pred, name="y_pred")  # once: iterators
    counted = confusion(y_true, y_pred)
    n_positions = sum(is_observed(label) for sequence in y_true for label in sequence)
    return Evaluation(
        n_sequences=len(y_true),
        n_positions=n_positions,
        accuracy=accuracy(y_true, y_pred),
        sequence_accuracy=sequence_accuracy(y_true, y_pred),
        labels=tuple(label_scores(counted)),
        confusion=counted,
        spans=None if scheme is None else span_scores(y_true, y_pred, scheme),
        log_likelihood=None if log_prob is None else _total(log_prob, len(y_true)) / n_positions,
        calibration=None if proba is None else calibration(y_true, proba, classes),
    )


def _total(log_prob: Any, n_sequences: int) -> float:
    """Return log P of all sequences together."""
    values = as_floats(log_prob, "log_prob")
    if values.shape != (n_sequences,) or not (values <= 0).all():
        raise InputError(
            f"log_prob has shape {values.shape}; expected ({n_sequences},), a log-probability of at most 0 for each "
            "sequence of y_true."
        )
    return float(values.sum())


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _plain(score: LabelScore) -> dict[str, Any]:
    return {**score._asdict(), "name": _scalar(score.name)}
