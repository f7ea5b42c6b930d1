"""What a target of the fuzzer reports beside "accepted" and "refused"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["Finding", "check_probabilities"]


class Finding(Exception):
    """A wrong answer: raised by a target, counted by the driver."""


def check_probabilities(parts: Iterable[Any]) -> None:
    """Raise a :class:`Finding` unless every row of every array is a distribution.

    Parameters
    ----------
    parts : iterable of arrays of shape (n_positions, n_labels)
        Probabilities, one array per sequence.
    """
    for number, part in enumerate(parts):
        rows = np.asarray(part, dtype=np.float64)
        if rows.ndim != 2:
            raise Finding(f"probabilities of sequence {number} have {rows.ndim} dimensions, not 2")
        if not np.isfinite(rows).all():
            raise Finding(f"probabilities of sequence {number} are not finite")
        if rows.size and (rows.min() < 0.0 or rows.max() > 1.0 + 1e-6):
            raise Finding(f"probabilities of sequence {number} lie outside [0, 1]: {rows.min()} to {rows.max()}")
        if (off := np.abs(rows.sum(axis=1) - 1.0)).size and off.max() > 1e-4:
            raise Finding(f"probabilities of sequence {number}, position {off.argmax()} miss one by {off.max()}")
