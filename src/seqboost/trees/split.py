"""The best split of a node, and the values that it sends left.

* numeric feature: every threshold, with missing values and the boundary each tried on both sides;
* categorical feature: categories (missing and boundary are two of them) in the order of :mod:`seqboost.trees.order`,
  then every prefix; or each category against the rest;
* sparse feature: each slot present against absent, ordered slots by threshold, many categories by ordered subsets from
  either end: rare categories and unknown ones are on neither;
* lag: the labels at one lag (⊥ is one of them), like a categorical feature. Both sides of such a split hold the same
  positions, except where a side has no context of a position's type.

With a policy for missing values, a feature is searched in the node of those rows that have it,

    gain = Σ_k  G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) − G_pk²/(H_pk+λ),        G_p = G_l + G_r = G − G_missing
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner, int64, jit
from seqboost.core.missing import DIRECTION
from seqboost.trees.columns import Columns, Problem, SparseColumns
from seqboost.trees.histogram import (
    FIRST,
    FIRST_CELL,
    FIRST_COUNT,
    LAST,
    LAST_CELL,
    OFFSET,
    SORT,
    add_part,
    clear_block,
    subtract_block,
    take_part,
)
from seqboost.trees.nodes import (
    FITTED,
    LARGE,
    N_PENDING,
    SAME_ROWS,
    SLOT,
    SMALL,
    WANTED,
    Weighted,
    Workspace,
    node_part,
)
from seqboost.trees.order import MIN_ROWS_OF_WIDE_CATEGORY, order_categories
from seqboost.trees.scan import ABSENT, Line, Scratch, SearchNode, best_prefix, gain_to_beat, node_gain
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["fill_block", "policy_of", "search"]

# Which sides of a line are tried, beside the line itself: specials of a numeric feature on the left side; or the line
# from its end.
MISSING_LEFT, BOUNDARY_LEFT, FROM_TOP = 1, 2, 4

ENTRIES_PER_CELL = 2  # a few rows are taken out of a parent's histogram one by one, many by a subtraction of all cells
LANES_PER_ROW = 8  # with fewer rows than 1 for each 8 lanes of the line, it pays to leave out values that no row has


@inner
def policy_of(sparse: SparseColumns, weighted: Weighted, kind: int, feature: int) -> int:
    """Return the policy of a split's feature."""
    if kind == DENSE:
        return int64(weighted.policies.dense[feature])
    if kind == LAG:
        return int64(DIRECTION)
    s = feature % sparse.kind.size
    return int64(weighted.policies.sparse[s]) if sparse.missing[s] >= 0 else int64(DIRECTION)


@jit
def search(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    task: tuple[int, int, int],  # IN its number, first and last block
    is_measured: bool,  # IN whether small nodes have their histograms already
    scratch: Scratch,
) -> None:
    """Make the histograms of pending nodes and find their best splits, for the features of some blocks."""
    nodes, (number, first, last) = work.nodes, task
    for q in range(nodes.progress[N_PENDING]):
        pair = nodes.pending[q]
        for node in (pair[SMALL], pair[LARGE]):
            if node >= 0:
                work.finds.gain[number, node] = -1.0
        if not pair[WANTED]:
            continue
        for b in range(first, last):
            block = work.blocks[b]
            if block[SORT] != LAG:
                _divide_block(problem, work, block, pair, is_measured)
            for node in (pair[SMALL], pair[LARGE]):
                if node >= 0:
                    _search_block(problem, weighted, work, block, node, number, scratch)


@inner
def fill_block(
    columns: Columns,
    work: Workspace,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    node: int,  # IN
    all_lanes: bool | np.bool_,  # IN
) -> None:
    """Make the histogram of a node from its rows, for a block of features."""
    slot, n_lane = work.nodes.state[node, SLOT], int64(2 * work.units.weight.size)
    cells, counts = work.sums.cells[slot], work.sums.counts[slot]
    clear_block(block, all_lanes, cells, counts)
    add_part(columns, block, node_part(work, node), n_lane, cells, counts)


