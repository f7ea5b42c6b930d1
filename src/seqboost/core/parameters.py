"""Parameters of the estimators: what each may be, and the message when it is something else."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from seqboost.core.exceptions import ParameterError

__all__ = [
    "Rule",
    "check_parameters",
    "check_unchanged",
    "integer",
    "n_jobs_rule",
    "one_of",
    "plain_fields",
    "plain_number",
    "random_state_rule",
    "real",
    "verbose_rule",
]

D = TypeVar("D", bound=Any)
Rule = tuple[Callable[[Any], bool], str]
NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # which Python and NumPy count among the integers


def plain_number(value: Any) -> Any:
    """Return a numpy scalar, as GridSearchCV draws them from arrays, as Python's own number, bool or string."""
    return value.item() if isinstance(value, (np.bool_, np.integer, np.floating, np.str_)) else value


def plain_fields(config: D) -> D:
    """Return a frozen dataclass with plain numbers in all its fields, those of dataclasses inside it included."""
    changes = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        changes[field.name] = plain_fields(value) if dataclasses.is_dataclass(value) else plain_number(value)
    return dataclasses.replace(config, **changes)


def integer(low: int, high: float = math.inf, *, none: bool = False) -> Rule:
    """Allow whole numbers from ``low`` to ``high``."""

    def holds(value: Any) -> bool:
        if value is None:
            return none
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, NO_NUMBERS)
        return is_whole and low <= value <= high

    span = f"an int of {low} or more" if math.isinf(high) else f"an int from {low} to {high}"
    return holds, span + (" or None" if none else "")


def real(low: float, high: float = math.inf, *, open_low: bool = False, auto: bool = False) -> Rule:
    """Allow finite numbers from ``low`` to ``high``, and "auto" if asked for."""

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            return auto and value == "auto"
        if not isinstance(value, numbers.Real) or isinstance(value, NO_NUMBERS):
            return False
        try:
            number = float(value)
        except OverflowError:  # an int beyond all floats
            return False
        return math.isfinite(number) and (low < number if open_low else low <= number) and number <= high

    above = f"above {low}" if open_low else f"of {low} or more"
    span = f"a number {above}" if math.isinf(high) else f"a number {above} and at most {high}"
    return holds, span + (" or 'auto'" if auto else "")


def one_of(*values: Any) -> Rule:
    """Allow one of a few values."""

    def holds(value: Any) -> bool:
        plain = plain_number(value)
        return any(plain is v or (type(plain) is type(v) and plain == v) for v in values)

    return holds, "one of " + ", ".join(repr(v) for v in values)


def n_jobs_rule() -> Rule:
    """Allow numbers of threads: None, or a whole number but 0."""
    whole = integer(-(2**31), 2**31 - 1, none=True)[0]
    return lambda value: whole(value) and value != 0, "None, -1 or another int but 0"


def random_state_rule() -> Rule:
    """Allow what scikit-learn makes random numbers from."""
    seed = integer(0, 2**32 - 1, none=True)[0]
    sources = (np.random.RandomState, type(np.random))
    return lambda value: isinstance(value, sources) or seed(value), "None, an int from 0 to 2**32 - 1 or a RandomState"


def verbose_rule() -> Rule:
    """Allow degrees of talking: 0, 1, 2 …, False or True."""
    whole = integer(0)[0]
    return lambda value: isinstance(value, (bool, np.bool_)) or whole(value), "an int of 0 or more, or a bool"


def check_parameters(name: str, parameters: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Raise ParameterError for the first parameter that breaks its rule."""
    for key, (holds, expected) in rules.items():
        if not holds(parameters[key]):
            value = parameters[key]
            raise ParameterError(f"The {key!r} parameter of {name} must be {expected}. Got {value!r} instead.")


def check_unchanged(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise ParameterError if a warm start comes with another value of a parameter that the earlier trees rest on."""
    for key, value in earlier.items():
        if not _is_same(value, now[key]):
            raise ParameterError(
                f"The {key!r} parameter was {value!r} in the last fit and is {now[key]!r} now, but warm_start adds to "
                f"the trees of the last fit. Set it back, or start anew with warm_start=False."
            )


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two parameters say the same; an array says what a list says, a tuple (in a window) does not."""
    if a is b:
        return True
    a, b = (value.tolist() if hasattr(value, "tolist") else value for value in (a, b))
    if (isinstance(a, list) and isinstance(b, list)) or (isinstance(a, tuple) and isinstance(b, tuple)):
        return len(a) == len(b) and all(map(_is_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_is_same(value, b[key]) for key, value in a.items())
    return bool(a == b)
