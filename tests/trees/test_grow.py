"""Grown trees against the exact greedy tree on the expanded data set, and the sums of their leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import DENSE, LAG, SPARSE
from seqboost.trees.grower import weight_bits
from seqboost.trees.nodes import FITTED, SIZE, SLOT, START
from seqboost.trees.quantise import draw_labels
from seqboost.trees.reference import UNIT, draw_for_tree
from tests.support.trees import (
    ANY_LIMITS,
    ANY_SHAPE,
    CATEGORICAL,
    LACKING,
    LIMITS,
    NUMERIC,
    ORDERED,
    POLICIES,
    SUBSET,
    case_of_codes,
    case_of_shape,
    compare,
    compare_weights,
    differs_by_a_tie,
    leaf_weights,
    left_values,
    policies_of,
    random_case,
    reference_weights,
    same_tree,
    with_outputs,
)


def grow_case(case, limits=LIMITS, policies=None, seed=0, **options):
    """Grow a tree; return it and the weight of every (row, context) in each leaf."""
    tree, leaves = case.grow(limits, policies, seed, **options)
    return tree, leaf_weights(case, leaves)


def assert_same(case, limits=LIMITS, policies=None, draw=None, seed=0, ties=False, **options):
    """Grow both trees; compare splits, leaf values and the leaves of every (row, context).

    Return the tree and the number of (row, context) that reach several leaves. With ``ties``, trees may differ from the
    first split on that has an equal.
    """
    tree, weights = grow_case(case, limits, policies, seed, **options)
    slow = case.reference(limits, policies, draw, seed)
    if ties and differs_by_a_tie(tree, slow):
        return tree, 0
    compare(tree, slow)
    return tree, compare_weights(case, tree, slow, weights)


def one_and_all(case, seed=0):
    """The case with one output, then with one per label."""
    return case, with_outputs(case, seed)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("n_labels", [1, 2, 3, 5])
def test_same_tree_as_on_expanded_data(n_labels, order, policy):
    riders_and_missing = {} if policy == "direction" else {"n_riders": 9, "missing": 0.3}
    for seed in range(2):
        for case in one_and_all(random_case(seed, n_labels=n_labels, order=order, **riders_and_missing), seed):
            tree, n_several = assert_same(case, LIMITS, policies_of(case.columns, POLICIES[policy], seed))
            assert tree.n_leaves == LIMITS.max_leaf_nodes or (policy != "direction" and tree.n_leaves > 3)
            if policy == "weighting":
                assert n_several > 0
            elif policy == "surrogate":
                assert tree.routes.surrogate_start[-1] > 0


def test_same_tree_where_single_precision_does_not_hold_the_sums():
    case = random_case(3, columns=((NUMERIC, 40), (NUMERIC, 30)), window=(0,), lengths=(60, 50))
    for outputs in one_and_all(case, 3):
        huge = outputs.with_derivatives(outputs.gradient * 2.0**40, outputs.hessian)
        tree, _ = assert_same(huge, LIMITS._replace(l2_regularization=1e18))
        assert tree.n_leaves == LIMITS.max_leaf_nodes


def test_same_tree_with_more_labels_than_a_word_has_bits():
    for case in one_and_all(random_case(0, n_labels=70, lengths=(6, 1, 9))):
        tree, _ = assert_same(case)
        assert any(np.diff(tree.word_start)[tree.kind == LAG] == 2)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_all_kinds_of_splits_occur(n_outputs):
    kinds = set()
    for seed in range(6):
        case = random_case(seed)
        tree, _ = assert_same(
            with_outputs(case, seed) if n_outputs > 1 else case, LIMITS._replace(max_leaf_nodes=16)
        )  # fmt: skip
        kinds |= set(tree.kind.tolist())
    assert kinds == {DENSE, SPARSE, LAG}


def test_all_kinds_of_splits_have_shares_and_surrogates():
    weighing, detoured, surrogates = set(), set(), set()
    limits = LIMITS._replace(max_leaf_nodes=16)
    for seed in range(8):
        case = random_case(seed, missing=0.3, columns=((NUMERIC, 4), (CATEGORICAL, 3)), slots=((SUBSET, 5, 0),) * 2)
        tree, _ = assert_same(case, limits, policies_of(case.columns, INSTANCE_WEIGHTING))
        weighing |= set(tree.kind[tree.routes.share > 0].tolist())
        assert not tree.routes.share[tree.kind == LAG].any()
        tree, _ = assert_same(case, limits, policies_of(case.columns, SURROGATE))
        detoured |= set(tree.kind[np.diff(tree.routes.surrogate_start) > 0].tolist())
        surrogates |= set(tree.routes.surrogate_kind.tolist())
    assert weighing == detoured == surrogates == {DENSE, SPARSE}


def test_sparse_numbers_have_shares_and_surrogates():
    """Missing is none of their values: no split's gain counts it, and no left set tells where it goes."""
    weighing, detoured, surrogates = 0, 0, 0
    for seed in range(4):
        case = random_case(seed, columns=(), window=(), slots=((LACKING, 4, 1), (LACKING, 2, 0)), lengths=(60, 1, 40))
        tree, n_several = assert_same(case, policies=policies_of(case.columns, INSTANCE_WEIGHTING))
        of_sparse = tree.kind == SPARSE
        assert (tree.routes.share[of_sparse] > 0).all()
        assert n_several > 0
        weighing += of_sparse.sum()
        tree, _ = assert_same(case, policies=policies_of(case.columns, SURROGATE))
        detoured += (np.diff(tree.routes.surrogate_start)[tree.kind == SPARSE] > 0).sum()
        surrogates += len(tree.routes.surrogate_kind)
        assert not same_tree(tree, grow_case(case)[0])
    assert min(weighing, detoured, surrogates) > 0


