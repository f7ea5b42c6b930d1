"""Thresholds of numeric columns, and the kernel that applies them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from features_batches import make_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper

from seqboost.exceptions import InputError, ParameterError
from seqboost.features import FeatureBinner
from seqboost.features.binning import agree_in_single, find_thresholds, first_rounded_to, last_rounded_to
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


def n_up_to(thresholds, values):
    """Number of values up to each threshold."""
    return np.searchsorted(np.sort(values), thresholds, side="right")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_bins", [2, 10, 64, 254])
@pytest.mark.parametrize("name", COLUMNS)
def test_thresholds_against_reference(name: str, max_bins: int, dtype: type) -> None:
    values = COLUMNS[name](np.random.default_rng(1)).astype(dtype)
    thresholds = find_thresholds(values, max_bins)
    assert thresholds.dtype == np.float64
    assert thresholds.size < max_bins
    assert np.all(np.diff(thresholds) > 0)
    assert_array_equal(thresholds, reference_thresholds(values.tolist(), max_bins))


@pytest.mark.parametrize("max_bins", [2, 16, 254])
def test_thresholds_are_numpys_quantiles(max_bins: int) -> None:
    values = np.random.default_rng(2).normal(size=5000)
    levels = np.linspace(0, 100, max_bins + 1)[1:-1] / 100
    expected = np.quantile(values, levels, method="averaged_inverted_cdf")
    assert_array_equal(n_up_to(find_thresholds(values, max_bins), values), n_up_to(expected, values))


@pytest.mark.parametrize("max_bins", [5, 64, 254])
def test_same_bins_as_scikit_learn(max_bins: int) -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=1000), rng.integers(0, 30, size=1000), rng.exponential(size=1000)])
    X[rng.random(X.shape) < 0.1] = np.nan
    mapper = _BinMapper(n_bins=max_bins + 1).fit(X)
    binner = FeatureBinner.fit(make_batch([1000], numeric=X), max_bins=max_bins)
    for j, expected in enumerate(mapper.bin_thresholds_):
        mine = binner.thresholds[binner.threshold_start[j] : binner.threshold_start[j + 1]]
        known = X[~np.isnan(X[:, j]), j]
        assert_array_equal(n_up_to(mine, known), n_up_to(expected, known))
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


SPECIAL = [0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 1.0, 1 + 2**-24, 1 + 3 * 2**-24, 16777217.0, 1.7e9, 1.7e9 + 1, 5e-324, 7e-46]
SPECIAL += [1e-45, 2**-149 * 1.5, 1e-40, 3.4028234663852886e38, 3.4028235677973366e38, 3.5e38, 1.7e308]
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(width=32, allow_nan=False, allow_infinity=False)
NUMBERS |= st.sampled_from(SPECIAL + [-x for x in SPECIAL]) | st.integers(-(2**26), 2**26).map(float)


def single(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


@settings(deadline=None, max_examples=300)
@given(st.lists(NUMBERS, min_size=1, max_size=40), st.integers(2, 50), st.lists(NUMBERS, max_size=20))
def test_thresholds_agree_in_both_precisions(train, max_bins, other) -> None:
    values = np.array(train)
    distinct = np.unique(values)
    thresholds = find_thresholds(values, max_bins)
    assert np.all(np.diff(thresholds) > 0)
    assert np.all((thresholds >= distinct[0]) & (thresholds < distinct[-1]))
    if distinct.size <= max_bins:
        assert_array_equal(np.searchsorted(thresholds, distinct), np.arange(distinct.size))
        assert_array_equal(thresholds, reference_thresholds(train, max_bins))
    if agree_in_single(thresholds).all():
        near = np.concatenate([np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf)])
        probes = np.concatenate([values, other, near])
        assert_array_equal(np.searchsorted(thresholds, probes), np.searchsorted(thresholds, single(probes)))
    else:
        assert np.unique(single(distinct)).size < distinct.size
    if np.array_equal(single(values), values):
        assert agree_in_single(thresholds).all()
        assert_array_equal(thresholds, find_thresholds(values.astype(np.float32), max_bins))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_that_round_to_a_single(x) -> None:
    given_single = np.array([x], dtype=np.float32)
    first, last = first_rounded_to(given_single), last_rounded_to(given_single)
    assert single(first) == single(last) == x
    assert single(np.nextafter(first, -np.inf)) < x < single(np.nextafter(last, np.inf))


def test_columns_that_need_double_precision() -> None:
    rng = np.random.default_rng(9)
    seconds = 1.7e9 + np.arange(200.0)
    noisy = np.array([0.1, 0.2, 0.3, 0.1 + 0.2])[np.arange(200) % 4]
    train = np.column_stack([seconds, rng.normal(size=200), noisy])
    binner = FeatureBinner.fit(make_batch([200], numeric=train))
    assert_array_equal(np.diff(binner.threshold_start), [199, 199, 3])
    for columns, words in (
        ((0,), "Column 'x0' needs float64: .*position 0 holds 1700000000.0, .* from 1699999936.0 to 1700000064.0"),
        ((2,), "Column 'x2' needs float64: .*sequence 0, position 2 holds 0.30000001"),
        ((0, 1, 2), "Column 'x0' needs float64"),
    ):
        rounded = train.copy()
        rounded[:, columns] = single(train[:, columns])
        batch = as_single(make_batch([200], numeric=rounded), columns)
        for stored in (binner, FeatureBinner.from_arrays(*binner.to_arrays())):
            with pytest.raises(InputError, match=words):
                stored.transform(batch)
        arrays, header = binner.to_arrays()
        del header["between"]  # a file of an earlier version
        FeatureBinner.from_arrays(arrays, header).transform(batch)
    harmless = train[[0, 1, 4, 5]]  # 0.1 and 0.2 are not in doubt
    codes = binner.transform(as_single(make_batch([4], numeric=single(harmless)), (1, 2))).codes
    assert_array_equal(codes[:, 1:], binner.transform(make_batch([4], numeric=harmless)).codes[:, 1:])


def as_single(batch, columns):
    """Mark some columns as float32."""
    marked = tuple(replace(c, single=i in columns) for i, c in enumerate(batch.schema.columns))
    return replace(batch, schema=replace(batch.schema, columns=marked))


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
