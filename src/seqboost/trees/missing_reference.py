"""Slow twin of growing with policies for missing values: an exact greedy tree on the expanded data set. For tests only.

Examples are those of :mod:`seqboost.trees.shared_reference`, vectors of gradients and curvatures; a tree for one label
has vectors of one number. A node is a list of examples and the weights of its rows: as a number, which sums and scores
are multiplied with, and in fixed point, as a whole number of units, which is what counts as the size of a node.

    gain = Σ_k  G_lk²/(H_lk+λ) + G_rk²/(H_rk+λ) − G_k²/(H_k+λ)        over the examples where the feature is present
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import reference
from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.missing import Policies
from seqboost.trees.reference import MIN_ROWS_OF_WIDE_CATEGORY, NOISE, SMALLEST_GAIN, TIE, Example, window_values
from seqboost.trees.shared_reference import leading_order, side_gain
from seqboost.trees.tree import DENSE, LAG, SPARSE, Tree

__all__ = ["MissingTree", "grow_missing_reference", "missing_value", "reference_weights"]


Part: TypeAlias = tuple[Any, Any, set[int]]
"""G, H and the rows of some examples."""


@dataclass(frozen=True)
class Weight:
    """The weight of a row in a node."""

    number: float
    units: int


@dataclass
class Node:
    """A leaf that may still be split."""

    examples: list[Example]
    weight: dict[int, Weight]  # by row
    depth: int
    above: int = -1
    split: tuple[float, int, int, frozenset[int]] | None = None  # gain, kind, place, left set

    def present(self, columns: Columns, kind: int, place: int) -> list[Example]:
        """Return the examples that a feature's gain counts."""
        missing = columns.missing(kind, place)
        if columns.policy(kind, place) == DIRECTION:
            return self.examples
        return [e for e in self.examples if e.value(kind, place) != missing]

    def sums(self, examples: list[Example]) -> tuple[Any, Any, int]:
        """Return G, H and the units of examples."""
        return self.joined([self.part(examples)])

    def part(self, examples: list[Example]) -> Part:
        """Return G, H and the rows of examples."""
        g: Any = sum((e.gradient * self.weight[e.row].number for e in examples), np.zeros(1))
        h: Any = sum((e.hessian * self.weight[e.row].number for e in examples), np.zeros(1))
        return g, h, {e.row for e in examples}

    def joined(self, parts: list[Part]) -> tuple[Any, Any, int]:
        """Return G, H and the units of several parts; a row counts once."""
        rows: set[int] = set().union(*(part[2] for part in parts))
        g: Any = sum((part[0] for part in parts), np.zeros(1))
        h: Any = sum((part[1] for part in parts), np.zeros(1))
        return g, h, sum(self.weight[row].units for row in rows)

    def parts(self, examples: list[Example], kind: int, place: int) -> dict[int, Part]:
        """Return the parts of examples by their value of a feature."""
        by_value: dict[int, list[Example]] = {}
        for e in examples:
            by_value.setdefault(e.value(kind, place), []).append(e)
        return {v: self.part(by_value[v]) for v in sorted(by_value)}


