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
    TreeFitter,
    boost,
    tree_columns,
    tree_policies,
)
from seqboost.chain import SeenContexts
from seqboost.core.contexts import ContextSpace, context_space, observed_contexts
from seqboost.core.exceptions import InputError
from seqboost.estimators.durations import label_durations
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.memory import FitMemory
from seqboost.estimators.methods import ObjectiveClass, ensemble_maker, objective_class, sampler_of, step_of
from seqboost.estimators.missing import dividing_rate, missing_policies
from seqboost.estimators.positions import Positions
from seqboost.estimators.seen import seen_bytes
from seqboost.estimators.settings import Settings, Trained
from seqboost.estimators.starting import fresh_start, labels_alone, linear_task, resumed_start, seen_labels_alone
from seqboost.features import BinnedRows, FeatureBinner
from seqboost.linear import LinearFit
from seqboost.model import Forest, FrozenModel
from seqboost.objectives import (
    BeamLikelihood,
    DurationLikelihood,
    Likelihood,
    Objective,
    PositionLikelihood,
    PseudoLikelihood,
    SeenLikelihood,
)
from seqboost.sequences import SequenceBatch
from seqboost.trees import Limits, Problem
from seqboost.trees.warmup import compile_beside

__all__ = ["train", "train_again"]


def train(
    training: Labelled,
    validation: Labelled | None,
    settings: Settings,
    earlier: Trained | None = None,
    linear_fit: LinearFit | None = None,
) -> Trained:
    """Bin, boost and freeze; with ``earlier``, go on from its model; with ``linear_fit``, on its way to a start."""
    compile_beside(settings.n_threads)
    binner = earlier.model.binner if earlier else _fit_binner(training.batch, settings)
    data = Positions.together(binner, training, validation, settings.n_threads)
    seen = seen_labels_alone(data, settings, earlier)
    chain = _choose_chain(data.binned, settings, earlier, None if seen is None else seen.contexts)
    alone = labels_alone(data, chain.space, settings) if seen is None else (seen.table, seen.end)
    linear = linear_task(data, binner, alone, settings, earlier)
    if earlier:
        start = resumed_start(data, linear, earlier, settings)
    else:
        start = fresh_start(data, chain.n_slots, alone, linear, linear_fit, settings)
    make = ensemble_maker(settings["direction"], data.n_fitted)
    ensemble = make(start.scores, start.table, settings.n_threads)
    n_earlier = earlier.best_iteration if earlier else 0
    try:
        kept = boost(_boosting(data, chain, start.end, settings), ensemble, start.history, n_earlier)
    except InputError:
        if seen is None:
            data.check_possible(start.table, start.end, chain.space.order, settings.classes.tolist())
        raise
    forest = earlier.model.forest if earlier else Forest.from_trees([], chain.space.n_labels, chain.tree_order)
    forest = forest.extend(ensemble.kept(kept.n_rounds - n_earlier))
    model = FrozenModel(
        binner, forest, kept.table, start.end, chain.space.order, chain.contexts, start.linear, chain.durations
    )
    return Trained(model, start.history, kept.n_rounds, start.linear_fit)


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
class _Chain:
    """The chain that labels form: with all contexts or those seen, and whether trees see them."""

    space: ContextSpace
    joint: bool
    contexts: SeenContexts | None
    durations: NDArray[np.int64] | None = None  # (n_labels,) smallest numbers of positions of runs; None: any

    @property
    def n_slots(self) -> int:
        """Number of contexts that trees tell apart."""
        return self.space.n_contexts if self.joint else 1

    @property
    def tree_order(self) -> int:
        """Number of labels before that trees see."""
        return self.space.order if self.joint else 0

    def objective(
        self, kind: ObjectiveClass, data: Positions, end: NDArray[np.float64], settings: Settings
    ) -> Objective:
        common: dict[str, Any] = {
            "sequence_weights": np.where(data.is_training, data.weights, 0.0),
            "curvature": settings["curvature"], "end": end, "classes": settings.classes.tolist(),
        }  # fmt: skip
        if self.contexts is not None:
            return SeenLikelihood(data.labels, data.offsets, self.contexts, **common)
        common |= {"n_labels": self.space.n_labels, "order": self.space.order, "joint": self.joint}
        if self.durations is not None:
            return DurationLikelihood(data.labels, data.offsets, self.durations, **common)
        if kind is PositionLikelihood:
            weights = None if settings.class_weights is None else settings.class_weights[data.labels]
            return PositionLikelihood(data.labels, data.offsets, position_weights=weights, **common)
        beam = settings["beam"]
        if kind is Likelihood and beam is not None and beam < self.space.n_contexts:
            return BeamLikelihood(data.labels, data.offsets, beam=beam, **common)
        return kind(data.labels, data.offsets, **common)

    def examples(self, data: Positions) -> Examples:
        labels, offsets, n_labels, order = data.labels, data.offsets, self.space.n_labels, self.space.order
        marked, _ = observed_contexts(labels, offsets, n_labels, order, mark_unobserved=True)
        usable = np.where(marked >= 0, labels, -1).astype(np.int32)
        slot = np.maximum(marked, 0) if self.joint else np.zeros_like(marked)
        return Examples.of_sequences(usable, slot, offsets, data.n_fitted)


