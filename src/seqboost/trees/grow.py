"""Growing one tree, best split first, on the product space rows × contexts.

A node is a set of positions times a set of contexts and stays one: a window test divides its positions, a lag test its
contexts. A split makes two nodes. The *small* one is summed from its rows; the *large* one is what that leaves of their
parent, whose histogram becomes its own::

    split of rows       small child: fewer positions     new histogram        large child: parent − small
    split of contexts   small child: fewer contexts      new histogram        large child: parent − small

Positions that only the small child of a split of contexts holds, near the starts of sequences, have a lane of their own
(*lost*): the large child's number of positions is the parent's less those.

The growth is one loop that can be left and entered again (:func:`advance`)::

    CHOOSE    write known splits into the tree; divide the leaf with the largest gain  ──► DONE, MORE_ROOM
    MEASURE   sum the small children's rows
    REDUCE    with a reducer: the sums of all machines are added here                  ──► REDUCE
    SEARCH    large children; best splits of both, block by block of features          ──► SEARCH, on threads
    KEEP      the best of all tasks

With a reducer, children are measured *ahead* of need: whenever a leaf is to be split whose children are not known,
those of all leaves that may come to be split are measured in one batch, so that a tree takes about as many reductions
as it has levels. The tree is the same: splitting a leaf early changes nothing but the order of its rows, and the random
numbers of a node depend on its path alone.

With policies for missing values rows have weights (:mod:`seqboost.trees.partition`). A row's vector is multiplied by
its weight and rounded in each node anew, so that *parent − child = sibling* holds but for rounding; cells that no row
is left in are recognised by their counts, which are exact.

A histogram takes much memory with many bins and outputs, so not every leaf can keep its own. When no slot is free, the
leaf with the smallest gain gives up its histogram. Should it be split after all, both children are summed from their
rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inner, int64, jit, uint64
from seqboost.core.linking import call
from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.core.random import mix, random_below
from seqboost.trees.columns import Problem
from seqboost.trees.histogram import SORT
from seqboost.trees.intrinsics import add_lanes, add_rows_of_lanes
from seqboost.trees.nodes import (
    DEPTH,
    FITTED,
    LARGE,
    LEFT_CHILD,
    N_FREE,
    N_LEAVES,
    N_NODES,
    N_PENDING,
    PARENT,
    PHASE,
    RIGHT_CHILD,
    SAME_ROWS,
    SIZE,
    SLOT,
    SMALL,
    START,
    USED,
    WAITING,
    WANTED,
    WHOLE,
    Nodes,
    Weighted,
    Workspace,
    node_part,
)
from seqboost.trees.partition import (
    LEFT,
    RIGHT,
    divide_in_place,
    divide_to_end,
    find_surrogates,
    mark_contexts,
    mark_rows,
    send_by_surrogates,
)
from seqboost.trees.scan import Scratch
from seqboost.trees.split import fill_block, policy_of
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["DONE", "MORE_ROOM", "REDUCE", "SEARCH", "SHARES", "Turn", "advance"]

DONE, MORE_ROOM, REDUCE, SEARCH = 0, 1, 2, 3
"""Why :func:`advance` returns: the tree is grown; the segments must be made longer; sums must be reduced; blocks of
features must be searched."""

PLANT, CHOOSE, MEASURE, FINISH, KEEP = 0, 1, 2, 3, 4  # what comes next

SHARES = np.float32(1e-30), np.float32(1.0 - 2.0**-24)  # the smallest and the largest one
SMALLEST_SHARE, LARGEST_SHARE = SHARES


class Turn(NamedTuple):
    """What :func:`advance` is to do."""

    n_fitted: int  # positions the tree is fitted to, which come first in the segments
    n_rows: int  # all positions
    seed: np.uint64
    n_threaded: int  # rows of new nodes from which blocks are searched on threads
    search: int  # address of seqboost.trees.split.search


# --- random features -------------------------------------------------------------------------------------------------


@inner
def _draw_pool(
    nodes: Nodes,
    seed: np.uint64,  # IN
    n_pool: int,  # IN
) -> None:
    """Draw the window features that the nodes of a tree draw theirs from."""
    pool = nodes.pool
    for f in range(pool.size):
        pool[f] = f  # what is drawn depends on the seed alone, not on the trees this grower grew before
    for r in range(n_pool if n_pool < pool.size else 0):
        q = r + random_below(seed, int64(r), int64(pool.size - r))
        pool[r], pool[q] = pool[q], pool[r]


@inner
def _draw_features(
    nodes: Nodes,
    node: int,  # IN
    n_drawn: int,  # IN
    n_pool: int,  # IN
) -> None:
    """Draw the window features that a node may use, without replacement."""
    drawn, shuffled = nodes.drawn, nodes.shuffled
    n = min(n_pool, nodes.pool.size)
    for f in range(drawn.shape[1]):
        drawn[node, f] = False
    for r in range(n):
        shuffled[r] = nodes.pool[r]
    for r in range(min(n_drawn, n)):
        if n_drawn < n:
            q = r + random_below(nodes.key[node], int64(r), int64(n - r))
            shuffled[r], shuffled[q] = shuffled[q], shuffled[r]
        drawn[node, shuffled[r]] = True


# --- sums of a node --------------------------------------------------------------------------------------------------


@inner
def _has_types(
    mask: NDArray[np.bool_],  # IN (n_extended,)
    space: Space,
    has: NDArray[np.bool_],  # OUT (order + 1,)
) -> None:
    """Find the types of rows that have a context in a node."""
    for j in range(has.size):
        has[j] = False
    for e in range(mask.size):
        if mask[e]:
            has[space.type_of[e]] = True


@inner
def _weigh(x: np.int32, weight: float) -> np.int32:
    """Return an integer times a weight, rounded."""
    return np.int32(np.floor(x * weight + 0.5))


@inner
def _sum_vectors(
    space: Space,
    weighted: Weighted | None,
    work: Workspace,
    node: int,  # IN
    sibling: int,  # IN −1: every position is lost to it
) -> None:
    """Write the vectors of a node's rows: sums over its contexts, times weights."""
    nodes, rounded = work.nodes, work.rounded
    rows, row_type, mask, has = nodes.rows, space.row_type, nodes.mask[node], nodes.has[1]
    first, last = nodes.state[node, START], nodes.state[node, START] + nodes.state[node, FITTED]
    n_contexts, n_sums, lanes = rounded.cells.shape[1], 2 * work.units.weight.size, rounded.vectors.shape[1]
    cells, own = rounded.cells.reshape(-1), rounded.node_vectors.reshape(-1)
    for j in range(has.size):
        has[j] = False
    if sibling >= 0:
        _has_types(nodes.mask[sibling], space, has)
    # The contexts of rows of full type, which nearly all are.
    order, listed, n_listed = has.size - 1, nodes.listed, int64(0)
    is_full = True
    for e in range(mask.size):
        is_full = is_full and mask[e]
    for c in range(0 if is_full else listed.size):
        listed[n_listed] = c * n_sums
        n_listed += int64(mask[space.base[order] + c])
    for p in range(first, last):
        i = uint64(rows[p])
        j, place, at = row_type[i], uint64((p - first) * lanes), i * uint64(n_contexts * n_sums)
        n, weight = np.int32(1), np.float32(1.0)
        if weighted is not None:
            n, weight = weighted.units[p], weighted.weight[p]
        if n_sums == 2 and (is_full or j == order):  # one output
            g, h = np.int32(0), np.int32(0)
            if is_full:
                g, h = rounded.vectors[i, 0], rounded.vectors[i, 1]
            for q in range(n_listed):
                g += cells[at + uint64(listed[q])]
                h += cells[at + uint64(listed[q] + 1)]
            if weighted is not None:  # the weight 1 changes nothing
                g, h = _weigh(g, np.float64(weight)), _weigh(h, np.float64(weight))
            own[place], own[place + uint64(1)] = g, h
        else:
            for w in range(uint64(n_sums)):
                own[place + w] = rounded.vectors[i, w] if is_full else 0
            for q in range(n_listed if j == order else 0):
                add_lanes(own, cells, place, at + uint64(listed[q]), uint64(n_sums))
            for c in range(0 if j == order or is_full else space.n_contexts_of[j]):
                if mask[space.base[j] + c]:
                    add_lanes(own, cells, place, at + uint64(c * n_sums), uint64(n_sums))
            for w in range(uint64(n_sums) if weight != np.float32(1.0) else uint64(0)):
                own[place + w] = _weigh(own[place + w], np.float64(weight))
        own[place + uint64(n_sums)] = n
        own[place + uint64(n_sums + 1)] = 0 if has[j] else n


