"""The integers that kernels hand to one another, and how two of them are packed into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsInt, cast

import numpy as np

__all__ = ["HALF", "int64", "uint64"]

HALF = 32  # bits of a packed number's lower half

# Inside kernels, constants are handed on as int64: numba would compile a callee anew for every literal. Where types are
# checked it is an int like any other.
int64 = cast("Callable[[SupportsInt], int]", np.int64)

# An index that cannot be negative: a signed one is tested for that at every access, and such loops are not vectorised.
uint64 = cast("Callable[[SupportsInt], int]", np.uint64)
