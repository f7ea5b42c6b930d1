"""The way from a user's data to a frozen model, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import (
    MAX_LEAF_VALUE,
    Boosting,
    Callback,
    Examples,
    History,
    LinearFit,
    LinearStart,
    LinearTask,
    SharedTreeFitter,
    Stopping,
    TreeFitter,
    boost,
    cross_scores,
    digest,
    extended_contexts,
    label_table,
    linear_start,
    tree_columns,
    tree_policies,
)
from seqboost.boosting.linear import Plan
from seqboost.chain import ContextSpace, SeenContexts
from seqboost.estimators.memory import FitMemory
from seqboost.estimators.methods import ObjectiveClass, ensemble_maker, objective_class, sampler_of, step_of
from seqboost.estimators.missing import dividing_rate, missing_policies
from seqboost.estimators.seen import SeenStart, seen_bytes, seen_start, uses_seen
from seqboost.estimators.transitions import constraint_scores
from seqboost.exceptions import InputError
from seqboost.features import BinnedRows, FeatureBinner, LinearColumns, LinearRows, LinearWeights
from seqboost.model import Forest, FrozenModel, forest_scores
from seqboost.objectives import BeamLikelihood, Likelihood, Objective, PseudoLikelihood, SeenLikelihood
from seqboost.objectives.forbidden import find_forbidden
from seqboost.objectives.paths import observed_contexts
from seqboost.sequences import SequenceBatch
from seqboost.trees import Limits, context_space
from seqboost.trees.ahead import compile_beside

__all__ = ["Labelled", "Settings", "Trained", "train", "train_again"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Sequences with coded labels and weights."""

    batch: SequenceBatch
    labels: NDArray[np.int32]  # (n_rows,), −1 = unobserved
    weights: NDArray[np.float64]  # (n_sequences,)
    name: str = "y"  # what the user calls the labels
    numbers: NDArray[np.intp] | None = None  # (n_sequences,) the user's numbers of the sequences; None: as they come

    def take(self, sequences: NDArray[np.intp]) -> Labelled:
        """Return some of the sequences."""
        rows = np.concatenate([np.arange(*self.batch.offsets[s : s + 2]) for s in sequences])
        numbers = sequences if self.numbers is None else self.numbers[sequences]
        return Labelled(self.batch[sequences], self.labels[rows], self.weights[sequences], self.name, numbers)

    def cut(self, offsets: NDArray[np.int64]) -> Labelled:
        """Return the same rows as other sequences: long ones in pieces, which begin at ``offsets``."""
        source = np.searchsorted(self.batch.offsets, offsets[:-1], side="right") - 1
        numbers = source if self.numbers is None else self.numbers[source]
        return Labelled(self.batch.cut(offsets), self.labels, self.weights[source], self.name, numbers)

    def informative(self) -> Labelled:
        """Return the sequences that say something: with a weight, and with at least one observed label.

        Others would count as rows of leaves, and held out they would stop the training at once.
        """
        n_observed = np.add.reduceat(self.labels >= 0, self.batch.offsets[:-1], dtype=np.int64)
        useful = (n_observed > 0) & (self.weights > 0)
        if not useful.any():
            raise InputError(
                f"no sequence with a positive weight has an observed label in {self.name}: all their labels are None "
                f"or NaN; give some of them labels"
            )
        return self if useful.all() else self.take(np.flatnonzero(useful))

    def check_observed(self, what: str, cure: str = "use contexts='all'") -> None:
        """Raise InputError at the first unobserved label, for ``what`` cannot do without."""
        hidden = np.flatnonzero(self.labels < 0)
        if len(hidden):
            s = int(np.searchsorted(self.batch.offsets, hidden[0], side="right")) - 1
            raise InputError(
                f"{what} needs every label, but {self.name}[{s if self.numbers is None else self.numbers[s]}] has an "
                f"unobserved one (None or NaN) at position {hidden[0] - self.batch.offsets[s]}; {cure}, or leave such "
                f"sequences out"
            )

    def check_possible(
        self, table: NDArray[np.float64], end: NDArray[np.float64], order: int, classes: list[Any]
    ) -> None:
        """Raise InputError if labels break a forbidden transition, with the number that the user knows."""
        for s, (start, stop) in enumerate(zip(self.batch.offsets[:-1], self.batch.offsets[1:], strict=True)):
            fault = find_forbidden(self.labels[start:stop], table, order, end, classes)
            if fault is not None:
                raise InputError(
                    f"{self.name}[{s if self.numbers is None else self.numbers[s]}] {fault}, which transitions=... "
                    f"forbids. Allow it in `transitions`, or mend the labels of that sequence (or leave them "
                    f"unobserved: None)."
                )


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a fit, checked."""

    parameters: dict[str, Any]
    classes: NDArray[Any]
    class_weights: NDArray[np.float64]
    n_threads: int
    seed: int
    stopping: Stopping | None
    callbacks: Sequence[Callback]

    def __getitem__(self, name: str) -> Any:
        """Return a parameter."""
        return self.parameters[name]


@dataclass(frozen=True, eq=False)
class Trained:
    """What training gives: the model, how it went, and the number of rounds kept.

    ``linear_fit`` is the way to its linear start; ``refitted``: it was trained again, with what had been held out.
    """

    model: FrozenModel
    history: History
    best_iteration: int
    linear_fit: LinearFit | None = None
    refitted: bool = False


def train(
    training: Labelled,
    validation: Labelled | None,
    settings: Settings,
    earlier: Trained | None = None,
    linear_fit: LinearFit | None = None,
) -> Trained:
    """Bin, boost and freeze; with ``earlier``, go on from its model; with ``linear_fit``, on its way to a start."""
    compile_beside(settings.n_threads, shared=settings["trees"] == "shared")
    binner = earlier.model.binner if earlier else _fit_binner(training.batch, settings)
    binned, labels = binner.transform(training.batch, n_threads=settings.n_threads), training.labels
    weights = training.weights
    if validation is not None:
        binned = BinnedRows.concatenate(binned, binner.transform(validation.batch, n_threads=settings.n_threads))
        labels = np.concatenate([labels, validation.labels])
        weights = np.concatenate([weights, validation.weights])
    is_training = np.arange(len(weights)) < len(training.weights)
    seen = _seen_start(training, validation, settings, (labels, binned.offsets), earlier)
    contexts = None if seen is None else seen.contexts
    joint = _choose_potentials(binned, settings, earlier, contexts)
    space = ContextSpace(len(settings.classes), settings["order"])
    linear = earlier.model.linear if earlier else None
    everything = (labels, binned.offsets)
    table, end = _start(training, space, settings, everything) if seen is None else (seen.table, seen.end)
    linear_task = None
    if linear is not None or settings["init"] == "linear":
        columns = linear.columns if linear is not None else LinearColumns.fit(training.batch, binner)
        linear_task = LinearTask(
            columns, _linear_rows(columns, training, validation), labels, weights, len(training.weights), table,
            space.order, end, settings.class_weights, settings.n_threads,
        )  # fmt: skip
    if earlier:
        table, end, linear_fit = earlier.model.table, earlier.model.end, earlier.linear_fit
        start = _resumed_scores(linear_task, linear, linear_fit, settings)
        scores = forest_scores(earlier.model.forest, binned, settings.n_threads, start=start)
        history = _resumed(earlier, is_training, weights)
    else:
        scores = np.zeros((space.n_labels, binned.n_rows, space.n_contexts if joint else 1), dtype=np.float32)
        history = History(is_training, weights)
        if linear_task is not None:
            plan = None if linear_fit is None else linear_fit.plan
            linear, table, plan = _linear_start(linear_task, (training, validation), settings, plan)
            linear_fit = LinearFit(plan, digest(linear_task))
            scores += cross_scores(linear_task, linear, plan, settings.seed)
    data = _Positions(labels, binned.offsets, space, joint, contexts, training.batch.n_rows)
    n_opening = settings["pseudo_likelihood_rounds"]
    objective_weights = np.where(is_training, weights, 0.0)
    task = Boosting(
        objective=data.objective(objective_class(settings["objective"]), objective_weights, end, settings),
        fitter=_tree_fitter(binned, space, joint, settings),
        examples=data.examples(),
        sampler=sampler_of(settings["sampling"], settings["n_bags"]),
        step=step_of(settings["step"], settings["curvature"], settings["learning_rate"]),
        max_iter=settings["max_iter"],
        seed=settings.seed,
        n_threads=settings.n_threads,
        n_bags=settings["n_bags"],
        stopping=settings.stopping,
        callbacks=settings.callbacks,
        opening=data.objective(PseudoLikelihood, objective_weights, end, settings) if n_opening else None,
        n_opening=n_opening,
    )
    ensemble = ensemble_maker(settings["direction"], training.batch.n_rows)(scores, table, settings.n_threads)
    n_earlier = earlier.best_iteration if earlier else 0
    try:
        kept = boost(task, ensemble, history, n_earlier)
    except InputError:
        for part in (training, validation):
            if part is not None and contexts is None:
                part.check_possible(table, end, space.order, settings.classes.tolist())
        raise
    forest = earlier.model.forest if earlier else Forest.from_trees([], space.n_labels, space.order if joint else 0)
    forest = forest.extend(ensemble.kept(kept.n_rounds - n_earlier))
    model = FrozenModel(binner, forest, kept.table, end, space.order, contexts, linear)
    return Trained(model, history, kept.n_rounds, linear_fit)


def train_again(trained: Trained, training: Labelled, settings: Settings, callbacks: Sequence[Callback]) -> Trained:
    """Train on all sequences, held-out ones included, for as many rounds as were best; the history stays that of then.

    More rounds would suit more data, but by little: 10 % more of them change nothing in cross-validation. Should no
    step help before they are done, which takes absurd steps, the model stays as it is.
    """
    parameters = {**settings.parameters, "max_iter": trained.best_iteration}
    settings = replace(settings, parameters=parameters, stopping=None, callbacks=callbacks)
    again = train(training, None, settings, linear_fit=trained.linear_fit)
    if again.best_iteration < trained.best_iteration:
        return trained
    return replace(again, history=trained.history, refitted=True)


@dataclass(frozen=True, eq=False)
class _Positions:
    """Labels of all positions, those of training sequences first, and the chain they form."""

    labels: NDArray[np.int32]
    offsets: NDArray[np.int64]
    space: ContextSpace
    joint: bool
    contexts: SeenContexts | None
    n_fitted: int

    def objective(
        self,
        kind: ObjectiveClass,
        weights: NDArray[np.float64],
        end: NDArray[np.float64],
        settings: Settings,
    ) -> Objective:
        common: dict[str, Any] = {
            "sequence_weights": weights, "class_weights": settings.class_weights, "curvature": settings["curvature"],
            "end": end, "classes": settings.classes.tolist(),
        }  # fmt: skip
        if self.contexts is not None:
            return SeenLikelihood(self.labels, self.offsets, self.contexts, **common)
        n_labels, order, beam = self.space.n_labels, self.space.order, settings["beam"]
        if kind is Likelihood and beam is not None and beam < self.space.n_contexts:
            return BeamLikelihood(
                self.labels, self.offsets, n_labels=n_labels, order=order, joint=self.joint, beam=beam, **common
            )
        return kind(self.labels, self.offsets, n_labels=n_labels, order=order, joint=self.joint, **common)

    def examples(self) -> Examples:
        n_labels, order = self.space.n_labels, self.space.order
        slot = observed_contexts(self.labels, self.offsets, n_labels, order)[0]
        extended = extended_contexts(self.labels, self.offsets, n_labels, order)
        return Examples(
            labels=np.where(extended >= 0, self.labels, -1).astype(np.int32),
            slot=slot if self.joint else np.zeros_like(slot),
            sequence=np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets)),
            n_fitted=self.n_fitted,
            n_rows=len(self.labels),
        )


def _linear_rows(columns: LinearColumns, training: Labelled, validation: Labelled | None) -> LinearRows:
    """Return the rows of all sequences for the linear part."""
    rows = columns.transform(training.batch)
    return rows if validation is None else LinearRows.concatenate(rows, columns.transform(validation.batch))


def _resumed_scores(
    task: LinearTask | None, linear: LinearWeights | None, fit: LinearFit | None, settings: Settings
) -> NDArray[np.float32] | None:
    """Return the linear part's scores to go on from: those of its own fit, if the sequences are those of then."""
    if task is None or linear is None:
        return None
    if fit is None or fit.digest != digest(task):
        return linear.scores(task.rows, settings.n_threads)
    return cross_scores(task, linear, fit.plan, settings.seed)


