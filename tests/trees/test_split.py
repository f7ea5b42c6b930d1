"""Thresholds of a node, with and without missing values or the boundary: against all of them tried one by one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.trees import LIMITS, case_of_codes, left_values

TIE = 1e-9


def tried(cells, limits):
    """Gain, side and threshold of the best split: the first side, then the lowest threshold, of equal ones."""
    lam, least = limits.l2_regularization, limits.min_samples_leaf
    n_values = cells.shape[1] - 2
    g, h, n = cells.sum(axis=1)
    parent = g * g / (h + lam) if h + lam > 0 else 0.0
    best = (max(limits.min_gain, 1e-12, 1e-13 * parent), -1, -1)
    for sides in range(4):
        if (sides & 1 and not cells[2, n_values]) or (sides & 2 and not cells[2, n_values + 1]):
            continue
        for v in range(n_values):
            specials = ([n_values] if sides & 1 else []) + ([n_values + 1] if sides & 2 else [])
            g_l, h_l, n_l = cells[:, [*range(v + 1), *specials]].sum(axis=1)
            if cells[2, v] == 0 or min(n_l, n - n_l) < least or min(h_l, h - h_l) + lam <= 0:
                continue
            gain = g_l**2 / (h_l + lam) + (g - g_l) ** 2 / (h - h_l + lam) - parent
            if gain > best[0] * (1 + TIE):
                best = (gain, sides, v)
    return best


def random_cells(rng, n_values):
    """Gradients, curvatures and positions of values, missing and boundary; often the same from either end."""
    n = rng.integers(0, 6, size=n_values + 2) * (rng.random(n_values + 2) < rng.choice([0.3, 0.7, 1.0]))
    g = rng.integers(-3, 4, size=n_values + 2) * rng.choice([1, 300])
    h = rng.integers(0, rng.choice([2, 5, 1000]), size=n_values + 2)
    cells = np.stack([g, h, n])
    if rng.random() < 0.6:
        half = n_values // 2
        cells[:, n_values - half : n_values] = cells[:, :half][:, ::-1]
    if rng.random() < 0.3:
        cells[:2, n_values] = 0
    cells[:, cells[2] == 0] = 0
    if rng.random() < 0.3:
        cells[:, n_values:] = 0
    return cells.astype(np.int64)


def grown(cells, limits):
    """Gain, side and threshold of the split of a tree on rows that have these cells."""
    n_values = cells.shape[1] - 2
    codes = np.repeat(np.arange(n_values + 2), cells[2])
    first = np.concatenate([[True], np.diff(codes) > 0])
    gradient, hessian = (np.where(first, part[codes], 0) for part in cells[:2])
    case = case_of_codes(codes, gradient, hessian, n_values=n_values)
    grower = case.grower(limits)
    tree, _ = grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, lambda g, h: 0 * g)
    if tree.n_splits == 0:
        return None
    left = left_values(tree, 0)
    held = {v for v in (n_values, n_values + 1) if cells[2, v]}
    sides = (n_values in left & held) + 2 * (n_values + 1 in left & held)
    return float(tree.gain[0]), sides, max(v for v in left if v < n_values)


@pytest.mark.parametrize("n_values", [1, 2, 5, 8, 20])
def test_sides_and_ties(n_values):
    rng = np.random.default_rng(n_values)
    n_splits = 0
    for _ in range(1000):
        cells = random_cells(rng, n_values)
        if cells[2].sum() == 0:
            continue
        limits = LIMITS._replace(
            l2_regularization=float(rng.choice([0.0, 0.3, 1.0, 7.7])), min_samples_leaf=int(rng.integers(1, 4)),
            min_gain=float(rng.choice([0.0, 0.1])), max_leaf_nodes=2,
        )  # fmt: skip
        gain, sides, v = tried(cells, limits)
        found = grown(cells, limits)
        assert (found is None) == (sides < 0)
        if found is not None:
            assert found[0] == pytest.approx(gain, rel=1e-6)
            assert found[1:] == (sides, v)
            n_splits += 1
    assert n_splits > 120
