"""``min_duration``: the smallest number of positions of a run of a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.core.parameters import Rule, integer

__all__ = ["duration_bytes", "label_durations", "min_duration_rule"]

MOST = 2**31 - 1


def min_duration_rule() -> Rule:
    """Allow a number of positions, or numbers by label."""
    is_number, expected = integer(1, MOST)

    def holds(value: Any) -> bool:
        return all(map(is_number, value.values())) if isinstance(value, Mapping) else is_number(value)

    return holds, f"{expected}, or a dict {{label: positions}} of such numbers"


def label_durations(min_duration: Any, classes: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the smallest number of positions of a run of each label, (n_labels,); None if all are 1.

    Examples
    --------
    >>> label_durations({"run": 5}, np.array(["rest", "run"]))
    array([1, 5])
    >>> label_durations(1, np.array(["rest", "run"])) is None
    True
    """
    names = classes.tolist()
    if isinstance(min_duration, Mapping):
        known = {(isinstance(label, bool), label) for label in names}  # True is not 1
        unknown = [label for label in min_duration if (isinstance(label, (bool, np.bool_)), label) not in known]
        if unknown:
            raise ParameterError(
                f"min_duration names the label {unknown[0]!r}, which is not in y. The labels are {names[:20]}; 0 and "
                f"'0' are different labels."
            )
        durations = np.array([min_duration.get(label, 1) for label in names], dtype=np.int64)
    else:
        durations = np.full(len(names), min_duration, dtype=np.int64)
    return durations if durations.max() > 1 else None


def duration_bytes(durations: NDArray[np.int64] | None, offsets: NDArray[np.int64], n_threads: int) -> int:
    """Return what forward-backward with minimum durations takes beside the scores: pairs of labels, for each thread."""
    return 0 if durations is None else 4 * int(np.diff(offsets).max()) * len(durations) ** 2 * n_threads
