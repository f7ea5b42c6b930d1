"""What the kernels of one growing tree write to: allocated once per grower, used for every tree."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["DEPTH", "FITTED", "N_STATE", "SIZE", "SLOT", "START", "G", "H", "Leaves", "Scratch", "Segments", "Splits"]

# Columns of Leaves.state.
START, SIZE, FITTED, DEPTH, SLOT, G, H, N_STATE = range(8)


class Leaves(NamedTuple):
    """Open and finished leaves; leaf number = first index. The left child of a split keeps its parent's number."""

    state: NDArray[np.int64]  # (max_leaves, N_STATE) segment, positions, depth, row of ``histogram``, sums
    mask: NDArray[np.int32]  # (max_leaves, n_extended) −1: the leaf holds this context
    type_rows: NDArray[np.int64]  # (max_leaves, order + 1) fitted positions of each type
    contexts: NDArray[np.int64]  # (max_leaves, 2, n_extended) sums of gradient and curvature per context
    histogram: NDArray[np.int64]  # (max_leaves, 2 * n_cells)
    rule: NDArray[np.float64]  # (max_leaves, 5) SplitRule; gain < 0: no split


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


Segments: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""Positions, gradients and curvatures of the leaves (:mod:`seqboost.trees.partition`)."""


class Scratch(NamedTuple):
    """Buffers of one thread."""

    keys: NDArray[np.float64]  # (max_values,)
    order: NDArray[np.int64]  # (max_values,)
    left: NDArray[np.bool_]  # (max_values,)
    drawn: NDArray[np.bool_]  # (n_window_features,)
    shuffled: NDArray[np.int64]  # (n_window_features,)
    random: NDArray[np.uint64]  # (1,) state of the generator
    goes_left: NDArray[np.bool_]  # (n_rows,)
    spare: NDArray[np.int32]  # (3, n_rows)
