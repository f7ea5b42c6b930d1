"""Callbacks of scikit-learn (``sklearn.callback``, from 1.9 on): ``TreeCRF().set_callbacks(ProgressBar())``.

With an older scikit-learn estimators have no ``set_callbacks``, and all else is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from seqboost.boosting import Callback, FunctionCallback, Progress

__all__ = ["CallbackSupportMixin", "scikit_callbacks", "with_callbacks"]

F = TypeVar("F", bound=Callable[..., Any])

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
