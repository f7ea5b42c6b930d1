"""One regression tree over rows × contexts, frozen into plain arrays.

A split tests a dense window feature (`DENSE`), a sparse window feature (`SPARSE`) or a lag label (`LAG`). Its *left
set* is a bitset: a value goes left iff its bit is on. Window tests divide rows, lag tests divide contexts, so a row and
a tree give a vector over contexts, not a number.

Routes say where rows go whose tested value is missing. A split of a feature with the policy INSTANCE_WEIGHTING has a
*share*: a row without a value goes to both children, to the left one with that part of its weight. A split with the
policy SURROGATE has *surrogates*, splits of other features that divide the rows alike: the first of them whose feature
is present decides. If none is, and for all other splits, the bit of "missing" in the left set does, which is on the
larger side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENSE", "LAG", "SPARSE", "Routes", "Tree"]

DENSE, SPARSE, LAG = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Routes:
    """Shares and surrogates of the splits of a tree, or of a forest.

    Attributes
    ----------
    share : ndarray of float32, shape (n_splits,)
        What part of a row's weight goes left if its value is missing; 0: it goes one way as a whole.
    surrogate_start : ndarray of int64, shape (n_splits + 1,)
        The surrogates of split ``i`` are numbers ``surrogate_start[i]`` to ``surrogate_start[i + 1] - 1``, best first.
    surrogate_kind : ndarray of uint8, shape (n_surrogates,)
        DENSE or SPARSE.
    surrogate_feature : ndarray of int32, shape (n_surrogates,)
        Window feature, numbered as in `Tree`.
    surrogate_word_start : ndarray of int64, shape (n_surrogates + 1,)
        Where their left sets begin.
    surrogate_words : ndarray of uint64, shape (n_words,)
        The left sets, as in `Tree`.
    """

    share: NDArray[np.float32]
    surrogate_start: NDArray[np.int64]
    surrogate_kind: NDArray[np.uint8]
    surrogate_feature: NDArray[np.int32]
    surrogate_word_start: NDArray[np.int64]
    surrogate_words: NDArray[np.uint64]

    @classmethod
    def none(cls, n_splits: int) -> Routes:
        """Routes of splits that send every row one way, as their left sets say."""
        return cls.of_shares(np.zeros(n_splits, dtype=np.float32))

    @classmethod
    def of_shares(cls, share: NDArray[np.float32]) -> Routes:
        """Routes without surrogates."""
        return cls(
            share=share,
            surrogate_start=np.zeros(len(share) + 1, dtype=np.int64),
            surrogate_kind=np.zeros(0, dtype=np.uint8),
            surrogate_feature=np.zeros(0, dtype=np.int32),
            surrogate_word_start=np.zeros(1, dtype=np.int64),
            surrogate_words=np.zeros(0, dtype=np.uint64),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Routes]) -> Routes:
        """Lay the routes of several trees end to end."""

        def starts(name: str) -> NDArray[np.int64]:
            sizes = [np.diff(getattr(part, name)) for part in parts]
            return np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *sizes]), dtype=np.int64)

        def joined(name: str) -> NDArray[np.generic]:
            return np.concatenate([getattr(cls.none(0), name), *(getattr(part, name) for part in parts)])

        of_starts = {name: starts(name) for name in ("surrogate_start", "surrogate_word_start")}
        rest = {name: joined(name) for name in ("share", "surrogate_kind", "surrogate_feature", "surrogate_words")}
        return cls(**rest, **of_starts)  # type: ignore[arg-type]

    def part(self, first: int, last: int) -> Routes:
        """Return the routes of splits ``first`` to ``last - 1``."""
        a, b = int(self.surrogate_start[first]), int(self.surrogate_start[last])
        word_start = self.surrogate_word_start[a : b + 1]
        return Routes(
            share=self.share[first:last],
            surrogate_start=self.surrogate_start[first : last + 1] - a,
            surrogate_kind=self.surrogate_kind[a:b],
            surrogate_feature=self.surrogate_feature[a:b],
            surrogate_word_start=word_start - word_start[0],
            surrogate_words=self.surrogate_words[word_start[0] : word_start[-1]],
        )


@dataclass(frozen=True, eq=False)
class Tree:
    """A frozen regression tree.

    Attributes
    ----------
    kind : ndarray of uint8, shape (n_splits,)
        What each split tests: `DENSE`, `SPARSE` or `LAG`.
    feature : ndarray of int32, shape (n_splits,)
        Dense window feature, sparse window feature, or lag (1 to the order) tested.
    word_start : ndarray of int32, shape (n_splits + 1,)
        The left set of split ``i`` is the bitset ``words[word_start[i]:word_start[i + 1]]``.
    words : ndarray of uint64, shape (n_words,)
        The left sets. Bit ``v`` stands for a bin code (DENSE, 4 words), a label (LAG; the start symbol is number
        ``n_labels``), or a slot counted from the feature's first one (SPARSE; absent goes right).
    left, right : ndarray of int32, shape (n_splits,)
        Children: ``>= 0`` a split, ``< 0`` leaf number ``~child``. Split 0 is the root; without splits there is one
        leaf.
    value : ndarray of float32, shape (n_leaves,) or (n_leaves, n_labels)
        Final values of the leaves, learning rate applied; of a tree for all labels, a row of values for each leaf.
    gain : ndarray of float32, shape (n_splits,)
        Gain of each split.
    n_rows : ndarray of int32, shape (n_splits,)
        Training rows that reached each split.
    leaf_rows : ndarray of int32, shape (n_leaves,)
        Training rows that reached each leaf.
    routes : Routes or None
        Where rows go whose tested value is missing; None: as the left sets say.
    """

    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    word_start: NDArray[np.int32]
    words: NDArray[np.uint64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    gain: NDArray[np.float32]
    n_rows: NDArray[np.int32]
    leaf_rows: NDArray[np.int32]
    routes: Routes | None = None

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.kind)

    @property
    def n_leaves(self) -> int:
        """Number of leaves, always one more than splits."""
        return len(self.value)
