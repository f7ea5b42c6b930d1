"""Labels laid end to end, whatever form they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.exceptions import InputError

__all__ = ["right_labels"]


def right_labels(y_true: Any, **predicted: Any) -> dict[str, NDArray[np.bool_]]:
    """Tell of each prediction where it is right, over all positions whose true label is observed.

    Parameters
    ----------
    y_true : list of label sequences, or flat sequence of labels
        None or NaN = unobserved.
    **predicted : the same
        Predictions by name. If anything has arrays or lists as elements, all are lists of sequences, and strings among
        them are sequences of characters; otherwise all are flat.

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
        given = {name: [label for sequence in labels for label in sequence] for name, labels in given.items()}
    truth = given.pop("y_true")
    seen = [t for t, label in enumerate(truth) if label is not None and label == label]
    return {
        name: np.array([bool(labels[t] == truth[t]) for t in seen], dtype=np.bool_) for name, labels in given.items()
    }


def _check_lengths(given: dict[str, list[Any]]) -> None:
    for name, labels in given.items():
        for s, (sequence, true) in enumerate(zip(labels, given["y_true"], strict=True)):
            if len(sequence) != len(true):
                raise InputError(f"{name}[{s}] has {len(sequence)} labels but y_true[{s}] has {len(true)}.")
