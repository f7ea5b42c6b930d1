"""What trees are grown on: binned columns, the policies for missing values, and the limits of a tree.

Features are numbered in three lists: dense window features, sparse window features (offset · n_sparse + column), and
lags. A *cell* is one value of one window feature. Cells of dense features come first, feature by feature; then those of
the sparse slots, offset by offset::

    dense feature f, code v          cell_start[f] + v
    sparse offset o, slot s          n_dense_cells + o·n_slots + s
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import jit
from seqboost.core.missing import DIRECTION, SURROGATE

__all__ = [
    "Columns",
    "DenseColumns",
    "Limits",
    "Policies",
    "Problem",
    "SparseColumns",
    "first_cells",
    "lacks_values",
    "needs_weights",
]


class DenseColumns(NamedTuple):
    """The bin codes as the kernels see them; window features are sorted by displacement.

    Features whose displacements follow one another form a *run*: a window over all columns is a single run, and a row's
    part of it is one contiguous slice of memory.
    """

    codes: NDArray[np.uint8]  # (n_padded * n_dense,) row-major, boundary rows between sequences
    address: NDArray[np.int64]  # (n_rows,) first code of a position
    displacement: NDArray[np.int64]  # (n_features,) code of a position: codes[address + displacement]
    n_values: NDArray[np.int32]  # (n_features,) B: codes 0..B-1 are values, B missing, B+1 boundary, B+2 unknown
    kind: NDArray[np.uint8]  # (n_features,) 0 numeric, 1 categorical
    cell_start: NDArray[np.int64]  # (n_features + 1,) first cell of a feature, see first_cells


def first_cells(n_values: NDArray[np.int32], kind: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the first cell of each dense feature, and the number of all cells.

    Beside its values a feature has missing and boundary, and categories have the unknown ones of a warm start, which no
    split is made for. Numbers of cells are odd: if features begin 4,096 bytes apart, processors take what is loaded
    from a cell of one for what was just stored to another, and adding rows that share cells takes ten times as long.
    """
    return np.concatenate([[0], np.cumsum((n_values + 2 + (kind != 0)) | 1)]).astype(np.int64)


class SparseColumns(NamedTuple):
    """The slots of every padded row, and which sparse feature they belong to."""

    padded_row: NDArray[np.int64]  # (n_rows,)
    indptr: NDArray[np.int64]  # (n_padded + 1,)
    indices: NDArray[np.int32]  # (n_entries,)
    slot_start: NDArray[np.int32]  # (n_sparse + 1,) slots of a sparse feature
    kind: NDArray[np.uint8]  # (n_sparse,) 0 ordered, 1 subset
    absent_rank: NDArray[np.int32]  # (n_sparse,) where "absent" stands among the ordered slots
    missing: NDArray[np.int32]  # (n_sparse,) which of its slots stands for missing values; −1: none
    offset: NDArray[np.int64]  # (n_sparse_offsets,)
    enabled: NDArray[np.bool_]  # (n_sparse_offsets, n_sparse)


class Columns(NamedTuple):
    """All columns of the rows."""

    dense: DenseColumns
    sparse: SparseColumns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.dense.address.size

    @property
    def n_cells(self) -> int:
        """Number of cells of a histogram."""
        return int(self.dense.cell_start[-1]) + int(self.sparse.slot_start[-1]) * self.sparse.offset.size

    @property
    def n_features(self) -> int:
        """Number of window features, dense and sparse."""
        return self.dense.displacement.size + self.sparse.kind.size * self.sparse.offset.size


class Limits(NamedTuple):
    """What a tree may do."""

    max_leaf_nodes: int
    max_depth: int
    min_samples_leaf: int
    l2_regularization: float
    min_gain: float
    one_against_rest: bool
    n_drawn_features: int  # window features drawn at each node; all of them if not smaller
    n_tree_features: int = 2**31 - 1  # window features drawn for each tree, from which the nodes draw theirs
    n_surrogates: int = 3  # surrogate splits kept for each split on a feature with this policy


class Problem(NamedTuple):
    """The columns and contexts of rows, and the limits of their trees."""

    columns: Columns
    space: Space
    limits: Limits


class Policies(NamedTuple):
    """What is done about missing values of each window feature (:mod:`seqboost.core.missing`).

    * `DIRECTION`: "missing" is one more value of the feature; each split learns which way it goes.
    * `INSTANCE_WEIGHTING`: a row whose value is missing goes both ways, with reduced weight (C4.5).
    * `SURROGATE`: it goes where another feature sends it that divides the rows alike (CART).

    With the latter two, the gain of a split counts only rows where the feature is present. The boundary is not missing:
    it is a value of its own under every policy. Lag labels are never missing. In sparse features "absent" is a value;
    if they can be missing, a slot stands for that. Sparse features without such a slot have the policy DIRECTION.
    """

    dense: NDArray[np.uint8]  # (n_features,) in the order of DenseColumns
    sparse: NDArray[np.uint8]  # (n_sparse,) before windows


def lacks_values(columns: Columns, policies: Policies) -> bool:
    """Return whether a value is missing of a feature whose policy is not DIRECTION."""
    sparse = columns.sparse
    slotted = np.flatnonzero((sparse.missing >= 0) & (policies.sparse != DIRECTION))
    if slotted.size and bool(np.isin(sparse.indices, sparse.slot_start[slotted] + sparse.missing[slotted]).any()):
        return True
    return bool(_lacks_codes(columns.dense, policies.dense))


@jit
def _lacks_codes(
    dense: DenseColumns,
    policy: NDArray[np.uint8],  # IN (n_features,)
) -> bool:
    for f in range(dense.displacement.size):
        if policy[f] != DIRECTION:
            for i in range(dense.address.size):
                if dense.codes[dense.address[i] + dense.displacement[f]] == dense.n_values[f]:
                    return True
    return False


def needs_weights(columns: Columns, policies: Policies) -> bool:
    """Return whether the policies change how trees are grown on these rows."""
    slotted = policies.sparse[columns.sparse.missing >= 0]
    has_surrogates = bool((policies.dense == SURROGATE).any() or (slotted == SURROGATE).any())
    return has_surrogates or lacks_values(columns, policies)
