"""Where boosting starts: the chain of the labels alone.

    table[e, k] = log (n(e,k) + a·π_k) / (n(e) + a)          π_k = share of label k, a = K

the smoothed probabilities of a label after a context, counted in the training labels. Boosting from zero would spend
its first rounds on learning them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["extended_contexts", "label_table"]


def extended_contexts(
    labels: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int, order: int
) -> NDArray[np.int64]:
    """Return the extended context of each row, −1 where a lag is unobserved.

    Examples
    --------
    >>> extended_contexts(np.array([1, 0, 1]), np.array([0, 3]), n_labels=2, order=1)
    array([0, 2, 1])
    """
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    base = np.cumsum([0] + [n_labels**j for j in range(order)])
    extended = base[np.minimum(position, order)].astype(np.int64)
    unknown = np.zeros(len(labels), dtype=bool)
    for lag in range(1, order + 1):
        rows = np.flatnonzero(position >= lag)
        extended[rows] += labels[rows - lag].astype(np.int64) * n_labels ** (lag - 1)
        unknown[rows] |= labels[rows - lag] < 0
    extended[unknown] = -1
    return extended


def label_table(
    labels: NDArray[np.int32],
    extended: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_extended: int,
    n_labels: int,
) -> NDArray[np.float64]:
    """Return log-probabilities of labels after contexts.

    Parameters
    ----------
    labels : ndarray of int32 of shape (n_rows,)
        Label codes, −1 = unobserved.
    extended : ndarray of int64 of shape (n_rows,)
        Extended context of each row; −1 where a lag is unobserved.
    weights : ndarray of float64 of shape (n_rows,)
        Weight of each row's sequence.
    n_extended, n_labels : int
        Shape of the table.

    Returns
    -------
    ndarray of float64 of shape (n_extended, n_labels)
    """
    seen = labels >= 0
    share = np.bincount(labels[seen], weights=weights[seen], minlength=n_labels) + 1.0
    share /= share.sum()
    known = seen & (extended >= 0)
    cells = extended[known] * n_labels + labels[known]
    count = np.bincount(cells, weights=weights[known], minlength=n_extended * n_labels).reshape(n_extended, n_labels)
    smooth = n_labels * share
    table: NDArray[np.float64] = np.log((count + smooth) / (count.sum(axis=1, keepdims=True) + n_labels))
    return table
