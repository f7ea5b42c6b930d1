"""Forward-backward where a position's score does not depend on the context: F_t(c,k) = U_t(k) + A(c,k).

Legend as in :mod:`seqboost.chain.contexts`; c' = next(c, k), u_t(k) = exp(U_t(k) - max_t), a(c,k) = exp(A(c,k) - max).

    w_t(c') = u_t(k) b_{t+1}(c')          with k the newest label of c'
    b_t(c)  = sum_k a(c,k) w_t(c')        log Z = log b_0(start)
    h_t(c)  = g_t(c) / b_t(c)             g_t(c) = P(c_t = c | X)
    P(c_t=c, y_t=k | X) = h_t(c) a(c,k) w_t(c')

Nothing of size N*C*K is ever stored: h and w (called ``before`` and ``after``) rebuild the pair marginals of any
position.  Sequences that would underflow keep the logarithms of h and w instead.  Arrays are walked flat, as in
:mod:`seqboost.chain.joint`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import SMALLEST
from seqboost.core.jit import inlined, jit

__all__ = ["factored_backward", "factored_backward_log", "factored_forward", "factored_sums"]

U = np.uint64


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
    weights: NDArray[np.float64],  # IN (E, K) exp(table - max), or (0, K) if its range is too wide for this
    turned: NDArray[np.float64],  # IN (K * C,) weights of contexts whose lags all exist, label-major; or (0,)
    table_max: float,
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    unary: NDArray[np.float32],  # IN (K * N,) u_t(k)
    before: NDArray[np.float64],  # OUT (chunk positions * C,) b_t(c)
    after: NDArray[np.float64],  # OUT (chunk positions * C,) w_t(c')
    in_logs: NDArray[np.bool_],  # OUT (last - first,) log space is needed
    log_z: NDArray[np.float64],  # INOUT (n_sequences,): sum of max_t in, or NaN; log Z out, meaningless where in logs
) -> None:
    """Fill b, w and log Z of the sequences first:last."""
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
    scores: NDArray[np.float32],  # IN (K, N, 1)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    base: NDArray[np.int64],  # IN (m + 1,)
    begin: int,
    stop: int,
    origin: int,
    before: NDArray[np.float64],  # OUT (chunk positions, C) log b_t
    after: NDArray[np.float64],  # OUT (chunk positions, C) log w_t
) -> float:
    """Do the backward pass of one sequence in log space; return log Z."""
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
                    score = table[base[context_type] + c, k] + after[row, k + n_labels * (c % n_shared)]
                    if score > highest:
                        total = total * np.exp(highest - score) + 1.0
                        highest = score
                    elif score > -np.inf:
                        total += np.exp(score - highest)
            before[row, c] = highest + np.log(total) if highest > -np.inf else -np.inf
    return before[begin - origin, 0]


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


@jit
def factored_forward(
    table: NDArray[np.float64],  # IN (E, K)
    weights: NDArray[np.float64],  # IN (E * K,) or (0,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    log_z: NDArray[np.float64],  # IN (n_sequences,)
    in_logs: NDArray[np.bool_],  # IN (last - first,)
    before: NDArray[np.float64],  # INOUT (chunk positions * C,): b_t in, h_t out
    after: NDArray[np.float64],  # IN (chunk positions * C,): w_t
    now: NDArray[np.float64],  # SCRATCH (C,)
    following: NDArray[np.float64],  # SCRATCH (C,)
    marginals: NDArray[np.float32],  # OUT (K * N,)
) -> None:
    """Fill node marginals of the sequences first:last."""
    n_labels, order = table.shape[1], base.size - 1
    n_contexts = table.shape[0] - base[order]
    n_positions, n_shared = marginals.size // n_labels, n_contexts // n_labels
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
def factored_sums(
    table: NDArray[np.float64],  # IN (E, K)
    weights: NDArray[np.float64],  # IN (E * K,) or (0,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    in_logs: NDArray[np.bool_],  # IN (last - first,)
    before: NDArray[np.float64],  # IN (chunk positions * C,) h_t
    after: NDArray[np.float64],  # IN (chunk positions * C,) w_t
    mean_weight: NDArray[np.float64],  # IN (N,)
    variance_weight: NDArray[np.float64],  # IN (N,)
    mean: NDArray[np.float64],  # INOUT (E * K,) += sum_t mean_weight p
    variance: NDArray[np.float64],  # INOUT (E * K,) += sum_t variance_weight p (1 - p)
) -> None:
    """Add up pair marginals of the sequences first:last over positions.

    Positions of full contexts are taken two at a time, so that each sum is read and written half as often.
    """
    n_labels, order = table.shape[1], base.size - 1
    n_contexts = table.shape[0] - base[order]
    n_shared = n_contexts // n_labels
    for s in range(first, last):
        t, stop = offsets[s], offsets[s + 1]
        while t < stop:
            context_type = min(t - offsets[s], order)
            n_existing = n_contexts if context_type == order else base[context_type + 1] - base[context_type]
            pairwise = context_type == order and t + 1 < stop and not in_logs[s - first]
            row = U((t - offsets[first]) * n_contexts)
            other = row + U(n_contexts) if pairwise else row
            m0, v0 = mean_weight[t], variance_weight[t]
            m1, v1 = (mean_weight[t + 1], variance_weight[t + 1]) if pairwise else (0.0, 0.0)
            for c in range(n_existing):
                to, cell = U(n_labels * (c % n_shared)), U((base[context_type] + c) * n_labels)
                w0, w1 = row + to, other + to
                h0, h1 = before[row + U(c)], before[other + U(c)]
                if in_logs[s - first]:
                    for k in range(n_labels if h0 > -np.inf else 0):
                        p0 = np.exp(h0 + table[U(base[context_type] + c), U(k)] + after[w0 + U(k)])
                        mean[cell + U(k)] += m0 * p0
                        variance[cell + U(k)] += v0 * (p0 * (1.0 - p0))
                else:
                    for k in range(n_labels):
                        a = weights[cell + U(k)]
                        p0, p1 = h0 * a * after[w0 + U(k)], h1 * a * after[w1 + U(k)]
                        mean[cell + U(k)] += m0 * p0 + m1 * p1
                        variance[cell + U(k)] += v0 * (p0 * (1.0 - p0)) + v1 * (p1 * (1.0 - p1))
            t += 2 if pairwise else 1
