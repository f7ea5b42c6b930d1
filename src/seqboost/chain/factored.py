"""Forward-backward where a position's score does not depend on the context: F_t(c,k) = U_t(k) + A(c,k).

Legend as in :mod:`seqboost.chain.contexts`; c' = next(c, k), u_t(k) = exp(U_t(k) - max_t), a(c,k) = exp(A(c,k) - max).

    w_t(c') = u_t(k) b_{t+1}(c')          with k the newest label of c'
    b_t(c)  = sum_k a(c,k) w_t(c')        log Z = log b_0(start)
    h_t(c)  = g_t(c) / b_t(c)             g_t(c) = P(c_t = c | X)
    P(c_t=c, y_t=k | X) = h_t(c) a(c,k) w_t(c')

Nothing of size N*C*K is ever stored: h and w (called ``before`` and ``after``) rebuild the pair marginals of any
position.  Sequences that would underflow keep the logarithms of h and w instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit
from seqboost.chain._numeric import MAX_RANGE, SMALLEST, exp32
from seqboost.chain.mixing import IMPOSSIBLE, bounded_contraction, mixing_position

__all__ = ["factored_backward", "factored_backward_log", "factored_forward", "factored_sums"]

U = np.uint64


@jit
def factored_backward(
    scores: NDArray[np.float32],  # IN (K, N, 1)
    weights: NDArray[np.float64],  # IN (E, K) exp(table - max), or (0, K) if its range is too wide for this
    turned: NDArray[np.float64],  # IN (K, C) weights of contexts whose lags all exist, label-major; or (K, 0)
    table_max: float,
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,), -1 = unobserved; or (0,)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    before: NDArray[np.float64],  # OUT (chunk positions, C) b_t(c)
    after: NDArray[np.float64],  # OUT (chunk positions, C) w_t(c')
    in_logs: NDArray[np.bool_],  # OUT (last - first,)
    log_z: NDArray[np.float64],  # OUT (n_sequences,), meaningless where ``in_logs``: log space is needed
) -> None:
    """Fill b, w and log Z of the sequences first:last."""
    n_labels = scores.shape[0]
    n_contexts = before.shape[1]
    order = base.size - 1
    n_shared = n_contexts // n_labels
    unary = np.empty(n_labels, np.float32)
    for s in range(first, last):
        begin, stop = offsets[s], offsets[s + 1]
        ok = weights.shape[0] > 0
        log_total, product = 0.0, 1.0
        for t in range(stop - 1, begin - 1, -1):
            if not ok:
                break
            row = t - offsets[first]
            highest, ok = _exponentiate_unary(scores, end, labels, t, t == stop - 1, unary)
            log_total += highest + table_max
            for shared in range(n_shared):
                for k in range(n_labels):
                    c = shared * n_labels + k
                    after[row, c] = unary[k] * (before[row + 1, c] if t < stop - 1 else 1.0)
            scale = _backward_position(weights, turned, base, min(t - begin, order), after[row], before[row])
            if scale <= 0.0:
                ok = ok and scale == 0.0
                log_total = -np.inf
                break
            product *= scale
            if product < 1e-100 or product > 1e100:
                log_total += np.log(product)
                product = 1.0
        log_z[s] = log_total + np.log(product)
        in_logs[s - first] = not ok


@jit
def _exponentiate_unary(
    scores: NDArray[np.float32],  # IN (K, N, 1)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    t: int,
    is_last: bool,
    unary: NDArray[np.float32],  # OUT (K,) u_t
) -> tuple[float, bool]:
    """Return the subtracted maximum, and whether all finite scores lie within its reach."""
    n_labels, n_positions, _ = scores.shape
    flat = scores.reshape(-1)
    observed = labels[t] if labels.size > 0 else -1
    highest, lowest = np.float32(-np.inf), np.float32(np.inf)
    for k in range(n_labels):
        score = flat[U(k * n_positions + t)]
        if (observed >= 0 and observed != k) or (is_last and end[k] == -np.inf):
            score = np.float32(-np.inf)
        elif score > np.float32(-np.inf):
            highest = score if score > highest else highest
            lowest = score if score < lowest else lowest
        unary[k] = score
    for k in range(n_labels):
        unary[k] = exp32(unary[k] - highest)
    return float(highest), bool(highest - lowest <= np.float32(MAX_RANGE))


@jit
def _backward_position(
    weights: NDArray[np.float64],  # IN (E, K)
    turned: NDArray[np.float64],  # IN (K, C)
    base: NDArray[np.int64],  # IN (m + 1,)
    context_type: int,
    after: NDArray[np.float64],  # INOUT (C,) w_t, divided by the maximum of b_t
    before: NDArray[np.float64],  # OUT (C,) b_t, divided by its maximum
) -> float:
    """Return the maximum of b_t; 0 if nothing is possible, -1 if something reachable underflowed."""
    n_labels, n_contexts = turned.shape
    n_shared = n_contexts // n_labels
    for c in range(n_contexts):
        before[c] = 0.0
    if context_type == base.size - 1 and n_shared == 1:
        for k in range(n_labels):
            weight = after[k]
            if weight > 0.0:
                at = U(k * n_contexts)
                flat = turned.reshape(-1)
                for c in range(n_contexts):
                    before[c] += flat[at + U(c)] * weight
    else:
        n_existing = n_contexts if context_type == base.size - 1 else base[context_type + 1] - base[context_type]
        for c in range(n_existing):
            at = U(n_labels * (c % n_shared))
            total = 0.0
            for k in range(n_labels):
                total += weights[base[context_type] + c, k] * after[at + U(k)]
            before[c] = total
    scale = 0.0
    for c in range(n_contexts):
        scale = before[c] if before[c] > scale else scale
    unit = 1.0 / scale if scale > 0.0 else 0.0
    lost = False
    for c in range(n_contexts):
        before[c] *= unit
        after[c] *= unit
        lost = lost or 0.0 < before[c] < SMALLEST
    return -1.0 if lost else scale


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


@jit
def _pair_position(
    table: NDArray[np.float64],  # IN (E, K)
    weights: NDArray[np.float64],  # IN (E, K) or (0, K)
    first_context: int,
    in_logs: bool,
    before: NDArray[np.float64],  # IN (C,) h_t(c)
    after: NDArray[np.float64],  # IN (C,) w_t(c')
    pair: NDArray[np.float64],  # OUT (C, K) P(c_t=c, y_t=k | X)
) -> None:
    n_contexts, n_labels = pair.shape
    n_shared = n_contexts // n_labels
    for c in range(n_contexts):
        at = U(n_labels * (c % n_shared))
        h = before[c]
        if in_logs:
            for k in range(n_labels):
                score = -np.inf
                if h > -np.inf:
                    score = h + table[first_context + c, k] + after[at + U(k)]
                pair[c, k] = np.exp(score)
        elif h > 0.0:
            for k in range(n_labels):
                pair[c, k] = h * weights[first_context + c, k] * after[at + U(k)]
        else:
            for k in range(n_labels):
                pair[c, k] = 0.0


@jit
def factored_forward(
    table: NDArray[np.float64],  # IN (E, K)
    weights: NDArray[np.float64],  # IN (E, K) or (0, K)
    turned: NDArray[np.float64],  # IN (K, C) weights of contexts whose lags all exist, label-major; or (K, 0)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    log_z: NDArray[np.float64],  # IN (n_sequences,)
    in_logs: NDArray[np.bool_],  # IN (last - first,)
    before: NDArray[np.float64],  # INOUT (chunk positions, C): b_t in, h_t out
    after: NDArray[np.float64],  # IN (chunk positions, C): w_t
    marginals: NDArray[np.float32],  # OUT (K, N, 1)
    tau_forward: NDArray[np.float32],  # OUT (N,) or (0,)
    tau_backward: NDArray[np.float32],  # OUT (N,) or (0,)
) -> None:
    """Fill node marginals and contraction coefficients of the sequences first:last."""
    n_labels = table.shape[1]
    n_contexts = before.shape[1]
    order = base.size - 1
    n_shared = n_contexts // n_labels
    pair = np.empty((n_contexts, n_labels))
    cells = np.empty(n_labels * n_contexts, np.float32)
    cond = np.empty(n_labels * n_contexts, np.float32)
    work = np.empty((5, n_contexts), np.float32)
    wide = np.empty((4, n_contexts))
    now, following = np.empty(n_contexts), np.empty(n_contexts)
    for s in range(first, last):
        use_logs = in_logs[s - first]
        for c in range(n_contexts):
            now[c] = 0.0
        now[0] = 1.0 if log_z[s] > -np.inf else 0.0
        for t in range(offsets[s], offsets[s + 1]):
            row = t - offsets[first]
            context_type = min(t - offsets[s], order)
            for c in range(n_contexts):
                if use_logs:
                    before[row, c] = np.log(now[c]) - before[row, c] if now[c] > 0.0 else -np.inf
                else:
                    before[row, c] = now[c] / before[row, c] if now[c] > 0.0 else 0.0
            many = context_type > 0 and n_shared == 1 and n_labels > 8 and not use_logs
            if many:
                _forward_position(weights, before[row], after[row], following)
            else:
                _pair_position(table, weights, base[context_type], use_logs, before[row], after[row], pair)
                for c in range(n_contexts):
                    following[c] = 0.0
                for c in range(n_contexts):
                    at = U(n_labels * (c % n_shared))
                    for k in range(n_labels):
                        following[at + U(k)] += pair[c, k]
            total = 0.0
            for k in range(n_labels):
                node = 0.0
                for shared in range(n_shared):
                    node += following[U(shared * n_labels + k)]
                marginals[k, t, 0] = np.float32(node)
                total += node
            scale = 1.0 / total if total > 0.0 else 0.0
            for c in range(n_contexts):
                following[c] *= scale
            if tau_forward.size > 0:
                tau_forward[t], tau_backward[t] = 0.0, 0.0
                if many:
                    tau_forward[t], tau_backward[t] = _mixing_bounds(
                        weights, turned, before[row], after[row], now, following, wide
                    )
                elif context_type > 0:
                    for k in range(n_labels):
                        for c in range(n_contexts):
                            cells[U(k * n_contexts + c)] = np.float32(pair[c, k])
                    tau_forward[t], tau_backward[t] = mixing_position(
                        cells, 1, 0, n_labels, n_contexts, context_type == order, cond, work
                    )
            for c in range(n_contexts):
                now[c] = following[c]


@jit
def _forward_position(
    weights: NDArray[np.float64],  # IN (E, K)
    before: NDArray[np.float64],  # IN (K,) h_t
    after: NDArray[np.float64],  # IN (K,) w_t
    following: NDArray[np.float64],  # OUT (K,) P(c_{t+1}=k | X)
) -> None:
    """Do g_{t+1}(k) = w_t(k) sum_c h_t(c) a(c,k), for order 1 and a position that is not the first."""
    n_labels = following.size
    cells = weights.reshape(-1)
    for k in range(n_labels):
        following[k] = 0.0
    for c in range(n_labels):
        at, h = U((c + 1) * n_labels), before[c]
        for k in range(n_labels):
            following[k] += h * cells[at + U(k)]
    for k in range(n_labels):
        following[k] *= after[k]


@jit
def _mixing_bounds(
    weights: NDArray[np.float64],  # IN (E, K)
    turned: NDArray[np.float64],  # IN (K, K)
    before: NDArray[np.float64],  # IN (K,) h_t
    after: NDArray[np.float64],  # IN (K,) w_t
    now: NDArray[np.float64],  # IN (K,) P(c_t=c | X)
    following: NDArray[np.float64],  # IN (K,) P(c_{t+1}=c | X)
    wide: NDArray[np.float64],  # SCRATCH (4, K)
) -> tuple[np.float32, np.float32]:
    """Upper bounds of both contraction coefficients for order 1 and many labels, without any sum along a row.

    Rows of P(y_t | y_{t-1}) are rows of the pair marginals h(c) a(c,k) w(k), rows of P(y_{t-1} | y_t) their columns.
    The minimum over rows and the distances of rows from the marginal run along different axes, so the weights are
    read once as they lie and once transposed: every inner loop then adds one vector to another.
    """
    tau = (np.float32(1.0), np.float32(1.0))
    shared_forward, largest_backward, second_backward = 0.0, 0.0, 0.0
    low, spread, ratio, other = wide[0], wide[1], wide[2], wide[3]
    n_labels = now.size
    for turn in range(2):
        # columns (vector): y_t then y_{t-1};  rows (outer loop): y_{t-1} then y_t
        cells = weights.reshape(-1) if turn == 0 else turned.reshape(-1)
        skipped = n_labels if turn == 0 else 0
        of_row, of_column = (now, following) if turn == 0 else (following, now)
        row_factor, column_factor = (before, after) if turn == 0 else (after, before)
        for j in range(n_labels):
            low[j], spread[j] = np.inf, 0.0
            ratio[j] = column_factor[j] / of_column[j] if of_column[j] > IMPOSSIBLE else 0.0
        for i in range(n_labels):
            if of_row[i] > IMPOSSIBLE:
                at, factor, centre = U(skipped + i * n_labels), row_factor[i], of_row[i]
                unit = factor / centre
                for j in range(n_labels):
                    cell = cells[at + U(j)]
                    other[j] = cell * unit if cell * unit < low[j] else low[j]
                    spread[j] += abs(cell * factor * ratio[j] - centre)
                low, other = other, low  # in place it would be a conditional store, which is not vectorised
        shared, largest, second = 0.0, 0.0, 0.0
        for j in range(n_labels):
            shared += low[j] * column_factor[j] if column_factor[j] > 0.0 else 0.0
            if of_column[j] > IMPOSSIBLE:
                second = max(second, min(largest, spread[j]))
                largest = max(largest, spread[j])
        # low gives the mass shared by rows (i), spread the distances between columns (j)
        if turn == 0:
            shared_forward, largest_backward, second_backward = shared, largest, second
        else:
            tau = (
                bounded_contraction(np.float32(shared_forward), np.float32(largest), np.float32(second)),
                bounded_contraction(np.float32(shared), np.float32(largest_backward), np.float32(second_backward)),
            )
    return tau


@jit
def factored_sums(
    table: NDArray[np.float64],  # IN (E, K)
    weights: NDArray[np.float64],  # IN (E, K) or (0, K)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    in_logs: NDArray[np.bool_],  # IN (last - first,)
    before: NDArray[np.float64],  # IN (chunk positions, C) h_t
    after: NDArray[np.float64],  # IN (chunk positions, C) w_t
    mean_weight: NDArray[np.float64],  # IN (N,)
    variance_weight: NDArray[np.float64],  # IN (N,)
    mean: NDArray[np.float64],  # INOUT (E, K) += sum_t mean_weight p
    variance: NDArray[np.float64],  # INOUT (E, K) += sum_t variance_weight p (1 - p)
) -> None:
    """Add up pair marginals of the sequences first:last over positions."""
    n_labels = table.shape[1]
    n_contexts = before.shape[1]
    pair = np.empty((n_contexts, n_labels))
    cells = pair.reshape(-1)
    means, variances = mean.reshape(-1), variance.reshape(-1)
    for s in range(first, last):
        for t in range(offsets[s], offsets[s + 1]):
            row = t - offsets[first]
            context_type = min(t - offsets[s], base.size - 1)
            n_existing = n_contexts
            if context_type < base.size - 1:
                n_existing = base[context_type + 1] - base[context_type]
            _pair_position(table, weights, base[context_type], in_logs[s - first], before[row], after[row], pair)
            at = U(base[context_type] * n_labels)
            for i in range(n_existing * n_labels):
                prob = cells[i]
                means[at + U(i)] += mean_weight[t] * prob
                variances[at + U(i)] += variance_weight[t] * (prob * (1.0 - prob))
