"""Time of a whole boosting round on the protein data, against a naive TreeCRF built on LightGBM.

python benchmarks/round_time.py

A round is forward–backward, gradient, one tree of 31 leaves for each label, and the update of the scores; joint
potentials, window ±5, two threads. The naive TreeCRF keeps one LightGBM booster for each label on the expanded
(position × previous label) rows; its forward–backward is a compiled loop, timed apart. Also: do rounds get slower?
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
from numba import njit

import report
from data import load
from peers import window_rows

WINDOW, N_LEAVES, N_THREADS = 5, 31, 2


@njit(cache=True)
def pair_gradients(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray, gradient: np.ndarray) -> None:
    """Gradient I(c, k) − P(c, k | X) of joint potentials by forward–backward.

    ``scores`` IN and ``gradient`` OUT are (n_rows, n_labels before, n_labels); at the first position of a sequence only
    the first slot of the label before is used.
    """
    K = scores.shape[2]
    for s in range(len(offsets) - 1):
        first, last = offsets[s], offsets[s + 1]
        potential = np.exp(scores[first:last] - np.max(scores[first:last]))
        alpha, beta = np.zeros((last - first, K)), np.ones((last - first, K))
        for t in range(last - first):
            for k in range(K):
                if t == 0:
                    alpha[t, k] = potential[0, 0, k]
                else:
                    for c in range(K):
                        alpha[t, k] += alpha[t - 1, c] * potential[t, c, k]
            alpha[t] /= alpha[t].sum()
        for t in range(last - first - 2, -1, -1):
            for c in range(K):
                beta[t, c] = (potential[t + 1, c] * beta[t + 1]).sum()
            beta[t] /= beta[t].sum()
        for t in range(last - first):
            total = 0.0
            for c in range(K):
                for k in range(K):
                    exists = t > 0 or c == 0
                    inflow = (alpha[t - 1, c] if t > 0 else 1.0) if exists else 0.0
                    gradient[first + t, c, k] = -inflow * potential[t, c, k] * beta[t, k]
                    total -= gradient[first + t, c, k]
            gradient[first + t] /= total
            before = labels[first + t - 1] if t > 0 else 0
            gradient[first + t, before, labels[first + t]] += 1.0


def naive_rounds(X: list[Any], y: list[np.ndarray], n_rounds: int) -> tuple[list[float], list[float]]:
    """Boost a TreeCRF with LightGBM on expanded rows; seconds of each round in trees and in forward–backward."""
    labels = np.unique(np.concatenate(y), return_inverse=True)[1]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in y])])
    K, n_rows = int(labels.max()) + 1, int(offsets[-1])
    rows, _, _ = window_rows(X, WINDOW)
    expanded = np.column_stack([np.repeat(rows, K, axis=0), np.tile(np.arange(K), n_rows)]).astype(np.float32)
    parameters = {
        "objective": "none", "num_leaves": N_LEAVES, "learning_rate": 0.5, "num_threads": N_THREADS, "verbosity": -1,
        "lambda_l2": 1.0, "min_sum_hessian_in_leaf": 0.0, "max_bin": 255, "force_row_wise": True,
    }  # fmt: skip
    data = lgb.Dataset(expanded, np.zeros(len(expanded)), params=parameters).construct()
    boosters = [lgb.Booster(parameters, data) for _ in range(K)]
    scores, gradient = np.zeros((n_rows, K, K)), np.zeros((n_rows, K, K))
    counts = np.ones(n_rows * K)  # the papers' leaf values: sums of gradients over numbers of examples
    pair_gradients(scores, labels, offsets, gradient)
    tree_seconds, chain_seconds = [], []
    for _ in range(n_rounds):
        start = time.perf_counter()
        pair_gradients(scores, labels, offsets, gradient)
        derivatives = [-np.ascontiguousarray(gradient[:, :, k]).ravel() for k in range(K)]
        chain_seconds.append(time.perf_counter() - start)

        start = time.perf_counter()
        for k, booster in enumerate(boosters):
            booster.update(fobj=partial(_given, (derivatives[k], counts)))
        tree_seconds.append(time.perf_counter() - start)
        for k, booster in enumerate(boosters):
            # The only public way to the scores of the training rows.
            booster.eval_train(feval=partial(_keep, scores, k))
    return tree_seconds, chain_seconds


def _given(derivatives: tuple[np.ndarray, np.ndarray], *_: Any) -> tuple[np.ndarray, np.ndarray]:
    return derivatives


def _keep(scores: np.ndarray, k: int, predictions: np.ndarray, *_: Any) -> tuple[str, float, bool]:
    scores[:, :, k] = predictions.reshape(scores.shape[:2])
    return "kept", 0.0, True


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--peers-only", action="store_true")
    arguments = parser.parse_args()
    split = load("protein")[0]
    trees, chain = naive_rounds(split.X_train, split.y_train, arguments.rounds)
    naive = {"trees ms": 1e3 * float(np.median(trees)), "forward–backward ms": 1e3 * float(np.median(chain))}
    rows: list[dict[str, Any]] = [
        {"what": "naive LightGBM TreeCRF, a round", "ms": sum(naive.values()), **naive},
    ]
    if not arguments.peers_only:
        rows += own_rounds(split)
    for row in rows:
        print(row)
    report.write("round_time", rows, note=(__doc__ or "").splitlines()[0])


def own_rounds(split: Any) -> list[dict[str, Any]]:
    """Time TreeCRF's rounds, and late rounds against early ones, as the history tells; the fastest of five fits."""
    from seqboost import TreeCRF

    def rounds(_: int) -> list[float]:
        model = TreeCRF(
            window=WINDOW, max_iter=200, max_leaf_nodes=N_LEAVES, potentials="joint", early_stopping=False,
            trees="per_label", n_jobs=N_THREADS, random_state=0,
        )  # fmt: skip
        return [1e3 * s for s in model.fit(split.X_train, split.y_train).history_["seconds"][1:]]

    seconds = np.array([rounds(repeat) for repeat in range(5)]).min(axis=0)  # other work on the machine only adds
    early, late = float(np.median(seconds[1:11])), float(np.median(seconds[190:]))
    return [
        {"what": "TreeCRF, a round", "ms": float(np.median(seconds))},
        {"what": "TreeCRF, a round of 2–11", "ms": early},
        {"what": "TreeCRF, a round of 191–200", "ms": late},
        {"what": "late ÷ early", "ms": late / early},
    ]


if __name__ == "__main__":
    main()