@inner
def _divide_block(
    problem: Problem,
    work: Workspace,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    pair: NDArray[np.int64],  # IN (N_PAIR,)
    is_measured: bool,  # IN whether the small node has its histogram already
) -> None:
    """Make the histograms of a pair of nodes, as far as a split of rows may be found in them."""
    columns, state, total, sums = problem.columns, work.nodes.state, work.nodes.total, work.sums
    small, large, n_lane = pair[SMALL], pair[LARGE], 2 * work.units.weight.size
    lanes = (int64(n_lane), int64(n_lane + 1))
    least = 2 * problem.limits.min_samples_leaf
    wants_small = total[small, n_lane] >= least
    wants_large = large >= 0 and total[max(large, 0), n_lane] >= least
    here, there = state[small, SLOT], state[max(large, 0), SLOT]
    if wants_small and not is_measured:
        fill_block(columns, work, block, small, np.bool_(False))
    if wants_large:
        n_entries = state[small, FITTED] * (block[LAST] - block[FIRST] if block[SORT] == DENSE else 1)
        is_few = ENTRIES_PER_CELL * n_entries < block[LAST_CELL] - block[FIRST_CELL]
        if is_measured or (wants_small and not is_few):
            subtract_block(
                block, sums.cells[here], sums.counts[here], lanes, pair[SAME_ROWS] != 0, sums.cells[there],
                sums.counts[there],
            )  # fmt: skip
        else:
            take_part(columns, block, node_part(work, small), lanes, sums.cells[there], sums.counts[there])


