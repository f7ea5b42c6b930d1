"""Grown trees against the exact greedy tree on the expanded data set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_trees_cases import (
    ANY_LIMITS,
    ANY_SHAPE,
    CATEGORICAL,
    LIMITS,
    NUMERIC,
    ORDERED,
    SUBSET,
    as_binned,
    assert_as_reference,
    case_of_shape,
    leaf_value,
    left_values,
    partition_leaves,
    random_case,
    same_tree,
)

from seqboost.trees import DENSE, LAG, SPARSE
from seqboost.trees.reference import reference_leaf


def assert_same(case, limits=LIMITS, draw=None, seed=0, gain_tolerance=1e-5):
    """Grow both trees and compare splits, leaf values and the leaf of every (row, context)."""
    tree, partition = case.grow(limits, seed)
    slow = case.reference(limits, draw)
    assert_as_reference(tree, slow, limits, gain_tolerance)
    leaf_of = partition_leaves(partition, case.gradient.shape[1])
    expected = slow.leaf_of
    for e in case.examples:
        assert leaf_of[e.row, e.context] == reference_leaf(tree, case.dense, case.sparse, e.row, e.lags)
        assert leaf_of[e.row, e.context] == expected.get((e.row, e.context), leaf_of[e.row, e.context])
    assert (leaf_of >= 0).sum() == len(case.examples)
    return tree


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_same_tree_as_on_expanded_data(n_labels, order):
    for seed in range(3):
        tree = assert_same(random_case(seed, n_labels=n_labels, order=order))
        assert tree.n_leaves == LIMITS.max_leaf_nodes


def test_same_tree_with_more_labels_than_a_word_has_bits():
    case = random_case(0, n_labels=70, lengths=(6, 1, 9))
    tree = assert_same(case)
    assert any(np.diff(tree.word_start)[tree.kind == LAG] == 2)


def test_all_kinds_of_splits_occur():
    kinds = set()
    for seed in range(6):
        tree = assert_same(random_case(seed), LIMITS._replace(max_leaf_nodes=16))
        kinds |= set(tree.kind.tolist())
    assert kinds == {DENSE, SPARSE, LAG}


@pytest.mark.parametrize("sign", [1, -1])
def test_common_wide_categories_leave_rare_ones_from_either_end(sign):
    """Rare categories stay with those in the middle, whichever end of the order the odd one stands at."""
    case = random_case(
        0, order=0, n_labels=1, lengths=(90,), columns=(), window=(), slots=((SUBSET, 40, 0),), sparse_window=(0,)
    )
    slot = np.concatenate([np.repeat([7, 20, 33], [20, 25, 30]), np.arange(15)])  # three common ones, fifteen rare
    case.sparse.indices[case.sparse.indptr[case.sparse.padded_row]] = slot
    gradient = np.where(slot == 20, sign, 0.0)[:, None]
    case = case.with_derivatives(gradient, np.ones((90, 1)))
    tree = assert_same(case, LIMITS._replace(max_leaf_nodes=2))
    assert left_values(tree, 0) == {20}
    assert tree.leaf_rows.tolist() == [25, 65]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "shape",
    [
        {"columns": ((NUMERIC, 8), (NUMERIC, 4)), "slots": (), "sparse_window": ()},
        {"columns": ((NUMERIC, 8), (NUMERIC, 4)), "slots": (), "sparse_window": (), "missing": 0.0, "window": (0,)},
        {"columns": ((CATEGORICAL, 9), (CATEGORICAL, 2)), "slots": (), "sparse_window": ()},
        {"columns": (), "window": (), "slots": ((ORDERED, 1, 0), (ORDERED, 5, 0), (ORDERED, 4, 4), (ORDERED, 3, 1))},
        {"columns": (), "window": (), "slots": ((SUBSET, 90, 0), (SUBSET, 7, 0))},
        {"columns": (), "window": (), "slots": (), "sparse_window": ()},
        {"columns": ((NUMERIC, 254), (CATEGORICAL, 253), (NUMERIC, 1), (NUMERIC, 0)), "window": (-2, 0, 3)},
        {"lengths": (1,) * 40},
        {"lengths": (60,), "window": (-3, -1, 2)},
    ],
    ids=["numeric", "whole", "categorical", "ordered", "wide", "lags only", "many bins", "length one", "one sequence"],
)
def test_same_tree_for_each_kind_of_feature(shape, seed):
    assert_same(random_case(seed, **shape))
    assert_same(random_case(seed, **shape), LIMITS._replace(one_against_rest=True, min_samples_leaf=1))


@pytest.mark.parametrize(
    "change",
    [
        {"max_leaf_nodes": 1},
        {"max_leaf_nodes": 2},
        {"max_leaf_nodes": 40, "min_samples_leaf": 1},
        {"max_depth": 0},
        {"max_depth": 1},
        {"max_depth": 3},
        {"min_samples_leaf": 1},
        {"min_samples_leaf": 7},
        {"min_samples_leaf": 20},
        {"min_samples_leaf": 21},
        {"min_gain": 0.3},
        {"min_gain": 1e6},
        {"l2_regularization": 0.0},
        {"l2_regularization": 100.0},
        {"one_against_rest": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("order", [1, 2])
def test_same_tree_under_limits(change, order):
    limits = LIMITS._replace(**change)
    for seed in range(2):
        tree = assert_same(random_case(seed, order=order, n_labels=2), limits)
        assert tree.n_leaves <= limits.max_leaf_nodes
        assert (tree.leaf_rows >= limits.min_samples_leaf).all() or tree.n_leaves == 1
        assert (tree.gain > limits.min_gain).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_riders_land_in_the_right_leaves_and_have_no_influence(order):
    case = random_case(5, order=order, n_labels=2, n_riders=17)
    tree = assert_same(case)
    gradient, hessian = case.gradient.copy(), case.hessian.copy()
    riders = case.rows[case.n_fitted :]
    gradient[riders], hessian[riders] = np.nan, 1e30
    with np.errstate(invalid="ignore"):
        other, _ = case.with_derivatives(gradient, hessian).grow()
    assert same_tree(tree, other)


def test_unseen_categories_ride_along():
    case = random_case(2, columns=((CATEGORICAL, 4), (CATEGORICAL, 3)), window=(0,), n_riders=20)
    n_values = case.dense.n_values
    for row in case.rows[case.n_fitted :: 2]:
        case.dense.codes[case.dense.address[row]] = n_values[0] + 2
    tree = assert_same(case)
    assert DENSE in tree.kind


def test_nothing_to_fit():
    case = random_case(0, n_riders=40)
    tree, partition = case.grow()
    assert tree.n_leaves == 1
    assert tree.value.tolist() == [0.0]
    assert (partition_leaves(partition, 3) >= 0).sum() == len(case.examples)


def test_zero_gradients_make_a_single_leaf():
    case = random_case(0)
    tree = assert_same(case.with_derivatives(0 * case.gradient, case.hessian))
    assert tree.n_leaves == 1
    assert tree.value.tolist() == [0.0]
    tree, _ = case.with_derivatives(0 * case.gradient, 0 * case.hessian).grow(LIMITS._replace(l2_regularization=0.0))
    assert tree.value.tolist() == [0.0]


@pytest.mark.parametrize("exponents", [(-33, -66), (20, 20), (20, 0), (-14, 0), (50, 80)])
@pytest.mark.parametrize("order", [0, 1])
def test_derivatives_of_any_scale(exponents, order):
    gradient, hessian = (2.0**e for e in exponents)
    case = random_case(3, order=order)
    limits = LIMITS._replace(l2_regularization=0.0)
    plain, _ = case.grow(limits)
    scaled = case.with_derivatives(gradient * case.gradient, hessian * case.hessian)
    tree, _ = scaled.grow(limits)
    assert tree.kind.tolist() == plain.kind.tolist()
    assert tree.words.tolist() == plain.words.tolist()
    np.testing.assert_allclose(tree.value, plain.value * (gradient / hessian), rtol=1e-5)


def test_gains_too_small_to_matter_split_nothing():
    case = random_case(3)
    tree, _ = case.with_derivatives(1e-20 * case.gradient, 1e-20 * case.hessian).grow()
    assert tree.n_leaves == 1
    assert np.isfinite(tree.value).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives_that_fixed_point_must_round(order):
    case = random_case(4, order=order)
    rng = np.random.default_rng(0)
    exists = case.hessian > 0
    noise = exists * rng.normal(scale=1e-3, size=case.gradient.shape)
    rounded = case.with_derivatives(case.gradient + noise, exists * (case.hessian + 1e-3 * rng.random(exists.shape)))
    assert_same(rounded)


@pytest.mark.parametrize("n_drawn", [0, 1, 2, 5])
def test_features_drawn_at_each_node(n_drawn):
    limits = LIMITS._replace(n_drawn_features=n_drawn)
    roots = set()
    for seed in range(5):
        case = random_case(seed)
        n = len(case.dense.feature) + case.sparse.enabled.size
        state = [seed]

        def draw(state=state, n=n):
            places, drawn = list(range(n)), set()
            for r in range(n_drawn):
                q = r + split_mix(state) % (n - r)
                places[r], places[q] = places[q], places[r]
                drawn.add(places[r])
            return drawn

        tree = assert_same(case, limits, draw, seed)
        roots.add((int(tree.kind[0]), int(tree.feature[0])))
        assert n_drawn > 0 or set(tree.kind.tolist()) <= {LAG}
    assert len(roots) > 1 or n_drawn == 0


def split_mix(state):
    """The generator of Steele, Lea and Flood 2014, in Python's integers."""
    state[0] = (state[0] + 0x9E3779B97F4A7C15) % 2**64
    z = state[0]
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


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


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.fixed_dictionaries(ANY_SHAPE), seed=st.integers(0, 10**6), change=st.fixed_dictionaries(ANY_LIMITS))
def test_same_tree_for_any_shape(shape, seed, change):
    assert_same(case_of_shape(seed, **shape), LIMITS._replace(**change))
