"""Sequences in parts, so that scores of every label after every context fit into memory."""

from __future__ import annotations

import numpy as np

from seqboost.sequences import SequenceBatch

__all__ = ["MOST_CELLS", "in_pieces"]

MOST_CELLS = 2**25  # scores of a part of the sequences that are in memory at once


def in_pieces(batch: SequenceBatch, n_cells: int) -> list[SequenceBatch]:
    """Cut a batch between sequences into parts of about ``MOST_CELLS`` scores, ``n_cells`` to a position."""
    piece = np.cumsum(batch.lengths) * n_cells // MOST_CELLS
    cuts = np.flatnonzero(np.diff(piece)) + 1
    return [batch[part] for part in np.split(np.arange(batch.n_sequences), cuts)] if len(cuts) else [batch]
