"""What growing a tree compiles, on problems as small as can be: for the helper of :mod:`seqboost.core.compiler`.

Growing a tree is more than half of all that the first fit of a new installation compiles. Until the kernels of trees
are needed, this process compiles a few of them, and those of binning, chain and objectives. Trees for all labels
(``trees="shared"``) have kernels of their own; ``python -m seqboost.trees.warmup KIND`` compiles those of one kind.
"""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np

from seqboost.core import compiler
from seqboost.core.contexts import Space, context_space
from seqboost.trees.criterion import Limits
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.grower import grow_tree
from seqboost.trees.growing import TreeGrower
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.shared_cells import Units
from seqboost.trees.shared_growing import SharedGrower
from seqboost.trees.shared_ordering import order_vectors
from seqboost.trees.shared_screen import screen_line
from seqboost.trees.shared_search import search
from seqboost.trees.shared_splitting import VectorNode, count_contexts, lay_slots, scan_line
from seqboost.trees.splitting import best_split

__all__ = ["compile_beside", "grow_tiny", "grow_tiny_shared", "shared_types", "split_types", "tiny_grower"]

PER_LABEL, SHARED = "per_label", "shared"


def _tiny_problem() -> tuple[DenseColumns, SparseColumns, Space, Limits]:
    """Return four rows of one column, with the types of every other problem."""
    none32, none64 = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    dense = DenseColumns(
        codes=np.array([0, 1, 0, 1], dtype=np.uint8),
        address=np.arange(4),
        feature=np.zeros(1, dtype=np.int32),
        displacement=np.zeros(1, dtype=np.int64),
        n_values=np.array([2], dtype=np.int32),
        kind=np.zeros(1, dtype=np.uint8),
        cell_start=np.array([0, 4]),
        run_start=np.array([0, 1]),
    )
    sparse = SparseColumns(
        padded_row=np.arange(4),
        indptr=np.zeros(5, dtype=np.int64),
        indices=none32,
        slot_start=np.zeros(1, dtype=np.int32),
        kind=np.zeros(0, dtype=np.uint8),
        absent_rank=none32,
        missing=none32,
        offset=none64,
        enabled=np.zeros((0, 0), dtype=np.bool_),
    )
    return dense, sparse, context_space(2, 1, np.array([0, 4])), Limits(4, 3, 1, 1.0, 0.0, False, 1)


def tiny_grower() -> TreeGrower:
    """Return a grower of four rows of one column, with the types of every other."""
    return TreeGrower(*_tiny_problem())


def grow_tiny() -> None:
    """Compile all that growing a tree and adding it to the scores needs, by doing it, for one context and for two."""
    grower, rows = tiny_grower(), np.arange(4, dtype=np.int32)
    derivatives = np.ones((4, 2), dtype=np.float32)
    tree, partition = grower.grow(derivatives, derivatives, rows, 4, lambda g, h: g / h)
    for scores in (derivatives, derivatives[:, :1].copy()):
        partition.add(tree.value, scores, np.empty_like(scores))


def grow_tiny_shared() -> None:
    """Compile all that growing a tree for all labels and adding it to the scores needs, by doing it.

    The tree must divide rows and contexts, which are separate kernels here.
    """
    grower, rows = SharedGrower(*_tiny_problem()), np.arange(4, dtype=np.int32)
    gradient = np.array([[[0, 0], [9, 1], [-4, 0], [9, 1]]] * 2, dtype=np.float32)
    tree, partition = grower.grow(gradient, np.ones_like(gradient), rows, 4, lambda g, h: g / h)
    partition.add(tree.value, gradient, np.empty_like(gradient))


def split_types() -> tuple[numba.types.Type, ...]:
    """Return the types with which ``grow_tree`` calls ``best_split``."""
    grower = tiny_grower()
    leaves, scratch = grower._leaves, grower._scratch
    arguments = (
        grower.dense, grower.sparse, grower.space, grower.limits, Scales(1.0, 1.0, 1), (0.0, 0.0, 0, 0.0),
        leaves.histogram[0], leaves.contexts[0], leaves.mask[0], leaves.type_rows[0], scratch.drawn, scratch.ranks,
    )  # fmt: skip
    return tuple(numba.typeof(argument) for argument in arguments)


def shared_types() -> dict[Any, tuple[numba.types.Type, ...]]:
    """Return the types with which the search for shared splits calls some kernels."""
    grower = SharedGrower(*_tiny_problem())
    sums, scratch, limits = grower.buffers.sums, grower.buffers.scratch.get(), grower.limits
    cells, counts, vector = sums.cells[0], sums.counts[0], np.zeros(2)
    units, node = Units(vector, vector, vector, vector), VectorNode(scratch.base, 0, 1.0)
    arguments: dict[Any, tuple[Any, ...]] = {
        order_vectors: (cells, counts, 0, 0, 0, scratch.base, units, 1.0, scratch.axes),
        screen_line: (1.0, node, limits, units, 0, scratch),
        scan_line: (1.0, node, limits, False, units, cells, 0, 0, False, scratch),
        lay_slots: (node, limits, cells, counts, 0, 0, np.int32(0), scratch),
        count_contexts: (grower.space.n_contexts_of, 0, False, scratch),
    }
    return {kernel: tuple(map(numba.typeof, values)) for kernel, values in arguments.items()}


def compile_beside(n_threads: int, *, shared: bool = False) -> bool:
    """Have a helper compile the kernels of one kind of trees if they are not cached; return whether one is at work."""
    kernel, kind = (search, SHARED) if shared else (grow_tree, PER_LABEL)
    return compiler.compile_beside(
        kernel, "seqboost.trees.warmup", kind, n_threads,
        lambda: shared_types().items() if shared else [(best_split, split_types())],
    )  # fmt: skip


if __name__ == "__main__":
    compiler.compile_and_exit(grow_tiny_shared if sys.argv[1:] == [SHARED] else grow_tiny)
