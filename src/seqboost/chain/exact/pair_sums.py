"""Weighted sums over positions of the pair marginals of factored models, from the messages of a chunk.

Letters as in :mod:`seqboost.chain.exact.factored` and, for many labels, :mod:`seqboost.chain.exact.many_labels`.  With
many labels, sums of p(1 - p) over positions with weights v are sum v p - sum v p^2, p the pair marginals.  Sums of p
with other weights m are wanted too, and both are a matrix product over positions.  One does for both: positions are
sorted by v / m and taken ALIKE at a time, with the largest v / m of these, which is safe.  The squares are summed over
pairs of labels alone that both have f(k) > ``SQUARED``: others have p <= SQUARED, so this makes the sum of p(1 - p)
larger by a part of about SQUARED at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.contraction.many_labels import PaddedRows
from seqboost.chain.exact.factored import PairMessages
from seqboost.chain.exact.many_labels import RowMessages
from seqboost.chain.potentials import Lattice, Potentials
from seqboost.chain.tables import PaddedTable
from seqboost.core.jit import allocating, inlined, jit

__all__ = ["pair_sums_chunk"]

SQUARED = 0.03
"""Squares of pair marginals that are smaller than this are left out."""

ALIKE = 16
"""Positions that share a ratio of weights."""

SUMMED = 64
"""Positions whose pairs are added up in single precision, before they go to sums in double precision."""

U = np.uint64


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
        As given to :func:`~seqboost.chain.posterior_chunk`.
    messages : PairMessages or RowMessages
        Its answer.
    mean_weight, variance_weight : float64 arrays (N,)
        Weights of positions, e.g. sequence weight and sequence weight times mixing factor.
    mean, variance : float64 arrays (E, K)
        INOUT: use one pair per chunk and add them up in the order of chunks.
    """
    if isinstance(messages, RowMessages):
        _add_row_sums(messages, potentials.offsets, mean_weight, variance_weight, mean, variance)
        for other in messages.others:
            pair_sums_chunk(potentials, other, mean_weight, variance_weight, mean, variance)
        return
    _factored_sums(potentials.lattice(), messages, mean_weight, variance_weight, mean.reshape(-1), variance.reshape(-1))


