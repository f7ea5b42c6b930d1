"""What a growing tree writes to: allocated once per grower, used for every tree.

Nodes are numbered as they are made, the root is 0. A node is a set of positions times a set of contexts. Its positions
are a segment of one array, those that the tree is fitted to first, in rising order, then those that only ride along
(held-out sequences) and have no derivatives::

    [ fitted ........ | riders .... ][ fitted ... | riders . ] ...
      node 1                           node 2
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner
from seqboost.trees.columns import Policies, Problem
from seqboost.trees.histogram import Part, Sums
from seqboost.trees.quantise import Rounded, Units, n_lanes
from seqboost.trees.scan import STRIDE, Scratch

__all__ = ["Detours", "Finds", "Nodes", "Ranking", "Splits", "Weighted", "Workspace", "histogram_slots"]

CACHE_LINE = 64
HISTOGRAM_BYTES = 256 * 2**20  # of all live histograms
MIN_SLOTS = 2  # the two nodes of a split

# Columns of Nodes.state: segment, fitted positions, depth, slot of the histogram (−1: none), children (0: none), and
# whether the node holds all contexts of its rows, with full weight.
START, SIZE, FITTED, DEPTH, SLOT, LEFT_CHILD, RIGHT_CHILD, WHOLE, N_STATE = range(9)

# Places in Nodes.progress: what comes next, nodes, leaves, used part of the segments, pairs to be measured, a node that
# is measured after them (0: none), free slots.
PHASE, N_NODES, N_LEAVES, USED, N_PENDING, WAITING, N_FREE, N_PROGRESS = range(8)

# Columns of Nodes.pending: a node that is summed from its rows, the sibling that gets what remains of their parent (−1:
# none), the parent, whether contexts were divided, whether splits of the two are looked for.
SMALL, LARGE, PARENT, SAME_ROWS, WANTED, N_PAIR = range(6)


class Nodes(NamedTuple):
    """Nodes of the tree so far, and those that are measured ahead."""

    state: NDArray[np.int64]  # (max_nodes, N_STATE)
    key: NDArray[np.uint64]  # (max_nodes,) of the random numbers of a node
    gain: NDArray[np.float64]  # (max_nodes,) of the best split; < 0: there is none
    task: NDArray[np.int64]  # (max_nodes,) which found it
    total: NDArray[np.int32]  # (max_nodes, n_lanes)
    mask: NDArray[np.bool_]  # (max_nodes, n_extended) contexts
    type_rows: NDArray[np.int64]  # (max_nodes, order + 1) fitted positions of each type
    drawn: NDArray[np.bool_]  # (max_nodes, n_window_features) features a node may use; no rows: all of them
    leaf_node: NDArray[np.int64]  # (max_leaves,) node of each leaf
    chosen: NDArray[np.int64]  # (max_leaves,) nodes that get children
    rows: NDArray[np.int32]  # (room,) segments
    spare: NDArray[np.int32]  # (n_rows,)
    mark: NDArray[np.uint8]  # (n_rows,) where the positions of a node go
    pending: NDArray[np.int64]  # (max_pairs, N_PAIR)
    free: NDArray[np.int64]  # (n_slots,) free slots
    pool: NDArray[np.int64]  # (n_window_features,) those of the tree come first
    shuffled: NDArray[np.int64]  # (n_window_features,)
    has: NDArray[np.bool_]  # (2, order + 1) types that have a context in the left and right child
    listed: NDArray[np.int64]  # (n_contexts,) contexts of a node
    progress: NDArray[np.int64]  # (N_PROGRESS,)


class Finds(NamedTuple):
    """The best splits that the tasks found."""

    gain: NDArray[np.float64]  # (n_tasks, max_nodes) −1: none
    kind: NDArray[np.int64]  # (n_tasks, max_nodes)
    feature: NDArray[np.int64]  # (n_tasks, max_nodes) dense; offset · n_sparse + sparse; or lag − 1
    n_left: NDArray[np.int64]  # (n_tasks, max_nodes) positions with a value that go left
    n_right: NDArray[np.int64]  # (n_tasks, max_nodes)
    left: NDArray[np.bool_]  # (n_tasks, max_nodes, max_values) left sets


class Splits(NamedTuple):
    """The tree so far, as in :class:`~seqboost.trees.tree.Tree`."""

    kind: NDArray[np.uint8]
    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gain: NDArray[np.float32]
    n_rows: NDArray[np.int32]
    word_start: NDArray[np.int32]
    words: NDArray[np.uint64]
    parent: NDArray[np.int64]  # (max_leaves,) split above a leaf, −1 for the root
    node: NDArray[np.int64]  # (max_leaves,) node of each split


class Detours(NamedTuple):
    """Shares and surrogates of the nodes' splits, as in :class:`~seqboost.trees.tree.Routes`."""

    share: NDArray[np.float32]  # (max_nodes,)
    n: NDArray[np.int64]  # (max_nodes,) surrogates
    kind: NDArray[np.uint8]  # (max_nodes, n_surrogates)
    feature: NDArray[np.int32]  # (max_nodes, n_surrogates)
    left: NDArray[np.bool_]  # (max_nodes, n_surrogates, max_values)


