"""Probabilities and shares: of the labels given with 80 %, how many are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqboost.evaluation.scores import is_observed, paired
from seqboost.exceptions import InputError, ParameterError

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
    names = np.asarray(classes).tolist()
    confidence, right = [], []
    for true, rows in paired(y_true, [np.asarray(p) for p in proba]):
        for label, row in zip(true, rows, strict=True):
            if is_observed(label):
                best = int(np.argmax(row))
                confidence.append(row[best])
                right.append(names[best] == label)
    if not right:
        raise InputError("y_true has no observed label to compare with: every label is None or NaN")
    p, hit = np.array(confidence, dtype=np.float64), np.array(right, dtype=np.float64)
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