@inner
def _search_block(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    block: NDArray[np.int64],  # IN (N_BLOCK,)
    node: int,  # IN
    number: int,  # IN of the task
    scratch: Scratch,
) -> None:
    """Find the best split of a node among the features of a block, if it is better than what the task found before."""
    dense, sparse, space, limits = problem.columns.dense, problem.columns.sparse, problem.space, problem.limits
    units, sums, finds, kind = work.units, work.sums, work.finds, block[SORT]
    slot, lam, alone = work.nodes.state[node, SLOT], limits.l2_regularization, limits.one_against_rest
    total, n_lane = work.nodes.total[node], 2 * units.weight.size
    whole = SearchNode(total, int64(total[n_lane]), node_gain(total, units))
    n_sparse, n_dense = sparse.kind.size, dense.displacement.size
    cells, counts, drawn = sums.cells[slot], scratch.counts, work.nodes.drawn
    # Values that no row has are left out of lines longer than this, and of all where rounding may leave sums in them.
    longest = LANES_PER_ROW * work.nodes.state[node, FITTED] // total.size if weighted is None else 0
    if kind != LAG and whole.n < 2 * limits.min_samples_leaf:
        return
    for f in range(block[FIRST], block[LAST]):
        feature, start, n_cells, first_counted = int64(f), int64(0), int64(0), int64(0)
        ordered, min_count = True, int64(1)
        if kind == DENSE:
            start, n_cells, ordered = dense.cell_start[f], int64(dense.n_values[f]) + 2, dense.kind[f] != 0
            if drawn.shape[0] > 0 and not drawn[node, f]:
                continue
            first_counted = int64(0) if ordered or n_cells > longest else n_cells - 2
            _count_values(cells, start, n_lane, first_counted, n_cells, counts)
        elif kind == SPARSE:
            feature = block[OFFSET] * n_sparse + f
            place = int64(sparse.slot_start[f]) - int64(sparse.slot_start[block[FIRST]])
            start, n_cells = block[FIRST_CELL] + place, int64(sparse.slot_start[f + 1]) - int64(sparse.slot_start[f])
            ordered, min_count = sparse.kind[f] != 0, int64(MIN_ROWS_OF_WIDE_CATEGORY)
            if weighted is not None:
                min_count *= weighted.unit
            if not sparse.enabled[block[OFFSET], f] or (drawn.shape[0] > 0 and not drawn[node, n_dense + feature]):
                continue
            for v in range(n_cells):
                counts[v] = sums.counts[slot, block[FIRST_COUNT] + place + v]
        else:
            _sum_labels(sums.contexts[slot], work.nodes.mask[node], space, f, scratch)
            cells, n_cells = scratch.lag_sums, int64(space.n_labels) + 1
        # Rows that have the feature.
        here, missing, has_policy = whole, n_cells - 2, False
        if weighted is not None and kind != LAG:
            has_policy = policy_of(sparse, weighted, kind, feature) != DIRECTION
            if kind == SPARSE:
                missing = max(int64(sparse.missing[f]), 0)
            if has_policy and counts[missing] > 0:
                for w in range(total.size):
                    scratch.present[w] = total[w] - cells[start + missing, w]
                here = SearchNode(scratch.present, whole.n - counts[missing], node_gain(scratch.present, units))
                counts[missing] = 0
        # The line, and how often it is scanned.
        step, n_flags, has_absent, first = int64(FROM_TOP), int64(FROM_TOP), False, int64(-1)
        if ordered:
            n = order_categories(cells, (start, n_cells), min_count, here.total, units, lam, scratch)
            if kind == SPARSE and not alone and _count(n, scratch) < here.n:
                n_flags = int64(2 * FROM_TOP)
        elif kind == DENSE:
            n, first = _lay_values(cells, start, n_cells - 2, n_lane, first_counted == 0, scratch)
            step = int64(MISSING_LEFT if counts[missing] > 0 else BOUNDARY_LEFT)
            n_flags = int64(2 * BOUNDARY_LEFT if counts[missing + 1] > 0 else BOUNDARY_LEFT)
        else:
            span = start, n_cells, int64(sparse.absent_rank[f])
            n, has_absent = _lay_slots(here, limits.min_samples_leaf, cells, span, scratch), n_cells > 1
        if kind == LAG:
            _count_contexts(work.nodes.type_rows[node], n, alone, scratch)
        for w in range(total.size):
            scratch.base[w] = 0
        best, cut, best_flags = max(finds.gain[number, node], gain_to_beat(limits, whole.gain)), int64(-1), int64(0)
        flags = int64(0)
        while flags < n_flags and n > 0:
            from_top = flags == FROM_TOP
            if flags > 0 and not from_top:
                _start_side(flags, cells, start + missing, scratch.base)
            line = Line(start, n, first, from_top, alone and ordered, has_absent, kind == LAG)
            best, end = best_prefix(best, here, limits, units, cells, line, flags > 0 and not from_top, scratch)
            if end >= 0:
                cut, best_flags = end, flags
            flags += step
        if cut < 0:
            continue
        left = finds.left[number, node]
        finds.gain[number, node], finds.kind[number, node], finds.feature[number, node] = best, kind, feature
        rank = int64(sparse.absent_rank[f]) if kind == SPARSE else int64(0)
        _write_left((kind == DENSE, ordered, alone), (n, first, cut), best_flags, n_cells, rank, scratch.line, left)
        _count_values(cells, start, n_lane, int64(0), first_counted, counts)
        n_left = int64(0)
        for v in range(n_cells):
            n_left += counts[v] if left[v] else 0
        finds.n_left[number, node], finds.n_right[number, node] = n_left, here.n - n_left
        if kind == DENSE:
            if ordered:
                _count_values(cells, start, n_lane, n_cells, n_cells + 1, counts)  # those unknown to the binner
            _complete(counts, n_cells, 2 * n_left > here.n, ordered, left)
        elif has_policy:
            left[missing] = 2 * n_left > here.n  # with the larger side


