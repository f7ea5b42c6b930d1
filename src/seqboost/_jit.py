"""The one way kernels are compiled, and the one way they are spread over threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

__all__ = ["inlined", "inner", "jit", "reassociating", "run_tasks", "thread_count"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def jit(function: F) -> F:
    """Compile a kernel lazily, cached on disk, without the GIL and with C's division rules."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    _stamp_cache(compiled, Path(function.__code__.co_filename).parent)
    return cast("F", compiled)


def inner(function: F) -> F:
    """Compile a kernel that only other kernels call: without the way in from Python, which costs half its compilation.

    Hand it constants as ``np.int64``: numba compiles a callee anew for every literal. Tests reach it through a kernel
    of their own.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    _stamp_cache(compiled, Path(function.__code__.co_filename).parent)
    return cast("F", compiled)


def reassociating(function: F) -> F:
    """Compile a kernel whose sums may be taken in any order, so that they can be vectorised."""
    options = {"fastmath": {"reassoc", "nnan", "nsz"}}
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    _stamp_cache(compiled, Path(function.__code__.co_filename).parent)
    return cast("F", compiled)


def _stamp_cache(compiled: Any, room: Path) -> None:
    """Make a cached kernel valid only while no module of its room has changed.

    Numba looks at the kernel's own file alone, but a kernel holds the code of all kernels that it calls, and those live
    in other modules of its room.
    """
    cache_file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _room_stamp(room)


@cache
def _room_stamp(room: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, time and size of every module of a room, and of this one."""
    files = [Path(__file__), *sorted(room.glob("*.py"))]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def inlined(function: F) -> F:
    """Make a piece of a kernel: written apart for the reader, compiled only as part of the kernels that call it.

    A kernel that calls kernels is optimised together with them, at every level of calls; pieces keep that to two levels
    and the first fit of a new installation short.
    """
    compiled: F = numba.njit(inline="always", error_model="numpy")(function)
    return compiled


def thread_count(n_jobs: int | None) -> int:
    """Turn scikit-learn's ``n_jobs`` into a number of threads (``None`` and ``-1``: all usable cores)."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if n_jobs is None or n_jobs == -1:
        return usable
    if n_jobs < 0:
        return max(1, usable + 1 + n_jobs)
    return n_jobs


_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Return this process's pool of so many threads; a forked child makes its own."""
    key = (os.getpid(), n_threads)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(n_threads, thread_name_prefix="seqboost")
    return _pools[key]


def run_tasks(function: Callable[..., R], tasks: Sequence[tuple[Any, ...]], n_threads: int) -> list[R]:
    """Call ``function(*task)`` for each task, on ``n_threads`` threads; results in the order of the tasks.

    What a task computes must not depend on the thread it runs on: this is what makes a model bit-identical for any
    ``n_jobs``. Tasks must not call ``run_tasks`` themselves: the pool is shared.
    """
    if n_threads == 1 or len(tasks) <= 1:
        return [function(*task) for task in tasks]
    return list(_pool(n_threads).map(lambda task: function(*task), tasks))
