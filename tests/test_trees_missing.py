"""Growers of trees with policies for missing values: which is used, threads, buffers and partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_trees_cases import (
    LACKING,
    LIMITS,
    ORDERED,
    SUBSET,
    leaf_value,
    policies_of,
    random_case,
    reference_weights,
    same_tree,
    with_labels,
)

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import TreeGrower
from seqboost.trees.shared_growing import SharedGrower
from seqboost.trees.shared_missing import CompleteSharedGrower, WeightedSharedGrower, shared_grower
from seqboost.trees.weighted_growing import CompleteGrower, WeightedGrower, label_grower

POLICIES = {"weighting": INSTANCE_WEIGHTING, "surrogate": SURROGATE, "mixed": -1}


def grow(case, policies, limits=LIMITS, seed=0):
    grower = WeightedGrower(case.dense, case.sparse, case.space, limits, policies)
    value = leaf_value(limits.l2_regularization)
    return grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, value, seed)


def assert_right_partition(case, tree, partition):
    """Every row, fitted or riding, has the weights in the leaves that the tree gives it, and gets their scores."""
    n_contexts = case.n_labels**case.order
    held = {}
    for leaf, (start, size) in enumerate(zip(partition.start, partition.size, strict=True)):
        for row, weight in zip(
            partition.rows[start : start + size], partition.weight[start : start + size], strict=True
        ):
            held.setdefault(int(row), {})[leaf] = weight
    value = tree.value if tree.value.ndim == 2 else tree.value[:, None]
    rng = np.random.default_rng(0)
    old = rng.normal(size=(value.shape[1], len(case.space.row_type), n_contexts)).astype(np.float32)
    expected, new = old.copy(), np.full_like(old, np.nan)
    divided = 0
    for e in case.examples:
        weights = reference_weights(tree, case.columns, e.row, e.lags)
        divided += len(weights) > 1
        for leaf, weight in weights.items():
            assert held[e.row][leaf] == weight
            expected[:, e.row, e.context] += weight * value[leaf]
    if tree.value.ndim == 2:
        partition.add(tree.value, old, new)
    else:
        partition.add(tree.value, old[0], new[0])
    for e in case.examples:
        np.testing.assert_array_equal(new[:, e.row, e.context], expected[:, e.row, e.context])
    return divided


def grow_shared(case, policies, limits=LIMITS, n_threads=1, max_deciding=10**6, seed=0):
    grower = WeightedSharedGrower(case.dense, case.sparse, case.space, limits, policies, n_threads, max_deciding)
    value = leaf_value(limits.l2_regularization)
    return grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, value, seed)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_partition_adds_the_weighted_values_of_the_leaves(policy, order):
    for seed in range(2):
        case = random_case(seed, order=order, missing=0.3, n_riders=9)
        policies = policies_of(case, POLICIES[policy], seed)
        divided = assert_right_partition(case, *grow(case, policies))
        divided += assert_right_partition(case, *grow_shared(with_labels(case, seed), policies))
        assert divided > 0 or policy != "weighting"


def test_growers_are_used_where_they_are_needed():
    complete, damaged = random_case(0, missing=0.0, slots=()), random_case(0, missing=0.2, slots=())

    def kind(case, policy):
        policies = None if policy is None else policies_of(case, policy)
        return type(label_grower(case.dense, case.sparse, case.space, LIMITS, policies))

    for case in (complete, damaged):
        assert kind(case, None) is kind(case, DIRECTION) is TreeGrower
        assert kind(case, SURROGATE) is WeightedGrower
    assert kind(complete, INSTANCE_WEIGHTING) is CompleteGrower
    assert kind(damaged, INSTANCE_WEIGHTING) is WeightedGrower
    wide = random_case(0, columns=(), window=(), slots=((SUBSET, 6, 0),))
    assert kind(wide, INSTANCE_WEIGHTING) is WeightedGrower
    indicator = random_case(0, columns=(), window=(), slots=((ORDERED, 1, 0),))
    assert kind(indicator, INSTANCE_WEIGHTING) is kind(indicator, SURROGATE) is CompleteGrower
    sparse = random_case(0, columns=(), window=(), slots=((LACKING, 2, 0),))
    assert kind(sparse, INSTANCE_WEIGHTING) is kind(sparse, SURROGATE) is WeightedGrower
    assert kind(sparse, DIRECTION) is TreeGrower
    present = replace(sparse, sparse=sparse.sparse._replace(indices=np.zeros_like(sparse.sparse.indices)))
    assert kind(present, INSTANCE_WEIGHTING) is CompleteGrower
    assert kind(present, SURROGATE) is WeightedGrower

    def shared(case, policy):
        policies = None if policy is None else policies_of(case, policy)
        return type(shared_grower(case.dense, case.sparse, case.space, LIMITS, policies))

    assert shared(damaged, None) is shared(damaged, DIRECTION) is SharedGrower
    assert shared(complete, INSTANCE_WEIGHTING) is CompleteSharedGrower
    assert shared(complete, SURROGATE) is shared(damaged, INSTANCE_WEIGHTING) is WeightedSharedGrower


@pytest.mark.parametrize("order", [0, 1])
def test_complete_rows_give_the_same_tree_with_either_grower(order):
    slots = ((ORDERED, 1, 0), (ORDERED, 4, 2))
    case = random_case(3, missing=0.0, order=order, slots=slots, n_riders=6)
    policies = policies_of(case, -1)
    policies.dense[policies.dense == SURROGATE] = INSTANCE_WEIGHTING
    slow, _ = grow(case, policies)
    grower = label_grower(case.dense, case.sparse, case.space, LIMITS, policies)
    assert isinstance(grower, CompleteGrower)
    fast, _ = grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, leaf_value(0.5))
    assert same_tree(fast, slow)
    np.testing.assert_array_equal(fast.routes.share, slow.routes.share)
    assert fast.routes.share.any()
    case = with_labels(case)
    slow, _ = grow_shared(case, policies)
    grower = shared_grower(case.dense, case.sparse, case.space, LIMITS, policies)
    fast, _ = grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, leaf_value(0.5))
    assert same_tree(fast, slow)
    np.testing.assert_array_equal(fast.routes.share, slow.routes.share)


def test_without_policies_it_is_the_usual_tree():
    for seed in range(3):
        case = random_case(seed, missing=0.3, n_riders=5)
        tree, partition = grow(case, policies_of(case, DIRECTION))
        usual, _ = case.grow()
        assert same_tree(tree, usual)
        assert not tree.routes.share.any()
        assert (partition.weight == 1).all()


def test_shared_trees_do_not_depend_on_threads():
    for policy in POLICIES.values():
        case = with_labels(random_case(1, missing=0.3, n_riders=5, lengths=(60, 1, 33), n_labels=4))
        policies = policies_of(case, policy)
        (one, first), (three, third) = (grow_shared(case, policies, n_threads=n) for n in (1, 3))
        assert same_tree(one, three)
        for name in ("rows", "weight", "start", "size", "mask"):
            np.testing.assert_array_equal(getattr(first, name), getattr(third, name))


def test_a_grower_is_used_again_and_its_segments_grow():
    case = random_case(2, missing=0.5, n_labels=2)
    limits = LIMITS._replace(max_leaf_nodes=30, min_samples_leaf=1)
    for policy in POLICIES.values():
        policies = policies_of(case, policy)
        grower = WeightedGrower(case.dense, case.sparse, case.space, limits, policies)
        first, *_, last = (
            grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, leaf_value(0.5))[0] for _ in range(3)
        )
        assert same_tree(first, last)
        if policy == INSTANCE_WEIGHTING:
            assert len(grower._segments.rows) > 2 * len(case.rows)
