"""Where boosting starts: from the chain of the labels alone, from a linear chain, or from an earlier model."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from seqboost.boosting import Evaluator, History, label_table
from seqboost.chain import Potentials, posterior
from seqboost.core.contexts import ContextSpace, observed_contexts
from seqboost.core.exceptions import InputError
from seqboost.features import FeatureBinner
from seqboost.linear import (
    LinearColumns,
    LinearFit,
    LinearRows,
    LinearStart,
    LinearTask,
    LinearWeights,
    Plan,
    cross_scores,
    digest,
    linear_start,
)
from seqboost.model import forest_scores
from seqboost.training.config import FitConfig
from seqboost.training.positions import Positions
from seqboost.training.result import FitResult
from seqboost.training.seen import SeenStart, seen_start
from seqboost.training.transitions import constraint_scores

__all__ = ["Start", "fresh_start", "labels_alone", "linear_task", "resumed_start", "seen_labels_alone"]

START_STEPS = 30  # towards the weighted shares of the labels: a start need not be exact


class Start(NamedTuple):
    """What boosting goes on from."""

    scores: NDArray[np.float32]  # (n_labels, n_rows, n_contexts or 1)
    table: NDArray[np.float64]  # scores of transitions
    end: NDArray[np.float64]  # (n_labels,) scores of closing a sequence
    history: History
    linear: LinearWeights | None
    linear_fit: LinearFit | None  # the way to the linear part


def labels_alone(
    data: Positions, space: ContextSpace, config: FitConfig
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the table and the end scores of the chain of the labels alone, within the constraints.

    Labels of held-out sequences count as "seen" too, or else they could not be scored.
    """
    offsets, labels = data.training.batch.offsets, data.training.telling_labels()
    _, contexts = observed_contexts(labels, offsets, space.n_labels, space.order, mark_unobserved=True)
    row_weights = data.training.row_weights()
    table = label_table(labels, contexts, row_weights, space.n_extended, space.n_labels, data.training.sets)
    forbidden, end = constraint_scores(
        config.chain.transitions, space, data.classes, data.labels, data.offsets, data.sets
    )
    table += forbidden
    if data.class_weights is None or not config.weights_in_terms:
        return table, end
    chain = Potentials(np.zeros((space.n_labels, len(labels), 1), dtype=np.float32), table, offsets, space.order, end)
    return with_weights(chain, data.class_weights, config.n_threads), end


