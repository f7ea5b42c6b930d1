"""Slow, obviously right twins of the lattice kernels: every labelling written out, and recursions in log space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.contexts import ContextSpace
from seqboost.chain.potentials import Potentials

__all__ = [
    "enumerate_paths",
    "log_partition_slow",
    "pair_marginals_brute",
    "path_score",
    "random_potentials",
    "tau_brute",
    "viterbi_slow",
]


def path_score(p: Potentials, s: int, path: tuple[int, ...]) -> float:
    """Score of one labelling of sequence ``s``: the sum of F_t(c_t, y_t), and of ``end`` at the last position."""
    begin = int(p.offsets[s])
    score = 0.0
    for t, k in enumerate(path):
        c = p.space.context_of(path, t)
        unary = float(p.scores[k, begin + t, c if p.joint else 0])
        score += unary + float(p.table[int(p.space.base[p.space.type_of(t)]) + c, k])
    return score + float(p.end[path[-1]])


def enumerate_paths(
    p: Potentials, s: int, labels: NDArray[np.int32] | None = None
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every labelling of sequence ``s`` that agrees with the observed labels, with its score."""
    begin, stop = int(p.offsets[s]), int(p.offsets[s + 1])
    choices = [
        range(p.n_labels) if labels is None or labels[t] < 0 else (int(labels[t]),) for t in range(begin, stop)
    ]
    for path in itertools.product(*choices):
        yield path, path_score(p, s, path)


def pair_marginals_brute(
    p: Potentials, s: int, labels: NDArray[np.int32] | None = None
) -> tuple[float, NDArray[np.float64]]:
    """Return log Z and P(c_t=c, y_t=k | X), shape (T, C, K), of sequence ``s`` by enumeration."""
    paths = list(enumerate_paths(p, s, labels))
    scores = np.array([score for _, score in paths])
    n_positions = int(p.offsets[s + 1] - p.offsets[s])
    pair = np.zeros((n_positions, p.space.n_contexts, p.n_labels))
    highest = scores.max()
    if highest == -np.inf:
        return -np.inf, pair
    log_z = float(highest + np.log(np.exp(scores - highest).sum()))
    for path, score in paths:
        for t, k in enumerate(path):
            pair[t, p.space.context_of(path, t), k] += np.exp(score - log_z)
    return log_z, pair


def log_partition_slow(p: Potentials, s: int) -> float:
    """Log Z of sequence ``s`` by the forward recursion in log space."""
    begin, stop = int(p.offsets[s]), int(p.offsets[s + 1])
    alpha = {0: 0.0}
    for t in range(stop - begin):
        following: dict[int, list[float]] = {}
        for c, score in alpha.items():
            for k in range(p.n_labels):
                f = float(p.scores[k, begin + t, c if p.joint else 0])
                f += float(p.table[int(p.space.base[p.space.type_of(t)]) + c, k])
                if t == stop - begin - 1:
                    f += float(p.end[k])
                following.setdefault(p.space.next_context(c, k), []).append(score + f)
        alpha = {c: float(np.logaddexp.reduce(values)) for c, values in following.items()}
    return float(np.logaddexp.reduce(list(alpha.values())))


def viterbi_slow(p: Potentials, s: int) -> tuple[tuple[int, ...], float]:
    """Best labelling of sequence ``s`` by enumeration; the smallest one (compared label by label) of equals."""
    best: tuple[int, ...] = ()
    best_score = -np.inf
    for path, score in enumerate_paths(p, s):
        if score > best_score + 1e-9:
            best, best_score = path, score
    return best, best_score


def tau_brute(pair: NDArray[np.float64], p: Potentials, t: int) -> tuple[float, float]:
    """Contraction coefficients of P(y_t | c_t) and of P(y_{t-m} | c_{t+1}) from the pair marginals (C, K) at ``t``."""
    if p.order == 0:
        return 0.0, 0.0
    forward = [row / row.sum() for row in pair if row.sum() > 1e-30]
    backward: dict[int, NDArray[np.float64]] = {}
    for c in range(p.space.n_contexts):
        for k in range(p.n_labels):
            oldest = c // p.space.n_shared if t >= p.order else 0
            row = backward.setdefault(p.space.next_context(c, k), np.zeros(p.n_labels))
            row[oldest] += pair[c, k]
    rows = [row / row.sum() for row in backward.values() if row.sum() > 1e-30]
    return _largest_distance(forward), _largest_distance(rows)


def _largest_distance(rows: list[NDArray[np.float64]]) -> float:
    return max((0.5 * float(np.abs(a - b).sum()) for a, b in itertools.combinations(rows, 2)), default=0.0)


def random_potentials(
    rng: np.random.Generator,
    n_labels: int,
    order: int,
    *,
    joint: bool = True,
    lengths: tuple[int, ...] = (1, 3, 2, 5, 4),
    scale: float = 1.0,
    forbidden: float = 0.0,
    closed: bool = False,
) -> Potentials:
    """Random ragged chains for tests; slots that do not exist hold NaN.

    ``forbidden`` is the share of table entries that are -inf; ``closed`` forbids the first label at the end.
    """
    space = ContextSpace(n_labels, order)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n_slots = space.n_contexts if joint else 1
    scores = (scale * rng.normal(size=(n_labels, offsets[-1], n_slots))).astype(np.float32)
    if joint:
        for begin, length in zip(offsets, lengths, strict=False):
            for t in range(min(order, length)):
                scores[:, begin + t, space.n_existing(t) :] = np.nan
    table = rng.normal(size=(space.n_extended, n_labels))
    table[rng.random(table.shape) < forbidden] = -np.inf
    end = np.zeros(n_labels)
    if closed and n_labels > 1:
        end[0] = -np.inf
    return Potentials(scores, table, offsets, order, end)
