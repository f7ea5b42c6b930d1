"""The configuration of a fit: frozen, typed, in parts.

Estimators build it from their parameters; :mod:`seqboost.training.defaults` replaces every "auto" by a value. From then
on nothing asks the estimator again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = [
    "Auto",
    "ChainConfig",
    "FeatureConfig",
    "FitConfig",
    "MethodConfig",
    "StoppingConfig",
    "TreeConfig",
    "is_auto",
    "lasting_settings",
    "with_lasting_settings",
]

Auto = Literal["auto"]


def is_auto(value: Any) -> bool:
    """Return whether a value is the word "auto"; windows may be arrays."""
    return isinstance(value, str) and value == "auto"


@dataclass(frozen=True)
class TreeConfig:
    """How trees are grown.

    Attributes
    ----------
    kind : {"auto", "per_label", "shared"}
        One tree per label in each round, or one for all labels.
    max_leaf_nodes, max_depth, min_samples_leaf, l2_regularization, max_features
        As in :class:`~seqboost.TreeCRF`.
    """

    kind: str = "auto"
    max_leaf_nodes: int = 31
    max_depth: int | None = None
    min_samples_leaf: int = 20
    l2_regularization: float | Auto = "auto"
    max_features: float = 1.0

    @property
    def shared(self) -> bool:
        """Whether one tree serves all labels."""
        return self.kind == "shared"


@dataclass(frozen=True)
class ChainConfig:
    """How labels depend on each other, and where the chain starts; fields as in :class:`~seqboost.TreeCRF`."""

    order: int = 1
    potentials: str = "auto"
    init: str = "auto"
    transitions: Any = "any"
    min_duration: Any = 1


@dataclass(frozen=True)
class FeatureConfig:
    """How columns become features; fields as in :class:`~seqboost.TreeCRF`.

    ``n_surrogates`` is the number of :class:`~seqboost.Surrogates` in ``missing``, which holds names only.
    """

    window: Any = "auto"
    max_bins: int = 255
    missing: Any = "direction"
    n_surrogates: int = 3
    categorical_features: Any = None


@dataclass(frozen=True)
class StoppingConfig:
    """When training stops, and what is trained again; fields as in :class:`~seqboost.TreeCRF`."""

    early_stopping: bool | Auto = "auto"
    validation_fraction: float = 0.1
    refit: bool | Auto = "auto"
    n_iter_no_change: int = 20


@dataclass(frozen=True)
class MethodConfig:
    """What only research changes; fields as in :class:`~seqboost.Method`.

    ``objective`` may also be "local", the objective of MEMM.
    """

    objective: str = "likelihood"
    pseudo_likelihood_rounds: int = 0
    curvature: str = "mixing"
    step: str = "auto"
    direction: str = "gradient"
    sampling: Any = None
    n_bags: int = 1
    beam: int | None = None
    contexts: str = "all"
    categorical_splits: str = "subset"
    max_features_per_tree: float = 1.0
    min_gain: float = 0.0
    tol: float = 1e-6


@dataclass(frozen=True)
class FitConfig:
    """Everything that decides on a fit, except for the data.

    Attributes
    ----------
    trees, chain, features, stopping, method
        The parts.
    learning_rate, max_iter, tune, class_weight, warm_start, verbose
        As in :class:`~seqboost.TreeCRF`.
    seed : int
        Seed of held-out sequences, samples and drawn features.
    n_threads : int
        Number of threads.
    """

    trees: TreeConfig = field(default_factory=TreeConfig)
    chain: ChainConfig = field(default_factory=ChainConfig)
    features: FeatureConfig = field(default_factory=FeatureConfig)
    stopping: StoppingConfig = field(default_factory=StoppingConfig)
    method: MethodConfig = field(default_factory=MethodConfig)
    learning_rate: float | Auto = "auto"
    max_iter: int = 500
    tune: bool | Auto = "auto"
    class_weight: Any = None
    warm_start: bool = False
    verbose: int = 0
    seed: int = 0
    n_threads: int = 1

    @property
    def uses_seen(self) -> bool:
        """Whether the chain has seen contexts only; order 0 has none."""
        return self.method.contexts == "seen" and self.chain.order > 0

    @property
    def weights_in_terms(self) -> bool:
        """Whether class weights enter the training, as factors of the terms of single positions."""
        return self.method.objective == "position_likelihood"

    def with_penalty(self, penalty: float) -> FitConfig:
        """Return the configuration with another λ."""
        return replace(self, trees=replace(self.trees, l2_regularization=penalty))

    def with_window(self, window: Any) -> FitConfig:
        """Return the configuration with another window."""
        return replace(self, features=replace(self.features, window=window))

    def with_potentials(self, potentials: str) -> FitConfig:
        """Return the configuration with other potentials."""
        return replace(self, chain=replace(self.chain, potentials=potentials))


def lasting_settings(config: FitConfig) -> dict[str, Any]:
    """Return, by the names of parameters, what a warm start must not change: the trees that are there rest on it."""
    return {
        "order": config.chain.order,
        "contexts": config.method.contexts,
        "potentials": config.chain.potentials,
        "trees": config.trees.kind,
        "window": config.features.window,
        "max_bins": config.features.max_bins,
        "categorical_features": config.features.categorical_features,
        "transitions": config.chain.transitions,
        "class_weight": config.class_weight,
        "init": config.chain.init,
        "missing": config.features.missing,
        "min_duration": config.chain.min_duration,
        "l2_regularization": config.trees.l2_regularization,
    }


def with_lasting_settings(config: FitConfig, lasting: Mapping[str, Any]) -> FitConfig:
    """Return a configuration with the settings of an earlier fit, which a model file holds."""
    given = {**lasting_settings(config), **lasting}
    return replace(
        config,
        trees=replace(config.trees, kind=given["trees"], l2_regularization=given["l2_regularization"]),
        chain=replace(
            config.chain,
            order=given["order"],
            potentials=given["potentials"],
            init=given["init"],
            transitions=given["transitions"],
            min_duration=given["min_duration"],
        ),
        features=replace(
            config.features,
            window=given["window"],
            max_bins=given["max_bins"],
            categorical_features=given["categorical_features"],
            missing=given["missing"],
        ),
        method=replace(config.method, contexts=given["contexts"]),
        class_weight=given["class_weight"],
    )
