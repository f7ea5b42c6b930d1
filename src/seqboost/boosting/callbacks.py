"""Callbacks under LightGBM's names, for ``fit(callbacks=[...])``.

None of them keeps anything between rounds: each reads the history that comes with a :class:`Progress`, so one callback
may serve many fits, also at the same time, and may be told of a training after it has ended.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqboost.boosting.history import VALIDATION, Callback, FunctionCallback, Progress, Stopping
from seqboost.core.exceptions import ParameterError

__all__ = [
    "describe",
    "early_stopping",
    "evaluations",
    "log_evaluation",
    "record_evaluation",
    "retell",
]


def early_stopping(stopping_rounds: int, min_delta: float = 0.0) -> Stopping:
    """Stop when the validation score has not risen for some rounds, and keep the best round.

    It takes the place of ``n_iter_no_change`` and ``tol``. The score is the log-likelihood per position, or the first
    ``eval_metric``, of ``X_val`` and ``y_val`` (or the first ``eval_set``), or of the sequences that ``early_stopping``
    holds out.

    Parameters
    ----------
    stopping_rounds : int
        Rounds without improvement that are waited for.
    min_delta : float, default=0.0
        What counts as improvement, in units of the score.

    Returns
    -------
    callback

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.callbacks import early_stopping
    >>> words, vowels = ["strength", "queue", "aorta", "banana"] * 9, ["00010000", "01111", "11001", "010101"] * 9
    >>> model = TreeCRF(max_iter=50, min_samples_leaf=1)
    >>> model.fit(words, vowels, eval_set=[(["tomato"], ["010001"])], callbacks=[early_stopping(3)]).n_iter_ < 50
    True
    """
    if not _is_whole(stopping_rounds) or stopping_rounds < 1:
        raise ParameterError(f"stopping_rounds must be an int of 1 or more; got {stopping_rounds!r}")
    if not isinstance(min_delta, numbers.Real) or not 0 <= min_delta < math.inf:
        raise ParameterError(f"min_delta must be a finite number of 0 or more; got {min_delta!r}")
    return Stopping(int(stopping_rounds), float(min_delta))


def log_evaluation(period: int = 1) -> Callback:
    """Print a line every ``period`` rounds; 0 or less prints nothing.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.callbacks import log_evaluation
    >>> model = TreeCRF(max_iter=4, min_samples_leaf=1)
    >>> _ = model.fit(["abab", "ba"], ["0101", "10"], callbacks=[log_evaluation(2)])  # doctest: +ELLIPSIS
    [2/4] train log-likelihood -... accuracy ...
    [4/4] train log-likelihood -... accuracy ...
    """
    if not _is_whole(period):
        raise ParameterError(f"period must be an int; got {period!r}")

    def log(progress: Progress) -> None:
        if period > 0 and progress.iteration % period == 0:
            print(describe(progress))

    return FunctionCallback(log, may_stop=False)


def record_evaluation(eval_result: dict[str, Any]) -> Callback:
    """Fill a dict with scores and metrics by data set and round, as in ``evals_result_``; entry 0 is the start.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.callbacks import record_evaluation
    >>> result = {}
    >>> model = TreeCRF(max_iter=4, min_samples_leaf=1)
    >>> _ = model.fit(["abab", "ba"], ["0101", "10"], callbacks=[record_evaluation(result)])
    >>> len(result["training"]["log_likelihood"])
    5
    """
    if not isinstance(eval_result, dict):
        raise ParameterError(f"eval_result must be a dict to be filled; got a {type(eval_result).__name__}")

    def record(progress: Progress) -> None:
        eval_result.clear()
        eval_result.update(evaluations(progress.history, progress.set_names))

    return FunctionCallback(record, may_stop=False)


def retell(
    history: dict[str, list[float]],
    max_iter: int,
    callbacks: Sequence[Callback],
    set_names: tuple[str, ...] = VALIDATION,
    watched: Sequence[float] = (),
) -> None:
    """Tell callbacks of a training that has ended, round by round; ``watched`` as of :class:`History`."""
    for iteration in range(1, len(history["train_score"])):
        until_then = {name: values[: iteration + 1] for name, values in history.items()}
        record = {name: values[iteration] for name, values in history.items()}
        for callback in callbacks:
            seen = list(watched[: iteration + 1])
            callback(Progress(iteration, max_iter, record, until_then, watched=seen, set_names=set_names))


def evaluations(
    history: Mapping[str, list[float]], set_names: Sequence[str] = VALIDATION
) -> dict[str, dict[str, list[float]]]:
    """Return scores, accuracies and metrics of a history by data set.

    Parameters
    ----------
    history : dict of lists
        As ``history_``.
    set_names : sequence of str, default=("validation",)
        Names of the evaluation sets; lists of the first begin with "validation", whatever it is called.

    Examples
    --------
    >>> history = {"train_score": [-0.7], "validation_score": [-0.6], "validation_macro_f1": [0.5], "step": [0.0]}
    >>> evaluations(history, ["valid_0"])
    {'training': {'log_likelihood': [-0.7]}, 'valid_0': {'log_likelihood': [-0.6], 'macro_f1': [0.5]}}
    """
    prefixes = {"train": "training", "validation": set_names[0], **{name: name for name in set_names[1:]}}
    found: dict[str, dict[str, list[float]]] = {}
    for key, values in history.items():
        fitting = [prefix for prefix in prefixes if key.startswith(f"{prefix}_")]
        if fitting:
            prefix = max(fitting, key=len)
            metric = key.removeprefix(f"{prefix}_")
            found.setdefault(prefixes[prefix], {})["log_likelihood" if metric == "score" else metric] = values
    return found


def describe(progress: Progress) -> str:
    """Return one line about a round: of the validation sequences if there are any, else of the training sequences."""
    part = "validation" if "validation_score" in progress.record else "train"
    of_part = evaluations({name: [value] for name, value in progress.record.items()}, ["validation"])
    values = of_part["validation" if part == "validation" else "training"]
    texts = [f"{name} {value:.4f}" for name, (value,) in values.items()]
    line = f"[{progress.iteration}/{progress.max_iter}] {part} {' '.join(texts)}"
    return line.replace("log_likelihood", "log-likelihood", 1)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.timedelta64))
