"""One regression tree over rows × contexts, frozen into plain arrays.

A split tests a dense window feature (`DENSE`), a sparse window feature (`SPARSE`) or a lag label (`LAG`). Its *left
set* is a bitset: a value goes left iff its bit is on. Window tests divide rows, lag tests divide contexts, so a row and
a tree give a vector over contexts, not a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.trees.routes import Routes

__all__ = ["DENSE", "LAG", "SPARSE", "Tree"]

DENSE, SPARSE, LAG = 0, 1, 2


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
