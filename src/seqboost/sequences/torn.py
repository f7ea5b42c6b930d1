"""Sequences of a training table that come back in part.

Splitters that cut a table by rows tear its sequences apart: one part is trained on, another one is labelled. A model
remembers which sequences it was trained on, in memory only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.sequences.batch import Layout, places_of

__all__ = ["TrainingTable"]

REUSED = 0.25  # if more than this share of the known ids has more rows than before, ids were given anew


class TrainingTable(NamedTuple):
    """The sequences of a table, and which rows were theirs.

    Attributes
    ----------
    number : dict
        Number of each sequence by its id.
    lengths : ndarray of int64, shape (n_sequences,)
        Lengths of the sequences.
    index : pandas.Index or None
        Index of the table, if its labels are unique.
    sequence_of : ndarray of int32, shape (n_rows,)
        Number of the sequence of each row.
    """

    number: dict[Any, int]
    lengths: NDArray[np.int64]
    index: Any
    sequence_of: NDArray[np.int32]

    @classmethod
    def of(cls, layout: Layout) -> TrainingTable | None:
        """Return what is kept of a table; None for all other forms of X."""
        if layout.ids is None:
            return None
        number = {name: i for i, name in enumerate(layout.ids)}
        index = layout.index if getattr(layout.index, "is_unique", False) else None
        return cls(number, np.diff(layout.offsets), index, _by_row(layout, np.arange(len(number))))

    def torn(self, layout: Layout) -> list[tuple[Any, int, int]]:
        """Return (id, rows now, rows in training) of the sequences that come back in part.

        Rows are told by the labels of a pandas index; a label that belongs to another sequence now shows that this is
        another table. Without such an index, lengths are compared.
        """
        numbers = np.array([self.number.get(name, -1) for name in layout.ids or ()], dtype=np.int64)
        here = np.flatnonzero(numbers >= 0)
        if len(here) == 0:
            return []
        now, then = np.diff(layout.offsets)[here], self.lengths[numbers[here]]
        is_torn = now < then
        has_labels = self.index is not None and hasattr(layout.index, "get_indexer")
        rows = places_of(layout.index, self.index) if has_labels else None
        if rows is not None:
            claimed, known = _by_row(layout, numbers), rows >= 0
            if (self.sequence_of[rows[known]] != claimed[known]).any():
                return []
            counts = np.bincount(claimed[known], minlength=len(self.lengths))
            is_torn = counts[numbers[here]] < then
        elif (now > then).sum() > REUSED * len(here):
            return []
        assert layout.ids is not None
        found = np.flatnonzero(is_torn).tolist()
        return [(layout.ids[here[i]], int(now[i]), int(then[i])) for i in found]


def _by_row(layout: Layout, values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return values of sequences as values of the rows of the table."""
    by_row = np.empty(layout.n_rows, dtype=np.int32)
    by_row[layout.table_rank] = np.repeat(values, np.diff(layout.offsets))
    return by_row