@inner
def _count_values(
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    start: int,  # IN first cell of the feature
    lane: int,  # IN that of positions
    first: int,  # IN values
    last: int,  # IN
    counts: NDArray[np.int32],  # OUT (max_line,)
) -> None:
    """Write the positions of some values of a dense feature side by side."""
    flat, width = cells.reshape(-1), np.uint64(cells.shape[1])
    at = np.uint64(start) * width + np.uint64(lane)
    for v in range(np.uint64(first), np.uint64(last)):
        counts[v] = flat[at + v * width]


@inner
def _count(
    n: int,  # IN length of the line
    scratch: Scratch,  # IN line and counts
) -> int:
    """Count the positions of the values on a line."""
    total = int64(0)
    for r in range(n):
        total += scratch.counts[scratch.line[r]]
    return total


@inner
def _lay_values(
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    start: int,  # IN first cell of the feature
    n_values: int,  # IN
    lane: int,  # IN that of positions
    by_count: bool,  # IN whether values without positions are left out: then Scratch.counts are known
    scratch: Scratch,  # OUT line
) -> tuple[int, int]:
    """Put the values of a numeric feature on the line; return their number, and the first one if all follow it.

    A value without positions repeats the split before it and does not beat it. The first value has positions: missing
    values and the boundary alone are no left side.
    """
    line, counts = scratch.line, scratch.counts
    if by_count:
        n = np.uint64(0)
        for v in range(np.uint64(n_values)):
            line[n] = v
            n += np.uint64(counts[v] > 0)
        return int64(n), int64(-1)
    first = int64(0)
    while first < n_values and cells[start + first, lane] == 0:
        first += 1
    return n_values - first, first


@inner
def _lay_slots(
    node: SearchNode,
    least: int,  # IN positions that each side needs
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    span: tuple[int, int, int],  # IN first cell of the feature, its slots, rank of "absent"
    scratch: Scratch,  # IN counts, OUT line and sums of absent
) -> int:
    """Put ordered slots on the line, and "absent" at its rank; return their number, 0 if no split is possible."""
    line, counts, (start, n_slots, absent_rank) = scratch.line, scratch.counts, span
    n_carried = int64(0)
    for s in range(n_slots):
        n_carried += counts[s]
    # Found from the counts alone, the usual case: nobody carries the feature, or too few do, or too many.
    if n_carried == 0 or (n_slots == 1 and min(n_carried, node.n - n_carried) < least):
        return int64(0)
    if n_slots == 1:  # absent is all the rest
        line[0] = 0
        return int64(1)
    absent = scratch.absent
    for w in range(absent.size):
        absent[w] = node.total[w]
    n = int64(0)
    for s in range(n_slots + 1):
        if s == absent_rank:
            line[n] = ABSENT
            n += 1
        if s < n_slots and counts[s] > 0:
            line[n] = s
            n += 1
            for w in range(absent.size):
                absent[w] -= cells[start + s, w]
    return n


@inner
def _start_side(
    flags: int,  # IN MISSING_LEFT, BOUNDARY_LEFT
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    missing: int,  # IN cell of missing values; that of the boundary follows
    base: NDArray[np.int32],  # OUT (n_lanes,)
) -> None:
    """Put missing values and the boundary on the left side, as far as flags say."""
    for w in range(base.size):
        base[w] = 0
        if flags & MISSING_LEFT:
            base[w] += cells[missing, w]
        if flags & BOUNDARY_LEFT:
            base[w] += cells[missing + 1, w]


