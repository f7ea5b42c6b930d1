"""The grower of shared trees, one tree for all labels: its kernels, threads, buffers and partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernels import from_python
from test_trees_cases import LIMITS, NUMERIC, leaf_value, random_case, reference_weights, same_tree, with_labels

from seqboost.trees import SharedGrower, TreeGrower
from seqboost.trees import shared_buffers as buffers_module
from seqboost.trees import shared_growing as growing_module
from seqboost.trees.reference import Part, leading_order
from seqboost.trees.shared_cells import draw_labels, label_cells
from seqboost.trees.shared_ordering import Axes, order_vectors
from seqboost.trees.shared_splitting import node_gain, split_gain


def grow(case, limits=LIMITS, seed=0, n_threads=1, grower=None):
    """Grow a tree; all labels decide, unless the grower says otherwise."""
    if grower is None:
        grower = SharedGrower(case.dense, case.sparse, case.space, limits, n_threads, max_deciding=10**6)
    value = leaf_value(limits.l2_regularization)
    return grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, value, seed)


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
    for e in case.examples:
        (leaf,) = reference_weights(tree, case.columns, e.row, e.lags)
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


@pytest.mark.parametrize("order", [0, 1])
def test_labels_that_decide_do_not_depend_on_threads(order):
    case = with_labels(random_case(3, order=order, n_labels=6, n_riders=8), 3)
    growers = [SharedGrower(case.dense, case.sparse, case.space, LIMITS, n, max_deciding=2) for n in (1, 3)]
    for seed in range(6):
        tree, _ = grow(case, seed=seed, grower=growers[0])
        for grower in growers:
            again, _ = grow(case, seed=seed, grower=grower)
            assert same_tree(tree, again)


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
    parts = {v: Part(gradient[v], hessian[v]) for v in values}
    expected = leading_order(parts, Part(gradient.sum(axis=0), hessian.sum(axis=0)), 0.5)
    assert axes.order[:n].tolist() == expected
