"""Slow twin of the grower: an exact greedy tree on the expanded data set. For tests only.

Every position is written out once per context that exists there, as the papers do: one *example* per (t, c) with the
codes of its window, the slots it carries and the labels at its lags. Every candidate split then divides examples, in
plain float64 sums; nothing is shared between nodes, and nothing with the kernels. For a set of examples,

    value = G/(H+λ)        gain = G_l²/(H_l+λ) + G_r²/(H_r+λ) − G²/(H+λ)

The size of a node is its number of distinct positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seqboost.trees.criterion import Limits
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.tree import DENSE, LAG, SPARSE, Tree

__all__ = ["Example", "ReferenceTree", "expand", "grow_reference", "reference_leaf", "window_values"]

# A wide category that fewer positions of a node carry takes no part in the ordering: it goes right.
MIN_ROWS_OF_WIDE_CATEGORY = 5

# No split gains less than this, nor than this part of what the node has, whatever the limits.
SMALLEST_GAIN, NOISE = 1e-12, 1e-13

# Gains that differ by less than this part are equal: the first candidate wins.
TIE = 1e-9


@dataclass(frozen=True)
class Example:
    """One position in one context, as it stands in the expanded data set."""

    row: int
    context: int
    gradient: float
    hessian: float
    dense: tuple[int, ...]  # code of each window feature, in the order of DenseColumns
    sparse: tuple[int, ...]  # slot of each sparse window feature; −1: absent
    lags: tuple[int, ...]  # labels at lags 1, 2, …; K before the start of the sequence

    def value(self, kind: int, place: int) -> int:
        """Return what a split tests: the feature at ``place`` of its kind."""
        return (self.dense, self.sparse, self.lags)[(DENSE, SPARSE, LAG).index(kind)][place]


@dataclass(frozen=True)
class Split:
    """A division of a node: examples whose value is in ``left`` go left."""

    gain: float
    kind: int
    place: int
    left: frozenset[int]


@dataclass
class Node:
    """A leaf that may still be split."""

    examples: list[Example]
    depth: int
    split: Split | None = None
    above: int = -1


@dataclass
class ReferenceTree:
    """A tree as the reference grows it; leaves and splits are numbered as in :class:`~seqboost.trees.tree.Tree`."""

    kind: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    left_set: list[frozenset[int]] = field(default_factory=list)
    held: list[frozenset[int]] = field(default_factory=list)  # values that occur in the node
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    gain: list[float] = field(default_factory=list)
    n_rows: list[int] = field(default_factory=list)
    leaves: list[list[Example]] = field(default_factory=list)

    @property
    def gradient(self) -> NDArray[np.float64]:
        """Sum of gradients of each leaf."""
        return np.array([_sums(examples)[0] for examples in self.leaves])

    @property
    def hessian(self) -> NDArray[np.float64]:
        """Sum of curvatures of each leaf."""
        return np.array([_sums(examples)[1] for examples in self.leaves])

    @property
    def leaf_rows(self) -> list[int]:
        """Number of positions of each leaf."""
        return [_sums(examples)[2] for examples in self.leaves]

    @property
    def leaf_of(self) -> dict[tuple[int, int], int]:
        """Leaf of each fitted (row, context)."""
        return {(e.row, e.context): number for number, examples in enumerate(self.leaves) for e in examples}


def window_values(dense: DenseColumns, sparse: SparseColumns, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the codes of a position's dense window features and the slots of its sparse ones (−1: absent)."""
    codes = tuple(int(dense.codes[dense.address[row] + displacement]) for displacement in dense.displacement)
    slots = []
    for offset in sparse.offset:
        padded = sparse.padded_row[row] + offset
        carried = sparse.indices[sparse.indptr[padded] : sparse.indptr[padded + 1]]
        for s in range(len(sparse.kind)):
            first, last = sparse.slot_start[s], sparse.slot_start[s + 1]
            slots.append(next((int(slot - first) for slot in carried if first <= slot < last), -1))
    return codes, tuple(slots)


