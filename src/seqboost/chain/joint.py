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

from seqboost._jit import inlined, jit
from seqboost.chain._numeric import MAX_RANGE, SMALLEST, exp32

__all__ = ["exponentiate", "joint_backward", "joint_backward_log", "joint_forward"]

BLOCK = 256
"""Scores exponentiated together (at least one position): their maxima and the tiled table stay in the nearest cache."""

U = np.uint64


@inlined
def _special_table(
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    base: NDArray[np.int64],  # IN (m + 1,)
    context_type: int,
    is_last: bool,
    observed: int,
    special: NDArray[np.float64],  # OUT (K * C,)
) -> None:
    """Table of one position, -inf where the slot does not exist or the observed label is another one."""
    n_labels = table.shape[1]
    n_contexts = special.size // n_labels
    n_existing = n_contexts if context_type == base.size - 1 else base[context_type + 1] - base[context_type]
    for k in range(n_labels):
        for c in range(n_contexts):
            exists = c < n_existing and (observed < 0 or observed == k)
            score = table[U(base[context_type] + c), U(k)] if exists else -np.inf
            special[U(k * n_contexts + c)] = score + end[k] if is_last else score


@inlined
def exponentiate(
    scores: NDArray[np.float32],  # IN (K * N * C,)
    table: NDArray[np.float64],  # IN (K * width,) repeated for width / C positions
    sizes: tuple[int, int, int],  # K, N, C
    start: int,
    stop: int,
    top: NDArray[np.float32],  # SCRATCH (width,)
    other: NDArray[np.float32],  # SCRATCH (width,)
    psi: NDArray[np.float32],  # OUT (K * N * C,), rows start:stop
) -> tuple[float, bool]:
    """Return the sum of the subtracted maxima, and whether all finite scores lie within reach of their maximum.

    Running maxima go to and fro between two buffers: writing them back in place becomes a conditional store, which is
    not vectorised.  Where the table is -inf psi is 0, even if the score is NaN: comparisons with NaN are false.
    """
    n_labels, n_positions, n_contexts = sizes
    width = table.size // n_labels
    offset, lost = 0.0, np.int32(0)
    for begin in range(start * n_contexts, stop * n_contexts, width):
        n = min(width, stop * n_contexts - begin)
        for i in range(n):
            top[i] = -np.inf
        for k in range(n_labels):
            source, shift = U(k * n_positions * n_contexts + begin), U(k * width)
            for i in range(n):
                score = scores[source + U(i)] + np.float32(table[shift + U(i)])
                other[i] = score if score > top[i] else top[i]
            top, other = other, top
        for i in range(0, n, n_contexts):
            highest = top[U(i)]
            for c in range(n_contexts):
                highest = top[U(i) + U(c)] if top[U(i) + U(c)] > highest else highest
            lost |= np.int32(highest == np.float32(-np.inf))
            offset += highest
            for c in range(n_contexts):
                top[U(i) + U(c)] = highest
        for k in range(n_labels):
            source, shift = U(k * n_positions * n_contexts + begin), U(k * width)
            for i in range(n):
                relative = np.float32(np.float64(scores[source + U(i)]) + table[shift + U(i)] - np.float64(top[i]))
                lost |= np.int32(relative < np.float32(-MAX_RANGE)) & np.int32(relative > np.float32(-np.inf))
                psi[source + U(i)] = exp32(relative)
    return offset, lost == 0


