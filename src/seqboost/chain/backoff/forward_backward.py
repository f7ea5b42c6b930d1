"""Log Z, marginals and expectations of a run of sequences of the back-off chain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.expectations import Sums, make_work
from seqboost.chain.backoff.logspace import log_posterior
from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.chain.backoff.scaled import scaled_posterior
from seqboost.core.offsets import sequence_chunks

__all__ = ["seen_chunks", "seen_posterior_chunk"]

CHUNK_POSITIONS, MAX_CHUNKS = 512, 64
"""A position costs as many steps as there are arcs, so chunks are short; each has sums, so their number is bounded."""


def seen_chunks(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut the sequences into runs ``first, last``, by their lengths alone."""
    return sequence_chunks(offsets, max(CHUNK_POSITIONS, int(offsets[-1]) // MAX_CHUNKS))


def seen_posterior_chunk(
    potentials: SeenPotentials,
    first: int,
    last: int,
    marginals: NDArray[np.float32] | None,
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
    reach: NDArray[np.float32] | None = None,
    sums: Sums | None = None,
) -> None:
    """Do forward-backward of the sequences ``first:last``; safe to call from several threads on different chunks.

    Parameters
    ----------
    potentials : SeenPotentials
        The log-scores.
    first, last : int
        Range of sequences; only their rows of the outputs are written.
    marginals : float32 array (K, N, 1), or None
        OUT: P(y_t=k | X); None for log Z alone, by the backward pass alone.
    log_z : float64 array (n_sequences,)
        OUT: -inf where no labelling is allowed (marginals are then 0).
    labels : int32 array (N,), optional
        Observed labels, -1 = unobserved: only labellings that agree with them count.
    reach : float32 array (2, N), optional
        OUT: R_t and L_t of labels (:mod:`seqboost.chain.backoff.contraction`).
    sums : Sums, optional
        INOUT: expectations of the table's indicators; use one per chunk.  ``mixing`` needs ``reach``.
    """
    p, contexts, lattice = potentials, potentials.contexts, potentials.lattice(labels)
    found = np.empty((0, 0, 0), np.float32) if marginals is None else marginals
    reached = np.empty((2, 0), np.float32) if reach is None else reach
    summed = Sums(np.zeros(0), np.zeros(0), np.zeros(0), False) if sums is None else sums
    longest = int(np.diff(p.offsets[first : last + 1]).max())
    work = make_work(contexts.graph, p.n_labels, longest, sums=sums is not None)
    if p.weights.arc.size:
        scaled_posterior(
            lattice, p.weights, contexts.is_constrained, (first, last), work, found, log_z, reached, summed
        )
    else:
        log_z[first:last] = np.nan
    for s in first + np.flatnonzero(np.isnan(log_z[first:last])):
        log_z[s] = log_posterior(lattice, int(s), work, found, reached, summed)
