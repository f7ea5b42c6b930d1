"""Columns of a linear model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from features_batches import make_batch

from seqboost.linear.reference import reference_linear_features
from tests.support.linear import columns_of


def test_values_are_standardised_and_missing_ones_have_an_indicator():
    batch = make_batch([4], numeric=np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0], [5.0, 5.0]]))
    columns = columns_of(batch, 0)
    seen = [reference_linear_features(columns, batch, row) for row in range(4)]
    values = [features[columns.feature_of[0, 0]] for row, features in enumerate(seen) if row != 2]
    np.testing.assert_allclose(np.mean(values), 0, atol=1e-12)
    np.testing.assert_allclose(np.std(values), 1)
    assert seen[2] == {int(columns.feature_of[0, 1]): 1.0, int(columns.feature_of[0, 2]): 0.0}
    assert columns.feature_of[0, 3] == -1  # the second column never misses: no indicator


def test_sparse_indicators_are_one_and_explicit_nan_is_missing():
    matrix = sp.csr_array(np.array([[2.0, 0.0, 3.0], [2.0, 0.0, -4.0], [0.0, 0.0, 1.0]], dtype=np.float32))
    matrix.data[2] = np.nan  # the 2 of the second row
    batch = make_batch([3], sparse=matrix)
    rows = columns_of(batch, 0).transform(batch)
    assert rows.column.tolist() == [0, 2, 3, 2, 2]
    root = np.sqrt((9 + 16 + 1) / 3)
    np.testing.assert_allclose(rows.value, [1, 3 / root, 1, -4 / root, 1 / root], rtol=1e-6)


def test_huge_constant_and_empty_columns_do_not_overflow():
    numeric = np.array([[1e300, 7.0, np.nan], [-1e300, 7.0, np.nan], [0.0, 7.0, np.nan]])
    batch = make_batch([3], numeric=numeric)
    columns = columns_of(batch, 1)
    rows = columns.transform(batch)
    assert np.isfinite(rows.value).all()
    assert np.abs(rows.value).max() < 3


@pytest.mark.parametrize("offset", [-2, -1, 1, 3])
def test_boundary_is_one_indicator_for_each_offset(offset):
    batch = make_batch([3, 1], categorical=[list("abcd")])
    columns = columns_of(batch, [offset])
    o = columns.offsets.tolist().index(offset)
    for row, (position, length) in enumerate([(0, 3), (1, 3), (2, 3), (0, 1)]):
        outside = not 0 <= position + offset < length
        assert (int(columns.boundary[o]) in reference_linear_features(columns, batch, row)) == outside
    assert columns.boundary[columns.offsets == 0].tolist() == [-1] * int((columns.offsets == 0).sum())
