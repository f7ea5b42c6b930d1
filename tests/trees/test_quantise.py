"""Derivatives as integers: scales, rounding, and the labels that decide."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.trees import quantise
from seqboost.trees.quantise import Rounded, choose_units, draw_labels, n_lanes, round_derivatives
from tests.support.trees import LIMITS, random_case


def rounded_of(gradient, hessian, rows, n_fitted, lam=2.0, *, n_deciding=10**6, seed=0, count=1, n_threads=1):
    """Units, labels and integers; whatever is not written stays 99."""
    n_labels, n_rows, n_contexts = gradient.shape
    units, labels = choose_units(
        gradient, hessian, rows, n_fitted, lam, n_deciding=n_deciding, seed=seed, n_threads=n_threads
    )
    n = len(labels)
    rounded = Rounded(
        cells=np.full((n_rows, n_contexts, 2 * n), 99, dtype=np.int32),
        vectors=np.full((n_rows, n_lanes(n)), 99, dtype=np.int32),
        node_vectors=np.zeros((0, n_lanes(n)), dtype=np.int32),
    )
    round_derivatives(gradient, hessian, rows, n_fitted, units, labels, rounded, count=count, n_threads=n_threads)
    return units, labels, rounded


def random_derivatives(seed, n_labels=4, n_rows=300, n_contexts=3):
    rng = np.random.default_rng(seed)
    gradient = rng.normal(size=(n_labels, n_rows, n_contexts)).astype(np.float32)
    hessian = rng.random((n_labels, n_rows, n_contexts)).astype(np.float32)
    rows = rng.permutation(n_rows)
    n_fitted = 2 * n_rows // 3
    rows = np.concatenate([np.sort(rows[:n_fitted]), np.sort(rows[n_fitted:])]).astype(np.int32)
    return gradient, hessian, rows, n_fitted


@pytest.mark.parametrize("n_contexts", [1, 3, 400])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_fixed_point_is_exact_within_its_unit_and_fits(n_contexts, n_threads, monkeypatch):
    monkeypatch.setattr(quantise, "ROWS_PER_TASK", 7)
    n_rows = 300 if n_contexts < 10 else 12
    gradient, hessian, rows, n_fitted = random_derivatives(0, 4, n_rows, n_contexts)
    gradient[1] *= 1e-20
    hessian[2] *= 1e20
    gradient[3], hessian[3] = 0, 0
    units, labels, rounded = rounded_of(gradient, hessian, rows, n_fitted, n_threads=n_threads)
    assert labels.tolist() == [0, 1, 2, 3]
    fitted, others = rows[:n_fitted], rows[n_fitted:]
    for k in range(4):
        for lane, values, unit in ((k, gradient[k], units.gradient[k]), (4 + k, hessian[k], units.curvature[k])):
            assert np.frexp(unit)[0] == 0.5  # a power of two
            cells = rounded.cells[fitted, :, lane]
            # In float32, a half that is added to more than 2^22 is rounded itself.
            assert (np.abs(cells * unit - values[fitted]) <= 0.51 * unit + 2.0**-23 * np.abs(values[fitted])).all()
            total = np.abs(cells.astype(np.int64)).sum()
            assert total < 2**31
            assert total > 2**28 or not values.any()
            assert np.array_equal(rounded.vectors[fitted, lane], cells.sum(axis=1))
    assert (rounded.vectors[fitted, 8:10] == 1).all()  # each counts, and is lost to whatever sibling
    assert not rounded.vectors[fitted, 10:].any()
    assert (rounded.cells[others] == 99).all()
    assert (rounded.vectors[others] == 99).all()
    np.testing.assert_allclose(units.weight, units.gradient**2 / units.curvature)
    np.testing.assert_allclose(units.penalty, 2.0 / units.curvature)


@pytest.mark.parametrize("n_labels", [1, 2, 5])
def test_rounds_to_the_nearest(n_labels, monkeypatch):
    """Unless cells are too many and rounding up could carry a sum out of its bits."""
    gradient, hessian, rows, n_fitted = random_derivatives(1, n_labels)

    def nearest(x):
        return np.sign(x) * np.floor(np.abs(x) + 0.5)

    for most, rounding in ((quantise.MAX_ROUNDED_CELLS, nearest), (1, np.trunc)):
        monkeypatch.setattr(quantise, "MAX_ROUNDED_CELLS", most)
        units, _, rounded = rounded_of(gradient, hessian, rows, n_fitted)
        fitted = rows[:n_fitted]
        for k in range(n_labels):
            for lane, plane, unit in ((k, gradient, units.gradient), (n_labels + k, hessian, units.curvature)):
                exact = plane[k, fitted].astype(np.float64) / unit[k]  # float32 holds it: a power of two
                small = np.abs(exact) < 2**22  # adding a half to more than that is rounded itself
                assert small.any()
                assert np.array_equal(rounded.cells[fitted, :, lane][small], rounding(exact)[small])


def test_rows_of_weighted_trees_count_units():
    gradient, hessian, rows, n_fitted = random_derivatives(2)
    _, _, rounded = rounded_of(gradient, hessian, rows, n_fitted, count=4096)
    assert (rounded.vectors[rows[:n_fitted], 8:10] == 4096).all()


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-20, 1e-3, 1.0, 2.0, 1e6, 1e30])
@pytest.mark.parametrize("lam", [0.0, 1.0, 1e18])
def test_scales_leave_room_for_all_sums_and_use_it(size, lam):
    derivatives = np.full((1, 100, 1), size, dtype=np.float32)
    rows = np.arange(100, dtype=np.int32)
    units, _, rounded = rounded_of(derivatives, derivatives, rows, 100, lam)
    assert units.gradient == units.curvature
    total = int(rounded.vectors[:, 0].astype(np.int64).sum())
    assert total < 2**30 + 100
    assert total >= 2**29 or size < 1e-20
    assert np.isfinite([*units.gradient, *units.weight, *units.penalty]).all()


def test_scales_depend_on_fitted_rows_alone():
    gradient, hessian, rows, n_fitted = random_derivatives(3)
    units, _, rounded = rounded_of(gradient, hessian, rows, n_fitted)
    gradient[:, rows[n_fitted:]], hessian[:, rows[n_fitted:]] = np.nan, 1e30
    again, _, rounded_again = rounded_of(gradient, hessian, rows, n_fitted)
    assert all(np.array_equal(a, b) for a, b in zip(units, again, strict=True))
    assert np.array_equal(rounded.cells, rounded_again.cells)


def test_some_labels_decide():
    gradient, hessian, rows, n_fitted = random_derivatives(4, 7)
    seen = set()
    for seed in range(5):
        units, labels, rounded = rounded_of(gradient, hessian, rows, n_fitted, n_deciding=3, seed=seed)
        influence = np.abs(gradient[:, rows[:n_fitted]]).sum(axis=(1, 2), dtype=np.float64)
        assert labels.tolist() == draw_labels(influence, 3, seed).tolist()
        _, _, alone = rounded_of(gradient[labels], hessian[labels], rows, n_fitted)
        assert units.weight.size == 3
        assert np.array_equal(rounded.cells, alone.cells)
        seen.add(tuple(labels.tolist()))
    assert len(seen) > 1


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


@pytest.mark.parametrize("n_outputs", range(1, 40))
def test_lanes_hold_sums_and_two_counts(n_outputs):
    assert n_lanes(n_outputs) % 4 == 0
    assert 2 * n_outputs + 2 <= n_lanes(n_outputs) < 2 * n_outputs + 6


@pytest.mark.parametrize("riding", [0.0, 0.1, 0.9])
def test_a_grower_rounds_only_fitted_rows(riding):
    """A tree on few rows does not pay for the others."""
    case = random_case(0, lengths=(300, 1, 50, 2), n_riders=int(riding * 353))
    grower = case.grower(LIMITS._replace(max_leaf_nodes=1))
    grower.work.rounded.cells.fill(77)
    case.grow(grower=grower)
    fitted = case.rows[: case.n_fitted]
    cells = grower.work.rounded.cells
    assert (cells[case.rows[case.n_fitted :]] == 77).all()
    assert np.array_equal(grower.work.rounded.vectors[fitted, :2], cells[fitted].sum(axis=1))
    units = grower.work.units
    for lane, plane, unit in ((0, case.gradient, units.gradient[0]), (1, case.hessian, units.curvature[0])):
        np.testing.assert_allclose(cells[fitted, :, lane], plane[0, fitted] / unit, rtol=2**-23, atol=0.51)
