"""Sequences whose labels are decided by what comes later: the data sets of section 5.4.1 of Hao (2009).

Every position has eight random bits, of which the last two mean nothing::

    local_t  at least 4 of the first 6 bits are set
    rare_t   at most 1 of the first 6 bits is set                    (a positive instance)
    bag_t    one of the next 6 positions is rare                     (about half of all bags)

    "xor"    y_t = local_t xor bag_t
    "or"     y_t = local_t or bag_t
    "extra"  y_t = at least 4 of (bag_t, the first 6 bits)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from seqboost.core.exceptions import ParameterError

__all__ = ["FutureBits", "make_future_bits"]

LENGTH, N_BITS, N_MEANINGFUL, BAG_SIZE = 30, 8, 6, 6


class FutureBits(NamedTuple):
    """Sequences, their labels, and what decides them."""

    X: list[NDArray[np.float64]]
    y: list[NDArray[np.int64]]
    bags: list[NDArray[np.bool_]]
    """Whether the bag of each position holds a rare one."""
    rare: list[NDArray[np.bool_]]
    """Whether each position is rare."""


def make_future_bits(kind: str, n_sequences: int = 400, *, random_state: Any = None) -> FutureBits:
    """Return random sequences of 30 positions whose labels depend on the six positions that follow.

    Parameters
    ----------
    kind : {"xor", "or", "extra"}
        How local bits and the bag make a label.
    n_sequences : int, default=400
        The source has 400 for training, 200 for validation and 100 for testing.
    random_state : int, RandomState or None, default=None
        Seed.

    Returns
    -------
    FutureBits

    Examples
    --------
    >>> data = make_future_bits("xor", 2, random_state=0)
    >>> data.X[0].shape, data.y[0][:5]
    ((30, 8), array([1, 1, 1, 0, 0]))
    """
    if kind not in ("xor", "or", "extra"):
        raise ParameterError(f"kind must be one of 'xor', 'or', 'extra'; got {kind!r}")
    if n_sequences < 1:
        raise ParameterError(f"n_sequences must be 1 or more; got {n_sequences!r}")
    rng = check_random_state(random_state)
    data = FutureBits([], [], [], [])
    for _ in range(n_sequences):
        bits = rng.randint(0, 2, size=(LENGTH, N_BITS))
        n_set = bits[:, :N_MEANINGFUL].sum(axis=1)
        local, rare = n_set >= 4, n_set <= 1
        bag = np.array([rare[t + 1 : t + 1 + BAG_SIZE].any() for t in range(LENGTH)])
        label = {"xor": local ^ bag, "or": local | bag, "extra": n_set + bag >= 4}[kind]
        data.X.append(bits.astype(np.float64))
        data.y.append(label.astype(np.int64))
        data.bags.append(bag)
        data.rare.append(rare)
    return data