@inner
def _sum_contexts(
    space: Space,
    weighted: Weighted | None,
    work: Workspace,
    node: int,  # IN
    types: NDArray[np.int64],  # OUT (order + 1,) its positions by type
) -> None:
    """Sum a node's rows per extended context, of all contexts, whether they are the node's or not."""
    nodes, rounded = work.nodes, work.rounded
    rows, row_type, order = nodes.rows, space.row_type, space.base.size - 1
    sums, unit = work.sums.contexts[nodes.state[node, SLOT]].reshape(-1), int64(1)
    cells, n_sums = rounded.cells.reshape(-1), 2 * work.units.weight.size
    first, last = nodes.state[node, START], nodes.state[node, START] + nodes.state[node, FITTED]
    n_cells = uint64(rounded.cells.shape[1] * n_sums)
    for x in range(sums.size):
        sums[x] = 0
    for j in range(types.size):
        types[j] = 0
    if weighted is not None:
        unit = int64(weighted.unit)
    is_plain, p = weighted is None or nodes.state[node, WHOLE] != 0, uint64(first)
    while p < uint64(last):
        until = min(p + uint64(4), uint64(last))
        if is_plain and until == p + uint64(4):
            i0, i1 = uint64(rows[p]), uint64(rows[p + uint64(1)])
            i2, i3 = uint64(rows[p + uint64(2)]), uint64(rows[p + uint64(3)])
            if min(min(row_type[i0], row_type[i1]), min(row_type[i2], row_type[i3])) == order:
                places = (i0 * n_cells, i1 * n_cells, i2 * n_cells, i3 * n_cells)
                add_rows_of_lanes(sums, cells, uint64(space.base[order] * n_sums), places, n_cells)
                types[order] += int64(4) * unit
                p = until
                continue
        while p < until:
            i = uint64(rows[p])
            j = uint64(row_type[i])
            at = uint64(space.base[j] * n_sums)
            types[j] += unit if weighted is None else int64(weighted.units[p])
            if weighted is not None and weighted.weight[p] != np.float32(1.0):
                for w in range(n_cells):
                    sums[at + w] += _weigh(cells[i * n_cells + w], np.float64(weighted.weight[p]))
            else:  # contexts that a row does not have are zero
                add_lanes(sums, cells, at, i * n_cells, n_cells)
            p += uint64(1)


