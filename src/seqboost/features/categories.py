"""Categorical columns: which categories there are, in which order, and how a batch's codes become ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError, ModelFileError

__all__ = [
    "MAX_DENSE_CATEGORIES",
    "NoValue",
    "categories_from_json",
    "categories_to_json",
    "category_lookup",
    "most_frequent",
    "seen_categories",
]

MAX_DENSE_CATEGORIES = 253  # codes are uint8: "missing", "boundary" and "unknown" need one each


class NoValue(Enum):
    """The category that stands for "no value" where that is a category like others; one object in every process."""

    MISSING = "missing"


def seen_categories(codes: NDArray[np.int32], categories: NDArray[Any]) -> tuple[Any, ...]:
    """Categories that occur in a column, in an order that does not depend on the order of the rows.

    Numbers come first, by size, then strings, by alphabet, then all else, by ``repr``.

    Parameters
    ----------
    codes : ndarray of shape (n_rows,), dtype int32
        Codes into `categories`, -1 = missing.
    categories : ndarray of object
        Distinct values of the column; some may not occur (a batch that was cut from a larger one).
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(categories))
    seen = dict.fromkeys(categories[i] for i in np.flatnonzero(counts))
    return tuple(sorted(seen, key=_sort_key))


def most_frequent(codes: NDArray[np.int32], categories: NDArray[Any]) -> Any:
    """Return the category with most rows, of equals the first in the order of `seen_categories`; None without any."""
    counts = np.bincount(codes[codes >= 0], minlength=len(categories))
    seen = [(int(counts[i]), categories[i]) for i in np.flatnonzero(counts)]
    return min(seen, key=lambda pair: (-pair[0], _sort_key(pair[1])))[1] if seen else None


def _sort_key(value: Any) -> tuple[int, Any, str]:
    if isinstance(value, Real | np.bool_):
        return 0, value, ""
    if isinstance(value, str):
        return 1, 0, value
    return 2, 0, f"{type(value).__name__} {value!r}"


def category_lookup(
    categories: NDArray[Any], known: dict[Any, int], *, missing: int, unknown: int
) -> NDArray[np.int32]:
    """Make the table from a batch's codes to ours; its last entry answers for -1, which is "missing".

    A fraction that training did not have is looked for as float32, in which 0.1 is 0.10000000149011612.

    Parameters
    ----------
    categories : ndarray of object
        The batch's distinct values: the only ones looked up, however many rows there are.
    known : dict
        Training category -> code.
    missing, unknown : int
        Codes of a missing value, and of a category not seen in training.

    Returns
    -------
    ndarray of shape (len(categories) + 1,), dtype int32
    """
    lookup = np.empty(len(categories) + 1, dtype=np.int32)
    lookup[:-1] = [known.get(value, unknown) for value in categories]
    lookup[-1] = missing
    strange = [i for i, value in enumerate(categories) if isinstance(value, float) and value not in known]
    if strange:
        alike: dict[float, list[float]] = {}
        for value in known:
            if isinstance(value, float):
                alike.setdefault(float(np.float32(value)), []).append(value)
        for i in strange:
            lookup[i] = _code_in_single(float(categories[i]), known, alike, unknown)
    return lookup


def _code_in_single(value: float, known: dict[Any, int], alike: dict[float, list[float]], unknown: int) -> int:
    """Find the category that is the same float32; refuse a float32 if there are several."""
    single = float(np.float32(value))
    found = alike.get(single, [])
    if len(found) > 1 and value == single:
        raise InputError(
            f"The category {value!r} is a number in float32, in which the categories {found[0]!r} and {found[1]!r} of "
            "training cannot be told apart. Pass the column as float64, as in training, or as strings."
        )
    return known[found[0]] if len(found) == 1 else unknown


def categories_to_json(categories: Sequence[Any], column: str) -> list[Any]:
    """Categories as plain JSON values: str, int, float or bool.

    Raises
    ------
    InputTypeError
        If a category is of another type; the message names the column.
    """
    return [_to_json(value, column) for value in categories]


def _to_json(value: Any, column: str) -> Any:
    if value is NoValue.MISSING:
        return {"missing": True}
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"float": repr(plain)}  # JSON has no infinity
    for kind in (str, bool, int, float):
        if isinstance(plain, kind):
            return kind(plain)
    raise InputTypeError(
        f"A model file can hold categories of type str, int, float or bool, but column {column!r} has the category "
        f"{value!r} of type {type(value).__name__}. Turn this column's values into strings before fitting, or keep "
        f"the model with pickle instead."
    )


def categories_from_json(values: Sequence[Any]) -> tuple[Any, ...]:
    """Turn what `categories_to_json` gave back into categories."""
    if not isinstance(values, list):
        raise ModelFileError(f"The model file holds the categories {values!r:.60}; expected a list.")
    categories = tuple(_from_json(value) for value in values)
    if len(set(categories)) != len(categories):
        raise ModelFileError("The model file holds a category twice; save the model again.")
    return categories


def _from_json(value: Any) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict) and value.get("float") in ("inf", "-inf"):
        return float(value["float"])
    if value == {"missing": True}:
        return NoValue.MISSING
    raise ModelFileError(
        f"The model file holds the category {value!r:.60}; expected a string, a number or a truth value."
    )
