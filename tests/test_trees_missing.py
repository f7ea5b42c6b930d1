"""Trees with policies for missing values against the exact greedy tree on the expanded data set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_trees_cases import (
    CATEGORICAL,
    LACKING,
    LIMITS,
    NUMERIC,
    ORDERED,
    SUBSET,
    leaf_value,
    left_values,
    random_case,
    same_tree,
)
from test_trees_shared import with_labels

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import DENSE, LAG, SPARSE, Policies, TreeGrower
from seqboost.trees.missing_reference import grow_missing_reference, reference_weights
from seqboost.trees.shared_growing import SharedGrower
from seqboost.trees.shared_missing import CompleteSharedGrower, WeightedSharedGrower, shared_grower
from seqboost.trees.shared_reference import expand_labels
from seqboost.trees.weighted_growing import CompleteGrower, WeightedGrower, label_grower, weight_bits

POLICIES = {"weighting": INSTANCE_WEIGHTING, "surrogate": SURROGATE, "mixed": -1}


def policies_of(case, policy, seed=0):
    """One policy for all features, or any for each."""
    rng = np.random.default_rng(seed)

    def drawn(n):
        return (rng.integers(3, size=n) if policy < 0 else np.full(n, policy)).astype(np.uint8)

    return Policies(drawn(len(case.dense.feature)), drawn(len(case.sparse.kind)))


def grow(case, policies, limits=LIMITS, seed=0):
    grower = WeightedGrower(case.dense, case.sparse, case.space, limits, policies)
    value = leaf_value(limits.l2_regularization)
    return grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, value, seed)


def slow_tree(case, policies, limits, gradient, hessian):
    examples = expand_labels(case.dense, case.sparse, case.offsets, case.n_labels, case.order, gradient, hessian)
    fitted = set(case.rows[: case.n_fitted].tolist())
    unit = 1 << weight_bits(case.n_fitted)
    examples = [e for e in examples if e.row in fitted]
    return grow_missing_reference(case.dense, case.sparse, limits, policies, examples, unit)


def assert_same_splits(tree, slow, gain_tolerance=1e-5):
    assert tree.kind.tolist() == slow.kind
    assert tree.feature.tolist() == slow.feature
    assert tree.left.tolist() == slow.left
    assert tree.right.tolist() == slow.right
    np.testing.assert_array_equal(tree.routes.share, np.array(slow.share, dtype=np.float32))
    routes = tree.routes
    for split in range(tree.n_splits):
        left = left_values(tree, split)
        if tree.kind[split] == DENSE:
            assert left == slow.left_set[split]
        else:
            held = {v for v in slow.held[split] if v >= 0}
            assert left & held == slow.left_set[split] & held
        found = []
        for q in range(routes.surrogate_start[split], routes.surrogate_start[split + 1]):
            words = routes.surrogate_words[routes.surrogate_word_start[q] : routes.surrogate_word_start[q + 1]]
            bits = frozenset(v for v in range(64 * len(words)) if int(words[v // 64]) >> (v % 64) & 1)
            found.append((int(routes.surrogate_kind[q]), int(routes.surrogate_feature[q]), bits))
        assert found == slow.surrogates[split]
    np.testing.assert_allclose(tree.gain, slow.gain, rtol=gain_tolerance)
    assert tree.n_rows.tolist() == slow.n_rows
    assert tree.leaf_rows.tolist() == [len({e.row for e in node.examples}) for node in slow.leaves]


def assert_same_values(tree, slow, limits):
    sums = [node.sums(node.examples) for node in slow.leaves]
    value = np.array([leaf_value(limits.l2_regularization)(g, h) for g, h, _ in sums])
    value = value[:, 0] if tree.value.ndim == 1 else value
    np.testing.assert_allclose(tree.value, value, rtol=1e-5, atol=1e-5 * np.abs(value).max())


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
        weights = reference_weights(tree, case.dense, case.sparse, e.row, e.lags)
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


def assert_same_shared(case, policies, limits=LIMITS, seed=0):
    with_all = with_labels(case, seed)
    tree, partition = grow_shared(with_all, policies, limits)
    slow = slow_tree(case, policies, limits, with_all.gradient, with_all.hessian)
    assert_same_splits(tree, slow)
    assert_same_values(tree, slow, limits)
    assert_right_partition(case, tree, partition)
    return tree


def assert_same(case, policies, limits=LIMITS):
    tree, partition = grow(case, policies, limits)
    slow = slow_tree(case, policies, limits, case.gradient[None], case.hessian[None])
    assert_same_splits(tree, slow)
    assert_same_values(tree, slow, limits)
    divided = assert_right_partition(case, tree, partition)
    return tree, divided


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("n_labels", [1, 3])
def test_same_tree_as_on_expanded_data(policy, n_labels, order):
    for seed in range(3):
        case = random_case(seed, n_labels=n_labels, order=order, missing=0.3, n_riders=9)
        tree, divided = assert_same(case, policies_of(case, POLICIES[policy], seed))
        assert tree.n_leaves > 3
        assert divided > 0 or policy != "weighting"
        assert tree.routes.surrogate_start[-1] > 0 or policy != "surrogate"
        assert assert_same_shared(case, policies_of(case, POLICIES[policy], seed)).n_leaves > 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "shape",
    [
        {"columns": ((NUMERIC, 8), (NUMERIC, 4)), "slots": (), "sparse_window": ()},
        {"columns": ((CATEGORICAL, 9), (CATEGORICAL, 2)), "slots": (), "sparse_window": ()},
        {"columns": (), "window": (), "slots": ((SUBSET, 90, 0), (SUBSET, 7, 0))},
        {"columns": (), "window": (), "slots": ((ORDERED, 1, 0), (ORDERED, 5, 0), (SUBSET, 5, 0))},
        {"columns": (), "window": (), "slots": ((LACKING, 2, 0), (LACKING, 5, 0), (LACKING, 6, 3), (LACKING, 4, 3))},
        {"columns": ((NUMERIC, 4),), "slots": ((ORDERED, 1, 0), (LACKING, 1, 0), (SUBSET, 6, 0), (LACKING, 3, 1))},
        {"columns": (), "window": (), "slots": (), "sparse_window": ()},
        {"columns": ((NUMERIC, 254), (CATEGORICAL, 253), (NUMERIC, 1), (NUMERIC, 0)), "window": (-2, 0, 3)},
        {"lengths": (1,) * 40},
        {"missing": 0.0},
        {"missing": 0.7},
    ],
    ids=[
        "numeric",
        "categorical",
        "wide",
        "slots",
        "sparse numbers",
        "all kinds",
        "lags only",
        "many bins",
        "length one",
        "complete",
        "much missing",
    ],
)
def test_same_tree_for_each_kind_of_feature(policy, shape):
    for seed in range(2):
        case = random_case(seed, **{"missing": 0.3, "n_riders": 5, **shape})
        policies = policies_of(case, POLICIES[policy], seed)
        alone = LIMITS._replace(one_against_rest=True, min_samples_leaf=1)
        assert_same(case, policies)
        assert_same(case, policies, alone)
        assert_same_shared(case, policies)
        assert_same_shared(case, policies, alone)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "change",
    [
        {"max_leaf_nodes": 1},
        {"max_leaf_nodes": 2},
        {"max_leaf_nodes": 30, "min_samples_leaf": 1},
        {"max_depth": 2},
        {"min_samples_leaf": 7},
        {"l2_regularization": 0.0},
        {"n_surrogates": 0},
        {"n_surrogates": 1},
        {"n_surrogates": 20},
    ],
    ids=str,
)
def test_same_tree_under_limits(policy, change):
    for seed in range(2):
        case = random_case(seed, n_labels=2, missing=0.25)
        assert_same(case, policies_of(case, POLICIES[policy], seed), LIMITS._replace(**change))
        assert_same_shared(case, policies_of(case, POLICIES[policy], seed), LIMITS._replace(**change))


def test_all_kinds_of_splits_have_shares_and_surrogates():
    shared, detoured, surrogates = set(), set(), set()
    for seed in range(8):
        case = random_case(seed, missing=0.3, columns=((NUMERIC, 4), (CATEGORICAL, 3)), slots=((SUBSET, 5, 0),) * 2)
        limits = LIMITS._replace(max_leaf_nodes=16)
        tree, _ = assert_same(case, policies_of(case, INSTANCE_WEIGHTING), limits)
        shared |= set(tree.kind[tree.routes.share > 0].tolist())
        assert not tree.routes.share[tree.kind == LAG].any()
        tree, _ = assert_same(case, policies_of(case, SURROGATE), limits)
        detoured |= set(tree.kind[np.diff(tree.routes.surrogate_start) > 0].tolist())
        surrogates |= set(tree.routes.surrogate_kind.tolist())
    assert shared == detoured == surrogates == {DENSE, SPARSE}


def test_sparse_numbers_have_shares_and_surrogates():
    """Missing is none of their values: no split's gain counts it, and no left set tells where it goes."""
    weighing, detoured, surrogates = 0, 0, 0
    for seed in range(4):
        case = random_case(seed, columns=(), window=(), slots=((LACKING, 4, 1), (LACKING, 2, 0)), lengths=(60, 1, 40))
        tree, divided = assert_same(case, policies_of(case, INSTANCE_WEIGHTING))
        of_sparse = tree.kind == SPARSE
        assert (tree.routes.share[of_sparse] > 0).all()
        assert divided > 0
        weighing += of_sparse.sum()
        tree, _ = assert_same(case, policies_of(case, SURROGATE))
        detoured += (np.diff(tree.routes.surrogate_start)[tree.kind == SPARSE] > 0).sum()
        surrogates += len(tree.routes.surrogate_kind)
        usual, _ = case.grow()
        assert not same_tree(tree, usual)
    assert min(weighing, detoured, surrogates) > 0


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