def expand(
    dense: DenseColumns,
    sparse: SparseColumns,
    offsets: NDArray[np.int64],
    n_labels: int,
    order: int,
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
) -> list[Example]:
    """Write out every position in every context that exists there.

    Parameters
    ----------
    dense, sparse : DenseColumns, SparseColumns
        The binned columns.
    offsets : ndarray of int64 of shape (n_sequences + 1,)
        Where sequences begin and end.
    n_labels, order : int
        K and m.
    gradient, hessian : ndarray of float32 of shape (n_rows, n_contexts)
        Derivatives of one label.

    Returns
    -------
    list of Example
        By row, then by context.
    """
    examples = []
    for begin, end in zip(offsets[:-1], offsets[1:], strict=True):
        for row in range(begin, end):
            n_lags = min(row - begin, order)
            codes, slots = window_values(dense, sparse, row)
            for c in range(n_labels**n_lags):
                lags = tuple(c // n_labels**lag % n_labels if lag < n_lags else n_labels for lag in range(order))
                examples.append(Example(row, c, float(gradient[row, c]), float(hessian[row, c]), codes, slots, lags))
    return examples


def grow_reference(
    dense: DenseColumns,
    sparse: SparseColumns,
    limits: Limits,
    examples: list[Example],
    draw: Callable[[], set[int]] | None = None,
) -> ReferenceTree:
    """Grow a tree on expanded examples, best split first.

    Parameters
    ----------
    dense, sparse : DenseColumns, SparseColumns
        What the values of the examples mean.
    limits : Limits
        What a tree may do.
    examples : list of Example
        Those the tree is fitted to.
    draw : callable, optional
        Called for each node that is searched: the window features it may use (dense ones in their order, then sparse
        ones). All by default.

    Returns
    -------
    ReferenceTree
    """

    def best(examples: list[Example], drawn: set[int] | None) -> Split | None:
        return _best_split(dense, sparse, limits, examples, drawn)

    return grow_with(best, dense, limits, examples, draw)


def grow_with(
    best_split: Callable[[list[Example], set[int] | None], Split | None],
    dense: DenseColumns,
    limits: Limits,
    examples: list[Example],
    draw: Callable[[], set[int]] | None,
) -> ReferenceTree:
    """Grow a tree as :func:`grow_reference` does, with another idea of the best split."""
    tree = ReferenceTree()

    def search(node: Node) -> Node:
        if node.depth < limits.max_depth:
            node.split = best_split(node.examples, None if draw is None else draw())
        return node

    nodes = [search(Node(examples, 0))]
    while len(nodes) < limits.max_leaf_nodes:
        leaf = _best_node(nodes)
        if leaf < 0:
            break
        node, number, other = nodes[leaf], len(tree.kind), len(nodes)
        split = node.split
        assert split is not None
        _record(tree, dense, node, split, leaf, other)
        is_left = [e.value(split.kind, split.place) in split.left for e in node.examples]
        sides = [[e for e, here in zip(node.examples, is_left, strict=True) if here == side] for side in (True, False)]
        nodes[leaf] = Node(sides[0], node.depth + 1, above=number)
        nodes.append(Node(sides[1], node.depth + 1, above=number))
        if len(nodes) < limits.max_leaf_nodes:
            search(nodes[leaf])
            search(nodes[other])
    tree.leaves = [node.examples for node in nodes]
    return tree


def _record(tree: ReferenceTree, dense: DenseColumns, node: Node, split: Split, leaf: int, other: int) -> None:
    """Add a split to the tree: its left child keeps the leaf's number, its right child gets a new one."""
    number = len(tree.kind)
    if node.above >= 0:
        children = tree.left if tree.left[node.above] == ~leaf else tree.right
        children[node.above] = number
    tree.kind.append(split.kind)
    if split.kind == DENSE:
        tree.feature.append(int(dense.feature[split.place]))
    else:
        tree.feature.append(split.place + 1 if split.kind == LAG else split.place)
    tree.left_set.append(split.left)
    tree.held.append(frozenset(e.value(split.kind, split.place) for e in node.examples))
    tree.left.append(~leaf)
    tree.right.append(~other)
    tree.gain.append(split.gain)
    tree.n_rows.append(_sums(node.examples)[2])


def _best_node(nodes: list[Node]) -> int:
    """Return the first node with the largest gain, −1 if none can be split."""
    best, best_gain = -1, 0.0
    for leaf, node in enumerate(nodes):
        if node.split is not None and node.split.gain > best_gain * (1 + TIE):
            best, best_gain = leaf, node.split.gain
    return best


def _sums(examples: list[Example]) -> tuple[float, float, int]:
    """Return G, H and the number of positions."""
    return sum(e.gradient for e in examples), sum(e.hessian for e in examples), len({e.row for e in examples})


def _best_split(
    dense: DenseColumns, sparse: SparseColumns, limits: Limits, examples: list[Example], drawn: set[int] | None
) -> Split | None:
    """Try every division of the examples that the features offer; return the first with the largest gain."""
    g, h, _ = _sums(examples)
    lam = limits.l2_regularization
    best: Split | None = None
    best_gain = max(limits.min_gain, SMALLEST_GAIN, NOISE * g**2 / (h + lam) if h + lam > 0 else 0.0)
    for kind, place, divisions in _features(dense, sparse, limits, examples, drawn):
        sums = _Sums(examples, kind, place)
        for left in divisions:
            (g_left, h_left, n_left), (g_right, h_right, n_right) = sums.sides(left)
            if min(n_left, n_right) < limits.min_samples_leaf or min(h_left, h_right) + lam <= 0:
                continue
            gain = g_left**2 / (h_left + lam) + g_right**2 / (h_right + lam) - g**2 / (h + lam)
            if gain > (best_gain if best is None else best_gain * (1 + TIE)):
                best_gain = gain
                best = Split(gain, kind, place, left)
    return best and Split(best.gain, best.kind, best.place, _completed(dense, examples, best))


class _Sums:
    """G, H and positions of the examples of each value of a feature."""

    def __init__(self, examples: list[Example], kind: int, place: int) -> None:
        self.gradient: dict[int, float] = {}
        self.hessian: dict[int, float] = {}
        self.rows: dict[int, set[int]] = {}
        for e in examples:
            v = e.value(kind, place)
            self.gradient[v] = self.gradient.get(v, 0.0) + e.gradient
            self.hessian[v] = self.hessian.get(v, 0.0) + e.hessian
            self.rows.setdefault(v, set()).add(e.row)

    def of(self, values: list[int]) -> tuple[float, float, int]:
        """Return G, H and the number of positions with one of these values."""
        rows: set[int] = set().union(*(self.rows[v] for v in values))
        return sum(self.gradient[v] for v in values), sum(self.hessian[v] for v in values), len(rows)

    def sides(self, left: frozenset[int]) -> tuple[tuple[float, float, int], tuple[float, float, int]]:
        """Return those of both sides of a division."""
        return self.of([v for v in self.rows if v in left]), self.of([v for v in self.rows if v not in left])

    def ordered(self, lam: float, min_rows: int = 1) -> list[int]:
        """Return the values by rising G/(H+λ), equal ones by value."""
        values = [v for v in self.rows if v >= 0 and len(self.rows[v]) >= min_rows]
        return sorted(values, key=lambda v: (self.gradient[v] / max(self.hessian[v] + lam, 1e-300), v))


def _features(
    dense: DenseColumns, sparse: SparseColumns, limits: Limits, examples: list[Example], drawn: set[int] | None
) -> Iterator[tuple[int, int, Iterator[frozenset[int]]]]:
    """Give each feature that may be tested, with the left sets it offers."""
    lam, alone = limits.l2_regularization, limits.one_against_rest
    n_dense, n_sparse = len(dense.feature), len(sparse.kind)
    for f in range(n_dense):
        if drawn is not None and f not in drawn:
            continue
        if dense.kind[f] == 0:
            yield DENSE, f, _thresholds(int(dense.n_values[f]), {e.dense[f] for e in examples})
        else:
            yield DENSE, f, _subsets(_Sums(examples, DENSE, f).ordered(lam), alone)
    for f in range(n_sparse * len(sparse.offset)):
        o, s = divmod(f, n_sparse)
        if not sparse.enabled[o, s] or (drawn is not None and n_dense + f not in drawn):
            continue
        n_slots = int(sparse.slot_start[s + 1] - sparse.slot_start[s])
        if sparse.kind[s] == 0:
            yield SPARSE, f, _slot_thresholds(n_slots, int(sparse.absent_rank[s]))
        else:
            sums = _Sums(examples, SPARSE, f)
            values = sums.ordered(lam, MIN_ROWS_OF_WIDE_CATEGORY)
            yield SPARSE, f, _subsets(values, alone)
            if not alone and len(values) < len(sums.rows):  # what is left out goes right, so that the ends differ
                yield SPARSE, f, _subsets(values[::-1], alone)
    for lag in range(len(examples[0].lags) if examples else 0):
        yield LAG, lag, _subsets(_Sums(examples, LAG, lag).ordered(lam), alone)


def _thresholds(n_values: int, held: set[int]) -> Iterator[frozenset[int]]:
    """Give the left sets of a numeric feature: missing and boundary, where they occur, on either side."""
    missing, boundary = {n_values} & held, {n_values + 1} & held
    for v in sorted(v for v in held if v < n_values):
        for specials in (set(), missing, boundary, missing | boundary):
            yield frozenset(range(v + 1)) | specials


def _subsets(values: list[int], one_against_rest: bool) -> Iterator[frozenset[int]]:
    """Give each prefix of the ordered values, or each value alone."""
    for r in range(len(values)):
        yield frozenset(values[r : r + 1] if one_against_rest else values[: r + 1])


def _slot_thresholds(n_slots: int, absent_rank: int) -> Iterator[frozenset[int]]:
    """Give the left sets of ordered slots: the side of the threshold where "absent" (−1) is not."""
    line = [*range(absent_rank), -1, *range(absent_rank, n_slots)]
    for cut in range(1, len(line)):
        low, high = line[:cut], line[cut:]
        yield frozenset(high if -1 in low else low)


def _completed(dense: DenseColumns, examples: list[Example], split: Split) -> frozenset[int]:
    """Send codes that do not occur in the node with the larger side (dense features)."""
    if split.kind != DENSE:
        return split.left
    held = {e.dense[split.place] for e in examples}
    rows_left = {e.row for e in examples if e.dense[split.place] in split.left}
    if 2 * len(rows_left) <= _sums(examples)[2]:
        return split.left
    n_values = int(dense.n_values[split.place])
    # Numeric codes have their place in the order; only "missing" and "boundary" can have none.
    open_codes = {n_values, n_values + 1} if dense.kind[split.place] == 0 else set(range(n_values + 3))
    return split.left | (open_codes - held)


def reference_leaf(tree: Tree, dense: DenseColumns, sparse: SparseColumns, row: int, lags: tuple[int, ...]) -> int:
    """Return the leaf that a position reaches when the labels before it are ``lags`` (the nearest first)."""
    codes, slots = window_values(dense, sparse, row)
    by_number = dict(zip(dense.feature.tolist(), codes, strict=True))
    node = 0 if len(tree.kind) else -1
    while node >= 0:
        feature, words = int(tree.feature[node]), tree.words[tree.word_start[node] : tree.word_start[node + 1]]
        if tree.kind[node] == DENSE:
            v = by_number[feature]
        else:
            v = slots[feature] if tree.kind[node] == SPARSE else lags[feature - 1]
        goes_left = v >= 0 and bool(int(words[v // 64]) >> (v % 64) & 1)
        node = int(tree.left[node] if goes_left else tree.right[node])
    return ~node
