"""The chain's face: what was asked for is done, and the type of the answer says how much that was.

* :func:`log_partition` -> log Z only
* :func:`posterior` -> :class:`Posterior`: log Z and marginals
* :func:`viterbi`, :func:`k_best` -> labellings and their scores
* :func:`path_scores`, :func:`log_probability` -> of given labellings

Work is spread over threads by fixed chunks of sequences, so answers do not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.beam import beam_sequence
from seqboost.chain.forward_backward import posterior_chunk
from seqboost.chain.paths import k_best_sequence, path_scores_chunk, viterbi_chunk
from seqboost.chain.potentials import Potentials
from seqboost.chain.seen import SeenPotentials, seen_chunks, seen_paths_chunk, seen_posterior_chunk, seen_steps
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.offsets import locate, sequence_chunks
from seqboost.core.threads import run_tasks

__all__ = [
    "Paths",
    "Posterior",
    "k_best",
    "log_partition",
    "log_probability",
    "node_marginals",
    "path_scores",
    "posterior",
    "viterbi",
]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Log Z and marginals of a set of chains.

    Attributes
    ----------
    log_z : float64 array (n_sequences,)
    marginals : float32 array (K, N, C) or (K, N, 1)
        P(c_t=c, y_t=k | X) of joint potentials, P(y_t=k | X) of factored ones.
    """

    log_z: NDArray[np.float64]
    marginals: NDArray[np.float32]

    def node_marginals(self) -> NDArray[np.float32]:
        """P(y_t=k | X), shape (N, K)."""
        return node_marginals(self.marginals)

    def decode(self) -> NDArray[np.int32]:
        """Label with the largest marginal at each position (posterior decoding), shape (N,); the lowest of equals."""
        return np.argmax(self.node_marginals(), axis=1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Paths:
    """Best labelling of each sequence.

    Attributes
    ----------
    labels : int32 array (N,)
    scores : float64 array (n_sequences,)
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float64]


def node_marginals(marginals: NDArray[np.float32]) -> NDArray[np.float32]:
    """P(y_t=k | X), shape (N, K), from P(c_t=c, y_t=k | X), shape (K, N, C)."""
    return np.ascontiguousarray(marginals.sum(axis=2, dtype=np.float32).T)


def posterior(
    potentials: Potentials | SeenPotentials,
    *,
    labels: NDArray[np.int32] | None = None,
    beam: int | None = None,
    n_threads: int = 1,
) -> Posterior:
    """Log Z and marginals by forward-backward.

    Parameters
    ----------
    potentials : Potentials
        The log-scores.
    labels : int32 array (N,), optional
        Observed labels, -1 = unobserved: only labellings that agree with them count.
    beam : int, optional
        Keep only so many contexts per position; as many as there are, or more, is exact.
    n_threads : int
        Number of threads.

    Raises
    ------
    InputError
        If no labelling of some sequence is allowed.
    """
    marginals = np.empty_like(potentials.scores)
    log_z = np.empty(potentials.n_sequences)
    if isinstance(potentials, SeenPotentials):
        seen = _without_beam(potentials, beam)

        def task(first: int, last: int) -> None:
            seen_posterior_chunk(seen, first, last, marginals, log_z, labels=labels)
    elif _is_beam(potentials, beam):
        if labels is not None:
            raise ParameterError("beam search cannot be combined with observed labels; drop beam or labels")

        def task(first: int, last: int) -> None:
            _beam_chunk(potentials, beam or 1, first, last, np.empty(0, np.int32), marginals, log_z)
    else:

        def task(first: int, last: int) -> None:
            posterior_chunk(potentials, first, last, marginals, log_z, labels=labels)

    run_tasks(task, _chunks(potentials), n_threads)
    _check_possible(potentials, log_z, beam)
    return Posterior(log_z, marginals)


def log_partition(
    potentials: Potentials | SeenPotentials,
    *,
    labels: NDArray[np.int32] | None = None,
    beam: int | None = None,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Log Z of each sequence, shape (n_sequences,); parameters as of :func:`posterior`."""
    return posterior(potentials, labels=labels, beam=beam, n_threads=n_threads).log_z


def viterbi(potentials: Potentials | SeenPotentials, *, beam: int | None = None, n_threads: int = 1) -> Paths:
    """Best labelling of each sequence; of equally good ones that with the lowest label at the first difference.

    Parameters
    ----------
    potentials : Potentials
        The log-scores.
    beam : int, optional
        Keep only so many contexts per position; as many as there are, or more, is exact.
    n_threads : int
        Number of threads.
    """
    p = potentials
    path = np.empty(p.n_positions, np.int32)
    path_score = np.empty(p.n_sequences)
    if isinstance(p, SeenPotentials):
        seen = _without_beam(p, beam)

        def task(first: int, last: int) -> None:
            seen_paths_chunk(seen, first, last, path, path_score)
    elif _is_beam(p, beam):

        def task(first: int, last: int) -> None:
            _beam_chunk(p, beam or 1, first, last, path, np.empty((0, 0, 0), np.float32), path_score)
    else:
        turned = np.ascontiguousarray(p.table.T)

        def task(first: int, last: int) -> None:
            longest = int(np.diff(p.offsets[first : last + 1]).max())
            choice = np.empty((longest, p.space.n_contexts), np.uint16)
            viterbi_chunk(p.scores, turned, p.end, p.offsets, p.space.base, first, last, choice, path, path_score)

    run_tasks(task, _chunks(p), n_threads)
    _check_possible(p, path_score, beam)
    return Paths(path, path_score)


def k_best(
    potentials: Potentials | SeenPotentials, k: int, *, n_threads: int = 1
) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
    """Return the ``k`` best labellings of each sequence and their scores, best first; fewer if fewer are allowed.

    Parameters
    ----------
    potentials : Potentials
        The log-scores.
    k : int
        Number of labellings.
    n_threads : int
        Number of threads.

    Returns
    -------
    list of (int32 array (n_paths, T), float64 array (n_paths,)), one pair per sequence
    """
    p = potentials
    if k < 1:
        raise ParameterError(f"k must be 1 or more, got {k}")
    if isinstance(p, SeenPotentials):
        raise ParameterError(
            "the k best labellings of a chain of seen contexts (contexts='seen') are not available; use viterbi for "
            "the best one, or train with contexts='all'"
        )
    results: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = [None] * p.n_sequences  # type: ignore[list-item]

    def task(first: int, last: int) -> None:
        values = np.empty((2, p.space.n_contexts, k))
        rank = np.empty(p.n_labels, np.int64)
        for s in range(first, last):
            begin, stop = int(p.offsets[s]), int(p.offsets[s + 1])
            choice = np.empty((stop - begin, p.space.n_contexts, k), np.int32)
            paths, scores = np.empty((k, stop - begin), np.int32), np.empty(k)
            k_best_sequence(p.scores, p.table, p.end, p.space.base, begin, stop, choice, values, rank, paths, scores)
            n_paths = int(np.count_nonzero(scores > -np.inf))
            results[s] = (paths[:n_paths], scores[:n_paths])

    run_tasks(task, sequence_chunks(p.offsets), n_threads)
    _check_possible(p, np.array([scores[0] if scores.size else -np.inf for _, scores in results]), None)
    return results


def path_scores(
    potentials: Potentials | SeenPotentials, labels: NDArray[np.int32], *, n_threads: int = 1
) -> NDArray[np.float64]:
    """Score of the given labelling of each sequence, shape (n_sequences,); -inf if it is forbidden."""
    p = potentials
    _check_labels(p, labels)
    if isinstance(p, SeenPotentials):
        return _seen_path_scores(p, labels)
    result = np.empty(p.n_sequences)

    def task(first: int, last: int) -> None:
        path_scores_chunk(p.scores, p.table, p.end, p.offsets, p.space.base, labels, first, last, result)

    run_tasks(task, sequence_chunks(p.offsets), n_threads)
    return result


def log_probability(
    potentials: Potentials | SeenPotentials, labels: NDArray[np.int32], *, n_threads: int = 1
) -> NDArray[np.float64]:
    """Log P(labels | X) of each sequence, shape (n_sequences,); never above 0."""
    score = path_scores(potentials, labels, n_threads=n_threads)
    return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)