class Ranking(NamedTuple):
    """The best surrogates found for a split, best first."""

    agreement: NDArray[np.float64]  # (n_surrogates,) A/W
    kind: NDArray[np.int64]  # (n_surrogates,)
    feature: NDArray[np.int64]  # (n_surrogates,)
    cut: NDArray[np.int64]  # (n_surrogates,) last value on the low side, or CATEGORIES
    low_left: NDArray[np.bool_]  # (n_surrogates,) whether the low side goes left


class Weighted(NamedTuple):
    """What growing with policies for missing values needs beside the rest."""

    policies: Policies
    weight: NDArray[np.float32]  # (room,) of the rows in the segments
    units: NDArray[np.int32]  # (room,) the same in fixed point
    unit: int  # the weight 1 in fixed point
    detours: Detours
    ranking: Ranking
    on_left: NDArray[np.int64]  # (n_cells,) weights by value of the positions that a split sends left
    on_right: NDArray[np.int64]  # (n_cells,)


class Workspace(NamedTuple):
    """All that the kernels of one growing tree write to."""

    units: Units
    rounded: Rounded
    nodes: Nodes
    sums: Sums
    finds: Finds
    splits: Splits
    blocks: NDArray[np.int64]  # (n_blocks, N_BLOCK) features


@inner
def node_part(work: Workspace, node: int) -> Part:
    """Return the fitted rows of a node, and where their vectors stand."""
    state, rounded = work.nodes.state, work.rounded
    first = state[node, START]
    by_row = state[node, WHOLE] != 0
    vectors = rounded.vectors if by_row else rounded.node_vectors
    return Part(work.nodes.rows, first, first + state[node, FITTED], vectors, by_row)


def histogram_slots(n_cells: int, bytes_per_cell: int, n_nodes: int) -> int:
    """Return how many histograms are kept at a time: one for each node, or as many as ``HISTOGRAM_BYTES`` allow."""
    affordable = HISTOGRAM_BYTES // max(1, n_cells * bytes_per_cell)
    return min(n_nodes, max(MIN_SLOTS, affordable))


def most_values(problem: Problem) -> int:
    """Return the size of the largest left set: codes, labels at a lag, or slots."""
    n_slots = int(np.diff(problem.columns.sparse.slot_start).max(initial=0))
    return max(256, problem.space.n_labels + 1, n_slots)


def new_nodes(problem: Problem, n_nodes: int, n_slots: int, n_outputs: int) -> Nodes:
    """Allocate the nodes of a tree."""
    columns, space, limits = problem
    n_rows, n_types, n_features = columns.n_rows, space.base.size, columns.n_features
    draws = min(limits.n_drawn_features, limits.n_tree_features) < n_features
    return Nodes(
        state=np.zeros((n_nodes, N_STATE), dtype=np.int64),
        key=np.zeros(n_nodes, dtype=np.uint64),
        gain=np.zeros(n_nodes),
        task=np.zeros(n_nodes, dtype=np.int64),
        total=np.zeros((n_nodes, n_lanes(n_outputs)), dtype=np.int32),
        mask=np.zeros((n_nodes, space.type_of.size), dtype=np.bool_),
        type_rows=np.zeros((n_nodes, n_types), dtype=np.int64),
        drawn=np.zeros((n_nodes if draws else 0, n_features), dtype=np.bool_),
        leaf_node=np.zeros(limits.max_leaf_nodes, dtype=np.int64),
        chosen=np.zeros(limits.max_leaf_nodes, dtype=np.int64),
        rows=np.empty(n_rows, dtype=np.int32),
        spare=np.empty(n_rows, dtype=np.int32),
        mark=np.empty(n_rows, dtype=np.uint8),
        pending=np.zeros((2 * limits.max_leaf_nodes + 1, N_PAIR), dtype=np.int64),
        free=np.zeros(n_slots, dtype=np.int64),
        pool=np.arange(n_features),
        shuffled=np.arange(n_features),
        has=np.zeros((2, n_types), dtype=np.bool_),
        listed=np.zeros(int(space.n_contexts_of[-1]), dtype=np.int64),
        progress=np.zeros(N_PROGRESS, dtype=np.int64),
    )


def aligned(shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    """Allocate zeros from the start of a cache line on: vectors that lie across two of them take longer to add to."""
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + n_bytes].view(dtype).reshape(shape)