@inner
def _sum_rows(
    work: Workspace,
    node: int,  # IN
) -> None:
    """Sum the vectors of a node's rows."""
    total, part = work.nodes.total[node], node_part(work, node)
    vectors, lanes, first = part.vectors.reshape(-1), uint64(total.size), uint64(part.first)
    for w in range(total.size):
        total[w] = 0
    last_four = uint64(part.last - (part.last - part.first) % 4)
    for p in range(first, last_four, uint64(4)):
        if part.by_row:
            places = (
                lanes * uint64(part.rows[p]), lanes * uint64(part.rows[p + uint64(1)]),
                lanes * uint64(part.rows[p + uint64(2)]), lanes * uint64(part.rows[p + uint64(3)]),
            )  # fmt: skip
        else:
            place = lanes * (p - first)
            places = (place, place + lanes, place + uint64(2) * lanes, place + uint64(3) * lanes)
        add_rows_of_lanes(total, vectors, uint64(0), places, lanes)
    for p in range(last_four, uint64(part.last)):
        place = lanes * (uint64(part.rows[p]) if part.by_row else p - first)
        add_lanes(total, vectors, uint64(0), place, lanes)


@inner
def _measure(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    pair: NDArray[np.int64],  # IN (N_PAIR,)
) -> None:
    """Sum the small node of a pair from its rows, but for its histogram."""
    nodes, space, types = work.nodes, problem.space, work.nodes.type_rows
    small, order, total = pair[SMALL], types.shape[1] - 1, nodes.total[pair[SMALL]]
    is_whole, n_sums = nodes.state[small, WHOLE] != 0, 2 * work.units.weight.size
    by_context = pair[WANTED] and not pair[SAME_ROWS] and order > 0
    for j in range(order + 1):
        types[small, j] = 0
    if not is_whole:
        _sum_vectors(space, weighted, work, small, pair[LARGE] if pair[SAME_ROWS] else int64(-1))
    if by_context:
        _sum_contexts(space, weighted, work, small, types[small])
    if not (is_whole and by_context):
        _sum_rows(work, small)
        if order == 0:
            types[small, 0] = total[n_sums]
        return
    contexts = work.sums.contexts[nodes.state[small, SLOT]]
    for w in range(total.size):
        total[w] = 0
    for e in range(contexts.shape[0]):
        for w in range(n_sums):
            total[w] += contexts[e, w]
    for j in range(order + 1):
        total[n_sums] += types[small, j]
    total[n_sums + 1] = total[n_sums]


