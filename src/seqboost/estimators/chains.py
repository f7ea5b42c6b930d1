"""What TreeCRF and MEMM share: parameters, configuration, results, model file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from seqboost.boosting import VALIDATION, History, check_set_names
from seqboost.boosting.callbacks import evaluations
from seqboost.chain import Chain, Potentials
from seqboost.core.exceptions import ParameterError
from seqboost.core.parameters import (
    Rule,
    check_parameters,
    integer,
    one_of,
    plain_fields,
    random_state_rule,
    real,
    verbose_rule,
)
from seqboost.core.stored import Stored
from seqboost.estimators.boosted import BoostedLabeler
from seqboost.estimators.labeler import MANY_LABELS
from seqboost.estimators.method import Method
from seqboost.estimators.persistence import EARLIER, plain, revived, with_null, without_null
from seqboost.estimators.prediction import PREDICTION_RULES, WEIGHTED_VITERBI
from seqboost.features.filling import flag_name
from seqboost.linear import LinearFit
from seqboost.model import FrozenModel
from seqboost.sequences import SequenceBatch
from seqboost.training import (
    Candidate,
    ChainConfig,
    FeatureConfig,
    FitConfig,
    FitResult,
    StoppingConfig,
    TreeConfig,
    train,
)
from seqboost.training.config import Auto, lasting_settings, with_lasting_settings
from seqboost.training.defaults import learning_rate_of
from seqboost.training.durations import min_duration_rule
from seqboost.training.missing import split_surrogates
from seqboost.training.transitions import followers

__all__ = ["RULES", "BoostedChain"]

MOST = 2**31 - 1  # kernels count rows in 32 bits

RULES: dict[str, Rule] = {
    "random_state": random_state_rule(),
    "learning_rate": real(0, 1000, open_low=True, auto=True),
    "max_iter": integer(1),
    "max_leaf_nodes": integer(2, 32767),
    "max_depth": integer(1, MOST, none=True),
    "min_samples_leaf": integer(1, MOST),
    "l2_regularization": real(0, auto=True),
    "max_features": real(0, 1, open_low=True),
    "max_bins": integer(2, 255),
    "order": integer(0, 8),
    "potentials": one_of("auto", "joint", "factored"),
    "min_duration": min_duration_rule(),
    "init": one_of("auto", "labels", "linear"),
    "trees": one_of("auto", "per_label", "shared"),
    "early_stopping": one_of("auto", True, False),
    "validation_fraction": real(0, 0.9, open_low=True),
    "refit": one_of("auto", True, False),
    "tune": one_of("auto", True, False),
    "n_iter_no_change": integer(1),
    "warm_start": one_of(True, False),
    "verbose": verbose_rule(),
    **PREDICTION_RULES,
}


class BoostedChain(BoostedLabeler, is_base=True):
    """Base class of chains of labels that are trained by one configuration: TreeCRF and MEMM.

    The parameters are explained in :class:`~seqboost.TreeCRF`.
    """

    _result: FitResult
    _train = staticmethod(train)
    _rules: ClassVar[Mapping[str, Rule]] = RULES

    def __init__(
        self,
        *,
        learning_rate: float | Auto = "auto",
        max_iter: int = 500,
        max_leaf_nodes: int = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float | Auto = "auto",
        max_features: float = 1.0,
        max_bins: int = 255,
        categorical_features: Any = None,
        window: Any = "auto",
        missing: Any = "direction",
        order: int = 1,
        potentials: str = "auto",
        init: str = "auto",
        trees: str = "auto",
        tune: bool | Auto = "auto",
        method: Method | None = None,
        decoding: str = "posterior",
        transitions: Any = "any",
        min_duration: Any = 1,
        early_stopping: bool | Auto = "auto",
        validation_fraction: float = 0.1,
        refit: bool | Auto = "auto",
        n_iter_no_change: int = 20,
        class_weight: Any = None,
        sequence: str | list[str] | None = None,
        time: str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.window = window
        self.missing = missing
        self.order = order
        self.potentials = potentials
        self.init = init
        self.trees = trees
        self.tune = tune
        self.method = method
        self.decoding = decoding
        self.transitions = transitions
        self.min_duration = min_duration
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.sequence = sequence
        self.time = time
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``method__curvature`` and the like set those of ``method``, which None stands for as well."""
        is_default = params.get("method", self.method) is None
        if is_default and any(name.startswith("method__") for name in params):
            params = {**params, "method": Method()}
        super().set_params(**params)
        return self

    @property
    def _label_limit(self) -> int | None:
        return None if self.potentials == "factored" else MANY_LABELS

    def _config(self) -> FitConfig:
        check_parameters(type(self).__name__, vars(self), self._rules)
        if self.method is not None and not isinstance(self.method, Method):
            raise ParameterError(
                f"The 'method' parameter of {type(self).__name__} must be a seqboost.Method or None. Got "
                f"{self.method!r} instead."
            )
        config = self._unchecked_config()
        if self.class_weight is not None and not config.weights_in_terms and self.decoding == "viterbi":
            raise ParameterError(WEIGHTED_VITERBI)
        return replace(config, seed=self._seed())

    def _unchecked_config(self) -> FitConfig:
        """Return the configuration that the parameters stand for."""
        missing, n_surrogates = split_surrogates(self.missing)
        config = FitConfig(
            trees=TreeConfig(
                kind=self.trees,
                max_leaf_nodes=self.max_leaf_nodes,
                max_depth=self.max_depth,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2_regularization,
                max_features=self.max_features,
            ),
            chain=ChainConfig(self.order, self.potentials, self.init, followers(self.transitions), self.min_duration),
            features=FeatureConfig(self.window, self.max_bins, missing, n_surrogates, self.categorical_features),
            stopping=StoppingConfig(self.early_stopping, self.validation_fraction, self.refit, self.n_iter_no_change),
            method=(self.method or Method()).config(),
            learning_rate=self.learning_rate,
            max_iter=self.max_iter,
            tune=self.tune,
            class_weight=self.class_weight,
            warm_start=self.warm_start,
            verbose=self.verbose,
            n_threads=self._n_threads,
        )
        return plain_fields(config)  # numpy's numbers would have kernels compiled for their types

    def _set_result(self, result: FitResult) -> None:
        config, history = result.config, result.history.to_dict()
        self._result = result
        self._class_weights = result.label_odds
        self.history_ = history
        self.n_iter_ = len(history["train_score"]) - 1
        self.best_iteration_ = result.best_iteration
        self.best_score_ = result.best_score
        self.evals_result_ = evaluations(history, result.history.set_names)
        self.tuning_ = list(result.tuning)
        self.potentials_ = result.potentials
        self.window_ = config.features.window
        self.trees_ = config.trees.kind
        self.init_ = config.chain.init
        self.l2_regularization_ = config.trees.l2_regularization
        self.learning_rate_ = config.learning_rate

    @property
    def _n_rounds(self) -> int:
        return self.best_iteration_

    @property
    def _beam(self) -> int | None:
        return self._result.config.method.beam

    def _scored(self, batch: SequenceBatch) -> Chain:
        model, n_threads = self._result.model, self._n_threads
        rows = None if model.linear is None else model.linear.columns.transform(batch)
        return model.scored(model.binner.transform(batch, n_threads=n_threads), n_threads, rows)

    def _constraint(self, scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> Potentials | None:
        model = self._result.model
        return model.constrained(scores, offsets) if model.is_constrained else None

    @property
    def transition_scores_(self) -> NDArray[np.float64]:
        """Scores of transitions (row = from, column = to) before trees are added; order 1 only."""
        check_is_fitted(self)
        if self._result.model.order != 1:
            raise AttributeError("transition_scores_ is there for order=1 only")
        model = self._result.model
        return model.table[1:].copy() if model.contexts is None else model.contexts.transition_scores(model.table)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of each column in the gain of all splits on columns, its window taken together; (n_features_in_,).

        Columns are in the order of ``feature_names_in_``. All are 0 if no tree tests a column. More is in
        :func:`seqboost.inspection.feature_importances`.
        """
        check_is_fitted(self)
        gains = self._result.model.column_gains()
        found = np.array([gains.get(n, 0.0) + gains.get(flag_name(n), 0.0) for n in self._schema.names])
        return np.asarray(found / max(float(found.sum()), 1e-300), dtype=np.float64)

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        result = self._result
        arrays, header = result.model.to_arrays()
        if self._class_weights is not None:
            arrays["class_weights"] = self._class_weights
        return arrays, {
            "lasting": {name: plain(value) for name, value in lasting_settings(result.config).items()},
            "model": header,
            "history": {name: with_null(values) for name, values in result.history.to_dict().items()},
            "set_names": list(result.history.set_names),
            "best_iteration": result.best_iteration,
            "refitted": result.refitted,
            "linear_fit": None if result.linear_fit is None else result.linear_fit.to_json(),
            "seed": result.config.seed,
            "learning_rate": result.config.learning_rate,
            "tuning": [candidate_to_json(candidate) for candidate in result.tuning],
        }

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        stored = Stored("parts", arrays, header)
        lasting = {name: revived(value) for name, value in stored.field("lasting", dict).items()}
        odds = None
        if "class_weights" in arrays:
            odds = stored.array("class_weights", np.float64, (len(self.classes_),), low=1e-300, high=1.0)
        config = with_lasting_settings(self._unchecked_config(), {**EARLIER, **lasting})
        rate = header.get("learning_rate", config.learning_rate)
        config = replace(config, seed=stored.integer("seed", 0, 2**32 - 1), learning_rate=rate)
        config = replace(config, learning_rate=learning_rate_of(config, len(self.classes_)))
        model = FrozenModel.from_arrays(arrays, stored.field("model", dict))
        model.binner.check_schema(self._schema)
        past = {name: without_null(values) for name, values in header["history"].items()}
        named = header.get("set_names", list(VALIDATION))
        history = History(np.ones(1, dtype=bool), np.ones(1), check_set_names(named, max(1, len(named))), lists=past)
        if len(self.classes_) != model.forest.n_labels:
            raise ValueError(f"{len(self.classes_)} labels have names, but {model.forest.n_labels} have trees")
        linear_fit = LinearFit.from_json(header["linear_fit"]) if header.get("linear_fit") else None
        tuning = tuple(candidate_from_json(entry) for entry in header.get("tuning", []))
        n_rounds = stored.integer("best_iteration", 0, 2**31 - 1)
        refitted = bool(header.get("refitted", False))
        self._set_result(FitResult(model, history, n_rounds, config, linear_fit, odds, refitted, tuning))


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate of tuning as JSON can hold it."""
    settings = {name: plain(value) for name, value in candidate.settings.items()}
    score = with_null([candidate.score])[0]
    return {**vars(candidate), "settings": settings, "score": score, "rounds": list(candidate.rounds)}


def candidate_from_json(entry: dict[str, Any]) -> Candidate:
    """Turn what :func:`candidate_to_json` wrote back."""
    stored = Stored("candidates of tuning", {}, entry)
    settings = {str(name): revived(value) for name, value in stored.field("settings", dict).items()}
    score, seconds, rounds = entry["score"], entry["seconds"], stored.field("rounds", list)
    is_number = [type(value) in (int, float) and math.isfinite(value) for value in (score, seconds)]
    stored.require((score is None or is_number[0]) and is_number[1], "a score or a time is no number")
    stored.require(seconds >= 0 and all(type(n) is int and n >= 0 for n in rounds), "a time or a round is negative")
    return Candidate(settings, without_null([score])[0], float(seconds), tuple(rounds), stored.field("kept", bool))
