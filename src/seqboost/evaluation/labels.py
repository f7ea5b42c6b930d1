"""Labels laid end to end, whatever form they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost import as_labels
from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.evaluation.scores import right_in_sequence

__all__ = ["right_by_sequence", "right_labels"]


def right_labels(y_true: Any, **predicted: Any) -> dict[str, NDArray[np.bool_]]:
    """Tell of each prediction where it is right, over all positions whose true label is observed.

    Parameters and errors are those of :func:`right_by_sequence`.
    """
    right = right_by_sequence(y_true, **predicted)
    return {name: np.concatenate([np.zeros(0, dtype=np.bool_), *parts]) for name, parts in right.items()}


def right_by_sequence(y_true: Any, **predicted: Any) -> dict[str, list[NDArray[np.bool_]]]:
    """Tell of each prediction, sequence by sequence, where it is right; unobserved labels are left out.

    Parameters
    ----------
    y_true : list of label sequences, or flat sequence of labels
        None or NaN = unobserved.
    **predicted : the same
        Predictions by name. If anything has arrays or lists as elements, all are lists of sequences, and strings among
        them are sequences of characters; otherwise all are flat, one sequence.

    Raises
    ------
    InputError
        If numbers of sequences or of labels differ.
    """
    given = {name: _listed(labels, name) for name, labels in {"y_true": y_true, **predicted}.items()}
    for name, labels in given.items():
        if len(labels) != len(given["y_true"]):
            raise InputError(
                f"{name} has {len(labels)} elements but y_true has {len(given['y_true'])}; every prediction needs a "
                f"label for each position of y_true."
            )
    is_flat = not any(_is_sequence(element) for elements in given.values() for element in elements)
    lists = {name: as_labels([labels] if is_flat else labels, name=name) for name, labels in given.items()}
    _check_lengths(lists)
    truth = lists.pop("y_true")
    return {name: list(map(right_in_sequence, truth, labels)) for name, labels in lists.items()}


def _check_lengths(given: dict[str, list[list[Any]]]) -> None:
    for name, labels in given.items():
        for s, (sequence, true) in enumerate(zip(labels, given["y_true"], strict=True)):
            if len(sequence) != len(true):
                raise InputError(f"{name}[{s}] has {len(sequence)} labels but y_true[{s}] has {len(true)}.")


def _listed(labels: Any, name: str) -> list[Any]:
    """Return the members of a labelling, sequences or labels."""
    try:
        if isinstance(labels, (Mapping, set, frozenset)):
            raise TypeError
        return list(labels)
    except (TypeError, NotImplementedError):
        raise InputTypeError(
            f"{name} is {labels!r:.60}, a {type(labels).__name__}; expected a list of labels, or of label sequences."
        ) from None


def _is_sequence(element: Any) -> bool:
    return isinstance(element, list) or (isinstance(element, np.ndarray) and element.ndim > 0)
