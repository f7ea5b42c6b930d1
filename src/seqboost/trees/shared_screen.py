"""A line of a shared tree's search, all of its divisions at once: most of them are told to be too poor to look at.

The gain of a division is a sum over labels with a division of numbers for each of them, which for few labels cannot be
vectorised. So prefixes of the line are laid out label by label,

    prefix[w, r] = Σ of the w-th sums (gradients, then curvatures) of the first r + 1 values of the line

and Σ_k G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) is computed for all r at once, in single precision. All of its terms are
positive, so it is wrong by less than (13 + K)·2^−24 of itself, and only divisions within `ERROR` of the best one are
computed as :func:`seqboost.trees.shared_splitting.scan_line` does, which finds the same split, to the bit. Where single
precision does not hold the numbers the line is `UNSCREENED`, and must be scanned.

Missing values and the boundary on the left side are a number that is added to every prefix: a numeric feature is laid
out once, however many sides they have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, inner_slicing
from seqboost.trees.criterion import Limits
from seqboost.trees.integers import int64, uint64
from seqboost.trees.shared_cells import Units
from seqboost.trees.shared_splitting import ABSENT, Scratch, VectorNode, split_gain

__all__ = ["LONGEST_LINE", "UNSCREENED", "can_screen", "lay_prefixes", "screen_line"]

UNSCREENED = -2

ERROR = 1e-5  # more than twice the relative error of a sum, with 32 labels
SHORTEST_LINE, LONGEST_LINE = 8, 512
SMALLEST_PENALTY = 1e-6  # with less, sums that matter might be too small for single precision
LARGEST_SUM = 1e37
LARGEST_CURVATURE = 1e18  # H + λ of a label: the product of two must not be too large for single precision


@inner
def can_screen(
    n: int,  # IN length of the line
    alone: bool,  # IN
    limits: Limits,
) -> bool:
    """Tell whether a line is worth it: not for a few values, nor if each is tried alone."""
    return not alone and SHORTEST_LINE <= n <= LONGEST_LINE and limits.l2_regularization >= SMALLEST_PENALTY


@inner
def lay_prefixes(
    sums: NDArray[np.int32],  # IN (n_cells, 2 * n_labels)
    start: int,  # IN first cell of the feature
    n: int,  # IN length of the line
    from_top: bool,  # IN whether the line begins at its end
    scratch: Scratch,  # IN line, OUT prefix
) -> None:
    """Sum the prefixes of a line."""
    line, prefix, absent = scratch.axes.order, scratch.prefix, scratch.absent
    flat, width, one = sums.reshape(-1), uint64(sums.shape[1]), uint64(1)
    for w in range(uint64(0), width, uint64(2)):  # a gradient or curvature and its neighbour: 2K of them are even
        first, second = np.int32(0), np.int32(0)
        for r in range(uint64(n)):
            v = line[uint64(n - 1) - r if from_top else r]
            at = uint64(start + v) * width + w
            if v == ABSENT:
                first, second = np.int32(first + absent[w]), np.int32(second + absent[w + one])
            else:
                first, second = np.int32(first + flat[at]), np.int32(second + flat[at + one])
            prefix[w, r] = first
            prefix[w + one, r] = second


@inner
def _bound_gains(
    total: NDArray[np.int32],  # IN (2 * n_labels,) of the node
    base: NDArray[np.int32],  # IN (2 * n_labels,) what is on the left side before the line begins
    units: Units,
    lam: float,  # IN λ
    prefix: NDArray[np.int32],  # IN (2 * n_labels, max_line)
    n: int,  # IN length of the line
    bound: NDArray[np.float32],  # OUT (max_line,)
) -> None:
    """Write Σ_k G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) of every prefix, in single precision."""
    n_labels = uint64(units.weight.size)
    penalty = np.float32(lam)
    for r in range(uint64(n)):
        bound[r] = np.float32(0.0)
    for k in range(n_labels):
        square, unit = np.float32(units.gradient[k] * units.gradient[k]), np.float32(units.curvature[k])
        g, h, base_g, base_h = total[k], total[n_labels + k], base[k], base[n_labels + k]
        for r in range(uint64(n)):
            left_g, left_h = np.int32(prefix[k, r] + base_g), np.int32(prefix[n_labels + k, r] + base_h)
            g_left, g_right = np.float32(left_g), np.float32(np.int32(g - left_g))
            h_left = np.float32(left_h) * unit + penalty
            h_right = np.float32(np.int32(h - left_h)) * unit + penalty
            bound[r] += square * ((g_left * g_left * h_right + g_right * g_right * h_left) / (h_left * h_right))


@inner_slicing
def screen_line(
    to_beat: float,
    node: VectorNode,
    limits: Limits,
    units: Units,
    n: int,  # IN length of the line
    scratch: Scratch,  # IN line, its prefixes, numbers of positions and base
) -> tuple[float, int]:
    """Return gain and end of the best prefix of the line, as ``scan_line`` does; −1: none beats; or `UNSCREENED`."""
    bound, left, base, prefix = scratch.bound, scratch.left, scratch.base, scratch.prefix
    least, n_labels = limits.min_samples_leaf, uint64(units.weight.size)
    for k in range(n_labels):
        if not node.total[n_labels + k] * units.curvature[k] + limits.l2_regularization < LARGEST_CURVATURE:
            return to_beat, int64(UNSCREENED)
    _bound_gains(node.total, base, units, limits.l2_regularization, prefix, n, bound)
    top = 0.0
    for r in range(uint64(n)):
        if min(scratch.n_left[r], scratch.n_right[r]) < least:
            continue
        if not bound[r] < LARGEST_SUM:  # not a number, too: single precision does not hold these sums
            return to_beat, int64(UNSCREENED)
        top = max(top, float(bound[r]))
    best, end = to_beat, int64(-1)
    if top * (1.0 + ERROR) < to_beat + node.gain:
        return best, end
    for r in range(uint64(n)):
        if bound[r] < top * (1.0 - ERROR) or min(scratch.n_left[r], scratch.n_right[r]) < least:
            continue
        for w in range(uint64(left.size)):
            left[w] = prefix[w, r] + base[w]
        gain = split_gain(left, node.total, units, limits.l2_regularization) - node.gain
        if gain > best:
            best, end = gain, int64(r)
    return best, end
