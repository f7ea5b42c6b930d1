"""The one way kernels are compiled and cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, SupportsInt, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

from seqboost.core.pipeline import KernelCompiler, PartCompiler

__all__ = [
    "allocating",
    "inlined",
    "inner",
    "inner_reassociating",
    "int64",
    "is_cached",
    "jit",
    "lowest_bit",
    "reassociating",
    "uint64",
]

F = TypeVar("F", bound=Callable[..., Any])

CORE = Path(__file__).parent

# Inside kernels, constants are handed on as int64: numba would compile a callee anew for every literal. Where types are
# checked it is an int like any other.
int64 = cast("Callable[[SupportsInt], int]", np.int64)

# An index that cannot be negative: a signed one is tested for that at every access, and such loops are not vectorised.
uint64 = cast("Callable[[SupportsInt], int]", np.uint64)


def jit(function: F) -> F:
    """Compile a kernel lazily, cached on disk, without the GIL and with C's division rules.

    It may not allocate and counts no references, which would be a seventh of its compilation and, with loops over
    tuples of arrays, up to a tenth of its time. Numba answers ``np.empty`` and its like with "Only accept returning of
    array passed into the function as argument": allocate outside, or use :func:`allocating`.
    """
    return _compiled(function, **_NO_REFERENCES)


def allocating(function: F) -> F:
    """Compile a kernel that allocates arrays."""
    return _compiled(function)


def inner(function: F) -> F:
    """Compile a kernel that only other kernels call, as part of them (:mod:`seqboost.core.pipeline`).

    Hand it constants as ``np.int64``: numba compiles a callee anew for every literal. It may not allocate.
    Tests reach it through a kernel of their own.
    """
    return _part(function)


def reassociating(function: F) -> F:
    """Compile a kernel whose sums may be taken in any order, so that they can be vectorised."""
    return _compiled(function, fastmath=_ANY_ORDER)


def inner_reassociating(function: F) -> F:
    """Compile such a kernel that only other kernels call, as :func:`inner` does."""
    return _part(function, fastmath=_ANY_ORDER)


_ANY_ORDER = {"reassoc", "nnan", "nsz"}

# Numba's own tests and registries use the option; where a release has it no longer, kernels only compile more slowly.
_NO_REFERENCES = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def _part(function: F, **options: Any) -> F:
    """Hand a kernel to numba that only others call; their code, which is cached, holds its own."""
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_NO_REFERENCES}
    return cast("F", numba.njit(nogil=True, error_model="numpy", pipeline_class=PartCompiler, **options)(function))


def _compiled(function: F, **options: Any) -> F:
    """Hand a kernel to numba, with a cache if there is a folder that it can write to."""
    kernel = numba.njit(
        nogil=True, error_model="numpy", pipeline_class=KernelCompiler, no_cfunc_wrapper=True, **options
    )(function)
    if hasattr(kernel, "enable_caching"):  # not with NUMBA_DISABLE_JIT
        try:
            kernel.enable_caching()
        except (RuntimeError, OSError):  # no folder: every process compiles for itself
            return cast("F", kernel)
        _amend_cache(kernel, Path(function.__code__.co_filename).parent)
    return cast("F", kernel)


def _amend_cache(kernel: Any, folder: Path) -> None:
    """Make a cached kernel valid for its sources and flags alone, and complete whenever its index names it.

    Numba looks at the kernel's own file only, but a kernel holds the code of all kernels that it calls, in other
    modules of its package and in ``core``. It names new code in its index before writing it to a file that may hold
    old code until then: a second process could load that. Its index does not know NUMBA_BOUNDSCHECK, so that checked
    kernels would be taken for unchecked ones, and unchecked ones for checked.
    """
    cache_file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _stamp(folder)
    names = ("save", "load", "_load_index", "_save_index", "_save_data", "_data_name")
    if all(hasattr(cache_file, name) for name in names):
        load, load_index = cache_file.load, cache_file._load_index
        cache_file._load_index = lambda: _readable_index(load_index)
        cache_file.load = lambda key: load((*key, *_flags()))
        cache_file.save = lambda key, data: _save(cache_file, (*key, *_flags()), data)


@cache
def _stamp(folder: Path) -> str:
    """Return a checksum of the sources that the kernels of a folder may hold code of.

    Those are the modules of ``core`` and of the kernel's package, with all sub-packages; outside of seqboost, those of
    the folder. Modification times play no part, so that a copy of the package with its cache compiles nothing again.
    """
    root = CORE.parent
    if root not in folder.parents:
        return _checksum(CORE, "**/*.py") + _checksum(folder, "*.py")
    return _checksum(CORE, "**/*.py") + _checksum(root / folder.relative_to(root).parts[0], "**/*.py")


@cache
def _checksum(folder: Path, pattern: str) -> str:
    """Return a checksum of the names and contents of the modules of a folder."""
    total = sha256()
    for file in sorted(folder.glob(pattern)):
        total.update(f"{file.relative_to(folder).as_posix()} {sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _readable_index(load_index: Callable[[], Any]) -> Any:
    """Return what a cache holds: nothing, if another version of seqboost wrote it, whose types are gone."""
    try:
        return load_index()
    except (AttributeError, ImportError):
        return {}


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
    """Check whether a kernel's code for this machine is on disk; None if that is unknown, or there is no cache."""
    try:
        machine = kernel.targetctx.codegen().magic_tuple()
        keys = kernel._cache._cache_file._load_index()
        return any(machine in key and key[len(key) - len(_flags()) :] == _flags() for key in keys)
    except Exception:  # internals of numba: if they change, that is no error
        return None


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
