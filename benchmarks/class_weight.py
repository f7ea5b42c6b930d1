"""Recall and precision of rare events against class_weight, beside LightGBM on windows.

python benchmarks/class_weight.py [--costs] [--sets hyphen,protein,stress,occupancy]

Synthetic recordings: 1 % of the positions lie in events, which move one column by 1.6 standard deviations and last 10
positions on average (make_rare_events, 150 training and 400 test sequences of 400 positions). LightGBM sees the columns
of the positions within 6; its number of rounds is chosen on a fifth of the training sequences by its weighted log-loss,
and it is fitted again on all of them. `TreeCRF()` chooses by itself; its weights multiply the odds of the posteriors.
"weighted terms" is `Method(objective="position_likelihood")`, whose weights are in the terms of its objective.
The last column is what class weights are to lower: the weighted log-loss of the test labels. "costs" is the cost of a
missed event, `predict(X, costs={(1, 0): cost})`, for which F1 is highest on a fifth of the training sequences, by a
model of the other ones; LightGBM's threshold is chosen in the same way. With --costs these alone. With --sets: the mean
recall of the labels of benchmark data, without weights and with "balanced" ones by both ways (λ = 100, joint
potentials, one window for all three).
"""

from __future__ import annotations

import argparse
from typing import Any

import lightgbm as lgb
import numpy as np
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score, log_loss

import report
from data import load
from peers import window_rows
from seqboost import Method, TreeCRF
from seqboost.datasets import make_rare_events

WEIGHTS: tuple[Any, ...] = (None, {1: 2.0}, {1: 5.0}, {1: 20.0}, "balanced")
COSTS = (1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100)
WINDOW, MAX_ROUNDS = 6, 500
SETS = {"hyphen": 0, "protein": 4, "stress": 6, "occupancy": 6}  # windows

Found = tuple[np.ndarray, np.ndarray]


def treecrf(
    weight: Any, X: list[np.ndarray], y: list[np.ndarray], X_test: list[np.ndarray], objective: str = "likelihood"
) -> Found:
    """Return labels and probabilities of label 1."""
    model = TreeCRF(class_weight=weight, method=Method(objective=objective), random_state=0).fit(X, y)
    return np.concatenate(model.predict(X_test)), np.concatenate(model.predict_proba(X_test))[:, 1]


def lightgbm(weight: Any, X: list[np.ndarray], y: list[np.ndarray], X_test: list[np.ndarray]) -> Found:
    """Return the same of LightGBM on windows."""
    n_held = len(X) // 5
    held, rest = (X[:n_held], np.concatenate(y[:n_held])), (X[n_held:], np.concatenate(y[n_held:]))
    settings = {"class_weight": weight, "learning_rate": 0.05, "random_state": 0, "n_jobs": 1, "verbose": -1}
    first = lgb.LGBMClassifier(n_estimators=MAX_ROUNDS, **settings)
    weights = weights_of(weight, np.concatenate(y))
    first.fit(
        window_rows(rest[0], WINDOW)[0], rest[1], eval_X=(window_rows(held[0], WINDOW)[0],), eval_y=(held[1],),
        eval_sample_weight=[weights[held[1]]], callbacks=[lgb.early_stopping(30, verbose=False)],
    )  # fmt: skip
    model = lgb.LGBMClassifier(n_estimators=max(1, first.best_iteration_), **settings)
    model.fit(window_rows(X, WINDOW)[0], np.concatenate(y))
    rows = window_rows(X_test, WINDOW)[0]
    return model.predict(rows), model.predict_proba(rows)[:, 1]


def weighted_terms(weight: Any, *data: Any) -> Found:
    """Return the same of TreeCRF with weights in the terms of its objective."""
    return treecrf(weight, *data, objective="position_likelihood")


def chosen_cost(fit: Any, X: list[np.ndarray], y: list[np.ndarray]) -> float:
    """Return the cost of a missed event with the highest F1 on a fifth of the training sequences."""
    n_held = len(X) // 5
    prob = fit(None, X[n_held:], y[n_held:], X[:n_held])[1]
    true = np.concatenate(y[:n_held])
    return max(COSTS, key=lambda cost: f1_score(true, cost * prob > 1 - prob))


