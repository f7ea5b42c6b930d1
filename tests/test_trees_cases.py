"""Cases of `tests.support.trees` with derivatives of one label, for today's growers of trees for one label."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from seqboost.core.contexts import Space
from seqboost.trees import DenseColumns, Limits, SparseColumns, TreeGrower
from seqboost.trees.reference import Example, expand
from tests.support import trees
from tests.support.trees import (  # noqa: F401
    CATEGORICAL,
    LACKING,
    LIMITS,
    NUMERIC,
    ORDERED,
    SUBSET,
    Columns,
    leaf_value,
    left_values,
    reference_weights,
    same_tree,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    dense: DenseColumns
    sparse: SparseColumns
    space: Space
    offsets: np.ndarray
    n_labels: int
    order: int
    gradient: np.ndarray  # (n_rows, n_contexts), or (D, n_rows, n_contexts)
    hessian: np.ndarray
    rows: np.ndarray
    n_fitted: int

    @property
    def columns(self) -> Columns:
        return Columns(self.dense, self.sparse)

    @property
    def examples(self) -> list[Example]:
        shape = (-1, *self.gradient.shape[-2:])
        gradient, hessian = self.gradient.reshape(shape), self.hessian.reshape(shape)
        return expand(self.columns, self.offsets, self.n_labels, self.order, gradient, hessian)

    def grower(self, limits: Limits = LIMITS) -> TreeGrower:
        return TreeGrower(self.dense, self.sparse, self.space, limits)

    def grow(self, limits: Limits = LIMITS, seed: int = 0, grower: TreeGrower | None = None):
        grower = self.grower(limits) if grower is None else grower
        value = leaf_value(grower.limits.l2_regularization)
        return grower.grow(self.gradient, self.hessian, self.rows, self.n_fitted, value, seed)

    def with_derivatives(self, gradient, hessian) -> Case:
        return replace(self, gradient=gradient.astype(np.float32), hessian=hessian.astype(np.float32))


def random_case(seed, **shape):
    """A case with derivatives of one label."""
    case = trees.random_case(seed, **shape)
    return Case(
        *case.columns, case.space, case.offsets, case.n_labels, case.order, case.gradient[0], case.hessian[0],
        case.rows, case.n_fitted,
    )  # fmt: skip


def with_labels(case, seed=0, n_outputs=None):
    """The case with derivatives of all labels."""
    whole = trees.with_outputs(case.with_derivatives(case.gradient[None], case.hessian[None]), seed, n_outputs)
    return case.with_derivatives(whole.gradient, whole.hessian)


def policies_of(case, policy, seed=0):
    return trees.policies_of(case.columns, policy, seed)


def as_binned(case):
    return trees.as_binned(case)


def partition_leaves(partition, n_contexts):
    """Leaf of each (row, context), −1 where none: fails if two leaves claim one."""
    space = partition.space
    leaf_of = np.full((len(space.row_type), n_contexts), -1)
    for leaf, (start, size) in enumerate(zip(partition.start, partition.size, strict=True)):
        for row in partition.rows[start : start + size]:
            j = space.row_type[row]
            for c in range(space.n_contexts_of[j]):
                if partition.mask[leaf, space.base[j] + c]:
                    assert leaf_of[row, c] == -1
                    leaf_of[row, c] = leaf
    return leaf_of
