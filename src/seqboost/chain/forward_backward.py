"""Forward-backward: log Z, marginals and contraction coefficients of a run of sequences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.factored import factored_backward, factored_backward_log, factored_forward, factored_sums
from seqboost.chain.joint import BLOCK, exponentiate, joint_backward, joint_backward_log, joint_forward
from seqboost.chain.manylabels import factored_bounds
from seqboost.chain.mixing import block_buffers, contraction, pair_marginals, position_blocks
from seqboost.chain.potentials import MANY_LABELS, Potentials
from seqboost.chain.rows import RowMessages, add_row_sums, rows_posterior
from seqboost.core.contexts import ContextSpace
from seqboost.core.offsets import sequence_chunks

__all__ = ["PairMessages", "pair_block", "pair_sums_chunk", "posterior_chunk"]

RUN_CELLS = 65536
"""Cells (position, context, label) of a joint model that are taken from scores to marginals together."""


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
        Whether many labels may go the way of :mod:`seqboost.chain.rows`, which is faster. Without, the answer is never
        a RowMessages, as :func:`pair_block` needs it.

    Returns
    -------
    PairMessages, RowMessages or None
        Of factored models with order >= 1: hand it to :func:`pair_sums_chunk`.  None for joint models, whose marginals
        are the pair marginals already.
    """
    p = potentials
    observed = np.empty(0, np.int32) if labels is None else labels
    cells = marginals.reshape(-1)
    messages = None
    taus = None if tau_forward is None or tau_backward is None else (tau_forward, tau_backward)
    if p.joint:
        _joint_posterior(p, first, last, observed, marginals, log_z)
    elif by_rows and p.order == 1 and p.n_labels > MANY_LABELS:
        return _rows_posterior(p, first, last, observed, cells, log_z, taus)
    else:
        messages = _factored_posterior(p, first, last, observed, cells, log_z)
    if taus is not None:
        _mixing(p, first, last, messages, cells, *taus)
    return messages


def _rows_posterior(
    p: Potentials,
    first: int,
    last: int,
    observed: NDArray[np.int32],
    cells: NDArray[np.float32],
    log_z: NDArray[np.float64],
    taus: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
) -> RowMessages:
    """Do a chunk the way of many labels, and what is lost there the way of few."""
    messages = rows_posterior(p, first, last, observed, cells, log_z, taus)
    for s in (first + np.flatnonzero(messages.lost)).tolist():
        other = _factored_posterior(p, s, s + 1, observed, cells, log_z)
        if taus is not None:
            _mixing(p, s, s + 1, other, cells, *taus)
        messages.others.append(other)
    return messages


def _mixing(
    p: Potentials,
    first: int,
    last: int,
    messages: PairMessages | None,
    cells: NDArray[np.float32],
    tau_forward: NDArray[np.float32],
    tau_backward: NDArray[np.float32],
) -> None:
    """Fill the contraction coefficients of the sequences first:last."""
    if p.order == 0:
        tau_forward[p.offsets[first] : p.offsets[last]] = tau_backward[p.offsets[first] : p.offsets[last]] = 0.0
        return
    if messages is not None:
        _factored_mixing(p, messages, cells, tau_forward, tau_backward)
    else:
        buffers = block_buffers(p.n_labels, p.space.n_contexts)
        for a, b in position_blocks(p.offsets[first], p.offsets[last], p.n_labels * p.space.n_contexts):
            contraction(cells, p.scores.shape, a, buffers, tau_forward[a:b], tau_backward[a:b])
    tau_forward[p.offsets[first:last]] = 0.0
    for j in range(p.order):
        starts = p.offsets[first:last] + j
        tau_backward[starts[starts < p.offsets[first + 1 : last + 1]]] = 0.0


