"""Shared trees: one tree for all labels, against an exact greedy one on the expanded data set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernels import from_python
from test_trees_cases import (
    ANY_LIMITS,
    ANY_SHAPE,
    CATEGORICAL,
    LIMITS,
    NUMERIC,
    ORDERED,
    SUBSET,
    assert_as_reference,
    case_of_shape,
    leaf_value,
    random_case,
    same_tree,
)
from test_trees_growing import split_mix

from seqboost.trees import DENSE, LAG, SPARSE, SharedGrower, TreeGrower
from seqboost.trees import shared_buffers as buffers_module
from seqboost.trees import shared_growing as growing_module
from seqboost.trees.reference import reference_leaf
from seqboost.trees.shared_cells import draw_labels, label_cells
from seqboost.trees.shared_ordering import Axes, order_vectors
from seqboost.trees.shared_reference import expand_labels, grow_shared_reference, leading_order
from seqboost.trees.shared_splitting import node_gain, split_gain


def with_labels(case, seed=0, n_outputs=None):
    """The case with derivatives of all labels, (n_outputs, n_rows, n_contexts), exact in fixed point."""
    rng = np.random.default_rng(seed)
    exists = case.hessian > 0
    gradient, hessian = [], []
    for _ in range(case.n_labels if n_outputs is None else n_outputs):
        noise = 0.3 * rng.normal(size=exists.shape) / exists.shape[1]
        gradient.append((rng.normal() * case.gradient + noise) * exists)
        hessian.append(case.hessian * (0.2 + rng.random(exists.shape)))
    unit = 2.0**16
    gradient, hessian = (np.round(np.array(part) * unit) / unit for part in (gradient, hessian))
    return case.with_derivatives(gradient, hessian)


def grow(case, limits=LIMITS, seed=0, n_threads=1, grower=None):
    """Grow a tree; all labels decide, unless the grower says otherwise."""
    if grower is None:
        grower = SharedGrower(case.dense, case.sparse, case.space, limits, n_threads, max_deciding=10**6)
    value = leaf_value(limits.l2_regularization)
    return grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, value, seed)


def reference(case, limits=LIMITS, draw=None):
    fitted = set(case.rows[: case.n_fitted].tolist())
    examples = [e for e in examples_of(case) if e.row in fitted]
    return grow_shared_reference(case.dense, case.sparse, limits, examples, draw)


def examples_of(case):
    return expand_labels(case.dense, case.sparse, case.offsets, case.n_labels, case.order, case.gradient, case.hessian)


def assert_same(case, limits=LIMITS, draw=None, seed=0):
    """Grow both trees and compare splits, leaf values and the leaf of every (row, context)."""
    tree, partition = grow(case, limits, seed)
    slow = reference(case, limits, draw)
    assert tree.value.shape == (tree.n_leaves, len(case.gradient))
    assert_as_reference(tree, slow, limits)
    expected = slow.leaf_of
    for e in examples_of(case):
        leaf = partition.leaf_of[e.row, e.context]
        assert leaf == reference_leaf(tree, case.dense, case.sparse, e.row, e.lags)
        assert leaf == expected.get((e.row, e.context), leaf)
    exists = {(e.row, e.context) for e in examples_of(case)}
    for row, context in np.ndindex(partition.leaf_of.shape):
        assert (row, context) in exists or partition.leaf_of[row, context] == tree.n_leaves
    return tree


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_same_tree_as_on_expanded_data(n_labels, order):
    for seed in range(2):
        tree = assert_same(with_labels(random_case(seed, n_labels=n_labels, order=order), seed))
        assert tree.n_leaves == LIMITS.max_leaf_nodes


def test_same_tree_where_single_precision_does_not_hold_the_sums():
    """Lines are screened in single precision, which ends at 10^38; these are scanned instead."""
    case = with_labels(random_case(3, columns=((NUMERIC, 40), (NUMERIC, 30)), window=(0,), lengths=(60, 50)), 3)
    case = case.with_derivatives(case.gradient * 2.0**40, case.hessian)
    limits = LIMITS._replace(l2_regularization=1e18)
    tree = assert_same(case, limits)
    assert tree.n_leaves == limits.max_leaf_nodes


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("gradient", [0.1, 0.7, -0.3])
def test_what_rounding_makes_of_no_gain_is_no_split(shared, gradient):
    """Positions that are all alike, without a penalty: gains of divisions are zero but for rounding."""
    case = random_case(0, n_labels=2, order=0, columns=((NUMERIC, 200),), window=(0,), lengths=(30_000,))
    grower = (SharedGrower if shared else TreeGrower)(
        case.dense, case.sparse, case.space, LIMITS._replace(l2_regularization=0.0)
    )
    alike = np.full((2, 30_000, 1) if shared else (30_000, 1), gradient, dtype=np.float32)
    tree, _ = grower.grow(alike, np.ones_like(alike), case.rows, case.n_fitted, lambda g, h: g / h)
    assert tree.n_leaves == 1


def test_same_tree_with_more_labels_than_a_word_has_bits():
    tree = assert_same(with_labels(random_case(0, n_labels=70, lengths=(6, 1, 9))))
    assert any(np.diff(tree.word_start)[tree.kind == LAG] == 2)


def test_all_kinds_of_splits_occur():
    kinds = set()
    for seed in range(4):
        tree = assert_same(with_labels(random_case(seed), seed), LIMITS._replace(max_leaf_nodes=16))
        kinds |= set(tree.kind.tolist())
    assert kinds == {DENSE, SPARSE, LAG}


@pytest.mark.parametrize("label", [0, 2])
@pytest.mark.parametrize("change", [{}, {"one_against_rest": True}, {"l2_regularization": 0.0}], ids=str)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_with_gradients_of_one_label_it_is_the_tree_of_that_label(label, change, order):
    """Whatever curvature the others have: splits, gains and values are those of the trees per label."""
    limits = LIMITS._replace(**change)
    for seed in range(3):
        case = random_case(seed, order=order, n_labels=3)
        alone, _ = case.grow(limits)
        gradient, hessian = np.zeros((3, *case.gradient.shape)), np.zeros((3, *case.gradient.shape))
        gradient[label], hessian[label] = case.gradient, case.hessian
        tree, _ = grow(case.with_derivatives(gradient, hessian), limits)
        for name in ("kind", "feature", "word_start", "words", "left", "right", "n_rows", "leaf_rows"):
            assert np.array_equal(getattr(tree, name), getattr(alone, name)), name
        np.testing.assert_allclose(tree.gain, alone.gain, rtol=1e-5)
        np.testing.assert_allclose(tree.value[:, label], alone.value, rtol=1e-5, atol=1e-6)
        assert not np.delete(tree.value, label, axis=1).any()


@pytest.mark.parametrize("seed", range(2))
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
    assert_same(with_labels(random_case(seed, **shape), seed))
    assert_same(with_labels(random_case(seed, **shape), seed), LIMITS._replace(one_against_rest=True))


@pytest.mark.parametrize(
    "change",
    [
        {"max_leaf_nodes": 1},
        {"max_leaf_nodes": 2},
        {"max_leaf_nodes": 40, "min_samples_leaf": 1},
        {"max_depth": 0},
        {"max_depth": 1},
        {"max_depth": 3},
        {"min_samples_leaf": 7},
        {"min_samples_leaf": 20},
        {"min_samples_leaf": 21},
        {"min_gain": 0.3},
        {"min_gain": 1e6},
        {"l2_regularization": 0.0},
        {"l2_regularization": 100.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_same_tree_under_limits(change, order):
    limits = LIMITS._replace(**change)
    tree = assert_same(with_labels(random_case(1, order=order, n_labels=2)), limits)
    assert tree.n_leaves <= limits.max_leaf_nodes
    assert (tree.leaf_rows >= limits.min_samples_leaf).all() or tree.n_leaves == 1
    assert (tree.gain > limits.min_gain).all()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_riders_land_in_the_right_leaves_and_have_no_influence(order):
    case = with_labels(random_case(5, order=order, n_labels=2, n_riders=17))
    tree = assert_same(case)
    gradient, hessian = case.gradient.copy(), case.hessian.copy()
    riders = case.rows[case.n_fitted :]
    gradient[:, riders], hessian[:, riders] = np.nan, 1e30
    other, _ = grow(case.with_derivatives(gradient, hessian))
    assert same_tree(tree, other)


def test_unseen_categories_ride_along():
    case = random_case(2, columns=((CATEGORICAL, 4), (CATEGORICAL, 3)), window=(0,), n_riders=20)
    for row in case.rows[case.n_fitted :: 2]:
        case.dense.codes[case.dense.address[row]] = case.dense.n_values[0] + 2
    assert DENSE in assert_same(with_labels(case)).kind


def test_categories_unknown_to_the_binner_may_be_fitted():
    """A warm start can bring them: they have no cell, and go where the left set sends them."""
    case = with_labels(random_case(2, order=0, columns=((CATEGORICAL, 4), (CATEGORICAL, 3)), window=(0,)))
    for row in case.rows[::3]:
        case.dense.codes[case.dense.address[row]] = case.dense.n_values[0] + 2
    tree, partition = grow(case)
    assert tree.n_leaves > 1
    for e in examples_of(case):
        assert partition.leaf_of[e.row, e.context] == reference_leaf(tree, case.dense, case.sparse, e.row, e.lags)
    assert np.array_equal(np.bincount(partition.leaf_of[:, 0], minlength=tree.n_leaves), tree.leaf_rows)


def test_nothing_to_fit():
    tree, partition = grow(with_labels(random_case(0, n_riders=40)))
    assert tree.value.tolist() == [[0.0] * 3]
    assert set(np.unique(partition.leaf_of)) == {0, 1}


def test_zero_gradients_make_a_single_leaf():
    case = with_labels(random_case(0))
    tree = assert_same(case.with_derivatives(0 * case.gradient, case.hessian))
    assert tree.value.tolist() == [[0.0] * 3]
    tree, _ = grow(case.with_derivatives(0 * case.gradient, 0 * case.hessian), LIMITS._replace(l2_regularization=0.0))
    assert tree.value.tolist() == [[0.0] * 3]


def test_a_label_without_curvature_does_not_stand_in_the_way():
    """λ = 0, and one label has neither gradient nor curvature: the others decide."""
    case = with_labels(random_case(3, order=0, n_labels=3))
    gradient, hessian = case.gradient.copy(), case.hessian.copy()
    gradient[1], hessian[1] = 0, 0
    tree = assert_same(case.with_derivatives(gradient, hessian), LIMITS._replace(l2_regularization=0.0))
    assert tree.n_leaves == LIMITS.max_leaf_nodes
    assert np.isfinite(tree.value).all()


@pytest.mark.parametrize("exponents", [(-33, -66), (20, 20), (20, 0), (-14, 0), (50, 80)])
@pytest.mark.parametrize("order", [0, 1])
def test_derivatives_of_any_scale(exponents, order):
    gradient, hessian = (2.0**e for e in exponents)
    case = with_labels(random_case(3, order=order))
    limits = LIMITS._replace(l2_regularization=0.0)
    plain, _ = grow(case, limits)
    tree, _ = grow(case.with_derivatives(gradient * case.gradient, hessian * case.hessian), limits)
    assert tree.kind.tolist() == plain.kind.tolist()
    assert tree.words.tolist() == plain.words.tolist()
    np.testing.assert_allclose(tree.value, plain.value * (gradient / hessian), rtol=1e-5)


def test_labels_of_very_different_scales():
    case = with_labels(random_case(3, order=1))
    scale = np.array([1e-4, 1.0, 30.0])[:, None, None]
    assert_same(case.with_derivatives(scale * case.gradient, scale * case.hessian))


@pytest.mark.parametrize("n_drawn", [0, 1, 5])
def test_features_drawn_at_each_node(n_drawn):
    limits = LIMITS._replace(n_drawn_features=n_drawn)
    roots = set()
    for seed in range(4):
        case = with_labels(random_case(seed), seed)
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


@pytest.mark.parametrize("order", [0, 1, 2])
def test_threads_and_blocks_do_not_matter(order, monkeypatch):
    case = with_labels(random_case(4, order=order, n_riders=9))
    limits = LIMITS._replace(max_leaf_nodes=16)
    tree, partition = grow(case, limits)
    monkeypatch.setattr(growing_module, "WORTH_A_THREAD", 0)
    monkeypatch.setattr("seqboost.trees.shared_histogram.BLOCK_BYTES", 1)
    for n_threads in (1, 2, 3, 7):
        again, partition_again = grow(case, limits, n_threads=n_threads)
        assert same_tree(tree, again)
        assert np.array_equal(partition.leaf_of, partition_again.leaf_of)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_few_histograms_make_the_same_tree(order, monkeypatch):
    """Leaves that gave up their histogram have it made anew when they are split."""
    case = with_labels(random_case(4, order=order))
    limits = LIMITS._replace(max_leaf_nodes=20, min_samples_leaf=1)
    tree, _ = grow(case, limits)
    assert tree.n_leaves == 20
    monkeypatch.setattr(buffers_module, "HISTOGRAM_BYTES", 1)
    grower = SharedGrower(case.dense, case.sparse, case.space, limits)
    assert len(grower.buffers.sums.counts) == 2
    again, _ = grow(case, limits, grower=grower)
    assert same_tree(tree, again)


@pytest.mark.parametrize("n_drawn", [3, 10**6])
def test_a_grower_used_again_grows_the_same_tree(n_drawn):
    limits = LIMITS._replace(n_drawn_features=n_drawn, max_leaf_nodes=12)
    case = with_labels(random_case(6, n_riders=5, order=2, n_labels=2))
    fresh, partition = grow(case, limits, seed=7)
    grower = SharedGrower(case.dense, case.sparse, case.space, limits)
    other = case.with_derivatives(case.gradient[::-1], case.hessian[::-1])
    grow(other, limits, seed=1, grower=grower)
    again, partition_again = grow(case, limits, seed=7, grower=grower)
    assert same_tree(fresh, again)
    assert np.array_equal(partition.leaf_of, partition_again.leaf_of)


def test_buffers_may_hold_garbage():
    limits = LIMITS._replace(max_leaf_nodes=12)
    case = with_labels(random_case(6, n_riders=5, order=2, n_labels=2))
    fresh, _ = grow(case, limits)
    grower = SharedGrower(case.dense, case.sparse, case.space, limits)
    held = grower.buffers
    scratch = held.scratch.get()
    held.scratch.put(scratch)
    for array in (held.cells, held.vectors, held.node_vectors, *held.sums, held.rows, held.spare, *held.finds,
                  *scratch.axes, *scratch[1:]):  # fmt: skip
        array.fill(np.nan if array.dtype.kind == "f" else 99)
    again, _ = grow(case, limits, grower=grower)
    assert same_tree(fresh, again)


@pytest.mark.parametrize("order", [0, 2])
def test_order_of_rows_does_not_matter(order):
    case = with_labels(random_case(8, order=order, n_labels=2, n_riders=9))
    fresh, partition = grow(case)
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(part) for part in np.split(case.rows, [case.n_fitted])])
    tree, partition_again = grow(replace(case, rows=rows))
    assert same_tree(fresh, tree)
    assert np.array_equal(partition.leaf_of, partition_again.leaf_of)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_partition_adds_the_values_of_the_leaves(order):
    case = with_labels(random_case(9, order=order, n_labels=3, n_riders=9))
    tree, partition = grow(case)
    old = np.random.default_rng(0).normal(size=case.gradient.shape).astype(np.float32)
    new = np.full_like(old, np.nan)
    partition.add(tree.value, old, new)
    expected = old.copy()
    for e in examples_of(case):
        leaf = reference_leaf(tree, case.dense, case.sparse, e.row, e.lags)
        expected[:, e.row, e.context] += tree.value[leaf]
    assert np.array_equal(new, expected)
    partition.add(tree.value, old, old)
    assert np.array_equal(old, expected)


def test_fixed_point_is_exact_within_its_unit_and_fits():
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=(4, 300, 3)).astype(np.float32)
    hessian = rng.random((4, 300, 3)).astype(np.float32)
    gradient[1] *= 1e-20
    hessian[2] *= 1e20
    gradient[3], hessian[3] = 0, 0
    rows = rng.permutation(300).astype(np.int32)
    cells = np.full((300, 3, 8), 99, dtype=np.int32)
    units, labels = label_cells(gradient, hessian, rows, 200, 2.0, cells, 2)
    assert labels.tolist() == [0, 1, 2, 3]
    fitted, others = rows[:200], rows[200:]
    assert (cells[others] == 99).all()
    for k in range(4):
        for part, values, unit in ((k, gradient[k], units.gradient[k]), (4 + k, hessian[k], units.curvature[k])):
            assert np.frexp(unit)[0] == 0.5  # a power of two
            assert np.abs(cells[fitted, :, part] * unit - values[fitted]).max() <= 0.51 * unit
            total = np.abs(cells[fitted, :, part].astype(np.int64)).sum()
            assert total < 2**31
            assert total > 2**28 or not values.any()
    assert np.allclose(units.weight, units.gradient**2 / units.curvature)
    assert np.allclose(units.penalty, 2.0 / units.curvature)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("order", [0, 1])
def test_some_labels_decide_and_all_get_values(order, n_threads):
    """Splits are those of a tree for the labels drawn; values of the others are sums over the same leaves."""
    case = with_labels(random_case(3, order=order, n_labels=6, n_riders=8), 3)
    grower = SharedGrower(case.dense, case.sparse, case.space, LIMITS, n_threads, max_deciding=2)
    roots = set()
    for seed in range(6):
        tree, partition = grow(case, seed=seed, grower=grower)
        influence = np.abs(case.gradient[:, case.rows[: case.n_fitted]]).sum(axis=(1, 2))
        labels = draw_labels(influence, 2, seed)
        few = case.with_derivatives(case.gradient[labels], case.hessian[labels])
        expected = reference(few)
        assert tree.kind.tolist() == expected.kind
        assert tree.feature.tolist() == expected.feature
        assert tree.leaf_rows.tolist() == expected.leaf_rows
        every = expected.leaf_of
        for leaf in range(tree.n_leaves):
            cells = tuple(np.array([cell for cell, where in every.items() if where == leaf]).T)
            g, h = (part[(slice(None), *cells)].sum(axis=1, dtype=np.float64) for part in (case.gradient, case.hessian))
            np.testing.assert_allclose(tree.value[leaf], g / (h + 0.5), rtol=1e-5, atol=1e-6)
        roots.add((int(tree.kind[0]), int(tree.feature[0]), *labels.tolist()))
        again, _ = grow(case, seed=seed, grower=grower)
        assert same_tree(tree, again)
    assert len(roots) > 1


def test_labels_are_drawn_by_influence():
    assert draw_labels(np.array([0.0, 3.0, 1.0]), 3, 0).tolist() == [0, 1, 2]
    drawn = np.zeros(4)
    for seed in range(2000):
        labels = draw_labels(np.array([0.0, 1.0, 2.0, 4.0]), 1, seed)
        drawn[labels] += 1
    assert drawn[0] == 0
    np.testing.assert_allclose(drawn[1:] / 2000, np.array([1, 2, 4]) / 7, atol=0.04)
    pair = draw_labels(np.array([0.0, 1.0, 2.0, 0.0]), 2, 5)
    assert pair.tolist() == [1, 2]


@pytest.mark.parametrize("lam", [0.0, 1.5])
def test_gain_is_the_sum_over_labels(lam):
    rng = np.random.default_rng(0)
    n = 7
    gradient, hessian = rng.normal(size=(n, 50, 1)).astype(np.float32), rng.random((n, 50, 1)).astype(np.float32)
    cells = np.empty((50, 1, 2 * n), dtype=np.int32)
    units, _ = label_cells(gradient, hessian, np.arange(50, dtype=np.int32), 50, lam, cells, 1)
    left, node = cells[:20, 0].sum(axis=0, dtype=np.int32), cells[:, 0].sum(axis=0, dtype=np.int32)

    def gain(rows):
        return sum(gradient[k, rows].sum() ** 2 / (hessian[k, rows].sum() + lam) for k in range(n))

    np.testing.assert_allclose(from_python(node_gain)(node, units), gain(slice(None)), rtol=1e-5)
    both = gain(slice(20)) + gain(slice(20, None))
    np.testing.assert_allclose(from_python(split_gain)(left, node, units, lam), both, rtol=1e-5)
    left[n:] = 0
    assert (from_python(split_gain)(left, node, units, lam) == -1) == (lam == 0)


@pytest.mark.parametrize("seed", range(5))
def test_categories_are_ordered_along_the_leading_direction(seed):
    rng = np.random.default_rng(seed)
    n_values, n_labels = 12, 5
    gradient, hessian = rng.normal(size=(n_values, n_labels)), 0.1 + rng.random((n_values, n_labels))
    counts = rng.integers(0, 9, n_values).astype(np.int32)
    cells = np.empty((n_values, 1, 2 * n_labels), dtype=np.int32)
    rows = np.arange(n_values, dtype=np.int32)
    derivatives = (np.ascontiguousarray(part.T[:, :, None], dtype=np.float32) for part in (gradient, hessian))
    units, _ = label_cells(*derivatives, rows, n_values, 0.5, cells, 1)
    axes = Axes(
        np.full((n_values, n_labels), np.nan), np.full(n_values, np.nan), np.full(n_labels, np.nan),
        np.full(n_labels, np.nan), np.full(n_labels, np.nan), np.full(n_values, np.nan),
        np.full(n_values, -7),
    )  # fmt: skip
    sums, node = np.ascontiguousarray(cells[:, 0]), cells[:, 0].sum(axis=0, dtype=np.int32)
    n = from_python(order_vectors)(sums, counts, 0, n_values, 2, node, units, 0.5, axes)
    values = [v for v in range(n_values) if counts[v] >= 2]
    whole = gradient.sum(axis=0), hessian.sum(axis=0)
    expected = leading_order(values, dict(enumerate(gradient)), dict(enumerate(hessian)), whole, 0.5)
    assert axes.order[:n].tolist() == expected


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.fixed_dictionaries(ANY_SHAPE), seed=st.integers(0, 10**6), change=st.fixed_dictionaries(ANY_LIMITS))
def test_same_tree_for_any_shape(shape, seed, change):
    assert_same(with_labels(case_of_shape(seed, **shape), seed), LIMITS._replace(**change))
