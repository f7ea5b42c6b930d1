"""Compiling kernels in a second process, on the first fit of a new installation.

Numba compiles one kernel at a time. So ::

    this process     start ── a few kernels ── other work ── wait ── kernels, from the cache
    helper           import numba ── everything else ────────┘

The two share numba's cache alone: whatever the helper has not written there (it could not be started, it failed, it
took too long), this process compiles by itself, as it would have done without it. Results are the same either way.

The helper is ``python -m MODULE ARGUMENT``, a module whose main part calls :func:`compile_and_exit`. It ends when it is
done, or when its standard input is closed, which happens when the process that started it ends.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numba

from seqboost.core.jit import is_cached
from seqboost.core.threads import thread_count

__all__ = ["compile_and_exit", "compile_beside", "wait"]

LONGEST_WAIT = 120.0  # seconds; on a quiet machine a helper needs about 15

_helper: subprocess.Popen[bytes] | None = None
_task = ("", "")  # module and argument of the helper
_lock = threading.Lock()


def compile_beside(kernel: Any, module: str, argument: str, n_threads: int) -> bool:
    """Have ``python -m module argument`` compile kernels; return whether a helper is at work on that.

    ``kernel`` stands for all of them: if it is compiled or cached, nothing happens. Nor does it for ``n_threads=1``: a
    user who asks for one job gets one process. A helper at work on another task is stopped.
    """
    global _helper, _task
    with _lock:
        if n_threads == 1 or not _may_help(kernel) or is_cached(kernel) is not False:
            return False
        if _helper is not None and _task == (module, argument):
            return True  # started by the fit of another thread, or by one that failed before it needed the kernels
        _stop()
        try:
            _helper, _task = _start(module, argument), (module, argument)
        except Exception:  # no processes on this platform, none left, forbidden: then without
            return False
        atexit.register(_stop)
        return True


def _may_help(kernel: Any) -> bool:
    """Check whether ``sys.executable`` is a Python that can be started, and of use here."""
    is_python = Path(sys.executable or "").name.lower().startswith("python")  # or else an application that embeds it
    return (
        is_python
        and thread_count(-1) > 1
        and not getattr(sys, "frozen", False)
        and not numba.config.DISABLE_JIT
        and not multiprocessing.current_process().daemon  # workers of a pool: there are enough of them already
        and not kernel.signatures
    )


def _start(module: str, argument: str) -> subprocess.Popen[bytes]:
    """Start the helper, with the modules of the same folders and the same cache."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if numba.config.CACHE_DIR:
        environment["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def wait(meanwhile: Callable[[], None]) -> None:
    """Wait until the helper is done, if there is one: its kernels are in the cache then, or it has failed.

    Before that, ``meanwhile`` compiles what this process will need next.
    """
    if _helper is not None:
        with _lock:
            meanwhile()
            _stop(LONGEST_WAIT)


def _stop(patience: float = 0.0) -> None:
    """End the helper, after ``patience`` seconds if it is not done by then."""
    global _helper
    if _helper is None:
        return
    try:
        with suppress(subprocess.TimeoutExpired):
            _helper.wait(patience)
    finally:
        _helper.kill()
        _helper.communicate()
        _helper = None
        atexit.unregister(_stop)


def _forget() -> None:
    """Leave the helper to the process that this one was forked from, which may hold the lock in another thread."""
    global _helper, _lock
    if _helper is not None:
        _helper.returncode = 0  # only its parent can wait for it
        if _helper.stdin is not None:
            _helper.stdin.close()
    _helper, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def compile_and_exit(work: Callable[[], None]) -> NoReturn:
    """Do the helper's work and end the process, at once if the process that started it has ended."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    work()
    os._exit(0)  # with a thread still reading, and whatever PYTHONINSPECT says


def _exit_with_parent() -> None:
    """End this process when its standard input is closed, which happens when its parent ends."""
    os.read(0, 1)
    os._exit(1)
