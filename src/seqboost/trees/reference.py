"""Slow twin of the engine that grows trees: an exact greedy tree on the expanded data set. For tests only.

Write out every position once per context that exists there: one *example* per (t, c), with the codes of its window, the
slots it carries, the labels at its lags and its derivatives, vectors of D outputs (a tree for one label has D = 1). Try
every candidate split of every node in plain float64 sums; share nothing between nodes, and nothing with the kernels.

    value_k = G_k/(H_k+λ)        gain = Σ_k  G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) − G_k²/(H_k+λ)

Gains count the examples where the feature is present, or all of them if its policy is DIRECTION. Each row of a node has
a weight, as a number, which derivatives are multiplied by, and as a whole number of units, which sizes count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees.columns import Columns, Limits, Policies, Problem
from seqboost.trees.tree import DENSE, LAG, SPARSE

__all__ = ["Example", "Feature", "Part", "ReferenceTree", "draw_features", "draw_for_tree", "expand", "features_of"]
__all__ += ["grow_reference", "leading_order", "mix", "window_values"]

Floats: TypeAlias = NDArray[np.floating[Any]]
Vector: TypeAlias = NDArray[np.float64]

MIN_ROWS_OF_WIDE_CATEGORY = 5  # a category that fewer positions of a node carry takes no part in the order: goes right
SMALLEST_GAIN, NOISE = 1e-12, 1e-13  # no split gains less, nor less than this part of the gain of its node
TIE = 1e-9  # gains that differ by less than this part are equal: the first candidate wins
N_STEPS = 3  # of power iteration
UNIT = 2**12  # units of the weight 1


class Feature(NamedTuple):
    """A window feature or a lag, and what its values mean."""

    kind: int
    place: int  # among the features of its kind; those of sparse features are offset · n_sparse + feature
    number: int  # in a frozen tree
    is_ordered: bool  # whether it is split by thresholds
    n_values: int  # dense: codes before those of missing, boundary and unknown; sparse: slots
    absent_rank: int  # where "absent" stands among ordered slots
    missing: int | None  # value that stands for missing
    policy: int


def features_of(columns: Columns, policies: Policies | None, n_lags: int) -> Iterator[Feature]:
    """Give the features in the order in which splits of equal gain are preferred."""
    dense, sparse, n_sparse = columns.dense, columns.sparse, len(columns.sparse.kind)
    for f in range(len(dense.displacement)):
        n_values = int(dense.n_values[f])
        policy = DIRECTION if policies is None else int(policies.dense[f])
        yield Feature(DENSE, f, f, dense.kind[f] == 0, n_values, 0, n_values, policy)
    for f in np.flatnonzero(sparse.enabled.reshape(-1)).tolist():
        s = f % n_sparse
        n_slots, missing = int(np.diff(sparse.slot_start)[s]), int(sparse.missing[s])
        policy = DIRECTION if policies is None or missing < 0 else int(policies.sparse[s])
        rank = int(sparse.absent_rank[s])
        yield Feature(SPARSE, f, f, sparse.kind[s] == 0, n_slots, rank, missing if missing >= 0 else None, policy)
    for lag in range(n_lags):
        yield Feature(LAG, lag, lag + 1, False, 0, 0, None, DIRECTION)


@dataclass(frozen=True, eq=False)
class Example:
    """One position in one context, as it stands in the expanded data set."""

    row: int
    context: int
    gradient: Vector  # (D,)
    hessian: Vector  # (D,)
    dense: tuple[int, ...]  # code of each dense window feature, in the order of DenseColumns
    sparse: tuple[int, ...]  # slot of each sparse window feature; −1: absent
    lags: tuple[int, ...]  # labels at lags 1, 2, …; K before the start of the sequence

    def value(self, feature: Feature) -> int:
        """Return the value that a split on a feature tests."""
        return {DENSE: self.dense, SPARSE: self.sparse, LAG: self.lags}[feature.kind][feature.place]

    def lacks(self, feature: Feature) -> bool:
        """Check whether the value of a feature is missing."""
        return self.value(feature) == feature.missing


class Split(NamedTuple):
    """A split of a node, or a surrogate: values in ``left`` go left."""

    gain: float  # of a surrogate: part of the weight that it sends the same way
    feature: Feature
    left: frozenset[int]


class Weight(NamedTuple):
    """The weight of a row in a node."""

    number: float
    units: int


class Part(NamedTuple):
    """Sums over some examples of a node."""

    gradient: Vector
    hessian: Vector
    rows: frozenset[int] = frozenset()
    units: int = 0  # weight of the rows, each counted once


@dataclass
class Node:
    """A leaf that may still be split."""

    examples: list[Example]
    weight: dict[int, Weight]  # by row
    depth: int
    key: int  # what its features are drawn from
    above: int = -1  # split that made it
    split: Split | None = None

    def sums(self, examples: list[Example]) -> Part:
        """Sum examples."""
        weight = [self.weight[e.row].number for e in examples]
        gradient: Any = sum((w * e.gradient for w, e in zip(weight, examples, strict=True)), np.zeros(1))
        hessian: Any = sum((w * e.hessian for w, e in zip(weight, examples, strict=True)), np.zeros(1))
        return self.joined([Part(gradient, hessian, frozenset(e.row for e in examples))])

    def joined(self, parts: list[Part]) -> Part:
        """Sum parts; a row counts once, however many of them hold it."""
        rows: frozenset[int] = frozenset().union(*(part.rows for part in parts))
        gradient: Any = sum((part.gradient for part in parts), np.zeros(1))
        hessian: Any = sum((part.hessian for part in parts), np.zeros(1))
        return Part(gradient, hessian, rows, sum(self.weight[row].units for row in rows))

    def present(self, feature: Feature) -> list[Example]:
        """Return the examples that the gain of a feature's splits counts."""
        return [e for e in self.examples if feature.policy == DIRECTION or not e.lacks(feature)]

    def parts(self, feature: Feature) -> dict[int, Part]:
        """Sum these examples by their value, in rising order."""
        by_value: dict[int, list[Example]] = {}
        for e in self.present(feature):
            by_value.setdefault(e.value(feature), []).append(e)
        return {v: self.sums(by_value[v]) for v in sorted(by_value)}


