"""Packed tuples: kernels read and write the same as with the tuples themselves."""

from __future__ import annotations

import gc
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from seqboost.core.jit import inner, jit
from seqboost.core.packed import Packer, packed


class Within(NamedTuple):
    matrix: np.ndarray
    flag: bool


class Outer(NamedTuple):
    vector: np.ndarray
    within: Within
    factor: float
    count: int


def outer(flag=True, factor=0.5):
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    return Outer(np.arange(4, dtype=np.int32), Within(matrix, flag), factor, -7)


@inner
def last_of(within):
    return within.matrix[1, 2] if within.flag else within.matrix[0, 0]


@jit
def read(value, out):
    out[0], out[1], out[2] = value.vector[3], last_of(value.within), value.factor
    out[3], out[4] = value.count, value.within.matrix.shape[1]
    value.vector[0] = 9
    return value.vector.sum()


@pytest.mark.parametrize("flag", [True, False, np.True_])
@pytest.mark.parametrize("factor", [0.5, -0.0, 1e300, np.inf])
def test_a_kernel_reads_and_writes_what_is_packed(flag, factor):
    value, results = outer(flag, factor), np.empty((2, 5))
    sums = read(packed(value), results[0]), read(value, results[1])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], [3, 5 if flag else 0, factor, -7, 3])
    assert sums == (15, 15)
    assert value.vector[0] == 9


def test_kernels_are_compiled_for_types_not_for_flags_of_arrays():
    read(packed(outer()), np.empty(5))
    n = len(read.signatures)
    value = outer()
    value.within.matrix.flags.writeable = False
    assert read(packed(value), np.empty(5)) == 15
    assert len(read.signatures) == n


def test_arrays_live_as_long_as_what_is_packed():
    value = packed(outer())
    gc.collect()
    np.zeros(100_000)
    assert read(value, np.empty(5)) == 15


def test_only_contiguous_arrays_are_packed():
    value = outer()
    with pytest.raises(ValueError, match="contiguous"):
        packed(value._replace(vector=np.arange(8, dtype=np.int32)[::2]))


def test_an_unknown_field_is_a_typing_error():
    @jit
    def poor(value):
        return value.nothing

    with pytest.raises(TypingError, match="nothing"):
        poor(packed(outer()))


def test_none_remains_none():
    assert packed(None) is None


def test_a_packer_packs_only_what_is_new():
    pack, a, b = Packer(), outer(), outer()
    first = pack(a, None, b)
    assert first[1] is None
    assert all(x is y for x, y in zip(first, pack(a, None, b), strict=True))
    other = pack(a, None, outer())
    assert other[0] is first[0]
    assert other[2] is not first[2]
