"""A model's answers beside the truth, one entry for each sequence, whatever form the data came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost import SequenceBatch, as_batch, as_labels
from seqboost.core.exceptions import InputError, SeqboostError
from seqboost.evaluation.report import Evaluation, evaluate
from seqboost.evaluation.scores import is_observed

__all__ = ["LabelledSequences", "label_sequences"]

# What labellers say that cannot do something: no such method, not for such data or settings.
UNABLE = (SeqboostError, AttributeError, NotImplementedError)


@dataclass(frozen=True, eq=False)
class LabelledSequences:
    """Sequences with the labels they have, those a model gives them, and how sure it is.

    Attributes
    ----------
    batch : SequenceBatch
        The sequences.
    classes : tuple
        The labels that the model knows.
    predicted : list of lists
        Predicted labels of each sequence.
    truth : list of lists, or None
        True labels of each sequence, None = unobserved; None if none were given.
    proba : list of ndarray of shape (n_elements, n_labels), or None
        Probabilities of labels; None if the model has none.
    log_prob : ndarray of shape (n_sequences,), or None
        log P(truth | X) of each sequence; None without truth, or if the model has no probabilities of labellings.
    lacking : dict of str to str
        Why ``proba`` or ``log_prob`` is None, in the words of the model; "" if it has no such method.
    """

    batch: SequenceBatch
    classes: tuple[Any, ...]
    predicted: list[list[Any]]
    truth: list[list[Any]] | None = None
    proba: list[NDArray[np.float64]] | None = None
    log_prob: NDArray[np.float64] | None = None
    lacking: dict[str, str] = field(default_factory=dict)

    @property
    def has_truth(self) -> bool:
        """Whether there is at least one label to compare with."""
        return self.truth is not None and any(is_observed(label) for labels in self.truth for label in labels)

    def evaluate(self, scheme: str | None = None) -> Evaluation:
        """Compare predictions with the truth: see :func:`seqboost.evaluation.evaluate`."""
        if self.truth is None:
            raise InputError("there are no true labels to compare with; pass y to label_sequences")
        return evaluate(
            self.truth, self.predicted, scheme=scheme, proba=self.proba, classes=self.classes, log_prob=self.log_prob
        )


def label_sequences(model: Any, X: Any, y: Any = None, *, allow_missing_columns: bool = False) -> LabelledSequences:
    """Label sequences with a model; lists and tables alike come back sequence by sequence.

    Parameters
    ----------
    model : labeller
        Any fitted estimator of seqboost.
    X : as in ``fit``
        Sequences.
    y : as in ``fit``, optional
        True labels; those that the model does not know count as errors, and as unobserved in ``log_prob``.
    allow_missing_columns : bool, default=False
        As in ``predict``.

    Returns
    -------
    LabelledSequences

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.evaluation import label_sequences
    >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
    >>> found = label_sequences(model, ["manana"], ["010101"])
    >>> found.predicted, found.evaluate().accuracy
    ([['0', '1', '0', '1', '0', '1']], 1.0)
    """
    y = labels_for(model, X, y)
    batch = read_for(model, X, allow_missing_columns)
    given = batch if hasattr(model, "_schema") else X
    classes = tuple(np.asarray(model.classes_).tolist())
    truth = None if y is None else as_labels(y, batch)
    lacking: dict[str, str] = {}
    proba = log_prob = None
    try:
        proba = by_sequence(batch, model.predict_proba(given))
    except UNABLE as error:
        lacking["proba"] = _reason(error)
    if truth is not None:
        try:
            log_prob = np.asarray(model.log_prob(given, known_labels(batch, truth, set(classes))), dtype=np.float64)
        except UNABLE as error:
            lacking["log_prob"] = _reason(error)
    predicted = [labels.tolist() for labels in by_sequence(batch, model.predict(given))]
    return LabelledSequences(batch, classes, predicted, truth, proba, log_prob, lacking)


def labels_for(model: Any, X: Any, y: Any) -> Any:
    """Return labels: y, or the column of a table that y names."""
    return model._labels(X, y) if isinstance(y, str) and hasattr(model, "_labels") else y


def read_for(model: Any, X: Any, allow_missing_columns: bool = False) -> SequenceBatch:
    """Read sequences with the columns that a fitted labeller was trained with."""
    return as_batch(
        X, sequence=getattr(model, "sequence", None), time=getattr(model, "time", None),
        schema=getattr(model, "_schema", None), estimator_name=type(model).__name__,
        allow_missing_columns=allow_missing_columns,
    )  # fmt: skip


def _reason(error: Exception) -> str:
    return "" if isinstance(error, AttributeError) else str(error)


def by_sequence(batch: SequenceBatch, answer: Any) -> list[NDArray[Any]]:
    """Divide answers in the user's form (a list, or one array in the order of a table's rows) into sequences."""
    rank = batch.origin.sequence_rank if batch.origin.origin == "list" else None
    if batch.origin.origin == "list" and rank is None:
        return [np.asarray(part) for part in answer]
    flat = np.asarray(answer) if rank is None else np.concatenate(answer)[rank]
    if batch.origin.origin == "table":
        flat = flat[batch.origin.table_rank]
    bounds = batch.offsets.tolist()
    return [flat[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]


def known_labels(batch: SequenceBatch, truth: list[list[Any]], known: set[Any]) -> Any:
    """Return labels in the user's form, None for those that the model does not know."""
    flat = np.empty(batch.n_rows, dtype=object)
    flat[:] = [label if label in known else None for labels in truth for label in labels]
    restored = batch.restore(flat)
    return [part.tolist() for part in restored] if isinstance(restored, list) else restored.tolist()
