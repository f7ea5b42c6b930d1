"""``contexts="seen"``: which contexts a chain of higher order has, and where boosting starts on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import history_table
from seqboost.chain import ContextSpace, SeenContexts, seen_chunks, seen_counts, seen_steps
from seqboost.estimators.transitions import constraint_scores
from seqboost.exceptions import ParameterError

__all__ = ["Labels", "SeenStart", "check_contexts", "seen_bytes", "seen_start", "uses_seen"]

MIN_COUNT = 2
"""A history is a context of its own if labels followed it so often: what was seen once says nothing in general."""

Labels = tuple[NDArray[np.int32], NDArray[np.int64]]


class SeenStart(NamedTuple):
    """The contexts of a chain, the table to start from and the scores of closing a sequence."""

    contexts: SeenContexts
    table: NDArray[np.float64]
    end: NDArray[np.float64]


def uses_seen(parameters: Any) -> bool:
    """Tell whether parameters ask for a chain of seen contexts (order 0 has none)."""
    return bool(parameters["contexts"] == "seen" and parameters["order"] > 0)


def check_contexts(parameters: Any) -> None:
    """Raise ParameterError if ``contexts="seen"`` comes with what it cannot do."""
    if not uses_seen(parameters):
        return
    if parameters["potentials"] == "joint":
        raise ParameterError(
            "contexts='seen' needs factored potentials, but potentials='joint' was asked for; use "
            "potentials='factored' (or 'auto'), or contexts='all'"
        )
    if parameters["beam"] is not None:
        raise ParameterError(
            f"contexts='seen' keeps few contexts anyway and has no beam search, but beam={parameters['beam']!r} was "
            f"asked for; use beam=None, or contexts='all'"
        )


def seen_start(
    training: Labels, weights: NDArray[np.float64], everything: Labels, parameters: Any, classes: NDArray[Any]
) -> SeenStart:
    """Collect the contexts of the training labels.

    Parameters
    ----------
    training : (labels, offsets)
        Training sequences, all labels observed.
    weights : ndarray of shape (n_rows,)
        Weights of their rows.
    everything : (labels, offsets)
        The same with held-out sequences: what they show is allowed by ``transitions="seen"`` too.
    parameters : mapping
        Parameters of the estimator.
    classes : ndarray
        The labels.
    """
    n_labels = len(classes)
    limits, end = constraint_scores(parameters["transitions"], ContextSpace(n_labels, 1), classes, *everything)
    allowed = np.roll(limits > -np.inf, -1, axis=0)  # the row of the start goes last
    contexts = SeenContexts.from_labels(
        *training, n_labels, parameters["order"], min_count=MIN_COUNT, allowed=allowed
    )
    counts = seen_counts(contexts, seen_steps(contexts, *training), weights)[: contexts.n_arcs]
    return SeenStart(contexts, history_table(counts, contexts.arc_start, contexts.graph.arc_parent, n_labels), end)


def seen_bytes(contexts: SeenContexts | None, offsets: NDArray[np.int64], n_threads: int) -> int:
    """Return what forward-backward over seen contexts takes beside the scores."""
    if contexts is None:
        return 0
    n_messages = 2 * int(np.diff(offsets).max()) * contexts.n_states * n_threads
    return 8 * (n_messages + 2 * (len(seen_chunks(offsets)) + n_threads) * contexts.n_parameters)
