"""What ``transitions=`` may be, and the scores it turns into."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import ContextSpace, end_scores, transition_table
from seqboost.exceptions import ParameterError
from seqboost.sequences import allowed_transitions

__all__ = ["constraint_scores"]

Constraint = tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None, NDArray[np.bool_] | None]


def constraint_scores(
    transitions: Any,
    space: ContextSpace,
    classes: NDArray[Any],
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the table (n_extended, n_labels) and the end scores (n_labels,) of a constraint: 0 or −inf.

    Parameters
    ----------
    transitions : "any", "seen", name of a scheme, or array of shape (n_labels, n_labels)
        ``array[a, b]`` true: label b may follow label a (row = from, column = to, in the order of ``classes``).
    space : ContextSpace
        Contexts of the chain.
    classes : ndarray of shape (n_labels,)
        The labels.
    labels, offsets : ndarray
        Codes of the training labels, which ``"seen"`` looks at.
    """
    start, allowed, end = _allowed(transitions, len(classes), classes, labels, offsets)
    return transition_table(space, start, allowed), end_scores(space, end)


def _allowed(
    transitions: Any,
    n_labels: int,
    classes: NDArray[Any],
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
) -> Constraint:
    if isinstance(transitions, str):
        if transitions == "any":
            return None, None, None
        if transitions == "seen":
            return _seen(n_labels, labels, offsets)
        return allowed_transitions(transitions, classes)
    try:
        matrix = np.asarray(transitions)
        is_mask = matrix.shape == (n_labels, n_labels) and bool(np.isin(matrix, (0, 1)).all())
    except (TypeError, ValueError):
        is_mask = False
    if not is_mask:
        raise ParameterError(
            f"The 'transitions' parameter of TreeCRF must be 'any', 'seen', a scheme such as 'IOB2' or 'BIOES', or a "
            f"{n_labels} × {n_labels} array of booleans (row = from, column = to, in the order of classes_). "
            f"Got {transitions!r} instead."
        )
    return None, matrix.astype(bool), None


def _seen(n_labels: int, labels: NDArray[np.int32], offsets: NDArray[np.int64]) -> Constraint:
    """Allow the openings, transitions and closings that the training labels show."""
    first, last = labels[offsets[:-1]], labels[offsets[1:] - 1]
    before, after = labels[:-1], labels[1:]
    inside = np.ones(len(after), dtype=bool)
    inside[offsets[1:-1] - 1] = False
    known = inside & (before >= 0) & (after >= 0)
    allowed = np.zeros((n_labels, n_labels), dtype=bool)
    allowed[before[known], after[known]] = True
    start, end = np.zeros(n_labels, dtype=bool), np.zeros(n_labels, dtype=bool)
    start[first[first >= 0]] = True
    end[last[last >= 0]] = True
    return start, allowed, end
