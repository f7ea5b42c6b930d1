"""A way into inner kernels, which have none from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that hands its arguments to a kernel."""

    @numba.njit
    def call(*arguments):
        return kernel(*arguments)

    return call
