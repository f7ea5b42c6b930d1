"""The grower of trees for one label: its buffers, and what its partitions add."""

from __future__ import annotations

import numpy as np
import pytest
from test_trees_cases import LIMITS, as_binned, leaf_value, partition_leaves, random_case, same_tree


@pytest.mark.parametrize("n_drawn", [3, 10**6])
def test_a_grower_used_again_grows_the_same_tree(n_drawn):
    limits = LIMITS._replace(n_drawn_features=n_drawn, max_leaf_nodes=12)
    case = random_case(6, n_riders=5, order=2, n_labels=2)
    fresh, partition = case.grow(limits, seed=7)
    grower = case.grower(limits)
    rng = np.random.default_rng(0)
    other = case.with_derivatives(rng.permutation(case.gradient) * (case.hessian > 0), case.hessian)
    other.grow(seed=1, grower=grower)
    again, partition_again = case.grow(seed=7, grower=grower)
    assert same_tree(fresh, again)
    assert np.array_equal(partition_leaves(partition, 4), partition_leaves(partition_again, 4))


def test_buffers_may_hold_garbage():
    limits = LIMITS._replace(max_leaf_nodes=12)
    case = random_case(6, n_riders=5, order=2, n_labels=2)
    fresh, _ = case.grow(limits)
    grower = case.grower(limits)
    scratch = grower._scratch
    for array in (*grower._leaves, *grower._splits, *grower._segments, grower._cells, *scratch.ranks, scratch.left,
                  scratch.goes_left, *scratch.spare, scratch.chosen, scratch.has):  # fmt: skip
        array.fill(np.nan if array.dtype.kind == "f" else 99)
    again, _ = case.grow(grower=grower)
    assert same_tree(fresh, again)


@pytest.mark.parametrize("order", [0, 2])
def test_order_of_rows_does_not_matter(order):
    case = random_case(8, order=order, n_labels=2, n_riders=9)
    fresh, _ = case.grow()
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(part) for part in np.split(case.rows, [case.n_fitted])])
    tree, partition = case.grower().grow(case.gradient, case.hessian, rows, case.n_fitted, leaf_value(0.5), 0)
    assert same_tree(fresh, tree)
    assert (partition_leaves(partition, case.gradient.shape[1]) >= 0).sum() == len(case.examples)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_partition_adds_what_the_model_would_score(order):
    model = pytest.importorskip("seqboost.model.reference")
    case = random_case(9, order=order, n_labels=3, n_riders=9)
    tree, partition = case.grow()
    old = np.random.default_rng(0).normal(size=case.gradient.shape).astype(np.float32)
    new = np.full_like(old, np.nan)
    partition.add(tree.value, old, new)
    binned = as_binned(case)
    for e in case.examples:
        leaf = model._leaves(tree, binned, e.row, list(e.lags))[0][0]
        assert new[e.row, e.context] == old[e.row, e.context] + tree.value[leaf]
        old[e.row, e.context] = np.nan
    assert np.isnan(new).sum() == new.size - len(case.examples)  # slots that do not exist stay as they were


def test_partition_adds_in_place():
    case = random_case(9)
    tree, partition = case.grow()
    scores = np.ones_like(case.gradient)
    expected = scores.copy()
    partition.add(tree.value, scores.copy(), expected)
    partition.add(tree.value, scores, scores)
    assert np.array_equal(scores, expected)
