"""The best split of a node along one *line* of values.

What a split gains is summed over outputs,

    gain = Σ_k  G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) − G_k²/(H_k+λ)

where an output without any curvature on a side (λ = 0) counts nothing there. Whatever the feature, its values are put
on a line and every prefix of the line is tried as the left side, or every value of it alone.

Most prefixes are discarded cheaply. Sums of prefixes are laid out lane by lane,

    prefix[w, r] = Σ of the w-th lane of the first r + 1 values of the line

and Σ_k G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) is computed for all r at once, in single precision. All of its terms are
positive, so it is wrong by less than (13 + K)·2^−24 of itself, and only prefixes within `ERROR` of the best one are
computed in double precision, as :func:`scan_line` does for all of them: the split found is the same, to the bit. Where
single precision does not hold the numbers the line is `UNSCREENED`, and must be scanned.

A gain counts if it is larger than what rounding makes of none: in a node whose positions are all alike, each of the
three terms is as large as the node, and their sum is noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inner, int64, uint64
from seqboost.trees.columns import Limits
from seqboost.trees.intrinsics import sum_prefixes, sum_prefixes_of_line
from seqboost.trees.quantise import Units

__all__ = ["ABSENT", "STRIDE", "Line", "Scratch", "SearchNode", "best_prefix", "gain_to_beat"]

ABSENT = -1  # on a line of slots: the positions that carry none

SMALLEST_GAIN = 1e-12
ROUNDING = 1e-13  # relative, more than the roundings of a gain, with hundreds of outputs

UNSCREENED = -2
ERROR = 1e-5  # more than twice the relative error of a sum, with 32 outputs
SHORTEST_LINE, LONGEST_LINE = 8, 512
PADDING = 32
STRIDE = LONGEST_LINE + PADDING + 16  # of lanes in Scratch.prefix; no power of two, for the sets of the cache
SMALLEST_PENALTY = 1e-6  # with less, sums that matter might be too small for single precision
LARGEST_SUM = 1e37
LARGEST_BITS = int(np.float32(LARGEST_SUM).view(np.int32))
LARGEST_CURVATURE = 1e18  # H + λ of an output: the product of two must not be too large for single precision


class SearchNode(NamedTuple):
    """A node whose split is looked for."""

    total: NDArray[np.int32]  # (n_lanes,)
    n: int  # fitted positions
    gain: float  # Σ_k G_k²/(H_k+λ)


class Line(NamedTuple):
    """Values to be divided."""

    start: int  # first cell of the feature
    n: int  # number of values
    first: int  # the first of values that follow one another; −1: the values are in Scratch.line
    from_top: bool  # whether the line begins at its end
    alone: bool  # whether each value is tried alone, and not each prefix
    has_absent: bool  # whether `ABSENT` is one of the values
    by_contexts: bool  # whether Scratch.n_left and n_right hold the positions of both sides, or lanes do


class Scratch(NamedTuple):
    """Buffers of one task."""

    line: NDArray[np.int64]  # (max_line,) values
    counts: NDArray[np.int32]  # (max_line,) positions of each value of the feature
    n_left: NDArray[np.int64]  # (max_line,) positions on the left side of each split of contexts
    n_right: NDArray[np.int64]  # (max_line,)
    base: NDArray[np.int32]  # (n_lanes,) what is on the left side before the line begins
    left: NDArray[np.int32]  # (n_lanes,) sums of the left side
    absent: NDArray[np.int32]  # (n_lanes,) sums of the positions without a slot
    present: NDArray[np.int32]  # (n_lanes,) sums of the positions that have the feature
    running: NDArray[np.int32]  # (n_lanes,)
    prefix: NDArray[np.int32]  # (n_lanes * STRIDE,) sums of every prefix of the line
    bound: NDArray[np.float32]  # (STRIDE,) what they gain, roughly
    bits: NDArray[np.int32]  # (STRIDE,) the same memory: positive floats are in the order of their bits
    lag_sums: NDArray[np.int32]  # (n_labels + 1, n_lanes) sums of the labels at a lag
    lag_contexts: NDArray[np.int64]  # (n_labels + 1, order + 1) contexts of each label and type
    keys: NDArray[np.float64]  # (max_ordered,) by which categories are ordered
    ranked: NDArray[np.int64]  # (max_ordered,) values in that order
    pull: NDArray[np.float64]  # (max_ordered, n_outputs) see seqboost.trees.order
    weight: NDArray[np.float64]  # (max_ordered,)
    direction: NDArray[np.float64]  # (n_outputs,)
    spread: NDArray[np.float64]  # (n_outputs,)
    inverse: NDArray[np.float64]  # (n_outputs,)


@inner
def value_on(
    line: Line,
    values: NDArray[np.int64],  # IN (max_line,) of Scratch.line
    r: int,  # IN
) -> int:
    """Return the r-th value of a line."""
    if line.first >= 0:
        return line.first + int64(r)
    return values[line.n - 1 - int64(r) if line.from_top else int64(r)]


@inner
def gain_to_beat(limits: Limits, node_gain: float) -> float:
    """Return what a split must gain more than, in a node of this Σ_k G_k²/(H_k+λ)."""
    return max(limits.min_gain, SMALLEST_GAIN, ROUNDING * node_gain)


@inner
def _gain_of_output(left: NDArray[np.int32], node: NDArray[np.int32], units: Units, k: int) -> float:
    """Return G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) of an output, λ > 0, by one division in place of two."""
    n_outputs = units.weight.size
    g_left, g_right = float(left[k]), float(node[k] - left[k])
    h_left = left[n_outputs + k] + units.penalty[k]
    h_right = (node[n_outputs + k] - left[n_outputs + k]) + units.penalty[k]
    return units.weight[k] * (g_left * g_left * h_right + g_right * g_right * h_left) / (h_left * h_right)


@inner
def _split_gain(
    left: NDArray[np.int32],  # IN (n_lanes,)
    node: NDArray[np.int32],  # IN (n_lanes,)
    units: Units,
    lam: float,  # IN λ
) -> float:
    """Return Σ_k G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ), or −1 if a side has no curvature at all and λ is 0.

    The order of the sum is written out, four outputs at a time. Left to the compiler, it would be another one in each
    kernel that this is made part of, and so would the last bits.
    """
    n_outputs = units.weight.size
    if lam > 0.0:
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        n_fours = n_outputs - n_outputs % 4
        for k in range(0, n_fours, 4):
            a += _gain_of_output(left, node, units, k)
            b += _gain_of_output(left, node, units, k + 1)
            c += _gain_of_output(left, node, units, k + 2)
            d += _gain_of_output(left, node, units, k + 3)
        for k in range(n_fours, n_outputs):
            a += _gain_of_output(left, node, units, k)
        return (a + b) + (c + d)
    total, all_left, all_right = 0.0, 0.0, 0.0
    for k in range(n_outputs):
        g_left, g_right = float(left[k]), float(node[k] - left[k])
        h_left, h_right = float(left[n_outputs + k]), float(node[n_outputs + k] - left[n_outputs + k])
        total += units.weight[k] * g_left * g_left / h_left if h_left > 0.0 else 0.0
        total += units.weight[k] * g_right * g_right / h_right if h_right > 0.0 else 0.0
        all_left += h_left
        all_right += h_right
    return total if all_left > 0.0 and all_right > 0.0 else -1.0


@inner
def node_gain(
    node: NDArray[np.int32],  # IN (n_lanes,)
    units: Units,
) -> float:
    """Return Σ_k G_k²/(H_k+λ)."""
    n_outputs = units.weight.size
    total = 0.0
    for k in range(n_outputs):
        g, h = float(node[k]), node[n_outputs + k] + units.penalty[k]
        total += units.weight[k] * g * g / h if h > 0.0 else 0.0
    return total


@inner
def _scan_line(
    to_beat: float,
    node: SearchNode,
    limits: Limits,
    units: Units,
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    line: Line,
    scratch: Scratch,
) -> tuple[float, int]:
    """Return gain and end of the best prefix of the line (or place of the best value of it); −1: none beats."""
    left, base, absent = scratch.left, scratch.base, scratch.absent
    flat, width = cells.reshape(-1), uint64(cells.shape[1])
    n_lane = uint64(2 * units.weight.size)
    best, end = to_beat, int64(-1)
    for w in range(width):
        left[w] = base[w]
    for r in range(line.n):
        v = value_on(line, scratch.line, r)
        if line.alone and r > 0:
            for w in range(width):
                left[w] = base[w]
        if v == ABSENT:
            for w in range(width):
                left[w] += absent[w]
        else:
            at = uint64(line.start + v) * width
            for w in range(width):
                left[w] += flat[at + w]
        n_left, n_right = int64(left[n_lane]), node.n - int64(left[n_lane])
        if line.by_contexts:
            n_left, n_right = scratch.n_left[r], scratch.n_right[r]
        if min(n_left, n_right) >= limits.min_samples_leaf:
            gain = _split_gain(left, node.total, units, limits.l2_regularization) - node.gain
            if gain > best:
                best, end = gain, int64(r)
    return best, end


@inner
def lay_prefixes(
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    line: Line,
    scratch: Scratch,  # IN line, OUT prefix
) -> None:
    """Sum the prefixes of a line."""
    values, prefix, running, absent = scratch.line, scratch.prefix, scratch.running, scratch.absent
    flat, width, n, start = cells.reshape(-1), uint64(cells.shape[1]), uint64(line.n), uint64(line.start)
    four, stride = uint64(4), uint64(STRIDE)
    n_fours = uint64(0) if line.has_absent or line.from_top else n - n % four
    for w in range(width):
        running[w] = 0
    for lane in range(uint64(0), width, four):
        if line.first >= 0:
            sum_prefixes(flat, values, n_fours, (start + uint64(line.first), width, lane), running, prefix, stride)
        else:
            sum_prefixes_of_line(flat, values, n_fours, (start, width, lane), running, prefix, stride)
    for r in range(n_fours, n):
        v = value_on(line, values, r)
        at = (start + uint64(max(v, 0))) * width
        for w in range(width):
            running[w] += absent[w] if v == ABSENT else flat[at + w]
            prefix[w * stride + r] = running[w]


@inner
def _bound_gains(
    node: SearchNode,
    least: int,  # IN positions that each side needs
    units: Units,
    lam: float,  # IN λ
    line: Line,
    scratch: Scratch,  # IN prefix, base, OUT bound
) -> int:
    """Write Σ_k G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) of every prefix, in single precision; return the bits of the largest.

    Prefixes that leave a side too few positions get 0.
    """
    prefix, base, bound, bits, total = scratch.prefix, scratch.base, scratch.bound, scratch.bits, node.total
    n_outputs, stride = uint64(units.weight.size), uint64(STRIDE)
    # Beyond its end, a line is filled up to whole vectors.
    n, n_padded = uint64(line.n), (uint64(line.n) + uint64(PADDING - 1)) & ~uint64(PADDING - 1)
    penalty = np.float32(lam)
    for k in range(n_outputs):
        unit_g, unit = np.float32(units.gradient[k]), np.float32(units.curvature[k])
        g, h, base_g, base_h = total[k], total[n_outputs + k], base[k], base[n_outputs + k]
        at_g, at_h, is_first = k * stride, (n_outputs + k) * stride, k == uint64(0)
        for r in range(n_padded):
            left_g = np.int32(prefix[at_g + r] + base_g)
            left_h = np.int32(prefix[at_h + r] + base_h)
            g_left = np.float32(left_g) * unit_g
            g_right = np.float32(np.int32(g - left_g)) * unit_g
            h_left = np.float32(left_h) * unit + penalty
            h_right = np.float32(np.int32(h - left_h)) * unit + penalty
            gain = (g_left * g_left * h_right + g_right * g_right * h_left) / (h_left * h_right)
            bound[r] = gain if is_first else bound[r] + gain
    if line.by_contexts:
        for r in range(n):
            if min(scratch.n_left[r], scratch.n_right[r]) < least:
                bound[r] = np.float32(0.0)
    else:
        before, most, at = base[uint64(2) * n_outputs], node.n - least, uint64(2) * n_outputs * stride
        low, high = np.int32(least - before), np.int32(most - before)
        for r in range(n_padded):
            bound[r] = bound[r] if low <= prefix[at + r] <= high else np.float32(0.0)
    for r in range(n, n_padded):
        bound[r] = np.float32(0.0)
    top = np.int32(0)
    for r in range(n_padded):
        top = max(top, bits[r])
    return int64(top)


@inner
def _screen_line(
    to_beat: float,
    node: SearchNode,
    limits: Limits,
    units: Units,
    line: Line,
    scratch: Scratch,
) -> tuple[float, int]:
    """Return gain and end of the best prefix of the line, as ``_scan_line`` does; −1: none beats; or `UNSCREENED`."""
    bound, left, base, prefix = scratch.bound, scratch.left, scratch.base, scratch.prefix
    n_outputs, lam = uint64(units.weight.size), limits.l2_regularization
    for k in range(n_outputs):
        if not node.total[n_outputs + k] * units.curvature[k] + lam < LARGEST_CURVATURE:
            return to_beat, int64(UNSCREENED)
    bits = _bound_gains(node, max(limits.min_samples_leaf, 0), units, lam, line, scratch)
    if bits >= LARGEST_BITS:  # not a number, too: single precision does not hold these sums
        return to_beat, int64(UNSCREENED)
    scratch.bits[STRIDE - 1] = np.int32(bits)
    top = bound[STRIDE - 1]
    best, end = to_beat, int64(-1)
    if float(top) * (1.0 + ERROR) < to_beat + node.gain:
        return best, end
    least = float(top) * (1.0 - ERROR)
    for r in range(uint64(line.n)):
        if bound[r] < least or bound[r] == 0.0:
            continue
        for w in range(uint64(2) * n_outputs):
            left[w] = prefix[w * uint64(STRIDE) + r] + base[w]
        gain = _split_gain(left, node.total, units, lam) - node.gain
        if gain > best:
            best, end = gain, int64(r)
    return best, end


@inner
def best_prefix(
    to_beat: float,
    node: SearchNode,
    limits: Limits,
    units: Units,
    cells: NDArray[np.int32],  # IN (n_cells, n_lanes)
    line: Line,
    keeps_prefixes: bool,  # IN whether Scratch.prefix holds those of this line already
    scratch: Scratch,  # IN line, base, absent; n_left and n_right of a line of contexts
) -> tuple[float, int]:
    """Return gain and end of the best prefix of the line (or place of the best value of it); −1: none beats."""
    # Screening is not worth it for a few values.
    if not line.alone and SHORTEST_LINE <= line.n <= LONGEST_LINE and limits.l2_regularization >= SMALLEST_PENALTY:
        if not keeps_prefixes:
            lay_prefixes(cells, line, scratch)
        best, end = _screen_line(to_beat, node, limits, units, line, scratch)
        if end != UNSCREENED:
            return best, end
    return _scan_line(to_beat, node, limits, units, cells, line, scratch)
