"""Finding the labels that a forbidden transition makes impossible, and saying so in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import InputError
from seqboost.core.labelsets import FIRST_SET, LabelSets, allowed_labels

__all__ = ["find_forbidden", "raise_if_forbidden"]


def _context_name(context: tuple[int, ...], classes: Sequence[object]) -> str:
    """Name a context, oldest label first."""
    return ", ".join(repr(classes[label]) for label in reversed(context))


def find_forbidden(
    labels: NDArray[np.int32],
    table: NDArray[np.float64],
    order: int,
    end: NDArray[np.float64] | None = None,
    classes: Sequence[object] | None = None,
    sets: LabelSets | None = None,
) -> str | None:
    """Say what is impossible about the labels of one sequence, or None if they are possible.

    Parameters
    ----------
    labels : ndarray of int32, shape (T,)
        Label codes, -1 = unobserved, -3 - i = one of set i.
    table : ndarray of float64, shape (E, K)
        Scores of (extended context, label), -inf = forbidden.
    order : int
        Markov order m.
    end : ndarray of float64, shape (K,), optional
        Score of closing a sequence with a label, -inf = forbidden.
    classes : sequence, optional
        Names of the labels; their codes if not given.
    sets : ndarray of bool, shape (n_sets, K), optional
        Sets of labels.

    Returns
    -------
    str or None
        Ends of sentences whose subject is the sequence: "moves from 'B' to 'B' at position 5".
    """
    n_labels = table.shape[1]
    space = ContextSpace(n_labels, order)
    names = list(range(n_labels)) if classes is None else list(classes)
    allowed = allowed_labels(labels, n_labels, sets)
    reached: set[tuple[int, ...]] = {()}  # contexts that some allowed path ends in, lag 1 first
    for t, label in enumerate(labels):
        contexts = {c: space.base[len(c)] + space.number(c) for c in reached}
        candidates = np.flatnonzero(allowed[t]).tolist()
        moves = [(c, k) for c, e in contexts.items() for k in candidates if table[e, k] > -np.inf]
        if t == len(labels) - 1 and end is not None:
            if moves and all(end[k] == -np.inf for _, k in moves):
                return f"ends with {names[label]!r}" if label >= 0 else "has no allowed last label"
            moves = [(c, k) for c, k in moves if end[k] > -np.inf]
        if not moves:
            if label <= FIRST_SET:
                one_of = ", ".join(repr(names[k]) for k in candidates)
                return f"has one of {one_of} at position {t}, to none of which the labels before it lead"
            if label < 0:
                return f"leaves no allowed label for the unobserved position {t}"
            if t == 0:
                return f"starts with {names[label]!r}"
            if len(reached) == 1 and order > 0:
                return f"moves from {_context_name(next(iter(reached)), names)} to {names[label]!r} at position {t}"
            return f"has {names[label]!r} at position {t}, which no allowed labels before it lead to"
        reached = {(k, *c)[:order] for c, k in moves}
    return None


def raise_if_forbidden(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    table: NDArray[np.float64],
    order: int,
    end: NDArray[np.float64] | None = None,
    classes: Sequence[object] | None = None,
    *,
    sets: LabelSets | None = None,
    named: Callable[[int], str] = "y[{}]".format,
) -> None:
    """Raise if the labels of a sequence cannot be had under the forbidden entries of a table.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        Label codes of all sequences, -1 = unobserved, -3 - i = one of set i.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    table, order, end, classes, sets
        As in ``find_forbidden``.
    named : callable, optional
        What the labels of a sequence are called in messages, by its number.

    Raises
    ------
    InputError
        Naming the first such sequence and the position in it.
    """
    if np.all(table > -np.inf) and (end is None or np.all(end > -np.inf)):
        return
    for sequence in range(len(offsets) - 1):
        fault = find_forbidden(labels[offsets[sequence] : offsets[sequence + 1]], table, order, end, classes, sets)
        if fault is not None:
            raise InputError(
                f"{named(sequence)} {fault}, which transitions=... forbids. Allow it in `transitions`, or fix the "
                f"labels of that sequence (or leave them unobserved: None)."
            )
