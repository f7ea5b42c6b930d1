"""Clocks and memory: what the benchmark scripts share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "RoundClock",
    "exponent",
    "in_subprocess",
    "median_seconds",
    "peak_bytes",
    "round_clock",
    "round_seconds",
    "sticky_sequences",
    "use_one_thread",
]


def median_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median wall-clock time of a call."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def round_seconds(
    make: Callable[[int], Any], X: Any, y: Any, rounds: tuple[int, int] = (5, 25), repeats: int = 3
) -> float:
    """Time of one boosting round: the difference between fits of many and of few rounds, binning cancelled out.

    ``make(max_iter)`` returns an unfitted model. The smallest of several repeats is taken: noise only adds time.
    """
    few, many = rounds
    make(few).fit(X, y)
    best = {
        n: min(median_seconds(partial(_fit, make, n, X, y), repeats=1) for _ in range(repeats)) for n in (few, many)
    }
    return (best[many] - best[few]) / (many - few)


def _fit(make: Callable[[int], Any], max_iter: int, X: Any, y: Any) -> None:
    make(max_iter).fit(X, y)


@dataclass
class RoundClock:
    """Processor seconds of the rounds of a fit, and of what they spend on trees.

    Attributes
    ----------
    rounds : list of float
        Whole rounds but the first: derivatives, trees, scores.
    growth : list of float
        The part of every round that grows trees and adds them to the scores.
    """

    rounds: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)
    _growing: float = 0.0
    _began: float | None = None

    def end_round(self, _: Any) -> None:
        """Note the end of a round: a callback, the first in the list."""
        now = time.process_time()
        if self._began is not None:
            self.rounds.append(now - self._began)
        self.growth.append(self._growing)
        self._growing = 0.0

    def begin_round(self, _: Any) -> None:
        """Note the beginning of the next round: a callback, the last in the list."""
        self._began = time.process_time()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts as growth."""

        @wraps(function)
        def call(*arguments: Any) -> Any:
            start = time.process_time()
            result = function(*arguments)
            self._growing += time.process_time() - start
            return result

        return call


@contextmanager
def round_clock() -> Iterator[RoundClock]:
    """Return a clock of the rounds of a fit on one thread; it also works where shared trees have their own fitter."""
    from seqboost import boosting
    from seqboost.boosting.ensemble import Round

    owners = [(boosting.TreeFitter, "fit"), (Round, "write")]
    if hasattr(boosting, "SharedTreeFitter"):
        owners.append((boosting.SharedTreeFitter, "fit"))
    clock, originals = RoundClock(), [getattr(owner, name) for owner, name in owners]
    for (owner, name), original in zip(owners, originals, strict=True):
        setattr(owner, name, clock.timed(original))
    try:
        yield clock
    finally:
        for (owner, name), original in zip(owners, originals, strict=True):
            setattr(owner, name, original)


def use_one_thread() -> None:
    """Start the script again unless libraries that use OpenMP, such as LightGBM, are kept to one thread.

    Their idle threads wait busily, and the clock of the process would count that as the time of whatever runs.
    """
    if os.environ.get("OMP_NUM_THREADS") != "1":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OMP_NUM_THREADS": "1"})


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def peak_bytes(*, reset: bool = False) -> int:
    """Peak resident memory of this process (Linux); ``reset`` starts counting anew from what is held now."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def in_subprocess(script: str, *arguments: str, environment: dict[str, str] | None = None) -> Any:
    """Run a benchmark script again in a process of its own; return the JSON on its last line of output."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    return json.loads(done.stdout.splitlines()[-1])


def sticky_sequences(
    n_rows: int, n_columns: int, n_labels: int, length: int = 100, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Make numeric sequences whose labels tend to stay and shift the means of a few columns."""
    rng = np.random.default_rng(seed)
    n_sequences = max(1, n_rows // length)
    means = rng.normal(0, 0.5, size=(n_labels, n_columns)) * (rng.random(n_columns) < 0.3)
    X, y = [], []
    for _ in range(n_sequences):
        fresh = rng.integers(n_labels, size=length)
        moves = rng.random(length) < 0.15
        moves[0] = True
        labels = fresh[np.maximum.accumulate(np.where(moves, np.arange(length), 0))]
        X.append((rng.normal(size=(length, n_columns)) + means[labels]).astype(np.float32))
        y.append(labels)
    return X, y
