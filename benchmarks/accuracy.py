"""Accuracy of TreeCRF and its peers on every data set.

python benchmarks/accuracy.py [--only protein,stress] [--cv] [--peers-only | --no-peers]

Recordings (rfid_activity, gesture_phase) are held out whole, each once, and the predictions of all folds are scored
together. ``--cv`` chooses TreeCRF's settings from a small grid by cross-validation on the training sequences alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

import report
from data import LOADERS, Split, crfsuite_attributes, indicator_rows, load
from peers import Outcome, crfsuite, cut_long, lightgbm_windows, mcnemar, span_f1


@dataclass(frozen=True)
class Task:
    """How one set is run: TreeCRF's settings, the grid of ``--cv``, and the windows of the peers."""

    settings: dict[str, Any]
    grid: dict[str, list[Any]] = field(default_factory=dict)
    lightgbm: tuple[int, ...] = ()
    lightgbm_rounds: int = 300
    crfsuite: tuple[int, ...] = ()
    penalties: tuple[float, ...] = (0.1, 1.0, 10.0, 50.0)
    spans: bool = False


LEAVES = {"max_leaf_nodes": [8, 15, 31], "max_iter": [50, 100, 200]}
NUMERIC = (0, 2, 5)
TASKS: dict[str, Task] = {
    "protein": Task({"window": 5}, LEAVES, (5,), crfsuite=(5,)),
    "stress": Task({"window": 6}, LEAVES, (6,), crfsuite=(6,)),
    "hyphen": Task({"window": 0}, LEAVES, (0,), crfsuite=(0,)),
    "nettalk": Task({"window": 6, "potentials": "factored"}, LEAVES, (6,), 60, (3,), (0.1,)),
    "conll2000": Task({"window": 0, "decoding": "viterbi"}, crfsuite=(0,), penalties=(1.0,), spans=True),
    "rfid_activity": Task({"window": 5}, LEAVES, NUMERIC, crfsuite=(2,), penalties=(1.0,)),
    "gesture_phase": Task({"window": 5}, LEAVES, NUMERIC, crfsuite=(2,), penalties=(1.0,)),
    "occupancy": Task({"window": 5}, LEAVES, NUMERIC, crfsuite=(2,), penalties=(1.0,)),
    "S1": Task({"window": 5}, LEAVES, (5,), crfsuite=(3,)),
    "S2": Task({"window": 0}, LEAVES, (0, 1), 60, (0,), (0.1,)),
    "S3": Task({"window": 0}, LEAVES, (0, 2), crfsuite=(1,), penalties=(1.0,)),
}


def tree_crf(name: str, split: Split, choose: bool) -> Outcome:
    """Fit TreeCRF with the set's settings, or with those that cross-validation on the training sequences prefers."""
    from seqboost import TreeCRF

    task = TASKS[name]
    X_train, X_test = split.X_train, split.X_test
    if name == "conll2000":
        train, test = ([crfsuite_attributes(s) for s in X] for X in (X_train, X_test))
        X_train, X_test, _ = indicator_rows(train, test)
    model = TreeCRF(random_state=0, **task.settings)
    chosen: dict[str, Any] = {}
    if choose and task.grid:
        folds = KFold(3, shuffle=True, random_state=0)
        search = GridSearchCV(model.set_params(early_stopping=False), task.grid, cv=folds, refit=False)
        chosen = search.fit(*cut_long(X_train, split.y_train)).best_params_
        model.set_params(**chosen)
    start = time.perf_counter()
    model.fit(X_train, split.y_train)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    done = time.perf_counter()
    settings = {**task.settings, **chosen, "rounds": getattr(model, "n_iter_", None)}
    return Outcome("TreeCRF", [np.asarray(p) for p in predicted], fitted - start, done - fitted, settings)


def peers(name: str, split: Split) -> list[Outcome]:
    """Run all peers of a set."""
    task = TASKS[name]
    outcomes = [o for w in task.lightgbm for o in lightgbm_windows(split, w, task.lightgbm_rounds)]
    with tempfile.TemporaryDirectory() as folder:
        for w in task.crfsuite:
            outcomes += crfsuite(split, w, str(Path(folder) / "model"), task.penalties)
    return outcomes


def run(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one set; one row for each method, all folds together."""
    truth: list[np.ndarray] = []
    pooled: dict[str, list[Outcome]] = {}
    for split in load(name):
        truth += split.y_test
        outcomes = [] if arguments.peers_only else [tree_crf(name, split, arguments.cv)]
        outcomes += [] if arguments.no_peers else peers(name, split)
        for outcome in outcomes:
            pooled.setdefault(outcome.name, []).append(outcome)

    labels = {method: [p for part in parts for p in part.labels] for method, parts in pooled.items()}
    rows = []
    for method, parts in pooled.items():
        right = np.concatenate(labels[method]) == np.concatenate(truth)
        row = {
            "set": name,
            "method": method,
            "accuracy %": round(100 * float(np.mean(right)), 2),
            "span F1 %": round(100 * span_f1(truth, labels[method]), 2) if TASKS[name].spans else None,
            "p against TreeCRF": mcnemar(truth, labels["TreeCRF"], labels[method]) if "TreeCRF" in labels else None,
            "fit s": round(sum(part.fit_seconds for part in parts), 2),
            "predict s": round(sum(part.predict_seconds for part in parts), 3),
            "settings": parts[0].settings,
        }
        print(row, flush=True)
        rows.append(row)
    return rows


def main() -> None:
    """Run the sets asked for; results of the others are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(TASKS), help="comma-separated names of sets")
    parser.add_argument("--cv", action="store_true", help="choose TreeCRF's settings by cross-validation")
    parser.add_argument("--peers-only", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := set(names) - set(LOADERS):
        parser.error(f"unknown sets {sorted(unknown)}; known are {sorted(LOADERS)}")
    for name in names:
        report.write("accuracy", run(name, arguments), key=("set", "method"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
