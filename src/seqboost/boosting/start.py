"""Where boosting starts: the chain of the labels alone.

    table[e, k] = log (n(e,k) + a·π_k) / (n(e) + a)          π_k = share of label k, a = K

the smoothed probabilities of a label after a context, counted in the training labels. Boosting from zero would spend
its first rounds on learning them. Histories of variable length are smoothed likewise, towards the history without its
oldest symbol, back(s); labels that have no arc at s share what is left in the proportions they have after back(s):

    P(k|s) = (n(s,k) + a·P(k|back(s))) / (n(s) + a)              (s,k) an arc
    P(k|s) = b(s)·P(k|back(s))                                   else, with b(s) such that Σ_k P(k|s) = 1
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.labelsets import FIRST_SET, LabelSets, set_rows

__all__ = ["history_table", "label_table"]


def label_table(
    labels: NDArray[np.int32],
    extended: NDArray[np.int32],
    weights: NDArray[np.float64],
    n_extended: int,
    n_labels: int,
    sets: LabelSets | None = None,
) -> NDArray[np.float64]:
    """Return log-probabilities of labels after contexts.

    Parameters
    ----------
    labels : ndarray of int32 of shape (n_rows,)
        Label codes, −1 = unobserved, −3 − i = one of set i, whose labels share the position equally.
    extended : ndarray of int32 of shape (n_rows,)
        Extended context of each row; −1 where a lag is unobserved.
    weights : ndarray of float64 of shape (n_rows,)
        Weight of each row's sequence.
    n_extended, n_labels : int
        Shape of the table.
    sets : ndarray of bool of shape (n_sets, n_labels), optional
        The labels of each set.

    Returns
    -------
    ndarray of float64 of shape (n_extended, n_labels)
    """
    seen = labels >= 0
    share = np.bincount(labels[seen], weights=weights[seen], minlength=n_labels) + 1.0
    rows = set_rows(labels) if sets is not None else np.empty(0, np.intp)
    if sets is not None:
        parts = weights[rows, None] * (sets / sets.sum(axis=1, keepdims=True))[FIRST_SET - labels[rows]]
        share += parts.sum(axis=0)
    share /= share.sum()
    known = seen & (extended >= 0)
    cells = extended[known].astype(np.int64) * n_labels + labels[known]
    count = np.bincount(cells, weights=weights[known], minlength=n_extended * n_labels).reshape(n_extended, n_labels)
    if sets is not None:
        known_before = extended[rows] >= 0
        np.add.at(count, extended[rows][known_before], parts[known_before])
    smooth = n_labels * share
    table: NDArray[np.float64] = np.log((count + smooth) / (count.sum(axis=1, keepdims=True) + n_labels))
    return table


def history_table(
    counts: NDArray[np.float64], arc_start: NDArray[np.int64], arc_parent: NDArray[np.int32], n_labels: int
) -> NDArray[np.float64]:
    """Return log-probabilities of labels after histories, each as the difference to the next shorter history.

    Parameters
    ----------
    counts : ndarray of float64 of shape (n_arcs + n_histories,)
        Weight of the positions at which the label of an arc followed its history, then of those at which a label
        without an arc did.
    arc_start : ndarray of int64 of shape (n_histories + 1,)
        Where the arcs of each history begin; history 0 is the empty one, with arcs of all labels.
    arc_parent : ndarray of int32 of shape (n_arcs,)
        The same label after the next shorter history; those come first.
    n_labels : int
        Number of labels.

    Returns
    -------
    ndarray of float64 of shape (n_arcs + n_histories,)
        log P(k|s) − log P(k|back(s)) of arcs, then log b(s).

    Examples
    --------
    Two labels of shares 3/4 and 1/4; the first has followed a history three times, the other one never:
    P = (3 + 2·3/4) / (3 + 2) = 0.9, that is 0.9 / 0.75 = 1.2 times its share, and 0.1 / 0.25 = 0.4 times.

    >>> counts = np.array([2.0, 0.0, 3.0, 0.0, 0.0])
    >>> np.exp(history_table(counts, np.array([0, 2, 3]), np.array([-1, -1, 0]), n_labels=2)).round(4)
    array([0.75, 0.25, 1.2 , 1.  , 0.4 ])
    """
    n_arcs, n_histories = len(arc_parent), len(arc_start) - 1
    history = np.repeat(np.arange(n_histories), np.diff(arc_start))
    total = np.bincount(history, weights=counts[:n_arcs], minlength=n_histories) + counts[n_arcs:]
    share = counts[:n_labels] + 1.0
    prob = np.append(share / share.sum(), np.zeros(n_arcs - n_labels))
    for a in range(n_labels, n_arcs):
        prob[a] = (counts[a] + n_labels * prob[arc_parent[a]]) / (total[history[a]] + n_labels)
    before = np.append(np.ones(n_labels), prob[arc_parent[n_labels:]])
    left = 1.0 - np.bincount(history, weights=prob, minlength=n_histories)
    left_before = 1.0 - np.bincount(history, weights=before, minlength=n_histories)
    used = left_before > 1e-9  # elsewhere all labels have arcs
    unseen = np.log(np.where(used, left, 1.0) / np.where(used, left_before, 1.0))
    return np.concatenate([np.log(prob / before), unseen])
