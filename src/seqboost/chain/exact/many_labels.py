"""Forward-backward of factored models of order 1 with more than 32 labels, by matrix products over many sequences.

Letters as in :mod:`seqboost.chain.exact.factored`; n rows of one position each, one after another, P >= K numbers in a
row (K, and zeros up to a multiple of 8).  All sequences of a run that are still going take a step together:

    b_t(c)   = sum_k a(c,k) w_t(k)            rows of w times the turned table        w_t(k) = u_t(k) b_{t+1}(k)
    f_t(k)   = w_t(k) sum_c h_t(c) a(c,k)     rows of h times the table               h_t(c) = f_{t-1}(c) / b_t(c)

with f_t(k) = P(y_t=k | X).  Eight rows of the table stay in the nearest cache while all rows of the step go by, which
makes these loops as fast as a library's matrix product, and their sums are taken in the same order on any number of
threads.  There is one exponential for each position and label, none for pairs.

Single precision is enough, for nothing is ever subtracted: what is lost below 1e-38 of the largest is at most 1e-15 of
any b_t(c) >= ``SMALLEST_ROW`` of the largest, where that is >= ``SMALLEST_SCALE``.  A sequence with a smaller one is
*lost* here, and done again by :mod:`seqboost.chain.exact.factored`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import exp32
from seqboost.chain.contraction.many_labels import PaddedRows, row_bounds
from seqboost.chain.exact.factored import (
    PairMessages,
    factored_contraction,
    factored_log_partition,
    factored_posterior,
)
from seqboost.chain.potentials import Lattice, Potentials
from seqboost.chain.tables import SMALLEST_ROW, PaddedTable
from seqboost.core.jit import allocating, inlined, jit, reassociating
from seqboost.core.offsets import sequence_chunks

__all__ = ["RowMessages", "many_labels_log_partition", "many_labels_posterior"]

RUN_CELLS = 65536
RUN_SEQUENCES = 16
"""Least number of cells (position, label) of a run, which stay in a near cache, and of its sequences."""

SMALLEST_SCALE = 1e-15
"""Nor may the largest b_t(c) of a position be smaller: h_t(c) w_t(k), at most one over both, must be a float."""

BLOCK = 32
"""Positions that are turned from label-major to rows, or back, together."""

U = np.uint64


@dataclass(frozen=True, eq=False)
class RowMessages:
    """What is needed to rebuild P(y_{t-1}=c, y_t=k | X) of a chunk: ``before[t, c] * a(c, k) * after[t, k]``.

    Sequences that are lost in single precision have messages of their own.
    """

    first: int
    last: int
    table: PaddedTable
    rows: PaddedRows
    lost: NDArray[np.bool_]  # (chunk sequences,)
    others: list[PairMessages]


def many_labels_posterior(
    p: Potentials,
    lattice: Lattice,
    first: int,
    last: int,
    marginals: NDArray[np.float32],
    log_z: NDArray[np.float64],
    taus: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
) -> RowMessages:
    """Fill marginals (K, N, 1), log Z and, if wanted, both contraction coefficients of the sequences ``first:last``."""
    table, offsets = p.padded_table, p.offsets
    rows, lost = _empty_rows(table, offsets, first, last)
    for a, b in _runs(table, offsets, first, last):
        by_length = _backward(lattice, table, a, b, rows, log_z, lost)
        forward_rows(table, offsets, by_length, rows)
        rows_to_cells(table, rows, (offsets[a], offsets[b]), marginals.reshape(-1))
        if taus is not None:
            taus[0][offsets[a:b]] = taus[1][offsets[a:b]] = 0.0
            row_bounds(table, p.minima_table, rows, _later(offsets[a : b + 1]), *taus)
    log_z[first:last] += table.highest * np.diff(offsets[first : last + 1])
    messages = RowMessages(first, last, table, rows, lost[first:last], [])
    for s in (first + np.flatnonzero(messages.lost)).tolist():
        other = factored_posterior(lattice, p.table_weights, s, s + 1, marginals, log_z)
        if taus is not None:
            factored_contraction(lattice, other, marginals, taus)
        messages.others.append(other)
    return messages


def many_labels_log_partition(
    p: Potentials, lattice: Lattice, first: int, last: int, log_z: NDArray[np.float64]
) -> None:
    """Fill log Z of the sequences ``first:last``, by the backward pass alone."""
    table, offsets = p.padded_table, p.offsets
    for a, b in _runs(table, offsets, first, last):
        rows, lost = _empty_rows(table, offsets, a, b, with_nodes=False)
        _backward(lattice, table, a, b, rows, log_z, lost)
        log_z[a:b] += table.highest * np.diff(offsets[a : b + 1])
        for s in (a + np.flatnonzero(lost[a:b])).tolist():
            factored_log_partition(lattice, p.table_weights, s, s + 1, log_z)


def _empty_rows(
    table: PaddedTable, offsets: NDArray[np.int64], first: int, last: int, *, with_nodes: bool = True
) -> tuple[PaddedRows, NDArray[np.bool_]]:
    """Make the rows of the sequences ``first:last``, and a mark for every sequence of the chains."""
    n_cells = int(offsets[last] - offsets[first]) * table.width
    before, after = np.empty(n_cells, np.float32), np.empty(n_cells, np.float32)
    node = np.empty(n_cells if with_nodes else 0, np.float32)
    return PaddedRows(int(offsets[first]), before, after, node), np.zeros(len(offsets) - 1, np.bool_)


def _backward(
    lattice: Lattice,
    table: PaddedTable,
    first: int,
    last: int,
    rows: PaddedRows,
    log_z: NDArray[np.float64],
    lost: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Do the backward pass of a run; return its sequences by falling length."""
    by_length = first + np.argsort(-np.diff(lattice.offsets[first : last + 1]), kind="stable")
    unary_rows(lattice, bool(lattice.end.any()), (first, last), table.width, rows, log_z)
    backward_rows(table, lattice.offsets, by_length, rows, log_z, lost)
    return by_length


