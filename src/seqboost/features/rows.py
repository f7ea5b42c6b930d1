"""Binned rows: all sequences end to end, with boundary rows before, between and after them.

With margin 2 and sequences of lengths 3 and 1 (``.`` = boundary row)::

    padded row   0 1 2 3 4 5 6 7 8 9
                 . . a b c . . d . .        row d = 3 lies at padded_row 7

A window that reaches over the end of a sequence thus reads boundary codes; nothing is copied and nothing is tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError
from seqboost.core.offsets import sequence_numbers
from seqboost.features.layout import SUBSET, FeatureLayout
from seqboost.sequences import SequenceBatch

__all__ = ["BinnedRows", "binned_bytes", "n_padded_rows", "pad_rows"]


@dataclass(frozen=True, eq=False)
class BinnedRows:
    """Codes of all positions, ready for trees.

    Attributes
    ----------
    codes : ndarray of shape (n_padded, n_dense), dtype uint8
        Row-major; boundary rows hold the boundary code of each column.
    address : ndarray of shape (n_rows,), dtype int64
        Where a position's first code lies in ``codes.ravel()``.
    padded_row : ndarray of shape (n_rows,), dtype int64
        Its row in `codes` and in the slots.
    offsets : ndarray of shape (n_sequences + 1,), dtype int64
        Where sequences begin, counted in positions (without boundary rows).
    slot_indptr : ndarray of shape (n_padded + 1,), dtype int64
        Slots of padded row r are ``slot_indices[slot_indptr[r] : slot_indptr[r + 1]]``, in increasing order.
    slot_indices : ndarray of shape (n_slots_stored,), dtype int32
    layout : FeatureLayout
    """

    codes: NDArray[np.uint8]
    address: NDArray[np.int64]
    padded_row: NDArray[np.int64]
    offsets: NDArray[np.int64]
    slot_indptr: NDArray[np.int64]
    slot_indices: NDArray[np.int32]
    layout: FeatureLayout

    @property
    def n_rows(self) -> int:
        """Number of positions."""
        return self.padded_row.size

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return self.offsets.size - 1

    @property
    def n_padded(self) -> int:
        """Number of positions and boundary rows."""
        return self.codes.shape[0]

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays, in bytes."""
        arrays = (self.codes, self.address, self.padded_row, self.offsets, self.slot_indptr, self.slot_indices)
        return sum(array.nbytes for array in arrays)

    @staticmethod
    def concatenate(first: BinnedRows, second: BinnedRows) -> BinnedRows:
        """Sequences of `first`, then those of `second`, in one set of arrays.

        The boundary rows that end `first` also begin `second`, so the result is what binning all at once would give.

        Raises
        ------
        InputError
            If the two were not binned with the same layout.
        """
        if not first.layout.same_as(second.layout):
            raise InputError(
                f"Binned rows can be joined only if one FeatureBinner made both; the layouts differ "
                f"({first.layout.n_dense_features} and {second.layout.n_dense_features} dense window features, "
                f"margins {first.layout.margin} and {second.layout.margin})."
            )
        margin = first.layout.margin
        shift = first.n_padded - margin
        skipped = second.slot_indptr[margin]
        padded_row = np.concatenate([first.padded_row, second.padded_row + shift])
        return BinnedRows(
            codes=np.concatenate([first.codes, second.codes[margin:]]),
            address=padded_row * first.layout.n_dense,
            padded_row=padded_row,
            offsets=np.concatenate([first.offsets, second.offsets[1:] + first.n_rows]),
            slot_indptr=np.concatenate(
                [first.slot_indptr, second.slot_indptr[margin + 1 :] + (first.slot_indptr[-1] - skipped)]
            ),
            slot_indices=np.concatenate([first.slot_indices, second.slot_indices[skipped:]]),
            layout=first.layout,
        )


def n_padded_rows(n_rows: int, n_sequences: int, margin: int) -> int:
    """Count the rows, with boundary rows before, between and after the sequences."""
    return n_rows + margin * (n_sequences + 1)


def pad_rows(offsets: NDArray[np.int64], margin: int) -> NDArray[np.int64]:
    """Find the padded row of each position: its own number plus `margin` for each sequence begun so far."""
    return np.arange(offsets[-1], dtype=np.int64) + margin * (sequence_numbers(offsets) + 1)


def binned_bytes(
    batch: SequenceBatch | int, layout: FeatureLayout, *, n_sequences: int = 1, slots_per_row: float = 0.0
) -> int:
    """Memory a batch will take once binned, in bytes; never less than it does take.

    Parameters
    ----------
    batch : SequenceBatch or int
        The batch, or its number of rows.
    layout : FeatureLayout
    n_sequences : int, default=1
        Number of sequences, if `batch` is a number.
    slots_per_row : float, default=0.0
        Number of indicators present in a row, on average, if `batch` is a number.
    """
    if isinstance(batch, int | np.integer):
        n_rows, n_entries = int(batch), int(np.ceil(batch * slots_per_row))
    else:
        n_rows, n_sequences = int(batch.offsets[-1]), batch.offsets.size - 1
        n_entries = 0 if batch.sparse is None else int(batch.sparse.nnz)
    n_padded = n_padded_rows(n_rows, n_sequences, layout.margin)
    n_wide = int(np.count_nonzero(layout.sparse_kind == SUBSET))
    codes = n_padded * layout.n_dense
    places = 8 * (2 * n_rows + n_sequences + 1 + n_padded + 1)
    slots = 4 * (n_entries + n_wide * n_padded)
    return codes + places + slots
