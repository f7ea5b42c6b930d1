"""From the features' layout to what the tree kernels read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ModelFileError
from seqboost.features import BinnedRows
from seqboost.trees import Columns, DenseColumns, Policies, SparseColumns, first_cells

__all__ = ["tree_columns", "tree_policies"]


def tree_columns(binned: BinnedRows) -> Columns:
    """Return the binned rows as the kernels read them: no copy of the data."""
    layout = binned.layout
    n_values, kind = layout.n_values.astype(np.int32), layout.kind.astype(np.uint8)
    dense = DenseColumns(
        codes=binned.codes.reshape(-1),
        address=binned.address,
        displacement=layout.displacement.astype(np.int64),
        n_values=n_values,
        kind=kind,
        cell_start=first_cells(n_values, kind),
    )
    sparse = SparseColumns(
        padded_row=binned.padded_row,
        indptr=binned.slot_indptr,
        indices=binned.slot_indices,
        slot_start=layout.slot_start.astype(np.int32),
        kind=layout.sparse_kind.astype(np.uint8),
        absent_rank=layout.absent_rank.astype(np.int32),
        missing=layout.sparse_missing.astype(np.int32),
        offset=layout.sparse_offsets.astype(np.int64),
        enabled=np.ascontiguousarray(layout.sparse_enabled),
    )
    _check_within(binned, dense, sparse)
    return Columns(dense, sparse)


def _check_within(binned: BinnedRows, dense: DenseColumns, sparse: SparseColumns) -> None:
    """Raise ModelFileError if a code, an address or a slot lies outside what the kernels have room for.

    Kernels add to histograms by intrinsics, which do not look where arrays end. Codes that a binner of ours makes are
    always within; one that was put together from a file and got past its checks need not be.
    """
    n_codes, n_columns, fits = dense.n_values + 2 + (dense.kind != 0), binned.codes.shape[1], True
    if len(n_codes) and len(dense.address):
        largest = binned.codes.max(axis=0, initial=0).astype(np.int64)
        fits = bool((largest[dense.displacement % n_columns] < n_codes).all())
        first, last = dense.address.min() + dense.displacement.min(), dense.address.max() + dense.displacement.max()
        fits &= bool(first >= 0 and last < dense.codes.size)
    fits &= _lie_within(sparse.indices, int(sparse.slot_start[-1]))
    fits &= _lie_within(sparse.padded_row, len(sparse.indptr) - 1)
    if not fits:
        raise ModelFileError("the bins of this model do not fit the data that it made of them; train it anew")


def _lie_within(numbers: NDArray[np.integer], stop: int) -> bool:
    """Check whether numbers are in 0 .. stop − 1."""
    return not numbers.size or bool(numbers.min() >= 0 and numbers.max() < stop)


def tree_policies(binned: BinnedRows) -> Policies:
    """Return the policies for missing values, in the order of `tree_columns`."""
    return Policies(binned.layout.policy.astype(np.uint8), binned.layout.sparse_policy.astype(np.uint8))
