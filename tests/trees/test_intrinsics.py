"""Vector instructions against plain additions; with NUMBA_DISABLE_JIT, their twins (see tests/core/test_jit.py)."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from seqboost.core.jit import jit, uint64
from seqboost.trees import intrinsics
from seqboost.trees.intrinsics import (
    add_eight_floats,
    add_lanes,
    add_one_float,
    add_rows_of_lanes,
    add_to_cells_of_eight,
    add_to_cells_of_four,
    add_to_cells_of_sixteen,
    add_to_cells_of_twelve,
    subtract_lanes,
    sum_prefixes,
    sum_prefixes_of_line,
)


@jit
def add(sums, vectors, at, place, n):
    add_lanes(sums, vectors, uint64(at), uint64(place), uint64(n))


@jit
def subtract(sums, vectors, at, place, n):
    subtract_lanes(sums, vectors, uint64(at), uint64(place), uint64(n))


@jit
def add_rows(sums, vectors, at, a, b, c, d, n):
    add_rows_of_lanes(sums, vectors, uint64(at), (uint64(a), uint64(b), uint64(c), uint64(d)), uint64(n))


@jit
def add_cells(width, cells, vectors, rows, codes, address, start, span):
    if width == 4:
        add_to_cells_of_four(cells, vectors, rows, codes, address, start, span)
    elif width == 8:
        add_to_cells_of_eight(cells, vectors, rows, codes, address, start, span)
    elif width == 12:
        add_to_cells_of_twelve(cells, vectors, rows, codes, address, start, span)
    else:
        add_to_cells_of_sixteen(cells, vectors, rows, codes, address, start, span)


@jit
def add_floats(width, new, old, added, at, place):
    if width == 8:
        add_eight_floats(new, old, added, uint64(at), uint64(place))
    else:
        add_one_float(new, old, added, uint64(at), uint64(place))


@jit
def prefixes(cells, line, on_line, n, start, width, lane, running, prefix, stride):
    shape = uint64(start), uint64(width), uint64(lane)
    if on_line:
        sum_prefixes_of_line(cells, line, uint64(n), shape, running, prefix, uint64(stride))
    else:
        sum_prefixes(cells, line, uint64(n), shape, running, prefix, uint64(stride))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def numbers(rng, n):
    return rng.integers(-(2**30), 2**30, size=n).astype(np.int32)


@pytest.mark.parametrize("n", [0, 2, 4, 6, 8, 10, 14, 16, 18, 30, 32, 46, 66])
def test_lanes_are_added_and_no_others(rng, n):
    sums, vectors = numbers(rng, 90) // 8, numbers(rng, 200) // 8
    for kernel, sign in ((add, 1), (subtract, -1)):
        found = sums.copy()
        kernel(found, vectors, 11, 5, n)
        expected = sums.copy()
        expected[11 : 11 + n] += sign * vectors[5 : 5 + n]
        assert np.array_equal(found, expected)
    found, expected = sums.copy(), sums.copy()
    add_rows(found, vectors, 3, 0, 120, 7, 7, n)
    expected[3 : 3 + n] += vectors[:n] + vectors[120 : 120 + n] + 2 * vectors[7 : 7 + n]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("width", [4, 8, 12, 16])
@pytest.mark.parametrize(("begin", "stop"), [(0, 9), (2, 3), (4, 4), (1, 8)])
@pytest.mark.parametrize(("first", "last"), [(0, 12), (3, 4), (5, 5), (2, 11)])
@pytest.mark.parametrize("is_far", [0, 1])
@pytest.mark.parametrize("by_row", [0, 1])
def test_vectors_are_added_to_cells(rng, width, begin, stop, first, last, is_far, by_row):
    start, codes = np.arange(10) * 6, rng.integers(6, size=200).astype(np.uint8)
    rows, address, shift = rng.permutation(12).astype(np.int32), 13 + rng.permutation(12) * 13, -7
    cells, vectors = numbers(rng, 60 * width) // 16, numbers(rng, 12 * width) // 16
    expected = cells.copy()
    for turn, i in enumerate(rows[first:last]):
        place = width * (i if by_row else turn)
        for f in range(begin, stop):
            cell = width * (start[f] + codes[address[i] + shift + f])
            expected[cell : cell + width] += vectors[place : place + width]
    span = first, last, begin, stop, shift, by_row, is_far
    add_cells(width, cells, vectors, rows, codes, address, start, span)
    assert np.array_equal(cells, expected)


@pytest.mark.parametrize("width", [1, 8])
def test_floats_are_added(rng, width):
    old, added = rng.normal(size=(2, 30)).astype(np.float32)
    for new in (np.zeros(30, np.float32), old):
        expected = new.copy()
        expected[9 : 9 + width] = old[9 : 9 + width] + added[4 : 4 + width]
        add_floats(width, new, old, added, 9, 4)
        assert np.array_equal(new, expected)


@pytest.mark.parametrize("n", [0, 4, 8, 20])
@pytest.mark.parametrize("width", [4, 12])
@pytest.mark.parametrize("on_line", [False, True])
def test_prefixes_of_a_line(rng, on_line, width, n):
    stride, start = 40, 3
    cells, line = numbers(rng, 60 * width) // 32, rng.permutation(50)[: n + 1].astype(np.int64)
    running, prefix = numbers(rng, width) // 4, np.full(width * stride, 77, dtype=np.int32)
    expected, sums = prefix.copy().reshape(width, stride), running.copy()
    for r in range(n):
        sums += cells.reshape(60, width)[start + (line[r] if on_line else r)]
        expected[:, r] = sums
    for lane in range(0, width, 4):
        prefixes(cells, line, on_line, n, start, width, lane, running, prefix, stride)
    assert np.array_equal(prefix.reshape(width, stride), expected)
    assert np.array_equal(running, sums)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the twins take anything")
@pytest.mark.parametrize("wrong", [np.zeros(9), np.zeros(9, np.int64), np.zeros(18, np.int32)[::2]], ids=str)
def test_arrays_of_another_type_are_refused(wrong):
    """Compiled code would take them for what it expects."""
    right = np.zeros(9, np.int32)
    with pytest.raises(numba.TypingError, match="expected a contiguous array of int32"):
        add(wrong, right, 0, 0, 4)
    with pytest.raises(numba.TypingError, match="expected a contiguous array of int32"):
        add(right, wrong, 0, 0, 4)


def test_every_instruction_is_tested():
    assert set(intrinsics.__all__) <= set(globals())