def _add_row_sums(
    messages: RowMessages,
    offsets: NDArray[np.int64],
    mean_weight: NDArray[np.float64],
    variance_weight: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> None:
    """Add the weighted sums of p and p(1 - p) over the positions of the sequences that are not lost."""
    first, last, origin = messages.first, messages.last, offsets[messages.first]
    sizes = (messages.table.n_labels, messages.table.width)
    weights = np.stack([mean_weight[origin : offsets[last]], variance_weight[origin : offsets[last]]])
    used = np.repeat(~messages.lost, np.diff(offsets[first : last + 1])) & np.any(weights != 0.0, axis=0)
    if not used.any():
        return
    starts = offsets[first:last] - origin
    begins = starts[used[starts]]
    _start_sums(sizes, begins, weights[0, begins], weights[1, begins], messages.rows.node, mean[0], variance[0])
    used[starts] = False
    table = (mean[1:].reshape(-1), variance[1:].reshape(-1))
    plain = weights[0] != 0.0
    _add_sorted(messages, np.flatnonzero(used & plain), weights[0], weights[1], *table)
    if not plain.all():
        _add_sorted(messages, np.flatnonzero(used & ~plain), weights[1], weights[1], np.zeros_like(table[0]), table[1])


def _add_sorted(
    messages: RowMessages,
    rows: NDArray[np.int64],
    mean_weight: NDArray[np.float64],
    variance_weight: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> None:
    """Add the sums of positions that are not first ones, sorted by the ratio of their weights."""
    if rows.size == 0:
        return
    ratio = variance_weight[rows] / mean_weight[rows]
    order = np.argsort(ratio, kind="stable")
    largest = np.minimum(np.arange(rows.size) // ALIKE * ALIKE + ALIKE - 1, rows.size - 1)
    _row_sums(
        messages.table, rows[order], mean_weight[rows[order]], ratio[order[largest]], messages.rows, mean, variance
    )


@jit
def _factored_sums(
    lattice: Lattice,
    messages: PairMessages,
    mean_weight: NDArray[np.float64],  # IN (N,)
    variance_weight: NDArray[np.float64],  # IN (N,)
    mean: NDArray[np.float64],  # INOUT (E * K,) += sum_t mean_weight p
    variance: NDArray[np.float64],  # INOUT (E * K,) += sum_t variance_weight p (1 - p)
) -> None:
    """Add up pair marginals of a chunk over positions.

    Positions of full contexts are taken two at a time, so that each sum is read and written half as often.
    """
    table, offsets, base, weights = lattice.table, lattice.offsets, lattice.base, messages.table.weights.reshape(-1)
    first, last, in_logs = messages.first, messages.last, messages.in_logs
    before, after = messages.before, messages.after
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
    messages: PaddedRows,
    block: NDArray[np.float32],  # SCRATCH (SUMMED * P,)
    factors: NDArray[np.float32],  # SCRATCH (SUMMED,)
    sums: NDArray[np.float32],  # SCRATCH (3 * P,)
    products: NDArray[np.float64],  # INOUT (2 * K * P,) += sum_t unit mean_weight h_t(c) w_t(k); the same times ratio
) -> None:
    """Add the products of a few positions, eight at a time."""
    n_labels, width = sizes
    n, before, after = rows.size, messages.before, messages.after
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
    messages: PaddedRows,
    likely: NDArray[np.int64],  # SCRATCH (K,)
    variance: NDArray[np.float64],  # INOUT (K * K,) -= weight p^2
) -> None:
    """Take the squares of a position's likely pairs out."""
    n_labels, width = sizes
    before, after, node = messages.before, messages.after, messages.node
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


@allocating
def _row_sums(
    table: PaddedTable,
    rows: NDArray[np.int64],  # IN (n_rows,) rows of positions that are not first ones
    mean_weight: NDArray[np.float64],  # IN (n_rows,)
    ratio: NDArray[np.float64],  # IN (n_rows,) variance weight / mean weight, the same for each ALIKE
    messages: PaddedRows,
    mean: NDArray[np.float64],  # INOUT (K * K,) += sum_t mean_weight p
    variance: NDArray[np.float64],  # INOUT (K * K,) += sum_t ratio mean_weight p (1 - p)
) -> None:
    """Add up pair marginals over positions: h and w by a matrix product, then times the table."""
    n_labels, width, weights = table.n_labels, table.width, table.weights
    sizes = (n_labels, width)
    block, sums = np.empty(SUMMED * width, np.float32), np.empty(3 * width, np.float32)
    factors, likely = np.empty(SUMMED, np.float32), np.empty(n_labels + 1, np.int64)
    products, largest = np.zeros(2 * n_labels * width), 0.0
    for i in range(rows.size):
        largest = max(largest, mean_weight[i])
    unit = 1.0 / largest if largest > 0.0 else 0.0
    for first in range(0, rows.size, SUMMED):
        last = min(first + SUMMED, rows.size)
        _add_products(
            sizes, rows[first:last], mean_weight[first:last], unit, ratio[first:last], messages, block, factors, sums,
            products,
        )  # fmt: skip
    for i in range(rows.size):
        weight = mean_weight[i] * ratio[i]
        _subtract_squares(weights, sizes, rows[i], weight, messages, likely, variance)
    for c in range(n_labels):
        for k in range(n_labels):
            cell, at = U(c * n_labels + k), U(c * width + k)
            mean[cell] += largest * weights[cell] * products[at]
            variance[cell] += largest * weights[cell] * products[U(n_labels * width) + at]


@jit
def _start_sums(
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