def costly_treecrf(cost: float, X: list[np.ndarray], y: list[np.ndarray], X_test: list[np.ndarray]) -> Found:
    """Return the labels of least cost, and probabilities of label 1."""
    model = TreeCRF(random_state=0).fit(X, y)
    said = model.predict(X_test, costs={(1, 0): cost})
    return np.concatenate(said), np.concatenate(model.predict_proba(X_test))[:, 1]


def costly_lightgbm(cost: float, *data: Any) -> Found:
    """Return the same of LightGBM on windows."""
    prob = lightgbm(None, *data)[1]
    return (cost * prob > 1 - prob).astype(int), prob


def weights_of(weight: Any, y: np.ndarray) -> np.ndarray:
    """Return the weights of labels 0 and 1."""
    if weight == "balanced":
        return np.array([0.5 / np.mean(y == k) for k in (0, 1)])
    return np.array([1.0, weight[1] if weight else 1.0])


LABELLERS = {"TreeCRF()": treecrf, "weighted terms": weighted_terms, f"LightGBM, window {WINDOW}": lightgbm}
COSTLY = {"TreeCRF()": costly_treecrf, f"LightGBM, window {WINDOW}": costly_lightgbm}


def described(weight: str, name: str, found: Found, true: np.ndarray, of_labels: np.ndarray) -> dict[str, Any]:
    """Return a row of the table."""
    said, prob = found
    right = float(np.sum((said == 1) & (true == 1)))
    return {
        "class_weight": weight, "labeller": name, "labelled 1, %": 100 * float(said.mean()),
        "recall, %": 100 * right / true.sum(),
        "precision, %": 100 * right / said.sum() if said.any() else None,
        "average precision": float(average_precision_score(true, prob)),
        "weighted log-loss": float(log_loss(true, prob, sample_weight=of_labels[true])),
    }  # fmt: skip


def mean_recall(name: str) -> dict[str, Any]:
    """Return the mean recall of the labels of a set."""
    split = load(name)[0]
    settings: dict[str, Any] = {
        "window": SETS[name], "potentials": "joint", "l2_regularization": 100.0, "random_state": 0,
    }  # fmt: skip
    row: dict[str, Any] = {"set": name}
    for column, ways in (
        ("no weights", {}), ("balanced", {"class_weight": "balanced"}),
        ("balanced, weighted terms", {"class_weight": "balanced", "method": Method(objective="position_likelihood")}),
    ):  # fmt: skip
        said = TreeCRF(**settings, **ways).fit(split.X_train, split.y_train).predict(split.X_test)
        row[f"{column}, %"] = 100 * balanced_accuracy_score(np.concatenate(split.y_test), np.concatenate(said))
    return row


def main() -> None:
    """Run every weight with every labeller, or the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="")
    parser.add_argument("--costs", action="store_true")
    arguments = parser.parse_args()
    sets, only_costs = arguments.sets, arguments.costs
    for name in filter(None, sets.split(",")):
        row = mean_recall(name)
        print(row, flush=True)
        command = f"python benchmarks/class_weight.py --sets {','.join(SETS)}"
        note = 'Mean recall of the labels with class_weight="balanced".'
        report.write("class_weight_sets", [row], key=("set",), note=note, command=command)
    if sets:
        return
    X, y = make_rare_events(150, random_state=0)
    X_test, y_test = make_rare_events(400, random_state=1)
    true = np.concatenate(y_test)
    rows = []
    for weight in () if only_costs else WEIGHTS:
        of_labels = weights_of(weight, np.concatenate(y))
        for name, fit in LABELLERS.items():
            rows.append(described(str(weight), name, fit(weight, X, y, X_test), true, of_labels))
            print(rows[-1], flush=True)
    for name, fit in COSTLY.items():
        cost = chosen_cost(LABELLERS[name], X, y)
        rows.append(described(f"costs={{(1, 0): {cost}}}", name, fit(cost, X, y, X_test), true, np.ones(2)))
        print(rows[-1], flush=True)
    note = f"{(__doc__ or '').splitlines()[0]} Truly 1: {100 * true.mean():.2f} %."
    report.write("class_weight", rows, key=("class_weight", "labeller"), note=note)


if __name__ == "__main__":
    main()
