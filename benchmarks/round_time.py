"""Time of a whole boosting round, with shared trees and with a tree per label, beside a naive TreeCRF on LightGBM.

python benchmarks/round_time.py [--only protein] [--quick]

A round is forward–backward, derivatives, trees of 31 leaves and the update of the scores. Sets: protein (3 labels) and
stress (5 labels); joint potentials, window ±6, all other settings the defaults, of which shared trees are one. One
thread, time of the processor; the three take turns, median over rounds of all turns. "late ÷ early" compares rounds
191–200 with rounds 3–12. The naive TreeCRF has a LightGBM booster for each label on expanded rows, one for each
position and label before; its forward–backward is a compiled loop.
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
from measure import round_clock, use_one_thread
from peers import window_rows

SETS, WINDOW, N_LEAVES = ("protein", "stress"), 6, 31
TREES = {"shared": "TreeCRF, shared trees (default)", "per_label": "TreeCRF, a tree per label"}
NAIVE = "naive TreeCRF on LightGBM"
EARLY, LATE = slice(1, 11), slice(-10, None)  # of times of rounds from the second on


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
    """Boost a TreeCRF with LightGBM on expanded rows; return the seconds of its rounds, and those of trees alone."""
    labels = np.unique(np.concatenate(y), return_inverse=True)[1]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in y])])
    K, n_rows = int(labels.max()) + 1, int(offsets[-1])
    rows, _, _ = window_rows(X, WINDOW)
    expanded = np.column_stack([np.repeat(rows, K, axis=0), np.tile(np.arange(K), n_rows)]).astype(np.float32)
    parameters = {
        "objective": "none", "num_leaves": N_LEAVES, "learning_rate": 0.5, "num_threads": 1, "verbosity": -1,
        "lambda_l2": 1.0, "min_sum_hessian_in_leaf": 0.0, "max_bin": 255, "force_row_wise": True,
    }  # fmt: skip
    data = lgb.Dataset(expanded, np.zeros(len(expanded)), params=parameters).construct()
    boosters = [lgb.Booster(parameters, data) for _ in range(K)]
    scores, gradient = np.zeros((n_rows, K, K)), np.zeros((n_rows, K, K))
    counts = np.ones(n_rows * K)  # the papers' leaf values: sums of gradients over numbers of examples
    pair_gradients(scores, labels, offsets, gradient)
    tree_seconds, chain_seconds = [], []
    for _ in range(n_rounds):
        start = time.process_time()
        pair_gradients(scores, labels, offsets, gradient)
        derivatives = [-np.ascontiguousarray(gradient[:, :, k]).ravel() for k in range(K)]
        chain_seconds.append(time.process_time() - start)

        start = time.process_time()
        for k, booster in enumerate(boosters):
            booster.update(fobj=partial(_given, (derivatives[k], counts)))
        tree_seconds.append(time.process_time() - start)
        for k, booster in enumerate(boosters):
            # The only public way to the scores of the training rows.
            booster.eval_train(feval=partial(_keep, scores, k))
    return [sum(parts) for parts in zip(tree_seconds, chain_seconds, strict=True)], tree_seconds


def _given(derivatives: tuple[np.ndarray, np.ndarray], *_: Any) -> tuple[np.ndarray, np.ndarray]:
    return derivatives


def _keep(scores: np.ndarray, k: int, predictions: np.ndarray, *_: Any) -> tuple[str, float, bool]:
    scores[:, :, k] = predictions.reshape(scores.shape[:2])
    return "kept", 0.0, True


def own_rounds(split: Any, trees: str, n_rounds: int) -> tuple[list[float], list[float]]:
    """Fit a TreeCRF; return the seconds of its rounds, and those of growing trees and adding them to the scores."""
    from seqboost import TreeCRF

    model = TreeCRF(
        window=WINDOW, potentials="joint", trees=trees, max_iter=n_rounds, max_leaf_nodes=N_LEAVES,
        early_stopping=False, n_jobs=1, random_state=0,
    )  # fmt: skip
    with round_clock() as clock:
        model.fit(split.X_train, split.y_train, callbacks=[clock.end_round, clock.begin_round])
    return clock.rounds, clock.growth[1:]


def measured(name: str, n_rounds: int, repeats: int) -> list[dict[str, Any]]:
    """Time the rounds of all three, in turns."""
    split = load(name)[0]
    found: dict[str, list[tuple[list[float], list[float]]]] = {what: [] for what in (*TREES.values(), NAIVE)}
    for trees in TREES:
        own_rounds(split, trees, 2)  # compiles
    for _ in range(repeats):
        for trees, what in TREES.items():
            found[what].append(own_rounds(split, trees, n_rounds))
        found[NAIVE].append(naive_rounds(split.X_train, split.y_train, max(4, n_rounds // 4)))
    rows = []
    for what, fits in found.items():
        whole, growth = (1e3 * np.array([fit[part] for fit in fits]) for part in (0, 1))
        row: dict[str, Any] = {"set": name, "what": what, "round ms": float(np.median(whole))}
        row |= {"trees and scores ms": float(np.median(growth)), "rest ms": float(np.median(whole - growth))}
        if what != NAIVE:
            early, late = (float(np.median(whole[:, part])) for part in (EARLY, LATE))
            row |= {"early ms": early, "late ms": late, "late ÷ early": late / early}
        rows.append(row)
        print(row, flush=True)
    return rows


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SETS)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs; writes no report")
    arguments = parser.parse_args()
    use_one_thread()
    size = (24, 1) if arguments.quick else (arguments.rounds, arguments.repeats)
    names = (arguments.only,) if arguments.only else SETS
    rows = [row for name in names for row in measured(name, *size)]
    if not arguments.quick:
        note = " ".join((__doc__ or "").split("\n\n")[2].split())
        report.write("round_time", rows, note=note, key=("set",) if arguments.only else ())


if __name__ == "__main__":
    main()