@inlined
def _backward(
    psi: NDArray[np.float32],  # INOUT (K * N * C,): psi in, q out
    sizes: tuple[int, int, int],  # K, N, C
    order: int,
    begin: int,
    stop: int,
    now: NDArray[np.float64],  # SCRATCH (C,)
    following: NDArray[np.float64],  # SCRATCH (C,)
    inverse: NDArray[np.float64],  # SCRATCH (C,)
) -> tuple[float, bool]:
    """Turn psi into the posterior kernel; return log b_0(start), and whether nothing reachable underflowed.

    b is brought back to 1 only where it has left 1e-30 .. 1e30, for every step waits for a division.
    """
    n_labels, n_positions, n_contexts = sizes
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
    log_total, ok = 0.0, True
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
                    now[c] += psi[at + U(c)] * after
            else:
                for c in range(n_contexts):
                    now[c] += psi[at + U(c)] * following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
        scale = 0.0
        for c in range(n_contexts):
            scale = now[c] if now[c] > scale else scale
        for c in range(n_contexts):
            inverse[c] = 1.0 / now[c] if now[c] > 0.0 else 0.0
            ok = ok and inverse[c] * scale <= 1.0 / SMALLEST
        if scale == 0.0:
            log_total = -np.inf
        if scale == 0.0 or not ok:
            break
        for k in range(n_labels):
            at = U((k * n_positions + t) * n_contexts)
            if n_shared == 1:
                after = following[k * step]
                for c in range(n_contexts):
                    psi[at + U(c)] = np.float32(psi[at + U(c)] * after * inverse[c])
            else:
                for c in range(n_contexts):
                    after = following[U(k) + U(n_labels) * (U(c) % U(n_shared))]
                    psi[at + U(c)] = np.float32(psi[at + U(c)] * after * inverse[c])
        unit = 1.0
        if scale < 1e-30 or scale > 1e30 or t == begin:  # at the start one context is left, and it is the scale
            log_total += np.log(scale)
            unit = 1.0 / scale
        for c in range(n_contexts):
            following[c] = now[c] * unit
    return log_total, ok


@jit
def joint_backward(
    scores: NDArray[np.float32],  # IN (K * N * C,)
    table: NDArray[np.float64],  # IN (E, K)
    end: NDArray[np.float64],  # IN (K,)
    labels: NDArray[np.int32],  # IN (N,), -1 = unobserved; or (0,) if nothing is observed
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    base: NDArray[np.int64],  # IN (m + 1,)
    first: int,
    last: int,
    kernel: NDArray[np.float32],  # OUT (K * N * C,) q_t(c, k)
    log_z: NDArray[np.float64],  # OUT (n_sequences,), NaN if log space is needed
) -> None:
    """Fill the posterior kernel and log Z of the sequences first:last."""
    n_labels, order = table.shape[1], base.size - 1
    n_contexts = table.shape[0] - base[order]
    sizes = (n_labels, scores.size // (n_labels * n_contexts), n_contexts)
    width = max(1, BLOCK // n_contexts) * n_contexts
    tile, special = np.empty(n_labels * width), np.empty(n_labels * n_contexts)
    open_end = True
    for k in range(n_labels):
        open_end = open_end and end[k] == 0.0
        for i in range(width):
            tile[U(k * width + i)] = table[base[order] + i % n_contexts, k]
    top, other = np.empty(width, np.float32), np.empty(width, np.float32)
    now, following, inverse = np.empty(n_contexts), np.empty(n_contexts), np.empty(n_contexts)
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
                observed = labels[t] if labels.size > 0 else np.int32(-1)
                _special_table(table, end, base, min(t - begin, order), t == stop - 1, observed, special)
            here = tile if is_plain else special
            highest, ok = exponentiate(scores, here, sizes, t, until, top, other, kernel)
            log_total += highest
            t = until
        if ok:
            log_scale, ok = _backward(kernel, sizes, order, begin, stop, now, following, inverse)
            log_total += log_scale
        log_z[s] = log_total if ok else np.nan


@jit
def joint_forward(
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    sizes: tuple[int, int, int],  # K, C, order
    first: int,
    last: int,
    log_z: NDArray[np.float64],  # IN (n_sequences,)
    kernel: NDArray[np.float32],  # INOUT (K * N * C,): q in, P(c_t=c, y_t=k | X) out; 0 if no labelling is allowed
) -> None:
    """Turn the posterior kernel of the sequences first:last into marginals."""
    n_labels, n_contexts, order = sizes
    n_positions = kernel.size // (n_labels * n_contexts)
    n_shared = n_contexts // n_labels if order > 1 else 1
    step = 1 if order > 0 else 0
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
                    prob = now[c] * kernel[at + U(c)] if now[c] > 0.0 else 0.0
                    kernel[at + U(c)] = np.float32(prob)
                    mass += prob
                    if n_shared > 1:
                        following[U(k) + U(n_labels) * (U(c) % U(n_shared))] += prob
                if n_shared == 1:
                    following[k * step] += mass
                total += mass
            scale = 1.0 / total if total > 0.0 else 0.0
            for c in range(n_contexts):
                now[c] = following[c] * scale


@inlined
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
