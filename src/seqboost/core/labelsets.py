"""Codes of labels: 0..K−1 = a label, −1 = unobserved, −3 − i = one of the labels of set i, not known which.

Sets come as a table beside the codes, bool of shape (n_sets, K), or None where there are none. So all code that asks
``label >= 0`` takes the label of a set as unobserved, and codes may be cut and taken without regard to sets.

>>> labels, sets = np.array([0, -1, -3], np.int32), np.array([[True, False, True]])
>>> scores = np.zeros((3, 3, 1), np.float32)
>>> forbid_others(scores, labels, sets)
>>> scores[:, :, 0].T
array([[  0., -inf, -inf],
       [  0.,   0.,   0.],
       [  0., -inf,   0.]], dtype=float32)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FIRST_SET",
    "UNKNOWN",
    "UNOBSERVED",
    "LabelSets",
    "allowed_labels",
    "forbid_others",
    "join_sets",
    "set_rows",
]

UNOBSERVED, UNKNOWN, FIRST_SET = -1, -2, -3

LabelSets = NDArray[np.bool_]


def set_rows(labels: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the positions whose label is one of a set."""
    return np.flatnonzero(labels <= FIRST_SET)


def allowed_labels(labels: NDArray[np.int32], n_labels: int, sets: LabelSets | None = None) -> NDArray[np.bool_]:
    """Return whether each label may be at each position, shape (N, K)."""
    allowed = np.ones((len(labels), n_labels), dtype=bool)
    exact = np.flatnonzero(labels >= 0)
    allowed[exact] = False
    allowed[exact, labels[exact]] = True
    if sets is not None:
        rows = set_rows(labels)
        allowed[rows] = sets[FIRST_SET - labels[rows]]
    return allowed


def forbid_others(scores: NDArray[np.float32], labels: NDArray[np.int32], sets: LabelSets | None = None) -> None:
    """Set the scores (K, N, C) of labels that may not be at a position to -inf, in place."""
    is_known = labels >= 0
    rows = np.empty(0, np.intp) if sets is None else set_rows(labels)
    others = np.empty((0, len(scores)), np.bool_) if sets is None else ~sets[FIRST_SET - labels[rows]]
    for k, plane in enumerate(scores):
        plane[is_known & (labels != k)] = -np.inf
        plane[rows[others[:, k]]] = -np.inf


def join_sets(
    first: tuple[NDArray[np.int32], LabelSets | None], second: tuple[NDArray[np.int32], LabelSets | None]
) -> tuple[NDArray[np.int32], LabelSets | None]:
    """Lay two arrays of labels end to end, and their sets, which are numbered on.

    Examples
    --------
    >>> sets = np.array([[True, True, False]])
    >>> join_sets((np.array([0, -3]), sets), (np.array([-3, -1]), sets))[0]
    array([ 0, -3, -4, -1])
    """
    (labels, sets), (more_labels, more_sets) = first, second
    if sets is None or more_sets is None:
        return np.concatenate([labels, more_labels]), more_sets if sets is None else sets
    renumbered = np.where(more_labels <= FIRST_SET, more_labels - len(sets), more_labels).astype(more_labels.dtype)
    return np.concatenate([labels, renumbered]), np.concatenate([sets, more_sets])