@inner
def _sum_labels(
    contexts: NDArray[np.int32],  # IN (n_extended, 2 * n_outputs)
    mask: NDArray[np.bool_],  # IN (n_extended,) the node's contexts
    space: Space,
    lag: int,  # IN lag − 1
    scratch: Scratch,  # OUT lag_sums, lag_contexts, counts: contexts of each label
) -> None:
    """Sum the node's contexts by their label at a lag."""
    for v in range(scratch.lag_sums.shape[0]):
        scratch.counts[v] = 0
        for w in range(scratch.lag_sums.shape[1]):
            scratch.lag_sums[v, w] = 0
        for j in range(scratch.lag_contexts.shape[1]):
            scratch.lag_contexts[v, j] = 0
    for e in range(mask.size):
        if mask[e]:
            v = space.lag_label[lag, e]
            for w in range(contexts.shape[1]):
                scratch.lag_sums[v, w] += contexts[e, w]
            scratch.counts[v] += 1
            scratch.lag_contexts[v, space.type_of[e]] += 1


@inner
def _count_contexts(
    type_rows: NDArray[np.int64],  # IN (order + 1,) positions of each type
    n: int,  # IN length of the line
    alone: bool,  # IN
    scratch: Scratch,  # IN line and lag_contexts, OUT n_left and n_right
) -> None:
    """Write the positions on both sides of every split of labels at a lag."""
    line, present = scratch.line, scratch.lag_contexts
    for r in range(n):
        scratch.n_left[r] = 0
        scratch.n_right[r] = 0
    for j in range(type_rows.size):
        total = int64(0)
        for r in range(n):
            total += present[line[r], j]
        on_left = int64(0)
        for r in range(n):
            on_left = (0 if alone else on_left) + present[line[r], j]
            scratch.n_left[r] += type_rows[j] if on_left > 0 else 0
            scratch.n_right[r] += type_rows[j] if total > on_left else 0


@inner
def _write_left(
    kind: tuple[bool, bool, bool],  # IN whether the feature is dense, whether ordered, whether values are tried alone
    line: tuple[int, int, int],  # IN its length, its first value (−1: they are in ``values``), and where it is cut
    flags: int,  # IN which side specials are on, or whether the line begins at its end
    n_cells: int,  # IN cells of the feature
    absent_rank: int,  # IN
    values: NDArray[np.int64],  # IN (max_line,)
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> None:
    """Write the values on the left side: up to the cut, or the one at it if values are tried alone."""
    (is_dense, ordered, alone), (n, first, cut) = kind, line
    for v in range(256 if is_dense else n_cells):
        left[v] = False
    if ordered:
        for r in range(cut if alone else 0, cut + 1):
            left[values[n - 1 - r if flags == FROM_TOP else r]] = True
        return
    _write_below(cut, first, n_cells - 2 if is_dense else n_cells, absent_rank, values, left)
    if is_dense:
        left[n_cells - 2], left[n_cells - 1] = flags & MISSING_LEFT, flags & BOUNDARY_LEFT


@inner
def _write_below(
    cut: int,  # IN place on the line of the last value on the low side
    first: int,  # IN as in ``Line``
    n_values: int,  # IN
    absent_rank: int,  # IN
    line: NDArray[np.int64],  # IN (max_line,)
    left: NDArray[np.bool_],  # OUT (max_values,)
) -> None:
    """Write the values up to the cut, whether the node holds them or not.

    If "absent", which always goes right, is among them, those above the cut are written.
    """
    low_has_absent, last = False, first + cut
    if first < 0:
        for r in range(cut + 1):
            low_has_absent = low_has_absent or line[r] == ABSENT
        last = absent_rank - 1 if line[cut] == ABSENT else line[cut]
    for v in range(n_values):
        left[v] = (v <= last) != low_has_absent


@inner
def _complete(
    counts: NDArray[np.int32],  # IN (max_line,)
    n_cells: int,  # IN cells of the feature
    larger_left: bool,  # IN
    categorical: bool,  # IN
    left: NDArray[np.bool_],  # IN/OUT (max_values,)
) -> None:
    """Send what this node does not hold with the larger side: categories, an unknown one, missing, boundary."""
    if larger_left:
        for v in range(0 if categorical else n_cells - 2, n_cells + 1 if categorical else n_cells):
            left[v] = left[v] or counts[v] == 0
