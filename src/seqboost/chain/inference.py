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

from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.chain.backoff.solver import backoff_solver
from seqboost.chain.durations.potentials import DurationPotentials
from seqboost.chain.durations.solver import duration_solver
from seqboost.chain.exact.solver import BeamSolver, exact_solver
from seqboost.chain.potentials import Potentials
from seqboost.chain.protocol import Chain, Solver
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.offsets import locate, sequence_chunks
from seqboost.core.threads import run_tasks

__all__ = [
    "Paths",
    "Posterior",
    "context_marginals",
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


def solver_of(chain: Chain, beam: int | None) -> Solver:
    """Return what works on chains of this kind; ``beam`` is the number of contexts to keep, None for all."""
    if beam is not None and beam < 1:
        raise ParameterError(f"beam must be 1 or more (or None for exact answers), got {beam}")
    if isinstance(chain, SeenPotentials):
        return backoff_solver(chain, beam)
    if isinstance(chain, DurationPotentials):
        return duration_solver(chain, beam)
    if isinstance(chain, Potentials):
        return exact_solver(chain, beam)
    raise TypeError(f"expected the log-scores of chains, got a {type(chain).__name__}")


def context_marginals(chain: Chain, *, n_threads: int = 1) -> NDArray[np.float32]:
    """Compute P(c_t = c, y_t = k | X), shape (K, N, C), for every context c."""
    return posterior(solver_of(chain, None).by_contexts(), n_threads=n_threads).marginals


def node_marginals(marginals: NDArray[np.float32]) -> NDArray[np.float32]:
    """P(y_t=k | X), shape (N, K), from P(c_t=c, y_t=k | X), shape (K, N, C)."""
    return np.ascontiguousarray(marginals.sum(axis=2, dtype=np.float32).T)


def posterior(
    potentials: Chain,
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
    potentials: Chain,
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
    p: Chain,
    marginals: NDArray[np.float32] | None,
    labels: NDArray[np.int32] | None,
    beam: int | None,
    n_threads: int,
) -> NDArray[np.float64]:
    """Return log Z, -inf where no labelling is allowed; fill the marginals if there are any."""
    log_z, solver = np.empty(p.n_sequences), solver_of(p, beam)
    run_tasks(lambda first, last: solver.fill(first, last, marginals, log_z, labels), solver.chunks(), n_threads)
    return log_z


def viterbi(potentials: Chain, *, beam: int | None = None, n_threads: int = 1) -> Paths:
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
    solver = solver_of(p, beam)
    run_tasks(lambda first, last: solver.fill_best(first, last, path, path_score), solver.chunks(), n_threads)
    _check_possible(p, path_score, beam)
    return Paths(path, path_score)


def k_best(potentials: Chain, k: int, *, n_threads: int = 1) -> list[tuple[NDArray[np.int32], NDArray[np.float64]]]:
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
    results: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = [None] * p.n_sequences  # type: ignore[list-item]
    solver = solver_of(p, None)

    def task(first: int, last: int) -> None:
        for s in range(first, last):
            results[s] = _allowed(*solver.k_best(s, k))

    run_tasks(task, sequence_chunks(p.offsets), n_threads)
    _check_possible(p, np.array([scores[0] if scores.size else -np.inf for _, scores in results]), None)
    return results


def path_scores(potentials: Chain, labels: NDArray[np.int32], *, n_threads: int = 1) -> NDArray[np.float64]:
    """Compute the score of the given labelling of each sequence, shape (n_sequences,); -inf if it is forbidden."""
    p = potentials
    _check_labels(p, labels)
    result, solver = np.empty(p.n_sequences), solver_of(p, None)
    run_tasks(lambda first, last: solver.path_scores(first, last, labels, result), solver.chunks(), n_threads)
    return result


def log_probability(potentials: Chain, labels: NDArray[np.int32], *, n_threads: int = 1) -> NDArray[np.float64]:
    """Compute log P(labels | X) of each sequence, shape (n_sequences,); never above 0."""
    score = path_scores(potentials, labels, n_threads=n_threads)
    return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)


def _allowed(paths: NDArray[np.int32], scores: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    n_paths = int(np.count_nonzero(scores > -np.inf))
    return paths[:n_paths], scores[:n_paths]


def _check_labels(p: Chain, labels: NDArray[np.int32]) -> None:
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


def _check_possible(p: Chain, total: NDArray[np.float64], beam: int | None) -> None:
    impossible = np.flatnonzero(~(total > -np.inf))
    if impossible.size:
        s = int(impossible[0])
        length = int(p.offsets[s + 1] - p.offsets[s])
        solver = solver_of(p, beam)
        cure = f"relax the constraints on {solver.constraints}, start or end, or drop the sequence"
        if isinstance(solver, BeamSolver):
            cure = "widen the beam, or " + cure
        raise InputError(f"no labelling of sequence {s} (length {length}) is allowed; {cure}")
