"""What the leaves of a tree hold, and add to the scores of rows."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from seqboost.core.contexts import context_space
from seqboost.trees import LeafRows
from tests.support.trees import (
    LIMITS,
    POLICIES,
    leaf_weights,
    policies_of,
    random_case,
    reference_weights,
    with_outputs,
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("joint", [False, True])
def test_leaves_add_their_values(joint, order, policy):
    """From left to right, to the bit; contexts that do not exist get nothing."""
    n_several = 0
    for seed in range(2):
        case = random_case(seed, order=order, n_labels=3, n_riders=9, missing=0.3)
        case = with_outputs(case, seed) if joint else case
        tree, leaves = case.grow(LIMITS, policies_of(case.columns, POLICIES[policy], seed))
        leaves.prepare()
        old = np.random.default_rng(0).normal(size=case.gradient.shape).astype(np.float32)
        new, expected = np.full_like(old, np.nan), old.copy()
        leaves.add(tree.value, old, new)
        for e in case.examples:
            weights = reference_weights(tree, case.columns, e.row, e.lags)
            n_several += len(weights) > 1
            for leaf, weight in weights.items():
                expected[:, e.row, e.context] += weight * tree.value[leaf]
        assert np.array_equal(new, expected)
        leaves.add(tree.value, old, old)  # in place
        assert np.array_equal(old, expected)
        few = np.zeros((1, *old.shape[1:]), dtype=np.float32)  # of one label alone
        leaves.add(tree.value[:, :1], few, few)
        for e in case.examples:
            first = np.float32(0)
            for leaf, weight in reference_weights(tree, case.columns, e.row, e.lags).items():
                first += weight * tree.value[leaf, 0]
            assert few[0, e.row, e.context] == first
    assert (n_several > 0) == (policy in ("weighting", "mixed"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("order", [0, 1])
def test_sums_of_leaves(order, n_threads, policy, monkeypatch):
    """Of any labels, over the rows that count, times their weights."""
    monkeypatch.setattr("seqboost.trees.leaves.LABELS_PER_TASK", 2)
    case = with_outputs(random_case(3, order=order, n_labels=3, n_riders=9, missing=0.3), 3, 5)
    _, leaves = case.grow(LIMITS, policies_of(case.columns, POLICIES[policy]))
    fitted = set(case.rows[: case.n_fitted].tolist())
    n_fitted = np.array(
        [
            sum(row in fitted for row in leaves.rows[a : a + n].tolist())
            for a, n in zip(leaves.start, leaves.size, strict=True)
        ]
    )
    assert (n_fitted < leaves.size).any()
    sums = leaves.sums(case.gradient, case.hessian, n_fitted, n_threads)
    weights = leaf_weights(case, leaves).astype(np.float64)
    weights[:, case.rows[case.n_fitted :]] = 0
    for found, plane in zip(sums, (case.gradient, case.hessian), strict=True):
        np.testing.assert_allclose(found, np.einsum("lrc,krc->lk", weights, plane.astype(np.float64)), atol=1e-9)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("n_contexts", [2, 3, 9, 12, 17])
def test_leaves_add_whatever_leaves_a_row_is_in(n_contexts, in_place):
    """Each context divides the rows by another bit: from 9 on there are too many patterns to be numbered at once."""
    n_rows, n_labels, rng = 2000, 2, np.random.default_rng(n_contexts)
    space = context_space(n_contexts, 1, np.array([0, 100, 103, n_rows - 1]))  # the last row is none of the tree's
    space = space._replace(row_type=np.append(space.row_type, np.uint8(1)))
    bits = rng.integers(2, size=(n_rows - 1, n_contexts))
    rows, mask = [], np.zeros((2 * n_contexts, 1 + n_contexts), dtype=np.bool_)
    for leaf in range(2 * n_contexts):
        context, bit = divmod(leaf, 2)
        mask[leaf, 1 + context] = True
        mask[leaf, 0] = context == 0  # the one context that a first position has
        rows.append([i for i in np.flatnonzero(bits[:, context] == bit) if space.row_type[i] == 1 or context == 0])
    size = np.array([len(part) for part in rows])
    positions = rng.permutation(n_rows - 1).astype(np.int32)
    segments = np.concatenate(rows).astype(np.int32)
    leaves = LeafRows(space, positions, segments, None, np.cumsum(size) - size, size, mask)
    value = rng.normal(size=(2 * n_contexts, n_labels)).astype(np.float32)
    old = rng.normal(size=(n_labels, n_rows, n_contexts)).astype(np.float32)
    new = old.copy() if in_place else np.full_like(old, 7)
    expected = new.copy()
    leaves.add(value, new if in_place else old, new)
    for i in range(n_rows - 1):
        for c in range(n_contexts if space.row_type[i] == 1 else 1):
            expected[:, i, c] = old[:, i, c] + value[2 * c + bits[i, c]]
    exists = np.ones((n_rows, n_contexts), dtype=bool)
    exists[space.row_type == 0, 1:] = False
    assert np.array_equal(new[:, exists], expected[:, exists])
    assert np.array_equal(new[:, -1], expected[:, -1])
    assert len(leaves.patterns.leaf) > (256 if n_contexts >= 9 else 1)


def test_scores_of_another_type_are_refused():
    """Compiled code would take them for what it expects."""
    case = random_case(0)
    tree, leaves = case.grow()
    if not numba.config.DISABLE_JIT:
        scores = np.zeros(case.gradient.shape)
        with pytest.raises(numba.TypingError, match="expected a contiguous array of float32"):
            leaves.add(tree.value, scores, scores)
