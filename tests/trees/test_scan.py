"""Lines of a search: splits that are screened in single precision against all of them computed."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.core.jit import jit
from seqboost.trees import scan
from seqboost.trees.nodes import new_scratch
from seqboost.trees.quantise import Units, n_lanes
from seqboost.trees.scan import (
    ABSENT,
    ERROR,
    LONGEST_LINE,
    STRIDE,
    UNSCREENED,
    Line,
    SearchNode,
    _scan_line,
    _screen_line,
    _split_gain,
    best_prefix,
    gain_to_beat,
    lay_prefixes,
    node_gain,
)
from tests.support.trees import LIMITS, random_case


@jit
def screened(to_beat, node, limits, units, cells, line, scratch):
    lay_prefixes(cells, line, scratch)
    return _screen_line(to_beat, node, limits, units, line, scratch)


@jit
def scanned(to_beat, node, limits, units, cells, line, scratch):
    return _scan_line(to_beat, node, limits, units, cells, line, scratch)


@jit
def best(to_beat, node, limits, units, cells, line, keeps_prefixes, scratch):
    return best_prefix(to_beat, node, limits, units, cells, line, keeps_prefixes, scratch)


@jit
def gain_of_node(node, units):
    return node_gain(node, units)


@jit
def gain_of_split(left, node, units, lam):
    return _split_gain(left, node, units, lam)


@jit
def least_gain(limits, gain):
    return gain_to_beat(limits, gain)


def scratch_of(n_outputs, n):
    """Buffers for a line of ``n`` values."""
    scratch = new_scratch(random_case(0).problem(), n_outputs)
    return scratch._replace(**{name: np.zeros(max(n, 1), dtype=np.int64) for name in ("line", "n_left", "n_right")})


def random_line(
    seed, n, n_outputs, *, lam=0.5, scale=1.0, heavy=1.0, with_absent=False, with_base=True, from_top=False,
    by_contexts=True, alone=False, in_sequence=False,
):  # fmt: skip
    """A line over some of the cells of a feature, with something on the left side before it begins.

    If the values follow one another, Scratch.line holds something else.
    """
    rng = np.random.default_rng(seed)
    start, n_cells, most = int(rng.integers(5)), 2 * n + 7, 2**30 // (4 * n)
    h = rng.integers(0, most, size=(n_cells + 2, n_outputs))
    g = rng.normal(size=h.shape) * h * rng.choice([0.0, 0.1, 1.0], size=(n_cells + 2, 1))
    cells = np.zeros((n_cells + 2, n_lanes(n_outputs)), dtype=np.int32)
    cells[:, : 2 * n_outputs] = np.hstack([np.clip(g, -most, most), h])
    cells[:, 2 * n_outputs] = rng.integers(1, 4, size=n_cells + 2)
    scratch = scratch_of(n_outputs, n)
    scratch.line[:] = np.sort(rng.permutation(n_cells - start)[:n])
    if with_absent:
        scratch.line[n // 2] = ABSENT
    scratch.base[:], scratch.absent[:] = cells[-2] * with_base, cells[-1]
    total = (scratch.base + scratch.absent + cells[:-2].sum(axis=0)).astype(np.int32)
    scratch.n_left[:] = np.arange(1, n + 1)
    scratch.n_right[:] = n + 1 - scratch.n_left
    gradient, curvature = np.full(n_outputs, 2.0**-28) * scale, heavy * 2.0 ** -rng.integers(18, 30, size=n_outputs)
    units = Units(gradient, curvature, gradient**2 / curvature, lam / curvature)
    n_node = n + 1 if by_contexts else int(total[2 * n_outputs])
    node = SearchNode(total, n_node, gain_of_node(total, units))
    first = int(rng.integers(4)) if in_sequence else -1
    return node, units, cells[:-2], Line(start, n, first, from_top, alone, with_absent, by_contexts), scratch


@pytest.mark.parametrize("n_outputs", [1, 2, 5, 32])
@pytest.mark.parametrize("n", [8, 9, 31, 253, LONGEST_LINE])
def test_screening_finds_the_same_split(n, n_outputs):
    found = 0
    for seed in range(12):
        shape = {
            "lam": [0.5, 1e-6, 100.0][seed % 3], "with_absent": seed % 4 == 1, "with_base": seed % 2 == 0,
            "by_contexts": seed % 5 < 2,
        }  # fmt: skip
        in_sequence = {**shape, "with_absent": False, "in_sequence": True}
        for way in (shape, {**shape, "from_top": True}, in_sequence):
            node, units, cells, line, scratch = random_line(seed, n, n_outputs, **way)
            for least in (1, n // 3, n, 3 * n):
                limits = LIMITS._replace(l2_regularization=shape["lam"], min_samples_leaf=least)
                rest = (node, limits, units, cells, line, scratch)
                expected = scanned(1e-12, *rest)
                assert screened(1e-12, *rest) == expected
                assert best(1e-12, *rest[:-1], False, scratch) == expected
                assert best(1e-12, *rest[:-1], True, scratch) == expected  # the prefixes are still those of the line
                found += expected[1] >= 0
                # what is as good does not beat; what is a little worse does
                assert screened(expected[0], *rest) == scanned(expected[0], *rest) == (expected[0], -1)
                if expected[1] >= 0:
                    assert screened(expected[0] * (1 - 1e-12), *rest) == expected
    assert found > 20


@pytest.mark.parametrize("n_outputs", [1, 5])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_the_best_of_all_splits_is_found(lam, alone, n_outputs):
    """The gains of all prefixes, or of all values alone, in plain numpy."""
    for seed in range(10):
        shape = {"lam": lam, "alone": alone, "by_contexts": False, "with_absent": seed % 2 == 0}
        shape["from_top"] = seed % 3 == 0
        n = [3, 9, 40][seed % 3]
        node, units, cells, line, scratch = random_line(seed, n, n_outputs, **shape)
        limits = LIMITS._replace(l2_regularization=lam, min_samples_leaf=8)
        order = scratch.line[::-1] if line.from_top else scratch.line
        if seed > 7:
            line, order = line._replace(first=2, from_top=False), np.arange(2, 2 + n)
        vectors = np.array([scratch.absent if v == ABSENT else cells[line.start + v] for v in order], dtype=np.int64)
        left = scratch.base.astype(np.int64) + (vectors if alone else np.cumsum(vectors, axis=0))
        n_left = left[:, 2 * n_outputs]

        def gains(sums, units=units, lam=lam):
            g, h = sums[..., :n_outputs] * units.gradient, sums[..., n_outputs : 2 * n_outputs] * units.curvature
            return np.divide(g**2, h + lam, out=np.zeros(h.shape), where=h + lam > 0).sum(axis=-1)

        gain = gains(left) + gains(node.total.astype(np.int64) - left) - gains(node.total.astype(np.int64))
        gain[np.minimum(n_left, node.n - n_left) < 8] = -1
        found = best(1e-12, node, limits, units, cells, line, False, scratch)
        assert found[1] == (np.argmax(gain) if gain.max() > 1e-12 else -1)
        if found[1] >= 0:
            assert found[0] == pytest.approx(gain.max(), rel=1e-9)


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**-20, 2.0**20, 2.0**60, 2.0**140])
def test_sums_that_single_precision_does_not_hold(scale):
    for seed in range(4):
        *rest, line, scratch = random_line(seed, 40, 3, scale=scale)
        rest = (rest[0], LIMITS, *rest[1:], line, scratch)
        expected = scanned(1e-12, *rest) if scale < 2.0**140 else (1e-12, UNSCREENED)
        assert screened(1e-12, *rest) == expected
        assert best(1e-12, *rest[:-1], False, scratch) == scanned(1e-12, *rest)


@pytest.mark.parametrize(
    ("heavy", "lam"), [(2.0**40, 10.0), (2.0**60, 10.0), (1.0, 1e18), (1.0, 1e20), (2.0**70, 1e30)]
)
def test_curvatures_whose_products_single_precision_does_not_hold(heavy, lam):
    limits = LIMITS._replace(l2_regularization=lam, min_samples_leaf=1)
    found = 0
    for seed in range(6):
        node, units, cells, line, scratch = random_line(seed, 40, 3, scale=2.0**30, heavy=heavy, lam=lam)
        rest = (node, limits, units, cells, line, scratch)
        fits = heavy < 2.0**60 and lam < 1e18
        assert screened(0.0, *rest) == (scanned(0.0, *rest) if fits else (0.0, UNSCREENED))
        assert best(0.0, *rest[:-1], False, scratch) == scanned(0.0, *rest)
        found += scanned(0.0, *rest)[1] >= 0
    assert found > 0


def test_of_equal_splits_the_first_is_kept():
    """The sums of the line are the same from either end, so two splits are the best."""
    node, units, cells, line, scratch = random_line(0, 21, 2, with_base=False)
    half = cells[:10]
    cells = np.concatenate([half, cells[10:11] * 0, half[::-1]])
    scratch.line[:] = np.arange(21)
    total = (2 * half.sum(axis=0)).astype(np.int32)
    node = SearchNode(total, 22, gain_of_node(total, units))
    rest = (node, LIMITS, units, cells, line._replace(start=0), scratch)
    found = screened(1e-12, *rest)
    assert found == scanned(1e-12, *rest)
    assert found[1] in range(11)


def test_the_error_is_bounded():
    for seed in range(6):
        lam = [1e-6, 0.5][seed % 2]
        node, units, cells, line, scratch = random_line(seed, 200, 32, lam=lam)
        limits = LIMITS._replace(l2_regularization=lam, min_samples_leaf=1)
        screened(1e300, node, limits, units, cells, line, scratch)
        prefix = scratch.prefix.reshape(-1, STRIDE)
        for r in range(200):
            left = (prefix[:, r] + scratch.base).astype(np.int32)
            exact = gain_of_split(left, node.total, units, lam)
            assert abs(scratch.bound[r] - exact) <= ERROR / 2 * exact


def test_lines_that_are_not_screened():
    """Short and long ones, values alone, and small penalties: their prefixes are not even summed."""
    usual = LIMITS._replace(l2_regularization=1.0, min_samples_leaf=1)
    for n, alone, lam, is_screened in (
        (scan.SHORTEST_LINE - 1, False, 1.0, False),
        (scan.SHORTEST_LINE, False, 1.0, True),
        (LONGEST_LINE + 1, False, 1.0, False),
        (100, True, 1.0, False),
        (100, False, 0.0, False),
        (100, False, 1e-7, False),
        (100, False, 1e-6, True),
    ):
        node, units, cells, line, scratch = random_line(0, n, 2, lam=lam, alone=alone)
        scratch.prefix.fill(77)
        best(1e-12, node, usual._replace(l2_regularization=lam), units, cells, line, False, scratch)
        assert (scratch.prefix != 77).any() == is_screened


@pytest.mark.parametrize("lam", [0.0, 1.5])
@pytest.mark.parametrize("n", [1, 4, 7])
def test_gain_is_the_sum_over_outputs(lam, n):
    rng = np.random.default_rng(0)
    rows = np.zeros((50, n_lanes(n)), dtype=np.int32)
    rows[:, :n], rows[:, n : 2 * n] = rng.integers(-(2**20), 2**20, size=(50, n)), rng.integers(1, 2**20, size=(50, n))
    gradient, curvature = 2.0 ** -rng.integers(5, 20, size=(2, n))
    units = Units(gradient, curvature, gradient**2 / curvature, lam / curvature)
    left, node = rows[:20].sum(axis=0, dtype=np.int32), rows.sum(axis=0, dtype=np.int32)

    def gain(part):
        sums = part.sum(axis=0, dtype=np.int64)
        return ((sums[:n] * gradient) ** 2 / (sums[n : 2 * n] * curvature + lam)).sum()

    np.testing.assert_allclose(gain_of_node(node, units), gain(rows), rtol=1e-12)
    np.testing.assert_allclose(gain_of_split(left, node, units, lam), gain(rows[:20]) + gain(rows[20:]), rtol=1e-12)
    left[n : 2 * n] = 0
    assert (gain_of_split(left, node, units, lam) == -1) == (lam == 0)


def test_gain_to_beat():
    assert least_gain(LIMITS, 0.0) == 1e-12
    assert least_gain(LIMITS, 1e6) == pytest.approx(1e-7)
    assert least_gain(LIMITS._replace(min_gain=0.3), 1e6) == 0.3
