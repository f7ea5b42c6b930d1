"""Batches become binned rows: categories, indicators, padding, windows, the model file."""

from __future__ import annotations

import json
import pickle
from datetime import date
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from features_batches import make_batch, random_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from seqboost.exceptions import InputError, InputTypeError, ModelFileError, ParameterError
from seqboost.features import CATEGORICAL, NUMERIC, ORDERED, SUBSET, BinnedRows, FeatureBinner, binned_bytes
from seqboost.features.reference import ABSENT, expected_window_value, reference_rows, window_value
from seqboost.sequences import as_batch

LENGTHS = [40, 1, 700, 2, 1, 300]
WINDOWS: list[Any] = [0, 2, (3, 0), [-1, 1], 50, {"x0": (0, 2), ("x1", "x6"): 1, "sparse": [-2, 2], "*": [0, 4]}]


def slots_of(binned: BinnedRows) -> list[list[int]]:
    indptr = binned.slot_indptr
    return [binned.slot_indices[indptr[row] : indptr[row + 1]].tolist() for row in range(binned.n_padded)]


def assert_same_rows(a: BinnedRows, b: BinnedRows) -> None:
    for field in ("codes", "address", "padded_row", "offsets", "slot_indptr", "slot_indices"):
        assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field, strict=True)
    assert a.layout.same_as(b.layout)