def _exponentiate(
    p: Potentials,
    space: ContextSpace,
    table: NDArray[np.float64],
    first: int,
    last: int,
    observed: NDArray[np.int32],
    cells: NDArray[np.float32],
    log_z: NDArray[np.float64],
) -> None:
    """Fill exp(scores + table - their maximum at each position), and log Z with the sums of the maxima."""
    n_labels, n_contexts, base = space.n_labels, space.n_contexts, space.base
    tile = np.tile(table[base[-1] :].T, (1, max(1, BLOCK // n_contexts)))
    top = np.empty((2, tile.shape[1]), np.float32)
    runs = (first, last, int(not p.end.any()))
    special = np.empty((n_labels, n_contexts))
    scores = p.scores.reshape(-1)
    exponentiate(scores, table, tile, p.end, observed, p.offsets, base, runs, special, top[0], top[1], cells, log_z)


def _joint_posterior(
    p: Potentials,
    first: int,
    last: int,
    observed: NDArray[np.int32],
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
) -> None:
    """Fill marginals and log Z, run by run of sequences whose cells stay in a near cache."""
    base, cells = p.space.base, marginals.reshape(-1)
    n_contexts = p.space.n_contexts
    sizes = (p.n_labels, n_contexts, p.order)
    work = np.empty((3, n_contexts))
    n_positions = max(1, RUN_CELLS // (p.n_labels * n_contexts))
    for a, b in sequence_chunks(p.offsets[first : last + 1], n_positions):
        begin, end = first + a, first + b
        _exponentiate(p, p.space, p.table, begin, end, observed, cells, log_z)
        joint_backward(p.offsets, sizes, begin, end, work[0], work[1], work[2], cells, log_z)
        for s in begin + np.flatnonzero(np.isnan(log_z[begin:end])):
            log_z[s] = joint_backward_log(
                p.scores, p.table, p.end, observed, base, p.offsets[s], p.offsets[s + 1], marginals, work
            )
        joint_forward(p.offsets, sizes, begin, end, work[0], work[1], log_z, cells)


def _factored_posterior(
    p: Potentials,
    first: int,
    last: int,
    observed: NDArray[np.int32],
    cells: NDArray[np.float32],
    log_z: NDArray[np.float64],
) -> PairMessages:
    base, n_contexts = p.space.base, p.space.n_contexts
    n_cells = int(p.offsets[last] - p.offsets[first]) * n_contexts
    before, after, work = np.empty(n_cells), np.empty(n_cells), np.empty((2, n_contexts))
    in_logs = np.zeros(last - first, np.bool_)
    weights, turned, table_max = p.table_weights
    _exponentiate(p, ContextSpace(p.n_labels, 0), np.zeros((1, p.n_labels)), first, last, observed, cells, log_z)
    factored_backward(
        weights, turned.reshape(-1), table_max, p.offsets, base, first, last, cells, before, after, in_logs, log_z
    )
    for s in first + np.flatnonzero(in_logs):
        log_z[s] = factored_backward_log(
            p.scores, p.table, p.end, observed, base, p.offsets[s], p.offsets[s + 1], p.offsets[first],
            before.reshape(-1, n_contexts), after.reshape(-1, n_contexts),
        )  # fmt: skip
    factored_forward(
        p.table, weights.reshape(-1), p.offsets, base, first, last, log_z, in_logs, before, after, work[0], work[1],
        cells,
    )  # fmt: skip
    return PairMessages(first, last, before, after, in_logs, weights, turned)


def _factored_mixing(
    p: Potentials,
    messages: PairMessages,
    cells: NDArray[np.float32],
    tau_forward: NDArray[np.float32],
    tau_backward: NDArray[np.float32],
) -> None:
    """Fill the contraction coefficients of a chunk: by bounds of their own for many labels, unless in logs."""
    first, last, n_contexts = messages.first, messages.last, p.space.n_contexts
    runs = [(p.offsets[first], p.offsets[last])]
    if p.order == 1 and p.n_labels > 8 and messages.weights.size:
        factored_bounds(
            messages.weights[1:].astype(np.float32).reshape(-1), messages.turned.astype(np.float32).reshape(-1),
            p.offsets, (first, last), messages.in_logs, messages.before, messages.after, cells,
            tau_forward, tau_backward,
        )  # fmt: skip
        runs = [(p.offsets[s], p.offsets[s + 1]) for s in first + np.flatnonzero(messages.in_logs)]
    buffers = block_buffers(p.n_labels, n_contexts)
    for begin, stop in runs:
        for a, b in position_blocks(begin, stop, p.n_labels * n_contexts):
            pairs = pair_block(p, messages, a, b)
            contraction(pairs, (p.n_labels, b - a, n_contexts), 0, buffers, tau_forward[a:b], tau_backward[a:b])


def pair_block(potentials: Potentials, messages: PairMessages, begin: int, stop: int) -> NDArray[np.float32]:
    """Return P(c_t=c, y_t=k | X) of the positions begin:stop of a factored chunk, flat (K * n * C,)."""
    p = potentials
    pairs = np.empty(p.n_labels * (stop - begin) * p.space.n_contexts, np.float32)
    pair_marginals(
        p.table, messages.weights, p.offsets, p.space.base, (begin, stop, messages.first), messages.in_logs,
        messages.before, messages.after, pairs,
    )  # fmt: skip
    return pairs


def pair_sums_chunk(
    potentials: Potentials,
    messages: PairMessages | RowMessages,
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
    messages : PairMessages or RowMessages
        Its answer.
    mean_weight, variance_weight : float64 arrays (N,)
        Weights of positions, e.g. sequence weight and sequence weight times mixing factor.
    mean, variance : float64 arrays (E, K)
        INOUT: use one pair per chunk and add them up in the order of chunks.
    """
    if isinstance(messages, RowMessages):
        add_row_sums(messages, potentials.offsets, mean_weight, variance_weight, mean, variance)
        for other in messages.others:
            pair_sums_chunk(potentials, other, mean_weight, variance_weight, mean, variance)
        return
    factored_sums(
        potentials.table, messages.weights.reshape(-1), potentials.offsets, potentials.space.base,
        messages.first, messages.last, messages.in_logs, messages.before, messages.after,
        mean_weight, variance_weight, mean.reshape(-1), variance.reshape(-1),
    )  # fmt: skip
