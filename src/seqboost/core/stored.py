"""Parts of a model file, which anyone may have forged: every array and field is checked as it is taken out.

Each part of a model checks what it stores, in its ``from_arrays``. What is wrong is a ModelFileError that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqboost.core.exceptions import ModelFileError

__all__ = ["LARGEST_SCORE", "MAX_BYTES", "MAX_CELLS", "MAX_ORDER", "Stored", "part_of"]

LARGEST_SCORE = 1e9
"""Largest absolute score of a model: sums of larger ones have no digits left for differences of about 1."""

MAX_ORDER = 8
"""Largest Markov order, as estimators take it."""

MAX_CELLS = 2**26
"""Most cells of an array that is not in the file but made of what it says, such as offsets by features."""

MAX_BYTES = 2**26
"""Most memory that a field of the header may ask for beyond what it takes up in the file."""


def part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


class Stored:
    """One part of a model file.

    Parameters
    ----------
    part : str
        What it is called in errors, in the plural.
    arrays : mapping of str to ndarray
        Its arrays.
    header : object
        Its fields, as JSON gave them.
    """

    def __init__(self, part: str, arrays: Mapping[str, NDArray[Any]], header: Any = None) -> None:
        self._part, self._arrays = part, arrays
        self._fields: dict[str, Any] = {}
        if header is not None:
            self.require(isinstance(header, dict), f"their header is of type {type(header).__name__}")
            self._fields = header

    def require(self, condition: Any, complaint: str) -> None:
        """Raise a ModelFileError unless a condition holds."""
        if not condition:
            raise ModelFileError(
                f"the {self._part} of this model do not fit together: {complaint}; save the model again"
            )

    # --------------------------------------------------------------------------------------------------- arrays

    def array(
        self,
        name: str,
        dtype: DTypeLike,
        shape: Sequence[int | None],
        *,
        low: float | None = None,
        high: float | None = None,
        forbids: bool = False,
    ) -> NDArray[Any]:
        """Return an array of a certain type, shape and range.

        Parameters
        ----------
        name : str
            Its name.
        dtype : dtype
            Exactly this type.
        shape : sequence of int or None
            Length of each axis; None: any.
        low, high : float, optional
            Range of its values. Floats must be finite in any case.
        forbids : bool, default=False
            Whether −inf, the score of what is forbidden, may occur as well.
        """
        if name not in self._arrays:
            raise ModelFileError(f"the {self._part} of this model lack {name!r}; save the model again")
        array = self._arrays[name]
        fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        if array.dtype != np.dtype(dtype) or not fits:
            expected = ", ".join("any" if n is None else str(n) for n in shape)
            came = f"{array.dtype} of shape {array.shape}"
            self.require(False, f"{name!r} is {came}, expected {np.dtype(dtype)} of shape ({expected})")
        values = array[array != -np.inf] if forbids else array
        if values.size and values.dtype.kind in "iuf":
            least, most = values.min(), values.max()
            self.require(np.isfinite(least) and np.isfinite(most), f"{name!r} holds numbers that are not finite")
            inside = (low is None or least >= low) and (high is None or most <= high)
            self.require(inside, f"{name!r} holds numbers from {least} to {most}, expected {low} to {high}")
        return array

    def scores(
        self, name: str, shape: Sequence[int | None], dtype: DTypeLike = np.float64, *, forbids: bool = False
    ) -> NDArray[Any]:
        """Return an array of scores, which sums can hold."""
        return self.array(name, dtype, shape, low=-LARGEST_SCORE, high=LARGEST_SCORE, forbids=forbids)

    def starts(self, name: str, count: int, total: int) -> NDArray[np.int64]:
        """Return where ``count`` stretches begin that make up ``total`` elements."""
        starts = self.array(name, np.int64, (count + 1,))
        rises = starts[0] == 0 and starts[-1] == total and bool((starts[1:] >= starts[:-1]).all())
        self.require(rises, f"{name!r} does not rise from 0 to {total}")
        return starts

    # --------------------------------------------------------------------------------------------------- fields

    def field(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """Return a field of the header that is of a certain type."""
        if name not in self._fields:
            raise ModelFileError(f"the {self._part} of this model lack {name!r}; save the model again")
        value = self._fields[name]
        is_kind = isinstance(value, kind) and (not isinstance(value, bool) or kind is bool)
        self.require(is_kind, f"{name!r} is of type {type(value).__name__}")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``."""
        value: int = self.field(name, int)
        self.require(low <= value <= high, f"{name!r} is not a number from {low} to {high}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        values = self.field(name, list)
        self.require(all(isinstance(value, str) for value in values), f"{name!r} holds others than strings")
        return tuple(values)
