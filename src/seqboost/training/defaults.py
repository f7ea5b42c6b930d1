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
them is right everywhere, held-out sequences decide (:mod:`seqboost.training.tuning`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from seqboost.boosting import Stratified
from seqboost.core.exceptions import ParameterError
from seqboost.core.parameters import check_unchanged
from seqboost.features import MAX_DENSE_CATEGORIES, SPARSE_KEY
from seqboost.sequences import SequenceBatch
from seqboost.training.config import FitConfig, is_auto, lasting_settings, with_lasting_settings
from seqboost.training.methods import sampler_of
from seqboost.training.result import FitData

__all__ = [
    "FEW_LABELS",
    "PENALTY",
    "automatic_window",
    "continued",
    "learning_rate_of",
    "no_window",
    "resolved",
    "weighted",
    "wider_window",
]

WINDOW_FEATURES = 100  # that a window of dense columns is meant to have
WIDEST = 6  # positions on each side
MOST_SYMBOLS = 3  # columns of categories that are given neighbours
SHARED_LABELS = 3  # from this number of labels on, one tree serves all
FEW_LABELS = 10  # up to this number, small steps reach the best round in time, and a larger λ may be better
PENALTY = 10.0  # λ


def resolved(config: FitConfig, batch: SequenceBatch, n_labels: int) -> FitConfig:
    """Return the configuration with every "auto" replaced, except for potentials: what there is room for decides."""
    trees, chain = config.trees, config.chain
    config = replace(
        config,
        trees=replace(
            trees,
            kind=_trees(config, n_labels) if is_auto(trees.kind) else trees.kind,
            l2_regularization=PENALTY if is_auto(trees.l2_regularization) else float(trees.l2_regularization),
        ),
        chain=replace(chain, init=_init(config, batch) if is_auto(chain.init) else chain.init),
        features=replace(config.features, window=automatic_window(config.features.window, batch)),
    )
    return replace(config, learning_rate=learning_rate_of(config, n_labels))


def weighted(config: FitConfig, data: FitData) -> FitConfig:
    """Return the configuration with the objective that weights of positions need.

    A likelihood of whole sequences has no terms of single positions that could carry weights.
    """
    parts = [part for part in (data.training, data.validation, *data.others) if part is not None]
    method = config.method
    if all(part.position_weights is None for part in parts) or config.weights_in_terms:
        return config
    wanted = [
        ("objective", method.objective, "likelihood"),
        ("pseudo_likelihood_rounds", method.pseudo_likelihood_rounds, 0),
        ("beam", method.beam, None),
        ("contexts", method.contexts, "all"),
        ("min_duration", config.chain.min_duration, 1),
    ]
    for name, value, default in wanted:
        if value != default:
            raise ParameterError(
                f"sample_weight has weights of positions, which need objective='position_likelihood', but "
                f"{name}={value!r} was asked for; use {name}={default!r}, or one weight for each sequence"
            )
    return replace(config, method=replace(method, objective="position_likelihood"))


def continued(config: FitConfig, earlier: FitConfig, n_labels: int) -> FitConfig:
    """Return the configuration of a warm start: "auto" is what it came to in the earlier fit.

    Raise ParameterError if it differs from the earlier fit in what the trees rest on.
    """
    known, asked = lasting_settings(earlier), lasting_settings(config)
    automatic = ("window", "trees", "init", "l2_regularization", "potentials")
    config = with_lasting_settings(config, {name: known[name] for name in automatic if is_auto(asked[name])})
    del known["l2_regularization"]
    check_unchanged(known, lasting_settings(config))
    return replace(config, seed=earlier.seed, learning_rate=learning_rate_of(config, n_labels))


def learning_rate_of(config: FitConfig, n_labels: int) -> float:
    """Return the learning rate as given, or what "auto" comes to once the others are chosen."""
    if not is_auto(config.learning_rate):
        return float(config.learning_rate)
    curvature = config.method.curvature
    if curvature == "newton":
        return 0.1 if n_labels <= FEW_LABELS else 0.25
    is_slow = n_labels > FEW_LABELS and config.chain.init == "labels" and curvature == "mixing"
    return 0.5 if is_slow else 0.25


def automatic_window(window: Any, batch: SequenceBatch) -> Any:
    """Return a window as given, or the one that ``"auto"`` comes to."""
    return _window(batch) if is_auto(window) else window


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


def _window(batch: SequenceBatch) -> Any:
    n_columns = len(batch.schema.columns)
    if n_columns == 0 or len(batch.categories) > MOST_SYMBOLS:
        return 0
    return _around(min(max(round((WINDOW_FEATURES / n_columns - 1) / 2), 0), WIDEST, _longest(batch) - 1), batch)


def _longest(batch: SequenceBatch) -> int:
    return int(np.diff(batch.offsets).max())


def _around(side: int, batch: SequenceBatch) -> Any:
    """Return a window of dense columns; sparse ones are taken where they are."""
    return side if batch.sparse is None else {"*": side, SPARSE_KEY: 0}


def _trees(config: FitConfig, n_labels: int) -> str:
    needs_labels = isinstance(sampler_of(config.method.sampling, 1), Stratified)
    return "shared" if n_labels >= SHARED_LABELS and not needs_labels else "per_label"


def _init(config: FitConfig, batch: SequenceBatch) -> str:
    most = max([len(batch.schema.sparse_names), *map(len, batch.categories)], default=0)
    return "linear" if most > MAX_DENSE_CATEGORIES and not config.uses_seen else "labels"
