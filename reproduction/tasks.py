"""What experiments share: the sets of the sources, choices by held-out sequences, and counts of right labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from seqboost import Method, TreeCRF, datasets
from seqboost.datasets import Split
from seqboost.evaluation import mcnemar

__all__ = [
    "PAPER",
    "PAPER_METHOD",
    "SETS",
    "WINDOWS",
    "best_of",
    "bits",
    "cut",
    "groups_of",
    "load",
    "pvalue",
    "rounds_of",
    "share",
]

SETS = ("protein", "stress", "hyphen")
WINDOWS = {"protein": 5, "stress": 6, "hyphen": 0}
"""Neighbours on each side, as the sources have them; the gaps of hyphen hold theirs already."""
PAPER_METHOD: dict[str, Any] = {"curvature": "count", "step": "fixed"}
PAPER: dict[str, Any] = {
    "method": Method(**PAPER_METHOD), "learning_rate": 1.0, "l2_regularization": 0.0, "potentials": "joint",
    "trees": "per_label", "random_state": 0,
}  # fmt: skip
"""The algorithm of the sources: leaves are means of the gradient, steps are 1, a tree for each label."""


def load(name: str) -> Split:
    """Return training and test sequences of a set."""
    if name in ("stress", "binary", "full"):
        return datasets.load_nettalk(name).split()
    if name == "noun phrases":
        return _noun_phrases(datasets.load_conll2000().split())
    return {"protein": datasets.load_protein, "hyphen": datasets.load_hyphen}[name]().split()


def _noun_phrases(split: Split) -> Split:
    """Return words alone, to be labelled with their part of speech and place in a noun phrase together."""
    words = ([[{"word": word} for word, _ in sentence] for sentence in X] for X in (split.X_train, split.X_test))
    labels = (
        [
            np.array([
                f"{speech}+{chunk if chunk.endswith('-NP') else 'O'}"
                for (_, speech), chunk in zip(sentence, chunks, strict=True)
            ])
            for sentence, chunks in zip(X, y, strict=True)
        ]
        for X, y in ((split.X_train, split.y_train), (split.X_test, split.y_test))
    )  # fmt: skip
    (X_train, X_test), (y_train, y_test) = words, labels
    return Split(X_train, y_train, X_test, y_test)


def cut(split: Split, n_train: int, n_test: int) -> Split:
    """Return the first sequences of each part."""
    return Split(split.X_train[:n_train], split.y_train[:n_train], split.X_test[:n_test], split.y_test[:n_test])


def groups_of(name: str, X: Sequence[Any], k: int = 4, limit: float = 0.08) -> list[int]:
    """Return a group for each sequence; proteins that share more than ``limit`` of their k-mers must not be parted."""
    if name != "protein":
        return list(range(len(X)))
    mers = [{x[i : i + k] for i in range(len(x) - k + 1)} for x in X]
    group = list(range(len(X)))
    for i in range(len(mers)):
        for j in range(i):
            if len(mers[i] & mers[j]) > limit * min(len(mers[i]), len(mers[j])):
                old, new = group[i], group[j]
                group = [new if g == old else g for g in group]
    return group


def _parts(X: Any, y: Any, groups: list[int], n_folds: int, n_used: int) -> list[Split]:
    folds = list(GroupKFold(n_folds, shuffle=True, random_state=0).split(X, groups=groups))[:n_used]
    return [Split(*([part[i] for i in chosen] for chosen in fold for part in (X, y))) for fold in folds]


def rounds_of(
    options: Sequence[dict[str, Any]], X: Any, y: Any, groups: list[int], *, max_iter: int, n_folds: int, n_used: int
) -> dict[str, Any]:
    """Return the settings of a TreeCRF, with the number of rounds, of the best log-likelihood of held-out sequences.

    The first ``n_used`` of ``n_folds`` parts are held out, one at a time.
    """
    best: tuple[float, dict[str, Any]] = (-np.inf, {})
    for settings in options:
        curves = []
        for part in _parts(X, y, groups, n_folds, n_used):
            model = TreeCRF(**settings, max_iter=max_iter, n_iter_no_change=max_iter)
            model.fit(part.X_train, part.y_train, X_val=part.X_test, y_val=part.y_test)
            curves.append(np.array(model.history_["validation_score"]) * sum(map(len, part.y_test)))
        shortest = min(map(len, curves))  # training ends by itself where nothing is left to gain
        curve = np.sum([curve[:shortest] for curve in curves], axis=0)
        rounds = max(1, int(curve.argmax()))
        if curve[rounds] > best[0]:
            best = float(curve[rounds]), {**settings, "max_iter": rounds}
    return best[1]


def best_of(models: Sequence[Any], X: Any, y: Any, groups: list[int], n_folds: int) -> Any:
    """Return the labeller with the most labels right in cross-validation."""
    if len(models) == 1:
        return models[0]
    parts = _parts(X, y, groups, n_folds, n_folds)
    scores = [
        sum(clone(model).fit(p.X_train, p.y_train).score(p.X_test, p.y_test) * sum(map(len, p.y_test)) for p in parts)
        for model in models
    ]
    return models[int(np.argmax(scores))]


def bits(predicted: Sequence[Any], true: Sequence[Any]) -> str:
    """Return which labels are right, as ``"1101…"``: short to keep, and enough for McNemar's test."""
    right = np.concatenate([np.asarray(p) == np.asarray(t) for p, t in zip(predicted, true, strict=True)])
    return "".join(np.where(right, "1", "0").tolist())


def share(right: str) -> float:
    """Return the share of right labels in %."""
    return round(100 * right.count("1") / len(right), 2)


def pvalue(one: str, other: str) -> float:
    """Return how likely so large a difference between two labellings is by chance."""
    return float(mcnemar([["1"] * len(one)], [list(one)], [list(other)]).pvalue)


def right_words(predicted: Sequence[Any], true: Sequence[Any]) -> NDArray[np.bool_]:
    """Return which sequences are wholly right."""
    return np.array([bool(np.all(np.asarray(p) == np.asarray(t))) for p, t in zip(predicted, true, strict=True)])
