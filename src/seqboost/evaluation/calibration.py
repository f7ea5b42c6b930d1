"""Probabilities and shares: of the labels given with 80 %, how many are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost import as_labels
from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.evaluation.scores import as_floats, is_observed

__all__ = ["Calibration", "CalibrationBin", "calibration"]


class CalibrationBin(NamedTuple):
    """Positions whose best label has a probability between two bounds."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """How far probabilities are from shares.

    Attributes
    ----------
    error : float
        Expected calibration error: Σ_b n_b / n · |accuracy_b − confidence_b|.
    bins : tuple of CalibrationBin
        Those that hold positions.
    """

    error: float
    bins: tuple[CalibrationBin, ...]


def calibration(y_true: Any, proba: Any, classes: Any, n_bins: int = 10) -> Calibration:
    """Compare the probability of the most probable label with how often it is right (Guo et al. 2017).

    Parameters
    ----------
    y_true : list of label sequences
        None or NaN = unobserved: left out.
    proba : list of ndarray of shape (n_elements, n_labels)
        Probabilities, as ``predict_proba`` gives them.
    classes : array-like of shape (n_labels,)
        The labels of the columns.
    n_bins : int, default=10
        Number of bins of equal width between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> found = calibration([["a", "b"]], [np.array([[0.9, 0.1], [0.7, 0.3]])], ["a", "b"])
    >>> round(found.error, 3), len(found.bins)
    (0.4, 2)
    """
    if not isinstance(n_bins, int) or n_bins < 1:
        raise ParameterError(f"n_bins={n_bins!r}: expected a whole number of 1 or more")
    names = _names(classes)
    truth = as_labels(y_true, name="y_true")
    rows = _probabilities(proba, [len(labels) for labels in truth], len(names))
    observed = np.array([is_observed(label) for labels in truth for label in labels], dtype=np.bool_)
    if not observed.any():
        raise InputError("y_true has no observed label to compare with: every label is None or NaN")
    p, best = rows[observed].max(axis=1), rows[observed].argmax(axis=1).tolist()
    labels = [label for labels in truth for label in labels if is_observed(label)]
    hit = np.array([names[k] == label for k, label in zip(best, labels, strict=True)], dtype=np.float64)
    place = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    bins = []
    for b in range(n_bins):
        inside = place == b
        if inside.any():
            bins.append(
                CalibrationBin(
                    b / n_bins, (b + 1) / n_bins, int(inside.sum()), float(p[inside].mean()), float(hit[inside].mean())
                )
            )
    error = sum(found.n / len(p) * abs(found.accuracy - found.confidence) for found in bins)
    return Calibration(float(error), tuple(bins))


def _names(classes: Any) -> list[Any]:
    """Return the labels of the columns."""
    try:
        return [name.item() if isinstance(name, np.generic) else name for name in classes]
    except TypeError:
        raise InputTypeError(
            f"classes is {classes!r:.60}, a {type(classes).__name__}; expected the labels of the columns of proba, as "
            "classes_ of a model has them."
        ) from None


def _probabilities(proba: Any, lengths: list[int], n_labels: int) -> NDArray[np.float64]:
    """Return the probabilities of all positions, one row for each."""
    try:
        parts = [as_floats(part, f"proba[{s}]") for s, part in enumerate(proba)]
    except TypeError:
        raise InputTypeError(
            "proba must hold an array of probabilities for each sequence, as predict_proba returns them."
        ) from None
    if len(parts) != len(lengths):
        raise InputError(f"proba has {len(parts)} arrays but y_true has {len(lengths)} sequences; expected the same.")
    for s, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if part.shape != (length, n_labels):
            raise InputError(
                f"proba[{s}] has shape {part.shape}; expected ({length}, {n_labels}), a row for each label of "
                f"y_true[{s}] and a column for each of the {n_labels} classes."
            )
        if not ((part >= 0) & (part <= 1 + 1e-6)).all():
            raise InputError(f"proba[{s}] holds other values than probabilities from 0 to 1.")
    return np.concatenate([np.empty((0, n_labels)), *parts])
