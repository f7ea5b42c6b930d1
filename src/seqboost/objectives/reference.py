"""Slow, obviously right twins of this package's kernels: every labelling is written out (tests only).

Letters: T positions, K labels, order m, context slot c_t = y_{t-1} + K*y_{t-2} + ... (lag 1 least significant), e the
extended context (type of the position and slot), F_t(c,k) = scores[k,t,c] + table[e,k], L = log P(observed | X).
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from seqboost.core.labelsets import LabelSets

__all__ = [
    "cell_hessian",
    "conditional",
    "contraction",
    "enumerate_chain",
    "exact_hessian",
    "gradient",
    "local_log_likelihood",
    "log_likelihood",
    "mixing_sums",
    "pair_marginals",
    "position_gradient",
    "position_log_likelihood",
    "pseudo_gradient",
    "pseudo_hessian",
    "pseudo_log_likelihood",
    "row_sums",
    "scored_positions",
]

Paths = list[tuple[int, ...]]


def slot_of(path: tuple[int, ...], t: int, n_labels: int, order: int) -> int:
    """Give the slot number of the context of position t on a path."""
    return sum(path[t - lag] * n_labels ** (lag - 1) for lag in range(1, min(order, t) + 1))


def extended_of(path: tuple[int, ...], t: int, n_labels: int, order: int) -> int:
    """Give the extended context (row of the table) of position t on a path."""
    return sum(n_labels**i for i in range(min(order, t))) + slot_of(path, t, n_labels, order)


def enumerate_chain(
    scores: NDArray[np.float32],  # IN (K, T, C or 1)
    table: NDArray[np.float64],  # IN (E, K)
    order: int,
    end: NDArray[np.float64] | None = None,  # IN (K,) score of closing with a label
) -> tuple[Paths, NDArray[np.float64]]:
    """Give all labellings of one sequence and the log score of each."""
    n_labels, n_positions, n_slots = scores.shape
    paths = list(product(range(n_labels), repeat=n_positions))
    path_score = np.zeros(len(paths))
    for i, path in enumerate(paths):
        for t, label in enumerate(path):
            slot = slot_of(path, t, n_labels, order) if n_slots > 1 else 0
            path_score[i] += float(scores[label, t, slot]) + table[extended_of(path, t, n_labels, order), label]
        path_score[i] += 0.0 if end is None else end[path[-1]]
    return paths, path_score


def _log_sum(values: NDArray[np.float64]) -> float:
    highest = float(values.max())
    return highest if not np.isfinite(highest) else highest + float(np.log(np.exp(values - highest).sum()))


def _agrees(paths: Paths, labels: NDArray[np.int32], sets: LabelSets | None = None) -> NDArray[np.bool_]:
    def agrees(y: int, label: int) -> bool:
        return bool(sets[-3 - y, label]) if sets is not None and y <= -3 else y in (-1, label)

    return np.array([all(map(agrees, labels, path)) for path in paths])


def log_likelihood(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],  # IN (T,) -1 = unobserved, -3 - i = one of set i
    order: int,
    end: NDArray[np.float64] | None = None,
    sets: LabelSets | None = None,  # IN (n_sets, K)
) -> float:
    """Give L = log of the share of the labellings that agree with the observed labels."""
    paths, path_score = enumerate_chain(scores, table, order, end)
    return _log_sum(path_score[_agrees(paths, labels, sets)]) - _log_sum(path_score)


def pair_marginals(
    paths: Paths,
    prob: NDArray[np.float64],  # IN (n_paths,)
    n_labels: int,
    order: int,
) -> NDArray[np.float64]:
    """Give P(c_t = c, y_t = k), (K, T, C)."""
    n_positions = len(paths[0])
    marginals = np.zeros((n_labels, n_positions, n_labels**order))
    for path, p in zip(paths, prob, strict=True):
        for t, label in enumerate(path):
            marginals[label, t, slot_of(path, t, n_labels, order)] += p
    return marginals


def gradient(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],
    order: int,
    end: NDArray[np.float64] | None = None,
    sets: LabelSets | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give Δ_t(c,k) = P(c,k | X, observed) − P(c,k | X), and P(c,k | X), both (K, T, C)."""
    n_labels = scores.shape[0]
    paths, path_score = enumerate_chain(scores, table, order, end)
    free = np.exp(path_score - _log_sum(path_score))
    clamped_score = np.where(_agrees(paths, labels, sets), path_score, -np.inf)
    clamped = np.exp(clamped_score - _log_sum(clamped_score))
    p_free = pair_marginals(paths, free, n_labels, order)
    return pair_marginals(paths, clamped, n_labels, order) - p_free, p_free