@inner
def _finish(
    space: Space,
    work: Workspace,
    pair: NDArray[np.int64],  # IN (N_PAIR,)
) -> None:
    """Give the large node of a pair what the small one leaves of their parent, but for its histogram."""
    nodes, contexts = work.nodes, work.sums.contexts
    small, large, parent = pair[SMALL], pair[LARGE], pair[PARENT]
    if large < 0:
        return
    total, types, n_lane = nodes.total, nodes.type_rows, 2 * work.units.weight.size
    for w in range(n_lane):
        total[large, w] = total[parent, w] - total[small, w]
    total[large, n_lane] = total[parent, n_lane] - total[small, n_lane + 1]
    if pair[SAME_ROWS]:
        _has_types(nodes.mask[small], space, nodes.has[0])
        _has_types(nodes.mask[large], space, nodes.has[1])
        for j in range(types.shape[1]):
            types[small, j] = types[parent, j] if nodes.has[0, j] else 0
            types[large, j] = types[parent, j] if nodes.has[1, j] else 0
    else:
        for j in range(types.shape[1]):
            types[large, j] = types[parent, j] - types[small, j]
    if not pair[WANTED] or contexts.shape[1] == 0:
        return
    here, there = nodes.state[small, SLOT], nodes.state[large, SLOT]
    for e in range(contexts.shape[1]):
        for w in range(contexts.shape[2]):
            if pair[SAME_ROWS]:  # both keep the sums per context; their masks tell whose they are
                contexts[here, e, w] = contexts[there, e, w]
            else:
                contexts[there, e, w] -= contexts[here, e, w]


# --- what the search found --------------------------------------------------------------------------------------------


@inner
def _keep_best(
    work: Workspace,
    node: int,  # IN
) -> None:
    """Keep the first of the best splits that the tasks found; a node without any needs no histogram."""
    nodes, finds = work.nodes, work.finds
    nodes.gain[node] = -1.0
    for task in range(finds.gain.shape[0]):
        if finds.gain[task, node] > nodes.gain[node]:
            nodes.gain[node], nodes.task[node] = finds.gain[task, node], task
    if nodes.gain[node] <= 0.0:
        _free_slot(nodes, node)


# --- slots -----------------------------------------------------------------------------------------------------------


@inner
def _free_slot(
    nodes: Nodes,
    node: int,  # IN
) -> None:
    """Take a node's histogram away."""
    if nodes.state[node, SLOT] >= 0:
        nodes.free[nodes.progress[N_FREE]] = nodes.state[node, SLOT]
        nodes.progress[N_FREE] += 1
        nodes.state[node, SLOT] = -1


@inner
def _take_slot(
    nodes: Nodes,
    node: int,  # IN
    kept: int,  # IN a node that keeps its slot; −1: none
) -> None:
    """Give a node a slot, if need be that of the leaf with the smallest gain."""
    progress, state = nodes.progress, nodes.state
    if progress[N_FREE] == 0:
        worst = int64(-1)
        for leaf in range(progress[N_LEAVES]):
            other = nodes.leaf_node[leaf]
            is_open = state[other, SLOT] >= 0 and state[other, LEFT_CHILD] == 0 and other not in (node, kept)
            if is_open and (worst < 0 or nodes.gain[other] < nodes.gain[worst]):
                worst = other
        _free_slot(nodes, worst)
    progress[N_FREE] -= 1
    state[node, SLOT] = nodes.free[progress[N_FREE]]


# --- splitting -------------------------------------------------------------------------------------------------------


