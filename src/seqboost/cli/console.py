"""What all commands share: where words go, what becomes of errors, and exit codes.

Results go to standard output, everything else to standard error, so that output can be piped on.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from types import FrameType
from typing import Any, TextIO, TypeVar

import rich.console
import typer
import typer.core
from rich.table import Table
from rich.text import Text

from seqboost.core.exceptions import MemoryLimitError, MissingExtraError, ParameterError, SeqboostError

__all__ = [
    "EXIT_CODES",
    "Commands",
    "Console",
    "Interrupted",
    "Terminated",
    "guarded",
    "handled",
    "print_json",
    "reading_bar",
    "say",
    "show",
    "table_of",
    "visible",
    "visible_output",
]

UNUSABLE, USAGE, MISSING, MEMORY, SIGNALLED = 1, 2, 3, 4, 128
SIGNALS = {name: getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
EXIT_CODES = {
    0: "done",
    UNUSABLE: "a data or model file cannot be used, or nothing can be learnt from it",
    USAGE: "the command line makes no sense",
    MISSING: "a package is not installed that this needs",
    MEMORY: "there is not enough memory",
    SIGNALLED + 1: "the terminal was closed (SIGHUP; train: the best model so far is written)",
    SIGNALLED + 2: "interrupted by Ctrl-C (train: the best model so far is written)",
    SIGNALLED + 15: "terminated (SIGTERM; train: the best model so far is written)",
}
LARGE = 20_000_000  # bytes from which on reading shows a bar

F = TypeVar("F", bound=Callable[..., None])

# Characters that a terminal obeys instead of showing them: controls, ends of lines and paragraphs, changes of the
# direction of writing; and halves of characters, which cannot be printed at all.
_OBEYED = (
    *range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)  # fmt: skip
_VISIBLE = {code: repr(chr(code))[1:-1] for code in _OBEYED}
_VISIBLE_LINES = {code: text for code, text in _VISIBLE.items() if chr(code) not in "\n\t"}
_JSON = {code: f"\\u{code:04x}" for code in _OBEYED}


class Interrupted(Exception):
    """A signal came, and what could be saved is saved."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = number


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP came; what is half done is left undone, as at Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def visible(text: str) -> str:
    r"""Return text with escapes in the place of characters that a terminal obeys.

    Examples
    --------
    >>> print(visible("red: \x1b[31m, two\nlines"))
    red: \x1b[31m, two\nlines
    """
    return text.translate(_VISIBLE)


class Console(rich.console.Console):
    """A console that shows strings as they are: no markup, no emoji codes, no controls.

    Strings come from data: labels, names of columns and files. What is to have a style is a :class:`rich.text.Text`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Turn a string into text."""
        return super().render_str(visible(text), **settings)


def table_of(
    title: str, columns: Iterable[str], rows: Iterable[Iterable[rich.console.RenderableType]], *, n_left: int = 0
) -> Table:
    """Lay out a table whose columns are aligned to the right, but for the first ``n_left``."""
    table = Table(title=title)
    for j, name in enumerate(columns):
        table.add_column(name, justify="left" if j < n_left else "right")
    for row in rows:
        table.add_row(*row)
    return table


class Commands(typer.core.TyperGroup):
    """The commands; complaints about the command line show what was typed without obeying it."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read the arguments before the command."""
        with _visible_complaints():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of the command, and run it."""
        with _visible_complaints():
            return super().invoke(ctx)


@contextmanager
def _visible_complaints() -> Iterator[None]:
    complaint: Any = typer.BadParameter.__base__
    try:
        yield
    except complaint as error:
        error.message = visible(error.message)
        raise


def say(text: str) -> None:
    """Tell the user in one line something that is not the result."""
    typer.echo(visible(text), err=True)


def show(text: str) -> None:
    """Print a result of one or more lines."""
    typer.echo(text.translate(_VISIBLE_LINES))


def print_json(document: Any) -> None:
    """Print a result for machines."""
    typer.echo(json.dumps(document, ensure_ascii=False, default=_plain).translate(_JSON))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


class _VisibleStream:
    """Standard output of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, controls made visible."""
        return self._stream.write(text.translate(_VISIBLE_LINES))

    def flush(self) -> None:
        """Write what is held back."""
        self._stream.flush()


@contextmanager
def visible_output() -> Iterator[None]:
    """Make controls visible in what is written to standard output, if that is a terminal; files get it as it is."""
    with ExitStack() as stack:
        if sys.stdout.isatty():
            stack.enter_context(redirect_stdout(_VisibleStream(sys.stdout)))
        yield


def guarded(command: F) -> F:
    """End a command by one line and an exit code instead of a traceback; with ``--json`` the line is an object."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            with _plain_warnings(), handled(_terminate, "SIGTERM", "SIGHUP"):
                command(*args, **kwargs)
        except BrokenPipeError:  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (KeyboardInterrupt, Interrupted) as error:
            number = getattr(error, "number", signal.SIGINT)
            _end(SIGNALLED + number, str(error) or "interrupted; nothing was written", as_json)
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


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None], *names: str) -> Iterator[None]:
    """Have signals call a handler; those that this process was told to ignore (nohup) stay ignored.

    After SIGHUP a terminal that is gone is left alone: whoever writes to it would get an error.
    """
    terminals = [fd for fd in (1, 2) if os.isatty(fd)]

    def handle(number: int, frame: FrameType | None) -> None:
        for fd in terminals:
            if not os.isatty(fd):
                os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        handler(number, frame)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in names:
            number = SIGNALS.get(name)
            if number is not None and (name == "SIGINT" or signal.getsignal(number) != signal.SIG_IGN):
                before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


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
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
