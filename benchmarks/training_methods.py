"""The literature's ways of training compared: log-likelihood and accuracy against time.

python benchmarks/training_methods.py [--only protein,hyphen,stress] [--rounds 100]

Every method grows joint trees of up to 31 leaves for the same number of rounds, without early stopping. "all" is the
papers' algorithm: leaves are means of the gradient, the step is 1, every example is used. The test sequences are
watched after each round for the curves, and choose nothing. p is McNemar's test of the last round against "all".
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import report
from data import Split, load
from seqboost import Method, TreeCRF
from seqboost.evaluation import mcnemar

PAPER = {"curvature": "count", "step": "fixed"}
OF_PAPER, OURS = {"learning_rate": 1.0, "l2_regularization": 0.0}, {"learning_rate": 0.5}
METHODS: dict[str, tuple[Method, dict[str, Any]]] = {
    "all": (Method(**PAPER), OF_PAPER),
    "1p/3n": (Method(**PAPER, sampling="1p/3n"), OF_PAPER),
    "0.5p/0.5n": (Method(**PAPER, sampling="0.5p/0.5n"), OF_PAPER),
    "balanced": (Method(**PAPER, sampling="balanced"), OF_PAPER),
    "pseudo-likelihood start": (Method(**PAPER, pseudo_likelihood_rounds=20), OF_PAPER),
    "LS": (Method(curvature="count", step="line_search"), OF_PAPER),
    "CG": (Method(**PAPER, direction="conjugate"), OF_PAPER),
    "CG+LS": (Method(curvature="count", step="line_search", direction="conjugate"), OF_PAPER),
    "Newton": (Method(curvature="newton", step="fixed"), {"learning_rate": 0.1}),
    "mixing": (Method(), OURS),
    "mixing, GOSS": (Method(sampling="goss"), OURS),
    "mixing, 5 bags": (Method(n_bags=5), OURS),
}
WINDOWS = {"protein": 5, "hyphen": 0, "stress": 6}


def curves(split: Split, window: int, method: str, rounds: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Fit one method; return its history and its predictions after the last round."""
    settings = METHODS[method][1]
    model = TreeCRF(
        window=window,
        potentials="joint",
        trees="per_label",
        min_samples_leaf=10,
        random_state=0,
        max_iter=rounds,
        n_iter_no_change=rounds,
        method=METHODS[method][0],
        **settings,
    )
    watched = {"X_val": split.X_test, "y_val": split.y_test}
    model.set_params(max_iter=1).fit(split.X_train, split.y_train, **watched)  # compiles, so that times are times
    model.set_params(max_iter=rounds).fit(split.X_train, split.y_train, **watched)
    last = TreeCRF(**{**model.get_params(deep=False), "early_stopping": False}).fit(split.X_train, split.y_train)
    return model.history_, [np.asarray(p) for p in last.predict(split.X_test)]


def draw(name: str, found: dict[str, dict[str, Any]]) -> None:
    """Draw the curves of a set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for method, history in found.items():
        first = METHODS[method][0].pseudo_likelihood_rounds
        seconds = np.cumsum(history["seconds"])[first:]
        axes[0].plot(seconds, history["validation_score"][first:], label=method)
        axes[1].plot(seconds, 100 * np.array(history["validation_accuracy"])[first:], label=method)
    axes[0].set_ylabel("log-likelihood per position, test")
    top = max(max(h["validation_score"]) for h in found.values())
    axes[0].set_ylim(top - 0.6 * abs(top), top + 0.05 * abs(top))
    axes[1].set_ylabel("accuracy %, test")
    best = 100 * max(max(h["validation_accuracy"]) for h in found.values())
    axes[1].set_ylim(best - 6, best + 0.5)
    for axis in axes:
        axis.set_xlabel("seconds of training")
        axis.set_xscale("log")
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8)
    figure.suptitle(name)
    figure.savefig(report.RESULTS / f"training_methods_{name}.png", dpi=110)
    plt.close(figure)


def run(name: str, rounds: int) -> list[dict[str, Any]]:
    """Compare the methods on one set."""
    split = load(name)[0]
    rows, found = [], {}
    baseline: list[np.ndarray] = []
    for method in METHODS:
        history, labels = curves(split, WINDOWS[name], method, rounds)
        baseline = baseline or labels
        found[method] = history
        first = METHODS[method][0].pseudo_likelihood_rounds
        scores = np.array(history["validation_score"])
        right = np.concatenate(labels) == np.concatenate(split.y_test)
        row = {
            "set": name,
            "method": method,
            "rounds": len(scores) - 1,
            "train log-likelihood": round(history["train_score"][-1], 4),
            "test log-likelihood": round(float(scores[-1]), 4),
            "best test log-likelihood": round(float(scores[first:].max()), 4),
            "accuracy %": round(100 * float(right.mean()), 2),
            "p against all": mcnemar(split.y_test, baseline, labels).pvalue,
            "ms a round": round(1000 * float(np.median(history["seconds"][1:])), 2),
            "evaluations a round": round(float(np.mean(history["evaluations"][1:])), 2),
            "fell in rounds": int(np.sum(np.diff(history["train_score"][first:]) < 0)),
        }
        print(row, flush=True)
        rows.append(row)
    draw(name, found)
    return rows


def main() -> None:
    """Run the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(WINDOWS))
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        rows = run(name, arguments.rounds)
        report.write("training_methods", rows, key=("set", "method"), note=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    main()
