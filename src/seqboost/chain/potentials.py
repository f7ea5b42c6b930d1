"""What a chain is made of: log-scores of every (position, context, label), and where sequences begin.

F_t(c, k) = scores[k, t, c] + table[e(t, c), k]     joint     (scores (K, N, C))
F_t(c, k) = scores[k, t, 0] + table[e(t, c), k]     factored  (scores (K, N, 1))

plus ``end[k]`` at the last position of every sequence.  Letters as in :mod:`seqboost.core.contexts`; N positions of
all sequences laid end to end, sequence s at ``offsets[s]:offsets[s + 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import MAX_RANGE
from seqboost.chain.rowtables import RowTables
from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.offsets import CHUNK_POSITIONS, sequence_chunks

__all__ = ["MANY_LABELS", "MIN_CHUNKS", "Potentials", "factored_chunks"]

MANY_LABELS = 32
"""With more labels than these, factored models of order 1 go the way of :mod:`seqboost.chain.rows`."""

MIN_CHUNKS, LEAST_POSITIONS = 16, 512
"""Positions of many labels are long work: they make so many chunks, of so many positions at least."""


@dataclass(frozen=True, eq=False)
class Potentials:
    """Log-scores of a set of chains.

    Parameters
    ----------
    scores : float32 array (K, N, C) or (K, N, 1)
        Label-major scores; one slot per context (joint) or one for all (factored).  Slots that do not exist near the
        start of a sequence may hold anything.
    table : float64 array (E, K)
        Scores of (extended context, label); -inf = forbidden.
    offsets : int64 array (n_sequences + 1,)
        Where sequences begin; none is empty.
    order : int
        Markov order m.
    end : float64 array (K,), optional
        Score of closing a sequence with label k: 0, or -inf = forbidden.
    """

    scores: NDArray[np.float32]
    table: NDArray[np.float64]
    offsets: NDArray[np.int64]
    order: int
    end: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Check shapes and types."""
        if self.scores.ndim != 3 or self.scores.dtype != np.float32 or not self.scores.flags.c_contiguous:
            raise ParameterError(
                f"scores must be a C-contiguous float32 array (n_labels, n_positions, n_contexts), got "
                f"{self.scores.dtype} of shape {self.scores.shape}"
            )
        space = self.space
        if self.scores.shape[2] not in (1, space.n_contexts):
            raise ParameterError(
                f"scores must have {space.n_contexts} context slots (joint) or 1 (factored) for {space.n_labels} "
                f"labels and order {space.order}, got {self.scores.shape[2]}"
            )
        shape = (space.n_extended, space.n_labels)
        if self.table.shape != shape or self.table.dtype != np.float64 or not self.table.flags.c_contiguous:
            raise ParameterError(
                f"table must be a C-contiguous float64 array of shape {shape}, got {self.table.dtype} of shape "
                f"{self.table.shape}"
            )
        if self.end.shape != (space.n_labels,):
            if self.end.size:
                raise ParameterError(f"end must have shape ({space.n_labels},), got {self.end.shape}")
            object.__setattr__(self, "end", np.zeros(space.n_labels))
        empty = np.flatnonzero(np.diff(self.offsets) <= 0)
        if self.offsets[0] != 0 or self.offsets[-1] != self.scores.shape[1] or empty.size:
            where = f"sequence {empty[0]} is empty" if empty.size else f"they span {self.offsets[0]}:{self.offsets[-1]}"
            raise InputError(
                f"offsets must rise from 0 to the number of positions {self.scores.shape[1]}, but {where}; "
                f"drop empty sequences before scoring"
            )

    @cached_property
    def space(self) -> ContextSpace:
        """Contexts of the chain."""
        return ContextSpace(self.scores.shape[0], self.order)

    @cached_property
    def row_tables(self) -> RowTables:
        """The table of a factored model of order 1, for many labels."""
        return RowTables(self.table)

    @cached_property
    def table_weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Give exp(table - max), the same transposed for full contexts, and the max; empty if its range is too wide."""
        finite = self.table[self.table > -np.inf]
        if finite.size == 0 or finite.max() - finite.min() > MAX_RANGE:
            return np.empty((0, self.n_labels)), np.empty((self.n_labels, self.space.n_contexts)), 0.0
        table_max = float(finite.max())
        weights = np.exp(self.table - table_max)
        return weights, np.ascontiguousarray(weights[self.space.base[-1] :].T), table_max

    @property
    def joint(self) -> bool:
        """Whether scores depend on the context."""
        return self.scores.shape[2] == self.space.n_contexts

    @property
    def n_labels(self) -> int:
        """K."""
        return int(self.scores.shape[0])

    @property
    def n_positions(self) -> int:
        """N."""
        return int(self.scores.shape[1])

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1


def factored_chunks(offsets: NDArray[np.int64], n_labels: int) -> list[tuple[int, int]]:
    """Cut the sequences of a factored model into chunks: smaller ones for many labels, so that threads end together.

    Examples
    --------
    >>> len(factored_chunks(np.arange(0, 8001, 8), 134)), len(factored_chunks(np.arange(0, 8001, 8), 3))
    (16, 2)
    """
    if n_labels <= MANY_LABELS:
        return sequence_chunks(offsets)
    n_positions = max(LEAST_POSITIONS, -(-int(offsets[-1]) // MIN_CHUNKS))
    return sequence_chunks(offsets, min(CHUNK_POSITIONS, n_positions))
