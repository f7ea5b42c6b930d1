"""Leaves found by masks, against walking down the tree."""

from dataclasses import replace

import numpy as np
import pytest
from model_samples import random_rows, random_tree

from seqboost.core.contexts import ContextSpace, context_space
from seqboost.trees import masks
from seqboost.trees.columns import DenseColumns
from seqboost.trees.masks import ALL_LEAVES, MAX_LEAVES, FrozenSplits, Router, context_masks, leaf_masks
from seqboost.trees.tree import DENSE, LAG, SPARSE

N_VALUES = 7


def is_left(tree, s, v):
    return bool(int(tree.words[tree.word_start[s] + v // 64]) >> (v % 64) & 1)


def walk(tree, goes_left):
    """Return the leaf reached if ``goes_left`` says which way each split goes."""
    node = 0 if tree.n_splits else -1
    while node >= 0:
        node = int(tree.left[node] if goes_left(node) else tree.right[node])
    return ~node


def dense_columns(binned):
    n = binned.layout.displacement.size
    return DenseColumns(
        codes=binned.codes.reshape(-1),
        address=binned.address,
        displacement=binned.layout.displacement,
        n_values=np.full(n, N_VALUES, np.int32),
        kind=np.zeros(n, np.uint8),
        cell_start=np.arange(n + 1) * (N_VALUES + 3),
    )


def with_thresholds(rng, tree):
    """The tree with the left sets of about half the dense splits replaced by those of thresholds."""
    words = tree.words.copy()
    for s in np.flatnonzero((tree.kind == DENSE) & (rng.random(tree.n_splits) < 0.5)):
        words[tree.word_start[s] : tree.word_start[s + 1]] = [2 ** int(rng.integers(1, N_VALUES + 1)) - 1, 0, 0, 0]
    return replace(tree, words=words)


def check_routing(binned, tree, rows, n_labels, order):
    """Check the leaves of rows; return how many patterns they form."""
    dense, space = dense_columns(binned), context_space(n_labels, order, binned.offsets)
    found = Router(dense, space).route(tree, rows)
    assert found.rows is rows
    assert found.leaf.dtype == np.uint16
    assert len(np.unique(found.number[rows])) == len(found.leaf)
    for row in rows:
        j = int(space.row_type[row])
        for c in range(n_labels**order):
            lags = [c // n_labels**lag % n_labels if lag < j else n_labels for lag in range(order)]

            def goes_left(s, row=row, lags=lags):
                f = int(tree.feature[s])
                at = dense.address[row] + dense.displacement[f] if tree.kind[s] == DENSE else 0
                return is_left(tree, s, lags[f - 1] if tree.kind[s] == LAG else int(dense.codes[at]))

            expected = walk(tree, goes_left) if c < n_labels**j else tree.n_leaves
            assert found.leaf[found.number[row], c] == expected
    return len(found.leaf)


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 31, 63, MAX_LEAVES])
@pytest.mark.parametrize(("n_labels", "order"), [(3, 0), (3, 1), (2, 3), (1, 1), (70, 1)])
def test_rows_reach_the_leaves_that_a_walk_reaches(n_labels, order, n_leaves):
    for seed in range(1 if n_labels > 9 else 4):
        rng = np.random.default_rng([seed, n_labels, order, n_leaves])
        binned = random_rows(rng, [1, 5, 2, 1, 9, 3], n_values=N_VALUES)
        tree = with_thresholds(rng, random_tree(rng, binned, n_leaves, n_labels, order))
        rows = np.flatnonzero(rng.random(len(binned.address)) < 0.7).astype(np.int32)
        check_routing(binned, tree, rows, n_labels, order)


@pytest.mark.parametrize("kind", [DENSE, LAG])
def test_one_kind_of_split_only(kind):
    rng = np.random.default_rng(kind)
    binned = random_rows(rng, [1, 5, 2], n_values=N_VALUES)
    check_routing(binned, random_tree(rng, binned, 20, 3, 2, (kind,)), np.arange(8, dtype=np.int32), 3, 2)


def test_more_patterns_than_there_is_room_for_at_first(monkeypatch):
    monkeypatch.setattr(masks, "FEWEST_PATTERNS", 2)
    rng = np.random.default_rng(5)
    binned = random_rows(rng, [60, 40], n_values=N_VALUES)
    tree = random_tree(rng, binned, MAX_LEAVES, 3, 2)
    assert check_routing(binned, tree, np.arange(100, dtype=np.int32), 3, 2) > 16


def test_a_tree_of_a_chain_of_splits():
    """As deep as a tree of 64 leaves can be, to either side."""
    rng = np.random.default_rng(6)
    binned = random_rows(rng, [9, 1], n_values=N_VALUES)
    tree = random_tree(rng, binned, MAX_LEAVES, 3, 1)
    inner, outer = np.append(np.arange(1, 63), -1).astype(np.int32), ~np.arange(1, 64, dtype=np.int32)
    for left, right in ((inner, outer), (outer, inner)):
        check_routing(binned, replace(tree, left=left, right=right), np.arange(10, dtype=np.int32), 3, 1)


def test_no_rows():
    rng = np.random.default_rng(7)
    binned = random_rows(rng, [4], n_values=N_VALUES)
    found = Router(dense_columns(binned), context_space(3, 1, binned.offsets)).route(
        random_tree(rng, binned, 5, 3, 1), np.zeros(0, np.int32)
    )
    assert found.leaf.shape == (0, 3)


def renumbered(rng, tree):
    """The same tree with its splits but the root in another order: children may come before their parents."""
    new = np.append(0, 1 + rng.permutation(tree.n_splits - 1))
    old = np.argsort(new)

    def children(side):
        return np.where(side >= 0, new[np.maximum(side, 0)], side)[old].astype(np.int32)

    sets = [tree.words[tree.word_start[s] : tree.word_start[s + 1]] for s in old]
    return replace(
        tree,
        kind=tree.kind[old],
        feature=tree.feature[old],
        left=children(tree.left),
        right=children(tree.right),
        word_start=np.append(0, np.cumsum([len(words) for words in sets])).astype(np.int32),
        words=np.concatenate(sets),
    )


@pytest.mark.parametrize("n_leaves", [2, 7, 32, MAX_LEAVES])
def test_the_leaf_reached_is_the_lowest_survivor(n_leaves):
    """FrozenSplits on sparse features that go right need not be looked at."""
    rng = np.random.default_rng(n_leaves)
    binned = random_rows(rng, [3], n_slots=(1, 70, 3))
    tree = renumbered(rng, random_tree(rng, binned, n_leaves, 3, 1))
    leaf_bit, keep = leaf_masks(FrozenSplits.of(tree), np.array([0, n_leaves - 1]), np.array([0, n_leaves]))
    assert sorted(leaf_bit) == list(range(n_leaves))
    for _ in range(50):
        ways = rng.integers(2, size=n_leaves - 1)
        survivors = int(ALL_LEAVES)
        for s, way in enumerate(ways):
            if way == 1 or tree.kind[s] != SPARSE:
                survivors &= int(keep[way, s])
        lowest = (survivors & -survivors).bit_length() - 1
        assert lowest == leaf_bit[walk(tree, lambda s, ways=ways: ways[s] == 1)]


def test_contexts_of_several_trees():
    rng = np.random.default_rng(8)
    binned = random_rows(rng, [3])
    trees = [random_tree(rng, binned, n, 3, 2) for n in (9, 1, 5, 20)]
    label = ContextSpace(3, 2).lag_labels()
    one_by_one = []
    for tree in trees:
        splits = FrozenSplits.of(tree)
        _, keep = leaf_masks(splits, np.array([0, tree.n_splits]), np.array([0, tree.n_leaves]))
        one_by_one.append(context_masks(splits, keep, np.zeros(tree.n_splits, np.int64), 1, label))
        for e in range(label.shape[1]):
            expected = int(ALL_LEAVES)
            for s in np.flatnonzero(tree.kind == LAG):
                expected &= int(keep[int(is_left(tree, s, int(label[tree.feature[s] - 1, e]))), s])
            assert one_by_one[-1][e, 0] == expected
    sizes = [tree.n_splits for tree in trees]
    joined = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in FrozenSplits._fields}
    n_words = np.concatenate([np.diff(tree.word_start) for tree in trees])
    joined["word_start"] = np.append(0, np.cumsum(n_words))
    splits = FrozenSplits(**joined)
    split_start = np.append(0, np.cumsum(sizes))
    _, keep = leaf_masks(splits, split_start, split_start + np.arange(5))
    lane = np.repeat([2, 0, 1, 3], sizes)
    found = context_masks(splits, keep, lane, 5, label)
    for tree_lane, masks_of_tree in zip([2, 0, 1, 3], one_by_one, strict=True):
        assert np.array_equal(found[:, tree_lane], masks_of_tree[:, 0])
    assert np.all(found[:, 4] == ALL_LEAVES)
