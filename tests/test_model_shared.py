"""Forests of shared trees: conversions, the file, arrays that make no sense, and scores to the bit."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from model_samples import random_rows, random_tree

from seqboost.exceptions import ModelFileError
from seqboost.model import Forest, forest_scores, read_model, scoring, tables, write_model
from seqboost.model import file as model_file
from seqboost.model.quick import VALUE_BYTES
from seqboost.model.reference import reference_scores
from seqboost.trees.tree import DENSE, LAG, SPARSE

LENGTHS = [1, 5, 2, 1, 3, 9]
SPARSE_SLOTS = (1, 1, 70, 3, 1)


def shared_tree(rng, binned, n_leaves, n_labels, order, kinds=(DENSE, SPARSE, LAG)):
    tree = random_tree(rng, binned, n_leaves, n_labels, order, kinds)
    return replace(tree, value=rng.normal(size=(tree.n_leaves, n_labels)).astype(np.float32))


def shared_rounds(rng, binned, sizes, n_labels, order):
    return [[shared_tree(rng, binned, n, n_labels, order)] for n in sizes]


def assert_same_bits(a, b):
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("method", ["traverse", "masks", "auto"])
@pytest.mark.parametrize("leaves", [[1], [2, 3, 1], [1, 31, 32], [33, 64], [1, 65, 130]], ids=str)
@pytest.mark.parametrize(("n_labels", "order"), [(3, 1), (2, 2), (40, 0), (1, 1)])
@pytest.mark.parametrize("n_slots", [(), SPARSE_SLOTS], ids=["dense", "sparse"])
def test_scores_equal_reference(method, leaves, n_labels, order, n_slots, monkeypatch):
    rng = np.random.default_rng([n_labels, order, len(n_slots), *leaves])
    binned = random_rows(rng, LENGTHS, n_slots=n_slots)
    forest = Forest.from_trees(shared_rounds(rng, binned, leaves * 4, n_labels, order), n_labels, order)
    expected = reference_scores(forest, binned)
    assert_same_bits(forest_scores(forest, binned, method=method), expected)
    monkeypatch.setattr(scoring, "SHARED_ROWS_PER_TASK", 5)
    for n_threads in (1, 3):
        assert_same_bits(forest_scores(forest, binned, n_threads, method=method), expected)


@pytest.mark.parametrize("n_labels", [2, 600])
@pytest.mark.parametrize("n_slots", [(), SPARSE_SLOTS], ids=["dense", "sparse"])
def test_many_blocks(monkeypatch, n_slots, n_labels):
    """Tables divided into blocks of 16 trees, and values of more labels than the cache holds of a block's leaves."""
    monkeypatch.setattr(tables, "BLOCK_BYTES", 0)
    rng = np.random.default_rng(8)
    binned = random_rows(rng, LENGTHS, n_slots=n_slots)
    order = int(n_labels < 9)
    forest = Forest.from_trees(shared_rounds(rng, binned, [31, 1, 60, 9] * 10, n_labels, order), n_labels, order)
    start = rng.normal(size=(n_labels, len(binned.address), 1)).astype(np.float32)
    expected = forest_scores(forest, binned, method="traverse", start=start)
    assert_same_bits(forest_scores(forest, binned, method="masks", start=start), expected)
    assert len(forest._cache["masks"].block_group) == 4
    assert n_labels * 60 * 4 * 16 < VALUE_BYTES or n_labels * 60 * 4 * 2 > VALUE_BYTES
    assert_same_bits(forest_scores(forest, binned, method="masks"), reference_scores(forest, binned))


def test_masks_are_used():
    rng = np.random.default_rng(0)
    binned = random_rows(rng, LENGTHS)
    forest = Forest.from_trees(shared_rounds(rng, binned, [31] * 50, 3, 0), 3, 0)
    forest_scores(forest, binned, method="masks")
    assert forest._cache["masks"] is not None


@pytest.fixture
def binned():
    return random_rows(np.random.default_rng(0), [1, 4, 7], n_slots=(1, 70))


@pytest.fixture
def rounds(binned):
    return shared_rounds(np.random.default_rng(1), binned, [1, 31, 5, 2], 3, 2)


