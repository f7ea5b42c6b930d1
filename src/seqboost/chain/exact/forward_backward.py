"""Log Z, marginals and contraction coefficients of a run of sequences: the choice of the fastest exact method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.contraction.pairs import block_buffers, clear_starts, contraction, position_blocks
from seqboost.chain.exact.factored import (
    PairMessages,
    factored_contraction,
    factored_log_partition,
    factored_posterior,
)
from seqboost.chain.exact.joint import joint_log_partition, joint_posterior
from seqboost.chain.exact.many_labels import RowMessages, many_labels_log_partition, many_labels_posterior
from seqboost.chain.potentials import MANY_LABELS, Lattice, Potentials

__all__ = ["log_partition_chunk", "posterior_chunk"]


def posterior_chunk(
    potentials: Potentials,
    first: int,
    last: int,
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
    tau_forward: NDArray[np.float32] | None = None,
    tau_backward: NDArray[np.float32] | None = None,
    by_rows: bool = True,
) -> PairMessages | RowMessages | None:
    """Forward-backward of the sequences ``first:last``; safe to call from several threads on different chunks.

    Parameters
    ----------
    potentials : Potentials
        The log-scores.
    first, last : int
        Range of sequences; only their rows of the outputs are written.
    marginals : float32 array like ``potentials.scores``
        OUT: joint P(c_t=c, y_t=k | X) as [k, t, c] (0 in slots that do not exist), factored P(y_t=k | X) as [k, t, 0].
        Must not be the same memory as the scores.
    log_z : float64 array (n_sequences,)
        OUT: log of the sum over all labellings of exp(score); -inf where none is allowed (marginals are then 0).
    labels : int32 array (N,), optional
        Observed labels, -1 = unobserved: only labellings that agree with them count.
    tau_forward : float32 array (N,), optional
        OUT: tau_forward[t] = largest total variation between two rows c of P(y_t | c_t = c, X), over contexts that are
        possible at t.  0 at the first position of a sequence.  Exact for few labels and contexts, else an upper bound.
    tau_backward : float32 array (N,), optional
        OUT: tau_backward[t] = the same of P(y_{t-m} | c_{t+1} = c', X), the label that leaves the context between t and
        t+1.  0 at the first m positions of a sequence.
    by_rows : bool, default=True
        Whether many labels may use :mod:`seqboost.chain.exact.many_labels`, which is faster. Without, the answer is
        never a RowMessages, as :func:`pair_block` needs it.

    Returns
    -------
    PairMessages, RowMessages or None
        Of factored models with order >= 1: hand it to :func:`pair_sums_chunk`.  None for joint models, whose marginals
        are the pair marginals already.
    """
    p, lattice = potentials, potentials.lattice(labels)
    taus = None if tau_forward is None or tau_backward is None else (tau_forward, tau_backward)
    if by_rows and _has_many_labels(p):
        return many_labels_posterior(p, lattice, first, last, marginals, log_z, taus)
    messages = None
    if p.joint:
        joint_posterior(lattice, first, last, marginals, log_z)
    else:
        messages = factored_posterior(lattice, p.table_weights, first, last, marginals, log_z)
    if taus is not None:
        _fill_contraction(lattice, first, last, messages, marginals, taus)
    return messages


def log_partition_chunk(
    potentials: Potentials,
    first: int,
    last: int,
    log_z: NDArray[np.float64],
    *,
    labels: NDArray[np.int32] | None = None,
) -> None:
    """Fill log Z of the sequences ``first:last`` by the backward pass alone, with the bits of :func:`posterior_chunk`.

    Parameters as of :func:`posterior_chunk`.
    """
    p, lattice = potentials, potentials.lattice(labels)
    if _has_many_labels(p):
        many_labels_log_partition(p, lattice, first, last, log_z)
    elif p.joint:
        joint_log_partition(lattice, first, last, log_z)
    else:
        factored_log_partition(lattice, p.table_weights, first, last, log_z)


def _has_many_labels(p: Potentials) -> bool:
    return not p.joint and p.order == 1 and p.n_labels > MANY_LABELS


def _fill_contraction(
    lattice: Lattice,
    first: int,
    last: int,
    messages: PairMessages | None,
    marginals: NDArray[np.float32],
    taus: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    """Fill the contraction coefficients of the sequences first:last."""
    offsets, order, (n_labels, _, n_contexts) = lattice.offsets, lattice.base.size - 1, marginals.shape
    if order == 0:
        taus[0][offsets[first] : offsets[last]] = taus[1][offsets[first] : offsets[last]] = 0.0
        return
    if messages is not None:
        factored_contraction(lattice, messages, marginals, taus)
    else:
        buffers = block_buffers(n_labels, n_contexts)
        for a, b in position_blocks(offsets[first], offsets[last], n_labels * n_contexts):
            contraction(marginals.reshape(-1), marginals.shape, a, buffers, taus[0][a:b], taus[1][a:b])
        clear_starts(offsets, order, first, last, taus)
