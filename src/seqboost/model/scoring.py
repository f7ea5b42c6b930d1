"""Rows → scores: which way of scoring is the cheaper, and its spread over threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqboost.core.threads import run_tasks
from seqboost.model.missing import find_incomplete, route_arrays, walk_both_ways
from seqboost.model.quick import cut_by_slots, quick_scores, quick_vectors
from seqboost.model.tables import QuickTables, build_tables, choose_width
from seqboost.model.traversal import (
    ContextArrays,
    RowArrays,
    context_arrays,
    forest_arrays,
    layout_arrays,
    read_only,
    row_arrays,
    traverse,
    used_sparse,
)
from seqboost.trees.masks import ALL_LEAVES, MAX_LEAVES
from seqboost.trees.tree import DENSE, LAG, SPARSE

if TYPE_CHECKING:
    from seqboost.features import BinnedRows
    from seqboost.model.forest import Forest

__all__ = ["forest_scores"]

ROWS_PER_TASK = 2048
SHARED_ROWS_PER_TASK = 512  # what the trees of a block leave of each row is written out
TREES_PER_BLOCK = 64
MAX_SPARSE_WORDS = 1 << 20
MAX_PRESENT_MASKS = 1 << 16

_build_lock = threading.Lock()


def forest_scores(
    forest: Forest,
    binned: BinnedRows,
    n_threads: int = 1,
    *,
    method: str = "auto",
    start: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Score all rows in all contexts.

    Parameters
    ----------
    forest : Forest
        The trees.
    binned : BinnedRows
        The rows.
    n_threads : int, default=1
        Number of threads; the result does not depend on it.
    method : {"auto", "traverse", "masks"}, default="auto"
        Way of scoring; all give the same bits. ``"masks"`` falls back to ``"traverse"`` where masks cannot be used.
    start : ndarray of float32, shape (n_labels, n_rows, 1), optional
        What the trees are added to, 0 if not given.

    Returns
    -------
    ndarray of float32, shape (n_labels, n_rows, n_contexts)
        Sum over rounds, in their order and in float32, of the values of the leaves reached. Slots of contexts that do
        not exist (before a position has a full history) hold the start.

    Raises
    ------
    ModelFileError
        If the forest tests features that the rows do not have.
    """
    layout_arrays(forest, binned.layout)
    n_rows = len(binned.address)
    scores = np.zeros((forest.n_labels, n_rows, forest.n_contexts), dtype=np.float32)
    if start is not None:
        scores[...] = start
    if n_rows == 0 or forest.n_trees == 0:
        return scores
    if "context" not in forest._cache:
        forest._cache["context"] = context_arrays(forest.n_labels, forest.order)
    context = forest._cache["context"]
    if forest.routes is None:
        _score_complete(forest, row_arrays(forest, binned), context, method, n_threads, scores)
        return scores
    rows = row_arrays(forest, binned)
    of_forest, routes = route_arrays(forest, binned.layout)
    incomplete = np.zeros(n_rows, dtype=np.bool_)
    find_incomplete(rows, routes, incomplete)
    complete = np.flatnonzero(~incomplete)
    if len(complete) == n_rows:
        _score_complete(forest, rows, context, method, n_threads, scores)
        return scores
    if len(complete):
        gathered = {name: getattr(rows, name)[complete] for name in ("address", "row_type", "padded_row")}
        part = np.ascontiguousarray(scores[:, complete])
        own = rows._replace(**{name: read_only(array) for name, array in gathered.items()})
        _score_complete(forest, own, context, method, n_threads, part)
        scores[:, complete] = part
    max_leaves = int(np.diff(forest.leaf_start).max())
    n_used = int(routes.feature_use.max(initial=-1)) + 1
    rows = rows._replace(feature_use=routes.feature_use)

    def walk(numbers: NDArray[np.int64]) -> None:
        stamp, stack = np.zeros(n_used, dtype=np.int64), np.zeros((max_leaves + 1, 3), dtype=np.int32)
        weights, order_of = np.zeros(max_leaves + 1, np.float32), np.zeros(forest.n_contexts, dtype=np.int32)
        walk_both_ways(
            numbers, TREES_PER_BLOCK, rows, of_forest, routes, context, stamp, stack, weights, order_of, scores
        )

    lacking = np.flatnonzero(incomplete)
    run_tasks(walk, [(lacking[a : a + ROWS_PER_TASK],) for a in range(0, len(lacking), ROWS_PER_TASK)], n_threads)
    return scores


def _score_complete(
    forest: Forest,
    rows: RowArrays,
    context: ContextArrays,
    method: str,
    n_threads: int,
    scores: NDArray[np.float32],
) -> None:
    """Add the scores of rows that go one way at every split, as its left set says."""
    score = _scorer(forest, context, method)

    def task(begin: int, end: int) -> None:
        if forest.is_shared:
            vectors = np.ascontiguousarray(np.moveaxis(scores[:, begin:end], 0, -1))
            score(rows, (begin, end), vectors)
            scores[:, begin:end] = np.moveaxis(vectors, -1, 0)
        else:
            score(rows, (begin, end), scores)

    n_rows, step = len(rows.address), SHARED_ROWS_PER_TASK if forest.is_shared else ROWS_PER_TASK
    run_tasks(task, [(begin, min(begin + step, n_rows)) for begin in range(0, n_rows, step)], n_threads)


