"""Arguments of ``fit``: what they may be, and what becomes of the estimator when they are something else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seqboost.boosting import Callback, as_callback
from seqboost.core.exceptions import ParameterError, SeqboostError

__all__ = ["callback_list", "unchanged_on_failure", "validation_pair", "where"]


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back if what is done to it fails: an earlier model stays whole."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def where(place: str) -> Iterator[None]:
    """Say in front of a message which of several data sets it is about."""
    try:
        yield
    except SeqboostError as error:
        raise type(error)(f"{place}: {error}") from error


def callback_list(callbacks: Any) -> list[Callback]:
    """Return callbacks as a list: None is none, a function is one."""
    if callbacks is None:
        return []
    listed = [callbacks] if callable(callbacks) else callbacks
    if not isinstance(listed, (list, tuple)) or not all(map(callable, listed)):
        raise ParameterError(
            f"callbacks must be a list of functions, each of which takes a seqboost.Progress; got {callbacks!r}"
        )
    return [as_callback(callback) for callback in listed]


def validation_pair(X_val: Any, y_val: Any, sample_weight_val: Any, eval_set: Any) -> tuple[Any, Any]:
    """Return validation data given either way, (None, None) if there are none."""
    if eval_set is not None:
        if X_val is not None or y_val is not None:
            raise ParameterError("give validation data as X_val and y_val or as eval_set, not both")
        pairs = [eval_set] if isinstance(eval_set, tuple) and len(eval_set) == 2 else eval_set
        is_list = isinstance(pairs, (list, tuple)) and len(pairs) == 1
        if not is_list or not isinstance(pairs[0], (list, tuple)) or len(pairs[0]) != 2:
            raise ParameterError(
                f"eval_set must be a list of one pair (X, y); got a {type(eval_set).__name__}"
                + (f" of {len(eval_set)}" if isinstance(eval_set, (list, tuple)) else "")
            )
        return pairs[0][0], pairs[0][1]
    if (X_val is None) != (y_val is None):
        missing = "y_val" if y_val is None else "X_val"
        raise ParameterError(f"X_val and y_val must be given together, but {missing} is missing")
    if X_val is None and sample_weight_val is not None:
        raise ParameterError("sample_weight_val needs the validation data it weighs: X_val and y_val, or eval_set")
    return X_val, y_val
