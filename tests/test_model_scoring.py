"""Both ways of scoring against the slow twin, bit for bit."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from model_samples import random_rows, random_tree

from seqboost.exceptions import ModelFileError
from seqboost.model import Forest, forest_scores, scoring, tables
from seqboost.model.reference import reference_scores
from seqboost.trees.tree import DENSE, LAG, SPARSE

METHODS = ["traverse", "masks", "auto"]
LENGTHS = [1, 5, 2, 1, 3, 9]
SPARSE_SLOTS = (1, 1, 70, 3, 1)  # indicators, a wide column, a sparse number


def random_forest(rng, binned, n_leaves, n_labels, order, n_rounds=5, kinds=(DENSE, SPARSE, LAG), none=0.1):
    rounds = [
        [None if rng.random() < none else random_tree(rng, binned, n, n_labels, order, kinds) for _ in range(n_labels)]
        for n in rng.choice(n_leaves, n_rounds)
    ]
    return Forest.from_trees(rounds, n_labels, order)


def assert_same_bits(a, b):
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("leaves", [[1], [2, 3], [1, 31, 32], [33, 64], [64], [1, 65, 130]], ids=str)
@pytest.mark.parametrize(("n_labels", "order"), [(3, 1), (2, 2), (4, 0), (1, 1), (3, 2)])
@pytest.mark.parametrize("n_slots", [(), SPARSE_SLOTS], ids=["dense", "sparse"])
def test_equals_reference(method, leaves, n_labels, order, n_slots):
    rng = np.random.default_rng([n_labels, order, len(n_slots), *leaves])
    binned = random_rows(rng, LENGTHS, n_slots=n_slots)
    forest = random_forest(rng, binned, leaves, n_labels, order)
    expected = reference_scores(forest, binned)
    assert_same_bits(forest_scores(forest, binned, method=method), expected)
    if max(leaves) <= 64 and method == "masks":
        assert forest._cache["masks"] is not None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kinds", [(LAG,), (SPARSE,), (DENSE,), (SPARSE, LAG)], ids=str)
def test_one_kind_of_split_only(method, kinds):
    rng = np.random.default_rng(5)
    binned = random_rows(rng, LENGTHS, n_slots=SPARSE_SLOTS)
    forest = random_forest(rng, binned, [1, 20], 3, 2, kinds=kinds)
    assert_same_bits(forest_scores(forest, binned, method=method), reference_scores(forest, binned))


@pytest.mark.parametrize("method", METHODS)
def test_sparse_features_without_any_dense(method):
    rng = np.random.default_rng(6)
    binned = random_rows(rng, LENGTHS, n_dense=0, offsets=(), n_slots=SPARSE_SLOTS)
    forest = random_forest(rng, binned, [1, 20], 3, 1)
    assert_same_bits(forest_scores(forest, binned, method=method), reference_scores(forest, binned))


@pytest.mark.parametrize("method", METHODS)
def test_many_labels(method):
    """More labels than one word of a lag's left set holds."""
    rng = np.random.default_rng(7)
    binned = random_rows(rng, [1, 3, 2])
    forest = random_forest(rng, binned, [1, 20], 70, 1, n_rounds=2)
    assert_same_bits(forest_scores(forest, binned, method=method), reference_scores(forest, binned))


@pytest.mark.parametrize("n_slots", [(), SPARSE_SLOTS], ids=["dense", "sparse"])
def test_many_blocks(monkeypatch, n_slots):
    """Tables divided into blocks of 16 trees, the last one not full."""
    monkeypatch.setattr(tables, "BLOCK_BYTES", 0)
    rng = np.random.default_rng(8)
    binned = random_rows(rng, LENGTHS, n_slots=n_slots)
    forest = random_forest(rng, binned, [1, 2, 9, 31], 3, 1, n_rounds=25)
    scores = forest_scores(forest, binned, method="masks")
    assert len(forest._cache["masks"].block_group) > 3
    assert_same_bits(scores, reference_scores(forest, binned))


@pytest.mark.parametrize("limit", ["tables.MAX_BYTES", "scoring.MAX_SPARSE_WORDS"])
def test_tables_too_large(monkeypatch, limit):
    room, name = limit.split(".")
    monkeypatch.setattr({"tables": tables, "scoring": scoring}[room], name, 3)
    rng = np.random.default_rng(9)
    binned = random_rows(rng, LENGTHS, n_slots=SPARSE_SLOTS)
    forest = random_forest(rng, binned, [30], 3, 1)
    scores = forest_scores(forest, binned, method="masks")
    assert forest._cache["masks"] is None
    assert_same_bits(scores, reference_scores(forest, binned))


