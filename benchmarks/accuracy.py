"""Accuracy of TreeCRF and its peers on every data set.

python benchmarks/accuracy.py [--only protein,stress] [--peers-only | --no-peers]

Recordings (rfid_activity, gesture_phase) are held out whole, each once, and the predictions of all folds are scored
together. Where a set has several settings, cross-validation on the training sequences alone chooses among them, and the
number of rounds; the model is then fitted to all training sequences. Folds never part similar proteins.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold

import report
from data import LOADERS, Split, crfsuite_attributes, indicator_rows, load
from peers import Outcome, crfsuite, cut_long, lightgbm_windows, span_f1
from seqboost import Method
from seqboost.evaluation import mcnemar


@dataclass(frozen=True)
class Task:
    """How one set is run: settings of TreeCRF to choose from, and the windows of the peers."""

    settings: tuple[dict[str, Any], ...]
    lightgbm: tuple[int, ...] = ()
    lightgbm_rounds: int = 300
    crfsuite: tuple[int, ...] = ()
    penalties: tuple[float, ...] = (0.1, 1.0, 10.0, 50.0)
    spans: bool = False


def variants(common: dict[str, Any], *changes: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return one setting for each change."""
    return tuple({**common, **change} for change in changes)


STRONG = {"l2_regularization": 200.0, "min_samples_leaf": 200, "max_features": 0.2, "max_leaf_nodes": 16}
LARGE = {"max_leaf_nodes": 63, "l2_regularization": 30.0}
ORDERS = ({"order": 1}, {"order": 2})
NUMERIC = (0, 2, 5)
TASKS: dict[str, Task] = {
    "protein": Task(
        variants({"window": 5}, {}, {"l2_regularization": 30.0}, STRONG, {**STRONG, "method": Method(n_bags=4)}),
        (5,), crfsuite=(5,),
    ),
    "stress": Task(variants({"window": 6}, {}, {"order": 2}, {"max_features": 0.3}), (6,), crfsuite=(6,)),
    "hyphen": Task(variants({}, {}, *({**LARGE, **order} for order in ORDERS)), (0,), crfsuite=(0,)),
    "nettalk": Task(({"window": 6, "max_iter": 300, "learning_rate": 0.25},), (6,), 60, (3,), (0.1,)),
    "conll2000": Task(({"decoding": "viterbi", "max_iter": 20},), crfsuite=(0,), penalties=(1.0,), spans=True),
    "rfid_activity": Task(({"window": 5},), NUMERIC, crfsuite=(2,), penalties=(1.0,)),
    "gesture_phase": Task(({"window": 2, "max_iter": 100},), NUMERIC, crfsuite=(2,), penalties=(1.0,)),
    # One recording to train on: folds of it say little about others, so TreeCRF() is taken as it comes.
    "occupancy": Task(({},), NUMERIC, crfsuite=(2,), penalties=(1.0,)),
    "S1": Task(
        variants({"window": 5}, {}, {"l2_regularization": 30.0}, {"potentials": "factored"}), (5,), crfsuite=(3,)
    ),
    "S2": Task(({},), (0, 1), 60, (0,), (0.1,)),
    "S3": Task(
        ({"potentials": "factored", "window": 0, "learning_rate": 1.0, "max_iter": 300},), (0, 2), crfsuite=(1,),
        penalties=(1.0,),
    ),
}  # fmt: skip


def similar(sequences: list[str], k: int = 4, share: float = 0.08) -> list[int]:
    """Group proteins that share more than ``share`` of their k-mers: homologues must not meet across folds."""
    mers = [{s[i : i + k] for i in range(len(s) - k + 1)} for s in sequences]
    group = list(range(len(sequences)))
    for i in range(len(mers)):
        for j in range(i):
            if len(mers[i] & mers[j]) > share * min(len(mers[i]), len(mers[j])):
                old, new = group[i], group[j]
                group = [new if g == old else g for g in group]
    return group


def chosen(name: str, X: list[Any], y: list[np.ndarray], n_folds: int = 8, n_times: int = 2) -> dict[str, Any]:
    """Return the settings, rounds included, with the best accuracy in cross-validation on training sequences.

    Settings differ by little more than the noise of one cross-validation, so it is done ``n_times``.
    """
    from seqboost import TreeCRF

    if len(X) < n_folds:
        X, y = cut_long(X, y)
    groups = similar(X) if name == "protein" else list(range(len(X)))
    best: tuple[float, dict[str, Any]] = (-1.0, {})
    for settings in TASKS[name].settings:
        right, rounds = 0.0, []
        folds = [GroupKFold(n_folds, shuffle=True, random_state=seed) for seed in range(n_times)]
        for kept, held in (parts for fold in folds for parts in fold.split(X, groups=groups)):
            parts = ([X[i] for i in kept], [y[i] for i in kept], [X[i] for i in held], [y[i] for i in held])
            model = TreeCRF(random_state=0, early_stopping=True, **settings)
            model.fit(parts[0], parts[1], X_val=parts[2], y_val=parts[3])
            right += model.history_["validation_accuracy"][model.best_iteration_] * sum(map(len, parts[3]))
            rounds.append(model.best_iteration_)
        accuracy = right / (n_times * sum(map(len, y)))
        print(f"  {name}: {100 * accuracy:.2f} % in cross-validation, rounds {rounds}, {settings}", flush=True)
        if accuracy > best[0]:
            best = accuracy, {**settings, "max_iter": round(float(np.mean(rounds))), "early_stopping": False}
    return best[1]


def tree_crf(name: str, split: Split) -> Outcome:
    """Fit TreeCRF with the set's settings, or with those that cross-validation on the training sequences prefers."""
    from seqboost import TreeCRF

    X_train, X_test = split.X_train, split.X_test
    if name == "conll2000":
        attributes = ([crfsuite_attributes(s) for s in X] for X in (X_train, X_test))
        X_train, X_test, _ = indicator_rows(*attributes)
    several = TASKS[name].settings
    settings = chosen(name, X_train, split.y_train) if len(several) > 1 else several[0]
    model = TreeCRF(random_state=0, **settings)
    start = time.perf_counter()
    model.fit(X_train, split.y_train)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    done = time.perf_counter()
    settings = {**settings, "rounds": model.best_iteration_}
    return Outcome("TreeCRF", [np.asarray(p) for p in predicted], fitted - start, done - fitted, settings)


def peers(name: str, split: Split) -> list[Outcome]:
    """Run all peers of a set."""
    task = TASKS[name]
    outcomes = [o for w in task.lightgbm for o in lightgbm_windows(split, w, task.lightgbm_rounds)]
    with tempfile.TemporaryDirectory() as folder:
        for w in task.crfsuite:
            outcomes += crfsuite(split, (w,), str(Path(folder) / "model"), task.penalties)
    return outcomes


def run(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one set; one row for each method, all folds together."""
    truth: list[np.ndarray] = []
    pooled: dict[str, list[Outcome]] = {}
    for split in load(name):
        truth += split.y_test
        outcomes = [] if arguments.peers_only else [tree_crf(name, split)]
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
            "p against TreeCRF": (
                mcnemar(truth, labels["TreeCRF"], labels[method]).pvalue if "TreeCRF" in labels else None
            ),
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
