"""Forward-backward of a chunk of a factored model of order 1 with many labels: kernels put together, run by run.

Letters and rows as in :mod:`seqboost.chain.batched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.batched import BLOCK, backward_rows, forward_rows, rows_to_cells, unary_rows
from seqboost.chain.potentials import Potentials
from seqboost.chain.rowpairs import ALIKE, SUMMED, TOGETHER, row_bounds, row_sums, start_sums
from seqboost.chain.rowtables import RowTables
from seqboost.core.offsets import sequence_chunks

if TYPE_CHECKING:
    from seqboost.chain.forward_backward import PairMessages

__all__ = ["RowMessages", "add_row_sums", "rows_posterior"]

RUN_CELLS = 65536
RUN_SEQUENCES = 16
"""A run has at least so many cells (position, label), which stay in a near cache, and so many sequences."""


@dataclass(frozen=True, eq=False)
class RowMessages:
    """What is needed to rebuild P(y_{t-1}=c, y_t=k | X) of a chunk: ``before[t, c] * a(c, k) * after[t, k]``.

    Sequences that are lost in single precision have messages of their own.
    """

    first: int
    last: int
    tables: RowTables
    before: NDArray[np.float32]  # (chunk positions * P,) h_t(c)
    after: NDArray[np.float32]  # (chunk positions * P,) w_t(k)
    node: NDArray[np.float32]  # (chunk positions * P,) P(y_t=k | X)
    lost: NDArray[np.bool_]  # (chunk sequences,)
    others: list[PairMessages]


def rows_posterior(
    p: Potentials,
    first: int,
    last: int,
    observed: NDArray[np.int32],
    cells: NDArray[np.float32],
    log_z: NDArray[np.float64],
    taus: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
) -> RowMessages:
    """Fill marginals, log Z and, if asked, both contraction coefficients of the sequences that are not lost."""
    tables = p.row_tables
    width, origin = tables.width, int(p.offsets[first])
    n_cells = int(p.offsets[last] - origin) * width
    before, after, node = (np.empty(n_cells, np.float32) for _ in range(3))
    lost = np.zeros(p.n_sequences, np.bool_)
    tile, tops = np.zeros(p.n_labels * BLOCK, np.float32), np.empty(2 * BLOCK, np.float32)
    wide = tables.wide
    work, codes = np.empty((3, TOGETHER * wide), np.float32), np.empty((2, TOGETHER * wide), np.int16)
    end = p.end if p.end.any() else np.empty(0)
    sizes = (p.n_labels, width, origin)
    scores, lengths = p.scores.reshape(-1), np.diff(p.offsets)
    for a, b in _runs(p.offsets, first, last, max(1, RUN_CELLS // width)):
        longest_first = a + np.argsort(-lengths[a:b], kind="stable")
        places = np.empty(b - a, np.int64)
        unary_rows(scores, end, observed, p.offsets, (a, b), sizes, tile, tops, after, log_z)
        backward_rows(
            tables.products[1], tables.start, tables.least, p.offsets, longest_first, origin, places, before, after,
            log_z, lost,
        )  # fmt: skip
        forward_rows(tables.products[0], tables.start, p.offsets, longest_first, origin, places, before, after, node)
        begin, stop = p.offsets[a], p.offsets[b]
        rows_to_cells(node, (begin, stop), sizes, cells)
        if taus is not None:
            taus[0][p.offsets[a:b]] = taus[1][p.offsets[a:b]] = 0.0
            row_bounds(
                tables.products, tables.minima, (p.n_labels, width, wide, origin), _later(p.offsets[a : b + 1]),
                before, after, node, work, codes, taus[0], taus[1],
            )  # fmt: skip
    log_z[first:last] += tables.table_max * lengths[first:last]
    return RowMessages(first, last, tables, before, after, node, lost[first:last], [])


def add_row_sums(
    messages: RowMessages,
    offsets: NDArray[np.int64],
    mean_weight: NDArray[np.float64],
    variance_weight: NDArray[np.float64],
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> None:
    """Add the weighted sums of p and p(1 - p) over the positions of the sequences that are not lost."""
    tables, first, last = messages.tables, messages.first, messages.last
    n_labels, width, origin = tables.n_labels, tables.width, offsets[first]
    weights = np.stack([mean_weight[origin : offsets[last]], variance_weight[origin : offsets[last]]])
    used = np.repeat(~messages.lost, np.diff(offsets[first : last + 1])) & np.any(weights != 0.0, axis=0)
    if not used.any():
        return
    starts = offsets[first:last] - origin
    begins = starts[used[starts]]
    start_sums((n_labels, width), begins, weights[0, begins], weights[1, begins], messages.node, mean[0], variance[0])
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
    tables = messages.tables
    n_labels, width = tables.n_labels, tables.width
    ratio = variance_weight[rows] / mean_weight[rows]
    order = np.argsort(ratio, kind="stable")
    largest = np.minimum(np.arange(rows.size) // ALIKE * ALIKE + ALIKE - 1, rows.size - 1)
    row_sums(
        tables.weights, (n_labels, width), rows[order], mean_weight[rows[order]], ratio[order[largest]],
        messages.before, messages.after, messages.node,
        np.empty((SUMMED + 3) * width + SUMMED, np.float32), np.empty(n_labels + 1, np.int64),
        np.empty(2 * n_labels * width), mean, variance,
    )  # fmt: skip


def _runs(offsets: NDArray[np.int64], first: int, last: int, n_positions: int) -> list[tuple[int, int]]:
    """Cut the sequences first:last into runs of at least so many positions, and of a few sequences."""
    runs: list[tuple[int, int]] = []
    for a, b in sequence_chunks(offsets[first : last + 1], n_positions):
        if runs and runs[-1][1] - runs[-1][0] < RUN_SEQUENCES:
            runs[-1] = runs[-1][0], first + b
        else:
            runs.append((first + a, first + b))
    return runs


def _later(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions that are not the first of a sequence."""
    later = np.ones(offsets[-1] - offsets[0], np.bool_)
    later[offsets[:-1] - offsets[0]] = False
    return offsets[0] + np.flatnonzero(later)
