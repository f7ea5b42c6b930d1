"""Labels laid end to end, whatever form they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.evaluation.scores import right_positions
from seqboost.exceptions import InputError

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
    given = {"y_true": list(y_true), **{name: list(labels) for name, labels in predicted.items()}}
    for name, labels in given.items():
        if len(labels) != len(given["y_true"]):
            raise InputError(
                f"{name} has {len(labels)} elements but y_true has {len(given['y_true'])}; every prediction needs a "
                f"label for each position of y_true."
            )
    if any(isinstance(element, (list, np.ndarray)) and np.ndim(element) for e in given.values() for element in e):
        _check_lengths(given)
    else:
        given = {name: [labels] for name, labels in given.items()}
    truth = given.pop("y_true")
    return {name: right_positions(truth, labels) for name, labels in given.items()}


def _check_lengths(given: dict[str, list[Any]]) -> None:
    for name, labels in given.items():
        for s, (sequence, true) in enumerate(zip(labels, given["y_true"], strict=True)):
            if len(sequence) != len(true):
                raise InputError(f"{name}[{s}] has {len(sequence)} labels but y_true[{s}] has {len(true)}.")