def test_of_equal_gains_the_first_side_wins():
    """{0, 1} | {2, missing} gains as much as {0, missing} | {1, 2}, whose threshold is lower, its side later."""
    case = case_of_codes([0, 1, 2, 4], [[1, 1, -1, -1], [1, -1, -1, 1]])
    tree, _ = assert_same(case, LIMITS._replace(min_samples_leaf=1, max_leaf_nodes=2))
    assert left_values(tree, 0) == {0, 1}


@pytest.mark.parametrize("sign", [1, -1])
def test_common_wide_categories_leave_rare_ones_from_either_end(sign):
    """Rare categories stay with those in the middle, whichever end of the order the odd one stands at."""
    case = random_case(
        0, order=0, n_labels=2, lengths=(90,), columns=(), window=(), slots=((SUBSET, 40, 0),), sparse_window=(0,)
    )
    slot = np.concatenate([np.repeat([7, 20, 33], [20, 25, 30]), np.arange(15)])  # three common ones, fifteen rare
    sparse = case.columns.sparse
    sparse.indices[sparse.indptr[sparse.padded_row]] = slot
    gradient = np.where(slot == 20, sign, 0.0)[None, :, None]
    for n_outputs in (1, 2):
        derivatives = np.repeat(gradient, n_outputs, axis=0), np.ones((n_outputs, 90, 1))
        tree, _ = assert_same(case.with_derivatives(*derivatives), LIMITS._replace(max_leaf_nodes=2))
        assert left_values(tree, 0) == {20}
        assert tree.leaf_rows.tolist() == [25, 65]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "shape",
    [
        {"columns": ((NUMERIC, 8), (NUMERIC, 4)), "slots": (), "sparse_window": ()},
        {"columns": ((NUMERIC, 8), (NUMERIC, 4)), "slots": (), "sparse_window": (), "missing": 0.0, "window": (0,)},
        {"columns": ((CATEGORICAL, 9), (CATEGORICAL, 2)), "slots": (), "sparse_window": ()},
        {"columns": (), "window": (), "slots": ((ORDERED, 1, 0), (ORDERED, 5, 0), (ORDERED, 4, 4), (ORDERED, 3, 1))},
        {"columns": (), "window": (), "slots": ((SUBSET, 90, 0), (SUBSET, 7, 0))},
        {"columns": (), "window": (), "slots": ((ORDERED, 1, 0), (ORDERED, 5, 0), (SUBSET, 5, 0))},
        {"columns": (), "window": (), "slots": ((LACKING, 2, 0), (LACKING, 5, 0), (LACKING, 6, 3), (LACKING, 4, 3))},
        {"columns": ((NUMERIC, 4),), "slots": ((ORDERED, 1, 0), (LACKING, 1, 0), (SUBSET, 6, 0), (LACKING, 3, 1))},
        {"columns": (), "window": (), "slots": (), "sparse_window": ()},
        {"columns": ((NUMERIC, 254), (CATEGORICAL, 253), (NUMERIC, 1), (NUMERIC, 0)), "window": (-2, 0, 3)},
        {"lengths": (1,) * 40},
        {"lengths": (60,), "window": (-3, -1, 2)},
        {"missing": 0.0},
        {"missing": 0.7},
        {"missing": 1.0},
    ],
    ids=[
        "numeric", "whole", "categorical", "ordered", "wide", "slots", "sparse numbers", "all kinds", "lags only",
        "many bins", "length one", "one sequence", "complete", "much missing", "all missing",
    ],
)  # fmt: skip
def test_same_tree_for_each_kind_of_feature(shape, policy):
    weighs = policy in ("weighting", "mixed")
    for seed in range(2):
        shape = {"missing": 0.3, "n_riders": 5, **shape} if policy != "direction" else shape
        for case in one_and_all(random_case(seed, **shape), seed):
            policies = policies_of(case.columns, POLICIES[policy], seed)
            assert_same(case, LIMITS, policies)
            ties = weighs and shape.get("lengths") == (60,)  # of two labels, each against the other
            assert_same(case, LIMITS._replace(one_against_rest=True, min_samples_leaf=1), policies, ties=ties)


