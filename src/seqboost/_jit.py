"""The one way kernels are compiled, and the one way they are spread over threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

__all__ = [
    "inlined",
    "inner",
    "inner_reassociating",
    "inner_slicing",
    "is_cached",
    "jit",
    "lean",
    "lowest_bit",
    "reassociating",
    "run_tasks",
    "thread_count",
]

MAX_THREADS = 1024

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def jit(function: F) -> F:
    """Compile a kernel lazily, cached on disk, without the GIL and with C's division rules."""
    return _compiled(function, no_cfunc_wrapper=True)


def lean(function: F) -> F:
    """Compile a kernel that allocates nothing: without counting references, which is a seventh of its compilation.

    Numba answers ``np.empty`` and its like in such a kernel with "Only accept returning of array passed into the
    function as argument": allocate outside, or use :func:`jit`.
    """
    return _compiled(function, no_cfunc_wrapper=True, **_NO_REFERENCES)


def inner(function: F) -> F:
    """Compile a kernel that only other kernels call: without the way in from Python, which costs half its compilation.

    Hand it constants as ``np.int64``: numba compiles a callee anew for every literal. It may not allocate, like a
    :func:`lean` one. Tests reach it through a kernel of their own.
    """
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_NO_REFERENCES)


def inner_slicing(function: F) -> F:
    """Compile a kernel that only other kernels call and that works on slices, whose references numba must count."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def reassociating(function: F) -> F:
    """Compile a kernel whose sums may be taken in any order, so that they can be vectorised."""
    return _compiled(function, fastmath=_ANY_ORDER)


def inner_reassociating(function: F) -> F:
    """Compile such a kernel that only other kernels call, as :func:`inner` does."""
    return _compiled(
        function, fastmath=_ANY_ORDER, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_NO_REFERENCES
    )  # fmt: skip


_ANY_ORDER = {"reassoc", "nnan", "nsz"}

# Numba's own tests and registries use the option; where a release has it no longer, kernels only compile more slowly.
_NO_REFERENCES = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def _compiled(function: F, **options: Any) -> F:
    """Hand a kernel to numba, with a cache if there is a folder that it can write to."""
    kernel = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if hasattr(kernel, "enable_caching"):  # not with NUMBA_DISABLE_JIT
        try:
            kernel.enable_caching()
        except (RuntimeError, OSError):  # no folder: every process compiles for itself
            return cast("F", kernel)
        _mend_cache(kernel, Path(function.__code__.co_filename).parent)
    return cast("F", kernel)


def _mend_cache(kernel: Any, room: Path) -> None:
    """Make a cached kernel valid only while no module of its room has changed, and at every moment of its writing.

    Numba looks at the kernel's own file alone, but a kernel holds the code of all kernels that it calls, and those live
    in other modules of its room. And it names new code in its index before it has written it, in a file that may hold
    old code until then: a second process could take that. Its index does not know NUMBA_BOUNDSCHECK, so that checked
    kernels would be taken for unchecked ones, and unchecked ones for checked.
    """
    file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = _room_stamp(room)
    if all(hasattr(file, name) for name in ("save", "load", "_load_index", "_save_index", "_save_data", "_data_name")):
        load = file.load
        file.load = lambda key: load((*key, *_flags()))
        file.save = lambda key, data: _save(file, (*key, *_flags()), data)


def _flags() -> tuple[str, ...]:
    """Return the settings of numba that change a kernel's code."""
    return ("boundscheck",) if numba.config.BOUNDSCHECK else ()


def _save(file: Any, key: Any, data: Any) -> None:
    """Write a kernel's code, then the index that names it; a full or protected disk is no error, only slow.

    Code is numbered by what it is for: of two processes that write at once, one's entry may be lost, which is compiled
    again, but never does an entry name the other's code.
    """
    with suppress(OSError):
        names = file._load_index()
        if key not in names:
            taken, first = set(names.values()), int(sha256(repr(key).encode()).hexdigest()[:8], 16)
            names[key] = next(name for name in map(file._data_name, count(first)) if name not in taken)
        file._save_data(names[key], data)
        file._save_index(names)


def is_cached(kernel: Any) -> bool | None:
    """Tell whether a kernel's code for this machine is on disk; None if that cannot be told, or there is no cache."""
    try:
        machine = kernel.targetctx.codegen().magic_tuple()
        keys = kernel._cache._cache_file._load_index()
        return any(machine in key and key[len(key) - len(_flags()) :] == _flags() for key in keys)
    except Exception:  # these are numba's own affairs: whatever they become, it is not an error of ours
        return None


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


if numba.config.DISABLE_JIT:

    def lowest_bit(mask: Any) -> int:
        """Count the zeros below the lowest bit that is on."""
        return (int(mask) & -int(mask)).bit_length() - 1

else:

    @intrinsic
    def lowest_bit(typing_context: Any, mask: Any) -> Any:
        """Count the zeros below the lowest bit that is on (one instruction; a mask has at least one)."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            zeros = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
            bits = arguments[0].type.width
            return zeros if bits == 64 else builder.zext(zeros, ir.IntType(64))

        return types.uint64(mask), generate


def thread_count(n_jobs: int | None) -> int:
    """Turn scikit-learn's ``n_jobs`` into a number of threads (``None`` and ``-1``: all usable cores)."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if n_jobs is None or n_jobs == -1:
        return usable
    if n_jobs < 0:
        return max(1, usable + 1 + n_jobs)
    return min(n_jobs, MAX_THREADS)


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
