"""Forward-backward: log Z, marginals and contraction coefficients of a run of sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import MAX_RANGE
from seqboost.chain.factored import factored_backward, factored_backward_log, factored_forward, factored_sums
from seqboost.chain.joint import joint_backward, joint_backward_log, joint_forward
from seqboost.chain.mixing import joint_mixing
from seqboost.chain.potentials import Potentials

__all__ = ["PairMessages", "pair_sums_chunk", "posterior_chunk"]


@dataclass(frozen=True, eq=False)
class PairMessages:
    """What is needed to rebuild P(c_t=c, y_t=k | X) of a chunk of a *factored* model without another pass.

    ``before[t, c] * exp(table[e, k]) * after[t, next(c, k)]``, or the exponential of the sum where ``in_logs``.
    """

    first: int
    last: int
    before: NDArray[np.float64]  # (chunk positions, C)
    after: NDArray[np.float64]  # (chunk positions, C)
    in_logs: NDArray[np.bool_]  # (chunk sequences,)
    weights: NDArray[np.float64]  # (E, K) exp(table - its maximum), or (0, K)


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
) -> PairMessages | None:
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

    Returns
    -------
    PairMessages or None
        Of factored models with order >= 1: hand it to :func:`pair_sums_chunk`.  None for joint models, whose marginals
        are the pair marginals already.
    """
    p = potentials
    base = p.space.base
    observed = np.empty(0, np.int32) if labels is None else labels
    if tau_forward is None or tau_backward is None:
        tau_forward = tau_backward = np.empty(0, np.float32)
    if p.joint:
        joint_backward(p.scores, p.table, p.end, observed, p.offsets, base, first, last, marginals, log_z)
        for s in first + np.flatnonzero(np.isnan(log_z[first:last])):
            begin, stop, work = p.offsets[s], p.offsets[s + 1], np.empty((2, p.space.n_contexts))
            log_z[s] = joint_backward_log(p.scores, p.table, p.end, observed, base, begin, stop, marginals, work)
        joint_forward(p.offsets, p.order, first, last, log_z, marginals)
        if tau_forward.size:
            joint_mixing(marginals, p.offsets, p.order, first, last, tau_forward, tau_backward)
        return None
    n_rows, n_contexts = int(p.offsets[last] - p.offsets[first]), p.space.n_contexts
    before, after = np.empty((n_rows, n_contexts)), np.empty((n_rows, n_contexts))
    in_logs = np.zeros(last - first, np.bool_)
    weights, turned, table_max = _table_weights(p, base)
    factored_backward(
        p.scores, weights, turned, table_max, p.end, observed, p.offsets, base, first, last,
        before, after, in_logs, log_z,
    )  # fmt: skip
    for s in first + np.flatnonzero(in_logs):
        log_z[s] = factored_backward_log(
            p.scores, p.table, p.end, observed, base, p.offsets[s], p.offsets[s + 1], p.offsets[first], before, after
        )
    factored_forward(
        p.table, weights, turned, p.offsets, base, first, last, log_z, in_logs,
        before, after, marginals, tau_forward, tau_backward,
    )  # fmt: skip
    return PairMessages(first, last, before, after, in_logs, weights)


def _table_weights(p: Potentials, base: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return exp(table - max), the same transposed for full contexts, and the max; empty if its range is too wide."""
    finite = p.table[p.table > -np.inf]
    if finite.size == 0 or finite.max() - finite.min() > MAX_RANGE:
        return np.empty((0, p.n_labels)), np.empty((p.n_labels, 0)), 0.0
    table_max = float(finite.max())
    weights = np.exp(p.table - table_max)
    return weights, np.ascontiguousarray(weights[base[-1] :].T), table_max


def pair_sums_chunk(
    potentials: Potentials,
    messages: PairMessages,
    mean_weight: NDArray[np.float64],
    variance_weight: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> None:
    """Add the weighted sums over positions of p and p(1 - p), p = P(c_t=c, y_t=k | X), of a factored chunk.

    ``mean[e, k] += sum_t mean_weight[t] * p_t(e, k)`` and ``variance[e, k] += sum_t variance_weight[t] * p_t(e, k) *
    (1 - p_t(e, k))``.

    Parameters
    ----------
    potentials : Potentials
        As given to :func:`posterior_chunk`.
    messages : PairMessages
        Its answer.
    mean_weight, variance_weight : float64 arrays (N,)
        Weights of positions, e.g. sequence weight and sequence weight times mixing factor.
    mean, variance : float64 arrays (E, K)
        INOUT: use one pair per chunk and add them up in the order of chunks.
    """
    factored_sums(
        potentials.table, messages.weights, potentials.offsets, potentials.space.base, messages.first, messages.last,
        messages.in_logs, messages.before, messages.after, mean_weight, variance_weight, mean, variance,
    )  # fmt: skip
