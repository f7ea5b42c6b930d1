"""Which scores decide a label once all other labels are known: the Markov blanket, as places in flat arrays.

With all other labels fixed, putting label j at position t changes m + 1 terms of the score of a path:

    S_t(j) = Σ_{l=0}^{m} F_{t+l}( c_{t+l} with y_t := j,  y_{t+l} or j )            t + l not beyond the last position

    l = 0    cell (c_t, j)                            label j varies, the context is the observed one
    l >= 1   cell (c_{t+l} with lag l := j, y_{t+l})  the label is the observed one, one digit of its context varies

The cells of a term lie at equal distances in memory, so a first cell and a step describe them. They depend on the
labels alone and are written down once. The labels that S_t needs are y_{t-m} .. y_{t+m}, the Markov blanket of t.
A position with an unobserved label among them, its own included, has no S_t: it is not *scored*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import ContextSpace, observed_contexts
from seqboost.core.offsets import position_bounds

__all__ = ["Blankets", "find_blankets"]


class Blankets(NamedTuple):
    """The n scored positions and the cells of their terms.

    Tables are walked flat, as they lie (E, K) for l = 0 and transposed (K, E) for l >= 1, so that the steps of l = 0
    and l = 1, all there is for order 1, are 1: ``table_cells`` are places in both laid end to end.
    """

    rows: NDArray[np.int64]  # (n,) position
    labels: NDArray[np.int32]  # (n,) y_t
    n_terms: NDArray[np.int32]  # (n,) m + 1, less near the end of a sequence
    closes: NDArray[np.bool_]  # (n,) whether the position is the last of its sequence
    score_cells: NDArray[np.int64]  # (n, m + 1), or (n, 1) if there is one slot: the others do not depend on j
    score_steps: NDArray[np.int64]  # (m + 1,) or (1,)
    table_cells: NDArray[np.int64]  # (n, m + 1)
    table_steps: NDArray[np.int64]  # (m + 1,)


def find_blankets(labels: NDArray[np.int32], offsets: NDArray[np.int64], space: ContextSpace, n_slots: int) -> Blankets:
    """Find the scored positions and their cells.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        Label codes, -1 = unobserved.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    space : ContextSpace
        K and m.
    n_slots : int
        C, 1 for factored models.

    Returns
    -------
    Blankets
    """
    n_positions, n_labels, order, n_extended = len(labels), space.n_labels, space.order, space.n_extended
    begin, stop = position_bounds(offsets)
    at = np.arange(n_positions)
    hidden = np.append(0, np.cumsum(labels < 0))
    rows = np.flatnonzero(hidden[np.minimum(at + order + 1, stop)] == hidden[np.maximum(at - order, begin)])
    slot, extended = (found.astype(np.int64) for found in observed_contexts(labels, offsets, n_labels, order))
    known = np.maximum(labels, 0).astype(np.int64)
    n_score_terms = order + 1 if n_slots > 1 else 1
    score_cells = np.empty((len(rows), n_score_terms), dtype=np.int64)
    table_cells = np.empty((len(rows), order + 1), dtype=np.int64)
    steps = np.array([n_labels ** max(lag - 1, 0) for lag in range(order + 1)], dtype=np.int64)
    score_steps = steps[:n_score_terms].copy()
    score_steps[0] = n_positions * n_slots
    score_cells[:, 0] = rows * n_slots + (slot[rows] if n_slots > 1 else 0)
    table_cells[:, 0] = extended[rows] * n_labels
    for lag in range(1, order + 1):
        later = np.minimum(rows + lag, n_positions - 1)  # beyond the end of the sequence: a term that is never read
        digit = known[rows] * steps[lag]
        table_cells[:, lag] = (n_labels + known[later]) * n_extended + extended[later] - digit
        if n_slots > 1:
            score_cells[:, lag] = (known[later] * n_positions + later) * n_slots + slot[later] - digit
    n_terms = np.minimum(order, stop[rows] - 1 - rows) + 1
    return Blankets(
        rows,
        labels[rows],
        n_terms.astype(np.int32),
        rows == stop[rows] - 1,
        score_cells,
        score_steps,
        table_cells,
        steps,
    )