def _scorer(
    forest: Forest, context: ContextArrays, method: str
) -> Callable[[RowArrays, tuple[int, int], NDArray[np.float32]], None]:
    """Return the cheaper way to add to the scores of a span of rows; of shared trees, to their vectors over labels."""
    tables = _tables(forest, method)
    if tables is not None:
        return lambda rows, span, scores: _score_by_masks(tables, rows, context, span, scores)
    arrays = forest_arrays(forest)
    n_used = len(used_sparse(forest))
    max_leaves = int(np.diff(forest.leaf_start).max())

    def walk(rows: RowArrays, span: tuple[int, int], scores: NDArray[np.float32]) -> None:
        stamp = np.zeros(n_used, dtype=np.int64)
        stack = np.zeros((max_leaves + 1, 3), dtype=np.int32)
        order_of = np.zeros(forest.n_contexts, dtype=np.int32)
        traverse(span, TREES_PER_BLOCK, rows, arrays, context, stamp, stack, order_of, scores)

    return walk


def _score_by_masks(
    tables: QuickTables, rows: RowArrays, context: ContextArrays, span: tuple[int, int], scores: NDArray[np.float32]
) -> None:
    """Add to the scores of a span of rows; in smaller spans if slots are tested, for their masks are written out."""
    dtype, width, n_lanes = tables.table.dtype, int(tables.width[0]), tables.context_mask.shape[1]
    shared, tested = tables.leaf_value.ndim == 3, len(tables.posting_tree) > 0
    step = max(16, MAX_PRESENT_MASKS // n_lanes) if tested else span[1] - span[0]
    displacement = rows.displacement[tables.group_feature] if len(rows.displacement) else np.zeros(0, np.int64)
    for begin in range(span[0], span[1], step):
        part = (begin, min(begin + step, span[1]))
        n = part[1] - begin
        present = np.full((n if tested else 1, n_lanes), ALL_LEAVES.astype(dtype))
        if tested:
            cut_by_slots(part, rows, tables, present)
        survivors = np.empty((n if shared else 4) * width, dtype=dtype)
        if shared:
            own = scores[begin - span[0] : part[1] - span[0]]
            quick_vectors(part, rows, context.n_existing, tables, displacement, present, survivors, own)
        else:
            quick_scores(part, rows, context.n_existing, tables, displacement, present, survivors, scores)


def _tables(forest: Forest, method: str) -> QuickTables | None:
    """Tables of the fast scorer, made once; ``None`` if the walk is to be used."""
    if method not in ("auto", "traverse", "masks"):
        raise ValueError(f"method must be 'auto', 'traverse' or 'masks', got {method!r}")
    if method == "traverse":
        return None
    with _build_lock:
        if method not in forest._cache:
            width = _plan(forest, force=method == "masks")
            forest._cache[method] = None if width == 0 else build_tables(forest, width)
        cached: QuickTables | None = forest._cache[method]
    return cached


def _plan(forest: Forest, *, force: bool) -> int:
    """Width of a block of the fast scorer, or 0 if walking down the trees is cheaper or the only way."""
    n_leaves = np.diff(forest.leaf_start)
    sparse = forest.kind == SPARSE
    if n_leaves.max() > MAX_LEAVES or np.diff(forest.word_start)[sparse].sum() > MAX_SPARSE_WORDS:
        return 0
    n_bytes = 8 if n_leaves.max() > 32 else 4
    width = choose_width(forest, n_bytes)
    return width if force or _masks_cost(forest, width, n_bytes) < _walk_cost(forest) else 0


# Costs in nanoseconds a row, measured on one core of a Zen 3 server; only their ratio matters.


def _masks_cost(forest: Forest, width: int, n_bytes: int) -> float:
    """Cost of the masks: a row of the table per feature and block, a leaf per tree and context."""
    tree_of = np.repeat(np.arange(forest.n_trees), np.diff(forest.split_start))
    dense = forest.kind == DENSE
    block, feature = tree_of[dense] // width, forest.feature[dense].astype(np.int64)
    n_groups = len(np.unique(block * (int(feature.max(initial=0)) + 1) + feature))
    n_postings = 0.3 * float((forest.kind == SPARSE).sum())  # a guess: rows seldom hold what a split asks for
    return n_groups * (4.0 + 0.022 * n_bytes * width) + 1.5 * n_postings + 0.9 * forest.n_trees * forest.n_contexts


def _walk_cost(forest: Forest) -> float:
    """Cost of walking: a test per level (trees half again as deep as balanced ones), an addition per context."""
    n_tests = 1.5 * float(np.log2(np.diff(forest.leaf_start)).sum())
    per_context = 1.0 if (forest.kind == LAG).any() else 0.15
    return 10.5 * n_tests + per_context * forest.n_trees * forest.n_contexts
