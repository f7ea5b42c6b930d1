"""Kernels of the perceptron: what a mistake does to the weights.

Legend: K labels, T positions of the sequence, E extended contexts, F features (``seqboost.linear.LinearColumns``); w
and A weights of features and of transitions. A mistake, y decoded as ŷ, moves

    w_jk += Σ_t x_tj (I(y_t = k) − I(ŷ_t = k))             A(c,k) += Σ_t (I(c_t = c, y_t = k) − I(ĉ_t = c, ŷ_t = k))

and the same times ``age`` goes to a second set of sums, from which averages are taken (see ``perceptron.py``). The twin
is ``perceptron_slow`` in ``reference.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import jit

__all__ = ["learn_features", "learn_transitions"]


@jit
def learn_features(
    span: tuple[int, int],  # rows begin, stop of the sequence
    indptr: NDArray[np.int64],  # IN (n_rows + 1,)
    column: NDArray[np.int32],  # IN (n_pairs,)
    value: NDArray[np.float32],  # IN (n_pairs,)
    offsets: NDArray[np.int32],  # IN (n_offsets,)
    feature_of: NDArray[np.int32],  # IN (n_offsets, n_columns)
    boundary: NDArray[np.int32],  # IN (n_offsets,)
    truth: NDArray[np.int32],  # IN (n_rows,)
    guess: NDArray[np.int32],  # IN (T,)
    age: float,
    weights: NDArray[np.float64],  # INOUT (F, K)
    aged: NDArray[np.float64],  # INOUT (F, K)
) -> int:
    """Move the weights of features from the guessed labels to the true ones; return the number of wrong labels."""
    begin, stop = span
    n_wrong = 0
    for t in range(begin, stop):
        right, wrong = truth[t], guess[t - begin]
        if right == wrong:
            continue
        n_wrong += 1
        for o in range(len(offsets)):
            r = t + offsets[o]
            if r < begin or r >= stop:
                f = boundary[o]
                if f >= 0:
                    weights[f, right] += 1.0
                    weights[f, wrong] -= 1.0
                    aged[f, right] += age
                    aged[f, wrong] -= age
                continue
            for pair in range(indptr[r], indptr[r + 1]):
                f = feature_of[o, column[pair]] if column[pair] >= 0 else np.int32(-1)
                if f >= 0:
                    x = np.float64(value[pair])
                    weights[f, right] += x
                    weights[f, wrong] -= x
                    aged[f, right] += age * x
                    aged[f, wrong] -= age * x
    return n_wrong


@jit
def learn_transitions(
    truth: NDArray[np.int32],  # IN (T,)
    guess: NDArray[np.int32],  # IN (T,)
    base: NDArray[np.int64],  # IN (m + 1,) first extended context of each type
    age: float,
    table: NDArray[np.float64],  # INOUT (E, K)
    turned: NDArray[np.float64],  # INOUT (K, E) the same transposed
    aged: NDArray[np.float64],  # INOUT (E, K)
) -> None:
    """Move the weights of transitions from the guessed path to the true one."""
    n_labels, order = table.shape[1], base.size - 1
    n_shared = (table.shape[0] - base[order]) // n_labels if order > 0 else 1
    right, wrong = 0, 0  # contexts
    for t in range(len(truth)):
        first = base[min(t, order)]
        a, b = truth[t], guess[t]
        if right != wrong or a != b:
            table[first + right, a] += 1.0
            table[first + wrong, b] -= 1.0
            turned[a, first + right] += 1.0
            turned[b, first + wrong] -= 1.0
            aged[first + right, a] += age
            aged[first + wrong, b] -= age
        right = a + n_labels * (right % n_shared) if order > 0 else 0
        wrong = b + n_labels * (wrong % n_shared) if order > 0 else 0
