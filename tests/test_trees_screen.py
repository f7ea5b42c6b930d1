"""Lines of a shared tree's search: divisions that are screened in single precision against all of them computed."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import from_python
from test_trees_cases import LIMITS

from seqboost.core.jit import jit
from seqboost.trees.shared_buffers import _new_scratch
from seqboost.trees.shared_cells import Units
from seqboost.trees.shared_screen import ERROR, LONGEST_LINE, UNSCREENED, can_screen, lay_prefixes, screen_line
from seqboost.trees.shared_splitting import ABSENT, VectorNode, node_gain, scan_line, split_gain

gain_of_node, gain_of_split = from_python(node_gain), from_python(split_gain)


@jit
def screened(to_beat, node, limits, units, sums, start, n, from_top, scratch):
    lay_prefixes(sums, start, n, from_top, scratch)
    return screen_line(to_beat, node, limits, units, n, scratch)


@jit
def scanned(to_beat, node, limits, units, sums, start, n, from_top, scratch):
    return scan_line(to_beat, node, limits, False, units, sums, start, n, from_top, scratch)


@jit
def is_screened(n, alone, limits):
    return can_screen(n, alone, limits)


def random_line(seed, n, n_labels, *, lam=0.5, scale=1.0, heavy=1.0, signal=0.0, with_absent=False, with_base=True):
    """A line over some of the cells of a feature, with something on the left side before it begins."""
    rng = np.random.default_rng(seed)
    start, n_cells = int(rng.integers(5)), 2 * n + 7
    h = rng.integers(0, 2**30 // (4 * n), size=(n_cells + 2, n_labels))
    g = rng.normal(signal, 1, size=h.shape) * h * rng.choice([0.0, 0.1, 1.0], size=(n_cells + 2, 1))
    cells = np.hstack([np.clip(g, -(2**30) // (4 * n), 2**30 // (4 * n)), h]).astype(np.int32)
    sums, base, absent = cells[:-2], cells[-2] * with_base, cells[-1]
    scratch = _new_scratch(n_cells, n_cells, 0, n_labels, 0)
    line = np.sort(rng.permutation(n_cells - start)[:n])
    if with_absent:
        line[n // 2] = ABSENT
    scratch.axes.order[:n] = line
    scratch.base[:], scratch.absent[:] = base, absent
    total = (base + absent + sums.sum(axis=0)).astype(np.int32)
    scratch.n_left[:n] = np.arange(1, n + 1)
    scratch.n_right[:n] = n + 1 - scratch.n_left[:n]
    gradient, curvature = np.full(n_labels, 2.0**-28) * scale, heavy * 2.0 ** -rng.integers(18, 30, size=n_labels)
    units = Units(gradient, curvature, gradient**2 / curvature, lam / curvature)
    return VectorNode(total, n + 1, gain_of_node(total, units)), units, sums, start, scratch


@pytest.mark.parametrize("n_labels", [1, 2, 5, 32])
@pytest.mark.parametrize("n", [8, 9, 31, 253, LONGEST_LINE])
def test_screening_finds_the_same_split(n, n_labels):
    found = 0
    for seed in range(12):
        shape = {"lam": [0.5, 1e-6, 100.0][seed % 3], "with_absent": seed % 4 == 1, "with_base": seed % 2 == 0}
        node, units, sums, start, scratch = random_line(seed, n, n_labels, **shape)
        for least in (1, n // 3, n):
            limits = LIMITS._replace(l2_regularization=shape["lam"], min_samples_leaf=least)
            assert is_screened(n, False, limits)
            assert not is_screened(n, True, limits)
            for from_top in (False, True):
                rest = (node, limits, units, sums, start, n, from_top, scratch)
                best = scanned(1e-12, *rest)
                assert screened(1e-12, *rest) == best
                found += best[1] >= 0
                # what is as good does not beat; what is a little worse does
                assert screened(best[0], *rest) == scanned(best[0], *rest) == (best[0], -1)
                if best[1] >= 0:
                    assert screened(best[0] * (1 - 1e-12), *rest) == best
    assert found > 20


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**-20, 2.0**20, 2.0**60, 2.0**140])
def test_sums_that_single_precision_does_not_hold(scale):
    for seed in range(4):
        node, units, sums, start, scratch = random_line(seed, 40, 3, scale=scale)
        rest = (node, LIMITS, units, sums, start, 40, False, scratch)
        expected = scanned(1e-12, *rest) if scale < 2.0**140 else (1e-12, UNSCREENED)
        assert screened(1e-12, *rest) == expected


@pytest.mark.parametrize(
    ("heavy", "lam"), [(2.0**40, 10.0), (2.0**60, 10.0), (1.0, 1e18), (1.0, 1e20), (2.0**70, 1e30)]
)
def test_curvatures_whose_products_single_precision_does_not_hold(heavy, lam):
    limits = LIMITS._replace(l2_regularization=lam, min_samples_leaf=1)
    found = 0
    for seed in range(6):
        node, units, sums, start, scratch = random_line(seed, 40, 3, scale=2.0**60, heavy=heavy, lam=lam)
        rest = (node, limits, units, sums, start, 40, False, scratch)
        fits = heavy < 2.0**60 and lam < 1e18
        assert screened(0.0, *rest) == (scanned(0.0, *rest) if fits else (0.0, UNSCREENED))
        found += scanned(0.0, *rest)[1] >= 0
    assert found > 0


def test_equal_divisions_are_told_by_their_order():
    """The sums of the line are the same from either end, so two divisions are the best; the first one is kept."""
    node, units, sums, _, scratch = random_line(0, 21, 2, with_base=False)
    half = sums[:10]
    line = np.concatenate([half, sums[10:11] * 0, half[::-1]])
    node = VectorNode((2 * half.sum(axis=0)).astype(np.int32), 22, 0.0)
    scratch.axes.order[:21] = np.arange(21)
    node = node._replace(gain=gain_of_node(node.total, units))
    rest = (node, LIMITS, units, line, 0, 21, False, scratch)
    best = screened(1e-12, *rest)
    assert best == scanned(1e-12, *rest)
    assert best[1] in range(11)


def test_the_error_is_bounded():
    for seed in range(6):
        node, units, sums, start, scratch = random_line(seed, 200, 32, lam=[1e-6, 0.5][seed % 2])
        limits = LIMITS._replace(l2_regularization=[1e-6, 0.5][seed % 2], min_samples_leaf=1)
        screened(1e300, node, limits, units, sums, start, 200, False, scratch)
        for r in range(200):
            left = (scratch.prefix[:, r] + scratch.base).astype(np.int32)
            exact = gain_of_split(left, node.total, units, limits.l2_regularization)
            assert abs(scratch.bound[r] - exact) <= ERROR / 2 * exact


def test_lines_that_are_not_screened():
    limits = LIMITS._replace(l2_regularization=1.0)
    assert not is_screened(7, False, limits)
    assert not is_screened(LONGEST_LINE + 1, False, limits)
    assert not is_screened(100, False, limits._replace(l2_regularization=0.0))
    assert not is_screened(100, False, limits._replace(l2_regularization=1e-7))
