"""What growing a tree compiles, on a problem as small as can be: for the helper of :mod:`seqboost.core.compiler`.

Trees are three quarters of all that the first fit of a new installation compiles. ``python -m seqboost.trees.warmup``
compiles the search of splits, while the process that started it compiles the growth of trees and the rest. Kernels for
missing-value policies and for reduced sums, which defaults do not need, are compiled on first use.
"""

from __future__ import annotations

import numpy as np

from seqboost.core import compiler
from seqboost.core.contexts import context_space
from seqboost.trees.columns import Columns, DenseColumns, Limits, Problem, SparseColumns
from seqboost.trees.grower import Grower
from seqboost.trees.leaves import LeafRows
from seqboost.trees.split import search

__all__ = ["await_kernels", "compile_around", "compile_beside", "compile_growth", "compile_search", "tiny_grower"]


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


def compile_growth() -> None:
    """Compile the growth of a tree, but for the search of splits."""
    tiny_grower().compile()


def compile_around() -> None:
    """Compile what comes before the growth of a tree and after it, by doing it."""
    rows, all_rows = np.arange(4, dtype=np.int32), np.array([4])
    for order in (1, 0):  # without contexts, leaves are numbered in another way
        grower, values = tiny_grower(order), np.ones((2, 4, 1 + order), dtype=np.float32)
        grower.start(values, values, rows, 4, *grower.units(values, values, rows, 4))
        mask = np.ones((1, grower.problem.space.type_of.size), dtype=np.bool_)
        leaf = LeafRows(grower.problem.space, rows, rows, None, np.zeros_like(all_rows), all_rows, mask)
        leaf.add(np.ones((1, 2), dtype=np.float32), values, np.empty_like(values))


def compile_search() -> None:
    """Compile the search of splits, and what comes before and after the growth of a tree."""
    tiny_grower().link()
    compile_around()


def compile_beside(n_threads: int) -> bool:
    """Have a helper compile half of the kernels if they are not cached; return whether one is at work."""
    return compiler.compile_beside(search, "seqboost.trees.warmup", "", n_threads)


def await_kernels() -> None:
    """Wait for the helper, if there is one, and compile the other half meanwhile."""
    compiler.wait(compile_growth)


if __name__ == "__main__":
    compiler.compile_and_exit(compile_search)
