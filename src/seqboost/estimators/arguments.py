"""Arguments of ``fit``: what they may be, and what becomes of the estimator when they are something else.

Callbacks may also be those of scikit-learn (``sklearn.callback``, from 1.9 on):
``TreeCRF().set_callbacks(ProgressBar())``. With an older scikit-learn, estimators have no ``set_callbacks``, and all
else is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from seqboost.boosting import VALIDATION, Callback, FunctionCallback, Progress, as_callback, check_set_names
from seqboost.core.exceptions import ParameterError, SeqboostError

__all__ = [
    "CallbackSupportMixin",
    "callback_list",
    "evaluation_sets",
    "scikit_callbacks",
    "set_names",
    "unchanged_on_failure",
    "where",
    "with_callbacks",
]

F = TypeVar("F", bound=Callable[..., Any])


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


def evaluation_sets(X_val: Any, y_val: Any, sample_weight_val: Any, eval_set: Any) -> list[tuple[Any, Any, Any]]:
    """Return X, y and weights of the evaluation sets, given either way; none if there are none."""
    if eval_set is None:
        X_val, y_val = _validation_pair(X_val, y_val, sample_weight_val)
        return [] if X_val is None else [(X_val, y_val, sample_weight_val)]
    if X_val is not None or y_val is not None:
        raise ParameterError("give validation data as X_val and y_val or as eval_set, not both")
    sets = [eval_set] if isinstance(eval_set, tuple) and len(eval_set) == 2 else eval_set
    # [X, y] with two sequences each would pass for two pairs, if a list could be one of several.
    pair = (list, tuple) if isinstance(sets, (list, tuple)) and len(sets) == 1 else tuple
    is_list = isinstance(sets, (list, tuple)) and len(sets) > 0
    if not is_list or not all(isinstance(one, pair) and len(one) == 2 for one in sets):
        raise ParameterError(
            f"eval_set must be a list of pairs (X, y); got a {type(eval_set).__name__}"
            + (f" of {len(eval_set)}, not all of them pairs" if isinstance(eval_set, (list, tuple)) else "")
        )
    if len(sets) == 1:
        return [(*sets[0], sample_weight_val)]
    weights = [None] * len(sets) if sample_weight_val is None else sample_weight_val
    if not isinstance(weights, (list, tuple)) or len(weights) != len(sets):
        raise ParameterError(
            f"sample_weight_val must be a list with the weights of each of the {len(sets)} pairs of eval_set, or None "
            f"for equal ones; got a {type(sample_weight_val).__name__}"
            + (f" of {len(weights)}" if isinstance(weights, (list, tuple)) else "")
        )
    return [(*one, weight) for one, weight in zip(sets, weights, strict=True)]


def set_names(eval_names: Any, n_sets: int) -> tuple[str, ...]:
    """Return the names of the evaluation sets: as given, or "validation" for one, or LightGBM's for several."""
    if eval_names is not None:
        if n_sets == 0:
            raise ParameterError("eval_names needs the evaluation sets it names: eval_set, or X_val and y_val")
        return check_set_names([eval_names] if isinstance(eval_names, str) else eval_names, n_sets)
    return VALIDATION if n_sets <= 1 else tuple(f"valid_{number}" for number in range(n_sets))


def _validation_pair(X_val: Any, y_val: Any, sample_weight_val: Any) -> tuple[Any, Any]:
    """Return validation data, (None, None) if there are none."""
    if (X_val is None) != (y_val is None):
        missing = "y_val" if y_val is None else "X_val"
        raise ParameterError(f"X_val and y_val must be given together, but {missing} is missing")
    if X_val is None and sample_weight_val is not None:
        raise ParameterError("sample_weight_val needs the validation data it weighs: X_val and y_val, or eval_set")
    return X_val, y_val


try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's class of that name."""

    def _with_callbacks(method: F) -> F:
        return method


def with_callbacks(method: F) -> F:
    """Have scikit-learn's callbacks torn down when ``fit`` ends, also by an error."""
    decorated: F = _with_callbacks(method)
    return decorated


@contextmanager
def scikit_callbacks(estimator: Any, X: Any, y: Any, sample_weight: Any, max_rounds: int) -> Iterator[list[Callback]]:
    """Give the callback that tells scikit-learn's callbacks of each round, if there are any.

    They see the fitted estimator at the end of ``fit`` only: freezing the model after every round would cost too much.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        yield []
        return
    told = {"estimator": estimator, "X": X, "y": y}
    if sample_weight is not None:
        told["metadata"] = {"sample_weight": sample_weight}
    context = estimator._init_callback_context(max_subtasks=max_rounds).call_on_fit_task_begin(**told)

    def tell(progress: Progress) -> bool:
        task = context.subcontext(task_name=f"round {progress.iteration}").call_on_fit_task_begin(**told)
        return bool(task.call_on_fit_task_end(**told))

    yield [FunctionCallback(tell)]
    context.call_on_fit_task_end(**told, reconstruction_attributes={})
