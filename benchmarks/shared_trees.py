"""Shared trees against a tree per label on NETtalk with all its labels: time of a round, accuracy.

python benchmarks/shared_trees.py [--rounds-only]

134 labels, window ±6, factored potentials, two threads. "trees ms" is the part of a round that depends on the kind of
trees: growing them and adding them to the scores; the rest is forward–backward, the same for both. Rounds of both kinds
are timed in turn. For the accuracy, the number of rounds is chosen on held-out training sequences.
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
SETTINGS: dict[str, Any] = {"window": 6, "potentials": "factored", "random_state": 0, "n_jobs": 2}


@contextmanager
def timed_trees() -> Iterator[list[float]]:
    """Give the seconds that growing trees and adding them takes, round by round."""
    from seqboost.boosting import ensemble, sharing

    seconds: list[float] = []
    places = [(ensemble.TreeFitter, "fit"), (sharing.SharedTreeFitter, "fit"), (ensemble.Round, "write")]
    originals = [getattr(owner, name) for owner, name in places]

    def timed(function: Any, *, begins: bool) -> Any:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            result = function(*arguments)
            seconds.append(time.perf_counter() - start + (0.0 if begins else seconds.pop()))
            return result

        return call

    for (owner, name), original in zip(places, originals, strict=True):
        setattr(owner, name, timed(original, begins=name == "fit"))
    try:
        yield seconds
    finally:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def rounds(X: Any, y: Any, repeats: int = 5, n_rounds: int = 12) -> dict[str, dict[str, float]]:
    """Time the rounds of both kinds, in turn; the fastest of several fits, for other work on the machine only adds."""
    from seqboost import TreeCRF

    whole: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    trees: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for _ in range(repeats):
        for kind in KINDS:
            with timed_trees() as seconds:
                model = TreeCRF(trees=kind, max_iter=n_rounds, early_stopping=False, **SETTINGS).fit(X, y)
            trees[kind].append(seconds[2:])  # the first ones load the kernels
            whole[kind].append(model.history_["seconds"][3:])
    return {
        kind: {
            "round ms": 1e3 * float(np.median(np.min(whole[kind], axis=0))),
            "trees ms": 1e3 * float(np.median(np.min(trees[kind], axis=0))),
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
    parser.add_argument("--rounds-only", action="store_true", help="print the times of rounds; write no report")
    arguments = parser.parse_args()
    split = load("nettalk")[0]
    timed = rounds(split.X_train, split.y_train)
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
