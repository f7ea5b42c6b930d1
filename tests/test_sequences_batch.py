"""Slicing by sequence, and columns forced to those of training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils import _safe_indexing

from seqboost.exceptions import InputError, InputTypeError
from seqboost.sequences import BatchSchema, SequenceBatch, as_batch

X = [[{"n": i + 0.5 * t, "c": "abc"[(i + t) % 3], "on": True} for t in range(i % 4 + 1)] for i in range(10)]
Y = [[c["c"] for c in sequence] for sequence in X]


def check_equal(a: SequenceBatch, b: SequenceBatch) -> None:
    np.testing.assert_array_equal(a.offsets, b.offsets)
    np.testing.assert_array_equal(a.numeric, b.numeric)
    np.testing.assert_array_equal(a.categorical, b.categorical)
    assert [list(c) for c in a.categories] == [list(c) for c in b.categories]
    np.testing.assert_array_equal(a.sparse.toarray(), b.sparse.toarray())


@pytest.mark.parametrize(
    "key",
    [3, -1, np.int64(2), slice(2, 5), slice(None, None, -1), [4, 4, 0], np.array([1, 9]), np.arange(10) % 2 == 0],
)
def test_slices_equal_batches_of_slices(key):
    batch = as_batch(X)
    index = np.atleast_1d(np.arange(10)[key])
    expected = as_batch([X[i] for i in index])
    check_equal(batch[key], expected)
    check_equal(batch[key, ...], expected)
    assert batch[key].shape == (len(index),) == (len(batch[key]),)


def test_iteration_and_bad_keys():
    batch = as_batch(X)
    assert [part.n_rows for part in batch] == batch.lengths.tolist()
    with pytest.raises(IndexError, match="out of range"):
        batch[10]
    with pytest.raises(IndexError, match="one axis"):
        batch[1, 2]
    with pytest.raises(IndexError, match="mask of shape"):
        batch[[True, False]]
    with pytest.raises(IndexError, match="selected by number"):
        batch["a"]
    assert len(batch[[]]) == 0


def test_restore_checks_the_number_of_values():
    with pytest.raises(InputError, match="got 3 values for"):
        as_batch(X).restore([1, 2, 3])


class Counter(BaseEstimator):
    """Remembers what it was given."""

    def __init__(self, a=1):
        self.a = a

    def fit(self, X, y):
        assert isinstance(X, SequenceBatch)
        assert X.lengths.tolist() == [len(labels) for labels in y]
        return self

    def score(self, X, y):
        assert isinstance(X, SequenceBatch)
        return float(X.n_rows)


def test_scikit_learn_slices_by_sequence():
    batch = as_batch(X)
    for train, _ in KFold(3).split(batch):
        check_equal(_safe_indexing(batch, train), as_batch([X[i] for i in train]))
    scores = cross_val_score(Counter(), batch, Y, cv=KFold(5))
    assert scores.sum() == batch.n_rows
    assert GridSearchCV(Counter(), {"a": [1, 2]}, cv=3).fit(batch, Y).best_params_ == {"a": 1}


@pytest.mark.filterwarnings("ignore:X is one 2-D table")
def test_number_of_features():
    schema = as_batch([np.ones((2, 5))]).schema
    for bad in ([np.ones((2, 3))], sp.csr_array(np.ones((2, 3))), as_batch([np.ones((2, 3))])):
        with pytest.raises(InputError, match="X has 3 features, but Labeler is expecting 5 features as input"):
            as_batch(bad, schema=schema, estimator_name="Labeler")


def test_dicts_at_prediction():
    schema = as_batch(
        [[{"n": 1.5, "c": "a", "on": True, "t": ["u", "v"], "flag": True}, {"n": 2, "c": "b", "flag": False}]]
    ).schema
    first = {"new": 3, "c": "z", "on": False, "flag": True, "t": "v"}
    batch = as_batch([[first, {"on": True, "flag": True}]], schema=schema, allow_missing_columns=True)
    assert batch.schema == schema
    assert batch.schema.columns == schema.columns
    np.testing.assert_array_equal(batch.numeric, [[np.nan, 1], [np.nan, 1]])
    assert batch.categorical.tolist() == [[0], [-1]]
    assert batch.schema.sparse_names == ("on", "t=u", "t=v")
    np.testing.assert_array_equal(batch.sparse.toarray(), [[0, 0, 1], [1, 0, 0]])
    with pytest.warns(UserWarning, match="knows none of the names in X, 'new', .*trained with 'n', 'c', .* Rename"):
        nothing = as_batch([[{"new": "q"}]], schema=schema, allow_missing_columns=True)
    assert nothing.sparse.nnz == 0
    assert np.isnan(nothing.numeric).all()


def test_same_data_is_left_alone():
    batch = as_batch(X)
    check_equal(as_batch(X, schema=batch.schema), batch)
    check_equal(as_batch(batch, schema=batch.schema), batch)
    check_equal(as_batch(X[3:5], schema=batch.schema), batch[3:5])


def test_kinds_are_forced():
    schema = as_batch([[{"n": 1.5, "c": "a"}]]).schema
    with pytest.raises(InputError, match="'c' was categorical.*sequence 1, position 0 holds the number 3.0"):
        as_batch([[{"n": 2}], [{"c": 3}]], schema=schema)
    for new, where, value in (
        ([[{"n": "3"}]], "position 0", "3"),
        ([[{"n": 1}, {"n": "3"}]], "position 1", "3"),
        ([[{"n": 1}, {"n": "z"}, {"n": "a"}]], "position 1", "z"),
    ):
        with pytest.raises(InputError, match=f"'n' was numeric when .* {where} holds '{value}', a str. Pass a number"):
            as_batch(new, schema=schema)
    with pytest.raises(InputError, match="'c' was categorical.*sequence 0, position 1 holds the number 3"):
        as_batch([[{"c": "a"}, {"c": 3}]], schema=schema)
    symbols = as_batch(["ab"]).schema
    with pytest.raises(InputError, match="'x0' was categorical"):
        as_batch([[1, 2]], schema=symbols)
    with pytest.raises(InputError, match="'x0' was categorical"):
        as_batch(as_batch([[1, 2]], categorical_features=[0]), schema=symbols)
    known = as_batch([["a", "zz"]], schema=symbols)
    assert known.categories[0].tolist() == ["a", "zz"]
    assert as_batch([[None, None]], schema=symbols).categorical.tolist() == [[-1], [-1]]


def test_lists_where_training_had_single_values():
    schema = as_batch([[{"w": "a", "n": 1.5}, {"w": "b"}]]).schema
    with pytest.raises(InputError, match="'w' held a single value .* Labeler .*sequence 1, position 1 holds the member "
                       "'b'. Pass the value itself, for example {'w': 'b'}, or train with lists"):  # fmt: skip
        as_batch([[{"n": 1}], [{}, {"w": ["b"]}, {"w": "a"}]], schema=schema, estimator_name="Labeler")
    with pytest.raises(InputError, match="'n' held a single value .*sequence 0, position 0 holds the member 'x'"):
        as_batch([[{"n": {"x"}}]], schema=schema)
    with pytest.raises(InputError, match="'w' held a single value .*lists or sets there: all of them empty. Pass"):
        as_batch([[{"w": []}]], schema=schema)
    indicator = as_batch([[{"plural": True, "n": 1.5}, {"n": 2}]]).schema
    with pytest.raises(InputError, match="'plural' held a single value .*the member 'yes'. Pass True or a number, or"):
        as_batch([[{"n": 1}, {"plural": ["yes"]}]], schema=indicator)
    both = as_batch([[{"w": "a", "w=b": True}]]).schema  # an indicator whose name only looks like a member's
    assert as_batch([[{"w=b": True}]], schema=both, allow_missing_columns=True).sparse.toarray().tolist() == [[1]]
    alone = as_batch([[{"w": "a"}]]).schema
    with pytest.warns(UserWarning, match="knows none of the names in X, 'w=b'"):
        assert as_batch([[{"w=b": True}]], schema=alone, allow_missing_columns=True).categorical.tolist() == [[-1]]


@pytest.mark.parametrize("number", [3.5, 1, True, 0])
def test_numbers_where_training_had_lists(number):
    schema = as_batch([[{"t": ["x"], "n": 0.5}, {"t": ["x", "y"], "n": 1}]]).schema
    assert schema.lists == ("t",)
    for known in (schema, BatchSchema.from_json(schema.to_json())):
        for new in ([[{"n": 1}], [{"t": number}]], [[{"t": "x"}], [{"t": number}]]):
            with pytest.raises(InputError, match="key 't' held lists or sets of strings when Labeler was trained, but "
                               "sequence 1, position 0 holds a number. Pass a list of strings"):  # fmt: skip
                as_batch(new, schema=known, estimator_name="Labeler")
    words = as_batch([[{"t": "y"}, {"t": None}]], schema=schema, allow_missing_columns=True)
    assert words.sparse.toarray().tolist() == [[0, 1], [0, 0]]
    indicator = as_batch([[{"t=x": True, "n": 0.5}]]).schema
    new = as_batch([[{"t": number}]], schema=indicator, allow_missing_columns=True)
    assert new.sparse.nnz == 0  # a key that training did not have


def test_byte_strings_where_training_had_strings():
    for X, new, share in (
        ([["a", "b"]], [["a", b"b"]], "some of"),
        ([[{"w": "a"}, {"w": "b"}]], [[{}, {"w": b"b"}]], "all"),
    ):
        schema = as_batch(X).schema
        for known in (schema, BatchSchema.from_json(schema.to_json())):
            with pytest.raises(InputError, match=f"held strings as categories when .*, but now {share} its values are "
                               "byte strings: sequence 0, position 1 holds b'b'. Pass strings .decode"):  # fmt: skip
                as_batch(new, schema=known)
    with pytest.raises(InputError, match="held byte strings as categories"):
        as_batch([["a"]], schema=as_batch([[b"a", b"b"]]).schema)
    assert as_batch([[b"c"]], schema=as_batch([[b"a", "b"]]).schema).categories[0].tolist() == [b"c"]


def test_an_indicator_that_is_no_number_is_named():
    schema = as_batch([[{"w": "a", "f": True, "g": True}]]).schema
    with pytest.raises(InputError, match="Column 'g' was an indicator or a rare number when Labeler was trained, but "
                       "sequence 0, position 0 holds 'yes', a str. Pass True or a number, or leave"):  # fmt: skip
        as_batch([[{"g": "yes"}]], schema=schema, estimator_name="Labeler")


@pytest.mark.parametrize("nothing", [{}, None, set(), []], ids=str)
def test_positions_without_features_at_prediction(nothing):
    schema = as_batch([[{"n": 1.5, "c": "a", "on": True}, {"n": 2, "c": "b"}]]).schema
    batch = as_batch([[nothing], [nothing, nothing]], schema=schema, allow_missing_columns=True)
    assert batch.schema == schema
    assert batch.lengths.tolist() == [1, 2]
    assert np.isnan(batch.numeric).all()
    assert batch.numeric.shape == (3, 1)
    assert batch.categorical.tolist() == [[-1]] * 3
    assert batch.sparse.shape == (3, 1)
    assert batch.sparse.nnz == 0
    tags = as_batch([[{"u", "v"}, {"w"}]]).schema
    batch = as_batch([[nothing, None]], schema=tags)
    assert (batch.sparse.shape, batch.sparse.nnz) == ((2, 3), 0)
    assert as_batch([[{"v"}, None], [["u"]]], schema=tags).sparse.toarray().tolist() == [[0, 1, 0], [0] * 3, [1, 0, 0]]


def test_positions_without_features_elsewhere():
    table = as_batch(pd.DataFrame({"id": [1, 1], "v": [1.0, 2.0]}), sequence="id").schema
    assert np.isnan(as_batch([[{}]], schema=table, allow_missing_columns=True).numeric).all()
    for bad, error in (([[{}]], "X has no features"), ([[set()]], "0 feature"), ([[[]]], "0 feature")):
        with pytest.raises(InputError, match=error):
            as_batch(bad)
    with pytest.raises(InputTypeError, match="sequence 0, position 0 holds a set"):
        as_batch([[{1}, None]], schema=as_batch([[{"u"}]]).schema)
    with pytest.raises(InputError, match="X has no features"):
        as_batch([[{}]], schema=as_batch([np.ones((1, 2))]).schema)


def test_forced_mixed_columns_stay_allowed():
    schema = as_batch([[{"a": 1}, {"a": "u"}]], categorical_features=["a"]).schema
    batch = as_batch([[{"a": "w"}, {"a": 1.0}]], schema=schema)
    assert set(batch.categories[0]) == {1, "w"}


def test_categories_all_of_a_type_that_training_never_had():
    numbers = as_batch([[{"a": 1, "b": 0.5}, {"a": 2}]], categorical_features=["a"]).schema
    for schema in (numbers, BatchSchema.from_json(numbers.to_json())):
        for new in ([[{"a": None, "b": 1}], [{"a": "2"}]], [[{"b": 1}], [{"a": "2"}]], [[{}], [{"a": "2"}]]):
            with pytest.raises(
                InputError,
                match="Column 'a' held numbers as categories when Labeler was trained, but "
                "now all its values are strings: sequence 1, position 0 holds '2'. Pass numbers",
            ):
                as_batch(new, schema=schema, estimator_name="Labeler")
    with pytest.raises(InputError, match="now some of its values are strings: sequence 0, position 1 holds '2'"):
        as_batch([[{"a": 2.0}, {"a": "2"}]], schema=numbers)  # as it is refused alone
    assert as_batch([[{"a": None}]], schema=numbers).categorical.tolist() == [[-1]]
    assert as_batch([[{"b": 1}]], schema=numbers, allow_missing_columns=True).categorical.tolist() == [[-1]]
    strings = as_batch([[{"a": "1"}, {"a": "2"}]], categorical_features=["a"]).schema
    with pytest.raises(InputError, match="'a' held strings as categories .* sequence 0, position 1 holds 2. Pass str"):
        as_batch([[{"a": None}, {"a": 2}]], schema=strings)
    table = pd.DataFrame({"id": [1, 1], "a": pd.Categorical([1, 2])})
    with pytest.raises(InputError, match="'a' held numbers as categories"):
        as_batch(table.assign(a=pd.Categorical(["1", "2"])), schema=as_batch(table, sequence="id").schema)


def test_tables_at_prediction():
    train = pd.DataFrame({"id": [1, 1], "v": [1.0, 2.0], "w": ["x", "y"]})
    schema = as_batch(train, sequence="id").schema
    new = pl.DataFrame({"w": ["z"], "v": [3], "id": [7]}).with_columns(extra=pl.date(2020, 1, 1))
    batch = as_batch(new, schema=schema)
    assert batch.numeric.tolist() == [[3]]
    assert batch.categories[0].tolist() == ["z"]
    with pytest.raises(InputError, match=r"X lacks the column\(s\) 'v' that TreeCRF was trained with"):
        as_batch(train.drop(columns="v"), schema=schema)
    dicts = as_batch([[{"w": "y"}, {"v": 2}]], schema=schema)
    np.testing.assert_array_equal(dicts.numeric[:, 0], [np.nan, 2])


def test_arrays_and_names():
    with pytest.warns(UserWarning, match="one position"):
        named = as_batch(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})).schema
    with pytest.warns(UserWarning, match="does not have valid feature names, but TreeCRF was fitted with"):
        batch = as_batch(np.ones((1, 2)), schema=named)
    assert batch.schema.columns == named.columns
    plain = as_batch([np.ones((2, 2))]).schema
    with pytest.warns(UserWarning, match="X has feature names, but TreeCRF was fitted without feature names"):
        as_batch([pd.DataFrame({"a": [1.0], "b": [2.0]})], schema=plain)
    with pytest.raises(InputTypeError, match=r"trained with columns without names \(arrays\)"):
        as_batch([[{"a": 1}]], schema=plain)
    with pytest.raises(InputTypeError, match=r"trained with named features \(dicts\)"):
        as_batch([np.ones((2, 1))], schema=as_batch([[{"a": 2}]]).schema)


@pytest.mark.parametrize("names", [["x0", "x1"], ["x1", "x0"], ["a", "b"]])
def test_names_of_a_flat_table_count_whatever_they_are(names):
    table = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=names)
    with pytest.warns(UserWarning, match="one position"):
        schema = as_batch(table).schema
    for known in (schema, BatchSchema.from_json(schema.to_json())):
        assert known.named
        np.testing.assert_array_equal(as_batch(table[names[::-1]], schema=known).numeric, table)


def test_dense_and_sparse_matrices_exchange():
    dense, sparse = [np.array([[0.0, 2.0], [3.0, 0.0]])], [sp.csr_array([[0.0, 2.0], [3.0, 0.0]])]
    a = as_batch(sparse, schema=as_batch(dense).schema)
    np.testing.assert_array_equal(a.numeric, dense[0])
    b = as_batch(dense, schema=as_batch(sparse).schema)
    np.testing.assert_array_equal(b.sparse.toarray(), dense[0])
    assert b.sparse.nnz == 2
