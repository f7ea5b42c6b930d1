"""What longer label histories cost and bring with many labels: NETtalk's 126 pairs of phoneme and stress.

python benchmarks/higher_order.py [--orders 1,2,3] [--max-iter 500]

All contexts for order 1 (order 3 would have 2 million), seen ones for all orders; early stopping, two threads. The
literature prices a word at order 3 at 2.7e9 operations.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import report
from data import nettalk
from seqboost import Method, TreeCRF


def words_right(found: list[np.ndarray], truth: list[np.ndarray]) -> float:
    """Share of words whose labels are all right."""
    return float(np.mean([np.array_equal(a, b) for a, b in zip(found, truth, strict=True)]))


def measure(order: int, contexts: str, max_iter: int) -> dict[str, Any]:
    """Train on 1,000 words, predict 1,000 others."""
    data = nettalk()[0]
    settings: dict[str, Any] = {
        "window": 6, "potentials": "factored", "order": order, "method": Method(contexts=contexts),
        "trees": "per_label", "learning_rate": 0.5, "min_samples_leaf": 10, "refit": False,
    }  # fmt: skip
    TreeCRF(**settings, max_iter=1, n_jobs=2).fit(data.X_train[:50], data.y_train[:50])  # compiles
    model = TreeCRF(**settings, max_iter=max_iter, random_state=0, n_jobs=2)
    began = time.perf_counter()
    model.fit(data.X_train, data.y_train)
    trained = time.perf_counter()
    found = model.predict(data.X_test)
    predicted = time.perf_counter()
    seen = model._result.model.contexts
    best = model.set_params(decoding="viterbi").predict(data.X_test)
    return {
        "order": order,
        "contexts": contexts,
        "states": len(model.classes_) ** order + 1 if seen is None else seen.n_states,
        "arcs": (len(model.classes_) ** order + 1) * len(model.classes_) if seen is None else seen.n_arcs,
        "rounds": model.best_iteration_,
        "ms a round": 1e3 * float(np.min(model.history_["seconds"][1:])),
        "s to fit": trained - began,
        "s to predict": predicted - trained,
        "letters %": 100 * model.set_params(decoding="posterior").score(data.X_test, data.y_test),
        "words %": 100 * words_right(found, data.y_test),
        "words %, viterbi": 100 * words_right(best, data.y_test),
        "held-out log-likelihood": model.best_score_,
    }


def main() -> None:
    """Run the orders asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", default="1,2,3", help="separated by commas")
    parser.add_argument("--max-iter", type=int, default=500)
    arguments = parser.parse_args()
    orders = [int(order) for order in arguments.orders.split(",")]
    rows = []
    for order in orders:
        for contexts in ("all", "seen") if order == 1 else ("seen",):
            row = measure(order, contexts, arguments.max_iter)
            print(row, flush=True)
            rows.append(row)
    report.write("higher_order", rows, note=(__doc__ or "").splitlines()[0], key=("order", "contexts"))


if __name__ == "__main__":
    main()
