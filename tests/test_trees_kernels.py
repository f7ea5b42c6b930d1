"""Each kernel of the `trees` package against the naive way to say the same."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from kernels import from_python
from test_trees_cases import LIMITS, NUMERIC, leaf_value, random_case, same_tree

from seqboost.core.contexts import context_space
from seqboost.trees import Partition, fixedpoint, histogram, ordering, partition
from seqboost.trees.buffers import FITTED, SIZE, SLOT, START, G, H
from seqboost.trees.fixedpoint import ROW_BITS, Planes, Scales, choose_scales, totals
from seqboost.trees.histogram import ROWS_AT_ONCE, Addition, DenseColumns
from seqboost.trees.integers import HALF
from seqboost.trees.vectors import N_BLOCK

add_contexts, block_end, quantise, row_sums = (
    from_python(getattr(fixedpoint, name)) for name in ("add_contexts", "block_end", "quantise", "row_sums")
)
add_dense, add_sparse, clear, remove_counts, subtract = (
    from_python(getattr(histogram, name)) for name in ("add_dense", "add_sparse", "clear", "remove_counts", "subtract")
)
divide_dense, divide_marked, mark_sparse, share = (
    from_python(getattr(partition, name)) for name in ("divide_dense", "divide_marked", "mark_sparse", "share")
)
order_categories, sort = map(from_python, (ordering.order_categories, ordering.sort))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def packed(gradient, curvature):
    """Both in one number, as cells and sums over contexts hold them."""
    return (np.asarray(curvature, dtype=np.int64) << HALF) + np.asarray(gradient, dtype=np.int64)


def unpacked(numbers):
    gradient = np.asarray(numbers, dtype=np.int64).astype(np.int32).astype(np.int64)  # the lower half, with its sign
    return gradient, (numbers - gradient) >> HALF


def exact(gradient, curvature, rows, addition, cells_of, n_cells):
    """A histogram in Python's integers."""
    count_bits, sign, count = addition
    histogram = [0] * (2 * n_cells)
    for p, row in enumerate(rows):
        for cell in cells_of(row):
            histogram[2 * cell] += sign * int(gradient[p])
            histogram[2 * cell + 1] += sign * (int(curvature[p]) << count_bits) + count
    return histogram


def added(count_bits):
    return Addition(count_bits, 1, 1)


def block():
    return np.empty((ROWS_AT_ONCE, N_BLOCK), dtype=np.int64)


def dense_cells(case, row):
    dense = case.dense
    codes = dense.codes[dense.address[row] + dense.displacement]
    return (dense.cell_start[:-1] + codes).tolist()


def sparse_cells(case, row, n_dense_cells):
    sparse = case.sparse
    cells = []
    for o, offset in enumerate(sparse.offset):
        padded = sparse.padded_row[row] + offset
        slots = sparse.indices[sparse.indptr[padded] : sparse.indptr[padded + 1]]
        cells += [n_dense_cells + o * int(sparse.slot_start[-1]) + int(slot) for slot in slots]
    return cells


def segment(rng, case):
    rows = rng.permutation(len(case.space.row_type)).astype(np.int32)
    gradient = rng.integers(-(2**30), 2**30, size=len(rows)).astype(np.int32)
    curvature = rng.integers(0, 2**30, size=len(rows)).astype(np.int32)
    return rows, gradient, curvature


def n_cells_of(case):
    n_dense = int(case.dense.cell_start[-1])
    return n_dense, n_dense + int(case.sparse.slot_start[-1]) * len(case.sparse.offset)


# --- fixed point


@pytest.mark.parametrize("order", [0, 2])
def test_totals(order):
    case = random_case(0, order=order, n_labels=3, n_riders=11)
    fitted = case.rows[: case.n_fitted]
    gradient, hessian, total = totals(case.gradient, case.hessian, case.rows, case.n_fitted)
    np.testing.assert_allclose(gradient, np.abs(case.gradient[fitted]).sum(axis=1).max(), rtol=1e-6)
    np.testing.assert_allclose(hessian, case.hessian[fitted].sum(axis=1).max(), rtol=1e-6)
    np.testing.assert_allclose(total, case.hessian[fitted].sum(dtype=np.float64), rtol=1e-6)
    assert totals(case.gradient, case.hessian, case.rows, 0) == (0, 0, 0)


