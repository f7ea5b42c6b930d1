"""``contexts="seen"``: which contexts a chain of higher order has, and where boosting starts on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import history_table
from seqboost.chain import SeenContexts, seen_chunks, seen_counts, seen_steps

__all__ = ["SeenStart", "seen_bytes", "seen_start"]

MIN_COUNT = 2
"""A history is a context of its own if labels followed it so often: what was seen once says nothing in general."""


class SeenStart(NamedTuple):
    """The contexts of a chain, the table to start from and the scores of closing a sequence."""

    contexts: SeenContexts
    table: NDArray[np.float64]
    end: NDArray[np.float64]


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
