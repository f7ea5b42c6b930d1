"""What "auto" comes to for parameters that the data decide.

``window="auto"``
    As many neighbours as bring the window to about 100 features, at most 6 on each side: a few columns need their
    neighbours, a hundred say enough by themselves. More than three columns of categories are the neighbours already, as
    a rule (the letters before and after), and sparse columns are taken where they are.
``trees="auto"``
    One tree for all labels from 3 labels on; a tree per label for 2, or if the sampler needs trees that have a label of
    their own.
``init="auto"``
    From a linear chain if there are hundreds of sparse columns or of categories (words), which add up where a tree must
    choose among them; from the labels alone otherwise.
``l2_regularization="auto"``
    10.
``learning_rate="auto"``
    0.25; twice that for many labels without a linear start, where 500 rounds are too few for smaller steps. With the
    curvature "newton", whose steps are longer, 0.1, or 0.25 for many labels.

These rules were chosen by cross-validation on the training parts of all sets: ``benchmarks/defaults.py``. Where none of
them is right everywhere, held-out sequences decide (:mod:`seqboost.estimators.trials`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqboost.boosting import Stratified
from seqboost.estimators.methods import sampler_of
from seqboost.estimators.seen import uses_seen
from seqboost.features import MAX_DENSE_CATEGORIES, SPARSE_KEY
from seqboost.sequences import SequenceBatch

__all__ = [
    "AUTOMATIC",
    "FEW_LABELS",
    "PENALTY",
    "automatic_rate",
    "automatic_window",
    "is_auto",
    "kept",
    "no_window",
    "resolved",
    "wider_window",
]

AUTOMATIC = ("window", "trees", "init", "l2_regularization")

WINDOW_FEATURES = 100  # that a window of dense columns is meant to have
WIDEST = 6  # positions on each side
MOST_SYMBOLS = 3  # columns of categories that are given neighbours
SHARED_LABELS = 3  # one tree for all from so many labels on
FEW_LABELS = 10  # up to so many, small steps reach the best round in time, and a larger λ may be better
PENALTY = 10.0  # λ


def resolved(parameters: Mapping[str, Any], batch: SequenceBatch, n_labels: int) -> dict[str, Any]:
    """Return the parameters with the choices that depend on training data made."""
    rules = {"window": _window, "trees": _trees, "init": _init, "l2_regularization": _penalty}
    chosen = {name: rules[name](parameters, batch, n_labels) for name in AUTOMATIC if is_auto(parameters[name])}
    return {**parameters, **chosen}


def kept(parameters: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a warm start: "auto" is what it came to in the earlier fit."""
    return {**parameters, **{name: earlier[name] for name in (*AUTOMATIC, "potentials") if is_auto(parameters[name])}}


def is_auto(value: Any) -> bool:
    """Tell whether a value is the word "auto"; windows may be arrays."""
    return isinstance(value, str) and value == "auto"


def automatic_rate(parameters: Mapping[str, Any], n_labels: int) -> float:
    """Return the learning rate as given, or what ``"auto"`` comes to once the others are chosen."""
    if not is_auto(parameters["learning_rate"]):
        return float(parameters["learning_rate"])
    if parameters["curvature"] == "newton":
        return 0.1 if n_labels <= FEW_LABELS else 0.25
    is_slow = n_labels > FEW_LABELS and parameters["init"] == "labels" and parameters["curvature"] == "mixing"
    return 0.5 if is_slow else 0.25


def automatic_window(window: Any, batch: SequenceBatch) -> Any:
    """Return a window as given, or the one that ``"auto"`` comes to."""
    return _window({}, batch, 0) if is_auto(window) else window


def wider_window(window: Any, batch: SequenceBatch) -> Any:
    """Return a window that ``"auto"`` came to, with twice as many neighbours; None if it has none or enough of them.

    Examples
    --------
    >>> from seqboost.sequences import as_batch
    >>> batch = as_batch([np.zeros((30, 32))])
    >>> automatic_window("auto", batch), wider_window(1, batch), wider_window(6, batch)
    (1, 2, None)
    """
    side = _side(window)
    wider = min(2 * side, WIDEST, _longest(batch) - 1)
    return _around(wider, batch) if wider > side else None


def no_window(window: Any, batch: SequenceBatch) -> Any:
    """Return a window that ``"auto"`` came to without its neighbours; None if it has none, or no columns are numbers.

    Unlike a letter, numbers may say all there is to know of their position.

    Examples
    --------
    >>> from seqboost.sequences import as_batch
    >>> no_window(6, as_batch([np.zeros((30, 2))])), no_window(6, as_batch(["letters"]))
    (0, None)
    """
    has_numbers = len(batch.schema.columns) > len(batch.categories)
    return _around(0, batch) if _side(window) > 0 and has_numbers else None


def _side(window: Any) -> int:
    """Return the number of neighbours on each side of a window that ``"auto"`` came to."""
    side: int = window["*"] if isinstance(window, dict) else window
    return side


def _window(parameters: Mapping[str, Any], batch: SequenceBatch, n_labels: int) -> Any:
    n_columns = len(batch.schema.columns)
    if n_columns == 0 or len(batch.categories) > MOST_SYMBOLS:
        return 0
    return _around(min(max(round((WINDOW_FEATURES / n_columns - 1) / 2), 0), WIDEST, _longest(batch) - 1), batch)


def _longest(batch: SequenceBatch) -> int:
    return int(np.diff(batch.offsets).max())


def _around(side: int, batch: SequenceBatch) -> Any:
    """Return a window of dense columns; sparse ones are taken where they are."""
    return side if batch.sparse is None else {"*": side, SPARSE_KEY: 0}


def _trees(parameters: Mapping[str, Any], batch: SequenceBatch, n_labels: int) -> str:
    needs_labels = isinstance(sampler_of(parameters["sampling"], 1), Stratified)
    return "shared" if n_labels >= SHARED_LABELS and not needs_labels else "per_label"


def _init(parameters: Mapping[str, Any], batch: SequenceBatch, n_labels: int) -> str:
    most = max([len(batch.schema.sparse_names), *map(len, batch.categories)], default=0)
    return "linear" if most > MAX_DENSE_CATEGORIES and not uses_seen(parameters) else "labels"


def _penalty(parameters: Mapping[str, Any], batch: SequenceBatch, n_labels: int) -> float:
    return PENALTY
