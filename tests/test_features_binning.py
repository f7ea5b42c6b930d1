"""Thresholds of numeric columns, and the kernel that applies them."""

from __future__ import annotations

import numpy as np
import pytest
from features_batches import make_batch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

from seqboost.exceptions import ParameterError
from seqboost.features import FeatureBinner
from seqboost.features.binning import find_thresholds
from seqboost.features.reference import count_below, reference_thresholds

COLUMNS = {
    "normal": lambda rng: rng.normal(size=997),
    "exact quantiles": lambda rng: rng.normal(size=1000),
    "few": lambda rng: rng.integers(0, 7, size=500).astype(float),
    "lumpy": lambda rng: np.where(rng.random(800) < 0.7, 1.0, rng.exponential(size=800)),
    "lump at the top": lambda rng: np.minimum(rng.normal(size=900), 0.0),
    "missing": lambda rng: np.where(rng.random(600) < 0.5, np.nan, rng.normal(size=600)),
    "all missing": lambda rng: np.full(5, np.nan),
    "constant": lambda rng: np.full(5, -2.5),
    "one": lambda rng: np.array([1.0]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_bins", [2, 10, 64, 254])
@pytest.mark.parametrize("name", COLUMNS)
def test_thresholds_against_reference(name: str, max_bins: int, dtype: type) -> None:
    values = COLUMNS[name](np.random.default_rng(1)).astype(dtype)
    thresholds = find_thresholds(values, max_bins)
    assert thresholds.dtype == np.float64
    assert thresholds.size < max_bins
    assert np.all(np.diff(thresholds) > 0)
    assert_allclose(thresholds, reference_thresholds(values.tolist(), max_bins), rtol=1e-15)


@pytest.mark.parametrize("max_bins", [2, 16, 254])
def test_thresholds_are_numpys_quantiles(max_bins: int) -> None:
    values = np.random.default_rng(2).normal(size=5000)
    levels = np.linspace(0, 100, max_bins + 1)[1:-1] / 100
    expected = np.quantile(values, levels, method="averaged_inverted_cdf")
    assert_allclose(find_thresholds(values, max_bins), expected, rtol=1e-15)


@pytest.mark.parametrize("max_bins", [5, 64, 254])
def test_same_bins_as_scikit_learn(max_bins: int) -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=1000), rng.integers(0, 30, size=1000), rng.exponential(size=1000)])
    X[rng.random(X.shape) < 0.1] = np.nan
    mapper = _BinMapper(n_bins=max_bins + 1).fit(X)
    binner = FeatureBinner.fit(make_batch([1000], numeric=X), max_bins=max_bins)
    for j, expected in enumerate(mapper.bin_thresholds_):
        mine = binner.thresholds[binner.threshold_start[j] : binner.threshold_start[j + 1]]
        assert_allclose(mine, expected, rtol=1e-15)
    expected_codes = mapper.transform(X)
    codes = binner.transform(make_batch([1000], numeric=X)).codes
    assert_array_equal(codes[~np.isnan(X)], expected_codes[~np.isnan(X)])


def test_long_columns_are_sampled_always_alike() -> None:
    values = np.random.default_rng(4).normal(size=20_000)
    thresholds = find_thresholds(values, 16, max_sample=5000)
    assert_array_equal(thresholds, find_thresholds(values, 16, max_sample=5000))
    assert_allclose(thresholds, find_thresholds(values, 16), atol=0.1)
    assert not np.array_equal(thresholds, find_thresholds(values, 16))


def test_neighbouring_floats_get_a_bin_each() -> None:
    values = np.array([1.0, np.nextafter(1.0, 2), np.nextafter(np.nextafter(1.0, 2), 2), -1.7e308, 1.7e308, 5e-324, 0])
    thresholds = find_thresholds(values, 254)
    assert_array_equal(np.searchsorted(thresholds, np.sort(values), side="left"), np.arange(7))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_against_reference(dtype: type) -> None:
    rng = np.random.default_rng(5)
    columns = [rng.normal(size=700), rng.integers(0, 3, size=700), np.full(700, 2.0), np.full(700, np.nan)]
    columns += [np.round(rng.normal(size=700), digits) for digits in range(4)]
    train = np.column_stack(columns).astype(dtype)
    binner = FeatureBinner.fit(make_batch([300, 400], numeric=train), max_bins=100)
    test = (train * 1.5)[:333]
    test[:3] = [[1e30], [-1e30], [np.nan]]
    codes = binner.transform(make_batch([333], numeric=test)).codes
    n_values = np.diff(binner.threshold_start) + 1
    for j in range(train.shape[1]):
        cuts = binner.thresholds[binner.threshold_start[j] : binner.threshold_start[j + 1]]
        expected = [n_values[j] if np.isnan(x) else count_below(cuts, x) for x in test[:, j]]
        assert_array_equal(codes[:, j], expected)
    assert_array_equal(codes[0], n_values - 1)
    assert_array_equal(codes[1], 0)
    assert_array_equal(codes[2], n_values)


def test_every_number_of_thresholds() -> None:
    grid = np.arange(254.0)
    train = np.column_stack([np.minimum(grid, k) for k in range(254)])
    binner = FeatureBinner.fit(make_batch([254], numeric=train))
    assert binner.layout.n_values.tolist() == list(range(1, 255))
    assert_array_equal(binner.transform(make_batch([254], numeric=train)).codes, train)


def test_precision_does_not_change_codes() -> None:
    X = np.random.default_rng(6).normal(size=(2000, 3)).astype(np.float32)
    single = FeatureBinner.fit(make_batch([2000], numeric=X))
    double = FeatureBinner.fit(make_batch([2000], numeric=X.astype(np.float64)))
    assert_array_equal(single.thresholds, double.thresholds)
    batch = make_batch([2000], numeric=X.astype(np.float64))
    assert_array_equal(single.transform(make_batch([2000], numeric=X)).codes, single.transform(batch).codes)


def test_max_bins() -> None:
    batch = make_batch([1000], numeric=np.random.default_rng(7).normal(size=(1000, 1)))
    assert FeatureBinner.fit(batch, max_bins=2).layout.n_values.tolist() == [2]
    binned = FeatureBinner.fit(batch, max_bins=255, window=1).transform(batch)
    assert binned.layout.n_values.tolist() == [254] * 3
    assert binned.codes[0, 0] == 255  # boundary
    for bad in (1, 256, 0, 10.0, True, None, "255"):
        with pytest.raises(ParameterError, match="max_bins must be an integer from 2 to 255; got"):
            FeatureBinner.fit(batch, max_bins=bad)
    with pytest.raises(ParameterError, match="min_count must be an integer of at least 1; got 0"):
        FeatureBinner.fit(batch, min_count=0)


def test_any_number_of_threads() -> None:
    X = np.random.default_rng(8).normal(size=(40_000, 2)).astype(np.float32)
    batch = make_batch([30_000, 1, 9_999], numeric=X)
    one, three = (FeatureBinner.fit(batch, window=2, n_threads=n) for n in (1, 3))
    assert_array_equal(one.thresholds, three.thresholds)
    assert_array_equal(one.transform(batch).codes, three.transform(batch, n_threads=3).codes)
