"""The one loop: derivatives → sample → trees → step → scores, until it is time to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting.ensemble import Ensemble, Round, TreeFitter
from seqboost.boosting.history import Callback, History, Progress, Stopping
from seqboost.boosting.sampling import Examples, Sample, Sampler
from seqboost.boosting.steps import Ascent, Step
from seqboost.objectives import Derivatives, Objective

__all__ = ["Boosting", "Kept", "boost"]


@dataclass(frozen=True, eq=False)
class Boosting:
    """What the loop works on.

    Attributes
    ----------
    objective : Objective
        From scores to derivatives.
    fitter : TreeFitter
        From derivatives to trees.
    examples : Examples
        What the sampler knows of the positions, those of training sequences first.
    sampler : Sampler
        What each tree is fitted to.
    step : Step
        How far to go along a round.
    max_iter : int
        Number of rounds, those of an earlier fit included.
    seed : int
        Seed of the samples, and of the features drawn at the nodes.
    n_threads : int
        Number of threads.
    n_bags : int
        Trees of each label in each round, whose average is added.
    stopping : Stopping or None
        When to stop early.
    callbacks : sequence of callable
        Called with a :class:`Progress` after every round; a true answer stops.
    opening : Objective or None
        Another objective for the first rounds.
    n_opening : int
        How many rounds are the first ones.
    snapshot : callable or None
        From the rounds to keep so far to the model that callbacks see, if they ask for it.
    """

    objective: Objective
    fitter: TreeFitter
    examples: Examples
    sampler: Sampler
    step: Step
    max_iter: int
    seed: int
    n_threads: int
    n_bags: int = 1
    stopping: Stopping | None = None
    callbacks: Sequence[Callback] = ()
    opening: Objective | None = None
    n_opening: int = 0
    snapshot: Callable[[Kept], Any] | None = None

    def objective_of(self, iteration: int) -> Objective:
        """Return the objective of a round."""
        return self.opening if self.opening is not None and iteration < self.n_opening else self.objective


class Kept(NamedTuple):
    """The rounds to keep, those of an earlier fit included, and the table after them."""

    n_rounds: int
    table: NDArray[np.float64]


def boost(task: Boosting, ensemble: Ensemble, history: History, n_earlier: int = 0) -> Kept:
    """Add rounds to the ensemble; keep those up to the best score of the first evaluation set, or all.

    Parameters
    ----------
    task : Boosting
        What to work on.
    ensemble : Ensemble
        Grows in place.
    history : History
        Gets an entry per round, and one for the start if it is empty.
    n_earlier : int, default=0
        Rounds of an earlier fit (warm start), which count towards ``max_iter``.
    """
    history.watch(task.objective, task.opening)
    objective = task.objective_of(n_earlier)
    derivatives = objective.derivatives(ensemble.scores, ensemble.table, task.n_threads)
    if history.train_score:
        history.refresh(derivatives)
    else:
        history.record(derivatives, 0.0, 0.0, 1)
    kept = Kept(n_earlier, ensemble.table)
    # Rounds of another objective have another score: the choice begins with the last of them.
    first_choice = min(max(n_earlier, task.n_opening), task.max_iter)
    for iteration in range(n_earlier, task.max_iter):
        began = time.perf_counter()
        if task.objective_of(iteration) is not objective:
            objective = task.objective_of(iteration)
            derivatives = objective.derivatives(ensemble.scores, ensemble.table, task.n_threads)
            history.refresh(derivatives)
        bags = list(starmap(task.fitter.fit, _draws(task, derivatives, iteration)))
        trees, leaves = zip(*bags, strict=True)
        boosted = Round(trees, leaves, _table_move(task.fitter, derivatives))
        stepped = task.step.take(Ascent(ensemble, boosted, objective, derivatives, history, task.n_threads))
        if stepped is None:
            break
        derivatives = stepped.derivatives
        record = history.record(derivatives, stepped.step, time.perf_counter() - began, stepped.n_evaluations)
        n_rounds = iteration + 1
        if task.stopping is None or n_rounds <= task.stopping.best(history.watched, first_choice):
            kept = Kept(n_rounds, ensemble.table)
        if task.callbacks:
            progress = Progress(
                n_rounds,
                task.max_iter,
                record,
                history.until_now(),
                watched=history.watched,
                set_names=history.set_names,
            )
            if task.snapshot is not None and any(callback.sees_model for callback in task.callbacks):
                progress = replace(progress, model=task.snapshot(kept))
            answers = [callback(progress) for callback in task.callbacks]  # all are called, whatever the first returns
            if any(answers):
                break
        if task.stopping is not None and task.stopping.should_stop(history.watched[first_choice:]):
            break
    return kept


def _draws(task: Boosting, derivatives: Derivatives, iteration: int) -> Iterator[tuple[list[Sample], list[int]]]:
    """Draw what the trees of a round are fitted to, bag by bag, and their seeds."""
    n_trees = task.fitter.n_trees(len(derivatives.gradient))
    for bag in range(task.n_bags):
        seeds = [_seed(task.seed, iteration, label, bag) for label in range(n_trees)]
        yield task.fitter.draw(task.sampler, derivatives, task.examples, seeds), seeds


def _table_move(fitter: TreeFitter, derivatives: Derivatives) -> NDArray[np.float64] | None:
    """Return the table's step, by the rule of the leaves; forbidden cells have no gradient and stay."""
    if derivatives.table_gradient is None or derivatives.table_hessian is None:
        return None
    return fitter.value(derivatives.table_gradient, derivatives.table_hessian)


def _seed(seed: int, iteration: int, label: int, bag: int) -> int:
    """Return a seed that depends on round, label and bag alone, so that a warm start draws what a cold start would."""
    return int(np.random.SeedSequence([seed, iteration, label, bag]).generate_state(1, np.uint64)[0])