@dataclass
class ReferenceTree:
    """A tree as the reference grows it; splits, leaves and features have the numbers that they have in `Tree`."""

    l2_regularization: float
    n_outputs: int
    kind: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    left_set: list[frozenset[int]] = field(default_factory=list)
    held: list[frozenset[int]] = field(default_factory=list)  # values that occur in the node, but for missing ones
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    n_rows: list[int] = field(default_factory=list)
    share: list[float] = field(default_factory=list)  # 0: rows without a value go one way
    surrogates: list[list[tuple[int, int, frozenset[int]]]] = field(default_factory=list)  # kind, feature, left set
    leaves: list[Node] = field(default_factory=list)

    @property
    def gradient(self) -> Vector:
        """Sums of gradients, of shape (n_leaves, D)."""
        return np.array([node.sums(node.examples).gradient + np.zeros(self.n_outputs) for node in self.leaves])

    @property
    def hessian(self) -> Vector:
        """Sums of curvatures, of shape (n_leaves, D)."""
        return np.array([node.sums(node.examples).hessian + np.zeros(self.n_outputs) for node in self.leaves])

    @property
    def value(self) -> Vector:
        """Values of the leaves, of shape (n_leaves, D)."""
        return self.gradient / np.maximum(self.hessian + self.l2_regularization, 1e-300)

    @property
    def leaf_rows(self) -> list[int]:
        """Number of positions of each leaf, whatever their weights."""
        return [len(node.weight) for node in self.leaves]

    @property
    def weights(self) -> dict[tuple[int, int], dict[int, float]]:
        """Weight of each fitted (row, context) in the leaves that it reaches."""
        found: dict[tuple[int, int], dict[int, float]] = {}
        for leaf, node in enumerate(self.leaves):
            for e in node.examples:
                found.setdefault((e.row, e.context), {})[leaf] = node.weight[e.row].number
        return found

    @property
    def leaf_of(self) -> dict[tuple[int, int], int]:
        """Leaf of each fitted (row, context) that reaches one only."""
        return {cell: next(iter(leaves)) for cell, leaves in self.weights.items() if len(leaves) == 1}


