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
from data import load
from peers import cut_long

# What a user says of the data, which no default can know.
SAID: dict[str, dict[str, Any]] = {
    "protein": {"window": 5},
    "stress": {"window": 6},
    "hyphen": {},
    "S1": {"window": 5},
    "S3": {"max_iter": 150},
    "nettalk": {"window": 6},
    "occupancy": {"window": 2},
    "gesture_phase": {"window": 2},
    "rfid_activity": {"window": 2},
}
LARGEST = {"S3": 40, "nettalk": 500, "rfid_activity": 40}  # sequences, to keep this within an hour
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "learning_rate=0.25": {"learning_rate": 0.25},
    "learning_rate=0.1": {"learning_rate": 0.1},
    "l2_regularization=3": {"l2_regularization": 3.0},
    "l2_regularization=30": {"l2_regularization": 30.0},
    "max_leaf_nodes=15": {"max_leaf_nodes": 15},
    "max_leaf_nodes=63": {"max_leaf_nodes": 63},
    "min_samples_leaf=20": {"min_samples_leaf": 20},
    "max_features=0.5": {"max_features": 0.5},
    "order=2": {"order": 2},
    "potentials=factored": {"potentials": "factored"},
    "curvature=newton, safe": {"curvature": "newton", "step": "safe", "learning_rate": 0.1},
    "n_bags=3": {"n_bags": 3},
    "trees=shared": {"trees": "shared"},
    "init=linear": {"init": "linear"},
}


def data_of(name: str) -> tuple[list[Any], list[np.ndarray], list[int]]:
    """Return the training sequences of a set and the groups that folds must not part."""
    split = load(name)[0]
    X, y = split.X_train, split.y_train
    if name in LARGEST:
        drawn = np.sort(np.random.default_rng(0).permutation(len(X))[: LARGEST[name]])
        X, y = [X[i] for i in drawn], [y[i] for i in drawn]
    groups = similar(X) if name == "protein" else list(range(len(X)))
    if len(X) < 4:
        X, y = cut_long(X, y)
        groups = list(range(len(X)))
    return X, y, groups


def cross_validated(
    X: list[Any], y: list[np.ndarray], groups: list[int], settings: dict[str, Any]
) -> tuple[float, float]:
    """Return accuracy and log-likelihood per position; folds watch the rounds, as validation data of a user would."""
    from seqboost import TreeCRF

    right = likelihood = 0.0
    for kept, held in GroupKFold(4, shuffle=True, random_state=0).split(X, groups=groups):
        X_val, y_val = [X[i] for i in held], [y[i] for i in held]
        model = TreeCRF(random_state=0, early_stopping=True, **settings)
        model.fit([X[i] for i in kept], [y[i] for i in kept], X_val=X_val, y_val=y_val)
        n_positions = sum(map(len, y_val))
        right += model.history_["validation_accuracy"][model.best_iteration_] * n_positions
        likelihood += model.best_score_ * n_positions
    n_positions = sum(map(len, y))
    return 100 * right / n_positions, likelihood / n_positions


def main() -> None:
    """Try the changes on the sets, and write one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SAID))
    parser.add_argument("--changes", default=";".join(CHANGES), help="names of changes, with ; between them")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    changes = list(dict.fromkeys(["as it is", *arguments.changes.split(";")]))
    for name in names:
        X, y, groups = data_of(name)
        base = 0.0
        for change in changes:
            start = time.perf_counter()
            accuracy, likelihood = cross_validated(X, y, groups, {**SAID[name], **CHANGES[change]})
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
