"""Compiling the kernels of this room in a second process, on the first fit of a new installation.

Growing a tree is more than half of all that the first fit compiles, and numba compiles one kernel at a time. So ::

    this process     start ── a few of them ── binning ── chain ── objectives ── wait ── trees, from the cache
    helper           import numba ── everything else that grows a tree ───────┘

The two meet in numba's cache alone: whatever the helper has not written there (it could not be started, it failed, it
took too long), this process compiles by itself, as it would have done without it. The model is the same either way.

Trees for all labels (``trees="shared"``) have kernels of their own; a helper compiles what the fit in hand needs.

The helper is ``python -m seqboost.trees.ahead``. It ends when it is done, or when its standard input does, which it
shares with nobody: a helper does not outlive its process.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np

from seqboost._jit import is_cached, thread_count
from seqboost.trees.criterion import Limits
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.grower import grow_tree
from seqboost.trees.growing import TreeGrower
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.shared_cells import Units
from seqboost.trees.shared_growing import SharedGrower
from seqboost.trees.shared_ordering import order_vectors
from seqboost.trees.shared_screen import screen_line
from seqboost.trees.shared_search import search
from seqboost.trees.shared_splitting import VectorNode, count_contexts, lay_slots, scan_line
from seqboost.trees.space import Space, context_space
from seqboost.trees.splitting import best_split

__all__ = ["compile_beside", "grow_tiny", "grow_tiny_shared", "shared_types", "split_types", "wait"]

LONGEST_WAIT = 120.0  # seconds; on a quiet machine a helper needs about 15

PER_LABEL, SHARED = "per_label", "shared"

_helper: subprocess.Popen[bytes] | None = None
_kind = PER_LABEL  # of trees whose kernels the helper compiles
_lock = threading.Lock()


def _tiny_problem() -> tuple[DenseColumns, SparseColumns, Space, Limits]:
    """Return four rows of one column, with the types of every other problem."""
    none32, none64 = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    dense = DenseColumns(
        codes=np.array([0, 1, 0, 1], dtype=np.uint8),
        address=np.arange(4),
        feature=np.zeros(1, dtype=np.int32),
        displacement=np.zeros(1, dtype=np.int64),
        n_values=np.array([2], dtype=np.int32),
        kind=np.zeros(1, dtype=np.uint8),
        cell_start=np.array([0, 4]),
        run_start=np.array([0, 1]),
    )
    sparse = SparseColumns(
        padded_row=np.arange(4),
        indptr=np.zeros(5, dtype=np.int64),
        indices=none32,
        slot_start=np.zeros(1, dtype=np.int32),
        kind=np.zeros(0, dtype=np.uint8),
        absent_rank=none32,
        missing=none32,
        offset=none64,
        enabled=np.zeros((0, 0), dtype=np.bool_),
    )
    return dense, sparse, context_space(2, 1, np.array([0, 4])), Limits(4, 3, 1, 1.0, 0.0, False, 1)


def tiny_grower() -> TreeGrower:
    """Return a grower of four rows of one column, with the types of every other."""
    return TreeGrower(*_tiny_problem())


def grow_tiny() -> None:
    """Compile all that growing a tree and adding it to the scores needs, by doing it, for one context and for two."""
    grower, rows = tiny_grower(), np.arange(4, dtype=np.int32)
    derivatives = np.ones((4, 2), dtype=np.float32)
    tree, partition = grower.grow(derivatives, derivatives, rows, 4, lambda g, h: g / h)
    for scores in (derivatives, derivatives[:, :1].copy()):
        partition.add(tree.value, scores, np.empty_like(scores))


def grow_tiny_shared() -> None:
    """Compile all that growing a tree for all labels and adding it to the scores needs, by doing it.

    The tree must divide rows and contexts, which are separate kernels here.
    """
    grower, rows = SharedGrower(*_tiny_problem()), np.arange(4, dtype=np.int32)
    gradient = np.array([[[0, 0], [9, 1], [-4, 0], [9, 1]]] * 2, dtype=np.float32)
    tree, partition = grower.grow(gradient, np.ones_like(gradient), rows, 4, lambda g, h: g / h)
    partition.add(tree.value, gradient, np.empty_like(gradient))


def split_types() -> tuple[numba.types.Type, ...]:
    """Return the types with which ``grow_tree`` calls ``best_split``."""
    grower = tiny_grower()
    leaves, scratch = grower._leaves, grower._scratch
    arguments = (
        grower.dense, grower.sparse, grower.space, grower.limits, Scales(1.0, 1.0, 1), (0.0, 0.0, 0, 0.0),
        leaves.histogram[0], leaves.contexts[0], leaves.mask[0], leaves.type_rows[0], scratch.drawn, scratch.ranks,
    )  # fmt: skip
    return tuple(numba.typeof(argument) for argument in arguments)


def shared_types() -> dict[Any, tuple[numba.types.Type, ...]]:
    """Return the types with which the search for shared splits calls some kernels."""
    grower = SharedGrower(*_tiny_problem())
    sums, scratch, limits = grower.buffers.sums, grower.buffers.scratch.get(), grower.limits
    cells, counts, vector = sums.cells[0], sums.counts[0], np.zeros(2)
    units, node = Units(vector, vector, vector, vector), VectorNode(scratch.base, 0, 1.0)
    arguments: dict[Any, tuple[Any, ...]] = {
        order_vectors: (cells, counts, 0, 0, 0, scratch.base, units, 1.0, scratch.axes),
        screen_line: (1.0, node, limits, units, 0, scratch),
        scan_line: (1.0, node, limits, False, units, cells, 0, 0, False, scratch),
        lay_slots: (node, limits, cells, counts, 0, 0, np.int32(0), scratch),
        count_contexts: (grower.space.n_contexts_of, 0, False, scratch),
    }
    return {kernel: tuple(map(numba.typeof, values)) for kernel, values in arguments.items()}


def compile_beside(n_threads: int, *, shared: bool = False) -> bool:
    """Have the kernels of one kind of trees compiled if they are not cached; return whether a helper works on them.

    Nothing happens for ``n_threads=1``: who asks for one job gets one process.
    """
    global _helper, _kind
    with _lock:
        kernel = search if shared else grow_tree
        if n_threads == 1 or not _may_help(kernel) or is_cached(kernel) is not False:
            return False
        kind = SHARED if shared else PER_LABEL
        if _helper is not None and _kind == kind:
            return True  # the fit of another thread began it, or one that failed before it came to trees
        _stop()
        try:
            _helper, _kind = _start(kind), kind
        except Exception:  # no processes on this platform, none left, forbidden: then without
            return False
        atexit.register(_stop)
        _compile_ours(shared=shared)
        return True


def _compile_ours(*, shared: bool) -> None:
    """Compile what the helper will come to last: as much as makes both processes end at the same time."""
    with suppress(Exception):
        for kernel, types in (shared_types() if shared else {best_split: split_types()}).items():
            with suppress(Exception):  # then the helper compiles it as well
                cast("Any", kernel).compile(types)


def _may_help(kernel: Any) -> bool:
    """Tell whether ``sys.executable`` is a Python that may be started, and its work of use here."""
    is_python = Path(sys.executable or "").name.lower().startswith("python")  # or else the application we live in
    return (
        is_python
        and thread_count(-1) > 1
        and not getattr(sys, "frozen", False)
        and not numba.config.DISABLE_JIT
        and not multiprocessing.current_process().daemon  # workers of a pool: there are enough of them already
        and not kernel.signatures
    )


def _start(kind: str, module: str = __name__) -> subprocess.Popen[bytes]:
    """Start the helper for one kind of trees: the same modules, from the same places, and the same cache."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if numba.config.CACHE_DIR:
        environment["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def wait() -> None:
    """Wait until the helper is done, if there is one: its kernels are in the cache then, or it has failed."""
    if _helper is not None:
        with _lock:
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
        _helper.returncode = 0  # not ours to wait for
        if _helper.stdin is not None:
            _helper.stdin.close()
    _helper, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _end_with_parent() -> None:
    """Leave at once when standard input ends, which it does when the process that started this one is gone."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    grow_tiny_shared() if sys.argv[1:] == [SHARED] else grow_tiny()
    os._exit(0)  # with a thread still reading, and whatever PYTHONINSPECT says