def window_values(columns: Columns, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the codes of a position's dense window features and the slots of its sparse ones (−1: absent)."""
    dense, sparse = columns.dense, columns.sparse
    codes = tuple(int(dense.codes[dense.address[row] + displacement]) for displacement in dense.displacement)
    slots = []
    for offset in sparse.offset:
        padded = sparse.padded_row[row] + offset
        carried = sparse.indices[sparse.indptr[padded] : sparse.indptr[padded + 1]]
        for first, last in zip(sparse.slot_start[:-1], sparse.slot_start[1:], strict=True):
            slots.append(next((int(slot - first) for slot in carried if first <= slot < last), -1))
    return codes, tuple(slots)


def expand(
    columns: Columns, offsets: NDArray[np.int64], n_labels: int, order: int, gradient: Floats, hessian: Floats
) -> list[Example]:
    """Write out every position in every context that exists there, by row and then by context.

    Parameters
    ----------
    columns : Columns
        The binned columns.
    offsets : ndarray of int64 of shape (n_sequences + 1,)
        Where sequences begin and end.
    n_labels, order : int
        K and m.
    gradient, hessian : ndarray of shape (D, n_rows, n_contexts)
        Derivatives.
    """
    examples = []
    for begin, end in zip(offsets[:-1], offsets[1:], strict=True):
        for row in range(begin, end):
            n_lags = min(row - begin, order)
            codes, slots = window_values(columns, row)
            for c in range(n_labels**n_lags):
                lags = tuple(c // n_labels**lag % n_labels if lag < n_lags else n_labels for lag in range(order))
                g, h = (part[:, row, c].astype(np.float64) for part in (gradient, hessian))
                examples.append(Example(row, c, g, h, codes, slots, lags))
    return examples


def mix(z: int) -> int:
    """Scramble 64 bits (the finalizer of SplitMix64; Steele, Lea and Flood 2014)."""
    z %= 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def draw_features(key: int, pool: Sequence[int], n_drawn: int) -> list[int]:
    """Draw from ``pool`` without replacement, by the first ``n_drawn`` steps of Fisher and Yates; all if not fewer."""
    drawn, n = list(pool), len(pool)
    for r in range(n_drawn if n_drawn < n else 0):
        q = r + mix(key + (r + 1) * 0x9E3779B97F4A7C15) % (n - r)
        drawn[r], drawn[q] = drawn[q], drawn[r]
    return drawn[:n_drawn]


def draw_for_tree(problem: Problem, seed: int) -> Callable[[int], set[int]]:
    """Draw the features of a tree; return the function that draws from them those of a node, by its key."""
    limits = problem.limits
    pool = draw_features(seed, range(problem.columns.n_features), limits.n_tree_features)
    return lambda key: set(draw_features(key, pool, limits.n_drawn_features))


def grow_reference(
    problem: Problem,
    examples: list[Example],
    policies: Policies | None = None,
    draw: Callable[[int], set[int]] | None = None,
    seed: int = 0,
    unit: int = UNIT,
) -> ReferenceTree:
    """Grow a tree on expanded examples, best split first.

    Parameters
    ----------
    problem : Problem
        What the values of the examples mean, and what the tree may do.
    examples : list of Example
        Those the tree is fitted to.
    policies : Policies, optional
        What is done about missing values; DIRECTION for every feature by default.
    draw : callable, optional
        From the key of a node to the window features that it may use (dense ones in their order, then sparse ones by
        offset and feature), see :func:`draw_for_tree`. Called once for each node that is searched, the left of two
        children first. All features by default.
    seed : int, default=0
        What the keys of nodes come from.
    unit : int, default=4096
        Units of the weight 1.
    """
    limits, (n_lags, n_outputs) = problem.limits, next(((len(e.lags), len(e.gradient)) for e in examples), (0, 1))
    features = [*features_of(problem.columns, policies, n_lags)]
    first = {DENSE: 0, SPARSE: len(problem.columns.dense.displacement)}
    root = Node(examples, {e.row: Weight(1.0, unit) for e in examples}, 0, mix(seed))
    tree = ReferenceTree(limits.l2_regularization, n_outputs, leaves=[root])
    nodes, newest = tree.leaves, [root]
    while len(nodes) < limits.max_leaf_nodes:
        for node in newest:
            if node.depth < limits.max_depth and node.examples:
                drawn = None if draw is None else draw(node.key)
                usable = [f for f in features if f.kind == LAG or drawn is None or f.place + first[f.kind] in drawn]
                node.split = _best_split(node, usable, limits, unit)
        leaf, best_gain = -1, 0.0
        for number, node in enumerate(nodes):
            if node.split is not None and node.split.gain > best_gain * (1 + TIE):
                leaf, best_gain = number, node.split.gain
        if leaf < 0:
            break
        newest = _divide(tree, leaf, features, limits.n_surrogates)
        nodes[leaf] = newest[0]
        nodes.append(newest[1])
    return tree


def _side_gain(part: Part, lam: float) -> float:
    """Return Σ_k G_k²/(H_k+λ) over the outputs that have a curvature."""
    curved = part.hessian + lam > 0
    return float((part.gradient[curved] ** 2 / (part.hessian[curved] + lam)).sum())


def _best_split(node: Node, features: list[Feature], limits: Limits, unit: int) -> Split | None:
    """Try every split of the features; return the first with the largest gain."""
    best, lam = None, limits.l2_regularization
    best_gain = max(limits.min_gain, SMALLEST_GAIN, NOISE * _side_gain(node.sums(node.examples), lam))
    for feature in features:
        parts = node.parts(feature)
        whole = node.joined([*parts.values()])
        for left in _left_sets(parts, whole, feature, limits, unit):
            sides = [node.joined([part for v, part in parts.items() if (v in left) == side]) for side in (True, False)]
            is_small = min(side.units for side in sides) < limits.min_samples_leaf * unit
            if is_small or min(float(side.hessian.sum()) for side in sides) + lam <= 0:
                continue
            gain = sum(_side_gain(side, lam) for side in sides) - _side_gain(whole, lam)
            if gain > (best_gain if best is None else best_gain * (1 + TIE)):
                best_gain = gain
                best = Split(gain, feature, left)
    return best


def _left_sets(
    parts: dict[int, Part], whole: Part, feature: Feature, limits: Limits, unit: int
) -> Iterator[frozenset[int]]:
    """Give the left sets that a feature offers, in the order in which those of equal gain are preferred."""
    held, n_values = [v for v in parts if parts[v].units > 0], feature.n_values
    if feature.kind == DENSE and feature.is_ordered:
        missing, boundary = {n_values} & {*held}, {n_values + 1} & {*held}
        for specials in (set(), missing, boundary, missing | boundary):
            yield from (frozenset(range(v + 1)) | specials for v in held if v < n_values)
        return
    if feature.is_ordered:  # slots: the side of the threshold where "absent" (−1) is not
        line = [*range(feature.absent_rank), -1, *range(feature.absent_rank, n_values)]
        for cut in range(1, len(line)):
            yield frozenset(line[cut:] if -1 in line[:cut] else line[:cut])
        return
    least = MIN_ROWS_OF_WIDE_CATEGORY * unit if feature.kind == SPARSE else 1
    unknown = {-1, n_values + 2} if feature.kind == DENSE else {-1}
    categories = {v: parts[v] for v in held if v not in unknown and parts[v].units >= least}
    order = leading_order(categories, whole, limits.l2_regularization)
    if limits.one_against_rest:
        yield from (frozenset([v]) for v in order)
        return
    yield from (frozenset(order[: r + 1]) for r in range(len(order)))
    if feature.kind == SPARSE and len(order) < len(held):  # the rest goes right, so that the ends differ
        yield from (frozenset(order[r:]) for r in reversed(range(len(order))))


def leading_order(parts: dict[int, Part], whole: Part, lam: float) -> list[int]:
    """Order categories along the direction in which they differ most; if D = 1, by G/(H+λ).

    Parameters
    ----------
    parts, whole : dict of Part, Part
        Sums of the categories, by their value, and of the node.
    lam : float
        λ.
    """
    direction = np.ones_like(whole.gradient)
    if len(direction) > 1:
        spread = np.sqrt(np.maximum(whole.hessian + lam, 0.0))
        x = np.zeros((1, len(direction)))  # how categories pull outputs away from the node
        for part in parts.values():
            share = part.hessian.sum() / max(whole.hessian.sum(), 1e-300)
            if share > 0:
                pull = (part.gradient - share * whole.gradient) / np.maximum(spread, 1e-150) / np.sqrt(share)
                x = np.vstack([x, pull])
        found = x[np.argmax((x**2).sum(axis=1))]
        for _ in range(N_STEPS if found.any() else 0):
            found = x.T @ (x @ found)
            found = found / np.abs(found).max()
        top = found[np.argmax(np.abs(found))]
        direction = spread * (found / top if top != 0 else direction)
    keys = {v: (direction * part.gradient / np.maximum(part.hessian + lam, 1e-300)).sum() for v, part in parts.items()}
    return sorted(parts, key=lambda v: (keys[v], v))


def _divide(tree: ReferenceTree, leaf: int, features: list[Feature], n_surrogates: int) -> list[Node]:
    """Add the split of a leaf to the tree, with its share or its surrogates; return the two children."""
    node, number = tree.leaves[leaf], len(tree.kind)
    assert node.split is not None
    gain, feature, left = node.split
    parts = node.parts(feature)
    held = {v for v, part in parts.items() if part.units > 0}
    n_left = node.joined([part for v, part in parts.items() if v in left]).units
    n = node.joined([*parts.values()]).units
    larger_left = 2 * n_left > n
    # What the examples do not tell the side of goes to the larger one.
    unsettled = set() if feature.policy == DIRECTION or feature.missing is None else {feature.missing}
    if feature.kind == DENSE:
        codes = range(feature.n_values if feature.is_ordered else 0, feature.n_values + 2)
        unsettled |= {*codes, *([] if feature.is_ordered else [feature.n_values + 2])} - held
    left = left | unsettled if larger_left else left - unsettled
    share = float(np.float32(n_left / n)) if feature.policy == INSTANCE_WEIGHTING else 0.0
    surrogates: list[Split] = []
    if feature.policy == SURROGATE:
        others = [other for other in features if other.kind != LAG and other != feature]
        surrogates = _surrogates(node, Split(gain, feature, left), others, larger_left)[:n_surrogates]
    if node.above >= 0:
        (tree.left if tree.left[node.above] == ~leaf else tree.right)[node.above] = number
    for name, entry in {
        "kind": feature.kind, "feature": feature.number, "left_set": left, "held": frozenset(held), "left": ~leaf,
        "right": ~len(tree.leaves), "gain": gain, "n_rows": len(node.weight), "share": share,
        "surrogates": [(s.feature.kind, s.feature.number, s.left) for s in surrogates],
    }.items():  # fmt: skip
        getattr(tree, name).append(entry)
    children = [Node([], {}, node.depth + 1, mix(node.key + side), number) for side in (1, 2)]
    for e in node.examples:
        weight, weights = node.weight[e.row], {}
        if share > 0 and e.lacks(feature):
            units = int(np.floor(weight.units * share + 0.5))
            weights[0] = Weight(weight.number * share, units)
            weights[1] = Weight(weight.number * float(np.float32(1) - np.float32(share)), weight.units - units)
        else:
            able = [s for s in surrogates if not e.lacks(s.feature)] if e.lacks(feature) else []
            goes_left = e.value(able[0].feature) in able[0].left if able else e.value(feature) in left
            weights[0 if goes_left else 1] = weight
        for side, part in weights.items():
            children[side].examples.append(e)
            children[side].weight[e.row] = part
    return children


def _surrogates(node: Node, split: Split, others: list[Feature], larger_left: bool) -> list[Split]:
    """Return the surrogates of a split, best first: they must do better than sending all one way."""
    found = []
    present = [*{e.row: e for e in node.present(split.feature)}.values()]
    for feature in others:
        weight: dict[int, list[int]] = {}  # by value: units that go right, left
        for e in present:
            if not e.lacks(feature):
                side = e.value(split.feature) in split.left
                weight.setdefault(e.value(feature), [0, 0])[side] += node.weight[e.row].units
        total = [sum(units[side] for units in weight.values()) for side in (0, 1)]
        best, left = -1, frozenset[int]()
        for candidate in _surrogate_sets(feature, weight, larger_left):
            agreed = sum(units[v in candidate] for v, units in weight.items())
            if agreed > best:
                best, left = agreed, candidate
        if best > max(total):
            found.append(Split(best / sum(total), feature, left))
    return sorted(found, key=lambda surrogate: -surrogate.gain)  # stable: equal ones in the order of features


def _surrogate_sets(feature: Feature, weight: dict[int, list[int]], larger_left: bool) -> Iterator[frozenset[int]]:
    """Give the left sets that a surrogate may have, "missing" in none of them."""

    def majority(v: int) -> bool:
        right, left = weight.get(v, [0, 0])
        return v != feature.missing and (left > right or (left == right and larger_left))

    n_values = feature.n_values
    if feature.kind == DENSE and feature.is_ordered:
        for cut in range(1, n_values + 1):
            for values in (range(cut), range(cut, n_values)):
                yield frozenset([*values, *filter(majority, [n_values + 1])])
    else:
        yield frozenset(filter(majority, range(n_values + 3 if feature.kind == DENSE else n_values)))
