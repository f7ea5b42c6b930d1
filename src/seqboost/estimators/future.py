"""Labellers that look for what decides a label further on: future features by multiple-instance boosting.

The model of Hao (2009, chapter 5), for any number of labels and either direction::

    P(y_t = k | y_{t−1}, …, X) ∝ exp( F^k(context, window, h_t) + Σ_i η_ik Q_i(B_t) )        h_t = Q_1(B_t), Q_2(B_t), …

    level 1   trees of F on the window, the labels before and the patterns known so far
    level 2   a pattern: trees of G on single positions, Q its noisy or over the bag B_t, η its weight for each label

Level 1 grows until held-out sequences gain no more, then level 2 finds a pattern, whose Q becomes a column of level 1,
and so on until no pattern helps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from seqboost.boosting import (
    MAX_LEAF_VALUE,
    Boosting,
    Callback,
    Ensemble,
    Everything,
    Examples,
    History,
    SafeStep,
    SharedTreeFitter,
    Stopping,
    TreeFitter,
    boost,
    extended_contexts,
    label_table,
    tree_columns,
)
from seqboost.chain import ContextSpace, Potentials, locally_normalised
from seqboost.estimators.arguments import unchanged_on_failure, validation_pair, where
from seqboost.estimators.holdout import has_blocks, hold_out, hold_out_blocks
from seqboost.estimators.memory import FitMemory
from seqboost.estimators.parameters import check_parameters, integer, one_of, plain_number, real, verbose_rule
from seqboost.estimators.patterns import LEAST_GAIN, Pattern, PatternSearch
from seqboost.estimators.pieces import in_pieces
from seqboost.estimators.prediction import PREDICTION_RULES, SequenceLabeler
from seqboost.estimators.progress import compile_notice, progress_bar
from seqboost.estimators.training import Labelled
from seqboost.exceptions import InputError, ParameterError
from seqboost.features import BinnedRows, FeatureBinner, FeatureLayout
from seqboost.model import Forest, forest_scores
from seqboost.objectives import Bags, LocalLikelihood
from seqboost.objectives.paths import observed_contexts
from seqboost.sequences import LabelCoder, SequenceBatch, sequence_weights
from seqboost.trees import Limits, context_space
from seqboost.trees.tree import SPARSE

__all__ = ["FuturePattern", "FutureFeatureMEMM", "FutureFeatures"]

BINS = 20  # of Q as a column of level 1
JOINT_LABELS = 10  # trees of level 1 see the labels before up to so many labels; with more, a table has them
SHARED_LABELS = 3  # one tree for all labels from so many on
PATTERN_LAMBDA = 1.0  # G's curvature is that of a coin on average, whatever λ of level 1 is

LASTING = ("order", "bag_size", "direction", "pattern_start")  # of these the model is made: prediction asks for them

RULES = {
    **PREDICTION_RULES,
    "order": integer(0, 8),
    "bag_size": integer(1, 2**31 - 1, none=True),
    "direction": one_of("future", "past", "both"),
    "patterns": one_of("per_label", "shared"),
    "max_patterns": integer(0, 100),
    "pattern_start": real(-30.0, 0.0),
    "learning_rate": real(0.0, open_low=True),
    "max_iter": integer(1),
    "max_leaf_nodes": integer(2, 2**16),
    "min_samples_leaf": integer(1, 2**31 - 1),
    "l2_regularization": real(0.0),
    "max_bins": integer(2, 255),
    "validation_fraction": real(0.0, 0.9, open_low=True),
    "n_iter_no_change": integer(1),
    "verbose": verbose_rule(),
}


@dataclass(frozen=True)
class FuturePattern:
    """What a pattern is, for people.

    Attributes
    ----------
    effect : dict
        η of each label: what a bag that surely holds the pattern adds to the label's score.
    importances : dict of str to float
        Window features that tell the pattern, by the gain of their splits; the largest first.
    """

    effect: dict[Any, float]
    importances: dict[str, float] = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Model:
    """Everything prediction needs."""

    binner: FeatureBinner  # of the user's columns, which patterns look at
    level_binner: FeatureBinner  # of the user's columns and the patterns'
    forest: Forest  # of level 1
    table: NDArray[np.float64]
    patterns: tuple[Forest, ...]
    effects: NDArray[np.float64]  # (n_patterns, n_labels)
    names: tuple[str, ...]  # of the columns of level 1, found patterns first
    fitted: dict[str, Any]  # parameters that prediction rests on, as they were in fit


class FutureFeatureMEMM(SequenceLabeler):
    """A left-to-right labeller that learns patterns in later (or earlier) positions by itself.

    An MEMM chooses labels one after another and cannot take back what a later position makes wrong. This one looks for
    patterns, anywhere in the next positions, that tell something about the label at hand, and uses them as features.

    Parameters
    ----------
    order : int, default=1
        Labels before that a label depends on; 0: a sliding window with patterns.
    bag_size : int or None, default=5
        How many positions ahead (or behind, or both) a pattern may lie; None: anywhere to the end of the sequence.
    direction : {"future", "past", "both"}, default="future"
        Where patterns are looked for.
    patterns : {"per_label", "shared"}, default="per_label"
        A pattern for each label in turn, or one at a time with a weight for every label; with two labels it is the
        same. Held-out sequences of NETtalk stress prefer the former (benchmarks/future.py).
    max_patterns : int, default=10
        Most patterns to find; the search ends when a pattern does not help held-out sequences.
    pattern_start : float, default=-5.0
        Score G of a position before anything is learnt of a pattern; at −5 a position is one with 0.7 %.
    window : int, tuple, list or dict, default=0
        Neighbouring positions that trees of either level see; as in :class:`TreeCRF`.
    learning_rate, max_iter, max_leaf_nodes, min_samples_leaf, l2_regularization, max_bins
        As in :class:`TreeCRF`; ``max_iter`` rounds at most each time that trees of level 1 are grown.
    validation_fraction : float, default=0.2
        Share of sequences held out, by which rounds and patterns are chosen, if ``fit`` is given none.
    n_iter_no_change : int, default=10
        Rounds without improvement on held-out sequences after which trees of level 1 are complete.
    decoding, beam, categorical_features, sequence, random_state, verbose, n_jobs
        As in :class:`TreeCRF`.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    patterns_ : list of FuturePattern
        What was found, in that order; see also :meth:`pattern_probabilities`.
    history_ : dict of lists
        ``validation_score``: mean log-likelihood of held-out labels after each time that level 1 or a pattern was
        grown; ``level`` ("labels" or "pattern") and ``rounds`` tell what it was.

    References
    ----------
    Hao, G. (2009). Efficient training and feature induction in sequential supervised learning. PhD thesis, Oregon State
    University. (Chapter 5.)

    Examples
    --------
    Whether an "a" is big depends on whether an "x" follows within five letters:

    >>> rng = np.random.default_rng(0)
    >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
    >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
    >>> model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
    >>> print(*model.predict(["aabbbbxa"])[0])
    False True False False False False False False
    """

    def __init__(
        self,
        order: int = 1,
        *,
        bag_size: int | None = 5,
        direction: str = "future",
        patterns: str = "per_label",
        max_patterns: int = 10,
        pattern_start: float = -5.0,
        window: Any = 0,
        learning_rate: float = 0.25,
        max_iter: int = 200,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 10.0,
        max_bins: int = 255,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        categorical_features: Any = None,
        decoding: str = "posterior",
        beam: int | None = None,
        sequence: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.order = order
        self.bag_size = bag_size
        self.direction = direction
        self.patterns = patterns
        self.max_patterns = max_patterns
        self.pattern_start = pattern_start
        self.window = window
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.categorical_features = categorical_features
        self.decoding = decoding
        self.beam = beam
        self.sequence = sequence
        self.random_state = random_state
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> FutureFeatureMEMM:
        """Train on sequences.

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val, sample_weight_val
            As in :meth:`TreeCRF.fit`. A position whose label, or one of the ``order`` labels before it, is unobserved
            is not trained on.

        Returns
        -------
        self : FutureFeatureMEMM
        """
        parameters = {name: plain_number(value) for name, value in self.get_params(deep=False).items()}
        check_parameters(type(self).__name__, parameters, RULES)
        X_val, y_val = validation_pair(X_val, y_val, sample_weight_val, None)
        with unchanged_on_failure(self):
            training = self._learned(X, y, sample_weight)
            seed = int(check_random_state(self.random_state).randint(2**31))
            training, held_out = self._divided(training, (X_val, y_val, sample_weight_val), seed)
            growth = _Growth(parameters, (training, held_out), len(self.classes_), seed, self._n_threads)
            with compile_notice(self.verbose), progress_bar(parameters["max_iter"], self.verbose) as bars:
                model, history = growth.run(bars)
            self._set_model(model)
            self.history_ = history
        return self

    def _divided(
        self, training: Labelled, validation: tuple[Any, Any, Any], seed: int
    ) -> tuple[Labelled, Labelled]:
        """Return training and held-out sequences."""
        X_val, y_val, weights_val = validation
        if X_val is not None:
            with where("In the validation data"):
                batch = self._batch(X_val)
                labels = LabelCoder.from_classes(self.classes_).encode(y_val, batch)
                held = Labelled(batch, labels, sequence_weights(weights_val, batch), "y_val").informative()
                return training, held
        n_sequences = training.batch.n_sequences
        if n_sequences < 2 and has_blocks(training.batch.offsets):
            return hold_out_blocks(training, self.validation_fraction, seed)
        if n_sequences < 2:
            raise ParameterError(
                f"{type(self).__name__} needs sequences to hold out, by which patterns are chosen, but X has only one; "
                f"give X_val and y_val"
            )
        kept, held_out = hold_out(n_sequences, self.validation_fraction, seed)
        return training.take(kept), training.take(held_out)

    # --------------------------------------------------------------------------------------------- prediction

    def _set_model(self, model: _Model) -> None:
        self._model = model
        layout = model.binner.layout
        self.patterns_ = [
            FuturePattern(
                dict(zip(self.classes_.tolist(), effect.tolist(), strict=True)), _importances(forest, layout)
            )
            for forest, effect in zip(model.patterns, model.effects, strict=True)
        ]

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether fit has been called."""
        return hasattr(self, "_model")

    def _pattern_scores(self, batch: SequenceBatch) -> NDArray[np.float32]:
        """Return G of all patterns at all positions, (n_rows, n_patterns)."""
        model, n_threads = self._model, self._n_threads
        binned = model.binner.transform(batch, n_threads=n_threads)
        start = np.full((1, binned.n_rows, 1), model.fitted["pattern_start"], dtype=np.float32)
        scores = [forest_scores(forest, binned, n_threads, start=start).reshape(-1) for forest in model.patterns]
        return np.stack(scores, axis=1) if scores else np.zeros((binned.n_rows, 0), dtype=np.float32)

    def _future_features(self, batch: SequenceBatch) -> NDArray[np.float64]:
        """Return Q of all patterns at all positions, (n_rows, n_patterns)."""
        scores = self._pattern_scores(batch)
        fitted = self._model.fitted
        bags = Bags(batch.offsets, fitted["bag_size"], fitted["direction"])
        found = [bags.probabilities(scores[:, i]) for i in range(scores.shape[1])]
        return np.stack(found, axis=1) if found else np.zeros(scores.shape)

    def _scored(self, batch: SequenceBatch) -> Potentials:
        model, n_threads = self._model, self._n_threads
        features = self._future_features(batch)
        columns = np.zeros((batch.n_rows, len(model.names)))
        columns[:, : features.shape[1]] = features
        binned = model.level_binner.transform(batch.with_numbers(model.names, columns), n_threads=n_threads)
        start = (features @ model.effects).T[:, :, None].astype(np.float32)
        scores = forest_scores(model.forest, binned, n_threads, start=start)
        return locally_normalised(Potentials(scores, model.table, batch.offsets, model.fitted["order"]))

    def _pieces(self, batch: SequenceBatch) -> list[SequenceBatch]:
        """Cut a batch into parts whose scores, with all contexts, fit into memory."""
        return in_pieces(batch, len(self.classes_) ** (1 + self._model.fitted["order"]))

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float32]:
        return np.concatenate([super(FutureFeatureMEMM, self)._marginals(piece) for piece in self._pieces(batch)])

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        return np.concatenate([super(FutureFeatureMEMM, self)._codes(piece) for piece in self._pieces(batch)])

    def pattern_probabilities(self, X: Any) -> Any:
        """Return how surely each position is one of the patterns: p = σ(G).

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_patterns); for a table one array

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
        >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
        >>> model = FutureFeatureMEMM(order=0, random_state=0).fit(X, y)
        >>> int(model.pattern_probabilities(["aabbbbxa"])[0][:, 0].argmax())
        6
        """
        batch = self._opened(X)
        return batch.restore(expit(self._pattern_scores(batch)))

    def future_features(self, X: Any) -> Any:
        """Return how surely the bag of each position holds each of the patterns: Q.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_patterns); for a table one array
        """
        batch = self._opened(X)
        return batch.restore(self._future_features(batch))

    # --------------------------------------------------------------------------------------------- model file

    def _to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        model = self._model
        arrays, header = {"table": model.table, "effects": model.effects}, {}
        parts: dict[str, Any] = {"binner": model.binner, "level_binner": model.level_binner}
        for name, binner in parts.items():
            found, header[name] = binner.to_arrays()
            arrays |= {f"{name}.{key}": array for key, array in found.items()}
        forests = {"forest": model.forest} | {f"pattern{i}": forest for i, forest in enumerate(model.patterns)}
        for name, forest in forests.items():
            arrays |= {f"{name}.{key}": array for key, array in forest.to_arrays().items()}
        return arrays, {**header, "names": list(model.names), "fitted": model.fitted, "history": self.history_}

    def _from_arrays(self, arrays: dict[str, NDArray[Any]], header: dict[str, Any]) -> None:
        def part(name: str) -> dict[str, NDArray[Any]]:
            found = {key.partition(".")[2]: array for key, array in arrays.items() if key.partition(".")[0] == name}
            if not found:
                raise ValueError(f"there is no {name}")
            return found

        binner, level_binner = (
            FeatureBinner.from_arrays(part(name), header[name]) for name in ("binner", "level_binner")
        )
        effects = arrays["effects"].astype(np.float64)
        forest = Forest.from_arrays(part("forest"))
        patterns = tuple(Forest.from_arrays(part(f"pattern{i}")) for i in range(len(effects)))
        fitted = {name: header["fitted"][name] for name in LASTING}
        check_parameters(type(self).__name__, fitted, {name: RULES[name] for name in LASTING})
        n_labels, space = len(self.classes_), ContextSpace(len(self.classes_), fitted["order"])
        table = arrays["table"].astype(np.float64)
        fits = forest.n_labels == n_labels and effects.shape == (len(patterns), n_labels)
        if not fits or table.shape != (space.n_extended, n_labels):
            raise ValueError("labels, trees and table do not fit together")
        for trees, layout in [(forest, level_binner.layout), *((trees, binner.layout) for trees in patterns)]:
            n_slots = np.diff(layout.slot_start).astype(np.int64)
            trees.check_layout(layout.n_dense_features, n_slots, len(layout.sparse_offsets))
        self.history_ = header["history"]
        names = tuple(map(str, header["names"]))
        self._set_model(_Model(binner, level_binner, forest, table, patterns, effects, names, fitted))


