"""Odd values and containers: large integers, masks, scalars of other libraries, series, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from seqboost import TreeCRF
from seqboost.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences import as_batch, as_labels, sequence_weights

LARGE = 2**53
IDS = [LARGE, LARGE + 1, LARGE + 2]


@pytest.mark.parametrize(
    "X",
    [
        [IDS],
        [[[value] for value in IDS]],
        [[(value,) for value in IDS]],
        [np.array(IDS)],
        [np.array(IDS)[:, None]],
        [np.array(IDS[:2])[:, None], np.array(IDS[2:], dtype=np.uint64)[:, None]],
        [np.array(IDS), np.array([np.nan])],
        [np.ma.array([*IDS, 5], mask=[0, 0, 0, 1])[:, None]],
        [np.array(IDS, dtype=np.uint64)[:, None]],
        [pd.DataFrame({"v": IDS})],
        [pl.DataFrame({"v": [*IDS, None]})],
        [pd.DataFrame({"v": pd.array([*IDS, None], dtype="Int64")})],
        [pa.table({"v": IDS})],
        [pd.DataFrame({"v": IDS}), pd.DataFrame({"v": [0.5]})],
        [pl.Series([*IDS, None])],
        [[{"v": value} for value in IDS]],
    ],
)
def test_large_integers_are_different_categories(X):
    batch = as_batch(X, categorical_features=[0])
    assert [value for value in batch.categories[0] if value > 1] == IDS
    again = as_batch(X, schema=batch.schema)
    assert again.categories[0].tolist() == batch.categories[0].tolist()
    assert again.categorical.tolist() == batch.categorical.tolist()


def test_a_subclass_of_a_table_is_a_table():
    class Frame(pd.DataFrame):
        pass

    frame = Frame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    batch = as_batch([frame])
    assert batch.schema.names == ("a", "b")
    np.testing.assert_array_equal(as_batch([frame[["b", "a"]]], schema=batch.schema).numeric, batch.numeric)
    with pytest.raises(InputError, match=r"The table has the column 'a' 2 times"):
        as_batch(Frame([[1, 2]], columns=["a", "a"]), sequence="a")


def test_scalars_of_pyarrow_are_their_values():
    assert as_batch([list(pa.array([1.5, None]))]).numeric[0, 0] == 1.5
    words = as_batch([list(pa.array(["u", None, "v"]))])
    assert words.categories[0].tolist() == ["u", "v"]
    assert words.categorical[:, 0].tolist() == [0, -1, 1]
    dicts = as_batch([[{"w": pa.scalar("u"), "n": pa.scalar(2)}, {"n": pa.scalar(None, pa.int64())}]])
    assert dicts.categories[0].tolist() == ["u"]
    np.testing.assert_array_equal(dicts.numeric[:, 0], [2, np.nan])


@pytest.mark.parametrize("value", [iter("ab"), (c for c in "ab"), range(2), len, lambda: 1, map(str, "a")])
def test_values_that_are_no_values(value):
    kind = type(value).__name__
    for X, name in (([[{"a": value, "b": 2.0}]], "a"), ([[1.5, value]], "x0"), ([[("u", value)]], "x1")):
        with pytest.raises(
            InputTypeError, match=f"Column '{name}' holds a {kind}; a feature argument must be a string"
        ):
            as_batch(X)


def test_masked_arrays_without_dimensions_are_missing():
    hidden = np.ma.array(5.0, mask=True)
    for X in ([[hidden, np.ma.array(2.0)]], [[{"a": hidden}, {"a": 2.0}]], [[(hidden,), (2.0,)]]):
        np.testing.assert_array_equal(as_batch(X).numeric, [[np.nan], [2]])


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_times_in_masked_arrays_and_without_dimensions(unit):
    times = np.array(["2020-01-01", "2021-01-01"], dtype=f"M8[{unit}]")
    masked = np.ma.array(times, mask=[False, True])
    for X, where in (([masked], r"X\[0\]"), ([masked[:, None]], r"X\[0\]"), (masked[:, None], "X")):
        with pytest.raises(InputTypeError, match=rf"{where} has dtype datetime64\[{unit}\]: dates and times"):
            as_batch(X)
    for X in ([[np.array(times[0])]], [[{"a": np.array(times[0])}]], [[(np.array(times[0]), 1.0)]]):
        with pytest.raises(InputTypeError, match="holds a date or time"):
            as_batch(X)


def test_masked_records():
    with pytest.raises(InputTypeError, match=r"X\[0\] has dtype .*, which is not understood"):
        as_batch([np.ma.array([(1, 2.0)], dtype="i4,f4")])


def test_tables_with_more_columns_than_the_first():
    few, many = pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [1.0], "b": [5.0]})
    with pytest.raises(
        InputError, match=r"X\[1\] has the column\(s\) \['b'\], which X\[0\] lacks; .* Add them to X\[0\]"
    ):
        as_batch([few, many])
    assert as_batch([few, many], schema=as_batch([few]).schema).numeric[:, 0].tolist() == [1, 2, 1]
    dicts = as_batch([[{"a": 1.5, "b": 2}, {"a": 2, "b": 3}]]).schema
    with pytest.raises(InputError, match=r"X\[1\] has the column\(s\) \['b'\], which X\[0\] lacks"):
        as_batch([few, many], schema=dicts)


def test_iterators_of_categorical_features():
    for chosen in (iter(["x0"]), (name for name in ["x0"]), map(str, ["x0"])):
        with pytest.raises(ParameterError, match="categorical_features is an iterator .*, which can be read only once"):
            as_batch([np.ones((2, 2))], categorical_features=chosen)


def test_a_number_that_names_a_column_is_its_name():
    frame = pd.DataFrame([[7, 1, 2], [7, 3, 2]], columns=[0, 1, 2])
    batch = as_batch(frame, sequence=0, categorical_features=[1])
    assert [(column.name, column.kind) for column in batch.schema.columns] == [("1", "categorical"), ("2", "numeric")]
    batch = as_batch([[{5: 1, 0: 3}, {5: 2, 0: 4}]], categorical_features=[0])
    assert [(column.name, column.kind) for column in batch.schema.columns] == [("5", "numeric"), ("0", "categorical")]
    batch = as_batch(frame.rename(columns=str), sequence="0", categorical_features=[1])  # strings: counted
    assert [column.kind for column in batch.schema.columns] == ["numeric", "categorical"]


@pytest.mark.parametrize("series", [pd.Series, pl.Series, pa.array])
def test_series_of_lists_and_of_records(series):
    bags = [["a", "b"], ["b"]]
    assert as_batch([series(bags)]).schema == as_batch([bags]).schema
    assert as_batch(series([bags, bags])).schema == as_batch([bags]).schema  # a series of sequences
    for records in ([{"u": 1.5, "v": 2}, {"u": 2.5, "v": 3}], [{"u": 1.5, "v": "x"}, {"u": 2.5, "v": "y"}]):
        batch, wanted = as_batch([series(records)]), as_batch([records])
        assert batch.schema == wanted.schema
        np.testing.assert_array_equal(batch.numeric, wanted.numeric)


def test_series_of_wide_integers_and_of_categories():
    wide = as_batch([pl.Series([3, None, 5], dtype=pl.Int128)])
    np.testing.assert_array_equal(wide.numeric, [[3], [np.nan], [5]])
    batch = as_batch([pd.Series(pd.Categorical([3, 5, None]))])
    assert batch.categories[0].tolist() == [3, 5]
    assert batch.categorical[:, 0].tolist() == [0, 1, -1]
    assert as_batch([pd.Series(pd.Categorical([5, 3]))], schema=batch.schema).categorical[:, 0].tolist() == [1, 0]
    assert not as_batch([pd.Series(pd.Categorical(["u", "v"]))]).schema.columns[0].forced


@dataclass
class Unhashable:
    value: int = 1


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ([[("a", "b"), None]], "position 1 holds a NoneType, which is no row; write a row of None"),
        ([[{"a"}, None]], "position 1 holds a NoneType, which is no row; write a row of None .or an empty set"),
        ([[{"a"}, {"b", 3}]], "position 1 holds a set, with 3 in it, which is no string"),
        ([[{"a"}, ["b", 3]]], "position 1 holds a list, with 3 in it, which is no string"),
        ([[None, Unhashable()]], "position 1 holds a Unhashable, which is not understood"),
        ([["a", None, {"b"}]], "position 2 holds a set, and sequence 0, position 0 a str"),
    ],
)
def test_the_element_at_fault_is_named(X, match):
    with pytest.raises(InputTypeError, match=f"all be of one kind .*, but sequence 0, {match}"):
        as_batch(X)


@pytest.mark.parametrize(
    "X",
    [
        [[("a", 1.0), (("b", [1]), 2.0)]],
        [np.array([["a", 1.0], [("b", [1]), 1.0]], dtype=object)],
        [[("a",), (("b", [1]),)]],
    ],
)
def test_tuples_that_hold_lists_are_no_categories(X):
    with pytest.raises(InputTypeError, match=r"'x0' holds \('b', \[1\]\) \(sequence 0, position 1\), .* not hashable"):
        as_batch(X)


def test_a_sequence_column_of_tuples_that_hold_lists():
    frame = pd.DataFrame({"t": ["a", ("b", [2])], "v": [1, 2]})
    with pytest.raises(InputTypeError, match="sequence column 't' holds a tuple in row 1 of the table"):
        as_batch(frame, sequence="t")


def test_names_are_strings_of_python():
    batch = as_batch([[list(np.array(["b", "a"]))]])
    assert [type(name) for name in batch.schema.names] == [str, str]


@pytest.mark.parametrize(
    ("member", "advice"),
    [(None, "Leave missing members out"), (b"x", "Decode byte strings"), (3, "Give each number a key of its own"),
     (("y",), "Turn it into a string")],
)  # fmt: skip
def test_members_that_are_no_strings(member, advice):
    with pytest.raises(InputTypeError, match=f"'a' at sequence 0, position 1 is a list that holds .*{advice}"):
        as_batch([[{"a": ["x"]}, {"a": ["x", member]}]])


def test_complex_ones_are_no_indicators():
    with pytest.raises(InputTypeError, match="Complex data not supported"):
        as_batch([[{"a": 1 + 0j}]])


class Miscounting(list):
    """A list that counts its members in a way of its own."""

    def __len__(self):
        return 3


class Failing:
    """An object that looks like a list of sequences."""

    def __iter__(self):
        raise NotImplementedError("no members today")


def test_lists_with_a_length_of_their_own_are_read_as_they_are_iterated():
    rows = [Miscounting([1.0, 2.0]), Miscounting([3.0, 4.0])]
    np.testing.assert_array_equal(as_batch([rows]).numeric, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(as_batch([Miscounting([1.0, 2.0])]).numeric, [[1], [2]])
    assert as_batch([[Miscounting("ab")], [Miscounting("b")]]).schema.sparse_names == ("a", "b")
    assert as_labels([Miscounting("ab"), "c"], as_batch(["uv", "w"])) == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("X", "name"),
    [(Failing(), "X"), ([[1.0], Failing()], r"X\[1\]"), (map(len, [3]), "X")],
)
def test_what_cannot_be_iterated_is_refused(X, name):
    with pytest.raises(InputTypeError, match=f"{name} is a .* whose members cannot be read: .* Pass a list instead"):
        as_batch(X)


@pytest.mark.parametrize("y", [Failing(), ["ab", Failing()], pd.NA])
def test_labels_that_cannot_be_iterated_are_refused(y):
    with pytest.raises(InputTypeError, match=r"y(\[1\])? is a "):
        as_labels(y, as_batch(["uv", "w"]))


@pytest.mark.parametrize("name", [len, int, iter("ab"), range(2), np.True_])
def test_names_of_columns_that_pandas_calls_or_unpacks(name):
    with pytest.raises(InputTypeError, match="has a column named .* expected strings as names"):
        as_batch(pd.DataFrame([[1, 2]], columns=["a", name]), sequence="a")


def test_equal_names_of_different_types():
    with pytest.raises(InputTypeError, match="not understood: Expected unique column names"):
        as_batch([pd.DataFrame([[1, 2]], columns=[True, 1])])


@pytest.mark.parametrize("sequence", [np.zeros(2), ("a",), Decimal("sNaN"), np.void(b"a"), True, np.True_])
def test_names_of_sequence_columns_that_are_none(sequence):
    with pytest.raises(InputError, match="names no column of the table"):
        as_batch(pd.DataFrame({"a": [1], 1: [2]}), sequence=sequence)


def test_masked_matrices_and_categories_that_do_not_compare():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    masked = np.ma.array(matrix, mask=[[True, False], [False, False]])
    batch = as_batch([masked], categorical_features=[1])
    np.testing.assert_array_equal(batch.numeric, [[np.nan], [3.0]])
    assert batch.categories[0].tolist() == [2, 4]
    strange = pd.DataFrame({"a": [1, 2]}).groupby("a")  # NumPy makes arrays of it to compare it with numbers
    with pytest.raises(InputError, match="mixes numbers and other values"):
        as_batch([[np.float64(1.0), strange]])


@pytest.mark.parametrize("chosen", [np.timedelta64(0), [np.timedelta64(0)], np.array(7), np.array("z")])
def test_categorical_features_that_are_none(chosen):
    with pytest.raises(ParameterError, match="categorical_features"):
        as_batch([[[1.0, 2.0]]], categorical_features=chosen)


def test_a_weight_beyond_floats_is_refused():
    with pytest.raises(InputError, match=r"sample_weight\[0\] is inf"):
        sequence_weights(np.array([np.longdouble("1e4000"), 1]), as_batch(["u", "v"]))


def test_single_values_among_matrices_and_tables_without_columns():
    with pytest.raises(InputTypeError, match="X mixes kinds of sequences"):
        as_batch([np.zeros((2, 1)), [np.array(1.0), np.array(2.0)]])
    with pytest.raises(InputError, match="y is a table without columns"):
        as_labels(pa.table({}), as_batch(["u"]))
    with pytest.raises(InputTypeError, match="Column 'x0' holds a list"):
        as_batch([np.zeros((2, 1)), [[[1.0, 2.0]], [[3.0, 4.0]]]])


def test_fractions_beside_numpys_integers_are_sorted():
    values = [Fraction(3, 7), np.int64(2**62), Fraction(1, 2**40)]
    assert as_batch([values], categorical_features=[0]).n_rows == 3


def test_labels_and_indexes_that_cannot_be_hashed():
    with pytest.raises(InputTypeError, match="a memoryview, among the labels of sequence 0"):
        as_labels([[memoryview(bytearray(b"a"))]])
    table = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index([{}, {}], dtype=object))
    assert as_batch([table]).n_rows == 2


def test_integers_beyond_floats_where_training_had_numbers():
    model = TreeCRF(max_iter=1, window=0, early_stopping=False).fit([[1.0, 2.0, 3.0]] * 4, [[0, 1, 0]] * 4)
    with pytest.raises(InputError, match="too large for a float, at sequence 0, position 1"):
        model.predict([[1, 10**400, 3]])
    with pytest.raises(InputError, match="too large for a float, at sequence 0, position 1"):
        as_batch([[Decimal(2), 10**400]], schema=model._schema)


def test_a_mask_of_another_shape_than_its_array():
    array = np.ma.masked_array(np.zeros((4, 3)), mask=np.eye(4, 3))
    array._mask = array._mask[..., None]
    with pytest.raises(InputError, match=r"of shape \(4, 3\) whose mask has shape \(4, 3, 1\)"):
        as_batch([array])
