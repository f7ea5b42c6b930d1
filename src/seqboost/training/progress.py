"""What a user sees while a model trains: a bar when asked, one line when kernels are compiled for the first time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seqboost.boosting import Callback, FunctionCallback, Progress
from seqboost.boosting.callbacks import describe

__all__ = ["compile_notice", "progress_bar"]

NOTICE = "seqboost: compiling its kernels for this machine; this happens once and takes up to half a minute."


@contextmanager
def progress_bar(max_iter: int, verbose: int, title: str = "") -> Iterator[list[Callback]]:
    """Give the callbacks that show progress: none for ``verbose=0``, a bar for 1, a line per round for 2 or more."""
    if verbose == 0:
        yield []
    elif verbose > 1:
        if title:
            print(title, file=sys.stderr)
        yield [FunctionCallback(lambda progress: print(describe(progress), file=sys.stderr), may_stop=False)]
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.fields[title]}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"),
            TimeRemainingColumn(compact=True),
        )  # fmt: skip
        from rich.console import Console

        with RichProgress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=max_iter, title=title or "boosting")

            def advance(progress: Progress) -> None:
                bar.update(task, completed=progress.iteration, description=describe(progress).partition("] ")[2])

            yield [FunctionCallback(advance, may_stop=False)]


@contextmanager
def compile_notice(verbose: int) -> Iterator[None]:
    """Say once that kernels are being compiled, if they are, to someone who is watching."""
    from numba.core import event

    class _Listener(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            if not _Listener.told and (verbose > 0 or sys.stderr.isatty()):
                print(NOTICE, file=sys.stderr)
            _Listener.told = True

        def on_end(self, event: Any) -> None:
            """Nothing to say."""

    listener = _Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
