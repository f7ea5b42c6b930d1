"""``contexts="seen"``: which contexts a chain of higher order has, and where boosting starts on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import history_table
from seqboost.chain import SeenContexts, seen_chunks, seen_counts, seen_steps
from seqboost.core.exceptions import ParameterError

__all__ = ["SeenStart", "check_contexts", "seen_bytes", "seen_start", "uses_seen"]

MIN_COUNT = 2
"""A history is a context of its own if labels followed it so often: what was seen once says nothing in general."""


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
    if parameters["objective"] != "likelihood" or parameters["pseudo_likelihood_rounds"]:
        raise ParameterError(
            "contexts='seen' needs objective='likelihood' and pseudo_likelihood_rounds=0; use these, or contexts='all'"
        )
    if parameters["init"] == "linear":
        raise ParameterError(
            "contexts='seen' starts from the labels alone, but init='linear' was asked for; use "
            "init='labels' (or 'auto'), or contexts='all'"
        )
    if parameters["beam"] is not None:
        raise ParameterError(
            f"contexts='seen' keeps few contexts anyway and has no beam search, but beam={parameters['beam']!r} was "
            f"asked for; use beam=None, or contexts='all'"
        )


def seen_start(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
    order: int,
    constraint: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> SeenStart:
    """Collect the contexts of the training labels.

    Parameters
    ----------
    labels, offsets : ndarray of shape (n_rows,) and (n_sequences + 1,)
        Training sequences, all labels observed, none of them forbidden.
    weights : ndarray of shape (n_rows,)
        Weights of their rows.
    order : int
        Largest number of labels in a context.
    constraint : (ndarray of shape (1 + n_labels, n_labels), ndarray of shape (n_labels,))
        What may follow what, as a table of order 1, and what may close a sequence: 0 or −inf.
    """
    limits, end = constraint
    allowed = np.roll(limits > -np.inf, -1, axis=0)  # the row of the start goes last
    contexts = SeenContexts.from_labels(labels, offsets, len(end), order, min_count=MIN_COUNT, allowed=allowed)
    counts = seen_counts(contexts, seen_steps(contexts, labels, offsets), weights)
    table = history_table(counts, contexts.arc_start, contexts.graph.arc_parent, len(end))
    return SeenStart(contexts, table, end)


def seen_bytes(contexts: SeenContexts | None, offsets: NDArray[np.int64], n_threads: int) -> int:
    """Return what forward-backward over seen contexts takes beside the scores."""
    if contexts is None:
        return 0
    n_messages = 2 * int(np.diff(offsets).max()) * contexts.n_states * n_threads
    return 8 * (n_messages + 2 * (len(seen_chunks(offsets)) + n_threads) * contexts.n_parameters)