@dataclass(frozen=True)
class Columns:
    """What the values of examples mean."""

    dense: DenseColumns
    sparse: SparseColumns
    policies: Policies

    def policy(self, kind: int, place: int) -> int:
        """Return the policy of a feature."""
        if kind == DENSE:
            return int(self.policies.dense[place])
        if kind == LAG or self.missing(kind, place) is None:
            return DIRECTION
        return int(self.policies.sparse[place % len(self.sparse.kind)])

    def missing(self, kind: int, place: int) -> int | None:
        """Return the value that stands for missing."""
        return missing_value(self.dense, self.sparse, kind, place)

    def features(self) -> Iterator[tuple[int, int]]:
        """Give kind and place of the window features."""
        yield from ((DENSE, f) for f in range(len(self.dense.feature)))
        n_sparse = len(self.sparse.kind)
        for f in range(n_sparse * len(self.sparse.offset)):
            if self.sparse.enabled[f // n_sparse, f % n_sparse]:
                yield SPARSE, f


@dataclass
class MissingTree:
    """A tree as the reference grows it."""

    kind: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    left_set: list[frozenset[int]] = field(default_factory=list)
    held: list[frozenset[int]] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    n_rows: list[int] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    surrogates: list[list[tuple[int, int, frozenset[int]]]] = field(default_factory=list)  # kind, number, left set
    leaves: list[Node] = field(default_factory=list)


def missing_value(dense: DenseColumns, sparse: SparseColumns, kind: int, place: int) -> int | None:
    """Return the code or slot that stands for missing values of a feature; None: it has none."""
    if kind == DENSE:
        return int(dense.n_values[place])
    if kind == SPARSE and sparse.missing[place % len(sparse.kind)] >= 0:
        return int(sparse.missing[place % len(sparse.kind)])
    return None


def grow_missing_reference(
    dense: DenseColumns,
    sparse: SparseColumns,
    limits: Limits,
    policies: Policies,
    examples: list[Example],
    unit: int,
) -> MissingTree:
    """Grow a tree on expanded examples, best split first.

    Parameters
    ----------
    dense, sparse : DenseColumns, SparseColumns
        What the values of the examples mean.
    limits : Limits
        What a tree may do.
    policies : Policies
        What to do about missing values.
    examples : list of Example
        Those the tree is fitted to, with vectors of derivatives.
    unit : int
        Units of the weight 1.
    """
    columns, tree = Columns(dense, sparse, policies), MissingTree()
    root = Node(examples, {e.row: Weight(1.0, unit) for e in examples}, 0)
    nodes = [root]
    _search(root, columns, limits, unit)
    while len(nodes) < limits.max_leaf_nodes:
        best, best_gain = -1, 0.0
        for leaf, node in enumerate(nodes):
            if node.split is not None and node.split[0] > best_gain * (1 + TIE):
                best, best_gain = leaf, node.split[0]
        if best < 0:
            break
        number = _record(tree, columns, limits, nodes[best], best, len(nodes))
        children = _children(tree, columns, nodes[best], number)
        nodes[best] = children[0]
        nodes.append(children[1])
        if len(nodes) < limits.max_leaf_nodes:
            for node in children:
                _search(node, columns, limits, unit)
    tree.leaves = nodes
    return tree


def _search(node: Node, columns: Columns, limits: Limits, unit: int) -> None:
    """Try every division of every feature, with the examples that it counts; keep the first with the largest gain."""
    if node.depth >= limits.max_depth or not node.examples:
        return
    lam = limits.l2_regularization
    g, h, _ = node.sums(node.examples)
    best_gain = max(limits.min_gain, SMALLEST_GAIN, NOISE * side_gain(g, h, lam))
    features = [*columns.features(), *((LAG, lag) for lag in range(len(node.examples[0].lags)))]
    for kind, place in features:
        parts = node.parts(node.present(columns, kind, place), kind, place)
        whole = node.joined([*parts.values()])
        for left in _divisions(node, parts, columns, limits, kind, place, unit):
            sides = [node.joined([parts[v] for v in parts if (v in left) == side]) for side in (True, False)]
            small = min(side[2] for side in sides) < limits.min_samples_leaf * unit
            if small or min(float(np.sum(side[1])) for side in sides) + lam <= 0:
                continue
            gain = sum(side_gain(side[0], side[1], lam) for side in sides) - side_gain(whole[0], whole[1], lam)
            if gain > (best_gain if node.split is None else best_gain * (1 + TIE)):
                best_gain = gain
                node.split = (gain, kind, place, left)


def _divisions(
    node: Node, parts: dict[int, Part], columns: Columns, limits: Limits, kind: int, place: int, unit: int
) -> Iterator[frozenset[int]]:
    """Give the left sets that a feature offers."""
    held = set(parts)
    if kind == DENSE and columns.dense.kind[place] == 0:
        yield from reference._thresholds(int(columns.dense.n_values[place]), held)
        return
    sparse, alone = columns.sparse, limits.one_against_rest
    s = place % max(1, len(sparse.kind))
    if kind == SPARSE and sparse.kind[s] == 0:
        n_slots = int(sparse.slot_start[s + 1] - sparse.slot_start[s])
        yield from reference._slot_thresholds(n_slots, int(sparse.absent_rank[s]))
        return
    sums = {v: node.joined([part]) for v, part in parts.items()}
    least = MIN_ROWS_OF_WIDE_CATEGORY * unit if kind == SPARSE else 1
    values = [v for v in sums if v >= 0 and sums[v][2] >= least]
    of_gradient, of_hessian = {v: sums[v][0] for v in values}, {v: sums[v][1] for v in values}
    whole = node.joined([*parts.values()])
    values = leading_order(values, of_gradient, of_hessian, (whole[0], whole[1]), limits.l2_regularization)
    yield from reference._subsets(values, alone)
    if kind == SPARSE and not alone and len(values) < len(held):
        yield from reference._subsets(values[::-1], alone)


def _record(tree: MissingTree, columns: Columns, limits: Limits, node: Node, leaf: int, other: int) -> int:
    """Add the split of a node to the tree, with its share or its surrogates; return its number."""
    assert node.split is not None
    gain, kind, place, left = node.split
    number, policy = len(tree.kind), columns.policy(kind, place)
    if node.above >= 0:
        children = tree.left if tree.left[node.above] == ~leaf else tree.right
        children[node.above] = number
    present = node.present(columns, kind, place)
    goes_left = [e for e in present if e.value(kind, place) in left]
    n_left, n = node.sums(goes_left)[2], node.sums(present)[2]
    held = frozenset(e.value(kind, place) for e in present)
    missing = columns.missing(kind, place)
    larger_left = 2 * n_left > n
    if policy != DIRECTION and missing is not None:
        left = left - {missing} | ({missing} if larger_left else set())
    if kind == DENSE and larger_left:
        n_values = int(columns.dense.n_values[place])
        # Numeric codes have their place in the order; only "missing" and "boundary" can have none.
        open_codes = {n_values, n_values + 1} if columns.dense.kind[place] == 0 else set(range(n_values + 3))
        left = left | (open_codes - held)
    tree.kind.append(kind)
    tree.feature.append(_number(columns.dense, kind, place))
    tree.left_set.append(left)
    tree.held.append(held)
    tree.left.append(~leaf)
    tree.right.append(~other)
    tree.gain.append(gain)
    tree.n_rows.append(len({e.row for e in node.examples}))
    tree.share.append(float(np.float32(n_left / n)) if policy == INSTANCE_WEIGHTING else 0.0)
    found = []
    if policy == SURROGATE:
        sides = {e.row: e.value(kind, place) in left for e in present}
        found = _surrogates(node, columns, (kind, place), sides, larger_left)[: limits.n_surrogates]
    tree.surrogates.append([(k, _number(columns.dense, k, p), left_set) for k, p, left_set in found])
    node.split = (gain, kind, place, left)
    return number


def _number(dense: DenseColumns, kind: int, place: int) -> int:
    if kind == DENSE:
        return int(dense.feature[place])
    return place + 1 if kind == LAG else place


def _surrogates(
    node: Node, columns: Columns, split: tuple[int, int], sides: dict[int, bool], larger_left: bool
) -> list[tuple[int, int, frozenset[int]]]:
    """Return the surrogates of a split, best first: kind, place and left set."""
    found = []
    of_row = {e.row: e for e in node.examples}
    for kind, place in columns.features():
        missing = columns.missing(kind, place)
        weight: dict[int, list[int]] = {}  # by value: units that go right, left
        for row, goes_left in sides.items():
            v = of_row[row].value(kind, place)
            if v != missing:
                weight.setdefault(v, [0, 0])[goes_left] += node.weight[row].units
        total = [sum(w[side] for w in weight.values()) for side in (0, 1)]
        best, left = -1, frozenset[int]()
        for candidate in _surrogate_sets(columns, kind, place, weight, larger_left):
            agreed = sum(w[v in candidate] for v, w in weight.items())
            if agreed > best:
                best, left = agreed, candidate
        if (kind, place) != split and best > max(total):
            found.append((best / sum(total), kind, place, left))
    found.sort(key=lambda item: -item[0])  # stable: equal ones in the order of features
    return [item[1:] for item in found]


def _surrogate_sets(
    columns: Columns, kind: int, place: int, weight: dict[int, list[int]], larger_left: bool
) -> Iterator[frozenset[int]]:
    """Give the left sets that a surrogate may have, "missing" in none of them."""

    def majority(v: int) -> bool:
        right, left = weight.get(v, [0, 0])
        return left > right or (left == right and larger_left)

    if kind == SPARSE:
        s = place % len(columns.sparse.kind)
        n_slots, missing = int(np.diff(columns.sparse.slot_start)[s]), columns.missing(kind, place)
        yield frozenset(v for v in range(n_slots) if v != missing and majority(v))
        return
    n_values = int(columns.dense.n_values[place])
    if columns.dense.kind[place] != 0:
        yield frozenset(v for v in range(n_values + 3) if v != n_values and majority(v))
        return
    boundary = {n_values + 1} if majority(n_values + 1) else set()
    for cut in range(n_values):
        for low_left in (True, False):
            yield frozenset(v for v in range(n_values) if (v <= cut) == low_left) | boundary


def _children(tree: MissingTree, columns: Columns, node: Node, number: int) -> list[Node]:
    """Divide the examples of a node."""
    assert node.split is not None
    _, kind, place, left = node.split
    policy, missing = columns.policy(kind, place), columns.missing(kind, place)
    children = [Node([], {}, node.depth + 1, number) for _ in range(2)]
    share = tree.share[number]
    for e in node.examples:
        weight, v = node.weight[e.row], e.value(kind, place)
        if policy == INSTANCE_WEIGHTING and v == missing:
            units = int(np.floor(weight.units * share + 0.5))
            parts = [Weight(weight.number * share, units)]
            parts.append(Weight(weight.number * float(np.float32(1) - np.float32(share)), weight.units - units))
            for child, part in zip(children, parts, strict=True):
                child.examples.append(e)
                child.weight[e.row] = part
            continue
        goes_left = v in left
        if policy == SURROGATE and v == missing:
            goes_left = _sent(columns.dense, columns.sparse, tree.surrogates[number], e.dense, e.sparse, goes_left)
        child = children[0 if goes_left else 1]
        child.examples.append(e)
        child.weight[e.row] = weight
    return children


def _sent(
    dense: DenseColumns,
    sparse: SparseColumns,
    surrogates: list[tuple[int, int, frozenset[int]]],
    codes: tuple[int, ...],
    slots: tuple[int, ...],
    majority: bool,
) -> bool:
    """Tell whether a row goes left by the first surrogate that has a value."""
    place_of = {int(number): place for place, number in enumerate(dense.feature)}
    for kind, number, left in surrogates:
        place = place_of[number] if kind == DENSE else number
        v = codes[place] if kind == DENSE else slots[place]
        if v != missing_value(dense, sparse, kind, place):
            return v in left
    return majority


def reference_weights(
    tree: Tree, dense: DenseColumns, sparse: SparseColumns, row: int, lags: tuple[int, ...]
) -> dict[int, np.float32]:
    """Return the weights of a position in the leaves that it reaches, from left to right, if ``lags`` come before."""
    codes, slots = window_values(dense, sparse, row)
    place_of = {int(number): place for place, number in enumerate(dense.feature)}

    def bits(words: Any) -> frozenset[int]:
        return frozenset(v for v in range(64 * len(words)) if int(words[v // 64]) >> (v % 64) & 1)

    def walk(node: int, weight: np.float32) -> dict[int, np.float32]:
        if node < 0:
            return {~node: weight}
        kind, number = int(tree.kind[node]), int(tree.feature[node])
        place = place_of[number] if kind == DENSE else number
        v = codes[place] if kind == DENSE else slots[place] if kind == SPARSE else lags[number - 1]
        goes_left = v in bits(tree.words[tree.word_start[node] : tree.word_start[node + 1]])
        children = int(tree.left[node]), int(tree.right[node])
        if tree.routes is not None and v == missing_value(dense, sparse, kind, place):
            routes = tree.routes
            share = routes.share[node]
            if share > 0:
                return walk(children[0], weight * share) | walk(children[1], weight * (np.float32(1) - share))
            surrogates = [
                (
                    int(routes.surrogate_kind[q]),
                    int(routes.surrogate_feature[q]),
                    bits(routes.surrogate_words[routes.surrogate_word_start[q] : routes.surrogate_word_start[q + 1]]),
                )
                for q in range(routes.surrogate_start[node], routes.surrogate_start[node + 1])
            ]
            goes_left = _sent(dense, sparse, surrogates, codes, slots, goes_left)
        return walk(children[0 if goes_left else 1], weight)

    return walk(0 if tree.n_splits else -1, np.float32(1.0))
