"""What a user sees while a model trains: one bar or lines when asked, and what is logged whether asked or not."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from seqboost.boosting import Callback, FunctionCallback, Progress
from seqboost.boosting.callbacks import describe
from seqboost.core.logs import get_logger, shown
from seqboost.training.result import Candidate, FitData, FitResult

__all__ = ["FitProgress", "fit_progress"]

logger = get_logger(__name__)

NOTICE = "seqboost: compiling its kernels for this machine; this happens once and takes up to half a minute."
SECONDS_BETWEEN = 5.0
"""Between lines of ``verbose=1``, where there is no bar."""

Show = Callable[[str, int, int], None]
"""Draws the bar: what is done, rounds so far, and rounds expected in all."""


@contextmanager
def fit_progress(data: FitData, verbose: int) -> Iterator[FitProgress]:
    """Log the start of a fit, and report its trainings: a bar for ``verbose=1``, a line per round for 2 or more.

    Without rich there are lines instead of a bar, one every few seconds. Whatever ``verbose`` is, the fit is logged:
    its trainings at level INFO, their rounds at level DEBUG. That kernels are being compiled is told to anyone at a
    terminal: nobody expects a first fit to take so long.
    """
    lines = 0 if verbose == 1 and _has_rich() else int(verbose)
    began = time.perf_counter()
    with shown(lines), _compile_notice(verbose):
        batch = data.training.batch
        logger.info(
            "training on %d sequences with %d positions and %d labels",
            batch.n_sequences, batch.n_rows, len(data.classes),
        )  # fmt: skip
        with _rich_bar() if verbose == 1 and not lines else nullcontext() as bar:
            progress = FitProgress(lines, bar)
            yield progress
        if progress.result is not None:
            _log_end(progress.result, time.perf_counter() - began)


class FitProgress:
    """Reports the trainings of a fit, one after another.

    How many rounds are still to come is estimated from the trainings that have ended and from how many are expected.
    """

    def __init__(self, lines: int = 0, show: Show | None = None) -> None:
        self._lines, self._show = lines, show
        self.result: FitResult | None = None  # what the fit came to, if it is told
        self._ended: list[int] = []  # rounds of the trainings that have ended
        self._n_expected = 0

    def expect(self, n_trainings: int) -> None:
        """Say how many trainings are expected after the next one."""
        self._n_expected = n_trainings

    @contextmanager
    def training(self, title: str, max_iter: int) -> Iterator[list[Callback]]:
        """Give the callbacks that report a training."""
        logger.info("%s", title)
        rounds = _Rounds(self._lines)
        callbacks: list[Callback] = [FunctionCallback(rounds, may_stop=False)]
        if self._show is not None:
            callbacks.append(FunctionCallback(lambda progress: self._move(title, max_iter, progress), may_stop=False))
        yield callbacks
        self._ended.append(0 if rounds.last is None else rounds.last.iteration)
        rounds.log_end(title)

    def _move(self, title: str, max_iter: int, progress: Progress) -> None:
        assert self._show is not None
        done, scores = sum(self._ended), describe(progress).partition("] ")[2]
        usual = min(max_iter, sum(self._ended) // len(self._ended)) if self._ended else max_iter
        to_come = max(progress.iteration, usual if self._ended else max_iter) + self._n_expected * usual
        self._show(f"{title}: {scores}", done + progress.iteration, done + to_come)

    def log_candidate(self, title: str, candidate: Candidate, best: Candidate, is_better: bool) -> None:
        """Log how a candidate of tuning compares with the best one before it."""
        verdict = "taken" if is_better else "not taken"
        logger.info(
            "%s: held-out log-likelihood %.4f against %.4f, %s",
            title.removeprefix("trying "), candidate.score, best.score, verdict,
        )  # fmt: skip


def _log_end(result: FitResult, seconds: float) -> None:
    """Log the end of a fit, with the settings that were chosen."""
    config = result.config
    logger.info(
        "fitted in %.1f s, %d rounds, log-likelihood %.4f, potentials=%r, window=%r, l2_regularization=%r",
        seconds, result.best_iteration, result.best_score, result.potentials, config.features.window,
        config.trees.l2_regularization,
    )  # fmt: skip


class _Rounds:
    """Logs rounds: all at level INFO for ``verbose=2``, some for 1, the others at level DEBUG."""

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
        if logger.isEnabledFor(logging.INFO):
            last = "no round" if self.last is None else describe(self.last)
            logger.info("%s ended after %.1f s: %s", title, time.perf_counter() - self.began, last)


@contextmanager
def _rich_bar() -> Iterator[Show]:
    """Draw a bar on standard error, and give what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(compact=True)
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def show(text: str, done: int, expected: int) -> None:
            bar.update(task, completed=done, total=expected, description=text)

        yield show
        finished = int(bar.tasks[task].completed)
        bar.update(task, total=finished)


def _has_rich() -> bool:
    """Check whether the extra ``cli``, which brings rich, is installed."""
    try:
        import rich.progress  # noqa: F401
    except ImportError:
        return False
    return True


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
