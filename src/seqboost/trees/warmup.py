"""What growing a tree compiles, on a problem as small as can be: for the helper of :mod:`seqboost.core.compiler`.

Growing a tree is more than half of all that the first fit of a new installation compiles. ``python -m
seqboost.trees.warmup`` compiles it, while the process that started it compiles the kernels of binning, chain and
objectives. Kernels for missing-value policies, which defaults do not need, are compiled on first use.
"""

from __future__ import annotations

import numpy as np

from seqboost.core import compiler
from seqboost.core.contexts import context_space
from seqboost.trees.columns import Columns, DenseColumns, Limits, Problem, SparseColumns
from seqboost.trees.grow import advance
from seqboost.trees.grower import Grower

__all__ = ["compile_beside", "grow_tiny", "tiny_grower"]


def tiny_grower(order: int = 1) -> Grower:
    """Return a grower of four rows of one column, with the types of every other."""
    none32, none64 = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    dense = DenseColumns(
        codes=np.array([0, 1, 0, 1], dtype=np.uint8),
        address=np.arange(4),
        displacement=np.zeros(1, dtype=np.int64),
        n_values=np.array([2], dtype=np.int32),
        kind=np.zeros(1, dtype=np.uint8),
        cell_start=np.array([0, 4]),
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
    limits = Limits(4, 3, 1, 1.0, 0.0, False, 1)
    return Grower(Problem(Columns(dense, sparse), context_space(2, order, np.array([0, 4])), limits), 2)


def grow_tiny() -> None:
    """Compile all that growing a tree and adding it to the scores needs, by doing it."""
    rows, both = np.arange(4, dtype=np.int32), np.array([[[0, 0], [9, 1], [-4, 0], [9, 1]]] * 2, dtype=np.float32)
    for order in (1, 0):  # without contexts, leaves are numbered in another way
        gradient = np.ascontiguousarray(both[:, :, : 1 + order])
        tree, leaves = tiny_grower(order).grow(gradient, np.ones_like(gradient), rows, 4, lambda g, h: g / h)
        leaves.add(tree.value, gradient, np.empty_like(gradient))


def compile_beside(n_threads: int) -> bool:
    """Have a helper compile the kernels of trees if they are not cached; return whether one is at work."""
    return compiler.compile_beside(advance, "seqboost.trees.warmup", "", n_threads, tuple)


if __name__ == "__main__":
    compiler.compile_and_exit(grow_tiny)
