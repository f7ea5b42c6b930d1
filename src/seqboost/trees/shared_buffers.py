"""What a shared tree's growth writes to: allocated once per grower, used for every tree."""

from __future__ import annotations

from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.shared_histogram import block_tasks, feature_blocks
from seqboost.trees.shared_ordering import Axes
from seqboost.trees.shared_screen import LONGEST_LINE
from seqboost.trees.shared_search import Finds, Sums
from seqboost.trees.shared_splitting import Scratch

__all__ = ["MAX_DECIDING", "Buffers", "histogram_slots"]

HISTOGRAM_BYTES = 256 * 2**20  # of all live histograms
# NETtalk, 134 labels: with 32 of them deciding as good as with all, with 16 a point worse after 100 rounds.
MAX_DECIDING = 32
MIN_SLOTS = 2  # the two nodes of a split


def histogram_slots(n_cells: int, n_deciding: int, max_leaf_nodes: int) -> int:
    """Return how many histograms are kept at a time: one for each leaf, or as many as ``HISTOGRAM_BYTES`` allow."""
    affordable = HISTOGRAM_BYTES // max(1, n_cells * (8 * n_deciding + 4))
    return min(max_leaf_nodes, max(MIN_SLOTS, affordable))


class Buffers:
    """Buffers for trees on the same columns.

    Parameters
    ----------
    dense, sparse, space, limits, n_threads
        As in :class:`~seqboost.trees.shared_growing.SharedGrower`.
    n_deciding : int
        Number of labels that decide on splits; "n_labels" in the shapes below and in the kernels.

    Attributes
    ----------
    cells : ndarray of int32 of shape (n_rows, n_contexts, 2 * n_labels)
        Fixed-point derivatives (:mod:`seqboost.trees.shared_cells`).
    vectors, node_vectors : ndarray of int32 of shape (n_rows, 2 * n_labels)
        Their sums over all contexts, by row; and over the contexts of one node, in the order of its rows.
    sums : Sums
        Histograms and sums per context (none if there is but one context), by slot.
    rows, spare : ndarray of int32
        Segments of the leaves; ``rows`` is made longer when a tree divides contexts often.
    blocks : ndarray of int64 of shape (n_blocks, N_BLOCK)
        Features, divided.
    tasks : list of tuple
        How the blocks are shared out.
    finds : Finds
        What each task finds.
    scratch : queue of Scratch
        One for each thread.
    """

    def __init__(
        self, dense: DenseColumns, sparse: SparseColumns, space: Space, limits: Limits, n_deciding: int, n_threads: int
    ) -> None:
        n_rows, width, n_extended = dense.address.size, 2 * n_deciding, space.type_of.size
        order = space.base.size - 1
        n_cells = int(dense.cell_start[-1]) + int(sparse.slot_start[-1]) * sparse.offset.size
        n_slots = histogram_slots(n_cells, n_deciding, limits.max_leaf_nodes)
        n_windowed = dense.feature.size + sparse.kind.size * sparse.offset.size
        max_values = max(256, space.n_labels + 1, int(np.diff(sparse.slot_start).max(initial=0)))
        self.cells = np.empty((n_rows, int(space.n_contexts_of[-1]), width), dtype=np.int32)
        self.vectors = np.empty((n_rows, width), dtype=np.int32) if order else self.cells.reshape(n_rows, width)
        self.node_vectors = np.empty((n_rows if order else 0, width), dtype=np.int32)
        self.sums = Sums(
            cells=np.empty((n_slots, n_cells, width), dtype=np.int32),
            counts=np.empty((n_slots, n_cells), dtype=np.int32),
            contexts=np.empty((n_slots if order else 0, n_extended, width), dtype=np.int32),
        )
        self.rows, self.spare = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=np.int32)
        self.drawn = np.ones((2, n_windowed), dtype=np.bool_)
        self.pool = np.arange(n_windowed)
        self.shuffled = np.empty(n_windowed, dtype=np.int64)
        self.random = np.zeros(1, dtype=np.uint64)
        self.blocks = feature_blocks(dense, sparse, order, 4 * width)
        self.tasks = block_tasks(self.blocks, n_threads)
        n_tasks = len(self.tasks)
        self.finds = Finds(
            gain=np.empty((n_tasks, 2)),
            kind=np.empty((n_tasks, 2), dtype=np.int64),
            feature=np.empty((n_tasks, 2), dtype=np.int64),
            left=np.zeros((n_tasks, 2, max_values), dtype=np.bool_),
        )
        n_ordered = max(
            int((dense.n_values[dense.kind != 0] + 2).max(initial=0)),
            int(np.diff(sparse.slot_start)[sparse.kind != 0].max(initial=0)),
            space.n_labels + 1 if order else 0,
        )
        n_lag_labels = space.n_labels + 1 if order else 0
        self.scratch: SimpleQueue[Scratch] = SimpleQueue()
        for _ in range(n_threads):
            self.scratch.put(_new_scratch(n_ordered, max_values + 1, n_lag_labels, n_deciding, order))

    def make_room(self, n_rows: int) -> NDArray[np.int32]:
        """Return ``rows`` with room for so many."""
        while self.rows.size < n_rows:
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        return self.rows


def _new_scratch(n_ordered: int, max_line: int, n_lag_labels: int, n_deciding: int, order: int) -> Scratch:
    axes = Axes(
        pull=np.empty((n_ordered, n_deciding)),
        weight=np.empty(n_ordered),
        direction=np.empty(n_deciding),
        spread=np.empty(n_deciding),
        inverse=np.empty(n_deciding),
        keys=np.empty(n_ordered),
        order=np.empty(max_line, dtype=np.int64),
    )
    return Scratch(
        axes=axes,
        n_left=np.empty(max_line, dtype=np.int64),
        n_right=np.empty(max_line, dtype=np.int64),
        base=np.empty(2 * n_deciding, dtype=np.int32),
        left=np.empty(2 * n_deciding, dtype=np.int32),
        absent=np.empty(2 * n_deciding, dtype=np.int32),
        lag_sums=np.empty((n_lag_labels, 2 * n_deciding), dtype=np.int32),
        lag_counts=np.empty(n_lag_labels, dtype=np.int32),
        contexts=np.empty((n_lag_labels, order + 1), dtype=np.int64),
        present=np.empty(2 * n_deciding, dtype=np.int32),
        prefix=np.empty((2 * n_deciding, min(max_line, LONGEST_LINE)), dtype=np.int32),
        bound=np.empty(min(max_line, LONGEST_LINE), dtype=np.float32),
    )
