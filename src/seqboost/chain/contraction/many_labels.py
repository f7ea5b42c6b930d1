"""Bounds of the contraction coefficients of factored models of order 1 with more than 32 labels.

Letters and rows as in :mod:`seqboost.chain.exact.many_labels`: f_t(k) = P(y_t = k | X), pair marginals are
h_t(c) a(c,k) w_t(k).  The rows P(. | c) of a kernel have sum_k min_c P(k|c) in common, so

    tau_t <= 1 - sum_k w_t(k) min_c ( a(c,k) / b_t(c) )              forwards,  P(k|c) = a(c,k) w_t(k) / b_t(c)
    tau_t <= 1 - sum_c h_t(c) min_k ( a(c,k) / z_t(k) )              backwards, P(c|k) = a(c,k) h_t(c) / z_t(k)

with z_t(k) = f_t(k) / w_t(k).  The minima are taken like a matrix product, with min for the sum and the sum for the
product, on logarithms of 16 bits, many of which go into a vector; they are rounded down, by half a percent.  With many
labels this bound is close to the exact coefficient unless that is small, or transitions are forbidden.  There the
triangle inequality is better: of any two rows and the law f of the outcome, with S the labels with f(k) > LIKELY / K,

    TV(P(. | c), P(. | c')) <= d(c) + d(c'),     d(c) = 1 - sum_{k in S} min(P(k|c), f(k)) >= TV(P(. | c), f)

What S leaves out makes d larger by at most LIKELY.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import exp32
from seqboost.chain.contraction.pairs import IMPOSSIBLE
from seqboost.chain.tables import MINIMA_LANES, MOST, UNIT, PaddedTable
from seqboost.core.jit import allocating, inlined, jit, reassociating

__all__ = ["PaddedRows", "row_bounds"]

LIKELY = 0.01
"""Probability that all labels left out may have together."""

PROBE, PATIENCE = 16, 8
"""The triangle inequality is tried at every 16th position, and from there on until it has not helped 8 times."""

TOGETHER = 32
"""Positions whose minima are taken together."""

FAR = 1e34
"""Stands for 1 / b_t(c) of impossible contexts: no minimum meets them."""

U, I16, I32 = np.uint64, np.int16, np.int32


class PaddedRows(NamedTuple):
    """Messages of a chunk, a row of P numbers per position."""

    origin: int  # first position that has a row
    before: NDArray[np.float32]  # (chunk positions * P,) b_t(c) after the backward pass, then h_t(c)
    after: NDArray[np.float32]  # (chunk positions * P,) u_t(k) before the backward pass, then w_t(k)
    node: NDArray[np.float32]  # (chunk positions * P,) f_t(k)


@inlined
def _lowest(
    matrix: NDArray[np.int16],  # IN (Q * Q,)
    width: int,  # Q
    n_rows: int,
    source: NDArray[np.int16],  # IN (n_rows * Q,)
    target: NDArray[np.int16],  # OUT (n_rows * Q,)
) -> None:
    """Take minima of rows times a matrix, all in logarithms: target[r, j] = min_i source[r, i] + matrix[i, j]."""
    for i in range(n_rows * width):
        target[U(i)] = I16(32767)
    for i in range(0, width, 8):
        m0 = U(i * width)
        m1, m2, m3 = m0 + U(width), m0 + U(2 * width), m0 + U(3 * width)
        m4, m5, m6, m7 = m0 + U(4 * width), m0 + U(5 * width), m0 + U(6 * width), m0 + U(7 * width)
        for r in range(n_rows):
            to = U(r * width)
            at = to + U(i)
            x0, x1, x2, x3 = source[at], source[at + U(1)], source[at + U(2)], source[at + U(3)]
            x4, x5, x6, x7 = source[at + U(4)], source[at + U(5)], source[at + U(6)], source[at + U(7)]
            for j in range(width):
                a, b = I16(matrix[m0 + U(j)] + x0), I16(matrix[m1 + U(j)] + x1)
                c, d = I16(matrix[m2 + U(j)] + x2), I16(matrix[m3 + U(j)] + x3)
                e, f = I16(matrix[m4 + U(j)] + x4), I16(matrix[m5 + U(j)] + x5)
                g, h = I16(matrix[m6 + U(j)] + x6), I16(matrix[m7 + U(j)] + x7)
                a, c, e, g = (a if a < b else b), (c if c < d else d), (e if e < f else f), (g if g < h else h)
                a, e, low = (a if a < c else c), (e if e < g else g), target[to + U(j)]
                a = a if a < e else e
                target[to + U(j)] = a if a < low else low


@inlined
def _code(ratio: np.float32) -> np.int16:
    """Return the logarithm of a ratio >= 1, rounded down.

    With ratio = 2^e (1 + m), log2(1 + m) = m + m(1 - m) r(m); the quadratic r is within 0.001 of the exact one.
    """
    bits = np.float32(ratio).view(np.int32)
    m = np.float32(bits & I32(0x007FFFFF)) * np.float32(2.0**-23)
    octaves = np.float32((bits >> I32(23)) - I32(127))
    one = np.float32(1.0)
    bump = np.float32(0.4417) - m * (np.float32(0.2476) - m * np.float32(0.0836))
    log2 = octaves + m + m * (one - m) * bump
    most = np.float32(MOST)
    return I16(np.float32(UNIT) * (log2 if log2 < most else most) - one)


@jit
def _apart(
    cells: NDArray[np.float32],  # IN (P * P,) a(i, j), outcome i, row j of the kernel
    sizes: tuple[int, int],  # IN K, P
    outcome: NDArray[np.float32],  # IN (n * P,) law of i, from ``at_outcome`` on
    at_outcome: int,
    factor: NDArray[np.float32],  # IN (n * P,) of the outcome, from ``at_factor`` on: P(i | j) = a factor(i) inverse(j)
    at_factor: int,
    inverse: NDArray[np.float32],  # IN (n * P,) from ``at_inverse`` on; FAR where the row is impossible
    at_inverse: int,
    common: NDArray[np.float32],  # SCRATCH (P,) sum_i min(P(i | j), law of i)
) -> np.float32:
    """Bound the largest total variation between two rows by the triangle inequality."""
    n_labels, width = sizes
    zero, one, far = np.float32(0.0), np.float32(1.0), np.float32(FAR)
    for j in range(width):
        common[U(j)] = zero
    threshold, inner = np.float32(LIKELY / n_labels), U(at_inverse)
    for i in range(n_labels):
        law, times = outcome[U(at_outcome + i)], factor[U(at_factor + i)]
        if law > threshold and times > zero:
            at, cap = U(i * width), law / times
            for j in range(width):
                prob = cells[at + U(j)] * inverse[inner + U(j)]
                common[U(j)] += (prob if prob < cap else cap) * times
    largest, second = zero, zero
    for j in range(n_labels):
        if inverse[inner + U(j)] < far:
            distance = one - common[U(j)]
            if distance > largest:
                largest, second = distance, largest
            elif distance > second:
                second = distance
    return largest + second


@reassociating
def _total(numbers: NDArray[np.float32], n: int) -> np.float32:
    total = np.float32(0.0)
    for i in range(n):
        total += numbers[U(i)]
    return total


@allocating
def row_bounds(
    table: PaddedTable,
    logs: NDArray[np.int16],  # IN (2, Q * Q) from ``minima_table``
    rows: PaddedRows,
    positions: NDArray[np.int64],  # IN those that are not first ones
    tau_forward: NDArray[np.float32],  # OUT (N,)
    tau_backward: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Fill upper bounds of both contraction coefficients at some positions."""
    n_labels, width, origin, tables = table.n_labels, table.width, rows.origin, table.products
    wide = (n_labels + MINIMA_LANES - 1) // MINIMA_LANES * MINIMA_LANES
    work, codes = np.empty((3, TOGETHER * wide), np.float32), np.empty((2, TOGETHER * wide), np.int16)
    before, after, node = rows.before, rows.after, rows.node
    inverse, common, top = work[0], work[1], work[2]
    source, lowest = codes[0], codes[1]
    one, zero, far, least = np.float32(1.0), np.float32(0.0), np.float32(FAR), np.float32(IMPOSSIBLE)
    for i in range(TOGETHER * wide):
        source[U(i)] = I16(MOST * UNIT)
    for first in range(0, positions.size, TOGETHER):
        n = min(TOGETHER, positions.size - first)
        for backwards in range(2):
            inner, outer = (after, before) if backwards else (before, after)  # factor of the row, of the outcome
            for r in range(n):
                # 1 / b_t(c) = h_t(c) / f_{t-1}(c)   or   1 / z_t(k) = w_t(k) / f_t(k), relative to the smallest of them
                row, to, code = (positions[first + r] - origin) * width, U(r * width), U(r * wide)
                law, smallest = U(row - (0 if backwards else width)), np.float32(FAR).view(np.int32)
                for i in range(width):
                    f = node[law + U(i)]
                    x = inner[U(row) + U(i)] / f
                    x = x if f > least else far
                    inverse[to + U(i)] = x
                    bits = np.float32(x).view(np.int32)  # of numbers >= 0, in the same order as they
                    smallest = bits if bits < smallest else smallest
                top[r] = np.int32(smallest).view(np.float32)
                unit = one / top[r]
                for i in range(width):
                    source[code + U(i)] = _code(inverse[to + U(i)] * unit)
            _lowest(logs[backwards], wide, n, source, lowest)
            patience = 0
            for r in range(n):
                row, code = (positions[first + r] - origin) * width, U(r * wide)
                for j in range(n_labels):
                    log2 = lowest[code + U(j)]
                    part = exp32(np.float32(log2) * np.float32(0.6931471805599453 / UNIT)) * outer[U(row) + U(j)]
                    common[U(j)] = part if log2 > I16(-MOST * UNIT) else zero
                bound = one - _total(common, n_labels) * top[r]
                if patience > 0 or r % PROBE == 0:
                    apart = _apart(
                        tables[1 - backwards], (n_labels, width), node, row - (width if backwards else 0), outer, row,
                        inverse, r * width, common,
                    )  # fmt: skip
                    patience = PATIENCE if apart < bound else patience - 1
                    bound = min(bound, apart)
                tau = tau_backward if backwards else tau_forward
                tau[positions[first + r]] = max(bound, zero)
