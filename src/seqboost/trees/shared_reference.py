"""Slow twin of the shared grower: an exact greedy tree for all labels on the expanded data set. For tests only.

Examples are those of :mod:`seqboost.trees.reference` with vectors of K gradients and curvatures; every candidate split
divides examples, in plain float64 sums,

    value_k = G_k/(H_k+λ)        gain = Σ_k  G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) − G_k²/(H_k+λ)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.trees import reference
from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.reference import (
    MIN_ROWS_OF_WIDE_CATEGORY,
    NOISE,
    SMALLEST_GAIN,
    TIE,
    Example,
    ReferenceTree,
    Split,
    expand,
)
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["expand_labels", "grow_shared_reference", "leading_order"]

N_STEPS = 3  # of power iteration


def expand_labels(
    dense: DenseColumns,
    sparse: SparseColumns,
    offsets: NDArray[np.int64],
    n_labels: int,
    order: int,
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
) -> list[Example]:
    """Write out every position in every context that exists there, with the derivatives of all labels.

    Parameters
    ----------
    dense, sparse, offsets, n_labels, order
        As in :func:`~seqboost.trees.reference.expand`.
    gradient, hessian : ndarray of float32 of shape (n_outputs, n_rows, n_contexts)
        Derivatives.
    """
    examples = expand(dense, sparse, offsets, n_labels, order, gradient[0], hessian[0])
    return [_with_vectors(e, gradient[:, e.row, e.context], hessian[:, e.row, e.context]) for e in examples]


def _with_vectors(example: Example, gradient: Any, hessian: Any) -> Example:
    return replace(example, gradient=gradient.astype(np.float64), hessian=hessian.astype(np.float64))


def grow_shared_reference(
    dense: DenseColumns,
    sparse: SparseColumns,
    limits: Limits,
    examples: list[Example],
    draw: Callable[[], set[int]] | None = None,
) -> ReferenceTree:
    """Grow a tree for all labels, best split first; parameters as in :func:`~seqboost.trees.reference.grow_reference`.

    Sums of the leaves, ``gradient`` and ``hessian`` of the tree, have shape (n_leaves, n_labels).
    """

    def search(examples: list[Example], drawn: set[int] | None) -> Split | None:
        return _best_split(dense, sparse, limits, examples, drawn)

    return reference.grow_with(search, dense, limits, examples, draw)


def side_gain(gradient: NDArray[np.float64], hessian: NDArray[np.float64], lam: float) -> float:
    """Return Σ_k G_k²/(H_k+λ) over the labels that have a curvature."""
    curved = hessian + lam > 0
    return float((gradient[curved] ** 2 / (hessian[curved] + lam)).sum())


def _best_split(
    dense: DenseColumns, sparse: SparseColumns, limits: Limits, examples: list[Example], drawn: set[int] | None
) -> Split | None:
    """Try every division of the examples that the features offer; return the first with the largest gain."""
    lam = limits.l2_regularization
    best: Split | None = None
    if not examples:
        return None
    whole: Any = sum(e.gradient for e in examples), sum(e.hessian for e in examples)
    best_gain = max(limits.min_gain, SMALLEST_GAIN, NOISE * side_gain(whole[0], whole[1], lam))
    for kind, place, divisions in _features(dense, sparse, limits, examples, drawn):
        sums = reference._Sums(examples, kind, place)
        for left in divisions:
            sides: Any = sums.sides(left)
            (g_left, h_left, n_left), (g_right, h_right, n_right) = sides
            if min(n_left, n_right) < limits.min_samples_leaf or min(np.sum(h_left), np.sum(h_right)) + lam <= 0:
                continue
            gain = (
                side_gain(g_left, h_left, lam) + side_gain(g_right, h_right, lam) - side_gain(whole[0], whole[1], lam)
            )
            if gain > (best_gain if best is None else best_gain * (1 + TIE)):
                best_gain = gain
                best = Split(gain, kind, place, left)
    return best and replace(best, left=reference._completed(dense, examples, best))


def leading_order(
    values: list[int], gradient: dict[int, Any], hessian: dict[int, Any], whole: tuple[Any, Any], lam: float
) -> list[int]:
    """Order categories along the direction in which they differ most (:mod:`seqboost.trees.shared_ordering`)."""
    if len(values) < 2:
        return values
    g_node, h_node = whole
    spread = np.sqrt(np.maximum(h_node + lam, 0.0))
    pulls = []
    for v in values:
        share = hessian[v].sum() / h_node.sum() if h_node.sum() > 0 else 0.0
        away = (gradient[v] - share * g_node) / np.maximum(spread, 1e-150)
        pulls.append(away / np.sqrt(share) if share > 0 else 0.0 * away)
    x = np.array(pulls)
    direction = x[np.argmax((x**2).sum(axis=1))]
    for _ in range(N_STEPS):
        direction = x.T @ (x @ direction)
        if not direction.any():
            break
        direction = direction / np.abs(direction).max()
    top = direction[np.argmax(np.abs(direction))]
    direction = direction / top if top != 0 else np.ones_like(direction)
    keys = {v: float((direction * spread * gradient[v] / np.maximum(hessian[v] + lam, 1e-300)).sum()) for v in values}
    return sorted(values, key=lambda v: (keys[v], v))


def _features(
    dense: DenseColumns, sparse: SparseColumns, limits: Limits, examples: list[Example], drawn: set[int] | None
) -> Iterator[tuple[int, int, Iterator[frozenset[int]]]]:
    """Give each feature that may be tested, with the left sets it offers."""
    alone = limits.one_against_rest
    n_dense, n_sparse = len(dense.feature), len(sparse.kind)
    whole: Any = sum(e.gradient for e in examples), sum(e.hessian for e in examples)

    def ordered(kind: int, place: int, min_rows: int = 1) -> tuple[list[int], int]:
        sums = reference._Sums(examples, kind, place)
        values = sorted(v for v in sums.rows if v >= 0 and len(sums.rows[v]) >= min_rows)
        return leading_order(values, sums.gradient, sums.hessian, whole, limits.l2_regularization), len(sums.rows)

    for f in range(n_dense):
        if drawn is not None and f not in drawn:
            continue
        if dense.kind[f] == 0:
            yield DENSE, f, reference._thresholds(int(dense.n_values[f]), {e.dense[f] for e in examples})
        else:
            yield DENSE, f, reference._subsets(ordered(DENSE, f)[0], alone)
    for f in range(n_sparse * len(sparse.offset)):
        o, s = divmod(f, n_sparse)
        if not sparse.enabled[o, s] or (drawn is not None and n_dense + f not in drawn):
            continue
        if sparse.kind[s] == 0:
            n_slots = int(sparse.slot_start[s + 1] - sparse.slot_start[s])
            yield SPARSE, f, reference._slot_thresholds(n_slots, int(sparse.absent_rank[s]))
        else:
            values, n_held = ordered(SPARSE, f, MIN_ROWS_OF_WIDE_CATEGORY)
            yield SPARSE, f, reference._subsets(values, alone)
            if not alone and len(values) < n_held:  # what is left out goes right, so that the ends differ
                yield SPARSE, f, reference._subsets(values[::-1], alone)
    for lag in range(len(examples[0].lags)):
        yield LAG, lag, reference._subsets(ordered(LAG, lag)[0], alone)
