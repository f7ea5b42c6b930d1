"""What makes one split better than another.

For a left side with gradient sum G_l and curvature sum H_l, of a node with G and H,

    gain = G_l²/(H_l+λ) + G_r²/(H_r+λ) − G²/(H+λ)

A gain counts if it is larger than what rounding makes of none: in a node whose positions are all alike, each of the
three terms is as large as the node, and their sum is noise.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import inlined, inner
from seqboost.trees.fixedpoint import Scales
from seqboost.trees.integers import int64

__all__ = [
    "AFTER_ABSENT",
    "BOUNDARY_LEFT",
    "FROM_TOP",
    "MISSING_LEFT",
    "ROUNDING",
    "SMALLEST_GAIN",
    "Limits",
    "Node",
    "SplitRule",
    "gain_of",
    "gain_to_beat",
    "try_split",
    "unpack",
]

# Flags of a SplitRule.
MISSING_LEFT, BOUNDARY_LEFT = 1, 2  # numeric features
FROM_TOP = 4  # wide categorical features: ranks are counted from the largest G/(H+λ)
AFTER_ABSENT = 8  # ordered slots: "absent", which stands before slot ``cut``, is the last value on the low side

SMALLEST_GAIN = 1e-12
ROUNDING = 1e-13  # relative, more than the roundings of a gain, with hundreds of labels

Node: TypeAlias = tuple[float, float, int, float]
"""(G, H, n, G²/(H+λ)) of a node."""


class Limits(NamedTuple):
    """What a tree may do."""

    max_leaf_nodes: int
    max_depth: int
    min_samples_leaf: int
    l2_regularization: float
    min_gain: float
    one_against_rest: bool
    n_drawn_features: int  # window features drawn at each node; all of them if not smaller
    n_tree_features: int = 2**31 - 1  # window features drawn for each tree, from which the nodes draw theirs
    n_surrogates: int = 3  # surrogate splits kept for each split on a feature with this policy


class SplitRule(NamedTuple):
    """A split, as found: enough to build its left set from the histogram again."""

    gain: float
    kind: int
    feature: int  # DENSE: place in Columns; SPARSE: offset · n_sparse + feature; LAG: lag − 1
    cut: int  # last value, or rank of the last category, that goes left
    flags: int


@inlined
def gain_to_beat(limits: Limits, node_gain: float) -> float:
    """Return what a split must gain more than, in a node of this G²/(H+λ)."""
    return max(limits.min_gain, SMALLEST_GAIN, ROUNDING * node_gain)


@inlined
def gain_of(g_left: float, h_left: float, g_right: float, h_right: float) -> float:
    """Return G_l²/H_l + G_r²/H_r with one division; both H already hold λ."""
    return (g_left * g_left * h_right + g_right * g_right * h_left) / (h_left * h_right)


@inner
def try_split(
    best: SplitRule,
    node: Node,
    limits: Limits,
    g_left: float,
    h_left: float,
    n_left: int,
    kind: int,
    feature: int,
    cut: int,
    flags: int,
) -> SplitRule:
    """Return the better of ``best`` and the split with this left side."""
    g, h, n, parent_gain = node
    h_l = h_left + limits.l2_regularization
    h_r = h - h_left + limits.l2_regularization
    if n_left < limits.min_samples_leaf or n - n_left < limits.min_samples_leaf or h_l <= 0.0 or h_r <= 0.0:
        return best
    gain = gain_of(g_left, h_l, g - g_left, h_r) - parent_gain
    if gain > best.gain:
        return SplitRule(gain, kind, feature, cut, flags)
    return best


@inlined
def unpack(
    histogram: NDArray[np.int64],  # IN (2 * n_cells,)
    cell: int,
    scales: Scales,
) -> tuple[float, float, int]:
    """Return G, H and n of a cell as real numbers and a count; inverses of powers of two are exact, and cost less."""
    packed = histogram[2 * cell + 1]
    count = packed & ((int64(1) << scales.count_bits) - 1)
    return (
        np.float64(histogram[2 * cell]) * (1.0 / scales.gradient),
        np.float64(packed >> scales.count_bits) * (1.0 / scales.curvature),
        count,
    )