def with_weights(chain: Potentials, class_weights: NDArray[np.float64], n_threads: int = 1) -> NDArray[np.float64]:
    """Return the table of a chain plus scores b of labels that multiply the odds of their mean probabilities.

    With q_k ∝ v_k · mean of P(y_t = k) at b = 0, this minimises a convex function:

        f(b) = mean over positions of log Z(b) − Σ_k q_k b_k            ∂f/∂b_k = mean of P(y_t = k) − q_k
    """

    def means(added: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        found = posterior(replace(chain, table=chain.table + added), n_threads=n_threads)
        return float(found.log_z.sum()) / chain.n_positions, found.node_marginals().mean(axis=0, dtype=np.float64)

    def excess(added: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_z, mean = means(added)
        return log_z - float(shares @ added), mean - shares

    shares = class_weights * means(np.zeros(chain.n_labels))[1]
    shares /= shares.sum()
    guess = np.log(class_weights) if chain.order == 0 else np.zeros(chain.n_labels)  # without transitions it is exact
    with threadpool_limits(1, user_api="blas"):
        found = minimize(excess, guess, jac=True, method="L-BFGS-B", options={"maxiter": START_STEPS, "gtol": 1e-3})
    table: NDArray[np.float64] = chain.table + found.x
    return table


def seen_labels_alone(data: Positions, config: FitConfig, earlier: FitResult | None) -> SeenStart | None:
    """Return contexts, table and end scores of ``contexts="seen"``; None if all contexts are used."""
    if not config.uses_seen:
        return None
    for part in data.parts:
        part.check_observed("contexts='seen'")
    classes, offsets = data.classes, data.training.batch.offsets
    known = earlier.model.contexts if earlier is not None else None
    if earlier is not None and known is not None:
        limits, end = known.constraints(), earlier.model.end
    else:
        space = ContextSpace(len(classes), 1)
        limits, end = constraint_scores(config.chain.transitions, space, classes, data.labels, data.offsets)
    if np.isinf(limits.sum() + end.sum()):
        data.check_possible(limits, end, 1)
    if earlier is not None and known is not None:
        return SeenStart(known, earlier.model.table, end)
    weights = np.repeat(data.training.weights, np.diff(offsets))
    return seen_start(data.training.labels, offsets, weights, config.chain.order, (limits, end))


def linear_task(
    data: Positions,
    binner: FeatureBinner,
    chain: tuple[NDArray[np.float64], NDArray[np.float64]],
    config: FitConfig,
    earlier: FitResult | None,
) -> LinearTask | None:
    """Return what a linear part is fitted to, on top of ``chain`` (table and end scores); None if there is none."""
    linear = earlier.model.linear if earlier else None
    if linear is None and config.chain.init != "linear":
        return None
    columns = linear.columns if linear is not None else LinearColumns.fit(data.training.batch, binner)
    parts = [columns.transform(part.batch) for part in data.parts]
    rows = reduce(LinearRows.concatenate, parts)
    table, end = chain
    weights = np.where(data.part <= 0, data.weights, 0.0)  # only the first evaluation set decides anything
    labels = np.concatenate([part.telling_labels() for part in data.parts]) if data.sets is None else data.labels
    return LinearTask(
        columns, rows, labels, weights, len(data.training.weights), table, config.chain.order, end,
        config.n_threads, data.sets,
    )  # fmt: skip


def fresh_start(
    data: Positions,
    n_slots: int,
    chain: tuple[NDArray[np.float64], NDArray[np.float64]],
    task: LinearTask | None,
    linear_fit: LinearFit | None,
    config: FitConfig,
) -> Start:
    """Start from ``chain`` (table and end scores), and from the linear part if it has a task.

    Scores have ``n_slots`` values for each label and position; ``linear_fit`` is the way to the linear part, if known.
    """
    table, end = chain
    scores = np.zeros((len(data.classes), len(data.labels), n_slots), dtype=np.float32)
    history = _history(data, config)
    if task is None:
        return Start(scores, table, end, history, None, linear_fit)
    linear, table, plan = _fit_linear(task, data, config, None if linear_fit is None else linear_fit.plan)
    scores += cross_scores(task, linear, plan, config.seed)
    return Start(scores, table, end, history, linear, LinearFit(plan, digest(task)))


def resumed_start(data: Positions, task: LinearTask | None, earlier: FitResult, config: FitConfig) -> Start:
    """Start from an earlier model."""
    model = earlier.model
    start = _resumed_scores(task, model.linear, earlier.linear_fit, config)
    scores = forest_scores(model.forest, data.binned, config.n_threads, start=start)
    history = _history(data, config, _kept_lists(earlier))
    return Start(scores, model.table, model.end, history, model.linear, earlier.linear_fit)


def _fit_linear(task: LinearTask, data: Positions, config: FitConfig, plan: Plan | None) -> LinearStart:
    """Fit the linear part; labels that break a forbidden transition are named by the user's numbers."""
    try:
        return linear_start(task, config.seed, plan)
    except InputError:
        data.check_possible(task.table, task.end, task.order)
        raise


def _resumed_scores(
    task: LinearTask | None, linear: LinearWeights | None, fit: LinearFit | None, config: FitConfig
) -> NDArray[np.float32] | None:
    """Return the linear part's scores to go on from: those of its own fit, if the sequences are those of then."""
    if task is None or linear is None:
        return None
    if fit is None or fit.digest != digest(task):
        return linear.scores(task.rows, config.n_threads)
    return cross_scores(task, linear, fit.plan, config.seed)


def _history(data: Positions, config: FitConfig, lists: dict[str, list[float]] | None = None) -> History:
    """Return a history that takes the metrics of a fit, and goes on with lists if there are any."""
    label_weights = None if config.weights_in_terms else data.class_weights
    evaluator = Evaluator(
        data.metrics, data.labels, data.offsets, data.classes, label_weights, data.position_weights
    )  # fmt: skip
    return History(data.part, data.weights, data.set_names, evaluator, lists or {})


def _kept_lists(earlier: FitResult) -> dict[str, list[float]]:
    """Return the history up to the kept rounds, to go on with."""
    n_kept = earlier.best_iteration + 1
    kept = {name: values[:n_kept] for name, values in earlier.history.to_dict().items()}
    kept.setdefault("evaluations", [1.0] * n_kept)  # models of earlier versions have none
    return kept
