"""Where the labelled paths run, which never changes during training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["score_cells"]


def score_cells(known: NDArray[np.int32], slot: NDArray[np.int32], n_slots: int) -> NDArray[np.int64]:
    """Return the place of each position's label ``known`` and context ``slot`` in the flat scores (K * N * C,)."""
    n_positions = len(known)
    return (known.astype(np.int64) * n_positions + np.arange(n_positions)) * n_slots + slot