@inner
def _divide_rows(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    node: int,  # IN
) -> None:
    """Divide the positions of a node by a window test."""
    nodes, finds = work.nodes, work.finds
    state, mark, rows, columns = nodes.state, nodes.mark, nodes.rows, problem.columns
    left, right, task = state[node, LEFT_CHILD], state[node, RIGHT_CHILD], nodes.task[node]
    split = finds.kind[task, node], finds.feature[task, node]
    goes_left = finds.left[task, node]
    first = state[node, START]
    fitted, last = first + state[node, FITTED], first + state[node, SIZE]
    for e in range(nodes.mask.shape[1]):
        nodes.mask[left, e] = nodes.mask[node, e]
        nodes.mask[right, e] = nodes.mask[node, e]
    if weighted is None:
        span = first, fitted, last
        if split[0] == DENSE:
            n_left, n_left_fitted = divide_in_place(columns.dense, split[1], goes_left, rows, nodes.spare, span)
        else:
            mark_rows(columns, split, goes_left, int64(-1), rows, first, last, mark)
            n_left, n_left_fitted = divide_in_place(None, int64(0), mark, rows, nodes.spare, span)
        state[left, START], state[left, SIZE], state[left, FITTED] = first, n_left, n_left_fitted
        state[right, START], state[right, SIZE] = first + n_left, last - first - n_left
        state[right, FITTED] = fitted - first - n_left_fitted
        return
    policy, missing = policy_of(columns.sparse, weighted, split[0], split[1]), int64(-1)
    if policy != DIRECTION:
        s = split[1] % max(columns.sparse.kind.size, 1)
        missing = int64(columns.dense.n_values[split[1]] if split[0] == DENSE else columns.sparse.missing[s])
    n_left, n_missing = mark_rows(columns, split, goes_left, missing, rows, first, last, mark)
    leaving = int64(LEFT if 2 * n_left + n_missing < last - first else RIGHT)
    share = np.float32(0.0)
    if policy == INSTANCE_WEIGHTING:
        share = np.float32(finds.n_left[task, node] / max(finds.n_left[task, node] + finds.n_right[task, node], 1))
        share = min(max(share, SMALLEST_SHARE), LARGEST_SHARE)
        if n_missing > 0:
            state[left, WHOLE], state[right, WHOLE] = 0, 0
    elif policy == SURROGATE:
        larger_left = goes_left[missing]
        find_surrogates(columns, weighted, split, node, rows, (first, fitted), larger_left, mark)
        if n_missing > 0:
            send_by_surrogates(columns, weighted, node, larger_left, rows, first, last, mark)
    weighted.detours.share[node] = share
    _move_rows(weighted, nodes, node, np.float64(share), leaving)


@inner
def _move_rows(
    weighted: Weighted | None,
    nodes: Nodes,
    node: int,  # IN
    share: float,  # IN as in ``divide_to_end``
    leaving: int,  # IN
) -> None:
    """Give both children of a node their marked positions, those of one at the end of the segments."""
    state, end = nodes.state, nodes.progress[USED]
    first = state[node, START]
    span = first, first + state[node, FITTED], first + state[node, SIZE]
    stays, leaves = state[node, LEFT_CHILD], state[node, RIGHT_CHILD]
    if leaving == LEFT:
        stays, leaves = leaves, stays
    state[stays, START], state[leaves, START] = first, end
    state[stays, SIZE], state[stays, FITTED], state[leaves, SIZE], state[leaves, FITTED] = divide_to_end(
        nodes.mark, nodes.rows, weighted, share, span, leaving, end
    )
    nodes.progress[USED] += state[leaves, SIZE]


@inner
def _divide_contexts(
    space: Space,
    weighted: Weighted | None,
    work: Workspace,
    node: int,  # IN
) -> tuple[int, int]:
    """Divide the contexts of a node by a lag test; return how many each child has."""
    nodes, finds = work.nodes, work.finds
    state, mask, task = nodes.state, nodes.mask, nodes.task[node]
    left, right = state[node, LEFT_CHILD], state[node, RIGHT_CHILD]
    n_left, n_right = int64(0), int64(0)
    for e in range(mask.shape[1]):
        goes_left = finds.left[task, node, space.lag_label[finds.feature[task, node], e]]
        mask[left, e] = mask[node, e] and goes_left
        mask[right, e] = mask[node, e] and not goes_left
        n_left += int64(mask[left, e])
        n_right += int64(mask[right, e])
    state[left, WHOLE], state[right, WHOLE] = 0, 0
    _has_types(mask[left], space, nodes.has[0])
    _has_types(mask[right], space, nodes.has[1])
    first = state[node, START]
    mark_contexts(space, nodes.has, nodes.rows, first, first + state[node, SIZE], nodes.mark)
    _move_rows(weighted, nodes, node, -1.0, int64(RIGHT))
    return n_left, n_right


