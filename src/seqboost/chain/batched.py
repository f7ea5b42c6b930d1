"""Forward-backward of factored models of order 1 with many labels: a run of sequences at a time, by matrix products.

Letters as in :mod:`seqboost.chain.factored`; n rows of one position each, one after another, P >= K numbers in a row
(K, and zeros up to a multiple of 8).  All sequences of a run that are still going take a step together:

    b_t(c)   = sum_k a(c,k) w_t(k)            rows of w times the turned table        w_t(k) = u_t(k) b_{t+1}(k)
    f_t(k)   = w_t(k) sum_c h_t(c) a(c,k)     rows of h times the table               h_t(c) = f_{t-1}(c) / b_t(c)

with f_t(k) = P(y_t=k | X).  Eight rows of the table stay in the nearest cache while all rows of the step go by, which
makes these loops as fast as a library's matrix product, and their sums are taken in the same order on any number of
threads.  There is one exponential for each position and label, none for pairs.

Single precision is enough, for nothing is ever subtracted: what is lost below 1e-38 of the largest is at most 1e-15 of
any b_t(c) >= ``SMALLEST_ROW`` of the largest, where that is >= ``SMALLEST_SCALE``.  A sequence with a smaller one is
*lost* here, and done again by the way of few labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import exp32
from seqboost.core.jit import inlined, jit, reassociating

__all__ = ["backward_rows", "forward_rows", "padded", "rows_to_cells", "unary_rows"]

SMALLEST_ROW = 1e-20
"""Sequences in which some b_t(c) is smaller than this, relative to the largest of its position, are lost."""

SMALLEST_SCALE = 1e-15
"""Nor may the largest b_t(c) of a position be smaller: h_t(c) w_t(k), at most one over both, must be a float."""

BLOCK = 32
"""Positions that are turned from label-major to rows, or back, together."""

U = np.uint64
LANES = 8


def padded(n_labels: int) -> int:
    """Return P: K rounded up to whole vectors."""
    return -(-n_labels // LANES) * LANES


@jit
def unary_rows(
    scores: NDArray[np.float32],  # IN (K * N,)
    end: NDArray[np.float64],  # IN (K,), or (0,) if any label may close a sequence
    labels: NDArray[np.int32],  # IN (N,), -1 = unobserved; or (0,) if nothing is observed
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    sequences: tuple[int, int],  # IN first, last
    sizes: tuple[int, int, int],  # IN K, P, first position that has a row
    tile: NDArray[np.float32],  # SCRATCH (K * BLOCK,)
    tops: NDArray[np.float32],  # SCRATCH (2 * BLOCK,)
    rows: NDArray[np.float32],  # OUT (n * P,) u_t(k)
    log_z: NDArray[np.float64],  # OUT (n_sequences,) sum of the subtracted maxima; -inf if a position has no label
) -> None:
    """Fill exp(U_t(k) - max_k) of the sequences first:last.

    Running maxima go to and fro between two buffers: in place they would be conditional stores, which are not
    vectorised.
    """
    n_labels, width, origin = sizes
    n_positions = scores.size // n_labels
    s, stop = sequences[0], offsets[sequences[1]]
    log_z[s] = 0.0
    for first in range(offsets[s], stop, BLOCK):
        n = min(BLOCK, stop - first)
        for k in range(n_labels):
            at, to = U(k * n_positions + first), U(k * BLOCK)
            for i in range(n):
                tile[to + U(i)] = scores[at + U(i)]
        for i in range(n if labels.size > 0 else 0):
            for k in range(n_labels if labels[first + i] >= 0 else 0):
                if k != labels[first + i]:
                    tile[U(k * BLOCK + i)] = -np.inf
        at_end = s
        for i in range(n if end.size > 0 else 0):
            while offsets[at_end + 1] <= first + i:
                at_end += 1
            for k in range(n_labels if offsets[at_end + 1] == first + i + 1 else 0):
                tile[U(k * BLOCK + i)] += np.float32(end[k])
        top, other = U(0), U(BLOCK)
        for i in range(BLOCK):
            tops[top + U(i)] = -np.inf
        for k in range(n_labels):
            at = U(k * BLOCK)
            for i in range(BLOCK):
                high, here = tops[top + U(i)], tile[at + U(i)]
                tops[other + U(i)] = here if here > high else high
            top, other = other, top
        for i in range(n):
            while offsets[s + 1] <= first + i:
                s += 1
                log_z[s] = 0.0
            log_z[s] += tops[top + U(i)]
        for i in range(BLOCK):
            high = tops[top + U(i)]
            tops[other + U(i)] = high if high > np.float32(-np.inf) else np.float32(0.0)
        for k in range(n_labels):
            at = U(k * BLOCK)
            for i in range(BLOCK):
                tile[at + U(i)] = exp32(tile[at + U(i)] - tops[other + U(i)])
        for i in range(n):
            to = U((first + i - origin) * width)
            for k in range(n_labels):
                rows[to + U(k)] = tile[U(k * BLOCK + i)]
            for k in range(n_labels, width):
                rows[to + U(k)] = 0.0


@inlined
def _products(
    matrix: NDArray[np.float32],  # IN (P * P,)
    width: int,  # P
    places: NDArray[np.int64],  # IN rows
    n_places: int,
    source: NDArray[np.float32],  # IN (n * P,)
    target: NDArray[np.float32],  # OUT (n * P,)
) -> None:
    """Multiply rows by a matrix: target[r, j] = sum_i source[r, i] matrix[i, j]."""
    for place in range(n_places):
        to = U(places[place] * width)
        for j in range(width):
            target[to + U(j)] = 0.0
    for i in range(0, width, 8):
        m0 = U(i * width)
        m1, m2, m3 = m0 + U(width), m0 + U(2 * width), m0 + U(3 * width)
        m4, m5, m6, m7 = m0 + U(4 * width), m0 + U(5 * width), m0 + U(6 * width), m0 + U(7 * width)
        for place in range(n_places):
            to = U(places[place] * width)
            at = to + U(i)
            x0, x1, x2, x3 = source[at], source[at + U(1)], source[at + U(2)], source[at + U(3)]
            x4, x5, x6, x7 = source[at + U(4)], source[at + U(5)], source[at + U(6)], source[at + U(7)]
            for j in range(width):
                target[to + U(j)] += (
                    (matrix[m0 + U(j)] * x0 + matrix[m1 + U(j)] * x1)
                    + (matrix[m2 + U(j)] * x2 + matrix[m3 + U(j)] * x3)
                ) + (
                    (matrix[m4 + U(j)] * x4 + matrix[m5 + U(j)] * x5)
                    + (matrix[m6 + U(j)] * x6 + matrix[m7 + U(j)] * x7)
                )


@reassociating
def backward_rows(
    turned: NDArray[np.float32],  # IN (P * P,) a(c, k) at k * P + c
    start: NDArray[np.float32],  # IN (P,) a(start, k)
    least: NDArray[np.float32],  # IN (P,) smallest b_t(c) that is not lost: 0 where nothing may follow c
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    longest_first: NDArray[np.int64],  # IN (run,) sequences of the run, by falling length
    origin: int,  # first position that has a row
    places: NDArray[np.int64],  # SCRATCH (run,)
    before: NDArray[np.float32],  # OUT (n * P,) b_t(c), divided by its maximum; not of first positions
    after: NDArray[np.float32],  # INOUT (n * P,) u_t(k) in; w_t(k) out, divided by the maximum of b_t
    log_z: NDArray[np.float64],  # INOUT (n_sequences,) log b is added
    lost: NDArray[np.bool_],  # OUT (n_sequences,)
) -> None:
    """Do the backward pass of a run of sequences, all ends in one step, then all positions before them."""
    width, n_going = start.size, longest_first.size
    for i in range(n_going):
        lost[longest_first[i]] = not (log_z[longest_first[i]] > -np.inf)
    step = 0
    while n_going > 0:
        n_more = n_going
        while n_more > 0 and offsets[longest_first[n_more - 1] + 1] - offsets[longest_first[n_more - 1]] == step + 1:
            n_more -= 1
        for i in range(n_going):
            places[i] = offsets[longest_first[i] + 1] - 1 - step - origin
            row = U(places[i] * width)
            for k in range(width if step > 0 else 0):
                after[row + U(k)] *= before[row + U(width) + U(k)]
        _products(turned, width, places, n_more, after, before)
        for i in range(n_going):
            row, s, scale, short = U(places[i] * width), longest_first[i], np.float32(0.0), np.int32(0)
            if i < n_more:
                for c in range(width):
                    b = before[row + U(c)]
                    scale = b if b > scale else scale
                unit = np.float32(1.0) / scale if scale > np.float32(0.0) else np.float32(0.0)
                for c in range(width):
                    b = before[row + U(c)] * unit
                    before[row + U(c)] = b
                    short += np.int32(b < least[c])
                short += np.int32(scale < np.float32(SMALLEST_SCALE))
            else:
                for k in range(width):
                    scale += start[k] * after[row + U(k)]
                unit = np.float32(1.0) / scale if scale > np.float32(0.0) else np.float32(0.0)
                short = np.int32(scale < np.float32(SMALLEST_ROW))
            for k in range(width):
                after[row + U(k)] *= unit
            lost[s] |= short > 0
            log_z[s] += np.log(np.float64(scale))
        n_going, step = n_more, step + 1


@reassociating
def forward_rows(
    weights: NDArray[np.float32],  # IN (P * P,) a(c, k) at c * P + k
    start: NDArray[np.float32],  # IN (P,) a(start, k)
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    longest_first: NDArray[np.int64],  # IN (run,) sequences of the run, by falling length
    origin: int,  # first position that has a row
    places: NDArray[np.int64],  # SCRATCH (run,)
    before: NDArray[np.float32],  # INOUT (n * P,) b_t(c) in, h_t(c) out; not of first positions
    after: NDArray[np.float32],  # IN (n * P,) w_t(k)
    node: NDArray[np.float32],  # OUT (n * P,) f_t(k)
) -> None:
    """Do the forward pass of a run of sequences, all first positions in one step, then all that follow them."""
    width, n_going, step = start.size, longest_first.size, 0
    while n_going > 0:
        for i in range(n_going):
            places[i] = offsets[longest_first[i]] + step - origin
            row = U(places[i] * width)
            for c in range(width if step > 0 else 0):
                b, f = before[row + U(c)], node[row - U(width) + U(c)]
                h = f / b
                before[row + U(c)] = h if b > np.float32(0.0) else np.float32(0.0)
        if step > 0:
            _products(weights, width, places, n_going, before, node)
        for i in range(n_going):
            row, total = U(places[i] * width), np.float32(0.0)
            for k in range(width):
                f = (node[row + U(k)] if step > 0 else start[k]) * after[row + U(k)]
                node[row + U(k)] = f
                total += f
            unit = np.float32(1.0) / total if total > np.float32(0.0) else np.float32(0.0)
            for k in range(width):
                node[row + U(k)] *= unit
        step += 1
        while n_going > 0 and offsets[longest_first[n_going - 1] + 1] - offsets[longest_first[n_going - 1]] == step:
            n_going -= 1


@jit
def rows_to_cells(
    rows: NDArray[np.float32],  # IN (n * P,)
    positions: tuple[int, int],  # IN first, last
    sizes: tuple[int, int, int],  # IN K, P, first position that has a row
    cells: NDArray[np.float32],  # OUT (K * N,)
) -> None:
    """Write rows of positions to a label-major array."""
    n_labels, width, origin = sizes
    n_positions = cells.size // n_labels
    for first in range(positions[0], positions[1], BLOCK):
        n = min(BLOCK, positions[1] - first)
        for k in range(n_labels):
            at, to = U((first - origin) * width + k), U(k * n_positions + first)
            for i in range(n):
                cells[to + U(i)] = rows[at + U(i * width)]
