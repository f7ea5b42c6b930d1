"""Weights of a linear model: its two products against their slow twins, and its arrays in a model file."""

from __future__ import annotations

import numpy as np
import pytest
from features_batches import make_batch, random_batch

from seqboost.exceptions import ModelFileError
from seqboost.linear import LinearGradient, LinearRows, LinearWeights
from seqboost.linear.reference import reference_linear_gradient, reference_linear_scores
from tests.support.linear import columns_of

WINDOWS = (0, 1, (2, 0), [-1, 1], {"x0": 2, "*": 0}, 4)


def random_weights(columns, rows, labels, n_labels, all_from, rng):
    start, label = LinearGradient(columns, rows, len(rows.offsets) - 1).label_pairs(labels, n_labels, all_from)
    return LinearWeights(columns, n_labels, start, label, rng.normal(size=len(label)).astype(np.float32))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(("n_labels", "all_from"), [(1, 1), (3, 1), (5, 4), (9, 10**9)])
def test_products_equal_their_twins(window, n_labels, all_from):
    rng = np.random.default_rng(3)
    lengths = [1, 7, 2, 1, 12, 3]
    batch = random_batch(rng, lengths)
    columns = columns_of(batch, window)
    rows = columns.transform(batch)
    labels = rng.integers(-1, n_labels, size=rows.n_rows).astype(np.int32)
    weights = random_weights(columns, rows, labels, n_labels, all_from, rng)
    expected = np.array(reference_linear_scores(weights, batch))
    found = weights.scores(rows)
    assert found.shape == (n_labels, rows.n_rows, 1)
    np.testing.assert_allclose(found[:, :, 0].T, expected, rtol=1e-4, atol=1e-4)
    n_training = 4
    n_rows = int(batch.offsets[n_training])
    gradient = rng.normal(size=(n_labels, rows.n_rows, 1)).astype(np.float32)
    summed = LinearGradient(columns, rows, n_training)(weights, gradient)
    slow = reference_linear_gradient(weights, batch, n_rows, gradient[:, :, 0].T.tolist())
    np.testing.assert_allclose(summed, slow, rtol=1e-4, atol=1e-5)


def test_new_sequences_have_no_column_for_unknown_categories_and_stay_in_range():
    rng = np.random.default_rng(0)
    columns = columns_of(random_batch(rng, [9, 4]), 2)
    other = random_batch(rng, [3, 1, 8], extra_categories=("never", "seen"))
    other.numeric[0, 0], other.numeric[1, 0] = 1e30, -1e30
    rows = columns.transform(other)
    training = columns.transform(random_batch(rng, [9, 4]))
    labels = rng.integers(0, 3, size=training.n_rows).astype(np.int32)
    weights = random_weights(columns, training, labels, 3, 1, rng)
    expected = np.array(reference_linear_scores(weights, other))
    np.testing.assert_allclose(weights.scores(rows)[:, :, 0].T, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(expected).max() < 1e4


def test_labels_of_features_are_those_seen_or_all():
    batch = make_batch([4, 2], categorical=[list("aabbac")])
    columns = columns_of(batch, 0)
    rows = columns.transform(batch)
    labels = np.array([0, 2, 1, -1, 2, 3], dtype=np.int32)
    start, label = LinearGradient(columns, rows, 2).label_pairs(labels, 4, 3)
    by_category = [label[start[f] : start[f + 1]].tolist() for f in columns.feature_of[0, :3]]
    assert by_category == [[0, 1, 2, 3], [1], [3]]  # a is seen three times; one label of b is unobserved


def test_threads_and_joining_do_not_change_a_bit():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 9, size=300).tolist()
    batch = random_batch(rng, lengths)
    columns = columns_of(batch, 2)
    rows = columns.transform(batch)
    labels = rng.integers(0, 4, size=rows.n_rows).astype(np.int32)
    weights = random_weights(columns, rows, labels, 4, 3, rng)
    gradient = rng.normal(size=(4, rows.n_rows, 1)).astype(np.float32)
    total = LinearGradient(columns, rows, 300)
    assert np.array_equal(weights.scores(rows, 1), weights.scores(rows, 3))
    assert np.array_equal(total(weights, gradient, 1), total(weights, gradient, 3))
    parts = [rows.take(np.arange(100))[0], rows.take(np.arange(100, 300))[0]]
    joined = LinearRows.concatenate(*parts)
    for name in ("indptr", "column", "value", "offsets"):
        assert np.array_equal(getattr(joined, name), getattr(rows, name))


class TestArrays:
    def weights(self):
        rng = np.random.default_rng(0)
        batch = random_batch(rng, [5, 3, 6])
        columns = columns_of(batch, 1)
        rows = columns.transform(batch)
        labels = rng.integers(0, 3, size=rows.n_rows).astype(np.int32)
        return random_weights(columns, rows, labels, 3, 2, rng), rows

    def test_round_trip_gives_the_same_bits(self):
        weights, rows = self.weights()
        again = LinearWeights.from_arrays(weights.to_arrays(), weights.columns.binner, 3)
        assert np.array_equal(again.scores(rows), weights.scores(rows))

    @pytest.mark.parametrize(
        ("name", "damage", "match"),
        [
            ("value", None, "'value' is missing"),
            ("value", lambda a: a.astype(np.float64), "not one dimension of float32"),
            ("value", lambda a: a[:-1], "do not fit its features"),
            ("value", lambda a: np.full_like(a, np.nan), "not finite"),
            ("label", lambda a: a + 1, "label that does not exist"),
            ("label", lambda a: a - 1, "label that does not exist"),
            ("start", lambda a: a[::-1].copy(), "do not fit its features"),
            ("start", lambda a: a[:-1], "do not fit its features"),
            ("columns_mean", None, "'mean' is missing"),
            ("columns_scale", lambda a: a * 0, "mean or a scale"),
            ("columns_sparse_limit", lambda a: a * np.nan, "mean or a scale"),
            ("columns_sparse_scale", lambda a: a[1:], "shapes"),
            ("columns_offsets", lambda a: a * 100, "beyond the window"),
            ("columns_offsets", lambda a: a.astype(np.int64), "dimension"),
            ("columns_feature_of", lambda a: a[:, 1:].copy(), "shapes"),
            ("columns_feature_of", lambda a: a + 5, "do not fit its features"),
            ("columns_feature_of", lambda a: a - 1, "do not fit|negative"),
            ("columns_boundary", lambda a: np.where(a < 0, -7, a).astype(np.int32), "negative"),
        ],
    )
    def test_damaged_arrays_are_refused(self, name, damage, match):
        weights, _ = self.weights()
        arrays = weights.to_arrays()
        if damage is None:
            del arrays[name]
        else:
            arrays[name] = damage(arrays[name])
        with pytest.raises(ModelFileError, match=match):
            LinearWeights.from_arrays(arrays, weights.columns.binner, 3)
