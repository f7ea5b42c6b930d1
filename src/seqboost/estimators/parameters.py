"""Parameters of the estimators: what each may be, and the message when it is something else."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seqboost.exceptions import ParameterError

__all__ = ["check_parameters", "integer", "one_of", "real"]

Rule = tuple[Callable[[Any], bool], str]


def integer(low: int, high: float = math.inf, *, none: bool = False) -> Rule:
    """Allow whole numbers from ``low`` to ``high``."""

    def holds(value: Any) -> bool:
        if value is None:
            return none
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
        return is_whole and low <= value <= high

    span = f"an int of {low} or more" if math.isinf(high) else f"an int from {low} to {high}"
    return holds, span + (" or None" if none else "")


def real(low: float, high: float = math.inf, *, open_low: bool = False) -> Rule:
    """Allow finite numbers from ``low`` to ``high``."""

    def holds(value: Any) -> bool:
        if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)) or not math.isfinite(value):
            return False
        return (low < value if open_low else low <= value) and value <= high

    above = f"above {low}" if open_low else f"of {low} or more"
    span = f"a number {above}" if math.isinf(high) else f"a number {above} and at most {high}"
    return holds, span


def one_of(*values: Any) -> Rule:
    """Allow one of a few values."""

    def holds(value: Any) -> bool:
        return any(value is v or (type(value) is type(v) and value == v) for v in values)

    return holds, "one of " + ", ".join(repr(v) for v in values)


def check_parameters(name: str, parameters: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Raise ParameterError for the first parameter that breaks its rule."""
    for key, (holds, expected) in rules.items():
        if not holds(parameters[key]):
            raise ParameterError(f"The {key!r} parameter of {name} must be {expected}. Got {parameters[key]!r} instead.")