def _linear_start(
    task: LinearTask, parts: tuple[Labelled, Labelled | None], settings: Settings, plan: Plan | None
) -> LinearStart:
    """Fit the linear part; labels that break a forbidden transition are named by the user's numbers."""
    try:
        return linear_start(task, settings.seed, plan)
    except InputError:
        for part in parts:
            if part is not None:
                part.check_possible(task.table, task.end, task.order, settings.classes.tolist())
        raise


def _resumed(earlier: Trained, is_training: NDArray[np.bool_], weights: NDArray[np.float64]) -> History:
    """Return the history up to the kept rounds, to go on with; NaN for validation scores that were not taken then."""
    n_kept = earlier.best_iteration + 1
    kept = {name: values[:n_kept] for name, values in earlier.history.to_dict().items()}
    for name in ("validation_score", "validation_accuracy"):
        if is_training.all():
            kept.pop(name, None)
        else:
            kept.setdefault(name, [math.nan] * n_kept)
    kept.setdefault("evaluations", [1.0] * n_kept)  # models of earlier versions have none
    return History(is_training, weights, **kept)


def _fit_binner(batch: SequenceBatch, settings: Settings) -> FeatureBinner:
    filler, policies = missing_policies(settings["missing"], batch)
    return FeatureBinner.fit(
        batch, max_bins=settings["max_bins"], window=settings["window"], min_count=settings["min_samples_leaf"],
        filler=filler, missing=policies, n_threads=settings.n_threads,
    )  # fmt: skip