class FutureFeatures(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Patterns in later (or earlier) positions as columns, for any labeller.

    Finds patterns as :class:`FutureFeatureMEMM` does, and adds for each of them a column: how surely it lies in the bag
    of a position. A first-order chain that is given them knows of dependencies that reach further than its order.

    Parameters
    ----------
    model : FutureFeatureMEMM, default=None
        How to look for patterns; None: ``FutureFeatureMEMM(order=0)``.

    Attributes
    ----------
    model_ : FutureFeatureMEMM
        The fitted model.
    names_ : list of str
        Names of the new columns.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
    >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
    >>> both = make_pipeline(FutureFeatures(FutureFeatureMEMM(order=0, random_state=0)), TreeCRF(window=0))
    >>> print(*both.fit(X, y).predict(["aabbbbxa"])[0])
    False True False False False False False False
    """

    def __init__(self, model: FutureFeatureMEMM | None = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, **arguments: Any) -> FutureFeatures:
        """Find patterns.

        Parameters
        ----------
        X, y, **arguments
            As in :meth:`FutureFeatureMEMM.fit`.
        """
        from sklearn.base import clone

        model = FutureFeatureMEMM(order=0) if self.model is None else self.model
        if not isinstance(model, FutureFeatureMEMM):
            raise ParameterError(
                f"The 'model' parameter of FutureFeatures must be a FutureFeatureMEMM. Got {model!r:.60} instead."
            )
        self.model_ = clone(model).fit(X, y, **arguments)
        self.names_ = list(self.model_._model.names[: len(self.model_.patterns_)])
        return self

    def transform(self, X: Any) -> SequenceBatch:
        """Return the sequences with the new columns, as a batch that every labeller takes for X."""
        check_is_fitted(self)
        batch = self.model_._opened(X)
        return batch.with_numbers(self.names_, self.model_._future_features(batch))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of all columns of what ``transform`` returns."""
        check_is_fitted(self)
        return np.array([*self.model_._schema.names, *self.names_], dtype=object)


def _importances(forest: Forest, layout: FeatureLayout) -> dict[str, float]:
    """Return the gain of each window feature that is used, largest first."""
    place = forest.feature + np.where(forest.kind == SPARSE, layout.n_dense_features, 0)
    used, of_split = np.unique(place, return_inverse=True)
    gains = np.bincount(of_split, weights=forest.gain, minlength=len(used))
    return {layout.feature_name(int(used[i])): float(gains[i]) for i in np.argsort(-gains, kind="stable")}


class _Growth:
    """The two levels in turns, on training and held-out sequences."""

    def __init__(
        self,
        parameters: Mapping[str, Any],
        parts: tuple[Labelled, Labelled],
        n_labels: int,
        seed: int,
        n_threads: int,
    ) -> None:
        training, held_out = parts
        self._parameters, self._n_labels, self._seed, self._n_threads = parameters, n_labels, seed, n_threads
        self._batches = training.batch, held_out.batch
        self._labels = np.concatenate([training.labels, held_out.labels])
        self._weights = np.concatenate([training.weights, held_out.weights])
        self._is_training = np.arange(len(self._weights)) < len(training.weights)
        self._n_fitted = training.batch.n_rows
        self._binner = self._fit_binner(training.batch, parameters["window"])
        self._binned = self._transformed(self._binner, self._batches)
        offsets = self._binned.offsets
        self._bags = Bags(offsets, parameters["bag_size"], parameters["direction"])
        self._order = parameters["order"]
        self._joint = self._order == 0 or n_labels <= JOINT_LABELS
        self._check_memory()
        self._objective = LocalLikelihood(
            self._labels, offsets, n_labels=n_labels, order=self._order, joint=self._joint,
            sequence_weights=np.where(self._is_training, self._weights, 0.0),
        )  # fmt: skip
        for name, part in (("training", self._is_training), ("held-out", ~self._is_training)):
            if not self._objective.n_observed[part].any():
                raise InputError(
                    f"no {name} label has its {self._order} labels before it observed as well; use a lower order, "
                    f"label more, or give other sequences as X_val and y_val"
                )
        self._set_columns(training.batch)

    def _check_memory(self) -> None:
        """Refuse what would not fit into memory."""
        layout = self._binned.layout
        n_cells = int((layout.n_values + 2).sum()) + layout.n_slots * len(layout.sparse_offsets)
        FitMemory(
            self._binned.n_rows, self._n_labels, self._order, n_cells, self._parameters["max_leaf_nodes"],
            self._n_threads, self._binned.nbytes, self._n_labels >= SHARED_LABELS,
        ).check(joint=self._joint)  # fmt: skip

    def _fit_binner(self, batch: SequenceBatch, window: Any) -> FeatureBinner:
        return FeatureBinner.fit(
            batch, max_bins=self._parameters["max_bins"], window=window,
            min_count=self._parameters["min_samples_leaf"], n_threads=self._n_threads,
        )  # fmt: skip

    def _transformed(self, binner: FeatureBinner, batches: tuple[SequenceBatch, SequenceBatch]) -> BinnedRows:
        return BinnedRows.concatenate(*(binner.transform(batch, n_threads=self._n_threads) for batch in batches))

    def _set_columns(self, batch: SequenceBatch) -> None:
        """Make room for the columns of patterns, in evenly spaced bins; until one is found, its column is constant."""
        n = self._parameters["max_patterns"]
        free = (f"{self._parameters['direction']}_pattern_{i}" for i in itertools.count())
        self._names = tuple(itertools.islice((name for name in free if name not in batch.schema.names), n))
        window = self._parameters["window"]
        windows = dict(window) if isinstance(window, Mapping) else {"*": window}
        ladder = (np.arange(batch.n_rows) % BINS + 0.5) / BINS
        rows = batch.with_numbers(self._names, np.repeat(ladder[:, None], n, axis=1))
        self._level_binner = self._fit_binner(rows, windows | dict.fromkeys(self._names, 0))
        self._columns = np.zeros((self._binned.n_rows, n))

    def run(self, callbacks: list[Callback]) -> tuple[_Model, dict[str, list[Any]]]:
        """Grow both levels until no pattern helps."""
        forest = Forest.from_trees([], self._n_labels, self._order if self._joint else 0)
        start = np.zeros((self._n_labels, self._binned.n_rows, 1), dtype=np.float32)
        table, found = self._first_table(), list[Pattern]()
        history: dict[str, list[Any]] = {"level": [], "rounds": [], "validation_score": []}
        while True:
            rows = self._level_rows()
            forest, table, score, n_rounds = self._grow_level(forest, table, start, rows, callbacks)
            _note(history, "labels", n_rounds, score)
            scores = forest_scores(forest, rows, self._n_threads, start=start)
            base = np.zeros((rows.n_rows, self._n_labels))
            base[self._objective.scored_rows] = self._objective.observed_scores(scores, table)
            news = self._new_patterns(base, score, self._parameters["max_patterns"] - len(found))
            if not news:
                break
            for pattern in news:
                self._columns[:, len(found)] = pattern.probability
                start += (pattern.effect[:, None] * pattern.probability).astype(np.float32)[:, :, None]
                found.append(pattern)
                _note(history, "pattern", pattern.forest.n_rounds, pattern.score)
        effects = np.array([pattern.effect for pattern in found]).reshape(len(found), self._n_labels)
        forests = tuple(pattern.forest for pattern in found)
        fitted = {name: self._parameters[name] for name in LASTING}
        return _Model(self._binner, self._level_binner, forest, table, forests, effects, self._names, fitted), history

    def _first_table(self) -> NDArray[np.float64]:
        """Return the log-probabilities of labels after contexts, as counted in training."""
        offsets, space = self._binned.offsets, ContextSpace(self._n_labels, self._order)
        contexts = extended_contexts(self._labels, offsets, self._n_labels, self._order)
        rows = slice(0, self._n_fitted)
        weights = np.repeat(self._weights, np.diff(offsets))
        return label_table(self._labels[rows], contexts[rows], weights[rows], space.n_extended, self._n_labels)

    def _level_rows(self) -> BinnedRows:
        cut = self._n_fitted
        parts = self._columns[:cut], self._columns[cut:]
        first, second = (b.with_numbers(self._names, part) for b, part in zip(self._batches, parts, strict=True))
        return self._transformed(self._level_binner, (first, second))

    def _grow_level(
        self,
        forest: Forest,
        table: NDArray[np.float64],
        start: NDArray[np.float32],
        rows: BinnedRows,
        callbacks: list[Callback],
    ) -> tuple[Forest, NDArray[np.float64], float, int]:
        """Add rounds to level 1; return it, its table, the score of held-out sequences and the number of rounds."""
        labels, offsets = self._labels, rows.offsets
        slot = observed_contexts(labels, offsets, self._n_labels, self._order)[0]
        kind = SharedTreeFitter if self._n_labels >= SHARED_LABELS else TreeFitter
        fitter = self._fitter(kind, rows, self._n_labels, self._order if self._joint else 0)
        task = Boosting(
            objective=self._objective,
            fitter=fitter,
            examples=Examples(
                labels=labels, slot=slot if self._joint else np.zeros_like(slot),
                sequence=np.repeat(np.arange(len(self._weights)), np.diff(offsets)), n_fitted=self._n_fitted,
                n_rows=rows.n_rows,
            ),
            sampler=Everything(), step=SafeStep(), max_iter=self._parameters["max_iter"],
            seed=self._seed + forest.n_rounds, n_threads=self._n_threads,
            stopping=Stopping(self._parameters["n_iter_no_change"], 0.0), callbacks=callbacks,
        )  # fmt: skip
        scores = forest_scores(forest, rows, self._n_threads, start=start)
        ensemble, history = Ensemble(scores, table, self._n_threads), History(self._is_training, self._weights)
        kept = boost(task, ensemble, history)
        grown = forest.extend(ensemble.kept(kept.n_rounds))
        return grown, kept.table, history.validation_score[kept.n_rounds], kept.n_rounds

    def _fitter(self, kind: type[TreeFitter], rows: BinnedRows, n_labels: int, order: int) -> TreeFitter:
        layout, parameters = rows.layout, self._parameters
        n_features = layout.n_dense_features + layout.n_sparse_features
        is_pattern = n_labels == 1
        limits = Limits(
            max_leaf_nodes=parameters["max_leaf_nodes"], max_depth=parameters["max_leaf_nodes"],
            min_samples_leaf=parameters["min_samples_leaf"],
            l2_regularization=PATTERN_LAMBDA if is_pattern else float(parameters["l2_regularization"]),
            min_gain=0.0, one_against_rest=False, n_drawn_features=n_features, n_tree_features=n_features,
        )  # fmt: skip
        return kind(
            *tree_columns(rows), context_space(n_labels, order, rows.offsets), limits, max_leaf_value=MAX_LEAF_VALUE,
            learning_rate=1.0 if is_pattern else parameters["learning_rate"], n_threads=self._n_threads,
        )  # fmt: skip

    def _new_patterns(self, base: NDArray[np.float64], score: float, room: int) -> list[Pattern]:
        """Return patterns that help held-out sequences on top of level 1, at most so many."""
        labels = np.full_like(self._labels, -1)
        labels[self._objective.scored_rows] = self._labels[self._objective.scored_rows]
        search = PatternSearch(
            self._binned, self._fitter(TreeFitter, self._binned, 1, 0), self._bags, labels, self._weights,
            int(self._is_training.sum()), float(self._parameters["pattern_start"]), self._seed, self._n_threads,
        )  # fmt: skip
        shared = self._parameters["patterns"] == "shared" or self._n_labels == 2
        found: list[Pattern] = []
        for label in [None] if shared else range(self._n_labels):
            if len(found) == room:
                break
            pattern = search.find(base, search.first_effects(self._n_labels, label))
            if pattern.score > score + LEAST_GAIN * 10:
                found.append(pattern)
                score = pattern.score
                base = base + pattern.probability[:, None] * pattern.effect
        return found


def _note(history: dict[str, list[Any]], level: str, n_rounds: int, score: float) -> None:
    for name, value in zip(history, (level, n_rounds, score), strict=True):
        history[name].append(value)
