"""Dietterich and Ashenfelter (2002), slides on conditional random fields: windows on NETtalk."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from reproduction.experiment import Cell, Experiment, Outcome, Row
from reproduction.tasks import bits, load, right_words, share
from seqboost import RecurrentSlidingWindow, SlidingWindow, TreeCRF

__all__ = ["EXPERIMENTS"]

PRINTED = {
    "sliding window": (69.6, 12.5),
    "recurrent, left to right": (67.9, 17.0),
    "recurrent, right to left": (74.2, 24.4),
}
TREE, BOOSTED, CHAIN = "decision tree", "boosted trees", "TreeCRF"


def _estimator(base: str) -> Any:
    if base == TREE:
        return DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
    return HistGradientBoostingClassifier(
        max_iter=30, learning_rate=0.1, l2_regularization=10.0, early_stopping=False, random_state=0
    )


def _labeller(method: str, base: str) -> Any:
    if method == CHAIN:
        return TreeCRF(window=3, learning_rate=0.25, random_state=0)
    if method == "sliding window":
        return SlidingWindow(_estimator(base), window=3)
    direction = method.removeprefix("recurrent, ").replace(" ", "_")
    return RecurrentSlidingWindow(_estimator(base), window=3, order=3, direction=direction)


def _cells(quick: bool) -> list[Cell]:
    cells: list[Cell] = [{"method": method, "base": TREE} for method in PRINTED]
    if not quick:
        cells += [{"method": method, "base": BOOSTED} for method in PRINTED]
        cells.append({"method": CHAIN, "base": "whole chain"})
    return cells


def _run(cell: Cell, quick: bool) -> Outcome:
    split = load("full")
    model = _labeller(cell["method"], cell["base"]).fit(split.X_train, split.y_train)
    predicted = model.predict(split.X_test)
    letters, words = PRINTED.get(cell["method"], (None, None))
    row = {
        **cell, "letters %": share(bits(predicted, split.y_test)), "letters %, source": letters,
        "words %": round(100 * float(right_words(predicted, split.y_test).mean()), 1), "words %, source": words,
    }  # fmt: skip
    return Outcome([row])


def _agrees(rows: list[Row]) -> str:
    told = []
    for base in (TREE, BOOSTED):
        own = {row["method"]: row for row in rows if row["base"] == base}
        if own:
            one, left, right = (own[method] for method in PRINTED)
            letters = "as there" if left["letters %"] < one["letters %"] < right["letters %"] else "unlike there"
            best = right["words %"] > max(one["words %"], left["words %"])
            told.append(
                f"with {base}, windows from right to left have {'the most' if best else 'not the most'} words right "
                f"({right['words %']} %, source 24.4 %); letters order {letters} (left to right {left['letters %']}, "
                f"no recurrence {one['letters %']}, right to left {right['letters %']})"
            )
    chain = [row for row in rows if row["method"] == CHAIN]
    if chain:
        told.append(f"TreeCRF has {chain[0]['letters %']} % of letters and {chain[0]['words %']} % of words right")
    return "; ".join(told) + ". The source does not tell its window or classifier, so levels may differ."


EXPERIMENTS = (
    Experiment(
        name="windows-nettalk",
        title="sliding and recurrent windows on NETtalk",
        source="Dietterich & Ashenfelter (2002)",
        place="table of text-to-speech results",
        says="Recurrent windows from right to left label the most letters and words right.",
        protocol="1,000 words to train on, 1,000 to test on, 134 pairs of phoneme and stress; windows of 7 letters, "
        "three labels before; decision trees and scikit-learn's boosted trees (30 rounds) as classifiers, and "
        "TreeCRF.",
        quick="decision trees only, on all words: these rows are the same in the full version.",
        cells=_cells,
        run=_run,
        agrees=_agrees,
    ),
)
