"""Log-scores of every (position, context, label) of a set of chains, and where sequences begin.

F_t(c, k) = scores[k, t, c] + table[e(t, c), k]     joint     (scores (K, N, C))
F_t(c, k) = scores[k, t, 0] + table[e(t, c), k]     factored  (scores (K, N, 1))

plus ``end[k]`` at the last position of every sequence.  Letters as in :mod:`seqboost.core.contexts`; N positions of
all sequences laid end to end, sequence s at ``offsets[s]:offsets[s + 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.tables import PaddedTable, TableWeights, minima_table, padded_table, table_weights
from seqboost.core.contexts import ContextSpace
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.offsets import CHUNK_POSITIONS, sequence_chunks

__all__ = [
    "MANY_LABELS",
    "MIN_CHUNKS",
    "LabelScores",
    "Lattice",
    "Potentials",
    "factored_chunks",
    "lattice_part",
]

MANY_LABELS = 32
"""With more labels than this, factored models of order 1 use :mod:`seqboost.chain.exact.many_labels`."""

MIN_CHUNKS, LEAST_POSITIONS = 16, 512
"""Positions of many labels take long: at least this number of chunks, of at least this number of positions."""

NO_LABELS = np.empty(0, np.int32)


class Lattice(NamedTuple):
    """A set of chains as kernels read them."""

    scores: NDArray[np.float32]  # (K, N, C), or (K, N, 1) of a factored model
    table: NDArray[np.float64]  # (E, K)
    end: NDArray[np.float64]  # (K,)
    offsets: NDArray[np.int64]  # (n_sequences + 1,)
    base: NDArray[np.int64]  # (m + 1,) first extended context of each type
    labels: NDArray[np.int32] = NO_LABELS  # (N,) observed labels, -1 = unobserved; or (0,): nothing is observed


def lattice_part(lattice: Lattice, first: int, last: int) -> Lattice:
    """Copy the sequences ``first:last``."""
    rows = slice(int(lattice.offsets[first]), int(lattice.offsets[last]))
    scores, offsets = np.ascontiguousarray(lattice.scores[:, rows]), lattice.offsets[first : last + 1] - rows.start
    return lattice._replace(scores=scores, offsets=offsets, labels=lattice.labels[rows])


@dataclass(frozen=True, eq=False)
class LabelScores:
    """Scores of labels and where sequences begin: what all potentials have."""

    scores: NDArray[np.float32]
    table: NDArray[np.float64]
    offsets: NDArray[np.int64]

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

    def with_scores(self, scores: NDArray[np.float32]) -> Self:
        """Return the same chains with other scores of labels."""
        return replace(self, scores=scores)

    def _complete_end(self, end: NDArray[np.float64]) -> None:
        """Check the scores of closing a sequence; set them to 0 if they are not given."""
        if end.shape != (self.n_labels,):
            if end.size:
                raise ParameterError(f"end must have shape ({self.n_labels},), got {end.shape}")
            object.__setattr__(self, "end", np.zeros(self.n_labels))


@dataclass(frozen=True, eq=False)
class Potentials(LabelScores):
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
        self._complete_end(self.end)
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

    def lattice(self, labels: NDArray[np.int32] | None = None) -> Lattice:
        """Return the arrays as kernels read them, with observed labels if any."""
        observed = NO_LABELS if labels is None else labels
        return Lattice(self.scores, self.table, self.end, self.offsets, self.space.base, observed)

    @cached_property
    def padded_table(self) -> PaddedTable:
        """Exponentials of the table of a factored model of order 1, for many labels."""
        return padded_table(self.table)

    @cached_property
    def minima_table(self) -> NDArray[np.int16]:
        """Logarithms of the same for minima."""
        return minima_table(self.padded_table)

    @cached_property
    def table_weights(self) -> TableWeights:
        """Exponentials of the table of a factored model."""
        return table_weights(self.table, self.space.n_contexts)

    @property
    def joint(self) -> bool:
        """Whether scores depend on the context."""
        return bool(self.scores.shape[2] == self.space.n_contexts)


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
