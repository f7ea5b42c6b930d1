"""Kill processes while they write: the file is the old one or the new one, and the next writer cleans up.

``python -m fuzz.kills --kills 500`` forks children from one process that has everything loaded. A child writes the same
file again and again, with two contents in turn, until SIGKILL comes at a random moment.
"""

from __future__ import annotations

import argparse
import gzip
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import seqboost
from seqboost.cli import app

__all__ = ["main"]

PAUSE = 0.03  # seconds that a file is held open before it gets its name, in every second child


@dataclass(frozen=True)
class Task:
    """One kind of writing: what writes content 0 or 1 to the target, and what reads it."""

    name: str
    target: Path
    write: Callable[[int], None]
    read: Callable[[Path], Any]


def main(arguments: list[str] | None = None) -> int:
    """Kill, and count what was found; return 1 if a file was damaged or a temporary one was left."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="how many, of all tasks together (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="which moments (default 0)")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        tasks = _tasks(Path(folder))
        counts: dict[str, Counter[str]] = {task.name: Counter() for task in tasks}
        known = {task.name: _contents(task) for task in tasks}
        for number in range(options.kills):
            task = tasks[number % len(tasks)]
            counts[task.name].update(_kill(task, *known[task.name], rng))
    return _print(counts)


def _tasks(folder: Path) -> list[Task]:
    """Write small data, train on them, and return what is to be killed."""
    for k in (0, 1):
        rows = [f"s{i // 9},{(i * (3 + k)) % 7},{'AB'[i % 2]},{('go', 'stop')[i % 3 > k]}" for i in range(90)]
        (folder / f"data{k}.csv").write_text("id,speed,room,state\n" + "\n".join(rows) + "\n")
        _command("train", folder / f"data{k}.csv", *TRAINING, "--model", folder / f"model{k}.seqboost")
    models = [seqboost.load(folder / f"model{k}.seqboost") for k in (0, 1)]
    probe = [[{"speed": float(t), "room": "AB"[t % 2]} for t in range(6)]]

    def predictions(path: Path) -> Any:
        return seqboost.load(path).predict_proba(probe)[0].tolist()

    def task(name: str, suffix: str, write: Callable[[int, Path], None], read: Callable[[Path], Any]) -> Task:
        (folder / name).mkdir()
        target = folder / name / f"target{suffix}"
        return Task(name, target, lambda k: write(k, target), read)

    def predict(k: int, target: Path) -> None:
        _command("predict", folder / f"model{k}.seqboost", folder / f"data{k}.csv", "--proba", "-q", "-o", target)

    def convert(k: int, target: Path) -> None:
        _command("convert", folder / f"data{k}.csv", "--sequence", "id", "--label", "state", "-q", "-o", target)

    def train(k: int, target: Path) -> None:
        _command("train", folder / f"data{k}.csv", *TRAINING, "--model", target)

    return [
        task("save", ".seqboost", lambda k, target: models[k].save(target), predictions),
        task("predict", ".csv", predict, Path.read_bytes),
        task("convert", ".csv.gz", convert, lambda path: gzip.decompress(path.read_bytes())),
        task("convert-parquet", ".parquet", convert, Path.read_bytes),
        task("train", ".seqboost", train, predictions),
    ]


TRAINING = (
    "--sequence", "id", "--label", "state", "--max-iter", "2", "--n-jobs", "1", "-q",
    "--set", "early_stopping=false", "--set", "min_samples_leaf=2",
)  # fmt: skip


def _command(*arguments: Any) -> None:
    if app([str(argument) for argument in arguments], standalone_mode=False):
        raise RuntimeError(f"seqboost {' '.join(map(str, arguments))} failed")


def _contents(task: Task) -> tuple[list[Any], float]:
    """Return both contents of a task's target, and the seconds that a write takes."""
    contents, begun = [], time.perf_counter()
    for k in (0, 1):
        task.write(k)
        contents.append(task.read(task.target))
    if contents[0] == contents[1]:
        raise RuntimeError(f"both contents of {task.name} are the same")
    return contents, (time.perf_counter() - begun) / 2


def _kill(task: Task, contents: list[Any], seconds: float, rng: np.random.Generator) -> dict[str, int]:
    """Kill a child at a random moment of its writing; return what was found."""
    had_target = rng.random() < 0.8
    if had_target:
        task.write(0)
    else:
        task.target.unlink()
    slowly = bool(rng.integers(2))
    child = os.fork()
    if child == 0:
        _write_forever(task, slowly)
    time.sleep(float(rng.uniform(0, 3 * (seconds + PAUSE * slowly))))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    litter = _litter(task)
    found = {"kills": 1, "while writing": int(bool(litter)), "old": 0, "new": 0, "none": 0, "damaged": 0, "litter": 0}
    if not task.target.exists():
        found["damaged" if had_target else "none"] += 1
    else:
        try:
            content = task.read(task.target)
            found[("old", "new")[contents.index(content)]] += 1
        except Exception as error:  # whatever a file in pieces may raise
            print(f"{task.name}: {type(error).__name__}: {error}", file=sys.stderr)
            found["damaged"] += 1
    task.write(1)
    found["litter"] += len(_litter(task))
    return found


def _write_forever(task: Task, slowly: bool) -> None:
    """Write until the end comes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if slowly:
        replace = os.replace

        def replace_late(*arguments: Any) -> None:
            time.sleep(PAUSE)
            replace(*arguments)

        os.replace = replace_late  # type: ignore[assignment]
    try:
        for k in range(10**9):
            task.write(1 - k % 2)
    finally:
        os._exit(1)


def _litter(task: Task) -> list[str]:
    return [name for name in os.listdir(task.target.parent) if name != task.target.name]


def _print(counts: dict[str, Counter[str]]) -> int:
    """Print a table; return 1 if anything is wrong."""
    columns = ("kills", "while writing", "old", "new", "none", "damaged", "litter")
    total = Counter[str]()
    print(f"{'':16}" + "".join(f"{column:>15}" for column in columns))
    for name, found in (*counts.items(), ("total", total)):
        print(f"{name:16}" + "".join(f"{found[column]:>15,}" for column in columns))
        total.update(found)
    return int(bool(total["damaged"] or total["litter"]))


if __name__ == "__main__":
    sys.exit(main())
