"""Contexts of Markov order m as numbers, and constraints on labels as a table of scores.

Legend
------
K labels, order m, C = K**m context slots.  The context of position t is c = (y_{t-1}, ..., y_{t-m}), numbered

    c = y_{t-1} + K*y_{t-2} + ... + K**(m-1) * y_{t-m}            (lag 1 is the least significant digit)

Position t has type j = min(t, m): lags before the start of the sequence are the start symbol and take digit 0, so only
the first K**j slots exist there.  *Extended* contexts tell the types apart: e = base[j] + c, base[j] = sum_{i<j} K**i,
E = base[m] + K**m of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqboost.exceptions import ParameterError

__all__ = ["ContextSpace", "end_scores", "transition_table"]


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
        """C, the number of context slots of a position."""
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
    def base(self) -> NDArray[np.int64]:
        """First extended context of each type, shape (order + 1,)."""
        sizes = [self.n_labels**i for i in range(self.order)]
        return np.cumsum([0, *sizes], dtype=np.int64)

    def type_of(self, t: int) -> int:
        """Type of position ``t`` of a sequence: how many of its lags exist."""
        return min(t, self.order)

    def n_existing(self, t: int) -> int:
        """Return the number of context slots that exist at position ``t``."""
        return int(self.n_labels ** self.type_of(t))

    def next_context(self, c: int, k: int) -> int:
        """Context of the next position after label ``k`` in context ``c``."""
        return k + self.n_labels * (c % self.n_shared) if self.order else 0

    def context_of(self, labels: ArrayLike, t: int) -> int:
        """Context slot of position ``t`` of a sequence with these labels."""
        values = np.asarray(labels)
        return sum(int(values[t - lag]) * self.n_labels ** (lag - 1) for lag in range(1, self.type_of(t) + 1))

    def digits(self, context_type: int | None = None) -> NDArray[np.int64]:
        """Label of each lag in each slot, shape (C, order), of positions of a type; lags that do not exist hold K."""
        slots = np.arange(self.n_contexts)[:, None]
        digits = slots // self.n_labels ** np.arange(self.order)[None, :] % self.n_labels
        if context_type is not None:
            digits[:, context_type:] = self.n_labels
        return digits

    def extended_types(self) -> NDArray[np.int64]:
        """Type of each extended context, shape (E,)."""
        return np.repeat(np.arange(self.order + 1), [self.n_labels**i for i in range(self.order + 1)])


def transition_table(
    space: ContextSpace,
    start: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Turn constraints on labels into a table of scores: 0 where allowed, -inf where forbidden.

    Parameters
    ----------
    space : ContextSpace
        Contexts of the chain.
    start : bool array (K,), optional
        Labels that may open a sequence.
    allowed : bool array (K, K), optional
        ``allowed[a, b]``: label b may follow label a.

    Returns
    -------
    float64 array (E, K)
    """
    n_labels = space.n_labels
    table = np.zeros((space.n_extended, n_labels))
    if start is not None:
        if space.order == 0:
            raise _constraint_without_order("start")
        table[0, ~_boolean(start, (n_labels,), "start")] = -np.inf
    if allowed is not None:
        if space.order == 0:
            raise _constraint_without_order("allowed")
        may_follow = _boolean(allowed, (n_labels, n_labels), "allowed")
        for context_type in range(1, space.order + 1):
            first = int(space.base[context_type])
            previous = np.arange(n_labels**context_type) % n_labels
            table[first : first + previous.size][~may_follow[previous]] = -np.inf
    return table


def end_scores(space: ContextSpace, end: ArrayLike | None = None) -> NDArray[np.float64]:
    """Turn the labels that may close a sequence (bool (K,)) into scores 0 / -inf, shape (K,)."""
    scores = np.zeros(space.n_labels)
    if end is not None:
        if space.order == 0:
            raise _constraint_without_order("end")
        scores[~_boolean(end, (space.n_labels,), "end")] = -np.inf
    return scores


def _constraint_without_order(name: str) -> ParameterError:
    return ParameterError(
        f"the constraint {name!r} needs labels that see each other, but order is 0; use order=1 or more, "
        f"or drop the constraint"
    )


def _boolean(values: ArrayLike, shape: tuple[int, ...], name: str) -> NDArray[np.bool_]:
    array = np.asarray(values)
    if array.shape != shape or array.dtype != np.bool_:
        raise ParameterError(
            f"{name} must be a boolean array of shape {shape}, one entry per label in coded order; "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array
