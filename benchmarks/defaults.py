"""Choose the defaults of TreeCRF: cross-validation on the training parts of all sets.

python benchmarks/defaults.py [--only protein,stress] [--changes "learning_rate=0.25"]

Each change is made to the defaults alone; the number of rounds is left to early stopping. Points gained are those over
the defaults as they are, in cross-validation. A change that gains in the mean and loses nowhere more than its noise
becomes a default.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold

import report
from accuracy import similar
from data import LOADERS, crfsuite_attributes, indicator_rows, load, word_attributes
from peers import cut_long
from seqboost import Method

SETS = tuple(LOADERS)
ATTRIBUTES = {"conll2000": crfsuite_attributes, "ncbi_disease": word_attributes}
LARGEST = {
    "S3": 40, "S2": 150, "nettalk": 500, "rfid_activity": 40, "conll2000": 400, "ncbi_disease": 400, "letters": 300,
}  # fmt: skip
"""Sequences, to keep this within an hour or two."""

ROUNDS = {"gesture_phase": 100}
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "learning_rate=0.5": {"learning_rate": 0.5},
    "learning_rate=0.25": {"learning_rate": 0.25},
    "learning_rate=0.1": {"learning_rate": 0.1},
    "l2_regularization=3": {"l2_regularization": 3.0},
    "l2_regularization=30": {"l2_regularization": 30.0},
    "l2_regularization=100": {"l2_regularization": 100.0},
    "l2_regularization=1000": {"l2_regularization": 1000.0},
    "max_leaf_nodes=15": {"max_leaf_nodes": 15},
    "max_leaf_nodes=63": {"max_leaf_nodes": 63},
    "min_samples_leaf=10": {"min_samples_leaf": 10},
    "min_samples_leaf=50": {"min_samples_leaf": 50},
    "max_features=0.5": {"max_features": 0.5},
    "order=2": {"order": 2},
    "potentials=factored": {"potentials": "factored"},
    "potentials=joint": {"potentials": "joint"},
    "curvature=newton": {"method": Method(curvature="newton")},
    "n_bags=3": {"method": Method(n_bags=3)},
    "trees=per_label": {"trees": "per_label"},
    "trees=shared": {"trees": "shared"},
    "init=linear": {"init": "linear"},
    "init=labels": {"init": "labels"},
    "window=0": {"window": 0},
    "window=1": {"window": 1},
    "window=2": {"window": 2},
    "window=5": {"window": 5},
}


def data_of(name: str) -> tuple[list[Any], list[np.ndarray], list[int]]:
    """Return the training sequences of a set and the groups that folds must not part."""
    split = load(name)[0]
    X, y = split.X_train, split.y_train
    if name in LARGEST:
        drawn = np.sort(np.random.default_rng(0).permutation(len(X))[: LARGEST[name]])
        X, y = [X[i] for i in drawn], [y[i] for i in drawn]
    if name in ATTRIBUTES:
        X = indicator_rows([ATTRIBUTES[name](sentence) for sentence in X], [])[0]
    groups = similar(X) if name == "protein" else list(range(len(X)))
    if len(X) < 4:
        X, y = cut_long(X, y)
        groups = list(range(len(X)))
    return X, y, groups


def cross_validated(
    X: list[Any], y: list[np.ndarray], groups: list[int], settings: dict[str, Any]
) -> tuple[float, float]:
    """Return accuracy and log-likelihood per position; folds watch the rounds, as validation data of a user would.

    Labels that only the watching fold has are hidden from it.
    """
    from seqboost import TreeCRF

    right = likelihood = n_labels = 0.0
    for kept, held in GroupKFold(4, shuffle=True, random_state=0).split(X, groups=groups):
        known = set(np.concatenate([y[i] for i in kept]).tolist())
        X_val, y_val = [X[i] for i in held], [[k if k in known else None for k in y[i].tolist()] for i in held]
        model = TreeCRF(random_state=0, early_stopping=True, **settings)
        model.fit([X[i] for i in kept], [y[i] for i in kept], X_val=X_val, y_val=y_val)
        n_known = sum(k is not None for labels in y_val for k in labels)
        right += model.history_["validation_accuracy"][model.best_iteration_] * n_known
        likelihood += model.best_score_ * n_known
        n_labels += n_known
    return 100 * right / n_labels, likelihood / n_labels


def main() -> None:
    """Try the changes on the sets, and write one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--changes", default=";".join(CHANGES), help="names of changes, with ; between them")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := set(names) - set(SETS):
        parser.error(f"unknown sets {sorted(unknown)}; known are {SETS}")
    changes = list(dict.fromkeys(["as it is", *arguments.changes.split(";")]))
    for name in names:
        X, y, groups = data_of(name)
        base = 0.0
        for change in changes:
            start = time.perf_counter()
            accuracy, likelihood = cross_validated(X, y, groups, {"max_iter": ROUNDS.get(name, 500), **CHANGES[change]})
            base = base or accuracy
            row = {
                "set": name,
                "change": change,
                "accuracy %": round(accuracy, 2),
                "points gained": round(accuracy - base, 2),
                "log-likelihood": round(likelihood, 4),
                "s": round(time.perf_counter() - start, 1),
            }
            print(row, flush=True)
            report.write("defaults", [row], key=("change", "set"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
