"""Inference over sets of chains; each function does only the work that its return type implies.

* :func:`log_partition` -> log Z only, by one pass
* :func:`posterior` -> :class:`Posterior`: log Z and marginals
* :func:`viterbi`, :func:`k_best` -> labellings and their scores
* :func:`path_scores`, :func:`log_probability` -> of given labellings

Work is spread over threads by fixed chunks of sequences, so answers do not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.forward_backward import seen_chunks, seen_posterior_chunk
from seqboost.chain.backoff.paths import seen_path_scores
from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.chain.backoff.viterbi import seen_viterbi_chunk
from seqboost.chain.beam import beam_sequence, make_beam
from seqboost.chain.durations.forward_backward import duration_log_partition_chunk, duration_posterior_chunk
from seqboost.chain.durations.paths import duration_k_best, duration_viterbi_chunk
from seqboost.chain.durations.potentials import DurationPotentials
from seqboost.chain.exact.forward_backward import log_partition_chunk, posterior_chunk
from seqboost.chain.paths import k_best_sequence, path_scores_chunk, viterbi_chunk
from seqboost.chain.potentials import Potentials
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
        labels: NDArray[np.int32] = np.argmax(self.node_marginals(), axis=1).astype(np.int32)
        return labels


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
    """Compute log Z and marginals by forward-backward.

    Parameters
    ----------
    potentials : Potentials
        The log-scores.
    labels : int32 array (N,), optional
        Observed labels, -1 = unobserved: only labellings that agree with them count.
    beam : int, optional
        Number of contexts to keep per position; as many as there are, or more, is exact.
    n_threads : int
        Number of threads.

    Raises
    ------
    InputError
        If no labelling of some sequence is allowed.
    """
    marginals = np.empty_like(potentials.scores)
    log_z = _forward_backward(potentials, marginals, labels, beam, n_threads)
    _check_possible(potentials, log_z, beam)
    return Posterior(log_z, marginals)


def log_partition(
    potentials: Potentials | SeenPotentials,
    *,
    labels: NDArray[np.int32] | None = None,
    beam: int | None = None,
    n_threads: int = 1,
    allow_impossible: bool = False,
) -> NDArray[np.float64]:
    """Compute log Z of each sequence alone, shape (n_sequences,), with the bits of :func:`posterior`.

    Parameters
    ----------
    potentials, labels, beam, n_threads
        As of :func:`posterior`.
    allow_impossible : bool, default=False
        Whether to return -inf where no labelling is allowed; an error otherwise.
    """
    log_z = _forward_backward(potentials, None, labels, beam, n_threads)
    if not allow_impossible:
        _check_possible(potentials, log_z, beam)
    return log_z


def _forward_backward(
    p: Potentials | SeenPotentials,
    marginals: NDArray[np.float32] | None,
    labels: NDArray[np.int32] | None,
    beam: int | None,
    n_threads: int,
) -> NDArray[np.float64]:
    """Return log Z, -inf where no labelling is allowed; fill the marginals if there are any."""
    log_z = np.empty(p.n_sequences)
    if isinstance(p, SeenPotentials):
        seen = _without_beam(p, beam)

        def task(first: int, last: int) -> None:
            seen_posterior_chunk(seen, first, last, marginals, log_z, labels=labels)
    elif isinstance(p, DurationPotentials):
        lasting = _lasting(p, beam)

        def task(first: int, last: int) -> None:
            _duration_chunk(lasting, first, last, marginals, labels, log_z)
    elif _is_beam(p, beam):
        if labels is not None:
            raise ParameterError("beam search cannot be combined with observed labels; drop beam or labels")
        wanted = np.empty((0, 0, 0), np.float32) if marginals is None else marginals

        def task(first: int, last: int) -> None:
            _beam_chunk(p, beam or 1, first, last, np.empty(0, np.int32), wanted, log_z)
    elif marginals is not None:
        filled = marginals

        def task(first: int, last: int) -> None:
            posterior_chunk(p, first, last, filled, log_z, labels=labels)
    else:

        def task(first: int, last: int) -> None:
            log_partition_chunk(p, first, last, log_z, labels=labels)

    run_tasks(task, _chunks(p), n_threads)
    return log_z


def viterbi(potentials: Potentials | SeenPotentials, *, beam: int | None = None, n_threads: int = 1) -> Paths:
    """Find the best labelling of each sequence; of equals the one with the lowest label at the first difference.

    Parameters
    ----------
    potentials : Potentials
        The log-scores.
    beam : int, optional
        Number of contexts to keep per position; as many as there are, or more, is exact.
    n_threads : int
        Number of threads.
    """
    p = potentials
    path = np.empty(p.n_positions, np.int32)
    path_score = np.empty(p.n_sequences)
    if isinstance(p, SeenPotentials):
        seen = _without_beam(p, beam)

        def task(first: int, last: int) -> None:
            seen_viterbi_chunk(seen, first, last, path, path_score)
    elif isinstance(p, DurationPotentials):
        lasting = _lasting(p, beam)

        def task(first: int, last: int) -> None:
            duration_viterbi_chunk(lasting, first, last, path, path_score)
    elif _is_beam(p, beam):

        def task(first: int, last: int) -> None:
            _beam_chunk(p, beam or 1, first, last, path, np.empty((0, 0, 0), np.float32), path_score)
    else:
        lattice, turned = p.lattice(), np.ascontiguousarray(p.table.T)

        def task(first: int, last: int) -> None:
            longest = int(np.diff(p.offsets[first : last + 1]).max())
            choice = np.empty((longest, p.space.n_contexts), np.uint16)
            viterbi_chunk(lattice, turned, first, last, choice, path, path_score)

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

    lattice = p.lattice()

    def task(first: int, last: int) -> None:
        values = np.empty((2, p.space.n_contexts, k))
        rank = np.empty(p.n_labels, np.int64)
        for s in range(first, last):
            if isinstance(p, DurationPotentials):
                results[s] = _allowed(*duration_k_best(p, s, k))
                continue
            begin, stop = int(p.offsets[s]), int(p.offsets[s + 1])
            choice = np.empty((stop - begin, p.space.n_contexts, k), np.int32)
            paths, scores = np.empty((k, stop - begin), np.int32), np.empty(k)
            k_best_sequence(lattice, begin, stop, choice, values, rank, paths, scores)
            results[s] = _allowed(paths, scores)

    run_tasks(task, sequence_chunks(p.offsets), n_threads)
    _check_possible(p, np.array([scores[0] if scores.size else -np.inf for _, scores in results]), None)
    return results


def path_scores(
    potentials: Potentials | SeenPotentials, labels: NDArray[np.int32], *, n_threads: int = 1
) -> NDArray[np.float64]:
    """Compute the score of the given labelling of each sequence, shape (n_sequences,); -inf if it is forbidden."""
    p = potentials
    _check_labels(p, labels)
    if isinstance(p, SeenPotentials):
        return seen_path_scores(p, labels)
    if isinstance(p, DurationPotentials):  # one labelling agrees with all labels
        return log_partition(p, labels=labels, n_threads=n_threads, allow_impossible=True)
    result, lattice = np.empty(p.n_sequences), p.lattice()

    def task(first: int, last: int) -> None:
        path_scores_chunk(lattice, labels, first, last, result)

    run_tasks(task, sequence_chunks(p.offsets), n_threads)
    return result


def log_probability(
    potentials: Potentials | SeenPotentials, labels: NDArray[np.int32], *, n_threads: int = 1
) -> NDArray[np.float64]:
    """Compute log P(labels | X) of each sequence, shape (n_sequences,); never above 0."""
    score = path_scores(potentials, labels, n_threads=n_threads)
    return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)


def _allowed(paths: NDArray[np.int32], scores: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    n_paths = int(np.count_nonzero(scores > -np.inf))
    return paths[:n_paths], scores[:n_paths]


def _duration_chunk(
    p: DurationPotentials,
    first: int,
    last: int,
    marginals: NDArray[np.float32] | None,
    labels: NDArray[np.int32] | None,
    log_z: NDArray[np.float64],
) -> None:
    if marginals is None:
        duration_log_partition_chunk(p, first, last, log_z, labels=labels)
    else:
        duration_posterior_chunk(p, first, last, marginals, log_z, labels=labels)


def _beam_chunk(
    p: Potentials,
    width: int,
    first: int,
    last: int,
    path: NDArray[np.int32],
    marginals: NDArray[np.float32],
    total: NDArray[np.float64],
) -> None:
    lattice, longest = p.lattice(), int(np.diff(p.offsets[first : last + 1]).max())
    beam, unforced, no_pairs = make_beam(longest, width, p.space.n_contexts), np.empty(0, np.int64), np.empty((0, 0, 0))
    for s in range(first, last):
        begin, stop = int(p.offsets[s]), int(p.offsets[s + 1])
        total[s] = beam_sequence(lattice, begin, stop, beam, path, marginals, unforced, no_pairs)


def _chunks(p: Potentials | SeenPotentials) -> list[tuple[int, int]]:
    return seen_chunks(p.offsets) if isinstance(p, SeenPotentials) else sequence_chunks(p.offsets)


def _without_beam(p: SeenPotentials, beam: int | None) -> SeenPotentials:
    if beam is not None:
        raise ParameterError(
            f"chains of seen contexts (contexts='seen') have no beam search, got beam={beam}; use beam=None"
        )
    return p


def _lasting(p: DurationPotentials, beam: int | None) -> DurationPotentials:
    if beam is not None:
        raise ParameterError(
            f"chains with minimum durations (min_duration) have no beam search, got beam={beam}; use beam=None"
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
        what = "durations, transitions" if isinstance(p, DurationPotentials) else "transitions"
        cure = f"relax the constraints on {what}, start or end, or drop the sequence"
        if _is_beam(p, beam):
            cure = "widen the beam, or " + cure
        raise InputError(f"no labelling of sequence {s} (length {length}) is allowed; {cure}")
