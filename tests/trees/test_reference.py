"""The slow twin itself: against brute force over all left sets, scalar sums, and trees worked out by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from seqboost.core.missing import INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import DENSE, LAG, SPARSE
from seqboost.trees.reference import UNIT, Part, draw_features, draw_for_tree, features_of, leading_order, mix
from tests.support.trees import (
    CATEGORICAL,
    LIMITS,
    NUMERIC,
    ORDERED,
    SUBSET,
    case_of_codes,
    policies_of,
    random_case,
    with_outputs,
)

SMALL = {"columns": ((NUMERIC, 4), (CATEGORICAL, 4)), "window": (-1, 0), "missing": 0.2}


@pytest.mark.parametrize("order", [0, 1, 2])
def test_space_lists_the_contexts_of_the_expanded_examples(order):
    case = random_case(0, order=order, n_labels=2)
    space = case.space
    for e in case.examples:
        j = space.row_type[e.row]
        assert e.context < space.n_contexts_of[j]
        assert tuple(space.lag_label[:, space.base[j] + e.context]) == e.lags
        assert space.type_of[space.base[j] + e.context] == j
    assert len(case.examples) == space.n_contexts_of[space.row_type].sum()
    exists = {(e.row, e.context) for e in case.examples}
    for row in range(len(space.row_type)):
        for c in range(case.n_labels**order):
            assert (row, c) in exists or case.hessian[0, row, c] == case.gradient[0, row, c] == 0


def test_cases_hold_missing_boundary_and_several_runs():
    case = random_case(1)
    dense = case.columns.dense
    codes = [{e.dense[f] for e in case.examples} for f in range(len(dense.displacement))]
    assert any(dense.n_values[f] in seen for f, seen in enumerate(codes))
    assert any(dense.n_values[f] + 1 in seen for f, seen in enumerate(codes))
    assert (np.diff(dense.displacement) > 1).any()
    assert {-1, 0} < {slot for e in case.examples for slot in e.sparse}


def scalar_gain(sides, lam):
    """The gain of a split, output by output, from plain numbers; −1 if a side is empty."""
    if not all(sides):
        return -1.0
    total = 0.0
    for k in range(len(sides[0][0].gradient)):
        for sign, examples in ((1, sides[0]), (1, sides[1]), (-1, sides[0] + sides[1])):
            g, h = sum(float(e.gradient[k]) for e in examples), sum(float(e.hessian[k]) for e in examples)
            total += sign * g * g / (h + lam) if h + lam > 0 else 0.0
    return total


def sides_of(examples, feature, left):
    return [[e for e in examples if (e.value(feature) in left) == side] for side in (True, False)]


def nodes_of(case, tree):
    """Each split of a tree with its examples, by walking from the root; leaves as ~number."""
    features = {(f.kind, f.number): f for f in features_of(case.columns, None, case.order)}
    waiting = [(0 if tree.kind else -1, case.fitted_examples)]
    while waiting:
        node, examples = waiting.pop()
        yield node, examples
        if node >= 0:
            sides = sides_of(examples, features[tree.kind[node], tree.feature[node]], tree.left_set[node])
            waiting += zip((tree.left[node], tree.right[node]), sides, strict=True)


def subsets(values):
    values = sorted(values)
    return [{v for i, v in enumerate(values) if bits >> i & 1} for bits in range(2 ** len(values))]


def every_left_set(feature, examples, lags_and_categories=subsets):
    """All left sets that a feature may have: any set of categories, any threshold with specials on any side."""
    held, n = {e.value(feature) for e in examples}, feature.n_values
    if feature.kind == DENSE and feature.is_ordered:
        return [{*range(v + 1)} | specials for v in range(n) for specials in subsets(held & {n, n + 1})]
    if feature.is_ordered:
        line = [*range(feature.absent_rank), -1, *range(feature.absent_rank, n)]
        return [set(line[:cut]) for cut in range(len(line))]
    if feature.kind == SPARSE:
        n_rows = Counter(slot for slot, _ in {(e.value(feature), e.row) for e in examples})
        return lags_and_categories({slot for slot in held if slot >= 0 and n_rows[slot] >= 5})
    return lags_and_categories(held)


def best_gain(case, examples, limits, left_sets=every_left_set):
    """The largest gain of any split of these examples."""
    best = 0.0
    for feature in features_of(case.columns, None, case.order):
        for left in left_sets(feature, examples):
            sides = sides_of(examples, feature, left)
            if min(len({e.row for e in side}) for side in sides) >= limits.min_samples_leaf:
                best = max(best, scalar_gain(sides, limits.l2_regularization))
    return best


@pytest.mark.parametrize("slots", [(), ((ORDERED, 1, 0), (ORDERED, 3, 1), (SUBSET, 6, 0))], ids=["dense", "sparse"])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("min_samples_leaf", [1, 3])
def test_gains_are_the_largest_of_all_left_sets(order, slots, min_samples_leaf):
    """One output and λ = 0: no set of categories gains more than the best prefix of their order (Fisher 1958).

    With a limit on the rows of leaves, other sets may; thresholds and prefixes are then no worse than any threshold.
    """
    limits = LIMITS._replace(l2_regularization=0.0, min_samples_leaf=min_samples_leaf, max_leaf_nodes=6)
    for seed in range(2):
        case = random_case(seed, order=order, n_labels=3, slots=slots, **SMALL)
        tree = case.reference(limits)
        assert len(tree.kind) == 5
        for node, examples in nodes_of(case, tree):
            if node >= 0 and min_samples_leaf == 1:
                assert tree.gain[node] == pytest.approx(best_gain(case, examples, limits))
            elif node >= 0:
                least = best_gain(case, examples, limits, lambda f, e: every_left_set(f, e, lambda values: []))
                assert least * (1 - 1e-9) <= tree.gain[node] <= best_gain(case, examples, limits) * (1 + 1e-9)


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_vector_gains_of_thresholds_are_the_largest(lam):
    limits = LIMITS._replace(l2_regularization=lam, max_leaf_nodes=6)
    shape = {"columns": ((NUMERIC, 5), (NUMERIC, 3)), "slots": ((ORDERED, 3, 1),), "order": 0, "missing": 0.2}
    for seed in range(3):
        case = with_outputs(random_case(seed, **shape), seed, 4)
        tree = case.reference(limits)
        assert len(tree.kind) == 5
        for node, examples in nodes_of(case, tree):
            if node >= 0:
                assert tree.gain[node] == pytest.approx(best_gain(case, examples, limits))


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_sums_sizes_and_leaves_are_those_of_the_examples(order, n_outputs):
    case = with_outputs(random_case(4, order=order, n_labels=2, n_riders=7), 4, n_outputs)
    tree = case.reference()
    assert len(tree.kind) == LIMITS.max_leaf_nodes - 1
    reached = {}
    for node, examples in nodes_of(case, tree):
        n_rows = len({e.row for e in examples})
        if node >= 0:
            assert tree.n_rows[node] == n_rows
            continue
        assert tree.leaf_rows[~node] == n_rows >= LIMITS.min_samples_leaf
        g, h = sum(e.gradient for e in examples), sum(e.hessian for e in examples)
        np.testing.assert_allclose(tree.gradient[~node], g)
        np.testing.assert_allclose(tree.hessian[~node], h)
        np.testing.assert_allclose(tree.value[~node], g / (h + 0.5))
        reached |= {(e.row, e.context): ~node for e in examples}
    assert tree.leaf_of == reached
    assert tree.weights == {cell: {leaf: 1.0} for cell, leaf in reached.items()}


def test_outputs_without_derivatives_change_nothing():
    for seed, lam in ((0, 0.0), (1, 0.5)):
        case = random_case(seed)
        limits = LIMITS._replace(l2_regularization=lam)
        alone = case.reference(limits)
        nothing = np.zeros_like(case.gradient)
        padded = [np.concatenate([nothing, part, nothing]) for part in (case.gradient, case.hessian)]
        tree = case.with_derivatives(*padded).reference(limits)
        for name in ("kind", "feature", "left_set", "left", "right", "n_rows", "leaf_of"):
            assert getattr(tree, name) == getattr(alone, name), name
        np.testing.assert_allclose(tree.value[:, [1]], alone.value)
        assert not tree.value[:, [0, 2]].any()


def grow_codes(codes, gradient, limits, policy=None, **options):
    """The reference tree of `case_of_codes`, with one policy for all features."""
    case = case_of_codes(codes, gradient, **options)
    return case.reference(limits, policies_of(case.columns, policy))


ONE = LIMITS._replace(min_samples_leaf=1, l2_regularization=0.0, max_leaf_nodes=2)


def test_of_equal_gains_the_first_side_wins():
    """{0, 1} | {2, missing} gains as much as {0, missing} | {1, 2}, whose threshold is lower, its side later."""
    gradient = [[1, 1, -1, -1], [1, -1, -1, 1]]
    tree = grow_codes([0, 1, 2, 4], gradient, ONE)
    assert tree.left_set[0] == {0, 1}
    assert tree.gain[0] == pytest.approx(4.0)
    lower = grow_codes([0, 1, 2, 4], gradient, ONE, kind=CATEGORICAL)  # any order of categories finds one of the two
    assert lower.gain[0] == pytest.approx(4.0)


def test_of_equal_features_and_leaves_the_first_wins():
    tree = grow_codes([[0, 0], [0, 0], [1, 1], [1, 1]], [1, 1, -1, -1], ONE)
    assert (tree.feature[0], tree.left_set[0]) == (0, {0})
    limits = ONE._replace(max_leaf_nodes=4)
    tree = grow_codes([0, 1, 2, 3], [5, 7, -5, -7], limits)
    assert tree.left_set == [{0, 1}, {0}, {0, 1, 2}]
    assert (tree.left, tree.right) == ([1, ~0, ~1], [2, ~2, ~3])


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_a_side_without_curvature_is_no_split(lam):
    tree = grow_codes([0, 1, 2], [5, 1, -1], ONE._replace(l2_regularization=lam), hessian=[0, 1, 1])
    assert tree.left_set[0] & tree.held[0] == ({0, 1} if lam == 0 else {0})


def test_what_is_not_held_goes_to_the_larger_side():
    larger_left = grow_codes([0, 0, 0, 1], [1, 1, 1, -9], ONE, kind=CATEGORICAL)
    assert larger_left.left_set[0] == {1}  # of the order by G/H the lowest comes first
    larger_left = grow_codes([0, 0, 0, 1], [-1, -1, -1, 9], ONE, kind=CATEGORICAL)
    assert larger_left.left_set[0] == {0, 2, 3, 4, 5, 6}  # missing, boundary and unknown, too
    numeric = grow_codes([0, 0, 0, 2], [-1, -1, -1, 9], ONE)
    assert numeric.left_set[0] == {0, 4, 5}


def test_rows_without_a_value_go_both_ways():
    """Six rows have a value, four go left: the shares of the seventh are 2/3 and 1/3."""
    tree = grow_codes([0, 0, 0, 0, 1, 1, 4], [1, 1, 1, 1, -1, -1, 6], ONE, INSTANCE_WEIGHTING)
    assert tree.share == [float(np.float32(2 / 3))]
    assert tree.held[0] == {0, 1}
    assert tree.gain[0] == pytest.approx(4 + 2 - 4 / 6)  # the seventh does not count
    np.testing.assert_allclose(tree.gradient[:, 0], [4 + 6 * 2 / 3, -2 + 6 / 3], atol=1e-6)
    np.testing.assert_allclose(tree.hessian[:, 0], [4 + 2 / 3, 2 + 1 / 3], rtol=1e-6)
    assert tree.leaf_rows == [5, 3]
    assert tree.weights[6, 0] == pytest.approx({0: 2 / 3, 1: 1 / 3})
    assert (6, 0) not in tree.leaf_of
    assert [node.weight[6].units for node in tree.leaves] == [round(UNIT * 2 / 3), UNIT - round(UNIT * 2 / 3)]


def test_sizes_of_nodes_count_weights():
    """Two rows with values go each way; two more go both ways with weights of one half, which makes 3 on each side."""
    codes = [[0, 0], [0, 1], [1, 0], [1, 1], [4, 0], [4, 1]]
    gradient = [8, 9, -8, -9, 3, -3]
    limits = ONE._replace(max_leaf_nodes=4)
    for least, n_splits in ((1, 3), (2, 1)):
        tree = grow_codes(codes, gradient, limits._replace(min_samples_leaf=least), INSTANCE_WEIGHTING)
        assert len(tree.kind) == n_splits
    tree = grow_codes(codes, gradient, limits._replace(min_samples_leaf=1), INSTANCE_WEIGHTING)
    assert tree.feature == [0, 1, 1]
    assert tree.n_rows == [6, 4, 4]


def test_surrogates_decide_where_the_value_is_missing():
    """Feature 1 sends five of six rows as feature 0 does, feature 2 four, which is no better than all one way."""
    codes = [[0, 3, 0], [0, 3, 0], [0, 2, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1], [4, 0, 0], [4, 3, 0], [4, 4, 0]]
    gradient = [1, 1, 1, 1, -1, -1, 0, 0, 0]
    tree = grow_codes(codes, gradient, ONE, SURROGATE)
    assert tree.share == [0.0]
    assert tree.left_set[0] == {0, 4, 5}
    # Low values go right, and the boundary, of which nothing is known, to the larger side.
    assert tree.surrogates[0] == [(DENSE, 1, {2, 3, 5}), (DENSE, 2, {0, 5})]
    assert [tree.leaf_of[row, 0] for row in (6, 7, 8)] == [1, 0, 0]
    tree = grow_codes(codes, gradient, ONE._replace(n_surrogates=0), SURROGATE)
    assert tree.surrogates[0] == []
    assert [tree.leaf_of[row, 0] for row in (6, 7, 8)] == [0, 0, 0]


def test_limits_end_the_growth():
    case = random_case(0)
    assert len(case.reference(LIMITS._replace(max_leaf_nodes=1)).leaves) == 1
    assert len(case.reference(LIMITS._replace(max_depth=0)).leaves) == 1
    assert len(case.reference(LIMITS._replace(max_depth=2, max_leaf_nodes=30)).leaves) == 4
    full = case.reference(LIMITS._replace(max_leaf_nodes=30))
    some = case.reference(LIMITS._replace(max_leaf_nodes=30, min_gain=full.gain[3] * 1.000001))
    assert min(some.gain) > full.gain[3]
    assert case.reference(LIMITS._replace(min_samples_leaf=21, max_leaf_nodes=30)).kind.count(DENSE) == 0


def test_nothing_to_fit():
    tree = random_case(0, n_riders=40).reference()
    assert tree.kind == []
    assert tree.value.tolist() == [[0.0]]
    assert tree.leaf_rows == [0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_categories_are_ordered_along_the_leading_direction(sign):
    """Outputs that differ in opposite ways along a line: the order is that of the line, in one direction or other."""
    rng = np.random.default_rng(0)
    places = rng.permutation(7)
    axis = np.array([2.0, -1.0, 0.5])
    parts = {v: Part(sign * (places[v] - 3.0) * axis, np.ones(3)) for v in range(7)}
    whole = Part(np.zeros(3), np.full(3, 7.0))
    assert leading_order(parts, whole, 0.0) == sorted(range(7), key=lambda v: sign * places[v])
    alone = {v: Part(part.gradient[:1], part.hessian[:1]) for v, part in parts.items()}
    assert leading_order(alone, Part(whole.gradient[:1], whole.hessian[:1]), 0.0) == sorted(
        range(7), key=lambda v: sign * places[v]
    )


def test_one_output_is_ordered_by_value():
    parts = {
        v: Part(np.array([g]), np.array([h])) for v, (g, h) in enumerate([(3, 1), (4, 3), (-2, 1), (0, 0), (4, 3)])
    }
    whole = Part(np.array([9.0]), np.array([8.0]))
    assert leading_order(parts, whole, 0.0) == [2, 3, 1, 4, 0]
    assert leading_order(parts, whole, 1.0) == [2, 3, 1, 4, 0]
    assert leading_order({}, whole, 0.0) == []


def test_mix_is_that_of_split_mix_64():
    """The first numbers of the published generator for the seed 1234567: its state moves by a constant."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [mix(1234567 + (i + 1) * 0x9E3779B97F4A7C15) for i in range(3)] == published


