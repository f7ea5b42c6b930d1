"""Metrics of labelings from counts and probabilities, for training and evaluation alike.

With weighted counts of each label k: n_k true, m_k predicted, r_k right; n their total, the sum of the n_k.

    precision_k = r_k / m_k        recall_k = r_k / n_k        F1_k = 2 r_k / (n_k + m_k)

Means over labels are over those that occur in the truth. Where nothing is observed, every metric is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["COUNT_METRICS", "LabelCounts", "log_loss", "sequence_accuracy"]

LEAST_PROB = float(np.finfo(np.float64).eps)
"""Smaller probabilities count as this much in the log-loss, as in scikit-learn."""


class LabelCounts(NamedTuple):
    """How often each label is true, predicted and right; all float64 of shape (n_labels,)."""

    true: NDArray[np.float64]
    predicted: NDArray[np.float64]
    right: NDArray[np.float64]

    @classmethod
    def from_codes(
        cls, true: NDArray[Any], predicted: NDArray[Any], n_labels: int, weights: NDArray[np.float64] | None = None
    ) -> LabelCounts:
        """Count label codes of positions, each as often as its weight says.

        Examples
        --------
        >>> LabelCounts.from_codes(np.array([0, 0, 1]), np.array([0, 1, 1]), 2).right
        array([1., 1.])
        """
        weights = np.ones(len(true)) if weights is None else weights
        is_right = true == predicted
        return cls(
            _sums(true, weights, n_labels),
            _sums(predicted, weights, n_labels),
            _sums(true[is_right], weights[is_right], n_labels),
        )


def accuracy(counts: LabelCounts) -> float:
    """Return the share of positions that are right."""
    return _ratio(counts.right.sum(), counts.true.sum())


def balanced_accuracy(counts: LabelCounts) -> float:
    """Return the mean recall of labels."""
    occurs = counts.true > 0
    return _mean(counts.right[occurs] / counts.true[occurs])


def macro_f1(counts: LabelCounts) -> float:
    """Return the mean F1 of labels."""
    return _mean(_f1(counts))


def weighted_f1(counts: LabelCounts) -> float:
    """Return the mean F1 of labels, each weighted by how often it is true."""
    occurs = counts.true > 0
    return _ratio(float(np.dot(_f1(counts), counts.true[occurs])), counts.true.sum())


def cohen_kappa(counts: LabelCounts) -> float:
    """Return (a − e) / (1 − e) with the accuracy a and e = Σ_k n_k m_k / n², what chance would get right.

    NaN if all true and predicted labels are the same one.
    """
    total = counts.true.sum()
    chance = _ratio(float(np.dot(counts.true, counts.predicted)), total**2)
    return _ratio(accuracy(counts) - chance, 1.0 - chance)


def matthews_corrcoef(counts: LabelCounts) -> float:
    """Return the correlation of true and predicted labels, (n Σ r − Σ n_k m_k) / √((n² − Σ n_k²)(n² − Σ m_k²)).

    0 if all true or all predicted labels are the same one, as in scikit-learn.
    """
    total = counts.true.sum()
    if total == 0:
        return float("nan")
    above = total * counts.right.sum() - np.dot(counts.true, counts.predicted)
    spread = [total**2 - np.dot(n, n) for n in (counts.true, counts.predicted)]
    below = np.sqrt(max(spread[0], 0.0)) * np.sqrt(max(spread[1], 0.0))
    return float(above / below) if below > 0 else 0.0


COUNT_METRICS: dict[str, Callable[[LabelCounts], float]] = {
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "macro_f1": macro_f1,
    "weighted_f1": weighted_f1,
    "cohen_kappa": cohen_kappa,
    "matthews_corrcoef": matthews_corrcoef,
}
"""Metrics that counts are enough for; for all of them more is better."""


def sequence_accuracy(
    is_right: NDArray[np.bool_], sequence: NDArray[np.int64], weights: NDArray[np.float64] | None = None
) -> float:
    """Return the share of sequences that are right at all their positions.

    Parameters
    ----------
    is_right : ndarray of bool, shape (n_positions,)
        Whether each position is right.
    sequence : ndarray of int64, shape (n_positions,)
        Number of each position's sequence; numbers without positions do not count.
    weights : ndarray of float64, shape (largest number + 1,), optional
        Weights of sequences.

    Examples
    --------
    >>> sequence_accuracy(np.array([True, False, True]), np.array([0, 0, 1]))
    0.5
    """
    n_positions = np.bincount(sequence)
    weights = np.ones(len(n_positions)) if weights is None else weights[: len(n_positions)]
    is_whole = np.bincount(sequence[~is_right], minlength=len(n_positions)) == 0
    return _ratio(weights[is_whole & (n_positions > 0)].sum(), weights[n_positions > 0].sum())


def log_loss(prob: NDArray[np.floating], weights: NDArray[np.float64] | None = None) -> float:
    """Return the mean of −log of the probabilities of true labels.

    Examples
    --------
    >>> round(log_loss(np.array([0.5, 0.25])), 4)
    1.0397
    """
    weights = np.ones(len(prob)) if weights is None else weights
    return _ratio(-float(np.dot(weights, np.log(np.clip(prob, LEAST_PROB, 1.0)))), weights.sum())


def _f1(counts: LabelCounts) -> NDArray[np.float64]:
    """Return F1 of the labels that occur in the truth."""
    occurs = counts.true > 0
    found: NDArray[np.float64] = 2 * counts.right[occurs] / (counts.true[occurs] + counts.predicted[occurs])
    return found


def _sums(codes: NDArray[Any], weights: NDArray[np.float64], n_labels: int) -> NDArray[np.float64]:
    """Return the sum of the weights of each code."""
    return np.bincount(codes, weights=weights, minlength=n_labels).astype(np.float64, copy=False)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0 else float("nan")
