"""Growing trees, and a whole round, by this code against another checkout of seqboost.

python benchmarks/growth.py --against FOLDER [--only protein] [--pairs 20] [--quick]

FOLDER holds src/seqboost. Each version runs in a process of its own; they take turns, fit by fit, on one thread. Growth
is growing the trees of a round and adding them to the scores; a round has forward–backward and derivatives as well. The
time of a fit is the median over its rounds, on the processor's clock; each ratio, other ÷ this, is the median over the
pairs of fits: above 1, this code is the faster one. Shared trees first, then a tree per label. Writes no report.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measure import round_clock


@dataclass(frozen=True)
class Case:
    """Rounds on the training sequences of the first fold of a set."""

    name: str
    window: int
    trees: str
    n_rounds: int
    potentials: str = "joint"


CASES = {
    "protein": Case("protein", 6, "shared", 30),
    "stress": Case("stress", 6, "shared", 30),
    "S3": Case("S3", 0, "shared", 8),
    "gesture_phase": Case("gesture_phase", 2, "shared", 15),
    "protein, per label": Case("protein", 6, "per_label", 30),
    "stress, per label": Case("stress", 6, "per_label", 30),
    "S3, per label": Case("S3", 0, "per_label", 8),
    "gesture_phase, per label": Case("gesture_phase", 2, "per_label", 15),
    "hyphen, per label": Case("hyphen", 6, "per_label", 30),
    "occupancy, per label": Case("occupancy", 6, "per_label", 30),
}
SKIPPED = 2  # rounds, which load kernels


def serve(case: Case) -> None:
    """Fit whenever a line comes in, and print the milliseconds of growth and of a round."""
    import seqboost
    from data import load

    split = load(case.name)[0]
    print(seqboost.__file__, flush=True)
    for _ in sys.stdin:
        model = seqboost.TreeCRF(
            window=case.window, potentials=case.potentials, trees=case.trees, max_iter=case.n_rounds + SKIPPED,
            early_stopping=False, n_jobs=1, random_state=0,
        )  # fmt: skip
        with round_clock() as clock:
            model.fit(split.X_train, split.y_train, callbacks=[clock.end_round, clock.begin_round])
        times = clock.growth[SKIPPED:], clock.rounds[SKIPPED - 1 :]  # the first round is not among the rounds
        print(json.dumps([1e3 * float(np.median(part)) for part in times]), flush=True)


class Version:
    """A process that fits with the code of a folder."""

    def __init__(self, folder: Path, case: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", case], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip
        used = self._line()
        if not Path(used).resolve().is_relative_to(folder / "src"):
            raise SystemExit(f"expected seqboost of {folder / 'src'}, but {used} was imported")

    def fit(self) -> tuple[float, float]:
        """Return the milliseconds of growth and of a round."""
        assert self.process.stdin is not None
        self.process.stdin.write("fit\n")
        self.process.stdin.flush()
        growth, whole = json.loads(self._line())
        return growth, whole

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended with exit code {self.process.wait()}")
        return line.strip()


def compared(case: str, other: Path, n_pairs: int) -> dict[str, Any]:
    """Compare both versions."""
    versions = [Version(folder, case) for folder in (other, Path(__file__).resolve().parents[1])]
    for version in versions:
        version.fit()  # compiles
    times = np.array([[version.fit() for version in versions] for _ in range(n_pairs)])  # (pair, version, part)
    for version in versions:
        version.end()
    ratio, (old, new) = times[:, 0] / times[:, 1], np.median(times, axis=0)
    row: dict[str, Any] = {"case": case}
    for i, part in enumerate(("growth", "round")):
        figures = {"other ms": old[i], "this ms": new[i], "other ÷ this": np.median(ratio[:, i])}
        row |= {f"{part}, {name}": round(float(value), 3) for name, value in figures.items()}
    return row


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two pairs, to see that it runs")
    parser.add_argument("--serve", metavar="CASE", help="fit whenever a line comes in: for the script itself")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(CASES[arguments.serve])
        return
    if arguments.against is None:
        parser.error("name another checkout with --against FOLDER")
    for case in (arguments.only,) if arguments.only else CASES:
        print(compared(case, arguments.against.resolve(), 2 if arguments.quick else arguments.pairs), flush=True)


if __name__ == "__main__":
    main()
