"""One training: bin, boost, freeze."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import (
    MAX_LEAF_VALUE,
    Boosting,
    Callback,
    Examples,
    Kept,
    Stopping,
    TreeFitter,
    boost,
    tree_columns,
    tree_policies,
)
from seqboost.chain import SeenContexts
from seqboost.core.contexts import ContextSpace, context_space, observed_contexts
from seqboost.core.exceptions import InputError
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
from seqboost.training.config import FitConfig
from seqboost.training.durations import duration_bytes, label_durations
from seqboost.training.memory import FitMemory
from seqboost.training.methods import ObjectiveClass, ensemble_maker, objective_class, sampler_of, step_of
from seqboost.training.missing import dividing_rate, missing_policies
from seqboost.training.positions import Positions
from seqboost.training.progress import FitProgress
from seqboost.training.result import FitData, FitResult
from seqboost.training.seen import seen_bytes
from seqboost.training.starting import Start, fresh_start, labels_alone, linear_task, resumed_start, seen_labels_alone
from seqboost.trees import Limits, Problem
from seqboost.trees.warmup import compile_beside

__all__ = ["Course", "train_again", "train_once"]


@dataclass(frozen=True, eq=False)
class Course:
    """Who watches a training, and who may stop it.

    Attributes
    ----------
    progress : FitProgress
        Reports the rounds.
    stopping : Stopping or None
        When to stop early.
    callbacks : sequence of Callback
        Called after every round.
    present : callable or None
        From a result to the model that callbacks see.
    title : str
        What the training is called in reports.
    """

    progress: FitProgress
    stopping: Stopping | None = None
    callbacks: Sequence[Callback] = ()
    present: Callable[[FitResult], Any] | None = None
    title: str = "boosting"


def train_once(
    config: FitConfig,
    data: FitData,
    course: Course,
    *,
    earlier: FitResult | None = None,
    linear_fit: LinearFit | None = None,
) -> FitResult:
    """Bin, boost and freeze.

    Parameters
    ----------
    config : FitConfig
        Without "auto", except for potentials.
    data : FitData
        Sequences; those of validation are scored in every round.
    course : Course
        Who watches, and who may stop it.
    earlier : FitResult, optional
        A fit to continue.
    linear_fit : LinearFit, optional
        How to fit the linear start, if known.
    """
    compile_beside(config.n_threads)
    binner = earlier.model.binner if earlier else _fit_binner(data.training.batch, config)
    positions = Positions.together(binner, data, config.n_threads)
    chain, start = _start(positions, binner, config, earlier, linear_fit)
    make = ensemble_maker(config.method.direction, positions.n_fitted)
    ensemble = make(start.scores, start.table, config.n_threads)
    n_earlier = earlier.best_iteration if earlier else 0
    grown = earlier.model.forest if earlier else Forest.from_trees([], chain.space.n_labels, chain.tree_order)

    def result_of(kept: Kept) -> FitResult:
        forest = grown.extend(ensemble.kept(kept.n_rounds - n_earlier))
        model = FrozenModel(
            binner, forest, kept.table, start.end, chain.space.order, chain.contexts, start.linear, chain.durations
        )
        return FitResult(model, start.history, kept.n_rounds, config, start.linear_fit, label_odds(config, data))

    task, present = _boosting(positions, chain, start.end, config), course.present
    try:
        with course.progress.training(course.title, config.max_iter) as watching:
            task = replace(
                task,
                stopping=course.stopping,
                callbacks=[*watching, *course.callbacks],
                snapshot=None if present is None else lambda kept: present(_so_far(result_of(kept))),
            )
            kept = boost(task, ensemble, start.history, n_earlier)
        return result_of(kept)
    except InputError:
        if chain.contexts is None:
            positions.check_possible(start.table, start.end, chain.space.order)
        if chain.durations is not None:
            for part in positions.parts:
                part.check_lasting(start.table, start.end, chain.durations, chain.space.n_labels)
        raise


def _so_far(result: FitResult) -> FitResult:
    """Return a result whose history does not grow with the rounds to come."""
    return replace(result, history=result.history.copy())


def label_odds(config: FitConfig, data: FitData) -> NDArray[np.float64] | None:
    """Return what multiplies the odds of labels in prediction: class weights, unless the trees hold them."""
    weights = data.class_weights
    if weights is None or config.weights_in_terms:
        return None
    return np.asarray(np.maximum(weights / weights.max(), 1e-300), dtype=np.float64)


def train_again(result: FitResult, data: FitData, course: Course) -> FitResult:
    """Train on all sequences for as many rounds as were best; the history stays that of the earlier training.

    More rounds would suit more data, but by little: 10 % more of them change nothing in cross-validation. Should no
    step help before they are done, which takes absurd steps, the model stays as it is.
    """
    config = replace(result.config, max_iter=result.best_iteration)
    whole = replace(data, validation=None, others=(), metrics=())
    again = train_once(config, whole, course, linear_fit=result.linear_fit)
    if again.best_iteration < result.best_iteration:
        return result
    return replace(again, history=result.history, config=result.config, refitted=True)


def _start(
    positions: Positions,
    binner: FeatureBinner,
    config: FitConfig,
    earlier: FitResult | None,
    linear_fit: LinearFit | None,
) -> tuple[_Chain, Start]:
    """Choose the chain, and what boosting starts from."""
    seen = seen_labels_alone(positions, config, earlier)
    chain = _choose_chain(positions, config, earlier, None if seen is None else seen.contexts)
    alone = labels_alone(positions, chain.space, config) if seen is None else (seen.table, seen.end)
    linear = linear_task(positions, binner, alone, config, earlier)
    if earlier:
        return chain, resumed_start(positions, linear, earlier, config)
    return chain, fresh_start(positions, chain.n_slots, alone, linear, linear_fit, config)


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
        self, kind: ObjectiveClass, data: Positions, end: NDArray[np.float64], config: FitConfig
    ) -> Objective:
        common: dict[str, Any] = {
            "sequence_weights": np.where(data.is_training, data.weights, 0.0),
            "curvature": config.method.curvature,
            "end": end,
            "classes": data.classes.tolist(),
        }
        if self.contexts is not None:
            return SeenLikelihood(data.labels, data.offsets, self.contexts, **common)
        common |= {"n_labels": self.space.n_labels, "order": self.space.order, "joint": self.joint}
        if self.durations is not None:
            data.check_no_sets("training with min_duration", "use min_duration=1")
            return DurationLikelihood(data.labels, data.offsets, self.durations, **common)
        if kind is not Likelihood:
            pseudo = kind is PseudoLikelihood and config.method.objective != "pseudo_likelihood"
            what = "pseudo_likelihood_rounds" if pseudo else f"objective={config.method.objective!r}"
            cure = "use TreeCRF with objective='likelihood'"
            if data.position_weights is not None:
                what, cure = "sample_weight with weights of positions", "give one weight for each sequence"
            data.check_no_sets(what, cure)
        if kind is PositionLikelihood:
            return PositionLikelihood(data.labels, data.offsets, position_weights=data.term_weights(), **common)
        beam = config.method.beam
        if kind is Likelihood and beam is not None and beam < self.space.n_contexts:
            data.check_no_sets("training with a beam", "train without one")
            return BeamLikelihood(data.labels, data.offsets, beam=beam, **common)
        return kind(data.labels, data.offsets, sets=data.sets, **common)

    def examples(self, data: Positions) -> Examples:
        labels, offsets, n_labels, order = data.labels, data.offsets, self.space.n_labels, self.space.order
        marked, _ = observed_contexts(labels, offsets, n_labels, order, mark_unobserved=True)
        usable = np.where((marked >= 0) & (labels >= 0), labels, -1).astype(np.int32)  # sets: no one label
        slot = np.maximum(marked, 0) if self.joint else np.zeros_like(marked)
        return Examples.of_sequences(usable, slot, offsets, data.n_fitted)


def _fit_binner(batch: SequenceBatch, config: FitConfig) -> FeatureBinner:
    filler, policies = missing_policies(config.features.missing, batch)
    return FeatureBinner.fit(
        batch,
        max_bins=config.features.max_bins,
        window=config.features.window,
        min_count=config.trees.min_samples_leaf,
        filler=filler,
        missing=policies,
        n_threads=config.n_threads,
    )


def _choose_chain(
    data: Positions, config: FitConfig, earlier: FitResult | None, contexts: SeenContexts | None
) -> _Chain:
    """Decide whether potentials are joint; refuse what would not fit into memory."""
    binned, space, potentials = (
        data.binned,
        ContextSpace(len(data.classes), config.chain.order),
        config.chain.potentials,
    )
    n_labels, order = space.n_labels, space.order if contexts is None else 0
    durations, n_threads = label_durations(config.chain.min_duration, data.classes), config.n_threads
    beside = seen_bytes(contexts, binned.offsets, n_threads) + duration_bytes(durations, binned.offsets, n_threads)
    most_leaves = max(2, n_labels**order * binned.n_rows // config.trees.min_samples_leaf)
    memory = FitMemory(
        n_rows=binned.n_rows,
        n_labels=n_labels,
        order=order,
        n_cells=binned.layout.n_cells,
        max_leaf_nodes=min(config.trees.max_leaf_nodes, most_leaves),
        n_threads=n_threads,
        data_bytes=binned.nbytes + beside,
        shared=config.trees.shared,
        n_bags=config.method.n_bags,
        dividing_rate=dividing_rate(binned),
    )
    if contexts is not None:
        joint = False
    elif earlier is not None:
        joint = earlier.potentials == "joint"
    else:
        joint = order == 0 or potentials == "joint" or (potentials == "auto" and memory.prefers_joint())
    memory.check(joint=joint)
    return _Chain(space, joint, contexts, durations)


def _boosting(data: Positions, chain: _Chain, end: NDArray[np.float64], config: FitConfig) -> Boosting:
    method = config.method
    n_opening = method.pseudo_likelihood_rounds
    return Boosting(
        objective=chain.objective(objective_class(method.objective), data, end, config),
        fitter=_tree_fitter(data.binned, chain, config),
        examples=chain.examples(data),
        sampler=sampler_of(method.sampling, method.n_bags),
        step=step_of(method.step, method.curvature, float(config.learning_rate)),
        max_iter=config.max_iter,
        seed=config.seed,
        n_threads=config.n_threads,
        n_bags=method.n_bags,
        opening=chain.objective(PseudoLikelihood, data, end, config) if n_opening else None,
        n_opening=n_opening,
    )


def _tree_fitter(binned: BinnedRows, chain: _Chain, config: FitConfig) -> TreeFitter:
    trees, method = config.trees, config.method
    of_tree = max(1, math.ceil(method.max_features_per_tree * binned.layout.n_features))
    of_node = max(1, math.ceil(trees.max_features * of_tree))
    limits = Limits(
        max_leaf_nodes=trees.max_leaf_nodes,
        max_depth=trees.max_depth if trees.max_depth is not None else trees.max_leaf_nodes,
        min_samples_leaf=trees.min_samples_leaf,
        l2_regularization=float(trees.l2_regularization),
        min_gain=float(method.min_gain),
        one_against_rest=method.categorical_splits == "one_vs_rest",
        n_drawn_features=of_node,
        n_tree_features=of_tree,
        n_surrogates=config.features.n_surrogates,
    )
    space = context_space(chain.space.n_labels, chain.tree_order, binned.offsets)
    return TreeFitter(
        Problem(tree_columns(binned), space, limits),
        shared=trees.shared,
        max_leaf_value=MAX_LEAF_VALUE,
        learning_rate=float(config.learning_rate),
        n_threads=config.n_threads,
        policies=tree_policies(binned),
    )