@pytest.mark.parametrize("policy", POLICIES)
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
        {"n_surrogates": 0},
        {"n_surrogates": 1},
        {"n_surrogates": 20},
    ],
    ids=str,
)
def test_same_tree_under_limits(change, policy):
    limits = LIMITS._replace(**change)
    ties = policy != "direction" or limits.l2_regularization == 0.0  # sums of equal splits differ in their last bits
    for order in (0, 1, 2) if policy == "direction" else (1,):
        missing = 0.15 if policy == "direction" else 0.25
        for case in one_and_all(random_case(order, order=order, n_labels=2, missing=missing), order):
            tree, _ = assert_same(case, limits, policies_of(case.columns, POLICIES[policy], order), ties=ties)
            assert tree.n_leaves <= limits.max_leaf_nodes
            assert (tree.leaf_rows >= limits.min_samples_leaf).all() or tree.n_leaves == 1
            assert (tree.gain > limits.min_gain).all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_riders_land_in_the_right_leaves_and_have_no_influence(order, policy):
    for case in one_and_all(random_case(5, order=order, n_labels=2, n_riders=17, missing=0.3)):
        policies = policies_of(case.columns, POLICIES[policy])
        tree, _ = assert_same(case, policies=policies)
        gradient, hessian = case.gradient.copy(), case.hessian.copy()
        riders = case.rows[case.n_fitted :]
        gradient[:, riders], hessian[:, riders] = np.nan, 1e30
        with np.errstate(invalid="ignore"):
            other, _ = grow_case(case.with_derivatives(gradient, hessian), policies=policies)
        assert same_tree(tree, other)


def test_unseen_categories_ride_along():
    case = random_case(2, columns=((CATEGORICAL, 4), (CATEGORICAL, 3)), window=(0,), n_riders=20)
    dense = case.columns.dense
    for row in case.rows[case.n_fitted :: 2]:
        dense.codes[dense.address[row]] = dense.n_values[0] + 2
    for policy in POLICIES.values():
        for outputs in one_and_all(case):
            tree, _ = assert_same(outputs, policies=policies_of(case.columns, policy))
            assert DENSE in tree.kind


@pytest.mark.parametrize("order", [0, 1])
def test_categories_unknown_to_the_binner_may_be_fitted(order):
    """A warm start can bring them: they take no part in the order and go where the left set sends them."""
    case = random_case(2, order=order, columns=((CATEGORICAL, 4), (CATEGORICAL, 3)), window=(0,))
    dense = case.columns.dense
    for row in case.rows[::3]:
        dense.codes[dense.address[row]] = dense.n_values[0] + 2
    for n_outputs in (1, 3):
        tree, weights = grow_case(with_outputs(case, 0, n_outputs))
        assert tree.n_leaves > 1
        assert tree.leaf_rows.tolist() == (weights.sum(axis=2) > 0).sum(axis=1).tolist()
        for policy in POLICIES.values():
            assert_same(with_outputs(case, 0, n_outputs), policies=policies_of(case.columns, policy))


