"""Forward-backward where scores depend on the context: one exponential per (position, context, label), in place.

Legend as in :mod:`seqboost.chain.contexts`; c' = next(c, k), S = K**(m-1), psi_t(c,k) = exp(F_t(c,k) - max_t).

Backwards, b_t(c) = sum_k psi_t(c,k) b_{t+1}(c') gives log Z = log b_0(start), and the posterior kernel

    q_t(c,k) = P(y_t=k | c_t=c, X) = psi_t(c,k) b_{t+1}(c') / b_t(c)

Forwards, from g_0(start) = 1, the context marginals need no scaling at all:

    P(c_t=c, y_t=k | X) = g_t(c) q_t(c,k)        g_{t+1}(c') = sum over (c, k) that lead to c'

psi, q and P live one after the other in the same memory, the array of marginals.  Sequences whose psi or b would
underflow are done again in log space; only the backward pass differs.

Arrays (K, N, C) are walked flat, cell (k, t, c) at (k*N + t)*C + c, with unsigned indices (``U``): signed ones would be
tested for negative values at every access, which keeps loops from being vectorised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit
from seqboost.chain._numeric import MAX_RANGE, SMALLEST, exp32

__all__ = ["joint_backward", "joint_backward_log", "joint_forward"]

BLOCK = 256
"""Scores exponentiated together (at least one position): their maxima and the tiled table stay in the nearest cache."""

U = np.uint64


@jit
def joint_backward(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,), -1 = unobserved; or (0,) if nothing is observed
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    kernel: NDArray[np.float32],  # OUT (K, N, C) q_t(c, k)
    log_z: NDArray[np.float64],  # OUT (n_sequences,), NaN if log space is needed
) -> None:
    """Fill the posterior kernel and log Z of the sequences first:last."""
    n_labels, _, n_contexts = scores.shape
    order = base.size - 1
    width = max(1, BLOCK // n_contexts) * n_contexts
    tile = np.empty((n_labels, width))
    for k in range(n_labels):
        for i in range(width):
            tile[k, i] = table[base[order] + i % n_contexts, k]
    special = np.empty((n_labels, n_contexts))
    top = np.empty((2, width), np.float32)
    work = np.empty((3, n_contexts))
    open_end = True
    for k in range(n_labels):
        open_end = open_end and end[k] == 0.0
    for s in range(first, last):
        begin, stop = offsets[s], offsets[s + 1]
        log_total, ok = 0.0, True
        t = begin
        while t < stop and ok:
            # a run of positions that have all contexts, no mask and no end constraint; else one position
            until = stop if open_end else stop - 1
            is_plain = labels.size == 0 and t >= begin + order and t < until
            if not is_plain:
                until = t + 1
                observed = labels[t] if labels.size > 0 else -1
                _special_table(table, end, base, min(t - begin, order), t == stop - 1, observed, special)
            highest, ok = _exponentiate(scores, tile if is_plain else special, top, t, until, kernel)
            log_total += highest
            t = until
        if ok:
            log_scale, ok = _backward(kernel, begin, stop, order, work)
            log_total += log_scale
        log_z[s] = log_total if ok else np.nan


@jit
def _special_table(
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    base: NDArray[np.int64],  # IN (m + 1,)
    context_type: int,
    is_last: bool,
    observed: int,
    special: NDArray[np.float64],  # OUT (K, C)
) -> None:
    """Table of one position, -inf where the slot does not exist or the observed label is another one."""
    n_labels, n_contexts = special.shape
    n_existing = n_contexts if context_type == base.size - 1 else base[context_type + 1] - base[context_type]
    for k in range(n_labels):
        for c in range(n_contexts):
            exists = c < n_existing and (observed < 0 or observed == k)
            score = table[U(base[context_type] + c), U(k)] if exists else -np.inf
            special[k, c] = score + end[k] if is_last else score


@jit
def _exponentiate(
    scores: NDArray[np.float32],  # IN (K, N, C)
    tile: NDArray[np.float64],  # IN (K, width) the table, repeated for width / C positions
    maxima: NDArray[np.float32],  # SCRATCH (2, width)
    start: int,
    stop: int,
    psi: NDArray[np.float32],  # OUT (K, N, C), rows start:stop
) -> tuple[float, bool]:
    """Return the sum of the subtracted maxima, and whether all finite scores lie within reach of their maximum.

    Running maxima go to and fro between two buffers: writing them back in place becomes a conditional store, which is
    not vectorised.  Where the table is -inf psi is 0, even if the score is NaN: comparisons with NaN are false.
    """
    n_labels, n_positions, n_contexts = scores.shape
    flat = scores.reshape(-1)
    out = psi.reshape(-1)
    tiles = tile.reshape(-1)
    width = tile.shape[1]
    top, other = maxima[0], maxima[1]
    offset = 0.0
    lost = np.int32(0)
    for begin in range(start * n_contexts, stop * n_contexts, width):
        n = min(width, stop * n_contexts - begin)
        for i in range(n):
            top[i] = -np.inf
        for k in range(n_labels):
            source, shift = U(k * n_positions * n_contexts + begin), U(k * width)
            for i in range(n):
                score = flat[source + U(i)] + np.float32(tiles[shift + U(i)])
                other[i] = score if score > top[i] else top[i]
            top, other = other, top
        for i in range(0, n, n_contexts):
            highest = top[U(i)]
            for c in range(n_contexts):
                highest = top[U(i) + U(c)] if top[U(i) + U(c)] > highest else highest
            if highest == np.float32(-np.inf):
                return offset, False
            offset += highest
            for c in range(n_contexts):
                top[U(i) + U(c)] = highest
        for k in range(n_labels):
            source, shift = U(k * n_positions * n_contexts + begin), U(k * width)
            for i in range(n):
                relative = np.float32(np.float64(flat[source + U(i)]) + tiles[shift + U(i)] - np.float64(top[i]))
                lost |= np.int32(relative < np.float32(-MAX_RANGE)) & np.int32(relative > np.float32(-np.inf))
                out[source + U(i)] = exp32(relative)
    return offset, lost == 0


@jit
def _backward(
    psi: NDArray[np.float32],  # INOUT (K, N, C): psi in, q out
    begin: int,
    stop: int,
    order: int,
    work: NDArray[np.float64],  # SCRATCH (3, C)
) -> tuple[float, bool]:
    """Turn psi into the posterior kernel; return log b_0(start), and whether nothing reachable underflowed."""
    n_labels, n_positions, n_contexts = psi.shape
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    cells = psi.reshape(-1)
    now, following, inverse = work[0], work[1], work[2]
    log_total, product = 0.0, 1.0
    for c in range(n_contexts):
        following[c] = 1.0
    for t in range(stop - 1, begin - 1, -1):
        for c in range(n_contexts):
            now[c] = 0.0
        for k in range(n_labels):
            at = U((k * n_positions + t) * n_contexts)
            if n_shared == 1:
                after = following[k * step]
                for c in range(n_contexts):
                    now[c] += cells[at + U(c)] * after
            else:
                for c in range(n_contexts):
                    now[c] += cells[at + U(c)] * following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
        scale = 0.0
        for c in range(n_contexts):
            scale = now[c] if now[c] > scale else scale
        if scale == 0.0:
            return -np.inf, True
        for c in range(n_contexts):
            inverse[c] = 1.0 / now[c] if now[c] > 0.0 else 0.0
            if inverse[c] * scale > 1.0 / SMALLEST:
                return 0.0, False
        for k in range(n_labels):
            at = U((k * n_positions + t) * n_contexts)
            if n_shared == 1:
                after = following[k * step]
                for c in range(n_contexts):
                    cells[at + U(c)] = np.float32(cells[at + U(c)] * after * inverse[c])
            else:
                for c in range(n_contexts):
                    after = following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
                    cells[at + U(c)] = np.float32(cells[at + U(c)] * after * inverse[c])
        product *= scale
        if product < 1e-100 or product > 1e100:
            log_total += np.log(product)
            product = 1.0
        unit = 1.0 / scale
        for c in range(n_contexts):
            following[c] = now[c] * unit
    return log_total + np.log(product), True  # only the start context is left, and it is the scale


@jit
def joint_forward(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    order: int,
    first: int,
    last: int,
    log_z: NDArray[np.float64],  # IN (n_sequences,)
    kernel: NDArray[np.float32],  # INOUT (K, N, C): q in, P(c_t=c, y_t=k | X) out; 0 if no labelling is allowed
) -> None:
    """Turn the posterior kernel of the sequences first:last into marginals."""
    n_labels, n_positions, n_contexts = kernel.shape
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    cells = kernel.reshape(-1)
    now, following = np.empty(n_contexts), np.empty(n_contexts)
    for s in range(first, last):
        for c in range(n_contexts):
            now[c] = 0.0
        now[0] = 1.0 if log_z[s] > -np.inf else 0.0
        for t in range(offsets[s], offsets[s + 1]):
            for c in range(n_contexts):
                following[c] = 0.0
            total = 0.0
            for k in range(n_labels):
                at = U((k * n_positions + t) * n_contexts)
                mass = 0.0
                for c in range(n_contexts):
                    prob = now[c] * cells[at + U(c)] if now[c] > 0.0 else 0.0
                    cells[at + U(c)] = np.float32(prob)
                    mass += prob
                    if n_shared > 1:
                        following[U(k) + U(n_labels) * (U(c) % U(n_shared))] += prob
                if n_shared == 1:
                    following[k * step] += mass
                total += mass
            scale = 1.0 / total if total > 0.0 else 0.0
            for c in range(n_contexts):
                now[c] = following[c] * scale


@jit
def _score(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    base: NDArray[np.int64],  # IN (m + 1,)
    begin: int,
    stop: int,
    t: int,
    c: int,
    k: int,
) -> float:
    """F_t(c, k), or -inf where the slot does not exist or the observed label is another one."""
    context_type = min(t - begin, base.size - 1)
    extended = base[context_type] + c
    score = -np.inf
    exists = context_type == base.size - 1 or extended < base[context_type + 1]
    if exists and (labels.size == 0 or labels[t] < 0 or labels[t] == k):
        score = table[extended, k]
        if t == stop - 1:
            score += end[k]
        if score > -np.inf:
            score += scores[k, t, c]
    return score


@jit
def joint_backward_log(
    scores: NDArray[np.float32],  # IN (K, N, C)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,) or (0,)
    base: NDArray[np.int64],  # IN (m + 1,)
    begin: int,
    stop: int,
    kernel: NDArray[np.float32],  # OUT (K, N, C): q
    work: NDArray[np.float64],  # SCRATCH (2, C)
) -> float:
    """Do what :func:`joint_backward` does for one sequence, in log space; return log Z."""
    n_labels, _, n_contexts = scores.shape
    n_shared = n_contexts // n_labels if base.size > 2 else 1
    step = 1 if base.size > 1 else 0
    for c in range(n_contexts):
        work[1, c] = 0.0
    for t in range(stop - 1, begin - 1, -1):
        for c in range(n_contexts):
            highest, total = -np.inf, 0.0  # log of the sum so far = highest + log(total)
            for k in range(n_labels):
                score = _score(scores, table, end, labels, base, begin, stop, t, c, k)
                score += work[1, step * (k + n_labels * (c % n_shared))]
                if score > highest:
                    total = total * np.exp(highest - score) + 1.0
                    highest = score
                elif score > -np.inf:
                    total += np.exp(score - highest)
            work[0, c] = highest + np.log(total) if highest > -np.inf else -np.inf
            for k in range(n_labels):
                score = _score(scores, table, end, labels, base, begin, stop, t, c, k)
                score += work[1, step * (k + n_labels * (c % n_shared))]
                kernel[k, t, c] = np.float32(np.exp(score - work[0, c])) if score > -np.inf else np.float32(0.0)
        for c in range(n_contexts):
            work[1, c] = work[0, c]
    return work[1, 0]