@inner
def _expand(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    node: int,  # IN a leaf with a split
    wanted: bool,  # IN whether splits of its children may be needed
    ahead: bool | None,  # IN
) -> None:
    """Make the two children of a node; they are pending then."""
    nodes, limits = work.nodes, problem.limits
    state, progress, task = nodes.state, nodes.progress, nodes.task[node]
    is_lag = work.finds.kind[task, node] == LAG
    wanted = wanted and state[node, DEPTH] + 1 < limits.max_depth
    left, right = progress[N_NODES], progress[N_NODES] + 1
    progress[N_NODES] += 2
    state[node, LEFT_CHILD], state[node, RIGHT_CHILD] = left, right
    for side in range(2):
        child = left + side
        state[child, DEPTH], state[child, WHOLE] = state[node, DEPTH] + 1, state[node, WHOLE]
        state[child, SLOT], state[child, LEFT_CHILD] = -1, 0
        nodes.key[child] = mix(nodes.key[node] + np.uint64(1 + side))
        nodes.gain[child] = -1.0
        if wanted and nodes.drawn.shape[0] > 0:
            _draw_features(nodes, child, limits.n_drawn_features, limits.n_tree_features)
    if weighted is not None:
        weighted.detours.share[node] = 0.0
        weighted.detours.n[node] = 0
    if is_lag:
        n_left, n_right = _divide_contexts(problem.space, weighted, work, node)
        left_is_small = n_left < n_right
    else:
        _divide_rows(problem, weighted, work, node)
        left_is_small = work.finds.n_left[task, node] <= work.finds.n_right[task, node]
    small, large = (left, right) if left_is_small else (right, left)
    if wanted and state[node, SLOT] < 0:  # it gave its histogram up: both are summed from their rows
        _take_slot(nodes, small, int64(-1))
        _take_slot(nodes, large, small)
        _add_pending(nodes, small, int64(-1), node, False, wanted)
        if ahead is None:
            progress[WAITING] = large  # there is room for the vectors of one node's rows
        else:
            _add_pending(nodes, large, int64(-1), node, False, wanted)
        return
    if wanted:
        state[large, SLOT] = state[node, SLOT]
        state[node, SLOT] = -1
        _take_slot(nodes, small, large)
    else:
        _free_slot(nodes, node)
    _add_pending(nodes, small, large, node, is_lag, wanted)


@inner
def _add_pending(
    nodes: Nodes,
    small: int,  # IN
    large: int,  # IN
    parent: int,  # IN
    same_rows: bool,  # IN
    wanted: bool,  # IN
) -> None:
    """Have nodes measured."""
    pair = nodes.pending[nodes.progress[N_PENDING]]
    pair[SMALL], pair[LARGE], pair[PARENT], pair[SAME_ROWS], pair[WANTED] = small, large, parent, same_rows, wanted
    nodes.progress[N_PENDING] += 1