def test_fitted_rows_of_an_unknown_category_stay_on_the_side_that_the_gain_counts_them_on():
    """The larger side is the left one; the unknown category is held, so it does not follow."""
    codes = [0] * 10 + [3] * 6  # of one value: 1 missing, 2 boundary, 3 unknown
    gradient = np.where(np.array(codes) == 0, 1.0, -1.0)
    case = case_of_codes(codes, gradient, kind=CATEGORICAL, n_values=1)
    tree, _ = assert_same(case, LIMITS._replace(min_samples_leaf=5, max_leaf_nodes=6))
    assert tree.leaf_rows.tolist() == [10, 6]
    assert left_values(tree, 0) == {0, 1, 2}


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_to_fit(policy):
    for case in one_and_all(random_case(0, n_riders=40)):
        tree, weights = grow_case(case, policies=policies_of(case.columns, POLICIES[policy]))
        assert tree.n_leaves == 1
        assert tree.value.reshape(-1).tolist() == [0.0] * len(case.gradient)
        assert weights.sum() == len(case.examples)
        assert case.reference().kind == []


@pytest.mark.parametrize("policy", POLICIES)
def test_zero_gradients_make_a_single_leaf(policy):
    for case in one_and_all(random_case(0)):
        policies = policies_of(case.columns, POLICIES[policy])
        for lam, curvature in ((0.5, 1), (0.0, 1), (0.0, 0)):
            limits = LIMITS._replace(l2_regularization=lam)
            tree, _ = assert_same(case.with_derivatives(0 * case.gradient, curvature * case.hessian), limits, policies)
            assert tree.value.reshape(-1).tolist() == [0.0] * len(case.gradient)


def test_a_label_without_curvature_does_not_stand_in_the_way():
    """λ = 0, and one label has neither gradient nor curvature: the others decide."""
    case = with_outputs(random_case(3, order=0, n_labels=3))
    gradient, hessian = case.gradient.copy(), case.hessian.copy()
    gradient[1], hessian[1] = 0, 0
    tree, _ = assert_same(case.with_derivatives(gradient, hessian), LIMITS._replace(l2_regularization=0.0))
    assert tree.n_leaves == LIMITS.max_leaf_nodes
    assert np.isfinite(tree.value).all()


@pytest.mark.parametrize("exponents", [(-33, -66), (20, 20), (20, 0), (-14, 0), (50, 80)])
@pytest.mark.parametrize("order", [0, 1])
def test_derivatives_of_any_scale(exponents, order):
    gradient, hessian = (2.0**e for e in exponents)
    limits = LIMITS._replace(l2_regularization=0.0)
    for case in one_and_all(random_case(3, order=order)):
        plain, _ = assert_same(case, limits)
        tree, _ = assert_same(case.with_derivatives(gradient * case.gradient, hessian * case.hessian), limits)
        assert tree.kind.tolist() == plain.kind.tolist()
        assert tree.words.tolist() == plain.words.tolist()
        np.testing.assert_allclose(tree.value, plain.value * (gradient / hessian), rtol=1e-5)


def test_gains_too_small_to_matter_split_nothing():
    for case in one_and_all(random_case(3)):
        tree, _ = assert_same(case.with_derivatives(1e-20 * case.gradient, 1e-20 * case.hessian))
        assert tree.n_leaves == 1
        assert np.isfinite(tree.value).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives_that_fixed_point_must_round(order):
    for case in one_and_all(random_case(4, order=order)):
        rng = np.random.default_rng(0)
        exists = case.hessian > 0
        noise = exists * rng.normal(scale=1e-3, size=case.gradient.shape)
        hessian = exists * (case.hessian + 1e-3 * rng.random(exists.shape))
        assert_same(case.with_derivatives(case.gradient + noise, hessian))


def test_labels_of_very_different_scales():
    case = with_outputs(random_case(3, order=1))
    scale = np.array([1e-4, 1.0, 30.0])[:, None, None]
    assert_same(case.with_derivatives(scale * case.gradient, scale * case.hessian))


@pytest.mark.parametrize("label", [0, 2])
@pytest.mark.parametrize("change", [{}, {"one_against_rest": True}, {"l2_regularization": 0.0}], ids=str)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_with_gradients_of_one_label_it_is_the_tree_of_that_label(label, change, order):
    limits = LIMITS._replace(**change)
    for seed in range(3):
        case = random_case(seed, order=order, n_labels=3)
        alone, _ = assert_same(case, limits)
        gradient, hessian = (np.zeros((3, *part.shape[1:])) for part in (case.gradient, case.hessian))
        gradient[label], hessian[label] = case.gradient[0], case.hessian[0]
        tree, _ = assert_same(case.with_derivatives(gradient, hessian), limits)
        for name in ("kind", "feature", "word_start", "words", "left", "right", "n_rows", "leaf_rows"):
            assert np.array_equal(getattr(tree, name), getattr(alone, name)), name
        np.testing.assert_allclose(tree.gain, alone.gain, rtol=1e-5)
        np.testing.assert_allclose(tree.value[:, label], alone.value.reshape(-1), rtol=1e-5, atol=1e-6)
        assert not np.delete(tree.value, label, axis=1).any()


