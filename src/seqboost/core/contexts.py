"""Contexts of Markov order m as numbers: the one numbering that all packages use.

Legend
------
K labels, order m, C = K**m contexts.  The context of position t is c = (y_{t-1}, ..., y_{t-m}), numbered

    c = y_{t-1} + K*y_{t-2} + ... + K**(m-1) * y_{t-m}            (lag 1 is the least significant digit)

Position t has type j = min(t, m): lags before the start of the sequence are the start symbol and take digit 0, so only
the first K**j contexts exist there.  *Extended* contexts distinguish the types: e = base[j] + c,
base[j] = sum_{i<j} K**i, E = base[m] + K**m of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.core.offsets import positions

__all__ = ["ContextSpace", "Space", "context_space", "observed_contexts", "row_types"]


@dataclass(frozen=True)
class ContextSpace:
    """The contexts of a chain of given order.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    order : int
        Markov order m; 0 means that labels do not see each other.

    Examples
    --------
    >>> space = ContextSpace(n_labels=3, order=2)
    >>> space.n_contexts, space.n_extended
    (9, 13)
    >>> space.next_context(space.context_of([2, 1], 2), 0)      # (1, 2) -> (0, 1)
    3
    """

    n_labels: int
    order: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.n_labels < 1:
            raise ParameterError(f"a chain needs at least one label, got n_labels={self.n_labels}")
        if self.order < 0:
            raise ParameterError(f"order must be 0 or more, got {self.order}")

    @property
    def n_contexts(self) -> int:
        """C, the number of contexts of a position."""
        return int(self.n_labels**self.order)

    @property
    def n_extended(self) -> int:
        """E, the number of contexts of all types together."""
        return sum(self.n_labels**i for i in range(self.order + 1))

    @property
    def n_shared(self) -> int:
        """K**(m-1), the number of label tuples that a context and the next one have in common (1 for order 0)."""
        return int(self.n_labels ** max(self.order - 1, 0))

    @cached_property
    def n_contexts_of(self) -> NDArray[np.int64]:
        """K**j, the number of contexts of each type j, shape (order + 1,)."""
        return np.array([self.n_labels**j for j in range(self.order + 1)], dtype=np.int64)

    @cached_property
    def base(self) -> NDArray[np.int64]:
        """First extended context of each type, shape (order + 1,)."""
        return np.append(0, np.cumsum(self.n_contexts_of[:-1])).astype(np.int64)

    def type_of(self, t: int) -> int:
        """Type of position ``t`` of a sequence: how many of its lags exist."""
        return min(t, self.order)

    def n_existing(self, t: int) -> int:
        """Return the number of contexts that exist at position ``t``."""
        return int(self.n_labels ** self.type_of(t))

    def number(self, lags: Iterable[int]) -> int:
        """Return the context of the labels (y_{t-1}, y_{t-2}, ...), which are fewer than the order near the start."""
        return sum(int(label) * self.n_labels**i for i, label in enumerate(lags))

    def next_context(self, c: int, k: int) -> int:
        """Context of the next position after label ``k`` in context ``c``."""
        return k + self.n_labels * (c % self.n_shared) if self.order else 0

    def context_of(self, labels: ArrayLike, t: int) -> int:
        """Context of position ``t`` of a sequence with these labels."""
        return self.number(np.asarray(labels)[t - self.type_of(t) : t][::-1])

    def lag_labels(self) -> NDArray[np.int32]:
        """Return the label at each lag in each extended context, shape (order, E); K = before the start."""
        labels = np.full((self.order, self.n_extended), self.n_labels, dtype=np.int32)
        for j, (first, size) in enumerate(zip(self.base, self.n_contexts_of, strict=True)):
            labels[:j, first : first + size] = np.arange(size) // self.n_contexts_of[:j, None] % self.n_labels
        return labels

    def extended_types(self) -> NDArray[np.int64]:
        """Type of each extended context, shape (E,)."""
        return np.repeat(np.arange(self.order + 1), self.n_contexts_of)


class Space(NamedTuple):
    """Contexts of a model of some order, and the type of every row, as kernels take them."""

    n_labels: int
    base: NDArray[np.int64]  # (order + 1,) first extended context of each type
    n_contexts_of: NDArray[np.int64]  # (order + 1,) K^j
    lag_label: NDArray[np.int32]  # (order, n_extended) label at each lag, K = before the start
    type_of: NDArray[np.uint8]  # (n_extended,)
    row_type: NDArray[np.uint8]  # (n_rows,)


def context_space(n_labels: int, order: int, offsets: NDArray[np.int64]) -> Space:
    """Return the contexts of ``order``, and the type of each position of the sequences at ``offsets``."""
    space = ContextSpace(n_labels, order)
    types = space.extended_types().astype(np.uint8)
    return Space(n_labels, space.base, space.n_contexts_of, space.lag_labels(), types, row_types(offsets, order))


def row_types(offsets: NDArray[np.int64], order: int) -> NDArray[np.uint8]:
    """Return the type min(t, order) of each position of the sequences at ``offsets``, shape (N,).

    Examples
    --------
    >>> row_types(np.array([0, 4, 5]), order=2)
    array([0, 1, 2, 2, 0], dtype=uint8)
    """
    types = np.full(offsets[-1], order, dtype=np.uint8)
    for j in range(order):
        types[offsets[:-1][np.diff(offsets) > j] + j] = j
    return types


def observed_contexts(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    n_labels: int,
    order: int,
    *,
    mark_unobserved: bool = False,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return context and extended context of each position on the path of its labels (-1 = unobserved), shapes (N,).

    With ``mark_unobserved``, both are -1 where a label among the lags is unobserved; otherwise label 0 takes its place.

    Examples
    --------
    >>> observed_contexts(np.array([1, -1, 1]), np.array([0, 3]), n_labels=2, order=1)[1]
    array([0, 2, 1], dtype=int32)
    >>> observed_contexts(np.array([1, -1, 1]), np.array([0, 3]), n_labels=2, order=1, mark_unobserved=True)[1]
    array([ 0,  2, -1], dtype=int32)
    """
    position = positions(offsets)
    context = np.zeros(len(labels), dtype=np.int64)
    unobserved = np.zeros(len(labels), dtype=np.bool_)
    for lag in range(1, order + 1):
        rows = np.flatnonzero(position >= lag)
        before = labels[rows - lag]
        context[rows] += np.maximum(before, 0).astype(np.int64) * n_labels ** (lag - 1)
        unobserved[rows] |= before < 0
    extended = ContextSpace(n_labels, order).base[np.minimum(position, order)] + context
    if mark_unobserved:
        context[unobserved] = extended[unobserved] = -1
    return context.astype(np.int32), extended.astype(np.int32)