@inner
def _commit(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    leaf: int,  # IN
) -> None:
    """Write the split of a leaf into the tree: the left child keeps the leaf's number, the right one gets a new one."""
    nodes, splits, finds = work.nodes, work.splits, work.finds
    node, other = nodes.leaf_node[leaf], nodes.progress[N_LEAVES]
    number, task = other - 1, nodes.task[node]
    kind, feature, left = finds.kind[task, node], finds.feature[task, node], finds.left[task, node]
    n_values = int64(256)
    if kind == LAG:
        n_values = int64(problem.space.n_labels) + 1
    elif kind == SPARSE:
        s = feature % problem.columns.sparse.kind.size
        n_values = int64(problem.columns.sparse.slot_start[s + 1]) - int64(problem.columns.sparse.slot_start[s])
    splits.kind[number], splits.gain[number], splits.node[number] = kind, nodes.gain[node], node
    splits.feature[number] = feature + 1 if kind == LAG else feature
    n_rows = nodes.total[node, 2 * work.units.weight.size] if weighted is None else nodes.state[node, FITTED]
    splits.n_rows[number] = n_rows
    above = splits.parent[leaf]
    if above >= 0:
        if splits.left[above] == ~leaf:
            splits.left[above] = number
        else:
            splits.right[above] = number
    splits.left[number], splits.right[number] = ~leaf, ~other
    splits.parent[leaf], splits.parent[other] = number, number
    first = splits.word_start[number]
    n_words = (n_values + 63) // 64
    for w in range(n_words):
        splits.words[first + w] = 0
    for v in range(n_values):
        if left[v]:
            splits.words[first + v // 64] |= np.uint64(1) << np.uint64(v % 64)
    splits.word_start[number + 1] = first + n_words
    nodes.leaf_node[leaf], nodes.leaf_node[other] = nodes.state[node, LEFT_CHILD], nodes.state[node, RIGHT_CHILD]
    nodes.progress[N_LEAVES] += 1


# --- the loop --------------------------------------------------------------------------------------------------------


@inner
def _plant(
    problem: Problem,
    work: Workspace,
    turn: Turn,
) -> None:
    """Make the root, which is pending then."""
    nodes, limits = work.nodes, problem.limits
    state, progress = nodes.state, nodes.progress
    n_fitted, n_rows, seed = turn.n_fitted, turn.n_rows, turn.seed
    for q in range(nodes.free.size):
        nodes.free[q] = nodes.free.size - 1 - q
    progress[N_FREE] = nodes.free.size
    progress[N_NODES], progress[N_LEAVES], progress[USED] = 1, 1, n_rows
    progress[N_PENDING], progress[WAITING] = 0, 0
    state[0, START], state[0, SIZE], state[0, FITTED], state[0, DEPTH] = 0, n_rows, n_fitted, 0
    state[0, SLOT], state[0, LEFT_CHILD], state[0, WHOLE] = -1, 0, 1
    nodes.gain[0], nodes.leaf_node[0], nodes.key[0] = -1.0, 0, mix(seed)
    for e in range(nodes.mask.shape[1]):
        nodes.mask[0, e] = True
    work.splits.parent[0], work.splits.word_start[0] = -1, 0
    _draw_pool(nodes, seed, limits.n_tree_features)
    wanted = limits.max_leaf_nodes > 1 and limits.max_depth > 0
    if wanted and nodes.drawn.shape[0] > 0:
        _draw_features(nodes, int64(0), limits.n_drawn_features, limits.n_tree_features)
    if wanted:
        _take_slot(nodes, int64(0), int64(-1))
    _add_pending(nodes, int64(0), int64(-1), int64(-1), False, wanted)


@inner
def _best_leaf(
    nodes: Nodes,
) -> int:
    """Return the leaf with the largest gain, −1 if none can be split."""
    best, gain = int64(-1), 0.0
    for leaf in range(nodes.progress[N_LEAVES]):
        if nodes.gain[nodes.leaf_node[leaf]] > gain:
            best, gain = int64(leaf), nodes.gain[nodes.leaf_node[leaf]]
    return best


@inner
def _has_room(
    weighted: Weighted | None,
    work: Workspace,
    node: int,  # IN
) -> bool:
    """Return whether the segments have room for the children of a node."""
    nodes = work.nodes
    if weighted is None and work.finds.kind[nodes.task[node], node] != LAG:
        return True
    return bool(nodes.progress[USED] + nodes.state[node, SIZE] <= nodes.rows.size)


@inner
def _has_room_ahead(
    work: Workspace,
) -> bool:
    """Return whether the segments have room for the children of all leaves.

    Which leaves are split ahead must not depend on how many rows of them a machine holds.
    """
    nodes = work.nodes
    n_rows = nodes.progress[USED]
    for leaf in range(nodes.progress[N_LEAVES]):
        node = nodes.leaf_node[leaf]
        if nodes.gain[node] > 0.0 and work.finds.kind[nodes.task[node], node] == LAG:
            n_rows += nodes.state[node, SIZE] if nodes.state[node, LEFT_CHILD] == 0 else 0
    return bool(n_rows <= nodes.rows.size)


@inner
def _choose(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    ahead: bool | None,  # IN
) -> tuple[int, int]:
    """Write splits into the tree as long as the children of the best leaf are known.

    Return `MEASURE` and how many leaves are chosen to get children now, the best one first; or `DONE`, or `MORE_ROOM`.
    """
    nodes, limits = work.nodes, problem.limits
    while True:
        n_leaves, leaf = nodes.progress[N_LEAVES], _best_leaf(nodes)
        if n_leaves >= limits.max_leaf_nodes or leaf < 0:
            return int64(DONE), int64(0)
        node = nodes.leaf_node[leaf]
        if nodes.state[node, LEFT_CHILD] == 0:
            break
        _commit(problem, weighted, work, leaf)
    n_chosen = int64(1)
    has_room = _has_room(weighted, work, node)
    nodes.chosen[0] = node
    if ahead is not None:
        has_room = has_room and _has_room_ahead(work)
        n_chosen = _choose_ahead(nodes, limits.max_leaf_nodes - n_leaves) if has_room else n_chosen
    return (int64(MEASURE), n_chosen) if has_room else (int64(MORE_ROOM), int64(0))


@inner
def _choose_ahead(
    nodes: Nodes,
    n_more: int,  # IN splits that the tree may still have
) -> int:
    """Choose all leaves that may come to be split, as long as there are slots; return how many there are.

    The first is chosen already.
    """
    n = int64(1)
    n_free = nodes.progress[N_FREE] - (1 if nodes.state[nodes.chosen[0], SLOT] >= 0 else 2)
    for leaf in range(nodes.progress[N_LEAVES]):
        node = nodes.leaf_node[leaf]
        if nodes.gain[node] <= 0.0 or nodes.state[node, LEFT_CHILD] > 0 or node == nodes.chosen[0]:
            continue
        n_before = 0  # leaves that are split before this one
        for other in range(nodes.progress[N_LEAVES]):
            gain = nodes.gain[nodes.leaf_node[other]]
            n_before += gain > nodes.gain[node] or (gain == nodes.gain[node] and other < leaf)
        n_slots = 1 if nodes.state[node, SLOT] >= 0 else 2
        if n_before < n_more and n_slots <= n_free:
            nodes.chosen[n] = node
            n += 1
            n_free -= n_slots
    return n


@jit
def advance(
    problem: Problem,
    weighted: Weighted | None,
    work: Workspace,
    turn: Turn,
    ahead: bool | None,  # IN whether sums are reduced; None: they are not, and no code for it is compiled
    scratch: Scratch,
) -> int:
    """Grow a tree, or go on growing it; return `DONE`, `MORE_ROOM`, `REDUCE` or `SEARCH`."""
    nodes = work.nodes
    progress, pending = nodes.progress, nodes.pending
    while True:
        if progress[PHASE] == PLANT:
            _plant(problem, work, turn)
            progress[PHASE] = MEASURE
        if progress[PHASE] == CHOOSE and progress[WAITING] > 0:
            progress[N_PENDING], progress[PHASE] = 0, MEASURE
            _add_pending(nodes, progress[WAITING], int64(-1), int64(-1), False, True)
            progress[WAITING] = 0
        if progress[PHASE] == CHOOSE:
            progress[N_PENDING] = 0
            next_phase, n_chosen = _choose(problem, weighted, work, ahead)
            if next_phase != MEASURE:
                return next_phase
            wanted = ahead is not None or progress[N_LEAVES] + 1 < problem.limits.max_leaf_nodes
            for q in range(n_chosen):
                _expand(problem, weighted, work, nodes.chosen[q], wanted, ahead)
            progress[PHASE] = MEASURE
        if progress[PHASE] == MEASURE:
            progress[PHASE] = FINISH
            for q in range(progress[N_PENDING]):
                _measure(problem, weighted, work, pending[q])
                if ahead is not None:
                    for b in range(work.blocks.shape[0] if pending[q, WANTED] else 0):
                        if work.blocks[b, SORT] != LAG:
                            fill_block(problem.columns, work, work.blocks[b], pending[q, SMALL], np.bool_(True))
            if ahead is not None:
                return REDUCE
        if progress[PHASE] == FINISH:
            progress[PHASE] = KEEP
            n_rows = 0
            for q in range(progress[N_PENDING]):
                _finish(problem.space, work, pending[q])
                n_rows += nodes.state[pending[q, SMALL], FITTED] if pending[q, WANTED] else 0
            if n_rows >= turn.n_threaded:
                return SEARCH
            task = int64(0), int64(0), int64(work.blocks.shape[0])
            call(turn.search, (problem, weighted, work, task, ahead is not None, scratch))
            for task_ in range(1, work.finds.gain.shape[0]):
                for q in range(progress[N_PENDING]):
                    for node in (pending[q, SMALL], pending[q, LARGE]):
                        if node >= 0:
                            work.finds.gain[task_, node] = -1.0
        if progress[PHASE] == KEEP:
            for q in range(progress[N_PENDING]):
                for node in (pending[q, SMALL], pending[q, LARGE]):
                    if node >= 0:
                        _keep_best(work, node)
            progress[PHASE] = CHOOSE
