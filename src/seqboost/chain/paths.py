"""Single labellings: their scores, the best one (Viterbi), the n best.

Letters as in :mod:`seqboost.chain.contexts`.  Both searches run from the end of the sequence to its start,

    v_t(c) = max_k F_t(c,k) + v_{t+1}(next(c,k)),

so that the labels can be read off forwards from the start context, and of equally good labellings the one with the
lowest label at the first difference wins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.potentials import Lattice
from seqboost.core.jit import allocating, jit

__all__ = ["k_best_sequence", "path_scores_chunk", "viterbi_chunk"]

U = np.uint64


@jit
def path_scores_chunk(
    lattice: Lattice,
    labels: NDArray[np.int32],  # IN (N,) all observed
    first: int,
    last: int,
    path_score: NDArray[np.float64],  # OUT (n_sequences,)
) -> None:
    """Fill the score of the given labelling of each of the sequences first:last: the sum of F_t(c_t, y_t)."""
    scores, table, end, offsets, base = lattice.scores, lattice.table, lattice.end, lattice.offsets, lattice.base
    n_labels, _, n_slots = scores.shape
    order = base.size - 1
    n_contexts = table.shape[0] - base[order]
    n_shared = n_contexts // n_labels if order > 0 else 1
    for s in range(first, last):
        c = 0
        total = end[labels[offsets[s + 1] - 1]]
        for t in range(offsets[s], offsets[s + 1]):
            k = labels[t]
            total += table[base[min(t - offsets[s], order)] + c, k] + scores[k, t, c if n_slots > 1 else 0]
            c = k + n_labels * (c % n_shared) if order > 0 else 0
        path_score[s] = total


@allocating
def viterbi_chunk(
    lattice: Lattice,
    turned: NDArray[np.float64],  # IN (K, E) the table, transposed
    first: int,
    last: int,
    choice: NDArray[np.uint16],  # SCRATCH (longest sequence, C)
    path: NDArray[np.int32],  # OUT (N,)
    path_score: NDArray[np.float64],  # OUT (n_sequences,), -inf if no labelling is allowed
) -> None:
    """Fill the best labelling of each of the sequences first:last."""
    scores, end, offsets, base = lattice.scores, lattice.end, lattice.offsets, lattice.base
    n_labels, n_positions, n_slots = scores.shape
    n_extended = turned.shape[1]
    order = base.size - 1
    n_contexts = choice.shape[1]
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    cells, tables = scores.reshape(-1), turned.reshape(-1)
    best, following = np.empty(n_contexts), np.empty(n_contexts)
    for s in range(first, last):
        begin, stop = offsets[s], offsets[s + 1]
        for c in range(n_contexts):
            following[c] = 0.0
        for t in range(stop - 1, begin - 1, -1):
            context_type = min(t - begin, order)
            n_existing = n_contexts if context_type == order else base[context_type + 1] - base[context_type]
            row = U((t - begin) * n_contexts)
            choices = choice.reshape(-1)
            for c in range(n_existing):
                best[c] = -np.inf
                choices[row + U(c)] = 0
            for k in range(n_labels):
                at = U((k * n_positions + t) * n_slots)
                to = U(k * n_extended + base[context_type])
                after = (end[k] if t == stop - 1 else 0.0) + (following[k * step] if n_shared == 1 else 0.0)
                if n_slots == 1:
                    after += cells[at]
                for c in range(n_existing):
                    score = after + tables[to + U(c)]
                    if n_slots > 1:
                        score += cells[at + U(c)]
                    if n_shared > 1:
                        score += following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
                    better = score > best[c]
                    best[c] = score if better else best[c]
                    choices[row + U(c)] = np.uint16(k) if better else choices[row + U(c)]
            for c in range(n_existing):
                following[c] = best[c]
        path_score[s] = following[0]
        c = 0
        for t in range(begin, stop):
            k = int(choice[t - begin, c])
            path[t] = k
            c = step * (k + n_labels * (c % n_shared))


@jit
def k_best_sequence(
    lattice: Lattice,
    begin: int,
    stop: int,
    choice: NDArray[np.int32],  # SCRATCH (stop - begin, C, n_best): label * n_best + rank of the rest
    values: NDArray[np.float64],  # SCRATCH (2, C, n_best): v_t(c) of the 1st, 2nd, ... best rest; -inf if there is none
    rank: NDArray[np.int64],  # SCRATCH (K,)
    paths: NDArray[np.int32],  # OUT (n_best, stop - begin)
    path_scores: NDArray[np.float64],  # OUT (n_best,), -inf where there are fewer labellings
) -> None:
    """Fill the best labellings of one sequence: at every (t, c), the n best rests of each label are merged."""
    scores, table, end, base = lattice.scores, lattice.table, lattice.end, lattice.base
    n_labels, _, n_slots = scores.shape
    order = base.size - 1
    n_contexts, n_best = choice.shape[1], choice.shape[2]
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    values[:] = -np.inf
    for c in range(n_contexts):
        values[stop % 2, c, 0] = 0.0
    for t in range(stop - 1, begin - 1, -1):
        now, following = t % 2, (t + 1) % 2
        context_type = min(t - begin, order)
        n_existing = n_contexts if context_type == order else base[context_type + 1] - base[context_type]
        for c in range(n_existing):
            rank[:] = 0
            for i in range(n_best):
                best_score, best_label = -np.inf, 0
                for k in range(n_labels):
                    if rank[k] < n_best:
                        score = values[following, step * (k + n_labels * (c % n_shared)), rank[k]]
                        score += table[base[context_type] + c, k] + (end[k] if t == stop - 1 else 0.0)
                        if score > -np.inf:
                            score += scores[k, t, c if n_slots > 1 else 0]
                        if score > best_score:
                            best_score, best_label = score, k
                values[now, c, i] = best_score
                choice[t - begin, c, i] = best_label * n_best + rank[best_label]
                rank[best_label] += 1
    for i in range(n_best):
        path_scores[i] = values[begin % 2, 0, i]
        c, j = 0, i
        for t in range(stop - begin):
            k, j = divmod(choice[t, c, j], n_best)
            paths[i, t] = k
            c = step * (k + n_labels * (c % n_shared))
            j = min(j, n_best - 1)
