"""What trees do about missing values: a policy for each window feature.

The policies are those of :mod:`seqboost.core.missing`. With INSTANCE_WEIGHTING and SURROGATE, the gain of a split
counts only rows where the feature is present. The boundary is not missing: it is a value of its own under every policy.
Lag labels are never missing. In sparse features "absent" is a value; if they can be missing, a slot stands for that:
the last but one of wide categorical columns, the last of indicators and sparse numbers whose training rows lack some.
Sparse features without such a slot have the policy DIRECTION.

Trees with policies have a grower of their own (:mod:`seqboost.trees.weighted_grower`); the usual one is used where it
would grow the same tree: without such policies, or with INSTANCE_WEIGHTING if the data at hand lack no value. The
splits then have shares all the same, for rows that are seen later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import lean
from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.routes import Routes
from seqboost.trees.tree import DENSE, LAG, Tree

__all__ = ["Policies", "lacks_values", "with_shares"]

SHARES = np.float32(1e-30), np.float32(1.0 - 2.0**-24)  # the smallest and the largest one


class Policies(NamedTuple):
    """The policy of each window feature."""

    dense: NDArray[np.uint8]  # (n_features,) in the order of DenseColumns
    sparse: NDArray[np.uint8]  # (n_sparse,) before windows


def lacks_values(dense: DenseColumns, sparse: SparseColumns, policies: Policies) -> bool:
    """Tell whether a value is missing of a feature whose policy is not DIRECTION."""
    slotted = np.flatnonzero((sparse.missing >= 0) & (policies.sparse != DIRECTION))
    if slotted.size and bool(np.isin(sparse.indices, sparse.slot_start[slotted] + sparse.missing[slotted]).any()):
        return True
    return bool(_lacks_codes(dense, policies.dense))


@lean
def _lacks_codes(
    dense: DenseColumns,
    policy: NDArray[np.uint8],  # IN (n_features,)
) -> bool:
    for f in range(dense.feature.size):
        if policy[f] != DIRECTION:
            for i in range(dense.address.size):
                if dense.codes[dense.address[i] + dense.displacement[f]] == dense.n_values[f]:
                    return True
    return False


def with_shares(tree: Tree, dense: DenseColumns, sparse: SparseColumns, policies: Policies) -> Tree:
    """Give the splits of a tree that was grown on complete rows their shares n_l/(n_l+n_r)."""
    rows = np.concatenate([tree.leaf_rows[::-1], tree.n_rows]).astype(np.float64)  # by leaf ~child, then by split
    n_left, n_right = (rows[child.astype(np.int64) + tree.n_leaves] for child in (tree.left, tree.right))
    of_dense = np.zeros(int(dense.feature.max(initial=-1)) + 1, dtype=np.bool_)
    of_dense[dense.feature] = policies.dense == INSTANCE_WEIGHTING
    of_sparse = np.tile((sparse.missing >= 0) & (policies.sparse == INSTANCE_WEIGHTING), max(1, sparse.offset.size))
    weighs = np.zeros(tree.n_splits, dtype=np.bool_)
    for split in np.flatnonzero(tree.kind != LAG):
        of_kind = of_dense if tree.kind[split] == DENSE else of_sparse
        weighs[split] = of_kind[tree.feature[split]]
    share = np.where(weighs, np.clip((n_left / np.maximum(n_left + n_right, 1)).astype(np.float32), *SHARES), 0)
    return replace(tree, routes=Routes.of_shares(share.astype(np.float32)))
