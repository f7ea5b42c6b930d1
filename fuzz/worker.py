"""The process that runs cases; whatever happens to it, the driver survives."""

from __future__ import annotations

import faulthandler
import importlib
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from fuzz.outcome import Finding

__all__ = ["CRASH_FILE", "Result", "frame_of_dump", "import_target", "peak_memory", "work"]

CRASH_FILE = "crash.txt"


class Result(NamedTuple):
    """What one case came to."""

    kind: str  # "accepted", "refused", or a kind of finding
    group: str  # what cases of the same fault have in common
    detail: str  # for people
    peak: int  # bytes that the worker has held at most


def import_target(name: str) -> ModuleType:
    """Import a target: a module of this package, or any other by its full name."""
    return importlib.import_module(name if "." in name else f"fuzz.{name}")


def work(name: str, folder: str, pipe: Connection) -> None:
    """Run the cases whose seeds come down the pipe and answer each with a :class:`Result`.

    The answer is written before the next case begins, so the driver always knows which case a dead worker was on.
    """
    crash = open(Path(folder) / CRASH_FILE, "w")  # noqa: SIM115 (stays open as long as the process)
    faulthandler.enable(crash)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, crash)  # the driver asks for it before it kills a worker that hangs
    os.setsid()  # a group of its own: Ctrl-C reaches the driver alone, and the driver kills children of a case, too
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", RuntimeWarning)
    try:
        target = import_target(name)
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        state = target.prepare(scratch)
    except BaseException:
        pipe.send(traceback.format_exc())
        return
    pipe.send(None)
    while (seeds := pipe.recv()) is not None:
        for seed in seeds:
            pipe.send(_run(target.run, state, seed))


def _run(run: Callable[[Any, int], str], state: Any, seed: int) -> Result:
    """Run one case."""
    try:
        kind = run(state, seed)
        if kind in ("accepted", "refused"):
            return Result(kind, "", "", peak_memory())
        return Result("wrong answers", "outcome", f"run returned {kind!r}", peak_memory())
    except Finding as finding:
        return Result("wrong answers", _innermost(finding, "fuzz"), str(finding), peak_memory())
    except BaseException as error:
        short = "".join(traceback.format_exception(error, limit=-8))[-4000:]
        return Result("exceptions", f"{type(error).__name__} at {_innermost(error, 'seqboost')}", short, peak_memory())


def _innermost(error: BaseException, package: str) -> str:
    """Return where an exception comes from: its innermost frame inside a package, or else its innermost frame."""
    frames = [(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    return _place(frames, package)


def _place(frames: Iterable[tuple[str, int, str]], package: str) -> str:
    """Name the last of some frames that lies in a package, or else the last."""
    listed = list(frames)
    inside = [frame for frame in listed if package in Path(frame[0]).parts]
    if not listed:
        return "no frame"
    filename, line, name = (inside or listed)[-1]
    return f"{'/'.join(Path(filename).parts[-2:])}:{line} {name}"


def frame_of_dump(dump: str) -> str:
    """Find the innermost frame of seqboost in what faulthandler wrote."""
    frames = []
    for text in dump.splitlines():
        if text.startswith('  File "') and '", line ' in text:
            filename, _, rest = text.removeprefix('  File "').partition('", line ')
            line, _, name = rest.partition(" in ")
            frames.append((filename, int(line) if line.isdigit() else 0, name))
    return _place(reversed(frames), "seqboost")


def peak_memory() -> int:
    """Return the bytes that this process has held at most."""
    try:  # Linux's getrusage counts the process that started this one, too
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
