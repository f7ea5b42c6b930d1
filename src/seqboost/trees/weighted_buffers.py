"""What the growing of a tree with policies for missing values writes to, beside :mod:`seqboost.trees.buffers`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.trees.buffers import N_STATE
from seqboost.trees.ordering import Ranks
from seqboost.trees.surrogates import Ranking

__all__ = ["N_WEIGHTED_STATE", "Detours", "W", "WeightedScratch"]

# One more column of Leaves.state: the weights of the fitted positions.
W, N_WEIGHTED_STATE = N_STATE, N_STATE + 1


class Detours(NamedTuple):
    """Shares and surrogates of the tree so far, as in :class:`~seqboost.trees.routes.Routes`."""

    share: NDArray[np.float32]  # (max_leaves,)
    start: NDArray[np.int64]  # (max_leaves + 1,)
    kind: NDArray[np.uint8]  # (max_surrogates,)
    feature: NDArray[np.int32]  # (max_surrogates,)
    place: NDArray[np.int64]  # (max_surrogates,) as in SplitRule
    word_start: NDArray[np.int64]  # (max_surrogates + 1,)
    words: NDArray[np.uint64]  # (max_words,)


class WeightedScratch(NamedTuple):
    """Buffers of one thread."""

    ranks: Ranks
    ranking: Ranking
    left: NDArray[np.bool_]  # (max_values,)
    other_left: NDArray[np.bool_]  # (max_values,) of a surrogate
    drawn: NDArray[np.bool_]  # (n_window_features,)
    pool: NDArray[np.int64]  # (n_window_features,)
    shuffled: NDArray[np.int64]  # (n_window_features,)
    random: NDArray[np.uint64]  # (1,)
    mark: NDArray[np.uint8]  # (n_rows,) where the positions of a node go
    part_left: NDArray[np.float32]  # (3,) what goes left of a position, by its mark
    on_left: NDArray[np.int64]  # (n_cells,) weights by value of the positions that a split sends left
    on_right: NDArray[np.int64]  # (n_cells,)
    has: NDArray[np.bool_]  # (2, order + 1) types that have a context in the left and right child
