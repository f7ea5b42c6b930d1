"""The frozen forest: conversions, and arrays that make no sense."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields

import numpy as np
import pytest
from model_samples import random_rows, random_tree

from seqboost.exceptions import ModelFileError
from seqboost.model import Forest, forest_scores, read_model, write_model
from seqboost.trees.tree import DENSE, LAG, Tree

N_LABELS, ORDER = 3, 2


@pytest.fixture
def binned():
    return random_rows(np.random.default_rng(0), [1, 4, 7], n_slots=(1, 70))


@pytest.fixture
def rounds(binned):
    rng = np.random.default_rng(1)
    sizes = [[1, 31, 5], [None, 2, 12], [7, None, 1], [None] * 3]
    return [[n and random_tree(rng, binned, n, N_LABELS, ORDER) for n in row] for row in sizes]


@pytest.fixture
def forest(rounds):
    return Forest.from_trees(rounds, N_LABELS, ORDER)


def assert_same_forest(a, b):
    assert (a.n_labels, a.order, a.n_rounds) == (b.n_labels, b.order, b.n_rounds)
    for name, array in a.to_arrays().items():
        other = b.to_arrays()[name]
        assert array.dtype == other.dtype
        np.testing.assert_array_equal(array, other)


def test_trees_come_back(forest, rounds):
    back = forest.to_trees()
    assert [[tree is None for tree in row] for row in back] == [[tree is None for tree in row] for row in rounds]
    for mine, theirs in zip(sum(back, []), sum(rounds, []), strict=True):
        if theirs is not None:
            assert mine.routes is None
            for f in fields(Tree):
                if f.name == "routes":
                    continue
                assert getattr(mine, f.name).dtype == getattr(theirs, f.name).dtype
                np.testing.assert_array_equal(getattr(mine, f.name), getattr(theirs, f.name))


@pytest.mark.parametrize("at", range(5))
def test_extend_and_truncate(forest, rounds, at):
    first = Forest.from_trees(rounds[:at], N_LABELS, ORDER)
    assert_same_forest(first.extend(rounds[at:]), forest)
    assert_same_forest(forest.truncate(at), first)
    assert_same_forest(forest.truncate(99), forest)


def test_truncate_refuses_negative_numbers(forest):
    with pytest.raises(ValueError, match="n_rounds must be 0 or more, got -1"):
        forest.truncate(-1)


def test_every_round_has_all_labels(rounds):
    with pytest.raises(ValueError, match="round 1 has 2 trees, expected one .or None. for each of 3 labels"):
        Forest.from_trees([rounds[0], rounds[1][:2]], N_LABELS, ORDER)


def test_arrays_and_file(forest, binned, tmp_path):
    write_model(tmp_path / "m", {}, forest.to_arrays())
    back = Forest.from_arrays(read_model(tmp_path / "m")[1])
    assert_same_forest(back, forest)
    assert forest_scores(back, binned).tobytes() == forest_scores(forest, binned).tobytes()


def test_is_read_only_and_pickles_without_tables(forest, binned):
    expected = forest_scores(forest, binned)
    with pytest.raises(ValueError, match="read-only"):
        forest.value[0] = 1
    for twin in (pickle.loads(pickle.dumps(forest)), copy.deepcopy(forest)):
        assert twin._cache == {}
        assert_same_forest(twin, forest)
        with pytest.raises(ValueError, match="read-only"):
            twin.value[0] = 1
        assert forest_scores(twin, binned).tobytes() == expected.tobytes()


def change(name, place, value):
    def do(arrays):
        arrays[name][place] = value

    return do


def first(arrays, kind):
    return np.flatnonzero(arrays["kind"] == kind)[0]


def circle(arrays):
    """Two splits below each other, cut off from the root."""
    s0, s1 = arrays["split_start"][1], arrays["split_start"][2]
    left, right = arrays["left"][s0:s1], arrays["right"][s0:s1]
    children = list(zip(left, right, strict=True))
    parent = next(p for p, pair in enumerate(children) if p > 0 and any(c >= 0 for c in pair))
    side = left if left[parent] >= 0 else right
    child = side[parent]
    above = left if parent in left else right
    place = list(above).index(parent)
    leaf_side = left if left[child] < 0 else right
    # the parent's place goes to a leaf of the child, and the child's leaf becomes the parent
    above[place], leaf_side[child] = leaf_side[child], parent


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda a: a.pop("words"), "'words' is missing"),
        (lambda a: a.pop("shape"), "'shape' is missing"),
        (lambda a: a.update(value=a["value"].astype(np.float64)), "'value' has 1 dimension.s. of float64"),
        (lambda a: a.update(kind=a["kind"][None]), "'kind' has 2 dimension"),
        (lambda a: a.update(shape=a["shape"][:2]), "three numbers"),
        (change("shape", 0, 0), "impossible numbers"),
        (change("shape", 0, 2), "label that does not exist"),
        (change("shape", 1, 1), "lag beyond"),
        (change("shape", 1, 31), "more contexts"),
        (change("shape", 2, 2), "round that does not exist"),
        (change("tree_label", 0, -1), "label that does not exist"),
        (change("tree_label", 0, 2), "order of rounds"),
        (lambda a: a.update(tree_round=a["tree_round"][1:]), "differ in number"),
        (lambda a: a.update(gain=a["gain"][1:]), "'gain' does not have one entry"),
        (lambda a: a.update(leaf_rows=a["leaf_rows"][1:]), "'leaf_rows' does not have one"),
        (change("split_start", 2, 2**40), "'split_start' does not rise"),
        (change("split_start", 2, -(2**63)), "'split_start' does not rise"),
        (change("split_start", 2, 3), "one leaf more"),
        (lambda a: a.update(leaf_start=a["leaf_start"][:-1]), "'leaf_start' has"),
        (change("word_start", 3, 10**6), "'word_start' does not rise"),
        (lambda a: a.update(words=a["words"][:-1]), "'word_start' does not rise"),
        (change("kind", 0, 7), "unknown kind"),
        (change("feature", 0, -3), "negative number"),
        (lambda a: change("feature", first(a, LAG), 3)(a), "lag beyond"),
        (lambda a: change("kind", first(a, DENSE), LAG)(a), "lag beyond|wrong size"),
        (lambda a: change("kind", first(a, LAG), DENSE)(a), "dense split's left set"),
        (change("left", 3, 30), "left child does not exist"),
        (change("right", 3, -(2**31)), "right child does not exist"),
        (change("left", 0, 0), "a split has no parent, or two"),
        (lambda a: a["left"].__setitem__(slice(0, 30), a["right"][:30]), "no parent, or two"),
        (circle, "round in a circle"),
        (change("value", 0, np.nan), "not finite"),
    ],
)
def test_forged_arrays(forest, damage, complaint):
    arrays = {name: array.copy() for name, array in forest.to_arrays().items()}
    Forest.from_arrays(arrays)
    damage(arrays)
    with pytest.raises(ModelFileError, match=complaint):
        Forest.from_arrays(arrays)


def test_random_forgeries_never_reach_a_kernel(forest, binned):
    """Any change of an index is either refused or harmless."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        arrays = {name: array.copy() for name, array in forest.to_arrays().items()}
        name = rng.choice(["left", "right", "feature", "kind", "word_start", "split_start", "leaf_start", "shape"])
        place = rng.integers(len(arrays[name]))
        arrays[name][place] += rng.integers(0, 5)
        try:
            twin = Forest.from_arrays(arrays)
            scores = forest_scores(twin, binned)
        except ModelFileError:
            continue
        assert np.isfinite(scores).all()
