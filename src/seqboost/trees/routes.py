"""Where a tree sends rows whose tested value is missing.

A split of a feature with the policy INSTANCE_WEIGHTING has a *share*: a row without a value goes to both children, to
the left one with that part of its weight. A split with the policy SURROGATE has *surrogates*, splits of other features
that divide the rows alike: the first of them whose feature is present decides. If none is, and for all other splits,
the bit of "missing" in the left set does, which is on the larger side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Routes"]


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