def assert_matches_reference(binner: FeatureBinner, batch: Any, rng: np.random.Generator) -> BinnedRows:
    binned = binner.transform(batch)
    all_slots = slots_of(binned)
    for row, (codes, slots) in enumerate(reference_rows(binner, batch)):
        assert binned.codes[binned.padded_row[row]].tolist() == codes
        assert all_slots[binned.padded_row[row]] == slots
    n_features = len(binned.layout.names)
    for row, feature in zip(rng.integers(0, binned.n_rows, 400), rng.integers(0, n_features, 400), strict=True):
        assert window_value(binned, row, feature) == expected_window_value(binner, batch, int(row), int(feature))
    assert binned.nbytes <= binned_bytes(batch, binned.layout)
    return binned


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", WINDOWS)
def test_against_reference(window: Any, dtype: type) -> None:
    rng = np.random.default_rng(0)
    train = random_batch(rng, LENGTHS, dtype=dtype)
    test = random_batch(rng, [1, 30, 3], dtype=dtype, extra_categories=("new", "newer"))
    test.numeric[rng.random(test.numeric.shape) < 0.1] = np.nan  # in columns that never lacked a value, too
    binner = FeatureBinner.fit(train, max_bins=20, window=window, min_count=3)
    assert binner.layout.n_sparse == 6  # the wide column and five of six indicators
    for batch in (train, test):
        assert_matches_reference(binner, batch, rng)


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    window=st.sampled_from([0, 1, 9, (0, 3), [-2], {"sparse": 1, "*": [3]}]),
    max_bins=st.integers(2, 255),
    seed=st.integers(0, 2**16),
)
def test_small_batches_against_reference(lengths: list[int], window: Any, max_bins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    train, test = random_batch(rng, lengths), random_batch(rng, lengths, extra_categories=(True, 2.5))
    binner = FeatureBinner.fit(train, max_bins=max_bins, window=window)
    assert_matches_reference(binner, train, rng)
    assert_matches_reference(binner, test, rng)


def test_contract_of_layout_and_rows() -> None:
    rng = np.random.default_rng(1)
    batch = random_batch(rng, LENGTHS)
    binned = FeatureBinner.fit(batch, window=2).transform(batch)
    layout = binned.layout
    assert layout.margin == 2
    assert binned.codes.dtype == np.uint8
    assert binned.codes.flags.c_contiguous
    assert binned.n_padded == binned.n_rows + 2 * (len(LENGTHS) + 1)
    assert binned.slot_indptr.size == binned.n_padded + 1
    assert_array_equal(binned.address, binned.padded_row * layout.n_dense)
    assert_array_equal(layout.displacement, layout.offset * layout.n_dense + layout.column)
    assert np.all(np.diff(layout.displacement) > 0)
    assert layout.sparse_kind.tolist() == [SUBSET] + [ORDERED] * 6
    assert layout.absent_rank[0] == 0
    assert layout.column_names == ("x0", "x1", "x2", "x3", "x4", "x5", "x7", "x8")
    middle = layout.offset == 0
    expected = [NUMERIC, CATEGORICAL, NUMERIC, NUMERIC, CATEGORICAL, NUMERIC, NUMERIC, CATEGORICAL]
    assert layout.kind[middle].tolist() == expected
    assert all(np.diff(slots).min(initial=1) > 0 for slots in slots_of(binned))
    dtypes = {name: getattr(layout, name).dtype for name in ("column", "offset", "n_values", "slot_start")}
    assert set(dtypes.values()) == {np.dtype(np.int32)}
    assert layout.absent_rank.dtype == layout.sparse_missing.dtype == layout.sparse_offsets.dtype == np.int32
    assert layout.displacement.dtype == binned.slot_indptr.dtype == binned.padded_row.dtype == np.int64
    assert layout.kind.dtype == layout.sparse_kind.dtype == np.uint8


def test_names() -> None:
    batch = make_batch([3], numeric=np.eye(3)[:, :2], sparse=np.eye(3), sparse_names=["w=a", "w=b", "w=c"])
    layout = FeatureBinner.fit(batch, window={"x0": [-2, 0], "sparse": [-1, 1]}).layout
    dense = ("x0[-2]", "x0", "x1")
    sparse = tuple(f"w={letter}[{offset}]" for offset in ("-1", "+1") for letter in "abc")
    assert layout.names == dense + sparse


def test_boundary_is_not_missing() -> None:
    batch = make_batch([2, 1], numeric=[[1.0], [np.nan], [2.0]], categorical=[["a", None, "b"]])
    binned = FeatureBinner.fit(batch, window=1).transform(batch)
    #     . 0 1 . 2 .   two bins each: missing = 2, boundary = 3
    assert binned.codes[:, 0].tolist() == [3, 0, 2, 3, 1, 3]
    assert binned.codes[:, 1].tolist() == [3, 0, 2, 3, 1, 3]
    assert binned.padded_row.tolist() == [1, 2, 4]


def test_no_window_no_padding() -> None:
    batch = make_batch([2, 1], numeric=np.arange(3.0)[:, None])
    binned = FeatureBinner.fit(batch).transform(batch)
    assert binned.codes.shape == (3, 1)
    assert binned.layout.margin == 0
    assert binned.slot_indptr.tolist() == [0] * 4


def test_categories_do_not_depend_on_order_of_rows() -> None:
    values = ["b", 3, "a", 2.5, ("t", 1), True, None, "b"]
    there = FeatureBinner.fit(make_batch([8], categorical=[values]))
    back = FeatureBinner.fit(make_batch([8], categorical=[values[::-1]]))
    assert there.categories == back.categories == ((True, 2.5, 3, "a", "b", ("t", 1)),)


def test_categories_not_seen_in_training_rows_are_unknown() -> None:
    batch = make_batch([2, 2], categorical=[["a", "b", "c", "a"]])
    first = batch[0]
    binner = FeatureBinner.fit(first)
    assert binner.categories == (("a", "b"),)
    assert binner.transform(batch).codes[:, 0].tolist() == [0, 1, 4, 0]


def test_column_of_missing_categories() -> None:
    binner = FeatureBinner.fit(make_batch([2], categorical=[[None, None]]), window=1)
    binned = binner.transform(make_batch([2], categorical=[[None, "a"]]))
    assert binned.codes[:, 0].tolist() == [2, 1, 3, 2]


@pytest.mark.parametrize("n_categories", [253, 254])
def test_wide_begins_at_254_categories(n_categories: int) -> None:
    values = [*range(n_categories), None]
    batch = make_batch([n_categories + 1], categorical=[values])
    binner = FeatureBinner.fit(batch, window=[-1])
    binned = binner.transform(make_batch([3], categorical=[[5, None, "new"]]))
    if n_categories == 253:
        assert binned.layout.n_sparse == 0
        assert binned.codes[:, 0].tolist() == [254, 5, 253, 255, 254]
    else:
        assert binned.codes.shape == (5, 0)
        assert binned.layout.slot_start.tolist() == [0, 256]
        assert binned.layout.sparse_missing.tolist() == [254]
        assert slots_of(binned) == [[255], [5], [254], [], [255]]
        assert binned.layout.names == ("x0[-1]",)


def test_indicators() -> None:
    nan = np.nan
    #               one  two rare none -1  numbers         with NaN  NaN only
    sparse = np.array(
        [
            [1, 0, 1, 0, -1, -3, 4, nan],
            [1, 7, 0, 0, 0, 0, nan, 0],
            [0, 7, 0, 0, -1, 2, 4, nan],
            [0, 0, 0, 0, -1, -1, 0, 0],
            [1, 7, 0, 0, 0, 5, 0, 0],
        ]
    )
    matrix = sp.csr_array(sparse)
    binner = FeatureBinner.fit(make_batch([5], sparse=matrix), min_count=2)
    layout = binner.layout
    assert layout.sparse_names == ("s0", "s1", "s4", "s5", "s6", "s7")
    assert np.diff(layout.slot_start).tolist() == [1, 1, 1, 4, 2, 1]
    assert layout.absent_rank.tolist() == [0, 0, 1, 2, 0, 0]
    assert layout.sparse_missing.tolist() == [-1, -1, -1, -1, 1, 0]
    test = np.array(
        [
            [9, 0.5, 1, 1, -9, -9, -1, nan],
            [-1, nan, 0, 0, 1, -0.5, nan, 1],
            [0, 0, 0, 0, 0, 0.5, 9, 0],
        ]
    )
    binned = binner.transform(make_batch([3], sparse=test))
    rows = [[window_value(binned, row, s) for s in range(6)] for row in range(3)]
    assert rows == [
        [0, 0, 0, 0, ABSENT, 0],
        [ABSENT, ABSENT, ABSENT, 1, 1, ABSENT],
        [ABSENT, ABSENT, ABSENT, 2, 0, ABSENT],
    ]
    assert slots_of(binner.transform(make_batch([2], numeric=np.empty((2, 0))))) == [[], []]


def stored(dense: Any, zeros: list[tuple[int, int]]) -> sp.csr_array:
    """Return a sparse matrix that stores some zeros as well."""
    matrix = sp.lil_array(np.asarray(dense, dtype=np.float64))
    marked = matrix.copy()
    for row, column in zeros:
        marked[row, column] = 99
    marked = marked.tocsr()
    marked.data[marked.data == 99] = 0
    return marked


def test_stored_zeros_are_values_where_training_had_some() -> None:
    #                  zeros only | zeros, 2, NaN | both signs and 0 | none
    train = stored([[0, 0, -1, 1], [0, 2, 0, 0], [0, np.nan, 3, 1], [0, 0, 0, 0]],
                   [(0, 0), (3, 0), (0, 1), (1, 2)])  # fmt: skip
    binner = FeatureBinner.fit(make_batch([4], sparse=train))
    assert np.diff(binner.layout.slot_start).tolist() == [1, 3, 3, 1]
    assert binner.layout.absent_rank.tolist() == [0, 0, 1, 0]
    assert binner.layout.sparse_missing.tolist() == [-1, 2, -1, -1]
    test = stored([[5, 0, 0, 0], [0, 1.5, 0.5, 0], [0, 0, 2, 1]], [(0, 1), (0, 2), (0, 3), (2, 0)])
    arrays, header = binner.to_arrays()
    for same in (binner, FeatureBinner.from_arrays(arrays, header)):
        assert_matches_reference(same, make_batch([4], sparse=train), np.random.default_rng(0))
        binned = assert_matches_reference(same, make_batch([3], sparse=test), np.random.default_rng(0))
        rows = [[window_value(binned, row, s) for s in range(4)] for row in range(3)]
        assert rows == [[0, 0, 1, ABSENT], [ABSENT, 1, 1, ABSENT], [0, ABSENT, 2, 0]]
    arrays.pop("indicators_has_zero")  # a file of an earlier version
    binned = FeatureBinner.from_arrays(arrays, header).transform(make_batch([3], sparse=test))
    assert window_value(binned, 0, 1) == ABSENT
    with pytest.raises(ModelFileError, match="do not fit together"):
        FeatureBinner.from_arrays({**arrays, "indicators_has_zero": np.zeros(2, dtype=np.uint8)}, header)


def test_sparse_numbers_are_not_cut() -> None:
    batch = as_batch([sp.csr_array([[16777216.0], [16777217.0], [1e300], [0.0]])])
    binned = FeatureBinner.fit(batch).transform(batch)
    assert [window_value(binned, row, 0) for row in range(4)] == [0, 1, 2, ABSENT]


@pytest.mark.parametrize("max_bins", [2, 3, 10, 255])
def test_no_bin_of_both_signs(max_bins: int) -> None:
    values = np.random.default_rng(2).normal(loc=1.5, size=(2000, 1))
    binner = FeatureBinner.fit(make_batch([2000], sparse=values), max_bins=max_bins)
    assert binner.layout.n_slots == min(max_bins, 254)
    slots = binner.transform(make_batch([2000], sparse=values)).slot_indices
    assert_array_equal(slots < binner.layout.absent_rank[0], values[:, 0] < 0)
    assert_array_equal(np.unique(slots), np.arange(binner.layout.n_slots))


def test_duplicates_in_sparse_input() -> None:
    matrix = sp.csr_array((np.ones(3, np.float32), np.array([1, 0, 0]), np.array([0, 3, 3])), shape=(2, 2))
    batch = make_batch([2], sparse=np.zeros((2, 2)))
    object.__setattr__(batch, "sparse", matrix)
    binned = FeatureBinner.fit(batch).transform(batch)
    assert slots_of(binned) == [[0, 1], []]
    assert matrix.nnz == 3  # the batch is left as it was


def test_nothing_sparse_is_kept() -> None:
    batch = make_batch([3], sparse=np.eye(3))
    binned = FeatureBinner.fit(batch, min_count=2, window={"sparse": 7}).transform(batch)
    assert binned.layout.n_sparse == binned.layout.margin == 0
    assert binned.layout.sparse_enabled.shape == (0, 0)
    assert binned.codes.shape == (3, 0)


@pytest.mark.parametrize("window", WINDOWS)
def test_concatenate_is_binning_at_once(window: Any) -> None:
    batch = random_batch(np.random.default_rng(3), LENGTHS)
    binner = FeatureBinner.fit(batch[:4], window=window)
    joined = BinnedRows.concatenate(binner.transform(batch[:4]), binner.transform(batch[4:]))
    assert_same_rows(joined, binner.transform(batch))


def test_concatenate_needs_one_layout() -> None:
    batch = random_batch(np.random.default_rng(3), LENGTHS)
    a, b = (FeatureBinner.fit(batch, window=window).transform(batch) for window in (1, 2))
    with pytest.raises(InputError, match=r"only if one FeatureBinner made both; .* margins 1 and 2"):
        BinnedRows.concatenate(a, b)


@pytest.mark.parametrize("window", WINDOWS)
def test_model_file(window: Any) -> None:
    rng = np.random.default_rng(4)
    train, test = random_batch(rng, LENGTHS), random_batch(rng, [5, 60], extra_categories=("new", 1.5))
    binner = FeatureBinner.fit(train, window=window)
    arrays, header = binner.to_arrays()
    assert all(array.dtype.kind in "iufb" for array in arrays.values())
    again = FeatureBinner.from_arrays(arrays, json.loads(json.dumps(header, allow_nan=False)))
    assert again.layout.names == binner.layout.names
    assert_same_rows(again.transform(test), binner.transform(test))
    assert_same_rows(pickle.loads(pickle.dumps(binner)).transform(test), binner.transform(test))


def test_categories_in_model_file() -> None:
    values = ["a\0", "é\ud800", 10**30, True, 2, 0.1, float("inf"), -float("inf")]
    values += [np.str_("n"), np.int8(7), np.float32(0.3)]
    batch = make_batch([len(values)], categorical=[values])
    binner = FeatureBinner.fit(batch)
    arrays, header = binner.to_arrays()
    again = FeatureBinner.from_arrays(arrays, json.loads(json.dumps(header, allow_nan=False)))
    assert again.categories == binner.categories
    assert {type(value) for value in again.categories[0]} == {str, int, float, bool}
    assert_same_rows(again.transform(batch), binner.transform(batch))


@pytest.mark.parametrize("value", [("a", 1), date(2020, 1, 1), b"a", np.datetime64("2020-01-01")])
def test_categories_no_model_file_can_hold(value: Any) -> None:
    batch = make_batch([2], numeric=[[1.0], [2.0]], categorical=[["a", "b"], ["a", value]])
    binner = FeatureBinner.fit(batch)
    assert_array_equal(binner.transform(batch).codes[:, 1:], [[0, 0], [1, 1]])
    with pytest.raises(InputTypeError, match=rf"column 'x2' has the category .* of type {type(value).__name__}"):
        binner.to_arrays()


def test_damaged_model_files() -> None:
    arrays, header = FeatureBinner.fit(random_batch(np.random.default_rng(5), [20])).to_arrays()
    with pytest.raises(ModelFileError, match="have format 99; this version of seqboost reads format 1"):
        FeatureBinner.from_arrays(arrays, {**header, "format": 99})
    with pytest.raises(ModelFileError, match="lack 'thresholds'"):
        FeatureBinner.from_arrays({k: v for k, v in arrays.items() if k != "thresholds"}, header)
    with pytest.raises(ModelFileError, match="do not fit together"):
        FeatureBinner.from_arrays({**arrays, "thresholds": arrays["thresholds"][:-1]}, header)
    with pytest.raises(ModelFileError, match=r"holds the category \[1\]; expected a string"):
        FeatureBinner.from_arrays(arrays, {**header, "categories": [[[1]]] * 4})


def test_other_columns_are_refused() -> None:
    batch = make_batch([3], numeric=np.eye(3), categorical=[list("abc")], sparse=np.eye(3))
    binner = FeatureBinner.fit(batch)
    with pytest.raises(InputError, match="X has 2 numeric and 1 categorical columns, but .* trained with 3 and 1"):
        binner.transform(make_batch([3], numeric=np.eye(3)[:, :2], categorical=[list("abc")]))
    with pytest.raises(InputError, match="X has 2 indicator columns, but the model was trained with 3"):
        binner.transform(make_batch([3], numeric=np.eye(3), categorical=[list("abc")], sparse=np.eye(3)[:, :2]))
    with pytest.raises(ParameterError, match=r"names the column 'sparse', which X does not have"):
        FeatureBinner.fit(make_batch([3], numeric=np.eye(3)), window={"sparse": 2})


def test_bytes() -> None:
    layout = FeatureBinner.fit(make_batch([3], numeric=np.eye(3)), window=5).layout
    batch = make_batch([50, 50], numeric=np.ones((100, 3)))
    assert binned_bytes(batch, layout) == binned_bytes(100, layout, n_sequences=2)
    assert binned_bytes(100, layout, n_sequences=2, slots_per_row=2) == binned_bytes(batch, layout) + 800


def test_through_the_door() -> None:
    rng = np.random.default_rng(6)
    arrays = [rng.normal(size=(length, 3)).astype(np.float32) for length in (5, 1, 9)]
    strings = ["hello", "a", "world"]
    dicts = [[{"word": f"w{i}", "size": float(i), "upper": i % 2 == 0} for i in range(n)] for n in (4, 2)]
    tokens = [[{f"word=w{rng.integers(300)}": 1.0, "bias": 1.0} for _ in range(n)] for n in (400, 3)]
    sparse = [sp.random_array((n, 8), density=0.3, rng=rng, format="csr") for n in (6, 3)]
    for data in (arrays, strings, dicts, tokens, sparse):
        batch = as_batch(data)
        binner = FeatureBinner.fit(batch, window=1)
        assert_matches_reference(binner, batch, rng)
        again = as_batch(data[:1], schema=batch.schema)
        assert_matches_reference(binner, again, rng)


def test_policies_follow_columns_into_the_layout_and_survive_saving():
    values = [f"w{i}" for i in range(300)]
    batch = make_batch([300], numeric=np.arange(300.0)[:, None], categorical=[values, ["a", "b", "c"] * 100])
    binner = FeatureBinner.fit(batch, window={"*": 1}, missing=(1, 2, 1, 0))
    assert binner.layout.policy.tolist() == [binner.policies[0], binner.policies[2]] * 3
    assert binner.layout.sparse_policy.tolist() == [2]
    assert FeatureBinner.from_arrays(*binner.to_arrays()).layout.same_as(binner.layout)
    arrays, header = binner.to_arrays()
    arrays.pop("policies")  # a file of version 2
    assert not FeatureBinner.from_arrays(arrays, header).policies.any()
    assert not FeatureBinner.fit(batch).policies.any()
    for damaged in (np.array([3, 0, 0, 0], dtype=np.uint8), np.zeros(2, dtype=np.uint8), np.zeros(4)):
        with pytest.raises(ModelFileError, match="do not fit together"):
            FeatureBinner.from_arrays({**arrays, "policies": damaged}, header)
    for wrong in ((1, 2), (0, 0, 0, 3)):
        with pytest.raises(ParameterError, match="a policy .0, 1, 2. for each of 3 columns and one for the sparse"):
            FeatureBinner.fit(batch, missing=wrong)
