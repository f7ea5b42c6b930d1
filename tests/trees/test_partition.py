"""Where positions go, and how a node's segment is divided."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.core.jit import jit
from seqboost.trees import DENSE, SPARSE
from seqboost.trees.nodes import new_weighted
from seqboost.trees.partition import (
    BOTH,
    LEFT,
    RIGHT,
    divide_in_place,
    divide_to_end,
    mark_contexts,
    mark_rows,
    value_of,
)
from tests.support.trees import policies_of, random_case


@jit
def mark(columns, kind, feature, left, missing, rows, first, last, marks):
    return mark_rows(columns, (kind, feature), left, missing, rows, first, last, marks)


@jit
def mark_by_contexts(space, has, rows, first, last, marks):
    mark_contexts(space, has, rows, first, last, marks)


@jit
def divide_marked(marks, rows, spare, first, fitted, last):
    return divide_in_place(None, 0, marks, rows, spare, (first, fitted, last))


@jit
def divide_dense(dense, feature, left, rows, spare, first, fitted, last):
    return divide_in_place(dense, feature, left, rows, spare, (first, fitted, last))


@jit
def to_end(marks, rows, weighted, share, first, fitted, last, leaving, end):
    return divide_to_end(marks, rows, weighted, share, (first, fitted, last), leaving, end)


@jit
def value(columns, kind, feature, row):
    return value_of(columns, kind, feature, row)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_divide_in_place_is_stable_and_complete(rng):
    for n in (0, 1, 5, 200):
        for part_left in (0.0, 0.3, 1.0):
            for n_fitted in {0, n // 3, n}:
                goes_left = rng.random(n) < part_left
                rows = rng.integers(1000, size=n + 7).astype(np.int32)
                old, spare = rows.copy(), np.full(n + 1, 99, dtype=np.int32)
                found = divide_marked(goes_left.astype(np.uint8), rows, spare, 3, 3 + n_fitted, 3 + n)
                assert found == (goes_left.sum(), goes_left[:n_fitted].sum())
                part = old[3 : 3 + n]
                assert rows.tolist() == [*old[:3], *part[goes_left], *part[~goes_left], *old[3 + n :]]


def test_rows_go_where_their_values_say(rng):
    case = random_case(1)
    n = case.columns.n_rows
    rows, left = rng.permutation(n).astype(np.int32), rng.random(258) < 0.5
    by_row = {e.row: e for e in case.examples}
    features = [(DENSE, f) for f in range(case.columns.dense.displacement.size)]
    features += [(SPARSE, f) for f in range(case.columns.sparse.enabled.size)]
    seen = set()
    for kind, f in features:
        values = [(by_row[row].dense if kind == DENSE else by_row[row].sparse)[f] for row in rows[2:-1]]
        assert [value(case.columns, kind, f, row) for row in rows[2:-1]] == values
        for missing in (-1, 2):
            marks = np.full(n, 77, dtype=np.uint8)
            n_left, n_missing = mark(case.columns, kind, f, left, missing, rows, 2, n - 1, marks)
            expected = [BOTH if v == missing >= 0 else LEFT if v >= 0 and left[v] else RIGHT for v in values]
            assert marks[: n - 3].tolist() == expected
            assert (n_left, n_missing) == (expected.count(LEFT), expected.count(BOTH))
            seen |= set(expected)
        if kind == DENSE:  # and at once
            for fitted in (2, n // 2, n - 1):
                found, again = rows.copy(), rows.copy()
                spare = np.empty(n, dtype=np.int32)
                goes_left = np.array([left[v] for v in values], dtype=np.uint8)
                counts = divide_dense(case.columns.dense, f, left, found, spare, 2, fitted, n - 1)
                assert counts == divide_marked(goes_left, again, spare, 2, fitted, n - 1)
                assert np.array_equal(found, again)
    assert seen == {LEFT, RIGHT, BOTH}


@pytest.mark.parametrize("order", [1, 2])
def test_rows_go_where_their_contexts_are(rng, order):
    space = random_case(1, order=order).space
    n = len(space.row_type)
    rows = rng.permutation(n).astype(np.int32)
    for _ in range(10):
        has = rng.random((2, order + 1)) < 0.6
        has[0, ~has.any(axis=0)] = True  # a node holds only rows that have one of its contexts
        marks = np.full(n, 77, dtype=np.uint8)
        mark_by_contexts(space, has, rows, 3, n - 1, marks)
        for row, found in zip(rows[3 : n - 1], marks, strict=False):
            on_left, on_right = has[:, space.row_type[row]]
            assert found == (BOTH if on_left and on_right else LEFT if on_left else RIGHT)
        assert (marks[n - 4 :] == 77).all()


@pytest.mark.parametrize("leaving", [LEFT, RIGHT])
@pytest.mark.parametrize("share", [None, -1.0, 0.3])
def test_divide_to_end_gives_each_child_its_rows_and_weights(rng, share, leaving):
    case = random_case(0)
    for n, n_fitted in ((0, 0), (1, 1), (1, 0), (30, 30), (30, 11), (30, 0)):
        weighted = None
        first, end = 4, n + 9
        marks = rng.integers(3, size=n).astype(np.uint8)
        rows = np.full(end + n + 3, -1, dtype=np.int32)
        rows[first : first + n] = rng.permutation(1000)[:n]
        weight, units = rng.random(n).astype(np.float32), rng.integers(1, 4097, size=n).astype(np.int32)
        if share is not None:
            weighted = new_weighted(case.problem(), policies_of(case.columns, 1), 4)
            weighted = weighted._replace(weight=np.zeros(rows.size, np.float32), units=np.zeros(rows.size, np.int32))
            weighted.weight[first : first + n], weighted.units[first : first + n] = weight, units
        old = rows[first : first + n].copy()
        s = np.float32(-1.0 if share is None else share)
        found = to_end(marks, rows, weighted, float(s), first, first + n_fitted, first + n, leaving, end)
        sizes = {}
        for side in (LEFT, RIGHT):
            goes = (marks == side) | (marks == BOTH)
            start = end if side == leaving else first
            sizes[side] = int(goes.sum()), int(goes[:n_fitted].sum())
            assert rows[start : start + goes.sum()].tolist() == old[goes].tolist()
            if share is None:
                continue
            part, n_part = weight.copy(), units.copy()
            divided = (marks == BOTH) & (s >= 0)
            left_units = np.floor(units * np.float64(s) + 0.5).astype(np.int32)
            part[divided] *= s if side == LEFT else np.float32(1) - s
            n_part[divided] = left_units[divided] if side == LEFT else (units - left_units)[divided]
            assert np.array_equal(weighted.weight[start : start + goes.sum()], part[goes])
            assert np.array_equal(weighted.units[start : start + goes.sum()], n_part[goes])
        staying = RIGHT if leaving == LEFT else LEFT
        assert found == (*sizes[staying], *sizes[leaving])
        assert (rows[:first] == -1).all()
