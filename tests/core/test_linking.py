"""Kernels that are called by their address."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from seqboost.core.jit import int64, jit
from seqboost.core.linking import address_of, call
from seqboost.core.packed import packed


class Work(NamedTuple):
    sums: np.ndarray
    factor: float


@jit
def add_scaled(work, values, span, is_negative, nothing):
    for i in range(span[0], span[1]):
        work.sums[i] += -values[i] if is_negative else work.factor * values[i]
    if nothing is not None:
        work.sums[0] = 99.0


@jit
def call_twice(address, work, values, is_negative, nothing):
    call(address, (work, values, (int64(0), int64(2)), is_negative, nothing))
    call(address, (work, values, (int64(1), int64(3)), is_negative, nothing))


@pytest.mark.parametrize("is_negative", [False, True])
@pytest.mark.parametrize("nothing", [None, 1])
def test_a_kernel_calls_another(is_negative, nothing):
    work, values = Work(np.zeros(3), 2.0), np.array([1.0, 10.0, 100.0])
    arguments = packed(work), values, (0, 0), is_negative, nothing
    call_twice(address_of(add_scaled, *arguments), packed(work), values, is_negative, nothing)
    expected = np.array([1.0, 20.0, 100.0]) * (-1.0 if is_negative else 2.0)
    if nothing is not None:
        expected[0] = 99.0
    assert work.sums.tolist() == expected.tolist()


def test_an_address_stays():
    arguments = packed(Work(np.zeros(3), 2.0)), np.zeros(3), (0, 0), False, None
    assert address_of(add_scaled, *arguments) == address_of(add_scaled, *arguments)