@pytest.mark.parametrize("policy", ["direction", "mixed"])
@pytest.mark.parametrize(("n_drawn", "n_pool"), [(0, 99), (1, 99), (2, 99), (5, 99), (99, 3), (2, 3), (3, 3), (1, 0)])
def test_features_drawn_for_the_tree_and_at_each_node(n_drawn, n_pool, policy):
    limits = LIMITS._replace(n_drawn_features=n_drawn, n_tree_features=n_pool)
    roots = [set(), set()]
    for seed in range(5):
        for which, case in enumerate(one_and_all(random_case(seed), seed)):
            policies = policies_of(case.columns, POLICIES[policy], seed)
            tree, _ = assert_same(case, limits, policies, draw=draw_for_tree(case.problem(limits), seed), seed=seed)
            roots[which].add((int(tree.kind[0]), int(tree.feature[0])))
            windowed = {(int(k), int(f)) for k, f in zip(tree.kind, tree.feature, strict=True) if k != LAG}
            assert len(windowed) <= n_pool
            assert n_drawn > 0 or not windowed
    assert min(map(len, roots)) > 1 or 0 in (n_drawn, n_pool)


@pytest.mark.parametrize("order", [0, 1])
def test_some_labels_decide_and_all_get_values(order):
    """Splits are those of a tree for the labels drawn; values of the others are sums over the same leaves."""
    case = with_outputs(random_case(3, order=order, n_labels=6, n_riders=8), 3)
    roots = set()
    for seed in range(6):
        tree, _ = grow_case(case, seed=seed, max_deciding=2)
        influence = np.abs(case.gradient[:, case.rows[: case.n_fitted]]).sum(axis=(1, 2))
        labels = draw_labels(influence, 2, seed)
        few = case.with_derivatives(case.gradient[labels], case.hessian[labels])
        expected = few.reference()
        compare(replace(tree, value=tree.value[:, labels]), expected)
        every = expected.leaf_of
        for leaf in range(tree.n_leaves):
            cells = tuple(np.array([cell for cell, where in every.items() if where == leaf]).T)
            g, h = (part[(slice(None), *cells)].sum(axis=1, dtype=np.float64) for part in (case.gradient, case.hessian))
            np.testing.assert_allclose(tree.value[leaf], g / (h + 0.5), rtol=1e-5, atol=1e-6)
        roots.add((int(tree.kind[0]), int(tree.feature[0]), *labels.tolist()))
    assert len(roots) > 1


@pytest.mark.parametrize("policy", ["weighting", "surrogate", "mixed"])
def test_some_labels_decide_for_weighted_rows(policy):
    """Values of the leaves are those of all labels, from the weighted rows."""
    case = with_outputs(random_case(2, missing=0.3, n_riders=5, n_labels=3))
    policies = policies_of(case.columns, POLICIES[policy])
    tree, weights = grow_case(case, policies=policies, seed=1, max_deciding=2)
    assert tree.value.shape == (tree.n_leaves, 3)
    g, h = np.zeros((2, tree.n_leaves, 3))
    for e in case.fitted_examples:
        for leaf, weight in reference_weights(tree, case.columns, e.row, e.lags).items():
            assert weights[leaf, e.row, e.context] == weight
            g[leaf] += weight * e.gradient
            h[leaf] += weight * e.hessian
    np.testing.assert_allclose(tree.value, g / (h + 0.5), rtol=1e-5, atol=1e-6)


def test_without_policies_it_is_the_usual_tree():
    for seed in range(3):
        for case in one_and_all(random_case(seed, missing=0.3, n_riders=5), seed):
            tree, n_several = assert_same(case, policies=policies_of(case.columns, DIRECTION))
            assert n_several == 0
            assert same_tree(tree, grow_case(case)[0])


