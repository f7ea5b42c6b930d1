"""Forward-backward where scores depend on the context: one exponential per (position, context, label), in place.

Legend as in :mod:`seqboost.chain.contexts`; c' = next(c, k), S = K**(m-1), psi_t(c,k) = exp(F_t(c,k) - max_t).

Backwards, b_t(c) = sum_k psi_t(c,k) b_{t+1}(c') gives log Z = log b_0(start), and the posterior kernel

    q_t(c,k) = P(y_t=k | c_t=c, X) = psi_t(c,k) b_{t+1}(c') / b_t(c)

Forwards, from g_0(start) = 1, the context marginals need no scaling at all:

    P(c_t=c, y_t=k | X) = g_t(c) q_t(c,k)        g_{t+1}(c') = sum over (c, k) that lead to c'

psi, q and P live one after the other in the same memory, the array of marginals.  Sequences whose psi or b would
underflow are done again in log space; only the backward pass differs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit
from seqboost.chain._numeric import MAX_RANGE, SMALLEST, exp32, mixing_position

__all__ = ["joint_chunk"]

BLOCK = 256
"""Scores exponentiated together (at least one position): their maxima and the tiled table stay in the nearest cache."""


@jit
def joint_chunk(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,), -1 = unobserved; or (0,) if nothing is observed
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    marginals: NDArray[np.float32],  # OUT (K, N, C)
    tau_forward: NDArray[np.float32],  # OUT (N,) or (0,)
    tau_backward: NDArray[np.float32],  # OUT (N,) or (0,)
    log_z: NDArray[np.float64],  # OUT (n_sequences,)
) -> None:
    """Fill marginals, contraction coefficients and log Z of the sequences first:last."""
    n_labels, _, n_contexts = scores.shape
    order = base.size - 1
    block = max(1, BLOCK // n_contexts)
    tile = np.empty((n_labels, block * n_contexts))
    for k in range(n_labels):
        for i in range(block * n_contexts):
            tile[k, i] = table[base[order] + i % n_contexts, k]
    limits = np.empty((2, block * n_contexts), np.float32)
    now = np.empty(n_contexts)
    following = np.empty(n_contexts)
    inverse = np.empty(n_contexts)
    pair = np.empty((n_labels, n_contexts))
    cond = np.empty((n_labels, n_contexts), np.float32)
    spread = np.empty(n_contexts, np.float32)
    centre = np.empty(n_labels)
    open_end = True
    for k in range(n_labels):
        open_end = open_end and end[k] == 0.0
    for s in range(first, last):
        begin, stop = offsets[s], offsets[s + 1]
        plain = begin + order  # positions plain:plain_stop have all contexts and no mask
        plain_stop = stop if open_end else stop - 1
        if labels.size > 0:
            plain = plain_stop = stop
        offset, ok = _exponentiate_plain(scores, tile, limits, plain, plain_stop, marginals)
        if ok:
            more, ok = _exponentiate_rest(
                scores, table, end, labels, base, begin, stop, min(plain, stop), max(plain_stop, plain), marginals
            )
            offset += more
        if ok:
            log_total, ok = _backward(marginals, begin, stop, order, now, following, inverse)
            log_z[s] = offset + log_total
        if not ok:
            log_z[s] = _backward_log(scores, table, end, labels, base, begin, stop, marginals, now, following)
        if log_z[s] == -np.inf:
            for k in range(n_labels):
                marginals[k, begin:stop] = 0.0
            tau_forward[begin : min(stop, tau_forward.size)] = 0.0
            tau_backward[begin : min(stop, tau_backward.size)] = 0.0
            continue
        now[:] = 0.0
        now[0] = 1.0
        for t in range(begin, stop):
            _forward_position(marginals, t, order, now, following, pair)
            if tau_forward.size > 0:
                tau_f, tau_b = 0.0, 0.0
                if order > 0:
                    tau_f, tau_b = mixing_position(
                        pair, now, following, n_contexts // n_labels, cond, centre, inverse, spread
                    )
                tau_forward[t] = tau_f
                tau_backward[t] = tau_b if t >= begin + order else 0.0
            now, following = following, now


@jit
def _exponentiate_plain(
    scores: NDArray[np.float32],  # IN (K, N, C)
    tile: NDArray[np.float64],  # IN (K, block * C) the table, repeated
    limits: NDArray[np.float32],  # SCRATCH (2, block * C)
    start: int,
    stop: int,
    psi: NDArray[np.float32],  # OUT (K, N, C), rows start:stop
) -> tuple[float, bool]:
    """Return the sum of the subtracted maxima, and whether all finite scores lie within reach of their maximum."""
    n_labels, n_positions, n_contexts = scores.shape
    flat_scores = scores.reshape((n_labels, n_positions * n_contexts))
    flat_psi = psi.reshape((n_labels, n_positions * n_contexts))
    top, low = limits[0], limits[1]
    block = tile.shape[1]
    offset = 0.0
    for begin in range(start * n_contexts, stop * n_contexts, block):
        n = min(block, stop * n_contexts - begin)
        for i in range(n):
            top[i] = -np.inf
            low[i] = np.inf
        for k in range(n_labels):
            for i in range(n):
                score = np.float32(flat_scores[k, begin + i] + tile[k, i])
                finite = score if score > np.float32(-np.inf) else np.float32(np.inf)
                top[i] = score if score > top[i] else top[i]
                low[i] = finite if finite < low[i] else low[i]
        for i in range(0, n, n_contexts):
            highest, lowest = top[i], low[i]
            for c in range(i + 1, i + n_contexts):
                highest = top[c] if top[c] > highest else highest
                lowest = low[c] if low[c] < lowest else lowest
            if not highest - lowest <= np.float32(MAX_RANGE):
                return offset, False
            offset += highest
            for c in range(i, i + n_contexts):
                top[c] = highest
        for k in range(n_labels):
            for i in range(n):
                flat_psi[k, begin + i] = np.float32(np.float64(flat_scores[k, begin + i]) + tile[k, i] - top[i])
            for i in range(n):
                flat_psi[k, begin + i] = exp32(flat_psi[k, begin + i])
    return offset, True


@jit
def _score(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    base: NDArray[np.int64],  # IN (m + 1,)
    bounds: tuple[int, int],
    t: int,
    c: int,
    k: int,
) -> float:
    """F_t(c, k), or -inf where the slot does not exist or the observed label is another one."""
    context_type = min(t - bounds[0], base.size - 1)
    extended = base[context_type] + c
    if context_type < base.size - 1 and extended >= base[context_type + 1]:
        return -np.inf
    if labels.size > 0 and labels[t] >= 0 and labels[t] != k:
        return -np.inf
    score = table[extended, k]
    if t == bounds[1] - 1:
        score += end[k]
    return score if score == -np.inf else score + scores[k, t, c]


@jit
def _exponentiate_rest(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    base: NDArray[np.int64],  # IN (m + 1,)
    begin: int,
    stop: int,
    plain: int,
    plain_stop: int,
    psi: NDArray[np.float32],  # OUT (K, N, C), rows begin:plain and plain_stop:stop
) -> tuple[float, bool]:
    """Do what :func:`_exponentiate_plain` does for positions with missing contexts, a mask or an end constraint."""
    n_labels, _, n_contexts = scores.shape
    offset = 0.0
    bounds = (begin, stop)
    for t in range(begin, stop):
        if plain <= t < plain_stop:
            continue
        highest, lowest = -np.inf, np.inf
        for k in range(n_labels):
            for c in range(n_contexts):
                score = _score(scores, table, end, labels, base, bounds, t, c, k)
                psi[k, t, c] = np.float32(score)
                highest = max(highest, score)
                if score > -np.inf:
                    lowest = min(lowest, score)
        if not highest - lowest <= MAX_RANGE:
            return offset, False
        offset += highest
        for k in range(n_labels):
            for c in range(n_contexts):
                if psi[k, t, c] > np.float32(-np.inf):
                    score = _score(scores, table, end, labels, base, bounds, t, c, k)
                    psi[k, t, c] = exp32(np.float32(score - highest))
                else:
                    psi[k, t, c] = 0.0
    return offset, True


@jit
def _backward(
    psi: NDArray[np.float32],  # INOUT (K, N, C): psi in, q out
    begin: int,
    stop: int,
    order: int,
    now: NDArray[np.float64],  # SCRATCH (C,)
    following: NDArray[np.float64],  # SCRATCH (C,)
    inverse: NDArray[np.float64],  # SCRATCH (C,)
) -> tuple[float, bool]:
    """Turn psi into the posterior kernel; return log b_0(start), and whether nothing reachable underflowed."""
    n_labels, _, n_contexts = psi.shape
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    log_total, product = 0.0, 1.0
    following[:] = 1.0
    for t in range(stop - 1, begin - 1, -1):
        for c in range(n_contexts):
            now[c] = 0.0
        for k in range(n_labels):
            if n_shared == 1:
                after = following[k * step]
                for c in range(n_contexts):
                    now[c] += psi[k, t, c] * after
            else:
                for c in range(n_contexts):
                    now[c] += psi[k, t, c] * following[k + n_labels * (c % n_shared)]
        scale = 0.0
        for c in range(n_contexts):
            scale = max(scale, now[c])
        if scale == 0.0:
            return -np.inf, True
        for c in range(n_contexts):
            if now[c] > 0.0:
                if now[c] < SMALLEST * scale:
                    return 0.0, False
                inverse[c] = 1.0 / now[c]
            else:
                inverse[c] = 0.0
        for k in range(n_labels):
            if n_shared == 1:
                after = following[k * step]
                for c in range(n_contexts):
                    psi[k, t, c] = np.float32(psi[k, t, c] * after * inverse[c])
            else:
                for c in range(n_contexts):
                    psi[k, t, c] = np.float32(psi[k, t, c] * following[k + n_labels * (c % n_shared)] * inverse[c])
        product *= scale
        if product < 1e-100 or product > 1e100:
            log_total += np.log(product)
            product = 1.0
        unit = 1.0 / scale
        for c in range(n_contexts):
            following[c] = now[c] * unit
    # following[0] is b_0(start) over the last scale; it is that scale's only context, so it is 1 or 0
    if following[0] == 0.0:
        return -np.inf, True
    return log_total + np.log(product) + np.log(following[0]), True


@jit
def _backward_log(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    base: NDArray[np.int64],  # IN (m + 1,)
    begin: int,
    stop: int,
    kernel: NDArray[np.float32],  # OUT (K, N, C): q
    now: NDArray[np.float64],  # SCRATCH (C,)
    following: NDArray[np.float64],  # SCRATCH (C,)
) -> float:
    """Do what :func:`_backward` does from the scores, in log space; return log Z."""
    n_labels, _, n_contexts = scores.shape
    n_shared = n_contexts // n_labels if base.size > 2 else 1
    step = 1 if base.size > 1 else 0
    bounds = (begin, stop)
    following[:] = 0.0
    for t in range(stop - 1, begin - 1, -1):
        for c in range(n_contexts):
            highest = -np.inf
            for k in range(n_labels):
                score = _score(scores, table, end, labels, base, bounds, t, c, k)
                highest = max(highest, score + following[step * (k + n_labels * (c % n_shared))])
            total = 0.0
            for k in range(n_labels):
                kernel[k, t, c] = 0.0
                if highest > -np.inf:
                    score = _score(scores, table, end, labels, base, bounds, t, c, k)
                    weight = np.exp(score + following[step * (k + n_labels * (c % n_shared))] - highest)
                    kernel[k, t, c] = np.float32(weight)
                    total += weight
            now[c] = highest
            if highest > -np.inf:
                now[c] += np.log(total)
                for k in range(n_labels):
                    kernel[k, t, c] = np.float32(kernel[k, t, c] / total)
        for c in range(n_contexts):
            following[c] = now[c]
    return following[0]


@jit
def _forward_position(
    kernel: NDArray[np.float32],  # INOUT (K, N, C): q in, P(c_t=c, y_t=k | X) out
    t: int,
    order: int,
    now: NDArray[np.float64],  # IN (C,) g_t
    following: NDArray[np.float64],  # OUT (C,) g_{t+1}, normalised
    pair: NDArray[np.float64],  # OUT (K, C) P(c_t=c, y_t=k | X)
) -> None:
    n_labels, _, n_contexts = kernel.shape
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    for c in range(n_contexts):
        following[c] = 0.0
    for k in range(n_labels):
        for c in range(n_contexts):
            pair[k, c] = now[c] * kernel[k, t, c]
            kernel[k, t, c] = np.float32(pair[k, c])
        if n_shared == 1:
            mass = 0.0
            for c in range(n_contexts):
                mass += pair[k, c]
            following[k * step] += mass
        else:
            for c in range(n_contexts):
                following[k + n_labels * (c % n_shared)] += pair[k, c]
    total = 0.0
    for c in range(n_contexts):
        total += following[c]
    scale = 1.0 / total
    for c in range(n_contexts):
        following[c] *= scale