@pytest.mark.parametrize("n_rows", [0, 1, 100, 10**6, 10**9])
@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-20, 1e-3, 1.0, 2.0, 1e6, 1e30])
def test_scales_leave_room_for_all_sums(n_rows, size):
    scales = choose_scales(size, size, size * n_rows, n_rows)
    assert math.frexp(scales.gradient)[0] == math.frexp(scales.curvature)[0] == 0.5
    assert size * scales.gradient <= 2**ROW_BITS
    assert size * scales.curvature <= 2**ROW_BITS
    assert n_rows < 2**scales.count_bits
    assert (size * n_rows * scales.curvature + n_rows) * 2**scales.count_bits < 2**62
    assert math.isfinite(float(np.float32(scales.gradient) * np.float32(1)))
    if size >= 1e-20 and n_rows in (100, 10**6):  # and use it
        assert size * scales.gradient >= 2 ** (ROW_BITS - 1)
        assert size * scales.curvature >= min(2 ** (ROW_BITS - 1), 2 ** (60 - 2 * scales.count_bits))


@pytest.mark.parametrize("n_contexts", [1, 4])
def test_quantise_rounds_to_the_nearest(rng, n_contexts):
    gradient = rng.normal(size=(50, n_contexts)).astype(np.float32)
    hessian = np.abs(rng.normal(size=(50, n_contexts))).astype(np.float32)
    gradient.flat[:4], hessian.flat[:4] = [0.0, 0.5, -0.5, 0.25], [0.0, 0.5, 1.5, 0.25]
    for a, b in ((1.0, 2.0**10), (2.0**10, 1.0), (2.0**20, 2.0**20), (2.0**-3, 2.0**-3)):
        cells = np.full((50, n_contexts), 99, dtype=np.int64)
        planes = Planes(n_contexts, gradient.reshape(-1), hessian.reshape(-1), cells.reshape(-1))
        quantise(planes, Scales(a, b, 7), 3, 0)
        assert (cells == 99).all()
        quantise(planes, Scales(a, b, 7), 0, 40)
        assert (cells[40:] == 99).all()
        for plane, scale, out in zip((gradient, hessian), (a, b), unpacked(cells[:40]), strict=True):
            exact_product = plane[:40].astype(np.float64) * scale
            assert np.abs(out - exact_product).max() <= 0.5 + 2**-24 * np.abs(exact_product).max()
            if scale < 2**12:
                assert np.array_equal(out, np.floor(exact_product + 0.5))