@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_matter(method, monkeypatch):
    monkeypatch.setattr(scoring, "ROWS_PER_TASK", 7)
    rng = np.random.default_rng(10)
    binned = random_rows(rng, [*LENGTHS] * 5, n_slots=SPARSE_SLOTS)
    forest = random_forest(rng, binned, [1, 31], 3, 1)
    one = forest_scores(forest, binned, 1, method=method)
    assert_same_bits(forest_scores(forest, binned, 2, method=method), one)
    assert_same_bits(one, reference_scores(forest, binned))


def test_eight_threads_predict_at_once():
    rng = np.random.default_rng(11)
    samples = [random_rows(rng, rng.integers(1, 9, 20), n_slots=SPARSE_SLOTS) for _ in range(8)]
    forest = random_forest(rng, samples[0], [1, 31], 3, 1)
    results = [None] * 8
    barrier = threading.Barrier(8)

    def predict(n):
        barrier.wait()
        results[n] = [forest_scores(forest, samples[n], 1 + n % 2) for _ in range(5)]

    threads = [threading.Thread(target=predict, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        expected = reference_scores(forest, samples[n])
        for scores in results[n]:
            assert_same_bits(scores, expected)


def test_sums_in_the_order_of_rounds():
    """As training adds them: one float32 addition per round."""
    rng = np.random.default_rng(12)
    binned = random_rows(rng, LENGTHS)
    forest = random_forest(rng, binned, [1, 31], 3, 1, n_rounds=12, none=0)
    total = np.zeros((3, len(binned.address), 3), np.float32)
    for r in range(12):
        total += forest_scores(Forest.from_trees(forest.to_trees()[r : r + 1], 3, 1), binned)
        assert_same_bits(forest_scores(forest.truncate(r + 1), binned), total)


def test_rows_may_be_read_only_or_of_other_integer_types():
    rng = np.random.default_rng(13)
    binned = random_rows(rng, LENGTHS, n_slots=SPARSE_SLOTS)
    forest = random_forest(rng, binned, [31], 3, 1)
    expected = forest_scores(forest, binned)
    other = SimpleNamespace(**vars(binned))
    other.codes = binned.codes.copy()
    other.codes.flags.writeable = False
    other.address = binned.address.astype(np.int32)
    other.slot_indices = binned.slot_indices.astype(np.int64)
    assert_same_bits(forest_scores(forest, other), expected)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_score(method):
    rng = np.random.default_rng(14)
    binned = random_rows(rng, LENGTHS)
    assert not forest_scores(Forest.from_trees([], 3, 1), binned, method=method).any()
    assert not forest_scores(Forest.from_trees([[None] * 3], 3, 1), binned, method=method).any()
    forest = random_forest(rng, binned, [31], 3, 1)
    assert forest_scores(forest, random_rows(rng, []), method=method).shape == (3, 0, 3)


def test_features_that_the_rows_do_not_have():
    rng = np.random.default_rng(15)
    rich = random_rows(rng, LENGTHS, n_dense=9, n_slots=SPARSE_SLOTS)
    dense = random_forest(rng, rich, [31], 3, 1, kinds=(DENSE,))
    sparse = random_forest(rng, rich, [31], 3, 1, kinds=(SPARSE,))
    with pytest.raises(ModelFileError, match="data have only 3 of its kind.*do not belong together"):
        forest_scores(dense, random_rows(rng, LENGTHS, n_dense=1))
    with pytest.raises(ModelFileError, match="data have only 0 of its kind"):
        forest_scores(sparse, random_rows(rng, LENGTHS))
    with pytest.raises(ModelFileError, match="left set of another size"):
        forest_scores(sparse, random_rows(rng, LENGTHS, n_slots=(200,) * 5))


def test_unknown_method():
    rng = np.random.default_rng(16)
    binned = random_rows(rng, LENGTHS)
    with pytest.raises(ValueError, match="method must be 'auto', 'traverse' or 'masks', got 'fast'"):
        forest_scores(random_forest(rng, binned, [3], 3, 1), binned, method="fast")