def _fit_binner(batch: SequenceBatch, settings: Settings) -> FeatureBinner:
    filler, policies = missing_policies(settings["missing"], batch)
    return FeatureBinner.fit(
        batch, max_bins=settings["max_bins"], window=settings["window"], min_count=settings["min_samples_leaf"],
        filler=filler, missing=policies, n_threads=settings.n_threads,
    )  # fmt: skip


def _choose_chain(
    binned: BinnedRows, settings: Settings, earlier: Trained | None, contexts: SeenContexts | None
) -> _Chain:
    """Decide whether potentials are joint; refuse what would not fit into memory."""
    space = ContextSpace(len(settings.classes), settings["order"])
    n_labels, order = space.n_labels, space.order if contexts is None else 0
    most_leaves = max(2, n_labels**order * binned.n_rows // settings["min_samples_leaf"])
    memory = FitMemory(
        binned.n_rows, n_labels, order, binned.layout.n_cells, min(settings["max_leaf_nodes"], most_leaves),
        settings.n_threads, binned.nbytes + seen_bytes(contexts, binned.offsets, settings.n_threads),
        settings["trees"] == "shared", settings["n_bags"], dividing_rate(binned),
    )  # fmt: skip
    if contexts is not None:
        joint = False
    elif earlier is not None:
        joint = earlier.model.forest.order == earlier.model.order
    else:
        joint = settings["potentials"] == "joint" or (settings["potentials"] == "auto" and memory.prefers_joint())
        joint = joint or order == 0
    memory.check(joint=joint)
    return _Chain(space, joint, contexts, label_durations(settings["min_duration"], settings.classes))


def _boosting(data: Positions, chain: _Chain, end: NDArray[np.float64], settings: Settings) -> Boosting:
    n_opening = settings["pseudo_likelihood_rounds"]
    return Boosting(
        objective=chain.objective(objective_class(settings["objective"]), data, end, settings),
        fitter=_tree_fitter(data.binned, chain, settings),
        examples=chain.examples(data),
        sampler=sampler_of(settings["sampling"], settings["n_bags"]),
        step=step_of(settings["step"], settings["curvature"], settings["learning_rate"]),
        max_iter=settings["max_iter"],
        seed=settings.seed,
        n_threads=settings.n_threads,
        n_bags=settings["n_bags"],
        stopping=settings.stopping,
        callbacks=settings.callbacks,
        opening=chain.objective(PseudoLikelihood, data, end, settings) if n_opening else None,
        n_opening=n_opening,
    )


def _tree_fitter(binned: BinnedRows, chain: _Chain, settings: Settings) -> TreeFitter:
    of_tree = max(1, math.ceil(settings["max_features_per_tree"] * binned.layout.n_features))
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
    space = context_space(chain.space.n_labels, chain.tree_order, binned.offsets)
    return TreeFitter(
        Problem(tree_columns(binned), space, limits), shared=settings["trees"] == "shared",
        max_leaf_value=MAX_LEAF_VALUE, learning_rate=settings["learning_rate"], n_threads=settings.n_threads,
        policies=tree_policies(binned),
    )  # fmt: skip
