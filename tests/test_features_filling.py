"""Imputation and indicator features: the filler against its slow twin, its model file, windows and bins."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from features_batches import make_batch, random_batch

from seqboost.exceptions import InputError, ModelFileError, ParameterError
from seqboost.features import FeatureBinner, Filler, parse_missing
from seqboost.features.categories import NoValue, most_frequent
from seqboost.features.policies import DATA_POLICIES, POLICIES
from seqboost.features.reference import cell_values, expected_window_value, reference_filled, window_value
from seqboost.linear import LinearColumns

LENGTHS = (5, 1, 30, 14)


def assert_same(columns, expected):
    assert columns.keys() == expected.keys()
    for name, values in columns.items():
        for value, wanted in zip(values, expected[name], strict=True):
            if isinstance(wanted, float) and not isinstance(value, (str, NoValue)):
                assert value == pytest.approx(wanted, rel=1e-6, abs=1e-6), name
            else:
                assert value == wanted, name


@pytest.mark.parametrize("policy", [*DATA_POLICIES, "mixed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_filler_is_its_slow_twin(policy, dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        train = random_batch(rng, LENGTHS, dtype=dtype)
        other = random_batch(rng, (3, 1, 20), dtype=dtype, extra_categories=("new",))
        n = len(train.schema.columns) + 1
        policies = tuple(rng.choice(POLICIES, size=n)) if policy == "mixed" else (policy,) * n
        filler = Filler.fit(train, policies)
        if filler is None:
            assert not set(policies) & set(DATA_POLICIES)
            continue
        for batch in (train, other):
            assert_same(cell_values(filler.fill(batch)), reference_filled(train, batch, policies))


def test_nothing_to_fill_is_no_filler():
    batch = random_batch(np.random.default_rng(0), LENGTHS)
    n = len(batch.schema.columns) + 1
    for policy in ("direction", "instance_weighting", "surrogate"):
        assert Filler.fit(batch, (policy,) * n) is None


def test_filling_leaves_the_batch_alone():
    batch = random_batch(np.random.default_rng(1), LENGTHS)
    before = cell_values(batch)
    Filler.fit(batch, ("impute",) * (len(batch.schema.columns) + 1)).fill(batch)
    assert cell_values(batch) == before


def test_numbers_by_hand():
    train = make_batch([5], numeric=[[1.0], [2.0], [9.0], [np.nan], [np.nan]])
    other = make_batch([2], numeric=[[np.nan], [7.0]])
    for policy, value in {"impute": 2.0, "impute_mean": 4.0, "indicator": 2.0}.items():
        assert Filler.fit(train, (policy, "direction")).fill(other).numeric[:, 0].tolist() == [value, 7.0]


def test_huge_numbers_do_not_overflow():
    train = make_batch([4], numeric=[[1.5e308], [1.7e308], [1.6e308], [np.nan]])
    for policy in ("impute", "impute_mean"):
        assert Filler.fit(train, (policy, "direction")).numbers[0] == pytest.approx(1.6e308)


def test_most_frequent_category_does_not_depend_on_the_order_of_rows():
    table = np.array(["b", "a", "c"], dtype=object)
    assert most_frequent(np.array([0, 1, 2, 1, 0, -1, -1, -1], dtype=np.int32), table) == "a"
    assert most_frequent(np.array([-1], dtype=np.int32), table) is None


def test_a_column_without_any_value_stays_missing():
    train = make_batch([3], numeric=np.full((3, 1), np.nan), categorical=[[None] * 3])
    filled = Filler.fit(train, ("impute", "impute", "direction")).fill(train)
    assert np.isnan(filled.numeric).all()
    assert (filled.categorical == -1).all()


def test_missing_only_at_prediction_is_filled_without_a_column_that_tells():
    train = make_batch([3], numeric=[[1.0], [2.0], [3.0]], categorical=[list("aab")])
    other = make_batch([2], numeric=[[np.nan], [1.0]], categorical=[[None, "b"]])
    filler = Filler.fit(train, ("indicator", "indicator", "direction"))
    filled = filler.fill(other)
    assert len(filled.schema.columns) == 2
    assert cell_values(filled) == {"x0": [2.0, 1.0], "x1": [NoValue.MISSING, "b"]}
    assert Filler.fit(train, ("impute", "impute", "direction")).fill(other).numeric[0, 0] == 2.0


def test_absent_sparse_values_are_zeros_and_not_missing():
    sparse = np.array([[0, 1, np.nan], [0, 1, 0], [4, 1, 0], [np.nan, np.nan, np.nan]])
    train = make_batch([4], sparse=sparse)
    assert Filler.fit(train, ("impute",)).sparse_numbers.tolist() == [0.0, 1.0, 0.0]
    assert Filler.fit(train, ("impute_mean",)).sparse_numbers.tolist() == pytest.approx([4 / 3, 1.0, 0.0])
    told = cell_values(Filler.fit(train, ("indicator",)).fill(train))
    assert told["s0"] == [0, 0, 4, 0]
    assert told["s2 is missing"] == [1, 0, 0, 1]


@pytest.mark.parametrize("policy", DATA_POLICIES)
def test_windows_of_filled_columns_and_the_boundary(policy):
    rng = np.random.default_rng(3)
    batch = random_batch(rng, (7, 1, 4, 12))
    names = [column.name for column in batch.schema.columns]
    window = {names[0]: (2, 0), names[1]: [-1, 1], "*": 1, "sparse": [0, 1]}
    filler = Filler.fit(batch, (policy,) * (len(names) + 1))
    binner = FeatureBinner.fit(batch, window=window, filler=filler)
    binned, filled = binner.transform(batch), filler.fill(batch)
    layout = binner.layout
    for feature in range(layout.n_dense_features + layout.n_sparse_features):
        o_idx, s = divmod(feature - layout.n_dense_features, layout.n_sparse)
        if feature >= layout.n_dense_features and not layout.sparse_enabled[o_idx, s]:
            continue
        for row in range(batch.n_rows):
            assert window_value(binned, row, feature) == expected_window_value(binner, filled, row, feature)
    codes = binned.codes[binned.padded_row]
    for column in range(layout.n_dense):
        n_values = layout.n_values[layout.column == column][0]
        always_missing = np.isin(layout.column_names[column], [names[i] for i in (4, 5)])
        boundary = binned.codes[0, column]
        assert boundary == n_values + 1
        assert not (codes[:, column] == boundary).any()
        assert always_missing or not (codes[:, column] == n_values).any()


def test_columns_that_tell_have_the_windows_of_their_columns():
    batch = make_batch([4], numeric=[[1.0, np.nan], [np.nan, 1.0], [2.0, 2.0], [3.0, 1.0]])
    filler = Filler.fit(batch, ("indicator", "indicator", "direction"))
    binner = FeatureBinner.fit(batch, window={"x0": (1, 0), "x1": [2]}, filler=filler)
    assert sorted(binner.layout.names) == sorted(
        ["x0", "x0[-1]", "x1[+2]", "x0 is missing", "x0 is missing[-1]", "x1 is missing[+2]"]
    )


def test_bins_are_those_of_the_numbers_that_are_there():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, 1))
    values[rng.random(4000) < 0.5] = np.nan
    batch = make_batch([4000], numeric=values)
    plain = FeatureBinner.fit(batch)
    filled = FeatureBinner.fit(batch, filler=Filler.fit(batch, ("impute", "direction")))
    assert plain.thresholds.tolist() == filled.thresholds.tolist()


@pytest.mark.parametrize("policy", DATA_POLICIES)
def test_model_file(policy):
    rng = np.random.default_rng(4)
    batch = random_batch(rng, LENGTHS)
    filler = Filler.fit(batch, (policy,) * (len(batch.schema.columns) + 1))
    binner = FeatureBinner.fit(batch, window=1, filler=filler)
    arrays, header = binner.to_arrays()
    again = FeatureBinner.from_arrays(arrays, json.loads(json.dumps(header)))
    other = random_batch(rng, (3, 8), extra_categories=("new",))
    for copy in (again, pickle.loads(pickle.dumps(binner))):
        one, two = binner.transform(other), copy.transform(other)
        assert np.array_equal(one.codes, two.codes)
        assert np.array_equal(one.slot_indices, two.slot_indices)
        assert one.layout.same_as(two.layout)


def test_damaged_model_files_are_refused():
    batch = random_batch(np.random.default_rng(4), LENGTHS)
    filler = Filler.fit(batch, ("indicator",) * (len(batch.schema.columns) + 1))
    arrays, header = FeatureBinner.fit(batch, filler=filler).to_arrays()

    def load(**change):
        return FeatureBinner.from_arrays({**arrays, **change}, header)

    with pytest.raises(ModelFileError, match="'numbers' is not there, or is not one row of float64"):
        load(filling_numbers=arrays["filling_numbers"].astype(np.float32))
    with pytest.raises(ModelFileError, match="columns that there are not"):
        load(filling_flagged=np.array([99], dtype=np.int32))
    with pytest.raises(ModelFileError, match="is infinite"):
        load(filling_numbers=np.full_like(arrays["filling_numbers"], np.inf))
    with pytest.raises(ModelFileError, match="do not fit together"):
        load(filling_flagged=arrays["filling_flagged"][:-1])


def test_linear_columns_see_what_is_filled_in():
    batch = make_batch([4], numeric=[[1.0], [np.nan], [3.0], [1.0]], categorical=[["a", None, "a", "b"]])
    binner = FeatureBinner.fit(batch, filler=Filler.fit(batch, ("impute", "impute", "direction")))
    rows = LinearColumns.fit(batch, binner).transform(batch)
    assert rows.column.reshape(4, 2)[1].tolist() == rows.column.reshape(4, 2)[0].tolist()
    assert rows.value.reshape(4, 2)[1].tolist() == rows.value.reshape(4, 2)[0].tolist()


def test_other_columns_than_in_training_are_refused():
    batch = make_batch([2], numeric=[[1.0], [np.nan]])
    filler = Filler.fit(batch, ("impute", "direction"))
    with pytest.raises(InputError, match="2 numeric, 0 categorical and 0 indicator columns.*trained with 1, 0 and 0"):
        filler.fill(make_batch([1], numeric=[[1.0, 2.0]]))


def test_policies_by_column():
    assert parse_missing("impute", ["a", "b"]) == ("impute", "impute")
    assert parse_missing({("a", "c"): "impute", "*": "surrogate"}, ["a", "b", "c"]) == ("impute", "surrogate", "impute")
    assert parse_missing({"sparse": "indicator"}, ["a", "sparse"]) == ("direction", "indicator")


@pytest.mark.parametrize(
    ("missing", "match"),
    [
        ("mean", "missing='mean' is not a policy.*expected one of 'direction', 'instance_weighting'"),
        (None, "missing=None is not a policy"),
        ({"a": "mean"}, r"missing\['a'\]='mean' is not a policy"),
        ({"c": "impute"}, "missing names the column 'c', which X does not have; expected one of 'a', 'b'"),
        ({"a": "impute", ("a", "b"): "impute"}, "missing names the column 'a' twice"),
    ],
)
def test_policies_that_make_no_sense(missing, match):
    with pytest.raises(ParameterError, match=match):
        parse_missing(missing, ["a", "b"])


@pytest.mark.parametrize("policy", ["impute", "impute_mean", "indicator"])
def test_what_becomes_zero_is_absent_and_a_stored_zero_stays(policy):
    matrix = sp.csr_array(np.array([[np.nan, 5.0], [1.0, 5.0], [-1.0, 0.0], [0.0, 0.0]]))
    matrix.data[matrix.data == 5] = 0
    filled = Filler.fit(make_batch([4], sparse=matrix), [policy]).fill(make_batch([4], sparse=matrix))
    columns = filled.sparse.tocsc()
    assert columns.indices[columns.indptr[0] : columns.indptr[1]].tolist() == [1, 2]
    assert columns.indices[columns.indptr[1] : columns.indptr[2]].tolist() == [0, 1]
