"""Shared trees against a tree per label on NETtalk with all its labels: time of a round, accuracy.

python benchmarks/shared_trees.py [--rounds-only] [--repeats 8]

134 labels, window ±6, factored potentials, two threads. "trees ms" is the part of a round that depends on the kind of
trees: growing them and adding them to the scores; "chain ms" is forward–backward, gradient and curvature, the same for
both. "CPU ms" is the same on the processor's clock, all threads together: other work on the machine hardly moves it.
Rounds of both kinds are timed in turn. For the accuracy, the number of rounds is chosen on held-out training sequences.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import report
from data import load

KINDS = ("per_label", "shared")
SETTINGS: dict[str, Any] = {
    "window": 6, "potentials": "factored", "learning_rate": 0.5, "min_samples_leaf": 10, "refit": False,
    "max_iter": 300, "random_state": 0, "n_jobs": 2,
}  # fmt: skip


PARTS = ("round", "trees", "chain")


def clocks() -> np.ndarray:
    """Read the clock on the wall and that of the processor, all threads together."""
    return np.array([time.perf_counter(), time.process_time()])


@contextmanager
def timed_parts() -> Iterator[dict[str, list[np.ndarray]]]:
    """Give the seconds that trees (growing them and adding them) and the chain take, round by round."""
    from seqboost.boosting import ensemble
    from seqboost.objectives import Likelihood

    seconds: dict[str, list[np.ndarray]] = {"trees": [], "chain": []}
    places = [
        (ensemble.TreeFitter, "fit", "trees"), (ensemble.Round, "write", "trees"),
        (Likelihood, "derivatives", "chain"),
    ]  # fmt: skip
    originals = [getattr(owner, name) for owner, name, _ in places]

    def timed(function: Any, found: list[np.ndarray], *, begins: bool) -> Any:
        def call(*arguments: Any) -> Any:
            start = clocks()
            result = function(*arguments)
            found.append(clocks() - start + (0.0 if begins else found.pop()))
            return result

        return call

    for (owner, name, part), original in zip(places, originals, strict=True):
        setattr(owner, name, timed(original, seconds[part], begins=name != "write"))
    try:
        yield seconds
    finally:
        for (owner, name, _), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def rounds(X: Any, y: Any, repeats: int, n_rounds: int = 12) -> dict[str, dict[str, float]]:
    """Time the rounds of both kinds, in turn; the fastest of several fits, for other work on the machine only adds."""
    from seqboost import TreeCRF

    found: dict[str, dict[str, list[np.ndarray]]] = {kind: {part: [] for part in PARTS} for kind in KINDS}
    for _ in range(repeats):
        for kind in KINDS:
            ends: list[np.ndarray] = []
            with timed_parts() as seconds:
                model = TreeCRF(**{**SETTINGS, "trees": kind, "max_iter": n_rounds, "early_stopping": False})
                model.fit(X, y, callbacks=[lambda _, ends=ends: ends.append(clocks())])
            # the first rounds load the kernels, and the chain is asked once before the first round
            found[kind]["round"].append(np.diff(ends, axis=0)[1:])
            found[kind]["trees"].append(np.array(seconds["trees"][2:]))
            found[kind]["chain"].append(np.array(seconds["chain"][3:]))
    return {
        kind: {
            f"{part} {clock}": 1e3 * float(np.median(np.min(found[kind][part], axis=0)[:, i]))
            for i, clock in enumerate(("ms", "CPU ms"))
            for part in PARTS
        }
        for kind in KINDS
    }


def accuracy(split: Any, kind: str) -> dict[str, Any]:
    """Fit with early stopping on held-out training sequences; score on the test sequences."""
    from seqboost import TreeCRF

    start = time.perf_counter()
    model = TreeCRF(trees=kind, **SETTINGS).fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - start
    return {
        "accuracy %": round(100 * model.score(split.X_test, split.y_test), 2),
        "rounds": model.best_iteration_,
        "fit s": round(seconds, 1),
    }


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8, help="fits of each kind whose rounds are timed")
    parser.add_argument("--rounds-only", action="store_true", help="print the times of rounds; write no report")
    arguments = parser.parse_args()
    split = load("nettalk")[0]
    timed = rounds(split.X_train, split.y_train, arguments.repeats)
    rows: list[dict[str, Any]] = [{"trees": kind, **timed[kind]} for kind in KINDS]
    ratio = {name: timed["per_label"][name] / timed["shared"][name] for name in timed["shared"]}
    if not arguments.rounds_only:
        for row in rows:
            row |= accuracy(split, row["trees"])
    rows.append({"trees": "per_label ÷ shared", **ratio})
    for row in rows:
        print(row, flush=True)
    if not arguments.rounds_only:
        report.write("shared_trees", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
