"""Categories in order: along the direction in which they differ most.

For one output, the best division of categories into two is a prefix of their order by G/(H+λ) (Fisher 1958). For many
there is no such order, and the usual heuristic is the order along the first principal component (Coppersmith, Hong and
Hosking 1999, "Partitioning nominal attributes in decision trees"). With w_b the category's share of curvature and
z_bk = G_bk/(H_bk+λ) the value that a leaf of it alone would have,

    x_bk = (G_bk − w_b·G_k) / √(w_b·(H_k+λ))          how category b pulls output k away from the node
    v    = leading direction of Σ_b x_b x_bᵀ          a few steps of power iteration, from the longest x_b
    key_b = Σ_k v_k·√(H_k+λ)·z_bk                     with one output: the order by G/(H+λ)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, inner_reassociating, int64, uint64
from seqboost.trees.quantise import Units
from seqboost.trees.scan import Scratch

__all__ = ["MIN_ROWS_OF_WIDE_CATEGORY", "order_categories"]

# Ordering thousands of categories by the gradients of one or two rows each is ordering noise.
MIN_ROWS_OF_WIDE_CATEGORY = 5

SHORT_LINE = 64
N_STEPS = 3  # of power iteration


@inner_reassociating
def _curvature(
    lanes: NDArray[np.int32],  # IN (…)
    at: int,  # IN
    units: Units,
) -> float:
    """Return Σ_k H_k."""
    total = 0.0
    n_outputs = uint64(units.curvature.size)
    for k in range(n_outputs):
        total += lanes[at + n_outputs + k] * units.curvature[k]
    return total


@inner_reassociating
def _pull(
    lanes: NDArray[np.int32],  # IN (…)
    at: int,  # IN place of the category
    node: NDArray[np.int32],  # IN (n_lanes,)
    share: float,  # IN w_b
    inverse: NDArray[np.float64],  # IN (n_outputs,)
    pull: NDArray[np.float64],  # OUT (n_outputs,) x_b
) -> float:
    """Write how a category pulls the outputs; return Σ_k x_bk²."""
    total = 0.0
    scale = 1.0 / np.sqrt(share) if share > 0 else 0.0
    for k in range(uint64(pull.size)):
        x = scale * inverse[k] * (lanes[at + k] - share * node[k])
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
    lanes: NDArray[np.int32],  # IN (…)
    at: int,  # IN place of the category
    units: Units,
    direction: NDArray[np.float64],  # IN (n_outputs,) v_k·√(H_k+λ), of integer g/h
) -> float:
    """Return Σ_k v_k·√(H_k+λ)·G_bk/(H_bk+λ)."""
    total = 0.0
    n_outputs = uint64(direction.size)
    for k in range(n_outputs):
        h = lanes[at + n_outputs + k] + units.penalty[k]
        total += direction[k] * lanes[at + k] / max(h, 1e-300)
    return total


@inner
def _leading_direction(
    n: int,  # IN number of categories
    longest: int,  # IN the category to start from
    scratch: Scratch,  # IN pull, OUT direction
) -> None:
    """Turn the direction towards the leading one, largest entry 1; by a few steps of power iteration."""
    pull, direction = scratch.pull, scratch.direction
    for k in range(direction.size):
        direction[k] = pull[longest, k]
    for step in range(N_STEPS + 1):
        if step > 0:
            for b in range(n):
                scratch.weight[b] = _dot(pull[b], direction)
            for k in range(direction.size):
                direction[k] = 0.0
            for b in range(n):
                u = scratch.weight[b]
                for k in range(direction.size):
                    direction[k] += u * pull[b, k]
        top = 0.0
        for k in range(direction.size):
            if abs(direction[k]) > abs(top):
                top = direction[k]
        for k in range(direction.size):
            direction[k] = direction[k] / top if top != 0.0 else 1.0


@inner
def order_categories(
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    span: tuple[int, int],  # IN first cell of the feature, its number of cells
    min_count: int,  # IN
    node: NDArray[np.int32],  # IN (n_lanes,) sums of the node
    units: Units,
    lam: float,  # IN λ
    scratch: Scratch,  # IN counts, OUT line
) -> int:
    """Put the categories that have at least ``min_count`` positions on the line, in order; return their number."""
    start, n_cells = span
    flat, width = cells.reshape(-1), uint64(cells.shape[1])
    n_outputs = units.gradient.size
    line, keys = scratch.line, scratch.keys
    n = int64(0)
    for v in range(n_cells):
        if scratch.counts[v] >= min_count:
            line[n] = v
            keys[n] = 0.0
            n += 1
    if n < 2:
        return n
    if n_outputs == 1:
        for r in range(n):
            at = uint64(start + line[r]) * width
            keys[r] = flat[at] / max(flat[at + uint64(1)] + units.penalty[0], 1e-300)
        _sort(keys, line, n, scratch.ranked)
        return n
    for k in range(n_outputs):
        scratch.spread[k] = np.sqrt(max(node[n_outputs + k] * units.curvature[k] + lam, 0.0))
        scratch.inverse[k] = units.gradient[k] / max(scratch.spread[k], 1e-150)
    whole = _curvature(node, uint64(0), units)
    longest, length = int64(0), -1.0
    for r in range(n):
        at = uint64(start + line[r]) * width
        share = _curvature(flat, at, units) / whole if whole > 0 else 0.0
        found = _pull(flat, at, node, share, scratch.inverse, scratch.pull[r])
        if found > length:
            longest, length = int64(r), found
    _leading_direction(n, longest, scratch)
    for k in range(n_outputs):
        scratch.direction[k] *= scratch.spread[k] * (units.gradient[k] / units.curvature[k])
    for r in range(n):
        keys[r] = _key(flat, uint64(start + line[r]) * width, units, scratch.direction)
    _sort(keys, line, n, scratch.ranked)
    return n


@inner
def _sort(
    keys: NDArray[np.float64],  # IN/OUT (max_ordered,)
    line: NDArray[np.int64],  # IN/OUT (max_line,)
    n: int,
    ranked: NDArray[np.int64],  # OUT (max_ordered,)
) -> None:
    """Sort the first ``n`` of the line, which rises, by keys, equal keys by value.

    The place of a value on a short line is the number of those before it, counted without a branch; a long one is
    sorted by Shell's method.
    """
    if n <= SHORT_LINE:
        for r in range(uint64(n)):
            key, place = keys[r], int64(0)
            for q in range(r):
                place += int64(keys[q] <= key)
            for q in range(r, uint64(n)):
                place += int64(keys[q] < key)
            ranked[uint64(place)] = line[r]
        for r in range(uint64(n)):
            line[r] = ranked[r]
        return
    gap = 1
    while 3 * gap < n - 32:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            key = keys[r]
            value = line[r]
            q = r - gap
            while q >= 0 and (keys[q] > key or (keys[q] == key and line[q] > value)):
                keys[q + gap] = keys[q]
                line[q + gap] = line[q]
                q -= gap
            keys[q + gap] = key
            line[q + gap] = value
        gap //= 3
