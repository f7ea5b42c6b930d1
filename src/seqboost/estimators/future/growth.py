"""Both levels grown in turns: trees of level 1 until held-out sequences gain no more, then patterns, and again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import (
    MAX_LEAF_VALUE,
    Boosting,
    Callback,
    Ensemble,
    Everything,
    Examples,
    History,
    SafeStep,
    Stopping,
    TreeFitter,
    boost,
    label_table,
    tree_columns,
)
from seqboost.core.contexts import ContextSpace, context_space, observed_contexts
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.estimators.future.model import FutureModel
from seqboost.estimators.future.patterns import LEAST_GAIN, Pattern, PatternSearch
from seqboost.features import BinnedRows, FeatureBinner
from seqboost.model import Forest, forest_scores
from seqboost.objectives import Bags, LocalLikelihood
from seqboost.sequences import SequenceBatch
from seqboost.training import FitConfig, FitData
from seqboost.training.holdout import has_blocks, hold_out, hold_out_blocks
from seqboost.training.memory import FitMemory
from seqboost.training.positions import Positions
from seqboost.trees import Limits, Problem

__all__ = ["Growth", "PatternConfig", "with_held_out"]

BINS = 20  # of Q as a column of level 1
JOINT_LABELS = 10  # trees of level 1 see the labels before up to so many labels; with more, a table has them
SHARED_LABELS = 3  # one tree for all labels from so many on
PATTERN_LAMBDA = 1.0  # G's curvature is that of a coin on average, whatever λ of level 1 is


@dataclass(frozen=True)
class PatternConfig:
    """How patterns are looked for; fields as in :class:`~seqboost.FutureFeatureMEMM`."""

    bag_size: int | None
    direction: str
    kind: str
    max_patterns: int
    pattern_start: float


def with_held_out(data: FitData, config: FitConfig) -> FitData:
    """Return the data with sequences held out, by which patterns are chosen, unless the user gave some."""
    if data.validation is not None:
        return data
    training, fraction = data.training, config.stopping.validation_fraction
    n_sequences = training.batch.n_sequences
    if n_sequences < 2 and not has_blocks(training):
        raise ParameterError(
            "patterns are chosen by held-out sequences, but X has only one sequence, which is too short to hold out "
            "blocks of it; give X_val and y_val"
        )
    if n_sequences < 2:
        kept, held_out = hold_out_blocks(training, fraction, config.seed)
    else:
        of_training, of_validation = hold_out(n_sequences, fraction, config.seed)
        kept, held_out = training.take(of_training), training.take(of_validation)
    return replace(data, training=kept, validation=held_out)


class Growth:
    """The two levels in turns, on training and held-out sequences."""

    def __init__(self, config: FitConfig, patterns: PatternConfig, data: FitData) -> None:
        assert data.validation is not None
        n_labels = len(data.classes)
        self._config, self._patterns, self._n_labels = config, patterns, n_labels
        self._seed, self._n_threads = config.seed, config.n_threads
        self._batches = data.training.batch, data.validation.batch
        self._binner = self._fit_binner(data.training.batch, config.features.window)
        positions = Positions.together(self._binner, data, config.n_threads)
        self._binned, self._labels, self._weights = positions.binned, positions.labels, positions.weights
        self._is_training, self._n_fitted = positions.is_training, positions.n_fitted
        offsets = self._binned.offsets
        self._bags = Bags(offsets, patterns.bag_size, patterns.direction)
        self._order = config.chain.order
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
        self._set_columns(data.training.batch)

    def _check_memory(self) -> None:
        """Refuse what would not fit into memory."""
        FitMemory(
            self._binned.n_rows, self._n_labels, self._order, self._binned.layout.n_cells,
            self._config.trees.max_leaf_nodes, self._n_threads, self._binned.nbytes, self._n_labels >= SHARED_LABELS,
        ).check(joint=self._joint)  # fmt: skip

    def _fit_binner(self, batch: SequenceBatch, window: Any) -> FeatureBinner:
        return FeatureBinner.fit(
            batch, max_bins=self._config.features.max_bins, window=window,
            min_count=self._config.trees.min_samples_leaf, n_threads=self._n_threads,
        )  # fmt: skip

    def _set_columns(self, batch: SequenceBatch) -> None:
        """Make room for the columns of patterns, in evenly spaced bins; until one is found, its column is constant."""
        n = self._patterns.max_patterns
        free = (f"{self._patterns.direction}_pattern_{i}" for i in itertools.count())
        self._names = tuple(itertools.islice((name for name in free if name not in batch.schema.names), n))
        window = self._config.features.window
        windows = dict(window) if isinstance(window, Mapping) else {"*": window}
        ladder = (np.arange(batch.n_rows) % BINS + 0.5) / BINS
        rows = batch.with_numbers(self._names, np.repeat(ladder[:, None], n, axis=1))
        self._level_binner = self._fit_binner(rows, windows | dict.fromkeys(self._names, 0))
        self._columns = np.zeros((self._binned.n_rows, n))

    def run(self, callbacks: list[Callback]) -> tuple[FutureModel, dict[str, list[Any]]]:
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
            news = self._new_patterns(base, score, self._patterns.max_patterns - len(found))
            if not news:
                break
            for pattern in news:
                self._columns[:, len(found)] = pattern.probability
                start += (pattern.effect[:, None] * pattern.probability).astype(np.float32)[:, :, None]
                found.append(pattern)
                _note(history, "pattern", pattern.forest.n_rounds, pattern.score)
        effects = np.array([pattern.effect for pattern in found]).reshape(len(found), self._n_labels)
        forests = tuple(pattern.forest for pattern in found)
        patterns = self._patterns
        fitted = {
            "order": self._order,
            "bag_size": patterns.bag_size,
            "direction": patterns.direction,
            "pattern_start": patterns.pattern_start,
        }
        binners = self._binner, self._level_binner
        return FutureModel(*binners, forest, table, forests, effects, self._names, fitted), history

    def _first_table(self) -> NDArray[np.float64]:
        """Return the log-probabilities of labels after contexts, as counted in training."""
        offsets, space = self._binned.offsets, ContextSpace(self._n_labels, self._order)
        _, contexts = observed_contexts(self._labels, offsets, self._n_labels, self._order, mark_unobserved=True)
        rows = slice(0, self._n_fitted)
        weights = np.repeat(self._weights, np.diff(offsets))
        return label_table(self._labels[rows], contexts[rows], weights[rows], space.n_extended, self._n_labels)

    def _level_rows(self) -> BinnedRows:
        cut = self._n_fitted
        parts = self._columns[:cut], self._columns[cut:]
        batches = (b.with_numbers(self._names, part) for b, part in zip(self._batches, parts, strict=True))
        return BinnedRows.concatenate(*(self._level_binner.transform(b, n_threads=self._n_threads) for b in batches))

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
        shared = self._n_labels >= SHARED_LABELS
        fitter = self._fitter(rows, self._n_labels, self._order if self._joint else 0, shared=shared)
        task = Boosting(
            objective=self._objective,
            fitter=fitter,
            examples=Examples.of_sequences(
                labels, slot if self._joint else np.zeros_like(slot), offsets, self._n_fitted
            ),
            sampler=Everything(), step=SafeStep(), max_iter=self._config.max_iter,
            seed=self._seed + forest.n_rounds, n_threads=self._n_threads,
            stopping=Stopping(self._config.stopping.n_iter_no_change, 0.0), callbacks=callbacks,
        )  # fmt: skip
        scores = forest_scores(forest, rows, self._n_threads, start=start)
        ensemble, history = Ensemble(scores, table, self._n_threads), History(self._is_training, self._weights)
        kept = boost(task, ensemble, history)
        grown = forest.extend(ensemble.kept(kept.n_rounds))
        return grown, kept.table, history.validation_score[kept.n_rounds], kept.n_rounds

    def _fitter(self, rows: BinnedRows, n_labels: int, order: int, *, shared: bool) -> TreeFitter:
        trees, n_features = self._config.trees, rows.layout.n_features
        is_pattern = n_labels == 1
        limits = Limits(
            max_leaf_nodes=trees.max_leaf_nodes, max_depth=trees.max_leaf_nodes,
            min_samples_leaf=trees.min_samples_leaf,
            l2_regularization=PATTERN_LAMBDA if is_pattern else float(trees.l2_regularization),
            min_gain=0.0, one_against_rest=False, n_drawn_features=n_features, n_tree_features=n_features,
        )  # fmt: skip
        problem = Problem(tree_columns(rows), context_space(n_labels, order, rows.offsets), limits)
        learning_rate = 1.0 if is_pattern else float(self._config.learning_rate)
        return TreeFitter(
            problem, shared=shared, max_leaf_value=MAX_LEAF_VALUE, learning_rate=learning_rate,
            n_threads=self._n_threads,
        )  # fmt: skip

    def _new_patterns(self, base: NDArray[np.float64], score: float, room: int) -> list[Pattern]:
        """Return patterns that help held-out sequences on top of level 1, at most so many."""
        labels = np.full_like(self._labels, -1)
        labels[self._objective.scored_rows] = self._labels[self._objective.scored_rows]
        search = PatternSearch(
            self._binned, self._fitter(self._binned, 1, 0, shared=False), self._bags, labels, self._weights,
            int(self._is_training.sum()), self._patterns.pattern_start, self._seed, self._n_threads,
        )  # fmt: skip
        shared = self._patterns.kind == "shared" or self._n_labels == 2
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
