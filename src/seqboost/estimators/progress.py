"""What a user sees while a model trains: a bar or lines when asked, and what is logged whether asked or not."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from seqboost.boosting import Callback, Progress
from seqboost.boosting.callbacks import describe
from seqboost.core.logs import get_logger, shown
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.settings import Trained

__all__ = ["log_candidate", "logged_fit", "progress_bar"]

logger = get_logger(__name__)

NOTICE = "seqboost: compiling its kernels for this machine; this happens once and takes up to half a minute."
STARTED = "%s: training on %d sequences with %d positions and %d labels"
FITTED = "%s: fitted in %.1f s, %d rounds, log-likelihood %.4f, %s"
SECONDS_BETWEEN = 5.0
"""Between lines of ``verbose=1``, where there is no bar."""
LogEnd = Callable[[Trained, Mapping[str, Any]], None]
"""Logs the end of a fit, with the settings that were chosen."""


@contextmanager
def logged_fit(estimator: Any, training: Labelled, parameters: Mapping[str, Any]) -> Iterator[LogEnd]:
    """Log the start of a fit, show what is logged if ``verbose`` asks for lines, and give what logs the end.

    That kernels are being compiled is told to anyone at a terminal: nobody expects a first fit to take so long.
    """
    began = time.perf_counter()
    name, n_labels = type(estimator).__name__, len(estimator.classes_)

    def log_end(trained: Trained, chosen: Mapping[str, Any]) -> None:
        took = time.perf_counter() - began
        settings = {"potentials": trained.potentials, **{key: chosen[key] for key in ("window", "l2_regularization")}}
        told = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        logger.info(FITTED, name, took, trained.best_iteration, trained.best_score, told)

    with shown(_lines(estimator.verbose)), _compile_notice(estimator.verbose):
        logger.info(STARTED, name, training.batch.n_sequences, training.batch.n_rows, n_labels)
        logger.debug("%s: parameters %s", name, parameters)
        yield log_end


@contextmanager
def progress_bar(max_iter: int, verbose: int, title: str = "") -> Iterator[list[Callback]]:
    """Give callbacks that report a training: a bar for ``verbose=1``, a line per round for 2 or more.

    Without rich there are lines instead of a bar, one every few seconds. Whatever ``verbose`` is, the training is
    logged: its title and its end at level INFO, its rounds at level DEBUG.
    """
    lines = _lines(verbose)
    with shown(lines):
        if title:
            logger.info("%s", title)
        rounds = _Rounds(lines)
        callbacks: list[Callback] = [rounds] if logger.isEnabledFor(logging.INFO) else []
        if verbose == 1 and not lines:
            with _rich_bar(max_iter, title) as advance:
                yield [*callbacks, advance]
        else:
            yield callbacks
        rounds.log_end(title or "boosting")


def log_candidate(title: str, candidate: Mapping[int, Trained], best: Mapping[int, Trained], is_better: bool) -> bool:
    """Log how a candidate of tuning compares with the best one before it; return ``is_better``.

    Trainings come by number of the hold-out; scores are means over those that both were trained on.
    """
    title = title.removeprefix("trying ")
    both = sorted(candidate.keys() & best.keys())
    if both:
        scores = [float(np.mean([trained[number].best_score for number in both])) for trained in (candidate, best)]
        verdict = "taken" if is_better else "not taken"
        logger.info("%s: held-out log-likelihood %.4f against %.4f, %s", title, *scores, verdict)
    else:
        logger.info("%s: not compared, its training was not completed", title)
    return is_better


class _Rounds:
    """A callback that logs rounds: all at level INFO for ``verbose=2``, some for 1, the others at level DEBUG."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self.began = time.perf_counter()
        self.next_line = self.began
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Log a round."""
        self.last = progress
        now = time.perf_counter()
        is_due = self.verbose > 1 or (self.verbose == 1 and now >= self.next_line)
        if is_due:
            self.next_line = now + SECONDS_BETWEEN
        level = logging.INFO if is_due else logging.DEBUG
        if logger.isEnabledFor(level):
            logger.log(level, "%s", describe(progress))

    def log_end(self, title: str) -> None:
        """Log the last round and the time of all."""
        last = "no round" if self.last is None else describe(self.last)
        if logger.isEnabledFor(logging.INFO):
            logger.info("%s ended after %.1f s: %s", title, time.perf_counter() - self.began, last)


@contextmanager
def _rich_bar(max_iter: int, title: str) -> Iterator[Callback]:
    """Draw a bar on standard error, and give the callback that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.fields[title]}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"),
        TimeRemainingColumn(compact=True),
    )  # fmt: skip
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=max_iter, title=title or "boosting")

        def advance(progress: Progress) -> None:
            bar.update(task, completed=progress.iteration, description=describe(progress).partition("] ")[2])

        yield advance


def _has_rich() -> bool:
    """Check whether the extra ``cli``, which brings rich, is installed."""
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True


def _lines(verbose: int) -> int:
    """Return the level of detail of lines: ``verbose``, or 0 where a bar takes their place."""
    return 0 if verbose == 1 and _has_rich() else int(verbose)


@contextmanager
def _compile_notice(verbose: int) -> Iterator[None]:
    """Say once that kernels are being compiled, if they are, to someone who is watching."""
    from numba.core import event

    class _Listener(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            if not _Listener.told:
                _Listener.told = True
                is_watched = sys.stderr is not None and sys.stderr.isatty()
                with shown(max(verbose, int(is_watched))):
                    logger.info(NOTICE)

        def on_end(self, event: Any) -> None:
            """Nothing to say."""

    listener = _Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
