"""How often labels are right: positions, whole sequences, label by label."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost import as_labels
from seqboost.core.exceptions import InputError, InputTypeError

__all__ = ["Confusion", "LabelScore", "accuracy", "confusion", "label_scores", "sequence_accuracy"]


class LabelScore(NamedTuple):
    """Precision, recall and F1 of a label or of a type of span.

    Attributes
    ----------
    name : object
        The label or type.
    precision : float
        Share of what was predicted that is right; 0 if nothing was.
    recall : float
        Share of what is true that was predicted; 0 if nothing is.
    f1 : float
        2 · precision · recall / (precision + recall).
    n_true, n_predicted, n_right : int
        What they are shares of.
    """

    name: Any
    precision: float
    recall: float
    f1: float
    n_true: int
    n_predicted: int
    n_right: int

    @classmethod
    def from_counts(cls, name: Any, n_true: int, n_predicted: int, n_right: int) -> LabelScore:
        """Compute the shares."""
        precision = n_right / n_predicted if n_predicted else 0.0
        recall = n_right / n_true if n_true else 0.0
        f1 = 2 * precision * recall / (precision + recall) if n_right else 0.0
        return cls(name, precision, recall, f1, int(n_true), int(n_predicted), int(n_right))


@dataclass(frozen=True, eq=False)
class Confusion:
    """How often which label was taken for which.

    Attributes
    ----------
    labels : tuple
        True and predicted labels, sorted where they can be.
    counts : ndarray of int64, shape (n_labels, n_labels)
        Row = true, column = predicted.
    """

    labels: tuple[Any, ...]
    counts: NDArray[np.int64]

    def worst(self, n: int = 10) -> list[tuple[Any, Any, int]]:
        """Return the commonest mistakes: true label, predicted label, how often."""
        wrong = self.counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:n]
        places = [divmod(int(i), len(self.labels)) for i in order]
        return [(self.labels[i], self.labels[j], int(wrong[i, j])) for i, j in places if wrong[i, j]]


def accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of positions that are labelled right; unobserved labels (None, NaN) do not count.

    Parameters
    ----------
    y_true, y_pred : list of label sequences
        Labels of the same sequences.

    Examples
    --------
    >>> accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.6666666666666666
    """
    return float(np.concatenate(_observed_parts(y_true, y_pred)).mean())


def sequence_accuracy(y_true: Any, y_pred: Any) -> float:
    """Return the share of sequences whose observed labels are all right; those without any do not count.

    Parameters
    ----------
    y_true, y_pred : list of label sequences
        Labels of the same sequences.

    Examples
    --------
    >>> sequence_accuracy([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    return float(np.mean([part.all() for part in _observed_parts(y_true, y_pred)]))


def right_positions(y_true: Any, y_pred: Any) -> list[NDArray[np.bool_]]:
    """Return, for each sequence, which of its positions with an observed label are labelled right."""
    return [right_in_sequence(*pair) for pair in paired(y_true, y_pred)]


def right_in_sequence(true: list[Any], predicted: list[Any]) -> NDArray[np.bool_]:
    """Return which positions with an observed label are labelled right."""
    right = [bool(t == p) for t, p in zip(true, predicted, strict=True) if is_observed(t)]
    return np.array(right, dtype=np.bool_)


def _observed_parts(y_true: Any, y_pred: Any) -> list[NDArray[np.bool_]]:
    """Return what `right_positions` does, without the sequences that have no observed label; refuse if none has."""
    observed = [part for part in right_positions(y_true, y_pred) if part.size]
    if not observed:
        raise InputError("y_true has no observed label to compare with: every label is None or NaN")
    return observed


def confusion(y_true: Any, y_pred: Any) -> Confusion:
    """Count which label was taken for which.

    Parameters
    ----------
    y_true, y_pred : list of label sequences
        Labels of the same sequences; unobserved ones do not count.

    Examples
    --------
    >>> found = confusion([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    >>> found.labels, found.counts.tolist()
    (('a', 'b'), [[2, 0], [1, 0]])
    """
    flat = [
        (t, p)
        for true, predicted in paired(y_true, y_pred)
        for t, p in zip(true, predicted, strict=True)
        if is_observed(t)
    ]
    labels = sorted_labels({label for pair in flat for label in pair})
    index = {label: k for k, label in enumerate(labels)}
    codes = np.array([index[t] * len(labels) + index[p] for t, p in flat], dtype=np.int64)
    counts = np.bincount(codes, minlength=len(labels) ** 2).reshape(len(labels), len(labels))
    return Confusion(tuple(labels), counts)


def label_scores(counted: Confusion) -> list[LabelScore]:
    """Return precision, recall and F1 of each label.

    Examples
    --------
    >>> scores = label_scores(confusion([["a", "b"], ["a"]], [["a", "a"], ["a"]]))
    >>> scores[0].name, scores[0].recall, round(scores[0].precision, 3)
    ('a', 1.0, 0.667)
    """
    true, predicted, right = counted.counts.sum(axis=1), counted.counts.sum(axis=0), np.diag(counted.counts)
    return [
        LabelScore.from_counts(label, int(true[k]), int(predicted[k]), int(right[k]))
        for k, label in enumerate(counted.labels)
    ]


def paired(y_true: Any, y_pred: Any) -> list[tuple[list[Any], list[Any]]]:
    """Return the labels of each sequence, true and predicted, as lists."""
    true, predicted = as_labels(y_true, name="y_true"), as_labels(y_pred, name="y_pred")
    if len(true) != len(predicted):
        raise InputError(f"y_true has {len(true)} sequences but y_pred has {len(predicted)}; expected the same ones.")
    for s, (labels, guesses) in enumerate(zip(true, predicted, strict=True)):
        if len(labels) != len(guesses):
            raise InputError(f"y_true[{s}] has {len(labels)} labels but y_pred[{s}] has {len(guesses)}.")
    return list(zip(true, predicted, strict=True))


def as_floats(values: Any, name: str) -> NDArray[np.float64]:
    """Return numbers as an array of floats, refusing what NumPy would make floats of, as strings and times."""
    try:
        given = np.asarray(values)
        with np.errstate(over="ignore"):  # a longdouble beyond all floats becomes infinite, and is refused as such
            if given.dtype.kind == "O" and all(isinstance(value, Real) for value in given.flat):
                given = given.astype(np.float64)
            if given.dtype.kind not in "biuf":
                raise TypeError
            return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(f"{name} must hold numbers, one for each place of a regular array.") from None


def is_observed(label: Any) -> bool:
    """Return whether a label is one: neither None nor NaN."""
    return label is not None and bool(label == label)


def sorted_labels(labels: set[Any]) -> list[Any]:
    """Sort labels, by their text if they do not compare."""
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=str)