def _runs(table: PaddedTable, offsets: NDArray[np.int64], first: int, last: int) -> list[tuple[int, int]]:
    """Cut the sequences ``first:last`` into runs of enough cells and sequences."""
    runs: list[tuple[int, int]] = []
    for a, b in sequence_chunks(offsets[first : last + 1], max(1, RUN_CELLS // table.width)):
        if runs and runs[-1][1] - runs[-1][0] < RUN_SEQUENCES:
            runs[-1] = runs[-1][0], first + b
        else:
            runs.append((first + a, first + b))
    return runs


def _later(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions that are not the first of a sequence."""
    later = np.ones(offsets[-1] - offsets[0], np.bool_)
    later[offsets[:-1] - offsets[0]] = False
    positions: NDArray[np.int64] = offsets[0] + np.flatnonzero(later)
    return positions


@allocating
def unary_rows(
    lattice: Lattice,
    has_end: bool,  # whether some label may not close a sequence
    sequences: tuple[int, int],  # IN first, last
    width: int,  # P
    messages: PaddedRows,  # OUT u_t(k)
    log_z: NDArray[np.float64],  # OUT (n_sequences,) sum of the subtracted maxima; -inf if a position has no label
) -> None:
    """Fill exp(U_t(k) - max_k) of the sequences first:last.

    Running maxima go to and fro between two buffers: in place they would be conditional stores, which are not
    vectorised.
    """
    scores, end, labels, offsets = lattice.scores.reshape(-1), lattice.end, lattice.labels, lattice.offsets
    n_labels, origin, rows = end.size, messages.origin, messages.after
    tile, tops = np.zeros(n_labels * BLOCK, np.float32), np.empty(2 * BLOCK, np.float32)
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
        for i in range(n if has_end else 0):
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
    table: PaddedTable,
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    longest_first: NDArray[np.int64],  # IN (run,) sequences of the run, by falling length
    rows: PaddedRows,  # INOUT: u_t(k) in; b_t(c) (not of first positions) and w_t(k), over max b_t, out
    log_z: NDArray[np.float64],  # INOUT (n_sequences,) log b is added
    lost: NDArray[np.bool_],  # OUT (n_sequences,)
) -> None:
    """Do the backward pass of a run of sequences, all ends in one step, then all positions before them."""
    turned, start, least, origin = table.products[1], table.start, table.least, rows.origin
    before, after = rows.before, rows.after
    width, n_going, places = start.size, longest_first.size, np.empty(longest_first.size, np.int64)
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
    table: PaddedTable,
    offsets: NDArray[np.int64],  # IN (n_sequences + 1,)
    longest_first: NDArray[np.int64],  # IN (run,) sequences of the run, by falling length
    rows: PaddedRows,  # INOUT: b_t(c) and w_t(k) in; h_t(c) for b_t(c) (not of first positions) and f_t(k) out
) -> None:
    """Do the forward pass of a run of sequences, all first positions in one step, then all that follow them."""
    weights, start, origin = table.products[0], table.start, rows.origin
    before, after, node = rows.before, rows.after, rows.node
    width, n_going, step, places = start.size, longest_first.size, 0, np.empty(longest_first.size, np.int64)
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
    table: PaddedTable,
    messages: PaddedRows,  # IN f_t(k)
    positions: tuple[int, int],  # IN first, last
    cells: NDArray[np.float32],  # OUT (K * N,)
) -> None:
    """Write f of positions to a label-major array."""
    n_labels, width, origin, rows = table.n_labels, table.width, messages.origin, messages.node
    n_positions = cells.size // n_labels
    for first in range(positions[0], positions[1], BLOCK):
        n = min(BLOCK, positions[1] - first)
        for k in range(n_labels):
            at, to = U((first - origin) * width + k), U(k * n_positions + first)
            for i in range(n):
                cells[to + U(i)] = rows[at + U(i * width)]