def _beam_chunk(
    p: Potentials,
    width: int,
    first: int,
    last: int,
    path: NDArray[np.int32],
    marginals: NDArray[np.float32],
    total: NDArray[np.float64],
) -> None:
    longest = int(np.diff(p.offsets[first : last + 1]).max())
    shape = (longest + 1, width)
    kept, alpha, parent = np.empty(shape, np.int64), np.empty(shape), np.empty(shape, np.int64)
    dense, nothing = np.empty((2, p.space.n_contexts)), np.empty(0, np.int64)
    for s in range(first, last):
        total[s] = beam_sequence(
            p.scores, p.table, p.end, p.space.base, int(p.offsets[s]), int(p.offsets[s + 1]),
            kept, alpha, parent, dense, path, marginals, nothing, np.empty((0, 0, 0)),
        )  # fmt: skip


def _seen_path_scores(p: SeenPotentials, labels: NDArray[np.int32]) -> NDArray[np.float64]:
    arcs, states = seen_steps(p.contexts, labels, p.offsets)
    score = np.where(arcs >= 0, p.arc_scores[arcs], -np.inf) + p.state_scores[states].sum(axis=1)
    score += p.scores[labels, np.arange(p.n_positions), 0]
    total: NDArray[np.float64] = np.add.reduceat(score, p.offsets[:-1]) + p.end[labels[p.offsets[1:] - 1]]
    return total


