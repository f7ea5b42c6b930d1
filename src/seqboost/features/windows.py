"""Windows: which neighbouring positions of a column the trees may look at.

A window is written in one of these ways::

    3              offsets -3 .. 3
    (3, 0)         a tuple is (left, right): offsets -3 .. 0
    [-1, 1]        a list (set, range, array) names the offsets one by one
    {"word": 2, ("x", "y"): (5, 0), "*": 1}     one window per column; "*" for all others (0 if it is left out)

The key ``"sparse"`` stands for all indicator features together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError

__all__ = ["MAX_OFFSET", "SPARSE_KEY", "Offsets", "by_column", "parse_window", "window_name"]

MAX_OFFSET = 10_000  # each sequence is padded by the largest offset: beyond this a window is surely a slip
SPARSE_KEY = "sparse"
DEFAULT_KEY = "*"

Offsets = NDArray[np.int32]
T = TypeVar("T")

_EXPECTED = (
    "expected a non-negative integer w (offsets -w..w), a tuple (left, right) of two non-negative integers, "
    "a list of offsets such as [-1, 0, 1], or a dict of column name -> window"
)


def parse_window(window: Any, names: Sequence[str]) -> tuple[Offsets, ...]:
    """Turn a window, as users write it, into sorted offsets for each of the named columns.

    Parameters
    ----------
    window : int, tuple of two int, iterable of int, or dict
        See the head of this module.
    names : sequence of str
        The columns' names, and ``"sparse"`` if there are indicator features.

    Returns
    -------
    tuple of ndarray of shape (n_offsets,), dtype int32
        Sorted, without repetition; one array per name.

    Raises
    ------
    ParameterError
        If the window is not of one of the known forms, reaches too far, or names an unknown column.

    Examples
    --------
    >>> parse_window({"a": (2, 0), "*": [-1, 1]}, ["a", "b"])
    (array([-2, -1,  0], dtype=int32), array([-1,  1], dtype=int32))
    """
    if not isinstance(window, Mapping):
        offsets = _parse_offsets(window, "window")
        return (offsets,) * len(names)
    return by_column("window", window, names, _parse_offsets, np.zeros(1, dtype=np.int32))


def by_column(
    parameter: str, given: Mapping[Any, Any], names: Sequence[str], parse: Callable[[Any, str], T], default: T
) -> tuple[T, ...]:
    """Turn a dict of column -> value, as users write it, into the value of each named column.

    Keys are names, tuples of names, and ``"*"`` for all columns not named, which take ``default`` without it.

    Parameters
    ----------
    parameter : str
        What the dict is called in errors.
    given : mapping
    names : sequence of str
    parse : callable
        Takes a value and where it stands, and returns what it means.
    default : object

    Raises
    ------
    ParameterError
        If a column is unknown or named twice.
    """
    by_name: dict[str, T] = {}
    for key, value in given.items():
        parsed = parse(value, f"{parameter}[{key!r}]")
        for name in key if isinstance(key, tuple) else (key,):
            _check_name(parameter, name, names)
            if name in by_name:
                raise ParameterError(f"{parameter} names the column {name!r} twice; keep one of its entries.")
            by_name[name] = parsed
    default = by_name.get(DEFAULT_KEY, default)
    return tuple(by_name.get(name, default) for name in names)


def window_name(name: str, offset: int) -> str:
    """Name of a window feature: ``x3[-2]``, ``x3[+1]``, and plain ``x3`` for offset 0."""
    return name if offset == 0 else f"{name}[{offset:+d}]"


def _check_name(parameter: str, name: Any, names: Sequence[str]) -> None:
    if name == DEFAULT_KEY or name in names:
        return
    shown = ", ".join(repr(known) for known in names[:20]) + (", ..." if len(names) > 20 else "")
    raise ParameterError(
        f"{parameter} names the column {name!r}, which X does not have; expected one of {shown} "
        f"or {DEFAULT_KEY!r} for all columns not named."
    )


def _parse_offsets(window: Any, where: str) -> Offsets:
    """Sorted offsets of one window that is not a dict."""
    if _is_integer(window):
        if window < 0:
            raise ParameterError(
                f"{where}={window!r} is negative; {_EXPECTED}. To look at the past only, write ({-int(window)}, 0)."
            )
        left = right = int(window)
    elif isinstance(window, tuple):
        if len(window) != 2 or not all(_is_integer(side) and side >= 0 for side in window):
            raise ParameterError(
                f"{where}={window!r}: a tuple means (left, right), two non-negative integers; "
                f"for a set of offsets write a list: {list(window)!r}."
            )
        left, right = (int(side) for side in window)
    else:
        return _listed_offsets(window, where)
    _check_reach(max(left, right), where)
    return np.arange(-left, right + 1, dtype=np.int32)


def _listed_offsets(window: Any, where: str) -> Offsets:
    """Sorted offsets of a list, set, range or array of offsets."""
    is_single = isinstance(window, np.ndarray) and window.ndim == 0
    if isinstance(window, str | bytes | Mapping) or not isinstance(window, Iterable) or is_single:
        raise ParameterError(f"{where}={window!r} (of type {type(window).__name__}) is not a window; {_EXPECTED}.")
    if isinstance(window, Iterator):
        raise ParameterError(
            f"{where} is an iterator ({type(window).__name__}), which can be read only once; write a list of offsets."
        )
    values = list(window)
    if not values:
        raise ParameterError(f"{where} is empty; {_EXPECTED}. To leave a column out, drop it from X.")
    for value in values:
        if not _is_integer(value):
            raise ParameterError(f"{where} holds {value!r} of type {type(value).__name__}; offsets must be integers.")
    offsets = sorted({int(value) for value in values})
    _check_reach(max(abs(offsets[0]), abs(offsets[-1])), where)
    return np.array(offsets, dtype=np.int32)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def _check_reach(reach: int, where: str) -> None:
    if reach > MAX_OFFSET:
        raise ParameterError(
            f"{where} reaches {reach} positions away; at most {MAX_OFFSET} is allowed, because every sequence "
            f"is padded by that many rows."
        )
