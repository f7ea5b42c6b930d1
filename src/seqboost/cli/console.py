"""What all commands share: where words go, what becomes of errors, and exit codes.

Results go to standard output, everything else to standard error, so that output can be piped on.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

from seqboost.exceptions import MemoryLimitError, MissingExtraError, ParameterError, SeqboostError

__all__ = ["EXIT_CODES", "Interrupted", "guarded", "print_json", "reading_bar", "say"]

UNUSABLE, USAGE, MISSING, MEMORY, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = {
    0: "done",
    UNUSABLE: "a data or model file cannot be used, or nothing can be learnt from it",
    USAGE: "the command line makes no sense",
    MISSING: "a package is not installed that this needs",
    MEMORY: "there is not enough memory",
    INTERRUPTED: "interrupted by Ctrl-C (train: the best model so far is written)",
}
LARGE = 20_000_000  # bytes from which on reading shows a bar

F = TypeVar("F", bound=Callable[..., None])


class Interrupted(Exception):
    """Ctrl-C was pressed, and what could be saved is saved."""


def say(text: str) -> None:
    """Tell the user something that is not the result."""
    typer.echo(text, err=True)


def print_json(document: Any) -> None:
    """Print a result for machines."""
    typer.echo(json.dumps(document, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def guarded(command: F) -> F:
    """End a command by one line and an exit code instead of a traceback; with ``--json`` the line is an object."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            with _plain_warnings():
                command(*args, **kwargs)
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (KeyboardInterrupt, Interrupted) as error:
            _end(INTERRUPTED, str(error) or "interrupted; nothing was written", as_json)
        except MissingExtraError as error:
            _end(MISSING, str(error), as_json)
        except (MemoryLimitError, MemoryError) as error:
            _end(MEMORY, str(error) or "there is not enough memory", as_json)
        except ParameterError as error:
            _end(USAGE, str(error), as_json)
        except (SeqboostError, FileNotFoundError) as error:
            _end(UNUSABLE, str(error), as_json)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            _end(UNUSABLE, f"{error.strerror or error}{where}", as_json)

    return run  # type: ignore[return-value]


def _end(code: int, message: str, as_json: bool) -> None:
    if as_json:
        print_json({"error": message, "exit_code": code})
    else:
        say(f"seqboost: {message}")
    raise typer.Exit(code) from None


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings as lines, without the place in the code they come from."""
    shown = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: say(f"seqboost: warning: {message}")
    try:
        yield
    finally:
        warnings.showwarning = shown


@contextmanager
def reading_bar(paths: list[Any], quiet: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """Show how much of large files is read, and the time left."""
    if quiet or sum(os.path.getsize(path) for path in paths if os.path.isfile(path)) < LARGE:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
