"""Log Z and marginals of chains with minimum durations, run by run of sequences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.contraction.pairs import block_buffers, clear_starts, contraction, position_blocks
from seqboost.chain.durations.kernels import make_rests, posterior_sequences
from seqboost.chain.durations.potentials import DurationPotentials
from seqboost.core.offsets import sequence_chunks

__all__ = ["duration_log_partition_chunk", "duration_pair_runs", "duration_posterior_chunk"]

RUN_CELLS = 65536
"""Cells (position, label before, label) that are worked on together, so that they stay in a cache."""

NO_PAIRS = np.empty((0, 0, 0), np.float32)


def duration_pair_runs(
    potentials: DurationPotentials,
    first: int,
    last: int,
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
    taus: NDArray[np.float32] | None = None,
) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
    """Forward-backward of the sequences ``first:last``; safe to call from several threads on different chunks.

    Parameters
    ----------
    potentials : DurationPotentials
        The log-scores.
    first, last : int
        Range of sequences; only their rows of the outputs are written.
    marginals : float32 array like ``potentials.scores``
        OUT: joint P(y_{t-1}=j, y_t=k | X) as [k, t, j] (first position: j = 0), factored P(y_t=k | X) as [k, t, 0].
    log_z : float64 array (n_sequences,)
        OUT: log of the sum over all labellings of exp(score); -inf where none is allowed (marginals are then 0).
    labels : int32 array (N,), optional
        Observed labels, -1 = unobserved: only labellings that agree with them count.
    taus : float32 array (2, N), optional
        OUT: contraction coefficients of P(y_t | y_{t-1}, X) and P(y_{t-1} | y_t, X), as of
        :func:`seqboost.chain.posterior_chunk`.

    Yields
    ------
    (int, int, float32 array (K, n, K))
        Sequences a:b, and the probabilities of pairs at their n positions as [k, t, j]; valid until the next run.
    """
    p, lattice = potentials, potentials.lattice(labels)
    n_labels, offsets = p.n_labels, p.offsets
    rests = make_rests(int(np.diff(offsets[first : last + 1]).max()), n_labels)
    buffers = block_buffers(n_labels, n_labels)
    size = max(1, RUN_CELLS // n_labels**2)
    for a, b in sequence_chunks(offsets[first : last + 1], size):
        a, b = first + a, first + b
        begin, stop = int(offsets[a]), int(offsets[b])
        shift = 0 if p.joint else begin  # position of row 0 of pairs
        pairs = marginals if p.joint else np.empty((n_labels, stop - begin, n_labels), np.float32)
        posterior_sequences(lattice, p.durations, a, b, rests, shift, pairs, log_z)
        if not p.joint:
            np.sum(pairs, axis=2, out=marginals[:, begin:stop, 0])
        if taus is not None:
            for i, j in position_blocks(begin, stop, n_labels**2):
                contraction(pairs.reshape(-1), pairs.shape, i - shift, buffers, taus[0][i:j], taus[1][i:j])
            clear_starts(offsets, 1, a, b, (taus[0], taus[1]))
        yield a, b, pairs[:, begin - shift : stop - shift]


def duration_posterior_chunk(
    potentials: DurationPotentials,
    first: int,
    last: int,
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
) -> None:
    """Fill marginals and log Z of the sequences ``first:last``; parameters as of :func:`duration_pair_runs`."""
    for _ in duration_pair_runs(potentials, first, last, marginals, log_z, labels=labels):
        pass


def duration_log_partition_chunk(
    potentials: DurationPotentials,
    first: int,
    last: int,
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
) -> None:
    """Fill log Z of the sequences ``first:last`` by the backward pass alone."""
    p = potentials
    rests = make_rests(int(np.diff(p.offsets[first : last + 1]).max()), p.n_labels)
    posterior_sequences(p.lattice(labels), p.durations, first, last, rests, 0, NO_PAIRS, log_z)
