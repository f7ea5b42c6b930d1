"""What the kernels of one growing tree write to: allocated once per grower, used for every tree."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqboost.trees.ordering import Ranks

__all__ = [
    "DEPTH",
    "FITTED",
    "NEWEST",
    "N_LEAVES",
    "N_PROGRESS",
    "N_STATE",
    "SIZE",
    "SLOT",
    "START",
    "USED",
    "G",
    "H",
    "Leaves",
    "Scratch",
    "Segments",
    "Splits",
]

# Columns of Leaves.state.
START, SIZE, FITTED, DEPTH, SLOT, G, H, N_STATE = range(8)

# Places in Leaves.progress: leaves so far (0: nothing planted), used part of the segments, two leaves to be searched
# (−1: none).
N_LEAVES, USED, NEWEST, N_PROGRESS = 0, 1, 2, 4


class Leaves(NamedTuple):
    """Open and finished leaves; leaf number = first index. The left child of a split keeps its parent's number."""

    state: NDArray[np.int64]  # (max_leaves, N_STATE) segment, positions, depth, slot, sums
    mask: NDArray[np.int32]  # (max_leaves, n_extended) −1: the leaf holds this context
    type_rows: NDArray[np.int64]  # (max_leaves, order + 1) fitted positions of each type, if there are contexts
    contexts: NDArray[Any]  # (n_slots, 2, n_extended) by slot: sums of gradient and curvature per context
    histogram: NDArray[np.int64]  # (n_slots, 2 * n_cells) by slot, as many as leaves
    rule: NDArray[np.float64]  # (max_leaves, 5) SplitRule; gain < 0: no split
    progress: NDArray[np.int64]  # (N_PROGRESS,) how far the tree has grown


class Splits(NamedTuple):
    """The tree so far, as in :class:`~seqboost.trees.tree.Tree`."""

    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float32]
    n_rows: NDArray[np.int32]
    word_start: NDArray[np.int32]
    words: NDArray[np.uint64]
    parent: NDArray[np.int64]  # (max_leaves,) split above a leaf, −1 for the root


Segments: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Positions of the leaves, and their packed sums over a leaf's contexts (:mod:`seqboost.trees.partition`)."""


class Scratch(NamedTuple):
    """Buffers of one thread."""

    ranks: Ranks
    left: NDArray[np.bool_]  # (max_values,)
    drawn: NDArray[np.bool_]  # (n_window_features,)
    pool: NDArray[np.int64]  # (n_window_features,) those of the tree come first
    shuffled: NDArray[np.int64]  # (n_window_features,)
    random: NDArray[np.uint64]  # (1,) state of the generator
    goes_left: NDArray[np.bool_]  # (n_rows,)
    spare: Segments  # (n_rows,) each
    chosen: NDArray[np.int64]  # (n_contexts,) contexts
    has: NDArray[np.bool_]  # (2, order + 1) types that have a context in the left and right child
    block: NDArray[np.int64]  # (ROWS_AT_ONCE, N_BLOCK) positions that are added to a histogram
