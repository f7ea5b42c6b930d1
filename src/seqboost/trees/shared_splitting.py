"""The best split of a node of a shared tree among the divisions that one feature offers.

What a division gains is summed over labels,

    gain = Σ_k  G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) − G_k²/(H_k+λ)

where a label without any curvature on a side (λ = 0) counts nothing there. Candidates are those of the trees for one
label (:mod:`seqboost.trees.splitting`). Whatever the feature, its values are put on a *line* and every prefix of the
line is tried as the left side, or every value of it alone:

* numeric feature: values in order; once more with missing values, the boundary or both on the left side;
* categories, labels at a lag: in the order of :mod:`seqboost.trees.shared_ordering`; where some positions have a
  category that takes no part, which always goes right, once more from the other end;
* ordered slots: in order, "absent" among them at its rank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import Space
from seqboost.core.jit import inlined, inner, inner_slicing
from seqboost.trees.criterion import BOUNDARY_LEFT, MISSING_LEFT, Limits
from seqboost.trees.integers import int64
from seqboost.trees.shared_cells import Units, add_to, copy_to, set_zero
from seqboost.trees.shared_ordering import Axes

__all__ = [
    "ABSENT",
    "Scratch",
    "VectorNode",
    "count_contexts",
    "count_rows",
    "lay_slots",
    "lay_values",
    "node_gain",
    "scan_line",
    "split_gain",
    "start_side",
    "sum_labels",
]

ABSENT = -1  # on a line of slots: the positions that carry none


class VectorNode(NamedTuple):
    """A node whose split is looked for."""

    total: NDArray[np.int32]  # (2 * n_labels,)
    n: int  # fitted positions
    gain: float  # Σ_k G_k²/(H_k+λ)


class Scratch(NamedTuple):
    """Buffers of one task."""

    axes: Axes  # the line is axes.order
    n_left: NDArray[np.int64]  # (max_line,) positions on the left side of each candidate
    n_right: NDArray[np.int64]  # (max_line,)
    base: NDArray[np.int32]  # (2 * n_labels,) what is on the left side before the line begins
    left: NDArray[np.int32]  # (2 * n_labels,) sums of the left side
    absent: NDArray[np.int32]  # (2 * n_labels,) sums of the positions without a slot
    lag_sums: NDArray[np.int32]  # (n_labels + 1, 2 * n_labels) sums of the labels at a lag
    lag_counts: NDArray[np.int32]  # (n_labels + 1,) contexts of each label
    contexts: NDArray[np.int64]  # (n_labels + 1, order + 1) contexts of each label and type
    present: NDArray[np.int32]  # (2 * n_labels,) sums of the positions that have the feature
    prefix: NDArray[np.int32]  # (2 * n_labels, longest_line) sums of every prefix of the line
    bound: NDArray[np.float32]  # (longest_line,) what they gain, roughly


@inlined
def _gain_of_label(left: NDArray[np.int32], node: NDArray[np.int32], units: Units, k: int) -> float:
    """Return G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) of a label, λ > 0, by one division in place of two."""
    n_labels = units.weight.size
    g_left, g_right = float(left[k]), float(node[k] - left[k])
    h_left = left[n_labels + k] + units.penalty[k]
    h_right = (node[n_labels + k] - left[n_labels + k]) + units.penalty[k]
    return units.weight[k] * (g_left * g_left * h_right + g_right * g_right * h_left) / (h_left * h_right)


@inner
def split_gain(
    left: NDArray[np.int32],  # IN (2 * n_labels,)
    node: NDArray[np.int32],  # IN (2 * n_labels,)
    units: Units,
    lam: float,  # IN λ
) -> float:
    """Return Σ_k G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ), or −1 if a side has no curvature at all and λ is 0.

    The order of the sum is written out, four labels at a time. Left to the compiler, it would be another one in each
    kernel that this is made part of, and so would the last bits.
    """
    n_labels = units.weight.size
    if lam > 0.0:
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        n_fours = n_labels - n_labels % 4
        for k in range(0, n_fours, 4):
            a += _gain_of_label(left, node, units, k)
            b += _gain_of_label(left, node, units, k + 1)
            c += _gain_of_label(left, node, units, k + 2)
            d += _gain_of_label(left, node, units, k + 3)
        for k in range(n_fours, n_labels):
            a += _gain_of_label(left, node, units, k)
        return (a + b) + (c + d)
    total, all_left, all_right = 0.0, 0.0, 0.0
    for k in range(n_labels):
        g_left, g_right = float(left[k]), float(node[k] - left[k])
        h_left, h_right = float(left[n_labels + k]), float(node[n_labels + k] - left[n_labels + k])
        total += units.weight[k] * g_left * g_left / h_left if h_left > 0.0 else 0.0
        total += units.weight[k] * g_right * g_right / h_right if h_right > 0.0 else 0.0
        all_left += h_left
        all_right += h_right
    return total if all_left > 0.0 and all_right > 0.0 else -1.0


@inner
def node_gain(
    node: NDArray[np.int32],  # IN (2 * n_labels,)
    units: Units,
) -> float:
    """Return Σ_k G_k²/(H_k+λ)."""
    n_labels = units.weight.size
    total = 0.0
    for k in range(n_labels):
        g, h = float(node[k]), node[n_labels + k] + units.penalty[k]
        total += units.weight[k] * g * g / h if h > 0.0 else 0.0
    return total


@inner_slicing
def scan_line(
    to_beat: float,
    node: VectorNode,
    limits: Limits,
    alone: bool,  # IN whether each value is tried alone, and not each prefix
    units: Units,
    sums: NDArray[np.int32],  # IN (n_cells, 2 * n_labels)
    start: int,  # IN first cell of the feature
    n: int,  # IN length of the line
    from_top: bool,  # IN whether the line begins at its end
    scratch: Scratch,  # IN line, numbers of positions and base
) -> tuple[float, int]:
    """Return gain and end of the best prefix of the line (or place of the best value of it); −1: none beats."""
    line, left = scratch.axes.order, scratch.left
    best, end = to_beat, int64(-1)
    copy_to(scratch.base, left)
    for r in range(n):
        v = line[n - 1 - r if from_top else r]
        if alone and r > 0:
            copy_to(scratch.base, left)
        add_to(scratch.absent if v == ABSENT else sums[start + max(v, 0)], left)
        if min(scratch.n_left[r], scratch.n_right[r]) >= limits.min_samples_leaf:
            gain = split_gain(left, node.total, units, limits.l2_regularization) - node.gain
            if gain > best:
                best, end = gain, int64(r)
    return best, end


@inner_slicing
def lay_values(
    counts: NDArray[np.int32],  # IN (n_cells,)
    start: int,  # IN first cell of the feature
    n_values: int,  # IN
    line: NDArray[np.int64],  # OUT (max_line,)
) -> int:
    """Put the values of a numeric feature that the node holds on the line; return their number."""
    n = int64(0)
    for v in range(n_values):
        if counts[start + v] > 0:
            line[n] = v
            n += 1
    return n


@inner_slicing
def lay_slots(
    node: VectorNode,
    limits: Limits,
    sums: NDArray[np.int32],  # IN (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # IN (n_cells,)
    start: int,  # IN first cell of the feature
    n_slots: int,  # IN
    absent_rank: int,  # IN
    scratch: Scratch,  # OUT line and sums of absent
) -> int:
    """Put ordered slots on the line, and "absent" at its rank; return their number, 0 if no division is possible."""
    line = scratch.axes.order
    n_carried = int64(0)
    for s in range(n_slots):
        n_carried += counts[start + s]
    # Found from the counts alone, the usual case: nobody carries the feature, or too few do, or too many.
    if n_carried == 0 or (n_slots == 1 and min(n_carried, node.n - n_carried) < limits.min_samples_leaf):
        return int64(0)
    if n_slots == 1:  # absent is all the rest
        line[0] = 0
        return int64(1)
    absent = scratch.absent
    copy_to(node.total, absent)
    n = int64(0)
    for s in range(n_slots + 1):
        if s == absent_rank:
            line[n] = ABSENT
            n += 1
        if s < n_slots and counts[start + s] > 0:
            line[n] = s
            n += 1
            total = sums[start + s]
            for w in range(total.size):
                absent[w] -= total[w]
    return n


@inner_slicing
def start_side(
    flags: int,  # IN MISSING_LEFT, BOUNDARY_LEFT
    sums: NDArray[np.int32],  # IN (n_cells, 2 * n_labels)
    counts: NDArray[np.int32],  # IN (n_cells,)
    missing: int,  # IN cell of missing values; that of the boundary follows
    base: NDArray[np.int32],  # OUT (2 * n_labels,)
) -> int:
    """Put missing values and the boundary on the left side, as far as flags say; return their positions."""
    set_zero(base)
    n = int64(0)
    for special in range(2):
        if flags & (MISSING_LEFT if special == 0 else BOUNDARY_LEFT):
            add_to(sums[missing + special], base)
            n += counts[missing + special]
    return n


@inner_slicing
def count_rows(
    node: VectorNode,
    counts: NDArray[np.int32],  # IN (n_cells,)
    start: int,  # IN first cell of the feature
    n: int,  # IN length of the line
    from_top: bool,  # IN
    alone: bool,  # IN
    n_before: int,  # IN positions on the left side before the line begins
    scratch: Scratch,  # IN line, OUT n_left and n_right
) -> int:
    """Write the positions on both sides of every candidate; return those of the whole line."""
    line = scratch.axes.order
    n_carried = int64(0)
    for r in range(n):
        n_carried += counts[start + line[r]] if line[r] != ABSENT else 0
    n_left = int64(n_before)
    for r in range(n):
        v = line[n - 1 - r if from_top else r]
        if alone:
            n_left = int64(n_before)
        n_left += counts[start + v] if v != ABSENT else node.n - n_carried
        scratch.n_left[r] = n_left
        scratch.n_right[r] = node.n - n_left
    return n_left


@inner_slicing
def sum_labels(
    contexts: NDArray[np.int32],  # IN (n_extended, 2 * n_labels)
    mask: NDArray[np.bool_],  # IN (n_extended,) the node's contexts
    space: Space,
    lag: int,  # IN lag − 1
    scratch: Scratch,  # OUT lag_sums, lag_counts, contexts
) -> None:
    """Sum the node's contexts by their label at a lag."""
    set_zero(scratch.lag_counts)
    for v in range(scratch.lag_counts.size):
        set_zero(scratch.lag_sums[v])
        for j in range(scratch.contexts.shape[1]):
            scratch.contexts[v, j] = 0
    for e in range(mask.size):
        if mask[e]:
            v = space.lag_label[lag, e]
            add_to(contexts[e], scratch.lag_sums[v])
            scratch.lag_counts[v] += 1
            scratch.contexts[v, space.type_of[e]] += 1


@inner_slicing
def count_contexts(
    type_rows: NDArray[np.int64],  # IN (order + 1,) positions of each type
    n: int,  # IN length of the line
    alone: bool,  # IN
    scratch: Scratch,  # IN line and contexts, OUT n_left and n_right
) -> None:
    """Write the positions on both sides of every division of labels at a lag.

    Both sides hold the same positions, except where a side has no context of a position's type.
    """
    line, present = scratch.axes.order, scratch.contexts
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
