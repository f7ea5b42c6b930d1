"""Time of a boosting round on a sample of the examples, against a round on all of them.

python benchmarks/sampling.py [--only protein]

Sets: protein (18,105 positions, 3 labels, window ±5), and "sticky" (200,000 positions, 5 labels, 20 numeric columns,
window ±1). Joint potentials, 31 leaves, one thread, fixed steps. Samplers take turns in one process; times are those of
the processor, the tenth percentile over rounds and repeats, for other work on the machine only adds. ``fitted`` is the
share of the positions that a tree is fitted to. Three parts of a round do not shrink with the sample, for the scores of
*all* positions move: their derivatives (forward–backward), sending the others down the finished trees (part of
``trees``), and the update of the scores. Trees on stratified samples divide contexts near the root: a position is then
in nearly two leaves instead of one (``leaves``), and costs twice as much. Derivatives are the same work in every row of
a set: their spread is the noise of the measurement.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import report
from data import load
from measure import sticky_sequences
from seqboost import Method, TreeCRF
from seqboost.boosting import TreeFitter
from seqboost.boosting.ensemble import Round
from seqboost.objectives import Likelihood
from seqboost.sampling import Sequences, Stratified, Trimmed, Uniform

SAMPLERS: dict[str, Any] = {
    "all": None, "0.3": Uniform(0.3), "Sequences(0.3)": Sequences(0.3), "goss": "goss", "1p/3n": "1p/3n",
    "0.3p/0.3n": "0.3p/0.3n", "1p/3n by label": Stratified(1, 3, by_label=True), "balanced": "balanced",
    "Trimmed(share=0.1)": Trimmed(share=0.1),
}  # fmt: skip


class Clock:
    """Seconds of the parts of a round, call by call; the share of fitted positions, and the leaves that each is in."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.fitted: list[float] = []
        self.leaves: list[float] = []
        self.ends: list[float] = []
        for owner, method, part in (
            (Likelihood, "derivatives", "derivatives"), (TreeFitter, "draw", "draw"), (TreeFitter, "fit", "trees"),
            (Round, "write", "scores"),
        ):  # fmt: skip
            setattr(owner, method, self._timed(getattr(owner, method), part))

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.process_time()
            result = function(*arguments)
            self.seconds.setdefault(part, []).append(time.process_time() - start)
            if part == "draw":
                self.fitted += [sample.fitted.n_fitted / sample.fitted.rows.size for sample in result]
            if part == "trees":
                pairs = zip(result[0], arguments[1], strict=True)
                self.leaves += [tree.leaf_rows.sum() / sample.fitted.n_fitted for tree, sample in pairs]
            return result

        return call

    def end_round(self, _: Any) -> None:
        """Note the end of a round (a callback)."""
        self.ends.append(time.process_time())

    def start(self) -> None:
        """Forget what was measured."""
        self.seconds, self.fitted, self.leaves, self.ends = {}, [], [], []


def sequences_of(name: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return sequences, labels, and what suits them."""
    if name == "protein":
        split = load("protein")[0]
        return split.X_train, split.y_train, {"window": 5, "max_iter": 40}
    X, y = sticky_sequences(200_000, 20, 5, length=50)
    return X, y, {"window": 1, "max_iter": 7}


def measured(clock: Clock, name: str, trees: str, repeats: int) -> list[dict[str, Any]]:
    """Time the rounds of every sampler, in turns."""
    X, y, settings = sequences_of(name)
    names = [s for s in SAMPLERS if trees == "per_label" or not (s == "balanced" or "p/" in s)]
    seen: dict[str, dict[str, list[float]]] = {s: {} for s in names}
    shares: dict[str, tuple[float, float]] = {}
    for repeat in range(repeats + 1):
        for s in names:
            clock.start()
            model = TreeCRF(
                **settings,
                method=Method(sampling=SAMPLERS[s], step="fixed"),
                trees=trees,
                learning_rate=0.3,
                potentials="joint",
                early_stopping=False,
                n_jobs=1,
                random_state=0,
            )
            if repeat == 0:
                model.set_params(max_iter=3)  # compiles
            model.fit(X, y, callbacks=[clock.end_round])
            clock.seconds["derivatives"].pop(0)  # those of the start
            parts = {**clock.seconds, "round": np.diff(clock.ends)}  # without the first round
            for part, seconds in parts.items() if repeat else ():
                seen[s].setdefault(part, []).extend(seconds)
            shares[s] = float(np.mean(clock.fitted)), float(np.mean(clock.leaves))
    everything = float(np.quantile(seen["all"]["round"], 0.1))
    rows = []
    for s in names:
        ms = {part: 1e3 * float(np.quantile(seconds, 0.1)) for part, seconds in seen[s].items()}
        rows.append(
            {
                "set": name, "trees": trees, "sampling": s, "fitted": shares[s][0], "leaves": shares[s][1],
                "round ms": ms["round"], "÷ all": ms["round"] / (1e3 * everything),
                **{f"{part} ms": ms[part] for part in ("derivatives", "draw", "trees", "scores")},
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("protein", "sticky"))
    parser.add_argument("--trees", choices=("per_label", "shared"))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    clock, note = Clock(), " ".join((__doc__ or "").split("\n\n")[2].split())
    for name in (arguments.only,) if arguments.only else ("protein", "sticky"):
        for trees in (arguments.trees,) if arguments.trees else ("per_label", "shared"):
            rows = measured(clock, name, trees, arguments.repeats)
            report.write("sampling", rows, note=note, key=("set", "trees", "sampling"))


if __name__ == "__main__":
    main()
