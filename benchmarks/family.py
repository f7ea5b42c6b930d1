"""The family on NETtalk: letters and words right, beside the sliding windows of Dietterich and Ashenfelter (2002).

python benchmarks/family.py [--only "sliding window,HMM"]

1,000 words to train on, 1,000 to test on, 134 pairs of phoneme and stress; window ±3 letters for all that have one.
Windows are labelled by scikit-learn's HistGradientBoosting (30 rounds at learning rate 0.1; its default, no penalty on
leaves, diverges with so many labels: 4 % of the training letters right) and by a decision tree, which is nearer to what
there was in 2002. Seconds are CPU seconds of training. Rows that are there are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

import report
from data import load
from seqboost import HMM, IOHMM, MEMM, LinearCRF, RecurrentSlidingWindow, SlidingWindow, TreeCRF, VotedPerceptron

SOURCE = {
    "sliding window": (69.6, 12.5),
    "recurrent, left to right": (67.9, 17.0),
    "recurrent, right to left": (74.2, 24.4),
}
BOOSTED = HistGradientBoostingClassifier(
    max_iter=30, learning_rate=0.1, l2_regularization=10.0, early_stopping=False, random_state=0
)
TREE = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)


def labellers() -> dict[str, Any]:
    """Return labellers by name."""
    found: dict[str, Any] = {}
    for kind, estimator in (("tree", TREE), ("boosted", BOOSTED)):
        found |= {
            f"sliding window, {kind}": SlidingWindow(estimator, window=3),
            f"recurrent, left to right, {kind}": RecurrentSlidingWindow(estimator, window=3, order=3),
            f"recurrent, right to left, {kind}": RecurrentSlidingWindow(
                estimator, window=3, order=3, direction="right_to_left"
            ),
            f"recurrent, right to left, trained on predicted labels, {kind}": RecurrentSlidingWindow(
                estimator, window=3, order=3, direction="right_to_left", training="predicted"
            ),
        }
    common = {"window": 3, "random_state": 0}
    return found | {
        "HMM, order 1": HMM(),
        "HMM, order 2": HMM(order=2),
        "MEMM": MEMM(**common, learning_rate=0.25),
        "LinearCRF, lbfgs": LinearCRF(window=3, max_iter=100),
        "LinearCRF, passive-aggressive": LinearCRF(window=3, algorithm="passive-aggressive"),
        "VotedPerceptron, averaged": VotedPerceptron(**common),
        "IOHMM, 20 states": IOHMM(n_states=20, max_iter=5, random_state=0),
        "TreeCRF": TreeCRF(**common, learning_rate=0.25),
    }


def main() -> None:
    """Fit all labellers that have no row yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    split = load("nettalk")[0]
    for name, labeller in labellers().items():
        path = report.RESULTS / "family.json"
        there = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
        if any(row["labeller"] == name for row in there) or not _wanted(name, arguments.only):
            continue
        began = time.process_time()
        model = labeller.fit(split.X_train, split.y_train)
        seconds = time.process_time() - began
        right = [np.asarray(p) == y for p, y in zip(model.predict(split.X_test), split.y_test, strict=True)]
        source = next((figures for kind, figures in SOURCE.items() if name.startswith(kind)), (None, None))
        row = {
            "labeller": name,
            "letters %": round(100 * float(np.concatenate(right).mean()), 1),
            "words %": round(100 * float(np.mean([r.all() for r in right])), 1),
            "letters % (2002)": source[0],
            "words % (2002)": source[1],
            "fit CPU s": round(seconds, 1),
        }
        if "decoding" in model.get_params():
            paths = model.set_params(decoding="viterbi").predict(split.X_test)
            whole = [np.all(np.asarray(p) == y) for p, y in zip(paths, split.y_test, strict=True)]
            row["words %, Viterbi"] = round(100 * float(np.mean(whole)), 1)
        print(row, flush=True)
        report.write("family", [row], note=(__doc__ or "").splitlines()[0], key=("labeller",))


def _wanted(name: str, only: str) -> bool:
    return not only or any(name.startswith(part) for part in only.split(","))


if __name__ == "__main__":
    main()
