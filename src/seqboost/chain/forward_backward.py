"""Forward-backward: log Z, marginals and contraction coefficients of a run of sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import MAX_RANGE
from seqboost.chain.factored import factored_backward, factored_backward_log, factored_forward, factored_sums
from seqboost.chain.joint import joint_backward, joint_backward_log, joint_forward
from seqboost.chain.manylabels import factored_bounds
from seqboost.chain.mixing import factored_mixing, joint_mixing
from seqboost.chain.potentials import Potentials

__all__ = ["PairMessages", "pair_sums_chunk", "posterior_chunk"]


@dataclass(frozen=True, eq=False)
class PairMessages:
    """What is needed to rebuild P(c_t=c, y_t=k | X) of a chunk of a *factored* model without another pass.

    ``before[t, c] * exp(table[e, k]) * after[t, next(c, k)]``, or the exponential of the sum where ``in_logs``.
    """

    first: int
    last: int
    before: NDArray[np.float64]  # (chunk positions * C,)
    after: NDArray[np.float64]  # (chunk positions * C,)
    in_logs: NDArray[np.bool_]  # (chunk sequences,)
    weights: NDArray[np.float64]  # (E, K) exp(table - its maximum), or (0, K)
    turned: NDArray[np.float64]  # (K, C) the same for full contexts, transposed


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
    p, base = potentials, potentials.space.base
    observed = np.empty(0, np.int32) if labels is None else labels
    cells = marginals.reshape(-1)
    if p.joint:
        joint_backward(p.scores.reshape(-1), p.table, p.end, observed, p.offsets, base, first, last, cells, log_z)
        for s in first + np.flatnonzero(np.isnan(log_z[first:last])):
            begin, stop, work = p.offsets[s], p.offsets[s + 1], np.empty((2, p.space.n_contexts))
            log_z[s] = joint_backward_log(p.scores, p.table, p.end, observed, base, begin, stop, marginals, work)
        sizes = (p.n_labels, p.space.n_contexts, p.order)
        joint_forward(p.offsets, sizes, first, last, log_z, cells)
        if tau_forward is not None and tau_backward is not None:
            joint_mixing(cells, p.offsets, sizes, first, last, tau_forward, tau_backward)
        return None
    messages = _factored_posterior(p, first, last, observed, cells, log_z)
    if tau_forward is not None and tau_backward is not None:
        _factored_mixing(p, messages, cells, tau_forward, tau_backward)
    return messages


def _factored_posterior(
    p: Potentials,
    first: int,
    last: int,
    observed: NDArray[np.int32],
    cells: NDArray[np.float32],
    log_z: NDArray[np.float64],
) -> PairMessages:
    base = p.space.base
    n_cells = int(p.offsets[last] - p.offsets[first]) * p.space.n_contexts
    before, after = np.empty(n_cells), np.empty(n_cells)
    in_logs = np.zeros(last - first, np.bool_)
    weights, turned, table_max = _table_weights(p, base)
    factored_backward(
        p.scores.reshape(-1), weights, turned.reshape(-1), table_max, p.end, observed, p.offsets, base, first, last,
        cells, before, after, in_logs, log_z,
    )  # fmt: skip
    for s in first + np.flatnonzero(in_logs):
        log_z[s] = factored_backward_log(
            p.scores, p.table, p.end, observed, base, p.offsets[s], p.offsets[s + 1], p.offsets[first],
            before.reshape(-1, p.space.n_contexts), after.reshape(-1, p.space.n_contexts),
        )  # fmt: skip
    factored_forward(
        p.table, weights.reshape(-1), p.offsets, base, first, last, log_z, in_logs, before, after, cells
    )
    return PairMessages(first, last, before, after, in_logs, weights, turned)


def _factored_mixing(
    p: Potentials,
    messages: PairMessages,
    cells: NDArray[np.float32],
    tau_forward: NDArray[np.float32],
    tau_backward: NDArray[np.float32],
) -> None:
    """Fill the contraction coefficients of a chunk: bounds for many labels, unless in logs."""
    first, last = messages.first, messages.last
    runs = [(first, last, first)]
    if p.order == 1 and p.n_labels > 8 and messages.weights.size:
        factored_bounds(
            messages.weights[1:].astype(np.float32).reshape(-1), messages.turned.astype(np.float32).reshape(-1),
            p.offsets, runs[0], messages.in_logs, messages.before, messages.after, cells, tau_forward, tau_backward,
        )  # fmt: skip
        runs = [(s, s + 1, first) for s in first + np.flatnonzero(messages.in_logs)]
    for run in runs:
        factored_mixing(
            p.table, messages.weights, p.offsets, p.space.base, run, messages.in_logs, messages.before, messages.after,
            tau_forward, tau_backward,
        )  # fmt: skip


def _table_weights(p: Potentials, base: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return exp(table - max), the same transposed for full contexts, and the max; empty if its range is too wide."""
    finite = p.table[p.table > -np.inf]
    if finite.size == 0 or finite.max() - finite.min() > MAX_RANGE:
        return np.empty((0, p.n_labels)), np.empty((p.n_labels, p.space.n_contexts)), 0.0
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
        potentials.table, messages.weights.reshape(-1), potentials.offsets, potentials.space.base,
        messages.first, messages.last, messages.in_logs, messages.before, messages.after,
        mean_weight, variance_weight, mean.reshape(-1), variance.reshape(-1),
    )  # fmt: skip
