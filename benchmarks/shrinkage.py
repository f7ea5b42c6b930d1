"""Shrinkage of leaves against a limit on leaves, as in the literature's table 3.4.

python benchmarks/shrinkage.py [--only protein,hyphen,stress]

Shrinkage: 100 leaves, λ chosen by cross-validation. Original: λ = 0, the number of leaves chosen by cross-validation.
Both with the papers' leaf values (means of gradients, step 1), joint potentials, rounds chosen along with them; only
training sequences choose. Stars mark the better of a pair: * p < 0.025, ** p < 0.005, *** p < 0.001 (McNemar).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold

import report
from accuracy import similar
from data import load
from seqboost import Method
from seqboost.evaluation import mcnemar

PAPER = {"method": Method(curvature="count", step="fixed"), "learning_rate": 1.0, "potentials": "joint",
         "min_samples_leaf": 1, "trees": "per_label", "random_state": 0}  # fmt: skip
PENALTIES, LEAVES = (10.0, 40.0, 160.0, 640.0, 2560.0, 10240.0), (3, 5, 10, 20, 40, 80)
ROUTES = {
    "shrinkage": [{**PAPER, "max_leaf_nodes": 100, "l2_regularization": x} for x in PENALTIES],
    "original": [{**PAPER, "max_leaf_nodes": n, "l2_regularization": 0.0} for n in LEAVES],
}
WINDOWS = {"protein": 5, "hyphen": 0, "stress": 6}
ROUNDS = 250


def chosen(name: str, X: list[Any], y: list[np.ndarray], route: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the setting, rounds included, with the best log-likelihood in cross-validation."""
    from seqboost import TreeCRF

    groups = similar(X) if name == "protein" else list(range(len(X)))
    best: tuple[float, dict[str, Any]] = (-np.inf, {})
    for settings in route:
        curves = []
        for kept, held in GroupKFold(4, shuffle=True, random_state=0).split(X, groups=groups):
            model = TreeCRF(window=WINDOWS[name], max_iter=ROUNDS, n_iter_no_change=ROUNDS, **settings)
            X_val, y_val = [X[i] for i in held], [y[i] for i in held]
            model.fit([X[i] for i in kept], [y[i] for i in kept], X_val=X_val, y_val=y_val)
            curves.append(np.array(model.history_["validation_score"]) * sum(map(len, y_val)))
        curve = np.sum(curves, axis=0) / sum(map(len, y))
        rounds = int(curve.argmax())
        if curve[rounds] > best[0]:
            best = curve[rounds], {**settings, "max_iter": max(1, rounds)}
    return best[1]


def stars(p: float) -> str:
    """Return the stars of a significance."""
    return "*" * sum(p < limit for limit in (0.025, 0.005, 0.001))


def main() -> None:
    """Run the sets asked for."""
    from seqboost import TreeCRF

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(WINDOWS))
    for name in parser.parse_args().only.split(","):
        split = load(name)[0]
        fitted = {}
        for route, options in ROUTES.items():
            settings = chosen(name, split.X_train, split.y_train, options)
            model = TreeCRF(window=WINDOWS[name], early_stopping=False, **settings)
            fitted[route] = model.fit(split.X_train, split.y_train), settings
        for decoding in ("posterior", "viterbi"):
            labels = {
                route: [np.asarray(p) for p in model.set_params(decoding=decoding).predict(split.X_test)]
                for route, (model, _) in fitted.items()
            }
            truth = np.concatenate(split.y_test)
            accuracy = {route: 100 * float(np.mean(np.concatenate(p) == truth)) for route, p in labels.items()}
            p = mcnemar(split.y_test, labels["shrinkage"], labels["original"]).pvalue
            better = max(accuracy, key=lambda route: accuracy[route])
            row: dict[str, Any] = {"set": name, "decoding": decoding}
            for route, (_, settings) in fitted.items():
                row[route] = f"{accuracy[route]:.2f}{stars(p) if route == better else ''}"
                row[f"{route}: chosen"] = {k: settings[k] for k in ("max_leaf_nodes", "l2_regularization", "max_iter")}
            row["p"] = p
            print(row, flush=True)
            report.write("shrinkage", [row], key=("set", "decoding"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
