"""What the curvature of factored models of order 1 with many labels needs of pairs of labels, by loops like products.

Letters and rows as in :mod:`seqboost.chain.batched`: f_t(k) = P(y_t = k | X), pair marginals are h_t(c) a(c,k) w_t(k).

**Contraction coefficients.**  The rows P(. | c) of a kernel have sum_k min_c P(k|c) in common, so

    tau_t <= 1 - sum_k w_t(k) min_c ( a(c,k) / b_t(c) )              forwards,  P(k|c) = a(c,k) w_t(k) / b_t(c)
    tau_t <= 1 - sum_c h_t(c) min_k ( a(c,k) / z_t(k) )              backwards, P(c|k) = a(c,k) h_t(c) / z_t(k)

with z_t(k) = f_t(k) / w_t(k).  The minima are taken like a matrix product, with min for the sum and the sum for the
product, on logarithms of 16 bits, many of which go into a vector; they are rounded down, by half a percent.  With many
labels this bound is close to the exact coefficient unless that is small, or transitions are forbidden.  There the
triangle inequality is better: of any two rows and the law f of the outcome, with S the labels with f(k) > LIKELY / K,

    TV(P(. | c), P(. | c')) <= d(c) + d(c'),     d(c) = 1 - sum_{k in S} min(P(k|c), f(k)) >= TV(P(. | c), f)

What S leaves out makes d larger by at most LIKELY.

**Sums of p(1 - p)** over positions with weights v are sum v p - sum v p^2, p the pair marginals.  Sums of p with other
weights m are wanted too, and both are a matrix product over positions.  One does for both: positions are sorted by
v / m and taken ALIKE at a time, with the largest v / m of these, which is safe.  The squares are summed over pairs of
labels alone that both have f(k) > ``SQUARED``: others have p <= SQUARED, so this makes the sum of p(1 - p) larger by a
part of about SQUARED at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import exp32
from seqboost.chain.mixing import IMPOSSIBLE
from seqboost.core.jit import inlined, jit, reassociating

__all__ = ["ALIKE", "MINIMA_LANES", "SUMMED", "TOGETHER", "minima_table", "row_bounds", "row_sums", "start_sums"]

LIKELY = 0.01
"""Probability that all labels left out may have together."""

PROBE, PATIENCE = 16, 8
"""The triangle inequality is tried at every so many positions, and goes on until it was of no use so many times."""

SQUARED = 0.03
"""Squares of pair marginals that are smaller than this are left out."""

TOGETHER = 32
"""Positions whose minima are taken together."""

ALIKE = 16
"""Positions that share a ratio of weights."""

SUMMED = 64
"""Positions whose pairs are added up in single precision, before they go to sums in double precision."""

FAR = 1e34
"""Stands for 1 / b_t(c) of impossible contexts: no minimum meets them."""

UNIT, MOST = 256, 62
"""Logarithms for minima are whole numbers of 1/UNIT octaves, rounded down, at most MOST octaves up or down."""

MINIMA_LANES = 16
NOTHING = -32000
"""Stands for the logarithm of 0, or of less than MOST octaves below 1: whatever is added, the sum is recognised."""

U, I16, I32 = np.uint64, np.int16, np.int32


def minima_table(weights: NDArray[np.float64]) -> NDArray[np.int16]:
    """Return the logarithms of a table (K, K) for minima, (Q, Q), rounded down; beyond K no minimum meets them."""
    n_labels = len(weights)
    wide = -(-n_labels // MINIMA_LANES) * MINIMA_LANES
    logs = np.zeros((wide, wide), np.int16)
    with np.errstate(divide="ignore"):
        octaves = np.floor(UNIT * np.log2(weights))
    logs[:n_labels, :n_labels] = np.where(octaves > -MOST * UNIT, octaves, NOTHING)
    return logs


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


@jit
def row_bounds(
    tables: NDArray[np.float32],  # IN (2, P * P) a(c, k) at c * P + k, and transposed
    logs: NDArray[np.int16],  # IN (2, Q * Q) logarithms of the same
    sizes: tuple[int, int, int, int],  # IN K, P, Q, first position that has a row
    positions: NDArray[np.int64],  # IN those that are not first ones
    before: NDArray[np.float32],  # IN (n * P,) h_t
    after: NDArray[np.float32],  # IN (n * P,) w_t
    node: NDArray[np.float32],  # IN (n * P,) f_t
    work: NDArray[np.float32],  # SCRATCH (3, TOGETHER * Q)
    codes: NDArray[np.int16],  # SCRATCH (2, TOGETHER * Q)
    tau_forward: NDArray[np.float32],  # OUT (N,)
    tau_backward: NDArray[np.float32],  # OUT (N,)
) -> None:
    """Fill upper bounds of both contraction coefficients at some positions."""
    n_labels, width, wide, origin = sizes
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


@inlined
def _add_eight(
    width: int,  # P
    first: int,  # row of the block
    factors: NDArray[np.float32],  # IN (SUMMED,)
    block: NDArray[np.float32],  # IN (SUMMED * P,)
    part: NDArray[np.float32],  # INOUT (P,) += sum of eight rows times their factors
) -> None:
    r0 = U(first * width)
    r1, r2, r3 = r0 + U(width), r0 + U(2 * width), r0 + U(3 * width)
    r4, r5, r6, r7 = r0 + U(4 * width), r0 + U(5 * width), r0 + U(6 * width), r0 + U(7 * width)
    at = U(first)
    x0, x1, x2, x3 = factors[at], factors[at + U(1)], factors[at + U(2)], factors[at + U(3)]
    x4, x5, x6, x7 = factors[at + U(4)], factors[at + U(5)], factors[at + U(6)], factors[at + U(7)]
    for k in range(width):
        part[U(k)] += (
            (block[r0 + U(k)] * x0 + block[r1 + U(k)] * x1) + (block[r2 + U(k)] * x2 + block[r3 + U(k)] * x3)
        ) + ((block[r4 + U(k)] * x4 + block[r5 + U(k)] * x5) + (block[r6 + U(k)] * x6 + block[r7 + U(k)] * x7))


@jit
def _add_products(
    sizes: tuple[int, int],  # IN K, P
    rows: NDArray[np.int64],  # IN (n,), at most SUMMED
    mean_weight: NDArray[np.float64],  # IN (n,)
    unit: float,  # what the weights are taken times, so that the largest is 1: they may be beyond floats of 32 bits
    ratio: NDArray[np.float64],  # IN (n,) the same for each ALIKE
    before: NDArray[np.float32],  # IN (n * P,) h_t
    after: NDArray[np.float32],  # IN (n * P,) w_t
    block: NDArray[np.float32],  # SCRATCH (SUMMED * P,)
    factors: NDArray[np.float32],  # SCRATCH (SUMMED,)
    sums: NDArray[np.float32],  # SCRATCH (3 * P,)
    products: NDArray[np.float64],  # INOUT (2 * K * P,) += sum_t unit mean_weight h_t(c) w_t(k); the same times ratio
) -> None:
    """Add the products of a few positions, eight at a time."""
    n_labels, width = sizes
    n = rows.size
    n_whole = -(-n // ALIKE) * ALIKE
    part, plain, weighted = sums[:width], sums[width : 2 * width], sums[2 * width :]
    for i in range(n_whole):
        at, to = U(rows[min(i, n - 1)] * width), U(i * width)
        for k in range(width):
            block[to + U(k)] = after[at + U(k)]
        factors[U(i)] = 0.0
    for c in range(n_labels):
        for i in range(n):
            factors[U(i)] = np.float32(mean_weight[i] * unit) * before[U(rows[i] * width + c)]
        for k in range(3 * width):
            sums[U(k)] = 0.0
        for i in range(0, n_whole, ALIKE):
            for j in range(i, i + ALIKE, 8):
                _add_eight(width, j, factors, block, part)
            times = np.float32(ratio[i])
            for k in range(width):
                plain[U(k)] += part[U(k)]
                weighted[U(k)] += times * part[U(k)]
                part[U(k)] = 0.0
        to = U(c * width)
        for k in range(width):
            products[to + U(k)] += plain[U(k)]
        to += U(n_labels * width)
        for k in range(width):
            products[to + U(k)] += weighted[U(k)]


@jit
def _subtract_squares(
    weights: NDArray[np.float64],  # IN (K * K,) a(c, k)
    sizes: tuple[int, int],  # IN K, P
    row: int,  # of the position
    weight: float,
    before: NDArray[np.float32],  # IN (n * P,) h_t
    after: NDArray[np.float32],  # IN (n * P,) w_t
    node: NDArray[np.float32],  # IN (n * P,) f_t
    likely: NDArray[np.int64],  # SCRATCH (K,)
    variance: NDArray[np.float64],  # INOUT (K * K,) -= weight p^2
) -> None:
    """Take the squares of a position's likely pairs out."""
    n_labels, width = sizes
    at, n_likely, threshold = U(row * width), 0, np.float32(SQUARED)
    for label in range(n_labels):
        likely[U(n_likely)] = label
        n_likely += 1 if node[at + U(label)] > threshold else 0
    for c in range(n_labels):
        if node[at - U(width) + U(c)] > threshold:
            h = np.float64(before[at + U(c)])
            for i in range(n_likely):
                k = U(likely[U(i)])
                cell = U(c * n_labels) + k
                p = h * weights[cell] * np.float64(after[at + k])
                variance[cell] -= weight * p * p


