"""Bad input: one message each, with the place at fault."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from seqboost.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences import as_batch


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ("abc", InputTypeError, r"X is a single string.*pass \[X\]"),
        ({"a": 1}, InputTypeError, r"X is a dict.*pass \[\[X\]\]"),
        (3, InputTypeError, r"X is 3, a int"),
        (None, InputTypeError, r"X is None"),
        ({1, 2}, InputTypeError, r"has no order"),
        (object(), InputTypeError, r"X is a object. Expected a list of sequences"),
        (np.array(3.0), InputTypeError, r"X is a single value"),
        (np.arange(3.0), InputError, r"Reshape your data"),
        ([1, 2, 3], InputError, r"Reshape your data"),
        (np.zeros((1, 1, 1, 1)), InputError, r"X has 4 dimensions"),
        ([np.zeros((2, 2, 2))], InputError, r"X\[0\] has 3 dimensions"),
        ([], InputError, r"Found array with 0 sample\(s\).*no sequences"),
        (np.empty((0, 3)), InputError, r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"),
        ([np.empty((2, 0))], InputError, r"0 feature\(s\) \(shape=\(2, 0\)\) while a minimum of 1 is required"),
        ([[{}, {}]], InputError, r"0 feature\(s\) \(shape=\(2, 0\)\) while a minimum of 1 is required"),
        ([np.ones((1, 2)), np.empty((0, 2))], InputError, r"X\[1\] is an empty sequence"),
        ([["a"], []], InputError, r"X\[1\] is an empty sequence"),
        ([np.ones((1, 2)), []], InputError, r"X\[1\] is an empty sequence"),
        (["a", ""], InputError, r"X\[1\] is an empty sequence"),
        ([np.ones((1, 2)), np.ones((1, 3))], InputError, r"X\[1\] has 3 features but X\[0\] has 2"),
        ([sp.csr_array((1, 2)), sp.csr_array((1, 3))], InputError, r"X\[1\] has 3 features but X\[0\] has 2"),
        ([[[1, 2], [3]]], InputError, r"sequence 0, position 1 has 1 features but sequence 0, position 0 has 2"),
        ([np.ones((1, 2)), [[1, 2], [3]]], InputError, r"positions of X\[1\]"),
        ([np.ones((1, 2)), [{"a": 1}]], InputTypeError, r"X\[0\] is a 2-D array but X\[1\] is a list of elements"),
        (["ab", ["a"]], InputTypeError, r"X\[0\] is a string but X\[1\] is a list of elements"),
        ([{"a": 1}], InputTypeError, r"X\[0\] is a dict, not a sequence"),
        ([object()], InputTypeError, r"X\[0\] is a object, which is not understood"),
        ([[{"a": 2}, 3]], InputTypeError, r"one kind.*sequence 0, position 1 holds a int"),
        ([[1.0, "a"]], InputError, r"'x0' mixes numbers and other values: sequence 0, position 0 holds the number 1 a"),
        ([[{"a": "u"}, {"a": 3}]], InputError, r"'a' mixes numbers.*sequence 0, position 1.*categorical_features"),
        ([[{"a": {"b": 1}}]], InputTypeError, r"'a' at sequence 0, position 0 is itself a dict"),
        ([[{"a": [1, 2]}]], InputTypeError, r"'a' at sequence 0, position 0 is a list that holds 1"),
        ([[{"a": 1}, {"a": ["x"]}]], InputTypeError,
         r"key 'a' holds lists.*: sequence 0, position 1 holds a list, sequence 0, position 0 holds 1\. Give it lists"),
        ([[{"a": 0.5, 1: 2.0}], [{"1": 3.0, 1: 2.0}]], InputError,
         r"features have the name '1': the key 1 at sequence 0, position 0 and the key '1' at sequence 1, position 0"),
        ([[{"a": ["c"]}, {"a": ["b"], "a=b": 7.0}]], InputError,
         r"have the name 'a=b': the key 'a=b' at sequence 0, position 1 and the key 'a' at sequence 0, position 1"),
        ([[{"a": {"b"}, "a=b": True}]], InputError, r"Two features have the name 'a=b'.*Rename one of the keys"),
        ([[{"a": ["b=c"], "a=b": ["c"]}]], InputError, r"have the name 'a=b=c': the key 'a' at .* the key 'a=b' at"),
        ([np.array([[1], [np.longdouble("1e4000")]])], InputError, r"infinity .* too large for a float: .* position 1"),
        ([[1, np.longdouble("1e4000")]], InputError, r"infinity \(inf\) or a number too large.* position 1, column"),
        ([b"abab"], InputTypeError, r"X\[0\] is b'abab', a bytes, which is not read .*Pass X\[0\].decode\(\)"),
        ([bytearray(b"ab")], InputTypeError, r"X\[0\] is .*, a bytearray, which is not read as a sequence"),
        ([[["a", "b"], ["b", None]]], InputTypeError,
         r"position 0 holds \['a', 'b'\], sequence 0, position 1 a list with None. Pass tuples .* or dicts"),
        ([[["a", 1]], [["b", "c"]]], InputTypeError,
         r"sequence 1, position 0 holds \['b', 'c'\], sequence 0, position 0 a list with 1. Pass tuples"),
        ([[(1, np.longdouble("1e4000"))]], InputError, r"infinity \(inf\) or a number too large.* column 'x1'"),
        ([sp.coo_array(np.array([1.0, 0, 2]))], InputError,
         r"X\[0\] is a sparse array with 1 dimension\(s\), of shape \(3,\).*Pass X\[0\].reshape\(-1, 1\)"),
        (sp.coo_array(np.array([1.0, 0, 2])), InputError, r"X is a sparse array with 1 dimension"),
        ([[(1, [2])]], InputTypeError, r"Column 'x1' holds a list; a feature argument must be a string or a number"),
        ([np.ones((1, 1)) * 1j], InputTypeError, r"Complex data not supported: X\[0\]"),
        ([sp.csr_array(np.ones((1, 1)) * 1j)], InputTypeError, r"Complex data not supported"),
        ([[1j]], InputTypeError, r"Complex data not supported"),
        (np.ones((2, 2)) * 1j, InputError, r"Complex data not supported: X has dtype complex128"),
        ([np.array(["2020-01-01"], dtype="M8[D]")], InputTypeError, r"X\[0\] has dtype datetime64\[D\]: dates"),
        ([[datetime.date(2020, 1, 1)]], InputTypeError, r"'x0' holds a date or time.*sequence 0, position 0"),
        ([np.zeros((1, 1), dtype="V4")], InputTypeError, r"dtype \|V4, which is not understood"),
        ([np.ones((2, 2)), np.array([[1, 2], [3, np.inf]])], InputError, r"inf.*sequence 1, position 1, column 'x1'"),
        ([[{"a": 2.0}], [{"a": -np.inf}]], InputError, r"infinity.*sequence 1, position 0, column 'a'"),
        ([sp.csr_array([[0, 1.0], [0, np.inf]])], InputError, r"infinity.*sequence 0, position 1, column 'x1'"),
        ([[1, 2], [3, -(10**400)]], InputError, r"'x0'.*too large for a float, at sequence 1, position 1"),
        ([[[1, 2], [3, 10**400]]], InputError, r"'x1'.*too large for a float, at sequence 0, position 1"),
        ([np.array([[1], [10**400]])], InputError, r"'x0'.*too large for a float, at sequence 0, position 1"),
        ([[{"a": 2.5}, {"a": 10**400}]], InputError, r"'a'.*too large for a float, at sequence 0, position 1"),
    ],
)  # fmt: skip
def test_refused(X, error, match):
    with pytest.raises(error, match=match):
        as_batch(X)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil"])
@pytest.mark.parametrize("suffix", ["array", "matrix"])
def test_sparse_matrices_whose_indices_lead_astray(kind, suffix):
    matrix = getattr(sp, f"{kind}_{suffix}")(np.eye(4))
    if kind == "coo":
        matrix.row[0] = 99
    elif kind == "lil":
        matrix.rows[0] = [99]
    else:
        matrix.indices[0] = 99
    with pytest.raises(InputError, match=r"X\[1\] is a damaged sparse matrix of shape \(4, 4\).*build it again"):
        as_batch([sp.csr_array(np.eye(4)), matrix])
    with pytest.raises(InputError, match="X is a damaged sparse matrix"):
        as_batch(matrix)


def test_flat_places_are_rows():
    with pytest.raises(InputError, match="infinity.*row 1, column 'x0'"):
        as_batch(np.array([[1.0], [np.inf]]))
    X = np.array([[1.0, {"foo": "bar"}]], dtype=object)
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        as_batch(X)


def test_table_errors():
    frame = pd.DataFrame({"id": [1, 1], "v": [1.0, 2.0], "when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(InputTypeError, match="Column 'when' holds dates or times"):
        as_batch(frame, sequence="id")
    with pytest.raises(InputError, match="sequence='seq' names no column"):
        as_batch(frame, sequence="seq")
    with pytest.raises(InputError, match=r"0 sample\(s\).*the table is empty"):
        as_batch(frame[:0], sequence="id")
    with pytest.raises(InputError, match="'id' is missing in row 1"):
        as_batch(pl.DataFrame({"id": [1, None], "v": [1, 2]}), sequence="id")
    with pytest.raises(InputError, match=r"infinity.*sequence 0, position 1 \(row 2 of the table\), column 'v'"):
        as_batch(pl.DataFrame({"id": [1, 2, 1], "v": [1.0, 2.0, np.inf]}), sequence="id")
    with pytest.raises(InputTypeError, match="'v' has the nested type"):
        as_batch(pl.DataFrame({"id": [1], "v": [[1, 2]]}), sequence="id")
    for make in (pd.DataFrame, pl.DataFrame):
        with pytest.raises(InputTypeError, match="sequence column 'id' holds a list in row 0 of the table"):
            as_batch(make({"id": [[1], [2]], "v": [1.0, 2.0]}), sequence="id")
    with pytest.raises(InputTypeError, match="names a column of a table, but X is a list"):
        as_batch([[1]], sequence="id")
    with pytest.raises(InputError, match=r"X\[1\] lacks the column\(s\) \['v'\]"):
        as_batch([pl.DataFrame({"v": [1]}), pl.DataFrame({"u": [1]})])


@pytest.mark.parametrize("names", [["id", "v", "v"], ["id", "1", 1], ["id", "id", "v"]])
def test_a_name_twice(names):
    frame = pd.DataFrame(np.ones((2, 3)), columns=names)
    match = rf"has the column '{max(map(str, names), key=list(map(str, names)).count)}' 2 times"
    with pytest.raises(InputError, match=f"The table {match}"):
        as_batch(frame, sequence="id")
    with pytest.raises(InputError, match=rf"X\[1\] {match}"):
        as_batch([frame.iloc[:, :1], frame])
    if all(isinstance(name, str) for name in names):
        with pytest.raises(InputError, match=f"The table {match}"):
            as_batch(pa.table(list(np.ones((3, 2))), names=names), sequence="id")


def test_a_number_beyond_all_floats_may_be_a_category():
    assert as_batch([[10**400, 2]], categorical_features=[0]).categories[0].tolist() == [2, 10**400]
    assert as_batch([[[10**400, 1.0], [2, 1.5]]], categorical_features=[0]).categories[0].tolist() == [2, 10**400]


@pytest.mark.parametrize("chosen", [object(), 1.5])
def test_categorical_features_that_are_no_list(chosen):
    with pytest.raises(ParameterError, match="categorical_features is .*; expected None, a list of names or indices"):
        as_batch([np.ones((2, 2))], categorical_features=chosen)


@pytest.mark.parametrize("chosen", [["nope"], [5], [1.5]])
def test_unknown_categorical_features(chosen):
    with pytest.raises(ParameterError, match="no such column"):
        as_batch([np.ones((2, 2))], categorical_features=chosen)


def test_categorical_features_mask_and_sparse():
    with pytest.raises(ParameterError, match="mask of 3 entries but X has 2"):
        as_batch([np.ones((2, 2))], categorical_features=[True, False, True])
    with pytest.raises(ParameterError, match="cannot be used with bags of attributes .*; pass tuples"):
        as_batch([[["a", "b"], ["b", "a"]]], categorical_features=[0, 1])
    with pytest.raises(ParameterError, match="cannot be used with sparse"):
        as_batch([sp.csr_array(np.ones((2, 2)))], categorical_features=[0])
