"""Sparse matrices -> batch: the sparse part."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences.batch import Layout, SequenceBatch
from seqboost.sequences.columns import Extra, TrainedCategories, assemble, infinity, narrowed, resolve_categorical

__all__ = ["check_sparse", "read_sparse"]


def read_sparse(matrices: Sequence[Any], form: str, categorical_features: Any) -> SequenceBatch:
    """Read sparse matrices, one per sequence (or one for flat input); a stored 0 is as good as none."""
    names_of = ["X"] if form == "flat" else [f"X[{i}]" for i in range(len(matrices))]
    for matrix, name in zip(matrices, names_of, strict=True):
        _check_shape(matrix, name, matrices[0].shape[-1])
    lengths = np.ones(matrices[0].shape[0]) if form == "flat" else [matrix.shape[0] for matrix in matrices]
    layout = Layout.from_lengths(lengths, "flat" if form == "flat" else "list")
    n_columns = matrices[0].shape[1]
    if n_columns == 0:
        raise InputError(
            f"Found array with 0 feature(s) (shape=({layout.n_rows}, 0)) while a minimum of 1 is required."
        )
    names = tuple(f"x{j}" for j in range(n_columns))
    if not isinstance(categorical_features, TrainedCategories) and resolve_categorical(categorical_features, names):
        raise ParameterError("categorical_features cannot be used with sparse matrices; pass dicts or dense arrays.")
    sparse = _joined(matrices, names_of)
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    single = all(matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4 for matrix in matrices)
    return assemble([], layout, form, Extra(check_sparse(sparse, names, layout), names, single=single))


def _check_shape(matrix: Any, name: str, n_columns: int) -> None:
    """Refuse what is not a matrix of numbers with so many columns."""
    if matrix.ndim != 2:
        raise InputError(
            f"{name} is a sparse array with {matrix.ndim} dimension(s), of shape {matrix.shape}; expected 2 "
            f"(positions, features). Pass {name}.reshape(-1, 1) if it holds one number for each position."
        )
    if matrix.dtype.kind == "c":
        raise InputTypeError(f"Complex data not supported: sparse matrix {name} has dtype {matrix.dtype}.")
    if matrix.shape[1] != n_columns:
        raise InputError(
            f"{name} has {matrix.shape[1]} features but X[0] has {n_columns}; all sequences need the same columns."
        )


def _joined(matrices: Sequence[Any], names: Sequence[str]) -> sp.csr_array:
    """Return the rows of all matrices; indices that lead beyond a matrix are refused, for SciPy would follow them."""
    blocks = []
    for matrix, name in zip(matrices, names, strict=True):
        with _refusing(matrix, name):
            if matrix.format == "coo":
                _check_coordinates(matrix)
            elif matrix.format in ("csc", "bsr"):
                copy.copy(matrix).check_format(full_check=True)  # of a copy, because it trims arrays
            blocks.append(sp.csr_array(matrix))
    joined = sp.csr_array(blocks[0] if len(blocks) == 1 else sp.vstack(blocks, format="csr"), copy=True)
    try:
        joined.check_format(full_check=True)  # once for all: thousands of short sequences would take their time
    except ValueError:
        for block, name in zip(blocks, names, strict=True):
            with _refusing(block, name):
                block.check_format(full_check=True)
        raise
    return joined


def _check_coordinates(matrix: Any) -> None:
    for index, size in ((matrix.row, matrix.shape[0]), (matrix.col, matrix.shape[1])):
        if len(index) != matrix.nnz or (len(index) and not 0 <= index.min() <= index.max() < size):
            raise ValueError(f"its coordinates do not fit the shape {matrix.shape}")


@contextmanager
def _refusing(matrix: Any, name: str) -> Iterator[None]:
    """Turn what SciPy says of a damaged matrix into an error that names it."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise InputError(
            f"{name} is a damaged sparse matrix of shape {matrix.shape}: {error}. Its index arrays must have been "
            "changed after it was made; build it again."
        ) from None


def check_sparse(sparse: sp.csr_array, names: Sequence[str], layout: Layout) -> sp.csr_array:
    """Bring a matrix of our own to canonical form (no repeats, sorted, no wider than need be); refuse infinity."""
    sparse.sum_duplicates()
    sparse.data = narrowed(sparse.data)
    bad = np.isinf(sparse.data)
    if bad.any():
        entry = int(np.argmax(bad))
        row = int(np.searchsorted(sparse.indptr, entry, side="right")) - 1
        raise infinity(names[int(sparse.indices[entry])], layout.where(row))
    return sparse
