"""Hand out cases to worker processes and count what they come to."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fuzz.worker import CRASH_FILE, Result, frame_of_dump, import_target, work

__all__ = ["FINDINGS", "HANG_SECONDS", "MEMORY_BYTES", "PrepareError", "Tally", "attack"]

FINDINGS = ("crashes", "hangs", "exceptions", "wrong answers", "memory")
HANG_SECONDS = 10.0
MEMORY_BYTES = 1 << 30
_CHUNK = 16  # cases handed to a worker at a time


class PrepareError(Exception):
    """A target that cannot begin."""


@dataclass
class Tally:
    """The counts of one target."""

    target: str
    counts: Counter[str] = field(default_factory=Counter)
    labels: dict[str, Counter[str]] = field(default_factory=dict)  # by the target's label, if it has any
    groups: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    peak: int = 0
    seconds: float = 0.0

    def add(self, seed: int, label: str, result: Result) -> None:
        """Count a case; the first of each group of findings is kept whole."""
        self.counts[result.kind] += 1
        self.labels.setdefault(label, Counter())[result.kind] += 1
        self.peak = max(self.peak, result.peak)
        if result.kind in FINDINGS:
            replay = f"python -m fuzz {self.target} --case {seed}"
            first = {"cases": 0, "replay": replay, "detail": result.detail}
            self.groups.setdefault((result.kind, label, result.group), first)["cases"] += 1

    @property
    def cases(self) -> int:
        """How many cases were run."""
        return sum(self.counts.values())

    @property
    def findings(self) -> int:
        """How many of them should not have ended as they did."""
        return sum(self.counts[kind] for kind in FINDINGS)

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        groups = [
            {"kind": kind, "label": label, "group": group, **first}
            for (kind, label, group), first in self.groups.items()
        ]
        counts = {"cases": self.cases, **{kind: self.counts[kind] for kind in ("accepted", "refused", *FINDINGS)}}
        memory = {"peak_mib": round(self.peak / 2**20), "seconds": round(self.seconds, 1)}
        return {"target": self.target, **counts, **memory, "labels": self.labels, "findings": groups}


class _Worker:
    """A process, the pipe to it, and the cases it has not answered yet."""

    def __init__(self, target: str) -> None:
        self.seeds: list[int] = []
        self.ready = self.dead = False
        self.folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(target, self.folder.name, theirs))
        self.process.start()
        theirs.close()
        self.since = time.monotonic()

    def hand(self, seeds: list[int]) -> None:
        """Give it cases to run."""
        self.seeds, self.since = seeds, time.monotonic()
        with suppress(OSError):  # it died while it was idle, which answers() will notice
            self.pipe.send(seeds)

    def answers(self) -> Iterator[tuple[int, Result]]:
        """Yield the cases that it has finished since the last call."""
        alive = self.process.is_alive()  # asked first: what a dead process wrote is still in the pipe
        try:
            while self.pipe.poll():
                answer = self.pipe.recv()
                self.since = time.monotonic()
                if self.ready:
                    yield self.seeds.pop(0), answer
                elif answer is None:
                    self.ready = True
                else:
                    raise PrepareError(answer)
        except (EOFError, OSError):
            alive = False
        self.dead = not alive

    def fault(self, hang_seconds: float, memory_bytes: int) -> Result | None:
        """Return what is wrong with the case it is on: a crash, a hang, or too much memory."""
        if self.dead:
            self.process.join()
            code = self.process.exitcode or 0
            name = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            return Result("crashes", f"{name} at {frame_of_dump(self._dump())}", self._dump(), 0)
        if self.seeds and time.monotonic() - self.since > hang_seconds:
            if hasattr(signal, "SIGUSR1"):
                os.kill(self.process.pid or 0, signal.SIGUSR1)
                time.sleep(0.2)
            return Result("hangs", frame_of_dump(self._dump()), self._dump(), 0)
        if self.seeds and (held := self._resident()) > memory_bytes:
            return Result("memory", "while it ran", f"{held / 2**20:.0f} MiB resident, killed", held)
        return None

    def end(self) -> None:
        """Kill the process, and those it started."""
        try:
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.join()
        self.pipe.close()
        self.folder.cleanup()

    def _resident(self) -> int:
        """Return the bytes it holds now, where the system says so."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def _dump(self) -> str:
        """Return what faulthandler wrote."""
        file = Path(self.folder.name) / CRASH_FILE
        return file.read_text(errors="replace")[:4000] if file.exists() else ""


def attack(
    target: str,
    seeds: Iterator[int],
    *,
    jobs: int = 1,
    seconds: float = float("inf"),
    hang_seconds: float = HANG_SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Run cases in worker processes until there are no more or the time is over.

    Parameters
    ----------
    target : str
        A module of this package, or the full name of another one.
    seeds : iterator of int
        One for each case.
    jobs : int
        The number of worker processes.
    seconds : float
        No case begins later than this, counted from when the first worker has prepared itself.
    hang_seconds, memory_bytes : float, int
        What a case may take. A worker that exceeds it is killed, and another goes on after the case.
    progress : callable
        Called with the tally several times a second.

    Returns
    -------
    Tally

    Raises
    ------
    PrepareError
        If the target's ``prepare`` raises or kills its process.
    """
    label: Callable[[int], str] = getattr(import_target(target), "label", lambda seed: "")
    tally = Tally(target)
    begun = float("inf")
    workers = [_Worker(target) for _ in range(jobs)]
    try:
        while workers:
            wait([worker.pipe for worker in workers], 0.1)
            for place, worker in enumerate(workers):
                over = False
                for seed, result in worker.answers():
                    if not over and result.peak > memory_bytes:  # the peak stays: later cases are not to blame
                        over = True
                        result = Result("memory", "at its peak", f"{result.peak / 2**20:.0f} MiB resident", result.peak)
                    tally.add(seed, label(seed), result)
                fault = worker.fault(hang_seconds, memory_bytes)
                if fault and not worker.ready:
                    raise PrepareError(f"{fault.group}\n{fault.detail}")
                if fault and worker.seeds:
                    seed = worker.seeds.pop(0)
                    tally.add(seed, label(seed), fault)
                if fault or over:
                    worker.end()
                    seeds = chain(worker.seeds, seeds)  # those it had not begun
                    workers[place] = _Worker(target)
                elif worker.ready and not worker.seeds:
                    begun = min(begun, time.monotonic())
                    chunk = list(islice(seeds, _CHUNK)) if time.monotonic() - begun < seconds else []
                    if chunk:
                        worker.hand(chunk)
                    else:
                        worker.end()
            workers = [worker for worker in workers if not worker.pipe.closed]
            tally.seconds = max(0.0, time.monotonic() - begun)
            progress(tally)
    finally:
        for worker in workers:
            if not worker.pipe.closed:
                worker.end()
    return tally
