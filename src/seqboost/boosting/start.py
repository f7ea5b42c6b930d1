"""Where boosting starts: the chain of the labels alone.

    table[e, k] = log (n(e,k) + a·π_k) / (n(e) + a)          π_k = share of label k, a = K

the smoothed probabilities of a label after a context, counted in the training labels. Boosting from zero would spend
its first rounds on learning them. Histories of variable length start from the smoothing of Witten and Bell (1991), with
d(s) the number of different labels that followed history s, and back(s) the history without its oldest symbol:

    P(k|s) = (n(s,k) + d(s)·P(k|back(s))) / (n(s) + d(s))          P(k|s) = d(s)/(n(s) + d(s)) · P(k|back(s)) if unseen
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["extended_contexts", "history_table", "label_table"]


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


def history_table(
    counts: NDArray[np.float64], arc_start: NDArray[np.int64], arc_parent: NDArray[np.int32], n_labels: int
) -> NDArray[np.float64]:
    """Return log-probabilities of labels after histories, each as the difference to the next shorter history.

    Parameters
    ----------
    counts : ndarray of float64 of shape (n_arcs,)
        Weight of the positions at which a label followed a history.
    arc_start : ndarray of int64 of shape (n_histories + 1,)
        Where the arcs (labels that followed) of each history begin; history 0 is the empty one, followed by all labels.
    arc_parent : ndarray of int32 of shape (n_arcs,)
        The same label after the next shorter history.
    n_labels : int
        Number of labels.

    Returns
    -------
    ndarray of float64 of shape (n_arcs + n_histories,)
        log P(k|s) − log P(k|back(s)) of arcs, then log d(s)/(n(s) + d(s)).

    Examples
    --------
    One label out of two, after one history of its own: P = (3 + 1·3/4) / (3 + 1).

    >>> table = history_table(np.array([2.0, 0.0, 3.0]), np.array([0, 2, 3]), np.array([-1, -1, 0]), n_labels=2)
    >>> np.exp(table).round(4)
    array([0.75, 0.25, 1.25, 1.  , 0.25])
    """
    n_seen = np.diff(arc_start)
    total = np.add.reduceat(np.append(counts, 0.0), arc_start[:-1]) * (n_seen > 0)
    state = np.repeat(np.arange(len(n_seen)), n_seen)
    log_prob = np.empty(len(counts))
    share = counts[:n_labels] + 1.0
    log_prob[:n_labels] = np.log(share / share.sum())
    table = log_prob.copy()
    for a in range(n_labels, len(counts)):
        back, s = log_prob[arc_parent[a]], state[a]
        log_prob[a] = np.log((counts[a] + n_seen[s] * np.exp(back)) / (total[s] + n_seen[s]))
        table[a] = log_prob[a] - back
    unseen = np.zeros(len(n_seen))
    known = n_seen > 0
    unseen[known] = np.log(n_seen[known] / (total[known] + n_seen[known]))
    unseen[0] = 0.0
    return np.concatenate([table, unseen])
