"""The layout of window features: where in a binned row's neighbourhood each feature is found.

Codes are stored row by row, so the window of a position is one contiguous slice of memory::

    row t-1:  [ a b c ]         feature "b[-1]" of position t lies at  address(t) + displacement
    row t  :  [ a b c ]                       with  displacement = offset * n_dense + column
    row t+1:  [ a b c ]

Dense window features are sorted by displacement. Sparse ones are numbered ``o_idx * n_sparse + s``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.missing import DIRECTION
from seqboost.features.windows import Offsets, window_name

__all__ = [
    "CATEGORICAL",
    "NUMERIC",
    "ORDERED",
    "SUBSET",
    "DenseColumn",
    "FeatureLayout",
    "SparseColumns",
]

NUMERIC, CATEGORICAL = 0, 1  # kinds of dense features
ORDERED, SUBSET = 0, 1  # kinds of sparse features


class DenseColumn(NamedTuple):
    """A column of the codes: its name, kind, number of value codes, the offsets it is seen at, and its policy."""

    name: str
    kind: int
    n_values: int
    offsets: Offsets
    policy: int = DIRECTION


class SparseColumns(NamedTuple):
    """The sparse features, before windows: wide categorical columns first, then the indicators."""

    names: tuple[str, ...]
    n_slots: NDArray[np.int32]  # (n_sparse,)
    kind: NDArray[np.uint8]  # (n_sparse,) ORDERED | SUBSET
    absent_rank: NDArray[np.int32]  # (n_sparse,)
    missing: NDArray[np.int32]  # (n_sparse,)
    wide_offsets: tuple[Offsets, ...]  # one per wide column
    indicator_offsets: Offsets  # of all others
    policy: NDArray[np.uint8]  # (n_sparse,) for missing values


@dataclass(frozen=True, eq=False)
class FeatureLayout:
    """Where to find the window features, and what their codes mean.

    Attributes
    ----------
    column, offset : ndarray of shape (n_dense_features,), dtype int32
        Column of the codes and offset in positions of each dense window feature.
    displacement : ndarray of shape (n_dense_features,), dtype int64
        Its code lies at ``address + displacement``; increasing.
    n_values : ndarray of shape (n_dense_features,), dtype int32
        B: codes 0..B-1 are values, B = missing, B+1 = boundary (no such position), B+2 = a category not seen in
        training.
    kind : ndarray of shape (n_dense_features,), dtype uint8
        NUMERIC or CATEGORICAL.
    slot_start : ndarray of shape (n_sparse + 1,), dtype int32
        Slots of sparse feature s are ``slot_start[s] .. slot_start[s + 1] - 1``.
    sparse_kind : ndarray of shape (n_sparse,), dtype uint8
        ORDERED (indicators, sparse numbers) or SUBSET (wide categorical columns; last two slots: missing, boundary).
    absent_rank : ndarray of shape (n_sparse,), dtype int32
        Number of slots that sort before "absent".
    sparse_missing : ndarray of shape (n_sparse,), dtype int32
        Which of its slots stands for missing values, counted from the feature's first; -1: none does.
    sparse_offsets : ndarray of shape (n_sparse_offsets,), dtype int32
        Offsets at which sparse features may be looked at; increasing.
    sparse_enabled : ndarray of shape (n_sparse_offsets, n_sparse), dtype bool
        Which feature may be looked at there.
    column_names, sparse_names : tuple of str
        Names of the columns of the codes, and of the sparse features.
    margin : int
        Largest distance any feature looks at: the number of boundary rows around each sequence.
    policy : ndarray of shape (n_dense_features,), dtype uint8
        What trees do about missing values of each dense window feature: DIRECTION, INSTANCE_WEIGHTING or SURROGATE.
    sparse_policy : ndarray of shape (n_sparse,), dtype uint8
        The same for the sparse features; those without a slot for missing values have none.
    """

    column: NDArray[np.int32]
    offset: NDArray[np.int32]
    displacement: NDArray[np.int64]
    n_values: NDArray[np.int32]
    kind: NDArray[np.uint8]
    slot_start: NDArray[np.int32]
    sparse_kind: NDArray[np.uint8]
    absent_rank: NDArray[np.int32]
    sparse_missing: NDArray[np.int32]
    sparse_offsets: NDArray[np.int32]
    sparse_enabled: NDArray[np.bool_]
    column_names: tuple[str, ...]
    sparse_names: tuple[str, ...]
    margin: int
    policy: NDArray[np.uint8]
    sparse_policy: NDArray[np.uint8]

    @classmethod
    def build(cls, dense: Sequence[DenseColumn], sparse: SparseColumns) -> FeatureLayout:
        """Lay out the window features of dense and sparse columns."""
        column = np.repeat(np.arange(len(dense)), [len(described.offsets) for described in dense])
        offset = np.concatenate([np.empty(0, dtype=np.int64), *(described.offsets for described in dense)])
        displacement = offset * len(dense) + column
        order = np.argsort(displacement)  # no two are the same
        displacement, column, offset = displacement[order], column[order], offset[order]
        sparse_offsets, enabled = _sparse_windows(sparse)
        used = np.concatenate([offset, sparse_offsets])
        return cls(
            column=column.astype(np.int32),
            offset=offset.astype(np.int32),
            displacement=displacement,
            n_values=np.array([described.n_values for described in dense], dtype=np.int32)[column],
            kind=np.array([described.kind for described in dense], dtype=np.uint8)[column],
            slot_start=np.concatenate([[0], np.cumsum(sparse.n_slots)]).astype(np.int32),
            sparse_kind=sparse.kind,
            absent_rank=sparse.absent_rank,
            sparse_missing=sparse.missing,
            sparse_offsets=sparse_offsets,
            sparse_enabled=enabled,
            column_names=tuple(described.name for described in dense),
            sparse_names=sparse.names,
            margin=int(np.abs(used).max()) if used.size else 0,
            policy=np.array([described.policy for described in dense], dtype=np.uint8)[column],
            sparse_policy=sparse.policy,
        )

    @property
    def n_dense(self) -> int:
        """Number of columns of the codes."""
        return len(self.column_names)

    @property
    def n_dense_features(self) -> int:
        """Number of dense window features."""
        return self.column.size

    @property
    def n_sparse(self) -> int:
        """Number of sparse features, before windows."""
        return self.sparse_kind.size

    @property
    def n_slots(self) -> int:
        """Number of slots of all sparse features."""
        return int(self.slot_start[-1])

    @property
    def n_sparse_features(self) -> int:
        """Number of sparse window features, those that are not enabled included."""
        return self.sparse_enabled.size

    @property
    def n_features(self) -> int:
        """Number of window features, dense ones first."""
        return self.n_dense_features + self.n_sparse_features

    @property
    def n_cells(self) -> int:
        """Number of cells of a histogram over all window features."""
        return int((self.n_values + 2).sum()) + self.n_slots * len(self.sparse_offsets)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the dense window features, then of the sparse ones; made when first asked for."""
        n_features = self.n_features
        return tuple(self.feature_name(feature) for feature in range(n_features))

    def feature_name(self, feature: int) -> str:
        """Name of one window feature; sparse ones are numbered after the dense ones."""
        if feature < self.n_dense_features:
            return window_name(self.column_names[self.column[feature]], int(self.offset[feature]))
        o_idx, s = divmod(feature - self.n_dense_features, self.n_sparse)
        return window_name(self.sparse_names[s], int(self.sparse_offsets[o_idx]))

    def same_as(self, other: FeatureLayout) -> bool:
        """Whether two layouts are equal, array by array."""
        if self is other:
            return True
        mine, others = vars(self), vars(other)
        return all(np.array_equal(mine[field], others[field]) for field in self.__dataclass_fields__)


def _sparse_windows(sparse: SparseColumns) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Offsets that some sparse feature is seen at, and which feature is seen at which."""
    n_sparse, n_wide = len(sparse.names), len(sparse.wide_offsets)
    windows = list(sparse.wide_offsets)
    if n_sparse > n_wide:
        windows.append(sparse.indicator_offsets)
    union = np.unique(np.concatenate([np.empty(0, dtype=np.int32), *windows])).astype(np.int32)
    enabled = np.zeros((union.size, n_sparse), dtype=np.bool_)
    for s, offsets in enumerate(sparse.wide_offsets):
        enabled[:, s] = np.isin(union, offsets)
    enabled[:, n_wide:] = np.isin(union, sparse.indicator_offsets)[:, None]
    return union, enabled
