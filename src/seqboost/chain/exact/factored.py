"""Forward-backward where a position's score does not depend on the context: F_t(c,k) = U_t(k) + A(c,k).

Legend as in :mod:`seqboost.chain.contexts`; c' = next(c, k), u_t(k) = exp(U_t(k) - max_t), a(c,k) = exp(A(c,k) - max).

    w_t(c') = u_t(k) b_{t+1}(c')          with k the newest label of c'
    b_t(c)  = sum_k a(c,k) w_t(c')        log Z = log b_0(start)
    h_t(c)  = g_t(c) / b_t(c)             g_t(c) = P(c_t = c | X)
    P(c_t=c, y_t=k | X) = h_t(c) a(c,k) w_t(c')

Nothing of size N*C*K is ever stored: h and w (called ``before`` and ``after``) rebuild the pair marginals of any
position.  Sequences that would underflow keep the logarithms of h and w instead.  Arrays are walked flat, as in
:mod:`seqboost.chain.exact.joint`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import SMALLEST, add_exp
from seqboost.chain.contraction.factored import factored_bounds
from seqboost.chain.contraction.pairs import block_buffers, clear_starts, contraction, position_blocks
from seqboost.chain.exact.joint import exponentiate
from seqboost.chain.potentials import Lattice, lattice_part
from seqboost.chain.tables import TableWeights
from seqboost.core.jit import allocating, inlined, jit
from seqboost.core.offsets import sequence_chunks

__all__ = ["PairMessages", "factored_contraction", "factored_log_partition", "factored_posterior", "pair_block"]

RUN_POSITIONS = 4096
"""Positions whose log Z alone is computed together."""

U = np.uint64


class PairMessages(NamedTuple):
    """What is needed to rebuild P(c_t=c, y_t=k | X) of a chunk of a *factored* model without another pass.

    ``before[t, c] * exp(table[e, k]) * after[t, next(c, k)]``, or the exponential of the sum where ``in_logs``.
    """

    first: int
    last: int
    before: NDArray[np.float64]  # (chunk positions * C,) b_t(c) after the backward pass, then h_t(c)
    after: NDArray[np.float64]  # (chunk positions * C,) w_t(c')
    in_logs: NDArray[np.bool_]  # (chunk sequences,)
    table: TableWeights


def factored_posterior(
    lattice: Lattice,
    table: TableWeights,
    first: int,
    last: int,
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
) -> PairMessages:
    """Fill marginals (K, N, 1) and log Z of the sequences ``first:last``."""
    messages = _backward(lattice, table, first, last, marginals, log_z)
    factored_forward(lattice, messages, log_z, marginals.reshape(-1))
    return messages


def factored_log_partition(
    lattice: Lattice, table: TableWeights, first: int, last: int, log_z: NDArray[np.float64]
) -> None:
    """Fill log Z of the sequences ``first:last``, by the backward pass alone."""
    for a, b in sequence_chunks(lattice.offsets[first : last + 1], RUN_POSITIONS):
        run = lattice_part(lattice, first + a, first + b)
        _backward(run, table, 0, b - a, np.empty_like(run.scores), log_z[first + a : first + b])


def _backward(
    lattice: Lattice,
    table: TableWeights,
    first: int,
    last: int,
    unary: NDArray[np.float32],
    log_z: NDArray[np.float64],
) -> PairMessages:
    """Fill u, log Z and the messages with b for h; in log space where it would underflow."""
    n_labels, n_contexts = table.turned.shape
    n_cells = int(lattice.offsets[last] - lattice.offsets[first]) * n_contexts
    in_logs = np.zeros(last - first, np.bool_)
    messages = PairMessages(first, last, np.empty(n_cells), np.empty(n_cells), in_logs, table)
    alone = lattice._replace(table=np.zeros((1, n_labels)), base=np.zeros(1, np.int64))
    exponentiate(alone, first, last, unary, log_z)
    factored_backward(lattice.offsets, lattice.base, messages, unary.reshape(-1), log_z)
    for s in first + np.flatnonzero(in_logs):
        log_z[s] = factored_backward_log(
            lattice, lattice.offsets[s], lattice.offsets[s + 1], lattice.offsets[first],
            messages.before.reshape(-1, n_contexts), messages.after.reshape(-1, n_contexts),
        )  # fmt: skip
    return messages


def factored_contraction(
    lattice: Lattice,
    messages: PairMessages,
    marginals: NDArray[np.float32],
    taus: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    """Fill the contraction coefficients of a chunk: by bounds of their own for many labels, unless in logs."""
    offsets, first, last = lattice.offsets, messages.first, messages.last
    n_labels, n_contexts = messages.table.turned.shape
    runs = [(offsets[first], offsets[last])]
    if lattice.base.size == 2 and n_labels > 8 and messages.table.weights.size:
        factored_bounds(
            messages.table.weights[1:].astype(np.float32).reshape(-1),
            messages.table.turned.astype(np.float32).reshape(-1),
            offsets, (first, last), messages.in_logs, messages.before, messages.after, marginals.reshape(-1), *taus,
        )  # fmt: skip
        runs = [(offsets[s], offsets[s + 1]) for s in first + np.flatnonzero(messages.in_logs)]
    buffers = block_buffers(n_labels, n_contexts)
    for begin, stop in runs:
        for a, b in position_blocks(begin, stop, n_labels * n_contexts):
            pairs = pair_block(lattice, messages, a, b)
            contraction(pairs, (n_labels, b - a, n_contexts), 0, buffers, taus[0][a:b], taus[1][a:b])
    clear_starts(offsets, lattice.base.size - 1, first, last, taus)


def pair_block(lattice: Lattice, messages: PairMessages, begin: int, stop: int) -> NDArray[np.float32]:
    """Return P(c_t=c, y_t=k | X) of the positions begin:stop of a chunk, flat (K * n * C,)."""
    pairs = np.empty((stop - begin) * messages.table.turned.size, np.float32)
    pair_marginals(lattice, messages, (begin, stop), pairs)
    return pairs


@inlined
def _backward_position(
    weights: NDArray[np.float64],  # IN (E, K)
    turned: NDArray[np.float64],  # IN (K * C,)
    base: NDArray[np.int64],  # IN (m + 1,)
    context_type: int,
    row: np.uint64,  # of b_t and w_t
    before: NDArray[np.float64],  # OUT (chunk positions * C,) b_t, divided by its maximum
    after: NDArray[np.float64],  # INOUT (chunk positions * C,) w_t, divided by the maximum of b_t
) -> float:
    """Return the maximum of b_t; 0 if nothing is possible, -1 if something reachable underflowed."""
    n_labels = weights.shape[1]
    n_contexts = turned.size // n_labels
    n_shared = n_contexts // n_labels
    if context_type == base.size - 1 and n_shared == 1:
        for c in range(n_contexts):
            before[row + U(c)] = 0.0
        for k in range(0, n_labels - 3, 4):
            at, w = U(k * n_contexts), row + U(k)
            w0, w1, w2, w3 = after[w], after[w + U(1)], after[w + U(2)], after[w + U(3)]
            at1, at2, at3 = at + U(n_contexts), at + U(2 * n_contexts), at + U(3 * n_contexts)
            for c in range(n_contexts):
                before[row + U(c)] += (turned[at + U(c)] * w0 + turned[at1 + U(c)] * w1) + (
                    turned[at2 + U(c)] * w2 + turned[at3 + U(c)] * w3
                )
        for k in range(n_labels - n_labels % 4, n_labels):
            at, w0 = U(k * n_contexts), after[row + U(k)]
            for c in range(n_contexts):
                before[row + U(c)] += turned[at + U(c)] * w0
    else:
        n_existing = n_contexts if context_type == base.size - 1 else base[context_type + 1] - base[context_type]
        for c in range(n_contexts):
            at, total = row + U(n_labels * (c % n_shared)), 0.0
            for k in range(n_labels if c < n_existing else 0):
                total += weights[U(base[context_type] + c), U(k)] * after[at + U(k)]
            before[row + U(c)] = total
    scale = 0.0
    for c in range(n_contexts):
        scale = before[row + U(c)] if before[row + U(c)] > scale else scale
    unit = 1.0 / scale if scale > 0.0 else 0.0
    lost = np.int64(0)
    for c in range(n_contexts):
        b = before[row + U(c)] * unit
        before[row + U(c)] = b
        after[row + U(c)] *= unit
        lost |= np.int64(b > 0.0) & np.int64(b < SMALLEST)
    return -1.0 if lost else scale


@jit
def factored_backward(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    messages: PairMessages,  # OUT b, w, and where log space is needed
    unary: NDArray[np.float32],  # IN (K * N,) u_t(k)
    log_z: NDArray[np.float64],  # INOUT (n_sequences,): sum of max_t in, or NaN; log Z out, meaningless where in logs
) -> None:
    """Fill b, w and log Z of a chunk."""
    first, last, in_logs = messages.first, messages.last, messages.in_logs
    before, after = messages.before, messages.after
    weights, turned, table_max = messages.table.weights, messages.table.turned.reshape(-1), messages.table.highest
    n_labels, order = weights.shape[1], base.size - 1
    n_positions, n_contexts = unary.size // n_labels, turned.size // n_labels
    n_shared = n_contexts // n_labels
    for s in range(first, last):
        begin, stop = offsets[s], offsets[s + 1]
        ok = weights.shape[0] > 0 and log_z[s] == log_z[s]
        log_total, product = log_z[s] + table_max * (stop - begin), 1.0
        for t in range(stop - 1 if ok else begin - 1, begin - 1, -1):
            row = U((t - offsets[first]) * n_contexts)
            for k in range(n_labels):
                u = np.float64(unary[U(k * n_positions + t)])
                for shared in range(n_shared):
                    c = U(shared * n_labels + k)
                    after[row + c] = u * before[row + U(n_contexts) + c] if t < stop - 1 else u
            scale = _backward_position(weights, turned, base, min(t - begin, order), row, before, after)
            if scale <= 0.0:
                ok = scale == 0.0
                log_total = -np.inf
                for cell in range(U((begin - offsets[first]) * n_contexts), row):
                    before[cell], after[cell] = 0.0, 0.0  # nothing leads here, and nothing was written
                break
            product *= scale
            if product < 1e-100 or product > 1e100:
                log_total += np.log(product)
                product = 1.0
        log_z[s] = log_total + np.log(product)
        in_logs[s - first] = not ok


@jit
def factored_backward_log(
    lattice: Lattice,
    begin: int,
    stop: int,
    origin: int,
    before: NDArray[np.float64],  # OUT (chunk positions, C) log b_t
    after: NDArray[np.float64],  # OUT (chunk positions, C) log w_t
) -> float:
    """Do the backward pass of one sequence in log space; return log Z."""
    scores, end, labels, base = lattice.scores, lattice.end, lattice.labels, lattice.base
    n_labels = scores.shape[0]
    n_contexts = before.shape[1]
    n_shared = n_contexts // n_labels
    for t in range(stop - 1, begin - 1, -1):
        row = t - origin
        for c in range(n_contexts):
            k = c % n_labels
            score = np.float64(scores[k, t, 0]) + (end[k] if t == stop - 1 else before[row + 1, c])
            if labels.size > 0 and labels[t] >= 0 and labels[t] != k:
                score = -np.inf
            after[row, c] = score
        context_type = min(t - begin, base.size - 1)
        for c in range(n_contexts):
            highest, total = -np.inf, 0.0  # log of the sum so far = highest + log(total)
            if context_type == base.size - 1 or c < base[context_type + 1] - base[context_type]:
                for k in range(n_labels):
                    score = lattice.table[base[context_type] + c, k] + after[row, k + n_labels * (c % n_shared)]
                    highest, total = add_exp(highest, total, score)
            before[row, c] = highest + np.log(total) if highest > -np.inf else -np.inf
    log_z: float = before[begin - origin, 0]
    return log_z


@inlined
def _forward_position(
    weights: NDArray[np.float64],  # IN (E * K,)
    n_labels: int,
    row: np.uint64,  # of h_t and w_t
    before: NDArray[np.float64],  # IN (chunk positions * K,) h_t
    after: NDArray[np.float64],  # IN (chunk positions * K,) w_t
    following: NDArray[np.float64],  # OUT (K,) P(c_{t+1}=k | X)
) -> None:
    """Do g_{t+1}(k) = w_t(k) sum_c h_t(c) a(c,k), for order 1 and a position that is not the first."""
    for k in range(n_labels):
        following[k] = 0.0
    for c in range(0, n_labels - 3, 4):
        at, h = U((c + 1) * n_labels), row + U(c)
        h0, h1, h2, h3 = before[h], before[h + U(1)], before[h + U(2)], before[h + U(3)]
        at1, at2, at3 = at + U(n_labels), at + U(2 * n_labels), at + U(3 * n_labels)
        for k in range(n_labels):
            following[k] += (h0 * weights[at + U(k)] + h1 * weights[at1 + U(k)]) + (
                h2 * weights[at2 + U(k)] + h3 * weights[at3 + U(k)]
            )
    for c in range(n_labels - n_labels % 4, n_labels):
        at, h0 = U((c + 1) * n_labels), before[row + U(c)]
        for k in range(n_labels):
            following[k] += h0 * weights[at + U(k)]
    for k in range(n_labels):
        following[k] *= after[row + U(k)]


@allocating
def factored_forward(
    lattice: Lattice,
    messages: PairMessages,  # INOUT: b_t in, h_t out
    log_z: NDArray[np.float64],  # IN (n_sequences,)
    marginals: NDArray[np.float32],  # OUT (K * N,)
) -> None:
    """Fill node marginals of a chunk."""
    table, offsets, base = lattice.table, lattice.offsets, lattice.base
    first, last, in_logs = messages.first, messages.last, messages.in_logs
    before, after = messages.before, messages.after
    weights = messages.table.weights.reshape(-1)
    n_labels, order = table.shape[1], base.size - 1
    n_contexts = table.shape[0] - base[order]
    n_positions, n_shared = marginals.size // n_labels, n_contexts // n_labels
    now, following = np.empty(n_contexts), np.empty(n_contexts)
    for s in range(first, last):
        use_logs = in_logs[s - first]
        for c in range(n_contexts):
            now[c] = 0.0
        now[0] = 1.0 if log_z[s] > -np.inf else 0.0
        for t in range(offsets[s], offsets[s + 1]):
            row = U((t - offsets[first]) * n_contexts)
            context_type = min(t - offsets[s], order)
            if use_logs:
                for c in range(n_contexts):
                    h = np.log(now[c]) - before[row + U(c)] if now[c] > 0.0 else -np.inf
                    before[row + U(c)] = h
            else:
                for c in range(n_contexts):
                    h = now[c] / before[row + U(c)]
                    before[row + U(c)] = h if now[c] > 0.0 else 0.0
            if context_type > 0 and n_shared == 1 and not use_logs:
                _forward_position(weights, n_labels, row, before, after, following)
            else:
                for c in range(n_contexts):
                    following[c] = 0.0
                for c in range(n_contexts):
                    to = U(n_labels * (c % n_shared))
                    h, at = before[row + U(c)], U((base[context_type] + c) * n_labels)
                    for k in range(n_labels if now[c] > 0.0 else 0):
                        w = after[row + to + U(k)]
                        if use_logs:
                            following[to + U(k)] += np.exp(h + table[U(base[context_type] + c), U(k)] + w)
                        else:
                            following[to + U(k)] += h * weights[at + U(k)] * w
            total = 0.0
            for k in range(n_labels):
                node = 0.0
                for shared in range(n_shared):
                    node += following[U(shared * n_labels + k)]
                marginals[U(k * n_positions + t)] = np.float32(node)
                total += node
            scale = 1.0 / total if total > 0.0 else 0.0
            for c in range(n_contexts):
                now[c] = following[c] * scale


@jit
def pair_marginals(
    lattice: Lattice,
    messages: PairMessages,
    positions: tuple[int, int],  # begin, stop
    pairs: NDArray[np.float32],  # OUT (K * n * C,) P(c_t=c, y_t=k | X)
) -> None:
    """Fill the pair marginals of the positions begin:stop."""
    table, offsets, base, weights = lattice.table, lattice.offsets, lattice.base, messages.table.weights
    before, after, in_logs = messages.before, messages.after, messages.in_logs
    begin, stop, s = positions[0], positions[1], messages.first
    n_labels, order, origin = table.shape[1], base.size - 1, offsets[s]
    n_contexts = table.shape[0] - base[order]
    n_shared, first = n_contexts // n_labels, s
    for t in range(begin, stop):
        while t >= offsets[s + 1]:
            s += 1
        row, use_logs = U((t - origin) * n_contexts), in_logs[s - first]
        first_context = base[min(t - offsets[s], order)]
        for c in range(n_contexts):
            h, at = before[row + U(c)], row + U(n_labels * (c % n_shared))
            for k in range(n_labels):
                prob = 0.0
                if use_logs and h > -np.inf:
                    prob = np.exp(h + table[U(first_context + c), U(k)] + after[at + U(k)])
                elif not use_logs and h > 0.0:
                    prob = h * weights[U(first_context + c), U(k)] * after[at + U(k)]
                pairs[U((k * (stop - begin) + t - begin) * n_contexts + c)] = np.float32(prob)
