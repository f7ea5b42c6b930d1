"""Categories in order for a vector of labels: along the direction in which they differ most.

For one label, the best division of categories into two is a prefix of their order by G/(H+λ) (Fisher 1958). For many
labels there is no such order, and the usual heuristic is the order along the first principal component (Coppersmith,
Hong and Hosking 1999, "Partitioning nominal attributes in decision trees"). With w_b the category's share of curvature
and z_bk = G_bk/(H_bk+λ) the value that a leaf of it alone would have,

    x_bk = (G_bk − w_b·G_k) / √(w_b·(H_k+λ))          how category b pulls label k away from the node
    v    = leading direction of Σ_b x_b x_bᵀ          a few steps of power iteration, from the longest x_b
    key_b = Σ_k v_k·√(H_k+λ)·z_bk                     with one label: the order by G/(H+λ)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner_reassociating, inner_slicing
from seqboost.trees.integers import int64
from seqboost.trees.ordering import sort
from seqboost.trees.shared_cells import Units

__all__ = ["N_STEPS", "Axes", "order_vectors"]

N_STEPS = 3  # of power iteration


class Axes(NamedTuple):
    """Scratch for ordering categories, and the order found."""

    pull: NDArray[np.float64]  # (max_values, n_labels) x
    weight: NDArray[np.float64]  # (max_values,) w, then lengths of projections
    direction: NDArray[np.float64]  # (n_labels,) v
    spread: NDArray[np.float64]  # (n_labels,) √(H_k+λ)
    inverse: NDArray[np.float64]  # (n_labels,) 1/√(H_k+λ), of a fixed-point gradient
    keys: NDArray[np.float64]  # (max_values,)
    order: NDArray[np.int64]  # (max_line,) the categories


@inner_reassociating
def _curvature(
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    units: Units,
) -> float:
    """Return Σ_k H_k."""
    total = 0.0
    n_labels = units.curvature.size
    for k in range(n_labels):
        total += vector[n_labels + k] * units.curvature[k]
    return total


@inner_reassociating
def _pull(
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    node: NDArray[np.int32],  # IN (2 * n_labels,)
    share: float,  # IN w_b
    inverse: NDArray[np.float64],  # IN (n_labels,)
    pull: NDArray[np.float64],  # OUT (n_labels,) x_b
) -> float:
    """Write how a category pulls the labels; return Σ_k x_bk²."""
    total = 0.0
    scale = 1.0 / np.sqrt(share) if share > 0 else 0.0
    for k in range(pull.size):
        x = scale * inverse[k] * (vector[k] - share * node[k])
        pull[k] = x
        total += x * x
    return total


@inner_reassociating
def _dot(
    a: NDArray[np.float64],  # IN (n,)
    b: NDArray[np.float64],  # IN (n,)
) -> float:
    """Return Σ a·b."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@inner_reassociating
def _key(
    vector: NDArray[np.int32],  # IN (2 * n_labels,)
    units: Units,
    direction: NDArray[np.float64],  # IN (n_labels,) v_k·√(H_k+λ), of fixed-point g/h
) -> float:
    """Return Σ_k v_k·√(H_k+λ)·G_bk/(H_bk+λ)."""
    total = 0.0
    n_labels = direction.size
    for k in range(n_labels):
        h = vector[n_labels + k] + units.penalty[k]
        total += direction[k] * vector[k] / max(h, 1e-300)
    return total


@inner_slicing
def _leading_direction(
    n: int,  # IN number of categories
    longest: int,  # IN the category to start from
    axes: Axes,  # IN pull, OUT direction
) -> None:
    """Turn the direction towards the leading one, largest entry 1; by a few steps of power iteration."""
    pull, direction = axes.pull, axes.direction
    for k in range(direction.size):
        direction[k] = pull[longest, k]
    for step in range(N_STEPS + 1):
        if step > 0:
            for b in range(n):
                axes.weight[b] = _dot(pull[b], direction)
            for k in range(direction.size):
                direction[k] = 0.0
            for b in range(n):
                u = axes.weight[b]
                x = pull[b]
                for k in range(direction.size):
                    direction[k] += u * x[k]
        top = 0.0
        for k in range(direction.size):
            if abs(direction[k]) > abs(top):
                top = direction[k]
        for k in range(direction.size):
            direction[k] = direction[k] / top if top != 0.0 else 1.0


@inner_slicing
def order_vectors(
    sums: NDArray[np.int32],  # IN (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # IN (n_cells,)
    start: int,  # IN first cell of the feature
    n_cells: int,  # IN its number of cells
    min_count: int,  # IN
    node: NDArray[np.int32],  # IN (2 * n_labels,) sums of the node
    units: Units,
    lam: float,  # IN λ
    axes: Axes,  # OUT
) -> int:
    """Order the categories that have at least ``min_count`` positions; return their number."""
    n_labels = units.gradient.size
    order, keys = axes.order, axes.keys
    n = int64(0)
    for v in range(n_cells):
        if counts[start + v] >= min_count:
            order[n] = v
            keys[n] = 0.0
            n += 1
    if n < 2:
        return n
    for k in range(n_labels):
        axes.spread[k] = np.sqrt(max(node[n_labels + k] * units.curvature[k] + lam, 0.0))
        axes.inverse[k] = units.gradient[k] / max(axes.spread[k], 1e-150)
    whole = _curvature(node, units)
    longest, length = int64(0), -1.0
    for r in range(n):
        cell = start + order[r]
        share = _curvature(sums[cell], units) / whole if whole > 0 else 0.0
        found = _pull(sums[cell], node, share, axes.inverse, axes.pull[r])
        if found > length:
            longest, length = int64(r), found
    _leading_direction(n, longest, axes)
    for k in range(n_labels):
        axes.direction[k] *= axes.spread[k] * (units.gradient[k] / units.curvature[k])
    for r in range(n):
        keys[r] = _key(sums[start + order[r]], units, axes.direction)
    sort(keys, order, n)
    return n
