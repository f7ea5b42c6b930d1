"""Slow, obviously right twins of the lattice kernels: every labelling written out, and recursions in log space."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.automaton import SeenContexts
from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.chain.durations.potentials import DurationPotentials
from seqboost.chain.potentials import Potentials
from seqboost.core.contexts import ContextSpace

__all__ = [
    "duration_paths",
    "enumerate_paths",
    "expanded",
    "log_partition_slow",
    "pair_marginals_brute",
    "path_score",
    "SeenTwin",
    "random_potentials",
    "random_seen",
    "reach_slow",
    "runs_are_long",
    "seen_histories_slow",
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
    choices = [range(p.n_labels) if labels is None or labels[t] < 0 else (int(labels[t]),) for t in range(begin, stop)]
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


def seen_histories_slow(
    labels: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int, order: int, min_count: int = 1
) -> dict[tuple[int, ...], set[int]]:
    """Return the labels with arcs at each history that is a state, collected history by history; ⊥ = n_labels."""
    count: dict[tuple[int, ...], int] = {}
    followed: dict[tuple[int, ...], dict[int, int]] = {}
    for begin, stop in itertools.pairwise(offsets.tolist()):
        symbols = [n_labels, *labels[begin:stop].tolist()]
        for t in range(1, len(symbols)):
            for length in range(min(order, t) + 1):
                history = tuple(symbols[t - length : t])
                if symbols[t] >= 0 and min(history, default=0) >= 0:
                    count[history] = count.get(history, 0) + 1
                    labels_after = followed.setdefault(history, {})
                    labels_after[symbols[t]] = labels_after.get(symbols[t], 0) + 1
    states = {
        history: {k for k, n in after.items() if len(history) <= 1 or n >= min_count}
        for history, after in followed.items()
        if len(history) <= 1 or count[history] >= min_count
    }
    for symbol in range(n_labels + 1):
        states.setdefault((symbol,), set())
    return states | {(): set(range(n_labels))}


class SeenTwin:
    """A chain of seen contexts, one sequence at a time, with every labelling written out."""

    def __init__(self, p: SeenPotentials) -> None:
        self.p, c = p, p.contexts
        self.state = {c.history(s): s for s in range(c.n_states)}
        self.arc = {
            (c.history(s), int(c.arc_label[a])): a
            for s in range(c.n_states)
            for a in range(int(c.arc_start[s]), int(c.arc_start[s + 1]))
        }

    def parameters(self, before: tuple[int, ...], k: int) -> list[int] | None:
        """Numbers of the table's entries that make T of label ``k`` after these labels; None if it is forbidden."""
        c = self.p.contexts
        symbols = (c.n_labels, *before)
        if not c.allowed[symbols[-1], k]:
            return None
        history = symbols[-c.order :]
        while history not in self.state:
            history = history[1:]
        ends = [history[i:] for i in range(len(history) + 1)]
        return [self.arc.get((end, k), c.n_arcs + self.state[end]) for end in ends]

    def paths(
        self, s: int, labels: NDArray[np.int32] | None = None
    ) -> tuple[list[tuple[int, ...]], NDArray[np.float64], NDArray[np.float64]]:
        """Return all labellings of sequence ``s``, their scores, and how often each entry counts at each position."""
        p, n = self.p, int(self.p.offsets[s + 1] - self.p.offsets[s])
        paths = list(itertools.product(range(p.n_labels), repeat=n))
        score, counts = np.zeros(len(paths)), np.zeros((len(paths), n, p.contexts.n_parameters))
        for i, path in enumerate(paths):
            score[i] = p.end[path[-1]]
            for t, k in enumerate(path):
                row = int(p.offsets[s]) + t
                entries = self.parameters(path[:t], k)
                if entries is None or (labels is not None and labels[row] not in (-1, k)):
                    score[i] = -np.inf
                else:
                    score[i] += float(p.scores[k, row, 0]) + p.table[entries].sum()
                    counts[i, t, entries] = 1.0
        return paths, score, counts

    def posterior(
        self, s: int, labels: NDArray[np.int32] | None = None
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Return log Z, P(y_t=k | X) as (K, T), and the probability that each entry counts as (T, A + S)."""
        paths, score, counts = self.paths(s, labels)
        node = np.zeros((self.p.n_labels, len(paths[0])))
        if score.max() == -np.inf:
            return -np.inf, node, np.zeros(counts.shape[1:])
        log_z = float(score.max() + np.log(np.exp(score - score.max()).sum()))
        prob = np.exp(score - log_z)
        for path, q in zip(paths, prob, strict=True):
            node[path, np.arange(len(path))] += q
        return log_z, node, np.einsum("i,itj->tj", prob, counts)


def reach_slow(tau: list[float], order: int, arcs: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return R_t and L_t of ``reach`` from the pairs of positions: √η of every t < s."""
    n = len(tau)
    right, left = np.zeros(n), np.zeros(n)
    for t in range(n):
        for s in range(t + 1, n):
            eta, at = 1.0, t
            while at + order < s:  # whole blocks between
                eta *= 1.0 - float(np.prod([1.0 - tau[u] for u in range(at + 1, at + order + 1)]))
                at += order
            eta *= 1.0 if arcs else tau[s]
            right[t] += np.sqrt(eta)
            left[s] += np.sqrt(eta)
    return right, left


def random_seen(
    rng: np.random.Generator,
    n_labels: int,
    order: int,
    *,
    lengths: tuple[int, ...] = (1, 3, 2, 5, 4),
    n_training: int = 5,
    scale: float = 1.0,
    table_scale: float = 1.0,
    forbidden: float = 0.0,
    closed: bool = False,
) -> SeenPotentials:
    """Random ragged chains over the histories of a few random sequences, for tests.

    ``forbidden`` is the share of transitions without an arc that are forbidden; ``closed`` forbids the first label at
    the end.
    """
    trained = np.append(0, np.cumsum(rng.integers(1, 7, n_training))).astype(np.int64)
    labels = rng.integers(n_labels, size=trained[-1]).astype(np.int32)
    contexts = SeenContexts.from_labels(labels, trained, n_labels, order)
    allowed = ~((contexts.open > 0) & (rng.random(contexts.open.shape) < forbidden))
    contexts = SeenContexts.from_labels(labels, trained, n_labels, order, allowed=allowed)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    scores = (scale * rng.normal(size=(n_labels, offsets[-1], 1))).astype(np.float32)
    table = table_scale * rng.normal(size=contexts.n_parameters)
    table[contexts.n_arcs] = 0.0
    end = np.zeros(n_labels)
    if closed and n_labels > 1:
        end[0] = -np.inf
    return SeenPotentials(scores, table, offsets, contexts, end)


def runs_are_long(path: tuple[int, ...], durations: NDArray[np.int64]) -> bool:
    """Return whether every run of a labelling that touches neither end has its label's minimum duration."""
    runs = [(k, len(list(block))) for k, block in itertools.groupby(path)]
    return all(length >= durations[k] for k, length in runs[1:-1])


def duration_paths(
    p: DurationPotentials, s: int, labels: NDArray[np.int32] | None = None
) -> list[tuple[tuple[int, ...], float]]:
    """Every labelling of sequence ``s`` within the durations that agrees with the observed labels, with its score."""
    return [(path, score) for path, score in enumerate_paths(p, s, labels) if runs_are_long(path, p.durations)]


def expanded(p: DurationPotentials) -> tuple[Potentials, NDArray[np.int64]]:
    """Return the chain of states (k,1) … (k,d_k) written out, and the label of each state."""
    label = np.repeat(np.arange(p.n_labels), p.durations)
    step = np.concatenate([np.arange(1, d + 1) for d in p.durations])
    is_free, first = step == p.durations[label], step == 1
    goes_on = (label[:, None] == label) & ((step[:, None] + 1 == step) | (is_free[:, None] & is_free))
    goes_over = (label[:, None] != label) & is_free[:, None] & first
    table = np.full((1 + len(label), len(label)), -np.inf)
    table[0, is_free] = p.table[0, label[is_free]]
    inner = p.table[1:][np.ix_(label, label)]
    table[1:][goes_on | goes_over] = inner[goes_on | goes_over]
    scores = p.scores[label][:, :, label] if p.joint else p.scores[label]
    starts = p.offsets[:-1]
    if p.joint:  # slot 0 is that of the start
        scores[:, starts, 0] = p.scores[label][:, starts, 0]
    chain = Potentials(np.ascontiguousarray(scores), table, p.offsets, 1, np.ascontiguousarray(p.end[label]))
    return chain, label
