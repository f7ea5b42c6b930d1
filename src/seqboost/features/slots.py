"""Slots of padded rows: what a row holds of wide categorical columns and of indicators, in compressed rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.offsets import starts_of

__all__ = ["RowSlots", "padded_slots"]

RowSlots = tuple[NDArray[np.int64], NDArray[np.int32]]  # where the slots of each row begin, and the slots


def padded_slots(
    slot_start: NDArray[np.int32],
    wide_slots: list[NDArray[np.int32]],
    indicator_slots: RowSlots | None,
    padded_row: NDArray[np.int64],
    n_padded: int,
) -> RowSlots:
    """Slots of padded rows as CSR: of wide columns, then of indicators; boundary rows hold boundary slots.

    Parameters
    ----------
    slot_start : ndarray of shape (n_sparse + 1,)
        Where the slots of each sparse feature begin, wide columns first.
    wide_slots : list of ndarray of shape (n_rows,)
        Slot of each row for each wide column, −1 = unknown category.
    indicator_slots : RowSlots or None
        Slots of the rows for the indicators.
    padded_row : ndarray of shape (n_rows,)
        Where each row stands among the padded ones.
    n_padded : int
        Number of padded rows.
    """
    n_wide = len(wide_slots)
    if len(slot_start) == 1:
        return np.zeros(n_padded + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    row_indptr, row_slots = np.zeros(padded_row.size + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    if indicator_slots is not None:
        row_indptr, row_slots = indicator_slots
    row_counts = np.diff(row_indptr)
    known = [slots >= 0 for slots in wide_slots]
    counts = np.full(n_padded, n_wide, dtype=np.int64)
    counts[padded_row] = row_counts + sum(mask.astype(np.int64) for mask in known)
    indptr = starts_of(counts)
    indices = np.empty(int(indptr[-1]), dtype=np.int32)

    is_boundary = np.ones(n_padded, dtype=np.bool_)
    is_boundary[padded_row] = False
    boundary_start = indptr[:-1][is_boundary]
    place = indptr[padded_row]  # where the next slot of each row goes
    for s, (slots, mask) in enumerate(zip(wide_slots, known, strict=True)):
        indices[boundary_start + s] = slot_start[s + 1] - 1
        indices[place[mask]] = slots[mask]
        place += mask
    indices[np.arange(row_slots.size) + np.repeat(place - row_indptr[:-1], row_counts)] = row_slots
    return indptr, indices