def new_sums(problem: Problem, n_slots: int, n_outputs: int) -> Sums:
    """Allocate histograms and sums per context."""
    space, n_cells = problem.space, problem.columns.n_cells
    n_sparse = n_cells - int(problem.columns.dense.cell_start[-1])
    n_contexts = space.type_of.size if space.base.size > 1 else 0
    return Sums(
        cells=aligned((n_slots, -(-n_cells // 4) * 4, n_lanes(n_outputs)), np.int32),
        counts=np.empty((n_slots, n_sparse), dtype=np.int32),
        contexts=np.empty((n_slots, n_contexts, 2 * n_outputs), dtype=np.int32),
    )


def new_finds(problem: Problem, n_tasks: int, n_nodes: int) -> Finds:
    """Allocate what the tasks find."""
    shape = (n_tasks, n_nodes)
    return Finds(
        gain=np.empty(shape),
        kind=np.zeros(shape, dtype=np.int64),
        feature=np.zeros(shape, dtype=np.int64),
        n_left=np.zeros(shape, dtype=np.int64),
        n_right=np.zeros(shape, dtype=np.int64),
        left=np.zeros((*shape, most_values(problem)), dtype=np.bool_),
    )


def new_splits(problem: Problem) -> Splits:
    """Allocate the splits of a tree."""
    n = problem.limits.max_leaf_nodes
    return Splits(
        kind=np.zeros(n, dtype=np.uint8),
        feature=np.zeros(n, dtype=np.int32),
        left=np.zeros(n, dtype=np.int32),
        right=np.zeros(n, dtype=np.int32),
        gain=np.zeros(n, dtype=np.float32),
        n_rows=np.zeros(n, dtype=np.int32),
        word_start=np.zeros(n + 1, dtype=np.int32),
        words=np.zeros(n * -(-most_values(problem) // 64), dtype=np.uint64),
        parent=np.zeros(n, dtype=np.int64),
        node=np.zeros(n, dtype=np.int64),
    )


def new_scratch(problem: Problem, n_outputs: int) -> Scratch:
    """Allocate the buffers of one task."""
    (dense, sparse), space, _ = problem
    order, lanes = space.base.size - 1, n_lanes(n_outputs)
    n_lag_labels = space.n_labels + 1 if order else 0
    n_ordered = max(
        int((dense.n_values[dense.kind != 0] + 2).max(initial=0)),
        int(np.diff(sparse.slot_start)[sparse.kind != 0].max(initial=0)),
        n_lag_labels,
    )
    max_line = most_values(problem) + 1
    vectors = [np.zeros(lanes, dtype=np.int32) for _ in range(5)]
    bound = np.zeros(STRIDE, dtype=np.float32)
    return Scratch(
        line=np.empty(max_line, dtype=np.int64),
        counts=np.empty(max_line, dtype=np.int32),
        n_left=np.empty(n_lag_labels, dtype=np.int64),
        n_right=np.empty(n_lag_labels, dtype=np.int64),
        base=vectors[0],
        left=vectors[1],
        absent=vectors[2],
        present=vectors[3],
        running=vectors[4],
        prefix=np.empty(lanes * STRIDE, dtype=np.int32),
        bound=bound,
        bits=bound.view(np.int32),
        lag_sums=np.empty((n_lag_labels, lanes), dtype=np.int32),
        lag_contexts=np.empty((n_lag_labels, order + 1), dtype=np.int64),
        keys=np.empty(n_ordered),
        ranked=np.empty(n_ordered, dtype=np.int64),
        pull=np.empty((n_ordered, n_outputs)),
        weight=np.empty(n_ordered),
        direction=np.empty(n_outputs),
        spread=np.empty(n_outputs),
        inverse=np.empty(n_outputs),
    )


def new_weighted(problem: Problem, policies: Policies, n_nodes: int) -> Weighted:
    """Allocate what growing with policies for missing values needs."""
    columns, _, limits = problem
    n, n_values, room = limits.n_surrogates, most_values(problem), 2 * columns.n_rows
    return Weighted(
        policies=policies,
        weight=np.empty(room, dtype=np.float32),
        units=np.empty(room, dtype=np.int32),
        unit=1,
        detours=Detours(
            share=np.zeros(n_nodes, dtype=np.float32),
            n=np.zeros(n_nodes, dtype=np.int64),
            kind=np.zeros((n_nodes, n), dtype=np.uint8),
            feature=np.zeros((n_nodes, n), dtype=np.int32),
            left=np.zeros((n_nodes, n, n_values), dtype=np.bool_),
        ),
        ranking=Ranking(
            agreement=np.empty(n),
            kind=np.empty(n, dtype=np.int64),
            feature=np.empty(n, dtype=np.int64),
            cut=np.empty(n, dtype=np.int64),
            low_left=np.empty(n, dtype=np.bool_),
        ),
        on_left=np.empty(columns.n_cells, dtype=np.int64),
        on_right=np.empty(columns.n_cells, dtype=np.int64),
    )