def _seen_start(
    training: Labelled,
    validation: Labelled | None,
    settings: Settings,
    everything: tuple[NDArray[np.int32], NDArray[np.int64]],
    earlier: Trained | None,
) -> SeenStart | None:
    """Return contexts, table and end scores of ``contexts="seen"``; None if all contexts are used."""
    if not uses_seen(settings):
        return None
    for part in (training, validation):
        if part is not None:
            part.check_observed("contexts='seen'")
    classes, offsets = settings.classes, training.batch.offsets
    known = earlier.model.contexts if earlier is not None else None
    if earlier is not None and known is not None:
        limits, end = known.constraints(), earlier.model.end
    else:
        limits, end = constraint_scores(settings["transitions"], ContextSpace(len(classes), 1), classes, *everything)
    for part in (training, validation):
        if part is not None and np.isinf(limits.sum() + end.sum()):
            part.check_possible(limits, end, 1, classes.tolist())
    if earlier is not None and known is not None:
        return SeenStart(known, earlier.model.table, end)
    weights = np.repeat(training.weights, np.diff(offsets))
    seen = seen_start(training.labels, offsets, weights, settings["order"], (limits, end))
    seen.table[: len(settings.classes)] += np.log(settings.class_weights)
    return seen


def _choose_potentials(
    binned: BinnedRows, settings: Settings, earlier: Trained | None, contexts: SeenContexts | None
) -> bool:
    """Return whether potentials are joint; refuse what would not fit into memory."""
    layout = binned.layout
    n_labels, order = len(settings.classes), settings["order"] if contexts is None else 0
    n_cells = int((layout.n_values + 2).sum()) + layout.n_slots * len(layout.sparse_offsets)
    most_leaves = max(2, n_labels**order * binned.n_rows // settings["min_samples_leaf"])
    memory = FitMemory(
        binned.n_rows, n_labels, order, n_cells, min(settings["max_leaf_nodes"], most_leaves), settings.n_threads,
        binned.nbytes + seen_bytes(contexts, binned.offsets, settings.n_threads), settings["trees"] == "shared",
        settings["n_bags"], dividing_rate(binned),
    )  # fmt: skip
    if contexts is not None:
        memory.check(joint=False)
        return False
    if earlier is not None:
        joint = earlier.model.forest.order == earlier.model.order
    else:
        joint = settings["potentials"] == "joint" or (settings["potentials"] == "auto" and memory.prefers_joint())
        joint = joint or order == 0
    memory.check(joint=joint)
    return joint


def _start(
    training: Labelled,
    space: ContextSpace,
    settings: Settings,
    everything: tuple[NDArray[np.int32], NDArray[np.int64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the table and the end scores to start from: the chain of the labels alone, within the constraints.

    ``everything`` has labels and offsets of held-out sequences too: what they show is "seen" as well, or else they
    could not be scored.
    """
    offsets, labels = training.batch.offsets, training.labels
    contexts = extended_contexts(labels, offsets, space.n_labels, space.order)
    row_weights = np.repeat(training.weights, np.diff(offsets))
    table = label_table(labels, contexts, row_weights, space.n_extended, space.n_labels)
    forbidden, end = constraint_scores(settings["transitions"], space, settings.classes, *everything)
    return table + np.log(settings.class_weights) + forbidden, end


def _tree_fitter(binned: BinnedRows, space: ContextSpace, joint: bool, settings: Settings) -> TreeFitter:
    layout = binned.layout
    n_features = layout.n_dense_features + layout.n_sparse_features
    of_tree = max(1, math.ceil(settings["max_features_per_tree"] * n_features))
    of_node = max(1, math.ceil(settings["max_features"] * of_tree))
    limits = Limits(
        max_leaf_nodes=settings["max_leaf_nodes"],
        max_depth=settings["max_depth"] if settings["max_depth"] is not None else settings["max_leaf_nodes"],
        min_samples_leaf=settings["min_samples_leaf"],
        l2_regularization=float(settings["l2_regularization"]),
        min_gain=float(settings["min_gain"]),
        one_against_rest=settings["categorical_splits"] == "one_vs_rest",
        n_drawn_features=of_node,
        n_tree_features=of_tree,
        n_surrogates=settings["n_surrogates"],
    )
    fitter = SharedTreeFitter if settings["trees"] == "shared" else TreeFitter
    return fitter(
        *tree_columns(binned), context_space(space.n_labels, space.order if joint else 0, binned.offsets), limits,
        max_leaf_value=MAX_LEAF_VALUE, learning_rate=settings["learning_rate"], n_threads=settings.n_threads,
        policies=tree_policies(binned),
    )  # fmt: skip