@pytest.mark.parametrize(("order", "n_labels"), [(0, 1), (1, 2), (2, 2), (1, 5)])
def test_sums_of_leaves_are_those_of_their_rows_and_contexts(order, n_labels):
    """After any mixture of window and lag splits, of leaves that have a histogram and of others."""
    n_lag_splits = n_histograms = 0
    for seed in range(4):
        for case in one_and_all(random_case(seed, order=order, n_labels=n_labels, n_riders=6), seed):
            grower = case.grower(LIMITS._replace(max_leaf_nodes=9))
            tree, leaves = case.grow(grower=grower)
            n_lag_splits += (tree.kind == LAG).sum()
            n_histograms += check_leaves(case, grower, tree, leaves)
    assert (n_lag_splits > 0) == (order > 0)
    assert n_histograms > 10


def check_leaves(case, grower, tree, leaves):
    """Check sums, positions by type, and, where they are kept, histograms and sums per context; return their number."""
    nodes, sums, space, n = grower.work.nodes, grower.work.sums, case.space, len(case.gradient)
    cells, n_checked = grower.work.rounded.cells if case.order else grower.work.rounded.vectors[:, None, : 2 * n], 0
    dense, sparse = case.columns
    for leaf, node in enumerate(nodes.leaf_node[: tree.n_leaves]):
        state = nodes.state[node]
        rows = leaves.rows[state[START] : state[START] + state[FITTED]]
        assert set(rows.tolist()) <= set(case.rows[: case.n_fitted].tolist())
        assert state[FITTED] == tree.leaf_rows[leaf] <= state[SIZE] == leaves.size[leaf]
        vectors = np.zeros((len(rows), 2 * n), dtype=np.int64)
        for p, row in enumerate(rows):
            j = space.row_type[row]
            held = [c for c in range(space.n_contexts_of[j]) if leaves.mask[leaf, space.base[j] + c]]
            assert held
            vectors[p] = cells[row, held].sum(axis=0)
        assert nodes.total[node, : 2 * n + 1].tolist() == [*vectors.sum(axis=0), len(rows)]
        if nodes.gain[node] <= 0 or state[SLOT] < 0:
            continue
        types = np.bincount(space.row_type[rows], minlength=case.order + 1)
        assert nodes.type_rows[node].tolist() == types.tolist()
        by_context = sums.contexts[state[SLOT]]
        for e in np.flatnonzero(leaves.mask[leaf]) if case.order else ():
            j = space.type_of[e]
            of_type = rows[space.row_type[rows] == j]
            assert by_context[e].tolist() == cells[of_type, e - space.base[j]].sum(axis=0).tolist()
        if len(rows) < 2 * LIMITS.min_samples_leaf:  # only its contexts can be divided
            continue
        n_checked += 1
        expected = np.zeros((case.columns.n_cells, 2 * n + 1), dtype=np.int64)
        for row, vector in zip(rows, vectors, strict=True):
            of_row = (dense.cell_start[:-1] + dense.codes[dense.address[row] + dense.displacement]).tolist()
            for o, offset in enumerate(sparse.offset):
                padded = sparse.padded_row[row] + offset
                slots = sparse.indices[sparse.indptr[padded] : sparse.indptr[padded + 1]]
                of_row += (dense.cell_start[-1] + o * sparse.slot_start[-1] + slots).tolist()
            expected[of_row] += [*vector, 1]
        n_dense, found = int(dense.cell_start[-1]), sums.cells[state[SLOT]][: case.columns.n_cells]
        assert np.array_equal(found[:n_dense, 2 * n], expected[:n_dense, -1])
        assert np.array_equal(sums.counts[state[SLOT]], expected[n_dense:, -1])
        there = expected[:, -1] > 0
        assert np.array_equal(found[there, : 2 * n + 1], expected[there])
    return n_checked


def test_units_of_weights_are_those_of_the_growers():
    assert all(1 << weight_bits(n) == UNIT for n in (1, 100, 2**16 - 1))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=st.fixed_dictionaries(ANY_SHAPE),
    seed=st.integers(0, 10**6),
    change=st.fixed_dictionaries(ANY_LIMITS),
    policy=st.sampled_from([*POLICIES.values()]),
)
def test_same_tree_for_any_shape(shape, seed, change, policy):
    ties = policy in (INSTANCE_WEIGHTING, -1)  # whose sums fixed point rounds
    for case in one_and_all(case_of_shape(seed, **shape), seed):
        assert_same(case, LIMITS._replace(**change), policies_of(case.columns, policy, seed), ties=ties)
