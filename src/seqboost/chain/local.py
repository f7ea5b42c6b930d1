"""Chains whose labels are chosen one after another: scores normalised at each position, given the labels before.

    S_t(c, k) = F_t(c, k) − log Σ_j exp F_t(c, j)          = log P(k | c, X),  so Z = 1 for every sequence

A chain with these scores is an MEMM; everything else in this package (marginals, paths, k best) then holds for it as
it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from seqboost.chain.potentials import Potentials
from seqboost.core.contexts import row_types

__all__ = ["locally_normalised"]


def locally_normalised(potentials: Potentials) -> Potentials:
    """Return the chain with the scores log P(k | c, X).

    Forbidden transitions stay forbidden, as do labels at the end. The latter take probability away from labellings
    without giving it to others: Z is then below 1.

    Examples
    --------
    >>> scores = np.array([[[1.0]], [[0.0]]], dtype=np.float32)
    >>> chain = locally_normalised(Potentials(scores, np.zeros((1, 2)), np.array([0, 1]), order=0))
    >>> np.exp(chain.scores).round(2).ravel()
    array([0.73, 0.27], dtype=float32)
    """
    space, offsets, order = potentials.space, potentials.offsets, potentials.order
    types = row_types(offsets, order)
    scores = np.zeros((space.n_labels, potentials.n_positions, space.n_contexts), dtype=np.float32)
    for j in range(order + 1):
        rows = np.flatnonzero(types == j)
        first, n_existing = int(space.base[j]), space.n_labels**j
        of_contexts = potentials.table[first : first + n_existing].T[:, None, :]
        n_slots = min(n_existing, potentials.scores.shape[2])
        scores[:, rows, :n_existing] = _log_probabilities(potentials.scores[:, rows, :n_slots], of_contexts)
    table = np.where(np.isneginf(potentials.table), -np.inf, 0.0)
    return Potentials(scores, table, offsets, order, potentials.end)


def _log_probabilities(scores: NDArray[np.float32], of_contexts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log P over labels, (K, n_rows, n_contexts); 0 where a label is forbidden, which the table says too."""
    forbidden = np.isneginf(of_contexts)
    with np.errstate(invalid="ignore"):  # a context after which nothing is allowed
        found = log_softmax(np.where(forbidden, -np.inf, scores + of_contexts), axis=0)
    return np.where(forbidden, 0.0, found)
