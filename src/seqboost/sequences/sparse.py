"""Sparse matrices -> batch: the sparse part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from seqboost.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences.batch import Layout, SequenceBatch
from seqboost.sequences.columns import Extra, TrainedCategories, assemble, infinity, resolve_categorical

__all__ = ["check_sparse", "read_sparse"]


def read_sparse(matrices: Sequence[Any], layout: Layout, form: str, categorical_features: Any) -> SequenceBatch:
    """Read sparse matrices, one per sequence (or one for flat input)."""
    n_columns = matrices[0].shape[1]
    names = tuple(f"x{j}" for j in range(n_columns))
    if not isinstance(categorical_features, TrainedCategories) and resolve_categorical(categorical_features, names):
        raise ParameterError("categorical_features cannot be used with sparse matrices; pass dicts or dense arrays.")
    for i, matrix in enumerate(matrices):
        if matrix.dtype.kind == "c":
            raise InputTypeError(f"Complex data not supported: sparse matrix {i} has dtype {matrix.dtype}.")
        if matrix.shape[1] != matrices[0].shape[1]:
            raise InputError(
                f"X[{i}] has {matrix.shape[1]} features but X[0] has {matrices[0].shape[1]}; "
                "all sequences need the same columns."
            )
    if n_columns == 0:
        raise InputError(
            f"Found array with 0 feature(s) (shape=({layout.n_rows}, 0)) while a minimum of 1 is required."
        )
    blocks = [sp.csr_array(matrix) for matrix in matrices]
    joined = blocks[0] if len(blocks) == 1 else sp.vstack(blocks, format="csr")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is refused below
        sparse = sp.csr_array(joined, dtype=np.float32, copy=True)
    return assemble([], layout, form, Extra(check_sparse(sparse, names, layout), names))


def check_sparse(sparse: sp.csr_array, names: Sequence[str], layout: Layout) -> sp.csr_array:
    """Bring a matrix of our own to canonical form (no zeros, no repeats, sorted) and refuse infinite values."""
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    bad = np.isinf(sparse.data)
    if bad.any():
        entry = int(np.argmax(bad))
        row = int(np.searchsorted(sparse.indptr, entry, side="right")) - 1
        raise infinity(names[int(sparse.indices[entry])], layout.where(row))
    return sparse