def _chunks(p: Potentials | SeenPotentials) -> list[tuple[int, int]]:
    return seen_chunks(p.offsets) if isinstance(p, SeenPotentials) else sequence_chunks(p.offsets)


def _without_beam(p: SeenPotentials, beam: int | None) -> SeenPotentials:
    if beam is not None:
        raise ParameterError(
            f"chains of seen contexts (contexts='seen') have no beam search, got beam={beam}; use beam=None"
        )
    return p


def _is_beam(p: Potentials | SeenPotentials, beam: int | None) -> bool:
    if beam is not None and beam < 1:
        raise ParameterError(f"beam must be 1 or more (or None for exact answers), got {beam}")
    return beam is not None and isinstance(p, Potentials) and beam < p.space.n_contexts


def _check_labels(p: Potentials | SeenPotentials, labels: NDArray[np.int32]) -> None:
    if labels.shape != (p.n_positions,):
        raise InputError(f"expected one label for each of {p.n_positions} positions, got shape {labels.shape}")
    outside = np.flatnonzero((labels < 0) | (labels >= p.n_labels))
    if outside.size:
        row = int(outside[0])
        s, position = locate(p.offsets, row)
        raise InputError(
            f"expected label codes 0..{p.n_labels - 1}, got {labels[row]} in sequence {s} at position "
            f"{position}; sum over unobserved labels with log_partition(labels=...) instead"
        )


def _check_possible(p: Potentials | SeenPotentials, total: NDArray[np.float64], beam: int | None) -> None:
    impossible = np.flatnonzero(~(total > -np.inf))
    if impossible.size:
        s = int(impossible[0])
        length = int(p.offsets[s + 1] - p.offsets[s])
        cure = "relax the constraints on transitions, start or end, or drop the sequence"
        if _is_beam(p, beam):
            cure = "widen the beam, or " + cure
        raise InputError(f"no labelling of sequence {s} (length {length}) is allowed; {cure}")
