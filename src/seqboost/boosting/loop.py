"""The one loop: derivatives → trees → step → scores, until it is time to stop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting.ensemble import Ensemble, Round, TreeFitter
from seqboost.boosting.history import Callback, History, Progress, Stopping
from seqboost.objectives import Derivatives, Likelihood

__all__ = ["Boosting", "boost"]

MAX_HALVINGS = 8
STEP_GROWTH = 1.5

# Steps grow only where the bound asks for more than so many times Newton's curvature; below that, the small steps it
# gives are good shrinkage (hyphen, stress, S1: 0.1 to 0.3 points better in cross-validation than grown ones).
TOLERATED_CAUTION = 8.0

# Trees and the transition table are fitted side by side to the same gradient; each alone may move all the way, so both
# together may move half of it.
TWO_BLOCKS = 0.5


@dataclass(frozen=True, eq=False)
class Boosting:
    """What the loop works on.

    Attributes
    ----------
    objective : Likelihood
        From scores to derivatives.
    fitter : TreeFitter
        From derivatives to trees.
    rows : ndarray of int32 of shape (n_rows,)
        Every position once, those of training sequences first.
    n_fitted : int
        Number of positions of training sequences.
    max_iter : int
        Number of rounds, those of an earlier fit included.
    is_safe : bool
        Whether a step that would lower the training log-likelihood is halved until it does not.
    seed : int
        Seed of the features drawn at the nodes.
    n_threads : int
        Number of threads.
    stopping : Stopping or None
        When to stop early.
    callbacks : sequence of callable
        Called with a :class:`Progress` after every round; a true answer stops.
    """

    objective: Likelihood
    fitter: TreeFitter
    rows: NDArray[np.int32]
    n_fitted: int
    max_iter: int
    is_safe: bool
    seed: int
    n_threads: int
    stopping: Stopping | None = None
    callbacks: Sequence[Callback] = ()


def boost(task: Boosting, ensemble: Ensemble, history: History, n_earlier: int = 0) -> NDArray[np.float64]:
    """Add rounds to the ensemble; return the table of the round with the best validation score, or of the last.

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
    derivatives = task.objective.derivatives(ensemble.scores, ensemble.table, task.n_threads)
    if history.train_score:
        history.refresh(derivatives)
    else:
        history.record(derivatives, 0.0, 0.0)
    best_table = ensemble.table
    for iteration in range(n_earlier, task.max_iter):
        began = time.perf_counter()
        seeds = [_seed(task.seed, iteration, label) for label in range(len(derivatives.gradient))]
        trees, partitions = task.fitter.fit(derivatives, task.rows, task.n_fitted, seeds)
        boosted = Round(trees, partitions, _table_move(task.fitter, derivatives))
        stepped = _climb(task, ensemble, history, boosted, derivatives)
        if stepped is None:
            break
        step, derivatives = stepped
        record = history.record(derivatives, step, time.perf_counter() - began)
        if task.stopping is not None and task.stopping.best(history.validation_score, n_earlier) == iteration + 1:
            best_table = ensemble.table
        progress = Progress(iteration + 1, task.max_iter, record, history.to_dict())
        answers = [callback(progress) for callback in task.callbacks]  # all are asked, whatever the first one says
        if any(answers):
            break
        if task.stopping is not None and task.stopping.should_stop(history.validation_score):
            break
    return best_table if task.stopping is not None else ensemble.table


def _climb(
    task: Boosting, ensemble: Ensemble, history: History, boosted: Round, derivatives: Derivatives
) -> tuple[float, Derivatives] | None:
    """Add a round with the largest step that does not lower the log-likelihood; None if there is none.

    The curvature "mixing" holds for the worst case: step 1 is safe, and on sticky chains it is a small part of what
    would be safe. So there the step grows from round to round, up to where an average leaf moves by an eighth of
    ``learning_rate`` times its Newton step, and is halved whenever the log-likelihood would fall.
    """
    before = history.objective_value(derivatives)
    step = 1.0 if boosted.table_move is None else TWO_BLOCKS
    if task.is_safe:
        largest = step * max(1.0, derivatives.caution / TOLERATED_CAUTION)
        last = history.step[-1] if history.step else 0.0
        step = min(max(step, STEP_GROWTH * last), largest)
    ensemble.add(boosted, step)
    for _ in range(MAX_HALVINGS):
        moved = task.objective.derivatives(ensemble.scores, ensemble.table, task.n_threads)
        if not task.is_safe or history.objective_value(moved) >= before:
            return step, moved
        step /= 2
        ensemble.repeat(boosted, step)
    ensemble.undo()
    return None


def _table_move(fitter: TreeFitter, derivatives: Derivatives) -> NDArray[np.float64] | None:
    """Return the table's step, by the rule of the leaves; forbidden cells have no gradient and stay."""
    if derivatives.table_gradient is None or derivatives.table_hessian is None:
        return None
    return fitter.value(derivatives.table_gradient, derivatives.table_hessian)


def _seed(seed: int, iteration: int, label: int) -> int:
    """Return a seed that depends on round and label alone, so that a warm start draws what a cold start would."""
    return int(np.random.SeedSequence([seed, iteration, label]).generate_state(1, np.uint64)[0])
