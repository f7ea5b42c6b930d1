"""Tasks on threads: the pool, and how many threads ``n_jobs`` means."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["run_tasks", "thread_count"]

MAX_THREADS = 1024

R = TypeVar("R")

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def thread_count(n_jobs: int | None) -> int:
    """Turn scikit-learn's ``n_jobs`` into a number of threads (``None`` and ``-1``: all usable cores)."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if n_jobs is None or n_jobs == -1:
        return usable
    if n_jobs < 0:
        return max(1, usable + 1 + n_jobs)
    return min(n_jobs, MAX_THREADS)


def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Return this process's pool of ``n_threads`` threads; a forked child makes its own."""
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
