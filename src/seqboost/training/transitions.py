"""What ``transitions=`` may be, and the scores it turns into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import end_scores, transition_table
from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import ParameterError
from seqboost.core.labelsets import FIRST_SET, LabelSets
from seqboost.sequences import allowed_transitions

__all__ = ["constraint_scores", "followers"]

Constraint = tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None, NDArray[np.bool_] | None]


def constraint_scores(
    transitions: Any,
    space: ContextSpace,
    classes: NDArray[Any],
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    sets: LabelSets | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the table (n_extended, n_labels) and the end scores (n_labels,) of a constraint: 0 or −inf.

    Parameters
    ----------
    transitions : "any", "seen", name of a scheme, dict, or array of shape (n_labels, n_labels)
        ``{a: [b, …]}``: labels b may follow label a. ``array[a, b]`` true: label b may follow label a (row = from,
        column = to, in the order of ``classes``).
    space : ContextSpace
        Contexts of the chain.
    classes : ndarray of shape (n_labels,)
        The labels.
    labels, offsets : ndarray
        Codes of the training labels, which ``"seen"`` looks at.
    sets : ndarray of bool of shape (n_sets, n_labels), optional
        Sets of labels: "seen" takes each of their labels as seen.
    """
    start, allowed, end = _allowed(transitions, classes, labels, offsets, sets)
    return transition_table(space, start, allowed), end_scores(space, end)


def _allowed(
    transitions: Any,
    classes: NDArray[Any],
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    sets: LabelSets | None,
) -> Constraint:
    n_labels = len(classes)
    if isinstance(transitions, str):
        if transitions == "any":
            return None, None, None
        if transitions == "seen":
            return _seen(n_labels, labels, offsets, sets)
        return allowed_transitions(transitions, classes)
    if isinstance(transitions, Mapping):
        return None, _from_lists(transitions, classes), None
    try:
        matrix = np.asarray(transitions)
        is_mask = matrix.shape == (n_labels, n_labels) and bool(np.isin(matrix, (0, 1)).all())
    except (TypeError, ValueError):
        is_mask = False
    if not is_mask:
        raise ParameterError(
            f"The 'transitions' parameter of TreeCRF must be 'any', 'seen', a scheme such as 'IOB2' or 'BIOES', a dict "
            f"{{from: [to, ...]}}, a DataFrame with labels as index and columns, or a {n_labels} × {n_labels} array of "
            f"booleans (row = from, column = to, in the order of classes_). Got {transitions!r} instead."
        )
    return None, matrix.astype(bool), None


def followers(transitions: Any) -> Any:
    """Return a table with names for its rows and columns as a dict ``{from: [to, …]}``, all others as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> followers(pd.DataFrame([[1, 1], [0, 1]], index=["rest", "run"], columns=["run", "rest"]))
    {'rest': ['run', 'rest'], 'run': ['rest']}
    """
    if not hasattr(transitions, "columns"):
        return transitions
    if not hasattr(transitions, "index"):
        raise ParameterError(
            f"The 'transitions' parameter is a table without names for its rows ({type(transitions).__name__}), so "
            f"rows cannot be matched with labels. Pass a pandas DataFrame with the labels as index and columns, or a "
            f"dict {{from: [to, ...]}}."
        )
    before, after = transitions.index.tolist(), transitions.columns.tolist()
    for labels, what in ((before, "index"), (after, "columns")):
        twice = _named(label for label in dict.fromkeys(labels) if labels.count(label) > 1)
        if twice:
            raise ParameterError(f"The {what} of 'transitions' hold {twice} more than once; each label has one.")
    lacking = _named(set(before) ^ set(after))
    if lacking:
        raise ParameterError(
            f"The index and the columns of 'transitions' must hold the same labels (row = from, column = to), but only "
            f"one of them has {lacking}."
        )
    try:
        allowed = transitions.to_numpy()
        is_mask = bool(np.isin(allowed, (0, 1)).all())
    except (TypeError, ValueError):  # NA is neither true nor false
        is_mask = False
    if not is_mask:
        raise ParameterError("The 'transitions' table must hold booleans, or 0 and 1, and no missing values.")
    return {
        label: [after[j] for j in np.flatnonzero(row)] for label, row in zip(before, allowed.astype(bool), strict=True)
    }


def _from_lists(transitions: Mapping[Any, Any], classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the matrix, (n_labels, n_labels), of a dict ``{from: [to, …]}``."""
    labels = classes.tolist()
    place = {(_is_bool(label), label): k for k, label in enumerate(labels)}  # True is not the label 1
    allowed = np.zeros((len(labels), len(labels)), dtype=bool)
    unknown: dict[Any, None] = {}
    for label, after in transitions.items():
        if isinstance(after, (str, bytes, Mapping)) or not isinstance(after, Iterable):
            raise ParameterError(
                f"The 'transitions' parameter holds {after!r} for {label!r}; expected a list of the labels that may "
                f"follow it."
            )
        names = [label, *after]
        try:
            codes = [place.get((_is_bool(name), name), -1) for name in names]
        except TypeError:
            raise ParameterError(
                f"The 'transitions' parameter holds {after!r} for {label!r}; expected labels in the list."
            ) from None
        unknown |= {name: None for name, code in zip(names, codes, strict=True) if code < 0}
        allowed[codes[0], codes[1:]] = True
    if unknown:
        raise ParameterError(
            f"The 'transitions' parameter names {_named(unknown)}, which y does not hold. Its labels are "
            f"{_named(labels)}; 0 and '0' are different labels."
        )
    lacking = _named(label for label in labels if label not in transitions)
    if lacking:
        raise ParameterError(
            f"The 'transitions' parameter does not say what may follow {lacking}. Name every label: with [] if nothing "
            f"may follow it, with all labels if any may."
        )
    return allowed


def _is_bool(label: Any) -> bool:
    return isinstance(label, (bool, np.bool_))


def _named(labels: Iterable[Any]) -> str:
    """Return the first labels in words."""
    names = sorted(map(repr, labels))
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def _seen(n_labels: int, labels: NDArray[np.int32], offsets: NDArray[np.int64], sets: LabelSets | None) -> Constraint:
    """Allow the openings, transitions and closings that the training labels show, or may be for their sets."""
    # which labels each code stands for: those of labels, then those of sets
    masks = np.eye(n_labels, dtype=bool) if sets is None else np.concatenate([np.eye(n_labels, dtype=bool), sets])
    code = np.where(labels <= FIRST_SET, n_labels + FIRST_SET - labels, labels)
    first, last = code[offsets[:-1]], code[offsets[1:] - 1]
    before, after = code[:-1], code[1:]
    inside = np.ones(len(after), dtype=bool)
    inside[offsets[1:-1] - 1] = False
    known = inside & (before >= 0) & (after >= 0)
    allowed = np.zeros((n_labels, n_labels), dtype=bool)
    for a, b in np.unique(np.stack([before[known], after[known]]), axis=1).T:
        allowed |= np.outer(masks[a], masks[b])
    start, end = (np.asarray(masks[codes[codes >= 0]].any(axis=0)) for codes in (first, last))
    return start, allowed, end
