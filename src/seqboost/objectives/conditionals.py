"""P(y_t = j | all other labels, X) of every scored position, and what it says about the cells it is made of.

Letters: S_t(j) as in ``blankets``, p_t(j) = exp S_t(j) / Σ_i exp S_t(i), w the weight of the sequence, f_t the factor
of the curvature p(1 − p) (see ``pseudolikelihood``). A law p_t gives each of its cells, l = 0 .. m,

    gradient  w (I(j = y_t) − p_t(j))           hessian  f_t p_t(j) (1 − p_t(j))

A cell that is not on the observed path belongs to one law alone: it is written, not added to. The cell of the observed
path at row s belongs to the laws of s−m .. s and is filled last, with the sum of what they left in ``own``:

    own gradient  w (1 − p_t(y_t))              own hessian  f_t p_t(y_t) (1 − p_t(y_t))

All other cells are never touched: they hold the zeros they were allocated with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inlined, jit
from seqboost.objectives.blankets import Blankets
from seqboost.objectives.curvature import COUNT, MIXING

__all__ = ["BLOCK", "Found", "Sums", "Targets", "differentiate", "fill_observed"]

U = np.uint64
BLOCK = 1024
"""Probabilities worked on together (at least one position): they stay in the nearest cache."""

VALUES = -1
"""In place of a curvature: no derivatives."""


class Found(NamedTuple):
    """What is known of each position; those that are not scored keep what ``nothing_found`` gave them."""

    margin: NDArray[np.float64]  # (N,) S_t(y_t) − max_j S_t(j)
    total: NDArray[np.float64]  # (N,) Σ_j exp(S_t(j) − max), so log p_t(y_t) = margin − log total
    is_best: NDArray[np.bool_]  # (N,) whether y_t is the label with the largest S_t, the first of equals
    own_gradient: NDArray[np.float32]  # (N,)
    own_hessian: NDArray[np.float32]  # (N,)


class Targets(NamedTuple):
    """Where derivatives go."""

    gradient: NDArray[np.float32]  # (K * N * C,)
    hessian: NDArray[np.float32]  # (K * N * C,)
    means: NDArray[np.float64]  # (2 * E * K,) Σ w p of the table's cells, laid out as ``Blankets`` says; or (0,)
    variances: NDArray[np.float64]  # (2 * E * K,) Σ f p(1 − p); or (0,)


class Sums(NamedTuple):
    """What is known of each sequence."""

    log_prob: NDArray[np.float64]  # (n_sequences,) Σ_t log p_t(y_t)
    n_correct: NDArray[np.int64]  # (n_sequences,)


def nothing_found(n_positions: int) -> Found:
    """Give the entries of positions that are not scored: log p = 0, not correct, no derivatives."""
    return Found(
        np.zeros(n_positions),
        np.ones(n_positions),
        np.zeros(n_positions, dtype=np.bool_),
        np.zeros(n_positions, dtype=np.float32),
        np.zeros(n_positions, dtype=np.float32),
    )


def differentiate(
    scores: NDArray[np.float32],
    tables: NDArray[np.float64],
    end: NDArray[np.float64],
    row_weights: NDArray[np.float64],
    blankets: Blankets,
    found: Found,
    targets: Targets,
    setting: tuple[int, int, int],
) -> None:
    """Find the laws of a range of scored positions, and fill their cells except those of the observed path.

    Parameters
    ----------
    scores : ndarray of float32, shape (K * N * C,)
        Flat scores.
    tables : ndarray of float64, shape (2 * E * K,)
        The table and its transpose, -inf = forbidden; a forbidden cell has probability 0 whatever its score is.
    end : ndarray of float64, shape (K,)
        Score of closing a sequence with a label.
    row_weights : ndarray of float64, shape (N,)
        w; the cells of rows of weight 0 are left alone.
    blankets : Blankets
        Scored positions and their cells.
    found : Found
        OUT.
    targets : Targets
        OUT.
    setting : (int, int, int)
        First and last scored position; curvature, or VALUES for no derivatives.
    """
    n_labels = len(end)
    size = max(1, BLOCK // n_labels)
    local, prob = np.empty(size * n_labels), np.empty(size * n_labels, dtype=np.float32)
    _differentiate(scores, tables, end, row_weights, blankets, found, targets, setting, local, prob)


@inlined
def _local_scores(
    scores: NDArray[np.float32],  # IN (K * N * C,)
    tables: NDArray[np.float64],  # IN (2 * E * K,)
    end: NDArray[np.float64],  # IN (K,)
    blankets: Blankets,
    i: int,  # number among the scored positions
    at: np.uint64,
    local: NDArray[np.float64],  # OUT S_t(j) at ``at`` and beyond
) -> None:
    """Add up the terms of one position: tables first, so that no score brings back what they forbid."""
    n_labels = end.size
    for j in range(n_labels):
        local[at + U(j)] = end[j] if blankets.closes[i] else 0.0
    for lag in range(blankets.n_terms[i]):
        cell, step = U(blankets.table_cells[i, lag]), U(blankets.table_steps[lag])
        for j in range(n_labels):
            local[at + U(j)] += tables[cell + U(j) * step]
    for lag in range(min(blankets.n_terms[i], blankets.score_steps.size)):
        cell, step = U(blankets.score_cells[i, lag]), U(blankets.score_steps[lag])
        for j in range(n_labels):
            score = np.float64(scores[cell + U(j) * step])
            local[at + U(j)] += score if local[at + U(j)] > -np.inf else 0.0


@jit
def _differentiate(
    scores: NDArray[np.float32],  # IN (K * N * C,)
    tables: NDArray[np.float64],  # IN (2 * E * K,)
    end: NDArray[np.float64],  # IN (K,)
    row_weights: NDArray[np.float64],  # IN (N,)
    blankets: Blankets,  # IN
    found: Found,  # OUT
    targets: Targets,  # OUT
    setting: tuple[int, int, int],  # first, last, curvature
    local: NDArray[np.float64],  # SCRATCH (block * K,) S_t(j)
    prob: NDArray[np.float32],  # SCRATCH (block * K,) p_t(j)
) -> None:
    n_labels, curvature = end.size, setting[2]
    size, one, zero = prob.size // n_labels, np.float32(1.0), np.float32(0.0)
    for start in range(setting[0], setting[1], size):
        n_here = min(size, setting[1] - start)
        for i in range(n_here):
            at, t, y = U(i * n_labels), blankets.rows[start + i], blankets.labels[start + i]
            _local_scores(scores, tables, end, blankets, start + i, at, local)
            best, top = 0, local[at]
            for j in range(1, n_labels):
                if local[at + U(j)] > top:
                    best, top = j, local[at + U(j)]
            found.margin[t], found.is_best[t] = local[at + U(y)] - top, best == y
            for j in range(n_labels):
                prob[at + U(j)] = np.float32(local[at + U(j)] - top)
        for x in range(n_here * n_labels):
            prob[x] = np.exp(prob[x])
        for i in range(n_here):
            at, t, y = U(i * n_labels), blankets.rows[start + i], blankets.labels[start + i]
            total = 0.0
            for j in range(n_labels):
                total += np.float64(prob[at + U(j)])
            found.total[t] = total
            w = np.float32(row_weights[t])
            if curvature == VALUES or w == zero:
                continue
            scale = np.float32(1.0 / total)
            n_terms = blankets.n_terms[start + i]
            table_factor = w * np.float32(2 * n_terms) if curvature == MIXING else w
            factor = table_factor
            if curvature == MIXING and blankets.score_steps.size == 1:
                factor = w * np.float32(2.0)
            rest = np.float32((total - np.float64(prob[at + U(y)])) / total)  # 1 − p_t(y_t) without cancellation
            found.own_gradient[t] = w * rest
            found.own_hessian[t] = factor * rest * (one - rest)
            for j in range(n_labels):
                prob[at + U(j)] *= scale
            for lag in range(min(n_terms, blankets.score_steps.size)):
                cell, step = U(blankets.score_cells[start + i, lag]), U(blankets.score_steps[lag])
                for j in range(n_labels):
                    p = prob[at + U(j)]
                    targets.gradient[cell + U(j) * step] = -w * p
                    if curvature != COUNT:
                        targets.hessian[cell + U(j) * step] = factor * p * max(one - p, zero)
            for lag in range(n_terms if targets.means.size > 0 else 0):
                cell, step = U(blankets.table_cells[start + i, lag]), U(blankets.table_steps[lag])
                for j in range(n_labels):
                    p = prob[at + U(j)]
                    targets.means[cell + U(j) * step] += np.float64(w * p)
                    targets.variances[cell + U(j) * step] += np.float64(table_factor * p * max(one - p, zero))


@jit
def fill_observed(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    row_weights: NDArray[np.float64],  # IN (N,)
    path: NDArray[np.int64],  # IN (N,) cell of the observed path at each row, in the flat scores
    found: Found,  # IN
    targets: Targets,  # OUT
    sums: Sums,  # OUT
    setting: tuple[int, int, int, int],  # first and last sequence; laws that share a cell of the path; curvature
) -> None:
    """Fill the cells of the observed path and the sums of a range of sequences.

    Logarithms are taken of products: a factor is at least 1 and at most K.
    """
    curvature = setting[3]
    for s in range(setting[0], setting[1]):
        begin, stop = offsets[s], offsets[s + 1]
        log_prob, product, correct = 0.0, 1.0, 0
        for t in range(begin, stop):
            log_prob += found.margin[t]
            product *= found.total[t]
            correct += found.is_best[t]
            if product > 1e200:
                log_prob -= np.log(product)
                product = 1.0
        sums.log_prob[s], sums.n_correct[s] = log_prob - np.log(product), correct
        if curvature == VALUES or row_weights[begin] == 0.0:
            continue
        for t in range(begin, stop):
            gradient, hessian = np.float32(0.0), np.float32(0.0)
            for u in range(max(begin, t - setting[2] + 1), t + 1):
                gradient += found.own_gradient[u]
                hessian += found.own_hessian[u]
            targets.gradient[path[t]] = gradient
            if curvature != COUNT:
                targets.hessian[path[t]] = hessian
