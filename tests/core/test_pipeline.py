"""Parts are compiled with their callers alone, and compiling leaves the garbage collector as it was."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba.core.errors import TypingError

from seqboost.core.jit import inner, jit


def test_parts_of_parts_become_code_of_the_kernel():
    @inner
    def square(x):
        return x * x

    @inner
    def sum_of_squares(values):
        total = 0.0
        for i in range(values.size):
            total += square(values[i])
        return total

    @jit
    def kernel(values, out):
        out[0] = sum_of_squares(values)

    out = np.zeros(1)
    kernel(np.array([3.0, 4.0]), out)
    assert out[0] == 25.0
    assert sum_of_squares.signatures
    assert square.signatures


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled):
    seen = []
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()

        @jit
        def kernel(x):
            return x + 1

        @jit
        def poor(x):
            return x.nothing

        assert kernel(1) == 2
        seen.append(gc.isenabled())
        with pytest.raises(TypingError):
            poor(1)
        seen.append(gc.isenabled())
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert seen == [enabled, enabled]
