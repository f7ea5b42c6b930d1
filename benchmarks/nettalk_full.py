"""NETtalk with all its labels: ways to train, chosen by held-out words of the training part.

python benchmarks/nettalk_full.py

Window ±6, factored potentials; a tenth of the training words is held out for early stopping, and its log-likelihood
chooses among the ways. Letters and whole words right are those of the test words, whole words by Viterbi decoding.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import report
from data import load
from seqboost import Method

COMMON: dict[str, Any] = {
    "window": 6, "potentials": "factored", "trees": "per_label",
    "learning_rate": 0.5, "min_samples_leaf": 10, "refit": False, "random_state": 0,
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "shared trees": {"trees": "shared"},
    "shared trees, 63 leaves": {"trees": "shared", "max_leaf_nodes": 63},
    "shared trees, linear start": {"trees": "shared", "init": "linear"},
    "shared trees, order 2, seen contexts": {"trees": "shared", "order": 2, "method": Method(contexts="seen")},
}


def main() -> None:
    """Fit all ways; mark the one that the held-out words prefer."""
    from seqboost import TreeCRF

    split = load("nettalk")[0]
    rows = []
    for way, settings in WAYS.items():
        start = time.perf_counter()
        model = TreeCRF(**{**COMMON, **settings}).fit(split.X_train, split.y_train)
        seconds = time.perf_counter() - start
        right = [np.asarray(p) == y for p, y in zip(model.predict(split.X_test), split.y_test, strict=True)]
        paths = model.set_params(decoding="viterbi").predict(split.X_test)
        words = [np.all(np.asarray(p) == y) for p, y in zip(paths, split.y_test, strict=True)]
        row = {
            "way": way,
            "held-out log-likelihood": round(model.best_score_, 4),
            "letters %": round(100 * float(np.mean(np.concatenate(right))), 2),
            "words %": round(100 * float(np.mean([r.all() for r in right])), 1),
            "words %, Viterbi": round(100 * float(np.mean(words)), 1),
            "rounds": model.best_iteration_,
            "fit s": round(seconds, 1),
        }
        print(row, flush=True)
        rows.append(row)
    best = max(rows, key=lambda row: row["held-out log-likelihood"])
    rows = [{**row, "chosen": "yes" if row is best else ""} for row in rows]
    report.write("nettalk_full", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