@pytest.mark.parametrize("n_contexts", [1, 100, 300, 5000])
def test_blocks_lie_side_by_side(n_contexts):
    rows = np.concatenate([[4, 5, 6, 8, 9, 3, 4], np.arange(30, 50)]).astype(np.int32)
    most = max(8, 1024 // n_contexts)
    for last in range(1, len(rows) + 1):
        for first in range(last):
            n = block_end(rows, first, last, n_contexts) - first
            part = rows[first:last]
            assert 1 <= n <= most
            assert part[:n].tolist() == list(range(part[0], part[0] + n))
            assert n in (len(part), most) or part[n] != part[0] + n


@pytest.mark.parametrize("riding", [0.0, 0.1, 0.9])
def test_only_fitted_rows_are_quantised(rng, riding):
    """The root's sums, block by block, are those of its fitted rows; a tree on few rows does not pay for the others."""
    case = random_case(0, lengths=(300, 1, 50, 2), n_riders=int(riding * 353))
    grower = case.grower(LIMITS._replace(max_leaf_nodes=1))
    grower._cells.fill(77)
    case.grow(grower=grower)
    fitted = case.rows[: case.n_fitted]
    assert (grower._cells[case.rows[case.n_fitted :]] == 77).all()
    assert grower._segments[1][: case.n_fitted].tolist() == grower._cells[fitted].sum(axis=1).tolist()
    scales = choose_scales(*totals(case.gradient, case.hessian, case.rows, case.n_fitted), case.n_fitted)
    for plane, scale, out in zip(
        (case.gradient, case.hessian), scales[:2], unpacked(grower._cells[fitted]), strict=True
    ):
        assert np.allclose(out, plane[fitted].astype(np.float64) * scale, rtol=2**-23, atol=0.5)


@pytest.mark.parametrize(("order", "n_labels"), [(0, 3), (1, 1), (1, 3), (2, 2), (1, 6), (1, 11)])
def test_sums_over_contexts_and_over_rows(rng, order, n_labels):
    case = random_case(0, order=order, n_labels=n_labels)
    space, n_rows = case.space, len(case.space.row_type)
    exists = case.hessian > 0
    planes = [exists * rng.integers(low, 2**30 // n_labels**order, size=exists.shape) for low in (-(2**20), 0)]
    cells = packed(*planes)
    rows = rng.permutation(n_rows).astype(np.int32)
    for first, last in ((3, n_rows - 2), (0, n_rows), (5, 6), (7, 7)):
        sums = np.full(n_rows, 77, dtype=np.int64)
        row_sums(cells, rows, first, last, sums)
        by_context = np.full((2, len(space.type_of)), 5, dtype=np.int64)
        types = np.full(order + 1, 5, dtype=np.int64)
        add_contexts(cells, space, rows, first, last, by_context, types)
        assert np.array_equal(types - 5, np.bincount(space.row_type[rows[first:last]], minlength=order + 1))
        expected = np.full((2, len(space.type_of)), 5, dtype=np.int64)
        for p, row in enumerate(rows):
            if not first <= p < last:
                assert sums[p] == 77
                continue
            j = space.row_type[row]
            contexts = range(n_labels ** int(j))
            assert unpacked(sums[p : p + 1]) == tuple(sum(int(plane[row, c]) for c in contexts) for plane in planes)
            for c in contexts:
                expected[:, space.base[j] + c] += [plane[row, c] for plane in planes]
        assert np.array_equal(by_context, expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_cells_fit_their_sums(sign):
    """A row may have all it may have in one context, and so may its neighbours."""
    case = random_case(0, order=1, n_labels=3)
    space, n_rows = case.space, len(case.space.row_type)
    largest = 2**ROW_BITS
    gradient = np.zeros(case.hessian.shape, dtype=np.int64)
    gradient[:, 0] = sign * (largest - 1)
    rows, by_context = np.arange(n_rows, dtype=np.int32), np.zeros((2, len(space.type_of)), dtype=np.int64)
    types = np.zeros(2, dtype=np.int64)
    add_contexts(packed(gradient, abs(gradient)), space, rows, 0, n_rows, by_context, types)
    n_of = np.bincount(space.row_type, minlength=2)
    expected = np.zeros((2, len(space.type_of)), dtype=np.int64)
    expected[:, space.base] = np.outer([sign, 1], n_of * (largest - 1))
    assert np.array_equal(by_context, expected)


# --- histograms


@pytest.mark.parametrize("seed", range(3))
def test_histograms_are_exact_sums(rng, seed):
    case = random_case(seed)
    n_dense_cells, n_cells = n_cells_of(case)
    rows, gradient, curvature = segment(rng, case)
    bits = 20
    first, last = 4, len(rows) - 3
    histogram = np.full(2 * n_cells, -5, dtype=np.int64)
    clear(histogram)
    add_dense(case.dense, rows, packed(gradient, curvature), first, last, added(bits), block(), histogram)
    add_sparse(case.sparse, n_dense_cells, rows, packed(gradient, curvature), first, last, added(bits), histogram)
    part = slice(first, last)

    def cells_of(row):
        return dense_cells(case, row) + sparse_cells(case, row, n_dense_cells)

    assert histogram.tolist() == exact(gradient[part], curvature[part], rows[part], added(bits), cells_of, n_cells)


@pytest.mark.parametrize("sizes", [(1,), (5,), (6,), (7,), (11,), (12,), (19, 3, 6)], ids=str)
@pytest.mark.parametrize("n_rows", [1, 3, ROWS_AT_ONCE, 2 * ROWS_AT_ONCE + 5])
@pytest.mark.parametrize("addition", [Addition(9, 1, 1), Addition(9, -1, -1), Addition(9, -1, 0)], ids=str)
def test_runs_of_any_number_of_features(rng, sizes, n_rows, addition):
    """Features are added several at a time, rows in blocks: nothing is left over, nothing added twice."""
    n_features, n_values = sum(sizes), 4
    run_start = np.concatenate([[0], np.cumsum(sizes)])
    # A few codes lie between two runs, and after the last; the first ones lie before their row.
    displacement = np.concatenate([np.arange(a, b) + 3 * r for r, (a, b) in enumerate(pairwise(run_start))])
    width = n_features + 3 * len(sizes)
    dense = DenseColumns(
        codes=rng.integers(n_values + 2, size=n_rows * width).astype(np.uint8),
        address=np.arange(n_rows) * width + 7,
        feature=np.arange(n_features, dtype=np.int32),
        displacement=displacement - 7,
        n_values=np.full(n_features, n_values, dtype=np.int32),
        kind=np.zeros(n_features, dtype=np.uint8),
        cell_start=np.arange(n_features + 1) * (n_values + 2),
        run_start=run_start,
    )
    case = SimpleNamespace(dense=dense, space=SimpleNamespace(row_type=np.zeros(n_rows)))
    rows, gradient, curvature = segment(rng, case)
    n_cells = int(dense.cell_start[-1])
    histogram = np.zeros(2 * n_cells, dtype=np.int64)
    add_dense(dense, rows, packed(gradient, curvature), 0, n_rows, addition, block(), histogram)
    expected = exact(gradient, curvature, rows, addition, lambda row: dense_cells(case, row), n_cells)
    assert histogram.tolist() == expected


def test_parent_minus_child_is_the_sibling(rng):
    case = random_case(0)
    _, n_cells = n_cells_of(case)
    rows, gradient, curvature = segment(rng, case)
    n, cut = len(rows), 13
    histograms = []
    for first, last in ((0, n), (0, cut), (cut, n)):
        histograms.append(np.zeros(2 * n_cells, dtype=np.int64))
        add_dense(case.dense, rows, packed(gradient, curvature), first, last, added(7), block(), histograms[-1])
    subtract(histograms[0], histograms[1], -1)
    assert np.array_equal(histograms[0], histograms[2])


def test_histogram_does_not_depend_on_the_order_of_rows(rng):
    case = random_case(0)
    _, n_cells = n_cells_of(case)
    parts = segment(rng, case)
    shuffle = rng.permutation(len(parts[0]))
    histograms = []
    for rows, gradient, curvature in (parts, tuple(part[shuffle] for part in parts)):
        histograms.append(np.zeros(2 * n_cells, dtype=np.int64))
        add_dense(case.dense, rows, packed(gradient, curvature), 0, len(rows), added(7), block(), histograms[-1])
    assert np.array_equal(*histograms)


def test_sharing_out_contexts_keeps_counts(rng):
    case = random_case(0)
    n_dense_cells, n_cells = n_cells_of(case)
    rows, gradient, curvature = segment(rng, case)
    left = [part // 3 for part in (gradient, curvature)]
    right = [gradient - left[0], curvature - left[1]]
    n, bits = len(rows), 7

    def histogram_of(g, h, first=0):
        histogram = np.zeros(2 * n_cells, dtype=np.int64)
        add_dense(case.dense, rows, packed(g, h), first, n, added(bits), block(), histogram)
        add_sparse(case.sparse, n_dense_cells, rows, packed(g, h), first, n, added(bits), histogram)
        return histogram

    # The first three rows have no context on the left: all they have goes right.
    for part, rest, total in zip(left, right, (gradient, curvature), strict=True):
        part[:3], rest[:3] = 0, total[:3]
    parent = histogram_of(gradient, curvature)
    subtract(parent, histogram_of(*right), -(2**bits))
    for row in rows[:3]:
        remove_counts(case.dense, case.sparse, row, parent)
    assert np.array_equal(parent, histogram_of(*left, first=3))


@pytest.mark.parametrize(("order", "n_labels"), [(0, 1), (1, 2), (2, 2), (1, 5)])
def test_histograms_of_finished_leaves(order, n_labels):
    """After any mixture of window and lag splits, a leaf's buffers hold what its rows and contexts add up to."""
    n_lag_splits = 0
    for seed in range(4):
        case = random_case(seed, order=order, n_labels=n_labels, n_riders=6)
        limits = LIMITS._replace(max_leaf_nodes=64, max_depth=4)  # growth stops before the last, unmeasured split
        grower = case.grower(limits)
        tree, partition = case.grow(grower=grower)
        assert tree.n_leaves < 64
        n_lag_splits += (tree.kind == 2).sum()
        scales = choose_scales(*totals(case.gradient, case.hessian, case.rows, case.n_fitted), case.n_fitted)
        check_leaves(case, grower, tree, partition, scales)
    assert (n_lag_splits > 0) == (order > 0)


def test_sums_of_nodes_hold_positions_of_unknown_codes(rng):
    """A feature's cells hold every position: those without a value, outside their sequence, of a category unknown."""
    n_values = 4
    case = random_case(0, columns=((NUMERIC, n_values),) * 2, window=(0,), slots=(), sparse_window=())
    codes = case.dense.codes.copy()
    codes[rng.random(codes.size) < 0.3] = n_values + 2
    cell_start = np.arange(3) * (n_values + 3)
    grower = replace(case, dense=case.dense._replace(codes=codes, cell_start=cell_start)).grower()
    tree, _ = case.grow(grower=grower)
    assert tree.n_leaves > 2
    planes = unpacked(grower._cells[case.rows[: case.n_fitted]])
    assert grower._leaves.state[: tree.n_leaves, [G, H]].sum(axis=0).tolist() == [int(plane.sum()) for plane in planes]


def check_leaves(case, grower, tree, partition, scales):
    leaves, space = grower._leaves, case.space
    planes = unpacked(grower._cells)
    n_dense_cells, n_cells = n_cells_of(case)
    for leaf in range(tree.n_leaves):
        state = leaves.state[leaf]
        rows = partition.rows[state[START] : state[START] + state[FITTED]]
        assert set(rows.tolist()) <= set(case.rows[: case.n_fitted].tolist())
        assert state[FITTED] == tree.leaf_rows[leaf] <= state[SIZE]
        sums = [], []
        for row in rows:
            j = space.row_type[row]
            held = [c for c in range(space.n_contexts_of[j]) if partition.mask[leaf, space.base[j] + c]]
            assert held
            for plane, row_sum in zip(planes, sums, strict=True):
                row_sum.append(int(plane[row, held].astype(np.int64).sum()))
        assert (state[G], state[H]) == (sum(sums[0]), sum(sums[1]))
        types = np.bincount(space.row_type[rows], minlength=case.order + 1)
        assert case.order == 0 or leaves.type_rows[leaf].tolist() == types.tolist()

        def cells_of(row):
            return dense_cells(case, row) + sparse_cells(case, row, n_dense_cells)

        if len(rows) >= 2 * LIMITS.min_samples_leaf:  # otherwise only its contexts could be divided
            expected = exact(*sums, rows, added(scales.count_bits), cells_of, n_cells)
            assert leaves.histogram[state[SLOT]].tolist() == expected
        for plane, by_context in zip(planes, leaves.contexts[state[SLOT]], strict=True):
            for e in np.flatnonzero(partition.mask[leaf]) if case.order else ():
                j = space.type_of[e]
                of_type = rows[space.row_type[rows] == j]
                assert by_context[e] == plane[of_type, e - space.base[j]].astype(np.int64).sum()


# --- partition


def test_divide_is_stable(rng):
    for n in (0, 1, 5, 200):
        for part_left in (0.0, 0.3, 1.0):
            for n_fitted in {0, n // 3, n}:
                goes_left = rng.random(n) < part_left
                rows, sums = rng.integers(1000, size=n + 7).astype(np.int32), rng.integers(-(2**60), 2**60, size=n + 7)
                old_rows, old_sums = rows.copy(), sums.copy()
                spare = np.full(n, 99, dtype=np.int32), np.full(n, 99, dtype=np.int64)
                n_left, n_left_fitted = divide_marked(goes_left, (rows, sums), 3, n_fitted, 3 + n, spare)
                assert (n_left, n_left_fitted) == (goes_left.sum(), goes_left[:n_fitted].sum())
                part, left, right = old_rows[3 : 3 + n], goes_left, ~goes_left
                assert rows.tolist() == [*old_rows[:3], *part[left], *part[right], *old_rows[3 + n :]]
                part, left, right = old_sums[3 : 3 + n_fitted], goes_left[:n_fitted], ~goes_left[:n_fitted]
                assert sums[3:][:n_left_fitted].tolist() == part[left].tolist()  # riders have none
                assert sums[3 + n_left :][: n_fitted - n_left_fitted].tolist() == part[right].tolist()
                assert [*sums[:3], *sums[3 + n :]] == [*old_sums[:3], *old_sums[3 + n :]]


@pytest.mark.parametrize("first_side", [0, 1])
@pytest.mark.parametrize("in_place", [0, 1])
@pytest.mark.parametrize(("order", "n_labels"), [(1, 3), (2, 2), (1, 1)])
def test_share_gives_each_child_its_rows_and_its_part_of_their_sums(rng, order, n_labels, in_place, first_side):
    case = random_case(2, order=order, n_labels=n_labels)
    space, n_rows = case.space, len(case.space.row_type)
    exists = case.hessian > 0
    planes = [exists * rng.integers(low, 2**20, size=exists.shape) for low in (-(2**20), 0)]
    cells, base = packed(*planes), space.base[order]
    all_rows = rng.permutation(n_rows).astype(np.int32)
    for _ in range(20):
        held, side = rng.random(len(space.type_of)) < 0.8, rng.integers(2, size=len(space.type_of))
        masks = [(-1 * (held & (side == s))).astype(np.int32) for s in (0, 1)]
        has = np.array([[mask[space.type_of == j].any() for j in range(order + 1)] for mask in masks])
        contexts = np.flatnonzero(masks[0][base:])

        def sum_of(row, mask):
            j = space.row_type[row]
            return sum(int(cells[row, c]) for c in range(space.n_contexts_of[j]) if mask[space.base[j] + c])

        # A node holds only rows that have one of its contexts.
        node = [row for row in all_rows.tolist() if has[:, space.row_type[row]].any()]
        first, n_fitted, n = 4, 2 * len(node) // 3, len(node)
        rows, sums = np.full(2 * n + 9, -1, dtype=np.int32), np.full(2 * n + 9, 77, dtype=np.int64)
        rows[first : first + n] = node
        sums[first : first + n_fitted] = [sum_of(row, masks[0] | masks[1]) for row in node[:n_fitted]]
        there = n + 6
        to = (first, there) if in_place == 0 else (there, first)
        sides = np.ascontiguousarray(has[::-1]) if first_side else has
        found = share(cells, space, masks[0], contexts, sides, first_side, (rows, sums), first, n_fitted, first + n, to)
        for child, mask in enumerate(masks):
            expected = [row for row in node if has[child, space.row_type[row]]]
            fitted = [row for row in node[:n_fitted] if has[child, space.row_type[row]]]
            assert (found[child], found[2 + child]) == (len(expected), len(fitted))
            assert rows[to[child] :][: len(expected)].tolist() == expected
            assert sums[to[child] :][: len(fitted)].tolist() == [sum_of(row, mask) for row in fitted]
        assert (rows[:first] == -1).all()
        assert (rows[there + n :] == -1).all()


def test_rows_go_where_their_values_say(rng):
    case = random_case(1)
    n = len(case.space.row_type)
    rows = rng.permutation(n).astype(np.int32)
    by_row = {e.row: e for e in case.examples}
    left = rng.random(258) < 0.5
    for f in range(len(case.dense.feature)):
        goes_left = np.array([left[by_row[row].dense[f]] for row in rows[2:-1]])
        for n_fitted in (0, n // 2, n - 3):
            found, expected = [
                (rows.copy(), np.arange(n), (np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64))) for _ in "ab"
            ]
            counts = divide_dense(case.dense, f, left, found[:2], 2, n_fitted, n - 1, found[2])
            assert counts == divide_marked(goes_left, expected[:2], 2, n_fitted, n - 1, expected[2])
            assert all(np.array_equal(a, b) for a, b in zip(found[:2], expected[:2], strict=True))
    for f in range(case.sparse.enabled.size):
        goes_left = np.zeros(n, dtype=bool)
        mark_sparse(case.sparse, f, left, rows, 2, n - 1, goes_left)
        slots = [by_row[row].sparse[f] for row in rows[2:-1]]
        assert goes_left[: n - 3].tolist() == [slot >= 0 and left[slot] for slot in slots]


def test_segments_grow_when_they_must():
    """Lag splits copy rows to the end of the segments: a tree that has to stop for room goes on as if it had not."""
    case = random_case(0, order=2, n_labels=3, columns=(), window=(), slots=(), sparse_window=())  # lags only
    limits = LIMITS._replace(max_leaf_nodes=10, min_samples_leaf=1)
    n_rows, roomy = len(case.rows), case.grower(limits)
    roomy._segments = tuple(np.empty(50 * n_rows, dtype=dtype) for dtype in (np.int32, np.int64))
    expected, expected_partition = case.grow(grower=roomy)
    tight = case.grower(limits)
    tree, partition = case.grow(grower=tight)
    assert len(roomy._segments[0]) == 50 * n_rows
    assert len(tight._segments[0]) >= 4 * n_rows  # doubled twice at least
    assert same_tree(tree, expected)
    for name in ("rows", "start", "size", "mask"):
        assert np.array_equal(getattr(partition, name), getattr(expected_partition, name))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("n_contexts", [2, 3, 9, 12, 17])
def test_partition_adds_whatever_leaves_a_row_is_in(n_contexts, in_place):
    """Each context divides the rows by another bit: from 9 on there are too many patterns to be numbered at once."""
    n_rows, rng = 2000, np.random.default_rng(n_contexts)
    space = context_space(n_contexts, 1, np.array([0, 100, 103, n_rows - 1]))  # the last row is none of the tree's
    space = space._replace(row_type=np.append(space.row_type, np.uint8(1)))
    bits = rng.integers(2, size=(n_rows - 1, n_contexts))
    rows, mask = [], np.zeros((2 * n_contexts, 1 + n_contexts), dtype=np.int32)
    for leaf in range(2 * n_contexts):
        context, bit = divmod(leaf, 2)
        mask[leaf, 1 + context] = -1
        mask[leaf, 0] = -1 if context == 0 else 0  # the one context that a first position has
        rows.append([i for i in np.flatnonzero(bits[:, context] == bit) if space.row_type[i] == 1 or context == 0])
    size = np.array([len(part) for part in rows])
    positions = rng.permutation(n_rows - 1).astype(np.int32)
    partition = Partition(space, positions, np.concatenate(rows).astype(np.int32), np.cumsum(size) - size, size, mask)
    value = rng.normal(size=2 * n_contexts).astype(np.float32)
    old = rng.normal(size=(n_rows, n_contexts)).astype(np.float32)
    new = old.copy() if in_place else np.full_like(old, 7)
    expected = new.copy()
    partition.add(value, new if in_place else old, new)
    for i in range(n_rows - 1):
        for c in range(n_contexts if space.row_type[i] == 1 else 1):
            expected[i, c] = old[i, c] + value[2 * c + bits[i, c]]
    assert np.array_equal(new, expected)


def test_scores_of_another_type_are_refused():
    """Compiled code would take them for what it expects."""
    case = random_case(0)
    tree, partition = case.grow()
    if not numba.config.DISABLE_JIT:
        scores = np.zeros(case.gradient.shape)
        with pytest.raises(numba.TypingError, match="expected a contiguous array of float32"):
            partition.add(tree.value, scores, scores)


# --- splitting


@pytest.mark.parametrize("n", [0, 1, 2, 31, 40, 33, 500])
def test_sort_by_key_then_value(rng, n):
    for keys in (rng.normal(size=n), rng.integers(3, size=n).astype(float)):
        order = rng.permutation(n).astype(np.int64)
        expected = [v for _, v in sorted(zip(keys.tolist(), order.tolist(), strict=True))]
        sort(keys, order, n)
        assert order.tolist() == expected
        assert (np.diff(keys) >= 0).all()


def test_categories_in_order_of_their_means(rng):
    scales = choose_scales(1.0, 1.0, 100.0, 100)
    n = 60
    count = rng.integers(0, 9, size=n)
    g, h = rng.normal(size=n) * (count > 0), rng.random(n) * (count > 0)
    histogram = np.zeros(2 * (n + 2), dtype=np.int64)
    histogram[4::2] = np.round(g * scales.gradient)
    histogram[5::2] = (np.round(h * scales.curvature).astype(np.int64) << scales.count_bits) + count
    keys, order = np.empty(n), np.empty(n, dtype=np.int64)
    ranks = ordering.Ranks(keys, order, np.empty((2, 1)), np.empty((1, 1), dtype=np.int64), np.empty(1, dtype=np.int64))
    for min_rows in (1, 5):
        n_found = order_categories(histogram, 2, n, min_rows, scales, 0.5, ranks)
        held = [v for v in range(n) if count[v] >= min_rows]
        assert order[:n_found].tolist() == sorted(held, key=lambda v: g[v] / (h[v] + 0.5))


# --- another library


@pytest.mark.parametrize(("missing", "lam"), [(0.0, 0.0), (0.2, 3.0)])
def test_same_predictions_as_histogram_boosting_of_scikit_learn(rng, missing, lam):
    ensemble = pytest.importorskip("sklearn.ensemble")
    case = random_case(
        3, order=0, n_labels=1, lengths=(1,) * 400, columns=((NUMERIC, 12), (NUMERIC, 30), (NUMERIC, 3)), window=(0,),
        slots=(), sparse_window=(), missing=missing,
    )  # fmt: skip
    codes = case.dense.codes.reshape(400, 3)
    X = np.where(codes == [12, 30, 3], np.nan, codes).astype(float)
    y = np.sin(np.nan_to_num(X[:, 0], nan=5)) + 0.1 * np.nan_to_num(X[:, 1], nan=3) * (X[:, 2] > 0)
    y += rng.normal(size=400)
    forest = ensemble.HistGradientBoostingRegressor(
        max_iter=1, learning_rate=1.0, l2_regularization=lam, max_leaf_nodes=15, min_samples_leaf=10,
        early_stopping=False,
    ).fit(X, y)  # fmt: skip
    limits = LIMITS._replace(max_leaf_nodes=15, min_samples_leaf=10, l2_regularization=lam, max_depth=100)
    ours = case.with_derivatives((y - y.mean())[:, None], np.ones((400, 1)))
    tree, partition = ours.grower(limits).grow(ours.gradient, ours.hessian, ours.rows, 400, leaf_value(lam))
    scores = np.zeros((400, 1), dtype=np.float32)
    partition.add(tree.value, scores, scores)
    assert tree.n_leaves == 15
    np.testing.assert_allclose(scores[:, 0] + y.mean(), forest.predict(X), atol=1e-5)
