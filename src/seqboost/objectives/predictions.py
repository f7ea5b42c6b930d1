"""What the scores of a round say about single positions, for metrics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Predictions"]


class Predictions:
    """Most probable labels of positions, and the probabilities of the observed ones.

    With label weights v, P(k) is v_k P(y_t = k | X) / Σ_j v_j P(y_t = j | X), as ``predict_proba`` has it.

    Parameters
    ----------
    observed : ndarray of int32, shape (N,)
        Label codes, -1 = unobserved.
    first_row : int, default=0
        The first position that is asked for, where a sequence starts; earlier ones are skipped.
    label_weights : ndarray of float64, shape (K,), optional
        v.

    Attributes
    ----------
    labels : ndarray of int32, shape (N,)
        Most probable labels, the lowest of equals; -1 before ``first_row``.
    prob : ndarray of float64, shape (N,)
        P of the observed label; NaN where there is none, and before ``first_row``.

    Examples
    --------
    >>> found = Predictions(np.array([0, -1, 1], np.int32))
    >>> found.fill(np.array([[[0.9], [0.2], [0.6]], [[0.1], [0.8], [0.4]]], np.float32), 0)
    >>> found.labels, found.prob.round(2)
    (array([0, 1, 0], dtype=int32), array([0.9, nan, 0.4]))
    """

    def __init__(
        self, observed: NDArray[np.int32], first_row: int = 0, label_weights: NDArray[np.float64] | None = None
    ) -> None:
        self.first_row = first_row
        self.labels = np.full(len(observed), -1, dtype=np.int32)
        self.prob = np.full(len(observed), np.nan)
        self._observed = observed
        self._label_weights = label_weights

    def fill(self, marginals: NDArray[np.float32], start: int) -> None:
        """Take the marginals P(c_t=c, y_t=k | X), shape (K, n, C), of the positions from ``start`` on."""
        skipped = max(0, self.first_row - start)
        if skipped >= marginals.shape[1]:
            return
        rows = slice(start + skipped, start + marginals.shape[1])
        node = marginals[:, skipped:].sum(axis=2, dtype=np.float64)
        if self._label_weights is not None:
            node *= self._label_weights[:, None]
        self.labels[rows] = node.argmax(axis=0)
        observed = self._observed[rows]
        own = node[np.maximum(observed, 0), np.arange(len(observed))]
        self.prob[rows] = np.where(observed >= 0, own / np.maximum(node.sum(axis=0), 1e-300), np.nan)