@jit
def row_sums(
    weights: NDArray[np.float64],  # IN (K * K,) a(c, k)
    sizes: tuple[int, int],  # IN K, P
    rows: NDArray[np.int64],  # IN (n_rows,) rows of positions that are not first ones
    mean_weight: NDArray[np.float64],  # IN (n_rows,)
    ratio: NDArray[np.float64],  # IN (n_rows,) variance weight / mean weight, the same for each ALIKE
    before: NDArray[np.float32],  # IN (n * P,) h_t
    after: NDArray[np.float32],  # IN (n * P,) w_t
    node: NDArray[np.float32],  # IN (n * P,) f_t
    work: NDArray[np.float32],  # SCRATCH ((SUMMED + 3) * P + SUMMED,)
    likely: NDArray[np.int64],  # SCRATCH (K + 1,)
    products: NDArray[np.float64],  # SCRATCH (2 * K * P,)
    mean: NDArray[np.float64],  # INOUT (K * K,) += sum_t mean_weight p
    variance: NDArray[np.float64],  # INOUT (K * K,) += sum_t ratio mean_weight p (1 - p)
) -> None:
    """Add up pair marginals over positions: h and w by a matrix product, then times the table."""
    n_labels, width = sizes
    block, sums = work[: SUMMED * width], work[SUMMED * width : (SUMMED + 3) * width]
    factors = work[(SUMMED + 3) * width :]
    products[:] = 0.0
    largest = 0.0
    for i in range(rows.size):
        largest = max(largest, mean_weight[i])
    unit = 1.0 / largest if largest > 0.0 else 0.0
    for first in range(0, rows.size, SUMMED):
        last = min(first + SUMMED, rows.size)
        _add_products(
            sizes, rows[first:last], mean_weight[first:last], unit, ratio[first:last], before, after,
            block, factors, sums, products,
        )  # fmt: skip
    for i in range(rows.size):
        weight = mean_weight[i] * ratio[i]
        _subtract_squares(weights, sizes, rows[i], weight, before, after, node, likely, variance)
    for c in range(n_labels):
        for k in range(n_labels):
            cell, at = U(c * n_labels + k), U(c * width + k)
            mean[cell] += largest * weights[cell] * products[at]
            variance[cell] += largest * weights[cell] * products[U(n_labels * width) + at]


@jit
def start_sums(
    sizes: tuple[int, int],  # IN K, P
    rows: NDArray[np.int64],  # IN (n_rows,) rows of first positions
    mean_weight: NDArray[np.float64],  # IN (n_rows,)
    variance_weight: NDArray[np.float64],  # IN (n_rows,)
    node: NDArray[np.float32],  # IN (n * P,) f_t
    mean: NDArray[np.float64],  # INOUT (K,) += sum_t mean_weight f
    variance: NDArray[np.float64],  # INOUT (K,) += sum_t variance_weight f (1 - f)
) -> None:
    """Add up the pair marginals of first positions, whose context is the start."""
    n_labels, width = sizes
    for i in range(rows.size):
        at, m, v = U(rows[i] * width), mean_weight[i], variance_weight[i]
        for k in range(n_labels):
            p = np.float64(node[at + U(k)])
            mean[U(k)] += m * p
            variance[U(k)] += v * (p * (1.0 - p))