def test_trees_are_not_expanded_and_come_back(rounds):
    forest = Forest.from_trees(rounds, 3, 2)
    assert forest.is_shared
    assert forest.n_trees == forest.n_rounds == 4
    assert forest.tree_label.tolist() == [-1] * 4
    assert forest.value.shape == (1 + 31 + 5 + 2, 3)
    for (tree,), (again,) in zip(rounds, forest.to_trees(), strict=True):
        for name in vars(tree):
            assert np.array_equal(getattr(tree, name), getattr(again, name))


def test_extending_and_truncating(rounds, binned):
    forest = Forest.from_trees(rounds, 3, 2)
    first = Forest.from_trees(rounds[:2], 3, 2)
    for whole in (first.extend(rounds[2:]), Forest.from_trees([], 3, 2).extend(rounds), forest.extend([])):
        assert np.array_equal(whole.value, forest.value)
        assert_same_bits(forest_scores(whole, binned), forest_scores(forest, binned))
    assert_same_bits(forest_scores(forest.truncate(2), binned), forest_scores(first, binned))
    nothing = forest.truncate(0)
    assert not forest_scores(nothing, binned).any()
    assert_same_bits(forest_scores(nothing.extend(rounds), binned), forest_scores(forest, binned))


def test_the_two_kinds_do_not_mix(rounds, binned):
    rng = np.random.default_rng(2)
    single = [[random_tree(rng, binned, 4, 3, 2) for _ in range(3)]]
    with pytest.raises(ValueError, match="cannot hold both kinds"):
        Forest.from_trees([*rounds, *single], 3, 2)
    with pytest.raises(ValueError, match="cannot hold both shared trees and trees of single labels"):
        Forest.from_trees(rounds, 3, 2).extend(single)
    with pytest.raises(ValueError, match="round 0 is not one shared tree with a value for each of 4 labels"):
        Forest.from_trees(rounds, 4, 2)


def test_pickle_and_file(rounds, binned, tmp_path):
    forest = Forest.from_trees(rounds, 3, 2)
    expected = forest_scores(forest, binned)
    assert_same_bits(forest_scores(pickle.loads(pickle.dumps(forest)), binned), expected)
    write_model(tmp_path / "model", {}, forest.to_arrays())
    again = Forest.from_arrays(read_model(tmp_path / "model")[1])
    assert again.is_shared
    assert_same_bits(forest_scores(again, binned), expected)


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("value", lambda a: a[:, :2].copy(), "a leaf does not have one value for each label"),
        ("value", lambda a: a[:, 0].copy(), "a label that does not exist"),
        ("value", lambda a: a[:-1].copy(), "'leaf_rows' does not have one entry for each leaf"),
        ("value", lambda a: a[None], "3 dimension"),
        ("value", lambda a: np.where(a == a[0, 0], np.nan, a).astype(np.float32), "not finite"),
        ("tree_label", lambda a: 0 * a, "a tree of one label has values for all"),
        ("shape", lambda a: a + [0, 0, 1], "a round does not have one shared tree"),
        ("gain", lambda a: np.stack([a, a]), "2 dimension"),
    ],
)
def test_arrays_that_make_no_sense(rounds, name, change, complaint):
    arrays = Forest.from_trees(rounds, 3, 2).to_arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(ModelFileError, match=complaint):
        Forest.from_arrays(arrays)


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_earlier_versions_are_read(tmp_path, monkeypatch, binned, version):
    rng = np.random.default_rng(3)
    forest = Forest.from_trees([[random_tree(rng, binned, 4, 3, 2) for _ in range(3)]], 3, 2)
    newest = model_file.FORMAT_VERSION
    assert newest == 3
    monkeypatch.setattr(model_file, "FORMAT_VERSION", version)
    write_model(tmp_path / "old", {"a": 1}, forest.to_arrays())
    monkeypatch.setattr(model_file, "FORMAT_VERSION", newest)
    header, arrays = read_model(tmp_path / "old")
    assert header == {"a": 1}
    assert_same_bits(forest_scores(Forest.from_arrays(arrays), binned), forest_scores(forest, binned))
