"""Thresholds of a node, with and without missing values or the boundary: against all of them tried one by one."""

from __future__ import annotations

import numpy as np
import pytest
from test_trees_cases import LIMITS

from seqboost.core.jit import jit
from seqboost.trees.criterion import SplitRule
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.splitting import best_threshold
from seqboost.trees.tree import DENSE

COUNT_BITS = 12


@jit
def found(best, node, limits, histogram, start, n_values, scales, feature):
    return best_threshold(best, node, limits, histogram, start, n_values, scales, feature)


def tried(best, node, limits, cells, scales, feature):
    """The lowest threshold, then the first side, of those with the largest gain."""
    g, h, n, parent_gain = node
    lam, least = limits.l2_regularization, limits.min_samples_leaf
    G, H, N = cells[0] / scales.gradient, cells[1] / scales.curvature, cells[2]
    *_, n_missing, n_boundary = N
    for v in range(len(N) - 2):
        if cells[:, v].any():
            for sides in range(4):
                if (sides & 1 and not n_missing) or (sides & 2 and not n_boundary):
                    continue
                left = [*range(v + 1), *([len(N) - 2] if sides & 1 else []), *([len(N) - 1] if sides & 2 else [])]
                h_l, h_r, n_l = H[left].sum() + lam, h - H[left].sum() + lam, N[left].sum()
                if min(n_l, n - n_l) < least or min(h_l, h_r) <= 0:
                    continue
                g_l, g_r = G[left].sum(), g - G[left].sum()
                gain = (g_l * g_l * h_r + g_r * g_r * h_l) / (h_l * h_r) - parent_gain
                if gain > best.gain:
                    best = SplitRule(gain, DENSE, feature, v, sides)
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


@pytest.mark.parametrize("n_values", [1, 2, 5, 8])
def test_sides_and_ties(n_values):
    rng = np.random.default_rng(n_values)
    n_splits = 0
    for _ in range(1500):
        cells, start = random_cells(rng, n_values), int(rng.integers(3))
        scales = Scales(2.0 ** rng.integers(8), 2.0 ** rng.integers(8), COUNT_BITS)
        lam = float(rng.choice([0.0, 0.3, 1.0, 7.7]))
        limits = LIMITS._replace(l2_regularization=lam, min_samples_leaf=int(rng.integers(1, 4)))
        histogram = np.zeros(2 * (start + n_values + 2), dtype=np.int64)
        histogram[2 * start :: 2] = cells[0]
        histogram[2 * start + 1 :: 2] = (cells[1] << COUNT_BITS) + cells[2]
        g, h, n = cells[0].sum() / scales.gradient, cells[1].sum() / scales.curvature, int(cells[2].sum())
        node = (float(g), float(h), n, float(g * g / (h + lam)) if h + lam > 0 else 0.0)
        best = SplitRule(float(rng.choice([1e-9, 0.1])), -1, 0, 0, 0)
        expected = tried(best, node, limits, cells, scales, 3)
        assert found(best, node, limits, histogram, start, n_values, scales, 3) == pytest.approx(expected, abs=1e-12)
        n_splits += expected.kind == DENSE
    assert n_splits > 200
