"""What a fuzz target reports: wrong answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["Finding", "check_probabilities"]

TOLERANCE = 1e-4


class Finding(Exception):
    """A wrong answer, such as probabilities that do not sum to one."""


def check_probabilities(parts: Iterable[Any]) -> None:
    """Raise a Finding unless all probabilities are finite, within [0, 1], and sum to one in each row."""
    for i, part in enumerate(parts):
        values = np.asarray(part, dtype=np.float64)
        if not np.isfinite(values).all():
            raise Finding(f"probabilities of sequence {i} are not finite")
        if values.size and (values.min() < 0 or values.max() > 1 + TOLERANCE):
            raise Finding(f"probabilities of sequence {i} reach from {values.min()} to {values.max()}")
        off = np.abs(values.sum(axis=-1) - 1).max(initial=0.0)
        if off > TOLERANCE:
            raise Finding(f"probabilities of sequence {i} are off 1 by up to {off}")
