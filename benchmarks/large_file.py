"""A table of a gigabyte from the command line: time and peak memory of converting it and of training on it.

python benchmarks/large_file.py [--megabytes 1000] [--limit 8] [--folder /somewhere/with/room]

The table has readings of eight sensors, a room and an activity out of six, recordings of a thousand rows, and two cells
in a hundred empty. It is written to a temporary folder, converted to Parquet, and trained on, each by one command in a
process of its own that may not have more than the memory asked for, with a few rounds, which do not change what is
needed. ``potentials="auto"`` comes to what fits.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import report
import seqboost

ROUNDS = 5
LENGTH = 1_000  # rows of a recording
ACTIVITIES = np.array(["lie", "sit", "stand", "walk", "run", "climb"])
ROOMS = np.array(["hall", "kitchen", "garden"])
N_SENSORS = 8


def recording(number: int, rng: np.random.Generator) -> str:
    """Return the lines of a recording."""
    activity = np.repeat(rng.integers(6, size=LENGTH // 50), 50)
    noise = rng.normal(size=(LENGTH, N_SENSORS))
    readings = noise + np.linspace(0, 0.3, N_SENSORS) * activity[:, None]
    cells = np.char.mod("%.6f", readings)
    cells[rng.random(cells.shape) < 0.02] = ""
    columns = [np.full(LENGTH, str(number)), *cells.T, ROOMS[rng.integers(3, size=LENGTH)], ACTIVITIES[activity]]
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))


def write_table(path: Path, megabytes: int) -> int:
    """Write a table of about this size; return its number of rows."""
    rng, number = np.random.default_rng(0), 0
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["trial", *(f"sensor{i}" for i in range(N_SENSORS)), "room", "activity"]) + "\n")
        while file.tell() < megabytes * 1_000_000:
            file.write(recording(number, rng))
            number += 1
    return number * LENGTH


def measured(limit: int, *arguments: str) -> dict[str, float]:
    """Run a command of seqboost within a limit of so many GiB; return its time and its peak memory."""
    start = time.perf_counter()
    script = (
        "import resource, sys\n"
        "limit = int(sys.argv[1]) * 2**30\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "from seqboost.cli import app\n"
        "try: app(sys.argv[2:])\n"
        "finally: print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", script, str(limit), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    peak = int(done.stdout.rpartition("peak ")[2])
    return {"s": round(time.perf_counter() - start, 1), "peak GiB": round(peak / 2**20, 2)}


def main() -> None:
    """Write the table, convert it, train on it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=8, help="GiB of memory that each command may have")
    parser.add_argument("--folder", default=None, help="where to make the temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        table, packed, model = (Path(folder) / name for name in ("table.csv", "table.parquet", "model.seqboost"))
        n_rows = write_table(table, arguments.megabytes)
        training = ["--sequence", "trial", "--label", "activity", "--max-iter", str(ROUNDS), "--quiet"]
        packing = ["--output", str(packed), "--sequence", "trial", "--label", "activity", "--quiet"]
        steps = {
            "convert to Parquet": ["convert", str(table), *packing],
            "train, from CSV": ["train", str(table), "--model", str(model), *training],
            "train, from Parquet": ["train", str(packed), "--model", str(model), *training],
        }
        size = {"MB": round(table.stat().st_size / 1e6), "rows": n_rows, "limit GiB": arguments.limit}
        for name, command in steps.items():
            row: dict[str, Any] = {"command": name, **size, **measured(arguments.limit, *command)}
            if command[0] == "train":
                row |= {"rounds": ROUNDS, "potentials": seqboost.load(model).potentials_}
            print(row, flush=True)
            report.write("large_file", [row], key=("command", "MB"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
