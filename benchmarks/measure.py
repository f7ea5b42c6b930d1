"""Clocks and memory: what the benchmark scripts share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["exponent", "in_subprocess", "median_seconds", "peak_bytes", "round_seconds", "sticky_sequences"]


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