def test_features_are_drawn_without_replacement_and_evenly():
    assert draw_features(3, range(5), 5) == draw_features(3, range(5), 9) == [0, 1, 2, 3, 4]
    assert draw_features(3, range(5), 0) == []
    counts = np.zeros(6)
    for key in range(3000):
        drawn = draw_features(mix(key), [4, 1, 7, 9, 2, 3], 2)
        assert len(set(drawn)) == 2
        counts += [v in drawn for v in (4, 1, 7, 9, 2, 3)]
    np.testing.assert_allclose(counts / 3000, 1 / 3, atol=0.04)
    q = mix(11 + 0x9E3779B97F4A7C15) % 6
    assert draw_features(11, range(6), 1) == [q]


def test_features_of_a_node_depend_on_its_path_alone():
    case = random_case(0)
    asked = []

    def draw(key):
        asked.append(key)
        return set(range(99))

    tree = case.reference(LIMITS._replace(max_leaf_nodes=5), draw=draw, seed=7)
    root = mix(7)
    assert asked[:3] == [root, mix(root + 1), mix(root + 2)]
    assert len(asked) == 7  # children of the last split are not searched
    assert all(0 <= key < 2**64 for key in asked)
    keys, waiting = {}, [(0, root)]
    while waiting:
        node, key = waiting.pop()
        if node < 0:
            keys[~node] = key
        else:
            waiting += [(tree.left[node], mix(key + 1)), (tree.right[node], mix(key + 2))]
    assert [node.key for node in tree.leaves] == [keys[leaf] for leaf in range(5)]


def test_nodes_draw_from_the_features_of_the_tree():
    limits = LIMITS._replace(n_drawn_features=2, n_tree_features=3, max_leaf_nodes=16)
    for seed in range(5):
        case = random_case(seed)
        n_dense, n_sparse = len(case.columns.dense.displacement), case.columns.sparse.enabled.size
        pool = draw_features(seed, range(n_dense + n_sparse), 3)
        draw = draw_for_tree(case.problem(limits), seed)
        assert draw(5) == set(draw_features(5, pool, 2)) < set(pool)
        tree = case.reference(limits, draw=draw, seed=seed)
        for kind, number in zip(tree.kind, tree.feature, strict=True):
            assert kind == LAG or (number if kind == DENSE else n_dense + number) in pool
