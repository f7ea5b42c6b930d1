"""The order of categories, and the sort that makes it."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.core.jit import allocating
from seqboost.trees.nodes import new_scratch
from seqboost.trees.order import _sort, order_categories
from seqboost.trees.quantise import Rounded, choose_units, n_lanes, round_derivatives
from seqboost.trees.reference import Part, leading_order
from tests.support.trees import CATEGORICAL, random_case


@allocating
def sort(keys, line, n):
    _sort(keys, line, n, np.empty_like(line))


@allocating
def order(cells, start, n_cells, min_count, node, units, lam, scratch):
    return order_categories(cells, (start, n_cells), min_count, node, units, lam, scratch)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 40, 33, 64, 65, 500])
def test_sort_by_key_then_value(n):
    rng = np.random.default_rng(0)
    for keys in (rng.normal(size=n), rng.integers(3, size=n).astype(float)):
        line = np.sort(rng.permutation(2 * n)[:n]).astype(np.int64)
        expected = [v for _, v in sorted(zip(keys.tolist(), line.tolist(), strict=True))]
        sort(keys, line, n)
        assert line.tolist() == expected


@pytest.mark.parametrize("n_outputs", [1, 2, 5, 33])
@pytest.mark.parametrize("lam", [0.0, 0.5])
@pytest.mark.parametrize("n_values", [1, 2, 12, 60])
def test_categories_are_ordered_as_the_twin_does(n_values, lam, n_outputs):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        gradient, hessian = rng.normal(size=(n_values, n_outputs)), 0.1 + rng.random((n_values, n_outputs))
        counts = rng.integers(0, 9, n_values).astype(np.int32)
        rows = np.arange(n_values, dtype=np.int32)
        planes = [np.ascontiguousarray(part.T[:, :, None], dtype=np.float32) for part in (gradient, hessian)]
        units, labels = choose_units(*planes, rows, n_values, lam, n_deciding=n_outputs, seed=0, n_threads=1)
        width, start = n_lanes(n_outputs), 2
        cells = np.full((start + n_values, width), 12345, dtype=np.int32)
        none = np.zeros((0, 1, 2 * n_outputs), np.int32)
        rounded = Rounded(none, cells[start:], np.zeros((0, width), np.int32))
        round_derivatives(*planes, rows, n_values, units, labels, rounded)
        problem = random_case(0, columns=((CATEGORICAL, 70),), slots=(), sparse_window=()).problem()
        scratch = new_scratch(problem, n_outputs)
        for array in scratch:
            array.fill(7)
        whole = cells[start:].sum(axis=0, dtype=np.int32)
        for least in (1, 5):
            scratch.counts[:n_values] = counts
            n = order(cells, start, n_values, least, whole, units, lam, scratch)
            held = [v for v in range(n_values) if counts[v] >= least]
            parts = {v: Part(gradient[v], hessian[v]) for v in held}
            expected = leading_order(parts, Part(gradient.sum(axis=0), hessian.sum(axis=0)), lam)
            if n_outputs == 1:
                assert expected == sorted(held, key=lambda v: gradient[v, 0] / (hessian[v, 0] + lam))
            assert scratch.line[:n].tolist() == expected
