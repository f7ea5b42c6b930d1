"""Sequences laid end to end: sequence s holds the positions ``offsets[s]`` to ``offsets[s + 1]`` − 1 of all N.

``offsets`` rises from 0 to N, with one entry more than there are sequences.

>>> offsets = np.array([0, 3, 4])
>>> sequence_numbers(offsets), positions(offsets), locate(offsets, 2)
(array([0, 0, 0, 1]), array([0, 1, 2, 0]), (0, 2))
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "CHUNK_POSITIONS",
    "locate",
    "position_bounds",
    "positions",
    "sequence_chunks",
    "sequence_numbers",
    "starts_of",
]

CHUNK_POSITIONS = 4096
"""Sequences are grouped into chunks of at least 4096 positions; a chunk is one task of one thread."""


def starts_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return the offsets of parts of given lengths: where each begins, and where the last one ends."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


def positions(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each of all N in its own sequence, shape (N,)."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def sequence_numbers(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the sequence that each of all N positions belongs to, shape (N,)."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def position_bounds(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the sequence of each of all N positions begins and stops, shapes (N,)."""
    lengths = np.diff(offsets)
    return np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)


def locate(offsets: NDArray[np.int64], row: int | np.integer) -> tuple[int, int]:
    """Return the sequence that number ``row`` of all N positions belongs to, and its position there."""
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    return sequence, int(row - offsets[sequence])


def sequence_chunks(offsets: NDArray[np.int64], n_positions: int = CHUNK_POSITIONS) -> list[tuple[int, int]]:
    """Cut the sequences into runs ``first, last`` of at least ``n_positions`` positions (the last run may be shorter).

    The cut depends on the lengths alone, never on the number of threads, so that sums taken chunk by chunk are the same
    on any machine.

    Examples
    --------
    >>> sequence_chunks(np.array([0, 3, 5, 9, 10]), 4)
    [(0, 2), (2, 3), (3, 4)]
    """
    chunks = []
    first = 0
    n_sequences = len(offsets) - 1
    while first < n_sequences:
        last = int(np.searchsorted(offsets, offsets[first] + n_positions, side="left"))
        last = min(max(last, first + 1), n_sequences)
        chunks.append((first, last))
        first = last
    return chunks
