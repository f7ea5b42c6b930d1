"""One task of a shared tree's growth: histogram and best splits of two new nodes, for some of the features.

Two nodes come from a split: the *small* one is summed from its rows, the *large* one is what that leaves of their
parent, whose histogram becomes its own. The root comes alone, as a small one. For every node that is to be searched a
task leaves the best split it found, with its left set, and the grower keeps the best of all tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner_slicing, jit
from seqboost.core.missing import DIRECTION
from seqboost.trees.criterion import BOUNDARY_LEFT, FROM_TOP, MISSING_LEFT, Limits, gain_to_beat
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.integers import int64
from seqboost.trees.missing import Policies
from seqboost.trees.ordering import MIN_ROWS_OF_WIDE_CATEGORY
from seqboost.trees.shared_cells import Units, set_zero, subtract_from
from seqboost.trees.shared_histogram import FIRST, FIRST_CELL, LAST, OFFSET, SORT, add_rows, remove_rows, subtract_child
from seqboost.trees.shared_ordering import order_vectors
from seqboost.trees.shared_screen import UNSCREENED, can_screen, lay_prefixes, screen_line
from seqboost.trees.shared_splitting import (
    ABSENT,
    Scratch,
    VectorNode,
    count_contexts,
    count_rows,
    lay_slots,
    lay_values,
    node_gain,
    scan_line,
    start_side,
    sum_labels,
)
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["Finds", "Pair", "Sums", "search", "search_block"]


class Sums(NamedTuple):
    """What is known of the nodes, by slot."""

    cells: NDArray[np.int32]  # (n_slots, n_cells, 2 * n_labels) histograms
    counts: NDArray[np.int32]  # (n_slots, n_cells) positions
    contexts: NDArray[np.int32]  # (n_slots, n_extended, 2 * n_labels) sums per context


class Pair(NamedTuple):
    """The two nodes of a split, small and large."""

    slot: tuple[int, int]  # of their sums; the large one's is its parent's
    n: tuple[int, int]  # their fitted positions
    searched: tuple[bool, bool]  # whether a split of them is looked for
    has_large: bool
    same_rows: bool  # whether contexts were divided
    by_row: bool  # whether the small one's vectors stand by row
    first: int  # rows of the small one
    last: int
    total: NDArray[np.int32]  # (2, 2 * n_labels)
    mask: NDArray[np.bool_]  # (2, n_extended) contexts
    type_rows: NDArray[np.int64]  # (2, order + 1) fitted positions by type
    removed: NDArray[np.int32]  # rows of the parent that the large one does not hold, if contexts were divided
    drawn: NDArray[np.bool_]  # (2, n_window_features) features that each may use
    unit: int  # what one position of full weight counts


class Finds(NamedTuple):
    """The best splits that the tasks found for the small and the large node."""

    gain: NDArray[np.float64]  # (n_tasks, 2) −1: none
    kind: NDArray[np.int64]  # (n_tasks, 2)
    feature: NDArray[np.int64]  # (n_tasks, 2) place in Columns; offset · n_sparse + feature; or lag − 1
    left: NDArray[np.bool_]  # (n_tasks, 2, max_values) left sets


@jit
def search(
    dense: DenseColumns,
    sparse: SparseColumns,
    policies: Policies,
    space: Space,
    limits: Limits,
    units: Units,
    blocks: NDArray[np.int64],  # IN (n_blocks, N_BLOCK) features, in the order in which equal gains are preferred
    task: tuple[int, int, int],  # IN number of the task, its first block, its last
    pair: Pair,
    rows: NDArray[np.int32],  # IN positions
    vectors: NDArray[np.int32],  # IN (n_rows, 2 * n_labels)
    sums: Sums,  # IN/OUT
    scratch: Scratch,
    finds: Finds,  # OUT
) -> None:
    """Make the histograms of two nodes and find their best splits, for the features of some blocks."""
    small, large = pair.slot
    number, first_block, last_block = task
    for q in range(2):
        finds.gain[number, q] = -1.0
    for b in range(first_block, last_block):
        block = blocks[b]
        if block[SORT] != LAG:
            add_rows(
                dense, sparse, block, rows, pair.first, pair.last, vectors, pair.by_row, sums.cells[small],
                sums.counts[small],
            )  # fmt: skip
            if pair.has_large:
                subtract_child(
                    block, sums.cells[small], sums.counts[small], pair.same_rows, sums.cells[large], sums.counts[large]
                )
                if pair.same_rows:
                    remove_rows(dense, sparse, block, pair.removed, sums.counts[large])
        for q in range(2):
            if pair.searched[q]:
                search_block(
                    dense, sparse, policies, space, limits, units, block, pair, q, sums, scratch, finds, number
                )  # fmt: skip


@inlined
def search_block(
    dense: DenseColumns,
    sparse: SparseColumns,
    policies: Policies,
    space: Space,
    limits: Limits,
    units: Units,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    pair: Pair,
    q: int,  # IN which node
    sums: Sums,  # IN
    scratch: Scratch,
    finds: Finds,  # OUT
    number: int,  # IN of the task
) -> None:
    """Find the best split of one node among the features of a block.

    With a policy for missing values, a feature is searched in the node of those rows that have it.
    """
    slot, lam, alone = pair.slot[q], limits.l2_regularization, limits.one_against_rest
    whole = VectorNode(pair.total[q], int64(pair.n[q]), node_gain(pair.total[q], units))
    n_sparse, n_dense, kind = sparse.kind.size, dense.feature.size, block[SORT]
    cells, counts = sums.cells[slot], sums.counts[slot]
    if kind != LAG and whole.n < 2 * limits.min_samples_leaf:
        return
    for f in range(block[FIRST], block[LAST]):
        feature, start, n_cells = int64(f), int64(0), int64(0)
        ordered, min_count, flags, step, n_flags = True, int64(1), int64(0), int64(FROM_TOP), int64(FROM_TOP)
        if kind == DENSE:
            if not pair.drawn[q, f]:
                continue
            start, n_cells, ordered = dense.cell_start[f], int64(dense.n_values[f]) + 2, dense.kind[f] != 0
        elif kind == SPARSE:
            feature = block[OFFSET] * n_sparse + f
            if not (sparse.enabled[block[OFFSET], f] and pair.drawn[q, n_dense + feature]):
                continue
            start = block[FIRST_CELL] + sparse.slot_start[f] - sparse.slot_start[block[FIRST]]
            n_cells = int64(sparse.slot_start[f + 1]) - int64(sparse.slot_start[f])
            ordered, min_count = sparse.kind[f] != 0, int64(MIN_ROWS_OF_WIDE_CATEGORY) * int64(pair.unit)
        else:
            sum_labels(sums.contexts[slot], pair.mask[q], space, f, scratch)
            cells, counts, n_cells = scratch.lag_sums, scratch.lag_counts, int64(space.n_labels) + 1
        missing = start + n_cells - 2
        node, n_missing = whole, int64(0)
        has_policy = False
        if kind == DENSE:
            has_policy = policies.dense[f] != DIRECTION
        elif kind == SPARSE and sparse.missing[f] >= 0:
            has_policy = policies.sparse[f] != DIRECTION
            missing = start + int64(sparse.missing[f])
        if has_policy and counts[missing] > 0:
            n_missing = int64(counts[missing])
            subtract_from(whole.total, cells[missing], scratch.present)
            node = VectorNode(scratch.present, whole.n - n_missing, node_gain(scratch.present, units))
            counts[missing] = 0
        # The line, and how often it is scanned.
        if ordered:
            n = order_vectors(cells, counts, start, n_cells, min_count, node.total, units, lam, scratch.axes)
            n_flags = int64(FROM_TOP if alone or kind != SPARSE else 2 * FROM_TOP)
        elif kind == DENSE:
            n = lay_values(counts, start, n_cells - 2, scratch.axes.order)
            step = int64(MISSING_LEFT if counts[missing] > 0 else BOUNDARY_LEFT)
            n_flags = int64(2 * BOUNDARY_LEFT if counts[missing + 1] > 0 else BOUNDARY_LEFT)
        else:
            n = lay_slots(node, limits, cells, counts, start, n_cells, sparse.absent_rank[f], scratch)
        set_zero(scratch.base)
        is_alone = alone and ordered
        screens = can_screen(n, is_alone, limits)
        best, cut, best_flags = max(finds.gain[number, q], gain_to_beat(limits, whole.gain)), int64(-1), int64(0)
        while flags < n_flags and n > 0:
            from_top = flags == FROM_TOP
            if kind == LAG:
                count_contexts(pair.type_rows[q], n, alone, scratch)
            else:
                n_before = int64(0)
                if kind == DENSE and not ordered:
                    n_before = start_side(flags, cells, counts, missing, scratch.base)
                n_line = count_rows(node, counts, start, n, from_top, is_alone, n_before, scratch)
                if n_line == node.n and ordered:
                    n_flags = int64(FROM_TOP)
            end = int64(UNSCREENED)
            if screens:
                if flags == 0 or from_top:
                    lay_prefixes(cells, start, n, from_top, scratch)
                best, end = screen_line(best, node, limits, units, n, scratch)
            if end == UNSCREENED:
                best, end = scan_line(
                    best, node, limits, is_alone, units, cells, start, n, from_top, scratch
                )  # fmt: skip
            if end >= 0:
                cut, best_flags = end, flags
            flags += step
        if cut >= 0:
            left = finds.left[number, q]
            finds.gain[number, q], finds.kind[number, q], finds.feature[number, q] = best, kind, feature
            for v in range(256 if kind == DENSE else n_cells):
                left[v] = False
            if ordered:
                _write_categories(cut, n, best_flags == FROM_TOP, alone, scratch.axes.order, left)
            else:
                n_values = n_cells - 2 if kind == DENSE else n_cells
                _write_below(cut, scratch.axes.order, n_values, sparse.absent_rank[f] if kind == SPARSE else 0, left)
            if kind == DENSE:
                if not ordered:
                    left[n_cells - 2] = (best_flags & MISSING_LEFT) != 0
                    left[n_cells - 1] = (best_flags & BOUNDARY_LEFT) != 0
                _complete(counts, start, n_cells, node.n, ordered, left)
            elif has_policy:
                _send_missing(counts, start, n_cells, missing - start, node.n, left)
        if n_missing > 0:
            counts[missing] = n_missing


@inner_slicing
def _write_categories(
    cut: int,  # IN place on the line of the last value on the left side
    n: int,  # IN length of the line
    from_top: bool,  # IN
    alone: bool,  # IN whether that value is alone there
    line: NDArray[np.int64],  # IN (max_line,)
    left: NDArray[np.bool_],  # OUT (max_values,) all False
) -> None:
    """Write the categories up to the cut."""
    for r in range(cut if alone else 0, cut + 1):
        left[line[n - 1 - r if from_top else r]] = True


@inner_slicing
def _write_below(
    cut: int,  # IN place on the line of the last value on the low side
    line: NDArray[np.int64],  # IN (max_line,)
    n_values: int,  # IN
    absent_rank: int,  # IN
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> None:
    """Write the values up to the cut, whether the node holds them or not.

    If "absent", which always goes right, is among them, those above the cut are written.
    """
    low_has_absent = False
    for r in range(cut + 1):
        low_has_absent = low_has_absent or line[r] == ABSENT
    last = absent_rank - 1 if line[cut] == ABSENT else line[cut]
    for v in range(n_values):
        left[v] = (v <= last) != low_has_absent


@inner_slicing
def _send_missing(
    counts: NDArray[np.int32],  # IN (n_cells,)
    start: int,  # IN first cell of the feature
    n_slots: int,  # IN
    missing: int,  # IN the slot of missing values
    n: int,  # IN fitted positions that have a value
    left: NDArray[np.bool_],  # IN/OUT (max_values,)
) -> None:
    """Send the slot of missing values with the larger side."""
    n_left = int64(0)
    for v in range(n_slots):
        n_left += counts[start + v] if left[v] else 0
    left[missing] = 2 * n_left > n


@inner_slicing
def _complete(
    counts: NDArray[np.int32],  # IN (n_cells,)
    start: int,  # IN first cell of the feature
    n_cells: int,  # IN its number of cells
    n: int,  # IN fitted positions of the node
    categorical: bool,  # IN
    left: NDArray[np.bool_],  # IN/OUT (max_values,)
) -> None:
    """Send what this node does not hold with the larger side: categories, an unknown one, missing, boundary."""
    n_left = int64(0)
    for v in range(n_cells):
        n_left += counts[start + v] if left[v] else 0
    if 2 * n_left > n:
        left[n_cells] = left[n_cells] or categorical
        for v in range(0 if categorical else n_cells - 2, n_cells):
            left[v] = left[v] or counts[start + v] == 0