@pytest.mark.parametrize("policy", POLICIES)
def test_a_few_labels_may_decide_for_all(policy):
    """Values of the leaves are those of all labels, from the weighted rows."""
    case = with_labels(random_case(2, missing=0.3, n_riders=5, n_labels=3))
    tree, partition = grow_shared(case, policies_of(case, POLICIES[policy]), max_deciding=2, seed=1)
    assert tree.value.shape == (tree.n_leaves, 3)
    g, h = np.zeros((2, tree.n_leaves, 3))
    fitted = set(case.rows[: case.n_fitted].tolist())
    plain = random_case(2, missing=0.3, n_riders=5, n_labels=3)
    for e in plain.examples:
        if e.row in fitted:
            for leaf, weight in reference_weights(tree, case.dense, case.sparse, e.row, e.lags).items():
                g[leaf] += weight * case.gradient[:, e.row, e.context]
                h[leaf] += weight * case.hessian[:, e.row, e.context]
    np.testing.assert_allclose(tree.value, g / (h + 0.5), rtol=1e-5, atol=1e-6)
    assert_right_partition(plain, tree, partition)


def test_riders_have_no_influence():
    case = random_case(5, n_riders=17, missing=0.3)
    for policy in POLICIES.values():
        tree, _ = assert_same(case, policies_of(case, policy))
        gradient, hessian = case.gradient.copy(), case.hessian.copy()
        riders = case.rows[case.n_fitted :]
        gradient[riders], hessian[riders] = 1e9, np.nan
        again, _ = grow(case.with_derivatives(gradient, hessian), policies_of(case, policy))
        assert same_tree(tree, again)


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