def position_log_likelihood(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],  # IN (T,) -1 = unobserved
    weights: NDArray[np.float64],  # IN (T,) v_t
    order: int,
    end: NDArray[np.float64] | None = None,
) -> float:
    """Return Σ_t v_t log P(y_t | X) over the observed labels."""
    return sum(
        float(weights[t]) * log_likelihood(scores, table, _only(labels, t), order, end) for t in _observed(labels)
    )


def position_gradient(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    order: int,
    end: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return Σ_t v_t (P(c_s = c, y_s = k | X, y_t) − P(c_s = c, y_s = k | X)), (K, T, C)."""
    n_labels, n_positions, _ = scores.shape
    total = np.zeros((n_labels, n_positions, n_labels**order))
    for t in _observed(labels):
        total += weights[t] * gradient(scores, table, _only(labels, t), order, end)[0]
    return total


def _observed(labels: NDArray[np.int32]) -> list[int]:
    return [t for t, label in enumerate(labels) if label >= 0]


def _only(labels: NDArray[np.int32], t: int) -> NDArray[np.int32]:
    """Hide all labels but that of position t."""
    return np.where(np.arange(len(labels)) == t, labels, -1).astype(np.int32)


def exact_hessian(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    order: int,
    factored: bool,
    end: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Give the covariance of the indicators I(c_t=c, y_t=k) (factored: I(y_t=k)) under the model, cells in C order."""
    n_labels, n_positions, _ = scores.shape
    n_slots = 1 if factored else n_labels**order
    paths, path_score = enumerate_chain(scores, table, order, end)
    prob = np.exp(path_score - _log_sum(path_score))
    indicator = np.zeros((len(paths), n_labels, n_positions, n_slots))
    for i, path in enumerate(paths):
        for t, label in enumerate(path):
            indicator[i, label, t, 0 if factored else slot_of(path, t, n_labels, order)] = 1
    flat = indicator.reshape(len(paths), -1)
    mean = prob @ flat
    return (flat * prob[:, None]).T @ flat - np.outer(mean, mean)


def row_sums(hessian: NDArray[np.float64], shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Give the absolute row sums of a matrix over cells, as an array over cells."""
    return np.abs(hessian).sum(axis=1).reshape(shape)


def contraction(paths: Paths, prob: NDArray[np.float64], n_labels: int, order: int, backward: bool) -> list[float]:
    """Give τ_t: largest total variation of the law of y_t between two contexts before (or after) it."""
    n_positions = len(paths[0])
    tau = []
    for t in range(n_positions):
        law: dict[tuple[int, ...], NDArray[np.float64]] = {}
        for path, p in zip(paths, prob, strict=True):
            context = path[t + 1 : t + 1 + order] if backward else path[max(0, t - order) : t]
            law.setdefault(context, np.zeros(n_labels))[path[t]] += p
        rows = [row / row.sum() for row in law.values() if row.sum() > 0]
        tau.append(max(0.5 * float(np.abs(a - b).sum()) for a in rows for b in rows))
    return tau


def mixing_sums(
    tau_forward: list[float], tau_backward: list[float], order: int, factored: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give R_t and L_t of one sequence straight from their definition (see ``curvature``)."""
    n_positions = len(tau_forward)
    right, left = np.zeros(n_positions), np.zeros(n_positions)
    if order == 0:
        return right, left
    for t in reversed(range(n_positions)):
        near = range(t + 1, min(t + order, n_positions - 1) + 1)
        fails = 1 - np.prod([1 - tau_forward[u] for u in near])
        beyond = right[t + order] if t + order < n_positions else 0.0
        right[t] = sum(tau_forward[u] if factored else 1.0 for u in near) + fails * beyond
    for t in range(n_positions):
        near = range(max(0, t - order), t)
        block = near if factored else range(max(0, t - 2 * order), max(0, t - order))
        fails = 1 - np.prod([1 - tau_backward[u] for u in block])
        beyond = left[t - order] if t >= order else 0.0
        left[t] = sum(tau_backward[u] if factored else 1.0 for u in near) + fails * beyond
    return right, left


def cell_hessian(
    prob: NDArray[np.float32],  # IN (K, N, C)
    row_weights: NDArray[np.float64],  # IN (N,)
    right: NDArray[np.float32],  # IN (N,)
    left: NDArray[np.float32],  # IN (N,)
    mixing: bool,
) -> NDArray[np.float64]:
    """Give the curvature of every cell, mixing or newton, straight from the formulas of ``curvature``."""
    n_labels, n_rows, n_slots = prob.shape
    p = prob.astype(np.float64)
    weight = row_weights[None, :, None]
    if not mixing:
        return weight * p * (1 - p)
    to_right, to_left = right[None, :, None].astype(np.float64), left[None, :, None].astype(np.float64)
    if n_slots == 1:
        return 2 * weight * p * (1 - p) * (1 + to_right + to_left)
    # slots (oldest label, the others): P(c_{t+1} = (k, the others)) is a sum over the oldest label
    split = p.reshape(n_labels, n_rows, n_labels, n_slots // n_labels)
    following = np.broadcast_to(split.sum(axis=2, keepdims=True), split.shape).reshape(p.shape)
    context = p.sum(axis=0, keepdims=True)
    return 2 * weight * p * ((1 - p) + to_right * (1 - following) + to_left * (1 - context))


def scored_positions(labels: NDArray[np.int32], order: int) -> list[int]:
    """Give the positions of one sequence whose label and Markov blanket, m labels to either side, are observed."""
    return [t for t in range(len(labels)) if np.all(labels[max(0, t - order) : t + order + 1] >= 0)]


def conditional(
    paths: Paths,
    path_score: NDArray[np.float64],  # IN (n_paths,)
    labels: NDArray[np.int32],  # IN (T,)
    t: int,
    order: int,
) -> NDArray[np.float64]:
    """Give log P(y_t = j | the m labels to either side of t, X), (K,), from all labellings and their scores."""
    given = np.full_like(labels, -1)
    given[max(0, t - order) : t + order + 1] = labels[max(0, t - order) : t + order + 1]
    given[t] = -1
    agrees = _agrees(paths, given)
    n_labels = 1 + max(path[t] for path in paths)
    at_t = np.array([path[t] for path in paths])
    score = np.array([_log_sum(np.where(agrees & (at_t == j), path_score, -np.inf)) for j in range(n_labels)])
    return score - _log_sum(score)


def pseudo_log_likelihood(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],
    order: int,
    end: NDArray[np.float64] | None = None,
) -> float:
    """Give Σ_t log P(y_t | the others, X) over the scored positions."""
    paths, path_score = enumerate_chain(scores, table, order, end)
    return float(
        sum(conditional(paths, path_score, labels, t, order)[labels[t]] for t in scored_positions(labels, order))
    )


def _laws(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],
    order: int,
    end: NDArray[np.float64] | None,
) -> list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
    """Give (t, p_t (K,), which cells (c, k) of the rows t .. t+m are on if y_t = j (K, K, T, C)) of the scored t."""
    n_labels, n_positions, _ = scores.shape
    paths, path_score = enumerate_chain(scores, table, order, end)
    found = []
    for t in scored_positions(labels, order):
        on = np.zeros((n_labels, n_labels, n_positions, n_labels**order))
        for j in range(n_labels):
            path = tuple(j if s == t else int(label) for s, label in enumerate(labels))
            for s in range(t, min(t + order, n_positions - 1) + 1):
                on[j, path[s], s, slot_of(path, s, n_labels, order)] = 1
        found.append((t, np.exp(conditional(paths, path_score, labels, t, order)), on))
    return found


def pseudo_gradient(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],
    order: int,
    end: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Give Σ_t Σ_j (I(j = y_t) − p_t(j)) for every cell (c, k) of a joint model, (K, T, K**m)."""
    n_labels, n_positions, _ = scores.shape
    total = np.zeros((n_labels, n_positions, n_labels**order))
    for t, p, on in _laws(scores, table, labels, order, end):
        total += np.tensordot(np.eye(n_labels)[labels[t]] - p, on, axes=1)
    return total


def pseudo_hessian(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],
    order: int,
    factored: bool,
    end: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Give minus the second derivative, the covariances of cells (factored: of labels) under the laws, in C order."""
    n_labels, n_positions, _ = scores.shape
    n_cells = n_labels * n_positions * (1 if factored else n_labels**order)
    total = np.zeros((n_cells, n_cells))
    for _, p, on in _laws(scores, table, labels, order, end):
        flat = (on.sum(axis=3) if factored else on).reshape(n_labels, -1)
        mean = p @ flat
        total += (flat * p[:, None]).T @ flat - np.outer(mean, mean)
    return total


def local_log_likelihood(
    scores: NDArray[np.float32],
    table: NDArray[np.float64],
    labels: NDArray[np.int32],  # IN (T,) -1 = unobserved
    order: int,
) -> float:
    """Give Σ_t log P(y_t | c_t) of a chain normalised at each position, but for those with an unobserved lag."""
    n_labels, n_positions, n_slots = scores.shape
    path, total = tuple(int(label) for label in labels), 0.0
    for t in range(n_positions):
        if min(path[max(0, t - order) : t + 1]) < 0:
            continue
        slot = slot_of(path, t, n_labels, order) if n_slots > 1 else 0
        row = table[extended_of(path, t, n_labels, order)]
        local = np.array([row[k] + (float(scores[k, t, slot]) if row[k] > -np.inf else 0.0) for k in range(n_labels)])
        total += local[path[t]] - _log_sum(local)
    return float(total)
