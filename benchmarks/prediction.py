"""Speed of prediction on one core: 100 rounds × 3 labels × 31 leaves, against LightGBM's own predict.

python benchmarks/prediction.py

Both are trained on the protein data with ±5 windows and predict the same rows (the training sequences, repeated).
LightGBM's window rows are laid out beforehand and not timed; TreeCRF's time includes reading the user's sequences,
binning and decoding.
"""

from __future__ import annotations

import argparse
from typing import Any

import lightgbm as lgb
import numpy as np

import report
from data import load
from measure import median_seconds
from peers import window_rows

WINDOW, N_ROUNDS, N_LEAVES, REPEAT = 5, 100, 31, 5


def lightgbm_rows_per_second(X: list[str], y: list[np.ndarray], categorical: bool) -> float:
    """Rows a second of LightGBM's predict, one thread."""
    rows, _, _ = window_rows(X, WINDOW)
    rows = rows.astype(np.float32)
    labels = np.unique(np.concatenate(y), return_inverse=True)[1]
    columns: Any = list(range(rows.shape[1])) if categorical else "auto"
    parameters = {
        "objective": "multiclass", "num_class": 3, "num_leaves": N_LEAVES, "num_threads": 1, "verbosity": -1,
    }  # fmt: skip
    booster = lgb.train(parameters, lgb.Dataset(rows, labels, categorical_feature=columns), N_ROUNDS)
    many = np.vstack([rows] * REPEAT)
    return len(many) / median_seconds(lambda: booster.predict(many, num_threads=1))


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-only", action="store_true")
    arguments = parser.parse_args()
    split = load("protein")[0]
    X, y = split.X_train, split.y_train
    speed = {
        "LightGBM, categories": lightgbm_rows_per_second(X, y, categorical=True),
        "LightGBM, numeric codes": lightgbm_rows_per_second(X, y, categorical=False),
    }
    if not arguments.peers_only:
        from seqboost import TreeCRF

        model = TreeCRF(
            window=WINDOW, max_iter=N_ROUNDS, max_leaf_nodes=N_LEAVES, potentials="joint", early_stopping=False,
            trees="per_label", n_jobs=1, random_state=0,
        ).fit(X, y)  # fmt: skip
        many = X * REPEAT
        n_rows = sum(map(len, many))
        for decoding in ("posterior", "viterbi"):
            model.set_params(decoding=decoding)
            model.predict(X[:1])
            speed[f"TreeCRF, {decoding}"] = n_rows / median_seconds(lambda: model.predict(many))
    peer = max(value for what, value in speed.items() if what.startswith("LightGBM"))
    rows = [
        {"what": what, "positions/s": round(value), "× faster LightGBM": value / peer} for what, value in speed.items()
    ]
    for row in rows:
        print(row)
    report.write("prediction", rows, note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
