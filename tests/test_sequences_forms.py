"""Every form of input, and the equivalences between them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from seqboost.exceptions import InputTypeError
from seqboost.sequences import BatchSchema, SequenceBatch, as_batch

ARRAYS = [np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[5.0, 6.0]])]


def check_same(a: SequenceBatch, b: SequenceBatch) -> None:
    """Assert that two batches hold the same data."""
    np.testing.assert_array_equal(a.offsets, b.offsets)
    np.testing.assert_array_equal(a.numeric, b.numeric)
    np.testing.assert_array_equal(a.categorical, b.categorical)
    assert [list(c) for c in a.categories] == [list(c) for c in b.categories]
    assert (a.sparse is None) == (b.sparse is None)
    if a.sparse is not None:
        np.testing.assert_array_equal(a.sparse.toarray(), b.sparse.toarray())
    assert [c.kind for c in a.schema.columns] == [c.kind for c in b.schema.columns]


def names(batch: SequenceBatch) -> list[tuple[str, str]]:
    return [(column.name, column.kind) for column in batch.schema.columns]


def test_arrays():
    batch = as_batch(ARRAYS)
    assert batch.offsets.tolist() == [0, 2, 3]
    assert batch.offsets.dtype == np.int64
    assert batch.numeric.flags.c_contiguous
    assert names(batch) == [("x0", "numeric"), ("x1", "numeric")]
    assert batch.schema.form == "arrays"
    np.testing.assert_array_equal(batch.numeric, np.concatenate(ARRAYS))
    assert batch.categorical.shape == (3, 0)
    assert batch.sparse is None
    assert repr(batch) == "SequenceBatch(2 sequences, 3 positions, 2 numeric, 0 categorical, 0 sparse)"


@pytest.mark.parametrize(
    "other",
    [
        [a.tolist() for a in ARRAYS],
        [[tuple(row) for row in a] for a in ARRAYS],
        [list(a) for a in ARRAYS],
        [ARRAYS[0], ARRAYS[1].tolist()],
        [a.astype(object) for a in ARRAYS],
        [a.astype(np.float32) for a in ARRAYS],
        tuple(ARRAYS),
        np.array([*ARRAYS, None], dtype=object)[:2],
        [np.ma.masked_invalid(a) for a in ARRAYS],
        [[[1, 2], [3, None]], [[5, 6]]],
        [[{"x0": 1, "x1": 2}, {"x0": 3}], [{"x0": 5, "x1": 6}]],
        [pd.DataFrame(a) for a in ARRAYS],
    ],
)
def test_same_numbers_in_other_forms(other):
    check_same(as_batch(other), as_batch(ARRAYS))


def test_iterators_are_materialised():
    check_same(as_batch(a for a in ARRAYS), as_batch(ARRAYS))
    check_same(as_batch([iter([1, 2]), range(3)]), as_batch([[1, 2], [0, 1, 2]]))


def test_three_dimensional_array():
    cube = np.arange(12).reshape(2, 3, 2)
    check_same(as_batch(cube), as_batch(list(cube)))


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (bool, np.float32),
        (np.int8, np.float32),
        (np.uint16, np.float32),
        (np.int32, np.float64),
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ],
)
def test_floats_are_exact_for_the_type(dtype, kept):
    assert as_batch([np.ones((2, 2), dtype=dtype)]).numeric.dtype == kept


def test_object_arrays_are_read_column_by_column():
    batch = as_batch([np.array([[1, "a"], [None, "b"]], dtype=object), np.array([[2.5, None]], dtype=object)])
    assert names(batch) == [("x0", "numeric"), ("x1", "categorical")]
    np.testing.assert_array_equal(batch.numeric[:, 0], [1, np.nan, 2.5])
    assert batch.categorical[:, 0].tolist() == [0, 1, -1]
    assert batch.categories[0].tolist() == ["a", "b"]
    check_same(batch, as_batch([[[1, "a"], [None, "b"]], [[2.5, None]]]))


def test_masked_strings_are_missing():
    batch = as_batch([np.ma.masked_array([["b", "x"], ["a", "y"]], [[0, 1], [0, 0]])])
    assert batch.categorical.tolist() == [[1, -1], [0, 0]]
    assert batch.categories[1].tolist() == ["y"]


def test_string_arrays_are_categories_in_columns():
    batch = as_batch([np.array([["b", "x"], ["a", "x"]])])
    assert batch.categorical.tolist() == [[1, 0], [0, 0]]


def test_dicts():
    X = [
        [{"word": "the", "length": 3, "upper": True, "first": True}, {"word": "cat", "upper": False, "length": None}],
        [{"word": None, "length": np.nan, "tags": ["b", "a"]}, {"tags": {"a"}, "bias": 1.0, "length": 2}],
    ]
    batch = as_batch(X)
    assert names(batch) == [("word", "categorical"), ("length", "numeric"), ("upper", "numeric")]
    assert batch.categories[0].tolist() == ["cat", "the"]
    assert batch.categorical[:, 0].tolist() == [1, 0, -1, -1]
    np.testing.assert_array_equal(batch.numeric[:, 0], [3, np.nan, np.nan, 2])
    np.testing.assert_array_equal(batch.numeric[:, 1], [1, 0, np.nan, np.nan])
    assert batch.schema.sparse_names == ("bias", "first", "tags=a", "tags=b")
    assert batch.sparse.dtype == np.float32
    np.testing.assert_array_equal(batch.sparse.toarray(), [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]])


def test_missing_indicator_is_an_explicit_nan():
    batch = as_batch([[{"on": True, "z": 0.5}, {"on": None, "z": 1}, {"z": 2}]])
    np.testing.assert_array_equal(batch.sparse.toarray()[:, 0], [1, np.nan, 0])
    assert batch.sparse.nnz == 2


def test_numpy_scalars_and_none_in_dicts():
    batch = as_batch([[{"a": np.int64(2), "b": np.str_("x"), "c": np.True_}, None, {"a": np.float32(1), "b": pd.NA}]])
    np.testing.assert_array_equal(batch.numeric[:, 0], [2, np.nan, 1])
    assert batch.categorical[:, 0].tolist() == [0, -1, -1]
    assert batch.schema.sparse_names == ("c",)


def test_lone_strings_beside_lists_are_members():
    batch = as_batch([[{"tags": "a"}, {"tags": ["a", "b", "a"]}, {"tags": []}, {"tags": None}]])
    np.testing.assert_array_equal(batch.sparse.toarray(), [[1, 0], [1, 1], [0, 0], [0, 0]])


def test_many_rare_numeric_keys_go_to_the_sparse_part():
    batch = as_batch([[{f"k{i}": i + 0.5, "all": float(i)} for i in range(300)]])
    assert names(batch) == [("all", "numeric")]
    assert batch.sparse.shape == (300, 300)
    assert batch.sparse.nnz == 300


@pytest.mark.parametrize("n_keys", [200, 300])
def test_a_zero_is_not_the_same_as_no_value(n_keys):
    X = [[{f"k{i}": v, "all": i + v} for i in range(n_keys) for v in (0.0, -2.5, 16777217.0)]]
    batch = as_batch(X)
    assert (batch.sparse is None) == (n_keys == 200)
    one = as_batch([[{"k7": 0.0}, {"k7": 1}, {}, {"k7": None}]], schema=batch.schema, allow_missing_columns=True)
    if n_keys == 200:
        np.testing.assert_array_equal(one.numeric[:, 7 + 1], [0, 1, np.nan, np.nan])
    else:
        assert batch.sparse.nnz == 900
        assert batch.sparse.max() == 16777217
        place = batch.schema.sparse_names.index("k7")
        assert one.sparse.indptr.tolist() == [0, 1, 2, 2, 3]  # a None that is written is an explicit NaN
        assert one.sparse.indices.tolist() == [place] * 3
        np.testing.assert_array_equal(one.sparse.data, [0, 1, np.nan])
        explicit = as_batch([*X, [{"k7": None, "all": 2.0}]])
        assert np.isnan(explicit.sparse[[900], [place]])
    few = as_batch([[{"k7": 0.5}, {"k7": 1}]]).schema  # many keys come only with prediction
    nan = np.nan
    np.testing.assert_array_equal(as_batch(X, schema=few).numeric[19:26, 0], [nan, nan, 0, -2.5, 16777217, nan, nan])


def test_arrays_without_dimensions_are_scalars():
    expected = as_batch([[{"a": 1.0, "b": "u"}, {"a": 2.0, "b": "v"}]])
    zero_d = [{"a": np.array(1.0), "b": np.array("u")}, {"a": np.array(2.0), "b": "v"}]
    check_same(as_batch([zero_d]), expected)
    check_same(as_batch([[(d["a"], d["b"]) for d in zero_d]]), expected)
    check_same(as_batch([[np.array(1.0), np.array(2.0)]]), as_batch([[1.0, 2.0]]))
    np.testing.assert_array_equal(as_batch([[1.5, np.ma.masked]]).numeric, [[1.5], [np.nan]])


@pytest.mark.parametrize("nan", [Decimal("NaN"), Decimal("sNaN")], ids=str)
def test_nan_of_decimals_is_missing(nan):
    half = Decimal("0.5")
    for X in ([[nan, half]], [[(nan,), (half,)]], [[{"a": nan}, {"a": half}]], [np.array([[nan], [half]])]):
        np.testing.assert_array_equal(as_batch(X).numeric, [[np.nan], [0.5]])


@pytest.mark.parametrize("kind", [list, set, frozenset])
def test_sets_of_strings(kind):
    batch = as_batch([[kind(["walk", "shop"]), kind([])], [kind(["shop"])]])
    assert batch.schema.sparse_names == ("shop", "walk")
    np.testing.assert_array_equal(batch.sparse.toarray(), [[1, 1], [0, 0], [1, 0]])
    check_same(batch, as_batch([[{"walk": True, "shop": True}, {}], [{"shop": 1}]]))


def test_training_decides_what_lists_of_strings_are():
    bags = as_batch([[["a", "b"], ["c"]]])
    assert bags.schema.sparse_names == ("a", "b", "c")
    for rows in (as_batch([[("a", "b"), ("c", "b")]]), as_batch([np.array([["a", "b"], ["c", "b"]])])):
        check_same(as_batch([[["a", "b"], ["c", "b"]]], schema=rows.schema), rows)
        assert as_batch([[["a", None], ["c", "b"]]], schema=rows.schema).categorical.tolist() == [[0, -1], [1, 0]]
    with pytest.raises(InputTypeError, match="trained with dicts, sets or lists .*sequence 0, position 1 holds None"):
        as_batch([[["a", "b"], ["c", None]]], schema=bags.schema)
    with pytest.raises(InputTypeError, match="trained with named features"):
        as_batch([[("a", "b"), ("c", "b")]], schema=bags.schema)
    mixed = as_batch([[["a", 1.5], ["c", None]]])
    assert names(mixed) == [("x0", "categorical"), ("x1", "numeric")]
    letters = as_batch(["ab"])
    check_same(as_batch([[["a"], ["b"]]], schema=letters.schema), letters)


def test_tuples_of_strings_are_rows():
    batch = as_batch([[("the", "DT"), ("cat", "NN")]])
    assert names(batch) == [("x0", "categorical"), ("x1", "categorical")]


def test_scalars():
    batch = as_batch([[1, 2.5, None], [True]])
    np.testing.assert_array_equal(batch.numeric[:, 0], [1, 2.5, np.nan, 1])
    assert batch.schema.form == "scalars"
    check_same(as_batch([np.array([1, 2]), np.array([3.0])]), as_batch([[1, 2], [3]]))
    check_same(as_batch([pd.Series([1, 2]), pl.Series([3.0])]), as_batch([[1, 2], [3]]))
    words = as_batch([["the", "cat", np.nan], ["the"]])
    assert words.categorical[:, 0].tolist() == [1, 0, -1, 1]
    assert as_batch([[("a", 1), ("b", 2)]]).schema.columns[1].kind == "numeric"
    assert as_batch([[b"x", b"y"]]).categories[0].tolist() == [b"x", b"y"]


def test_strings_are_sequences_of_characters():
    batch = as_batch(["abc", "ca"])
    assert batch.schema.form == "strings"
    assert batch.categorical[:, 0].tolist() == [0, 1, 2, 2, 0]
    check_same(batch, as_batch([list("abc"), list("ca")]))
    check_same(batch, as_batch(np.array(["abc", "ca"])))
    check_same(batch, as_batch(pd.Series(["abc", "ca"])))


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix])
def test_sparse(make):
    dense = [np.array([[0, 1.5], [0, 0]]), np.array([[2, 0]])]
    given_data = [make(d) for d in dense]
    batch = as_batch(given_data)
    np.testing.assert_array_equal(batch.sparse.toarray(), np.concatenate(dense))
    assert batch.sparse.dtype == np.float32
    assert isinstance(batch.sparse, sp.csr_array)
    exact = [make(np.array([[16777217.0, 0.1], [1e300, np.nan]]))]
    np.testing.assert_array_equal(as_batch(exact).sparse.toarray(), exact[0].toarray())
    assert batch.schema.sparse_names == ("x0", "x1")
    assert batch.schema.form == "sparse"


def test_sparse_input_is_not_changed():
    matrix = sp.csr_array((np.array([0.0, 1.0], dtype=np.float32), ([0, 0], [0, 1])), shape=(1, 2))
    assert as_batch([matrix]).sparse.nnz == 1
    assert matrix.nnz == 2


FRAME = {"id": ["b", "a", "b", "a"], "v": [1.0, 2.0, None, 4.0], "w": ["x", "y", None, "x"], "n": [1, 2, 3, 4]}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "polars-lazy"])
def test_tables(library):
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "polars-lazy": pl.LazyFrame}[library]
    batch = as_batch(make({**FRAME, "flag": [True, False, True, None]}), sequence="id")
    assert batch.offsets.tolist() == [0, 2, 4]
    assert names(batch) == [("v", "numeric"), ("w", "categorical"), ("n", "numeric"), ("flag", "numeric")]
    expected = [[1, 1, 1], [np.nan, 3, 1], [2, 2, 0], [4, 4, np.nan]]
    np.testing.assert_array_equal(batch.numeric, expected)
    assert batch.categorical[:, 0].tolist() == [0, -1, 1, 0]
    assert batch.schema.sequence == "id"
    np.testing.assert_array_equal(batch.restore(np.array([0, 2, 1, 3])), [0, 1, 2, 3])
    np.testing.assert_array_equal(batch[1:].restore(np.array([1, 3])), [1, 3])


def test_table_restores_interleaved_slices():
    batch = as_batch(pd.DataFrame({"id": [1, 2, 1, 3, 2], "v": [10, 20, 11, 30, 21]}), sequence="id")
    part = batch[[1, 0]]
    np.testing.assert_array_equal(part.numeric[:, 0], [20, 21, 10, 11])
    np.testing.assert_array_equal(part.restore(part.numeric[:, 0]), [10, 20, 11, 21])
    assert part.restore(np.zeros((4, 3))).shape == (4, 3)


def test_table_category_dtypes():
    frame = pd.DataFrame({"id": [1, 1], "c": pd.Categorical([3, 5]), "i": pd.array([1, None], dtype="Int64")})
    batch = as_batch(frame, sequence="id")
    assert names(batch) == [("c", "categorical"), ("i", "numeric")]
    assert batch.categories[0].tolist() == [3, 5]
    np.testing.assert_array_equal(batch.numeric[:, 0], [1, np.nan])
    enum = pl.DataFrame({"id": [1, 1], "c": pl.Series(["u", "v"], dtype=pl.Enum(["v", "u"]))})
    assert names(as_batch(enum, sequence="id")) == [("c", "categorical")]


@pytest.mark.parametrize("kind", [pl.Int128, pl.Int64])
def test_integers_of_any_size_in_a_table(kind):
    frame = pl.DataFrame({"id": pl.Series([1, 1, 1], dtype=kind), "v": pl.Series([3, None, 5], dtype=kind)})
    np.testing.assert_array_equal(as_batch(frame, sequence="id").numeric, [[3], [np.nan], [5]])


def test_a_column_without_values_is_the_same_in_tables_and_dicts():
    rows = [{"v": 0.5, "none": None}, {"v": 1.5, "none": None}]
    frame = pd.DataFrame(rows).astype({"none": object}).assign(id=1)
    batch = as_batch(frame, sequence="id")
    check_same(batch, as_batch([rows]))
    np.testing.assert_array_equal(as_batch(frame.assign(none=2.0), schema=batch.schema).numeric[:, 1], [2, 2])
    typed = as_batch(frame.astype({"none": "string"}), sequence="id")
    assert names(typed) == [("v", "numeric"), ("none", "categorical")]


def test_table_equals_list_of_dicts():
    rows = [{k: v[i] for k, v in FRAME.items() if k != "id"} for i in range(4)]
    check_same(as_batch([[rows[0], rows[2]], [rows[1], rows[3]]]), as_batch(pl.DataFrame(FRAME), sequence="id"))


def test_list_of_tables():
    frame = pl.DataFrame(FRAME)
    parts = [frame.filter(pl.col("id") == i).drop("id") for i in ("b", "a")]
    check_same(as_batch(parts), as_batch(frame, sequence="id"))
    assert isinstance(as_batch(parts).restore(np.zeros(4)), list)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, pd.DataFrame])
def test_flat(make):
    matrix = np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 6.0]])
    with pytest.warns(UserWarning, match=r"each row is taken as a sequence of one position.*(pass \[X\]|sequence=)"):
        batch = as_batch(make(matrix))
    assert batch.lengths.tolist() == [1, 1, 1]
    assert batch.schema.form == "flat"
    assert batch.restore(np.arange(3)).tolist() == [0, 1, 2]
    assert batch.restore(np.zeros((3, 4))).shape == (3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_same(as_batch(make(matrix), schema=batch.schema), batch)


def test_object_matrix_of_dicts_is_a_list_of_sequences():
    X = np.array([[{"a": 1.5}, {"a": 2}], [{"a": 3}, {"a": 4}]], dtype=object)
    assert as_batch(X).offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize("chosen", [[1], ["x1"], [False, True], np.array([False, True]), [-1]])
def test_categorical_features(chosen):
    X = [np.array([[1.0, 7], [2, 3]]), np.array([[3.0, np.nan]])]
    batch = as_batch(X, categorical_features=chosen)
    assert names(batch) == [("x0", "numeric"), ("x1", "categorical")]
    assert batch.schema.columns[1].forced
    assert batch.categorical[:, 0].tolist() == [1, 0, -1]
    assert batch.categories[0].tolist() == [3, 7]
    check_same(as_batch(as_batch(X), categorical_features=chosen), batch)
    check_same(as_batch([x.tolist() for x in X], categorical_features=chosen), batch)
    new = as_batch([np.array([[0.0, 9.0]])], schema=batch.schema)
    assert new.categories[0].tolist() == [9]


def test_categorical_features_of_other_forms():
    frame = pd.DataFrame({"id": [0, 0], "a": [4, 2]})
    assert as_batch(frame, sequence="id", categorical_features=["a"]).categories[0].tolist() == [2, 4]
    batch = as_batch([[{"a": 1}, {"a": "u"}]], categorical_features=["a"])
    assert set(batch.categories[0]) == {1, "u"}
    assert as_batch([[3, 1]], categorical_features=[0]).categorical.tolist() == [[1], [0]]
    assert as_batch([[3, 1]], categorical_features="from_dtype").numeric.shape == (2, 1)


def test_batch_passes_through():
    batch = as_batch(ARRAYS)
    assert as_batch(batch) is batch


def test_schema_round_trip():
    schema = as_batch([[{"a": 1.5, "b": "x", "c": True}, {"a": 2}]], categorical_features=["a"]).schema
    assert BatchSchema.from_json(schema.to_json()) == schema
    assert schema.names == ("a", "b", "c")
    assert schema.n_features == 3


def test_import_is_light():
    code = (
        "import sys, numpy as np; from seqboost.sequences import as_batch; as_batch([np.ones((2, 2))]); "
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'narwhals') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


ragged = st.lists(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(-5, 5)), st.sampled_from(["a", "b", None])), min_size=1),
    min_size=1,
    max_size=8,
)


@given(ragged)
@settings(max_examples=60, deadline=None)
def test_any_ragged_batch(X):
    dicts = [[{"n": n, "c": c} for n, c in sequence] for sequence in X]
    frame = pl.DataFrame(
        {
            "id": [i for i, sequence in enumerate(X) for _ in sequence],
            "n": pl.Series([n for sequence in X for n, _ in sequence], dtype=pl.Int64),
            "c": pl.Series([c for sequence in X for _, c in sequence], dtype=pl.String),
        }
    )
    schema = as_batch(frame, sequence="id").schema
    table = as_batch(frame, sequence="id")
    check_same(as_batch(dicts, schema=schema), table)
    assert table.lengths.tolist() == [len(sequence) for sequence in X]
    order = np.arange(len(X))[::-1]
    turned = table[order]
    check_same(turned, as_batch([dicts[i] for i in order], schema=schema))
    check_same(turned[order], table)
    for i, part in enumerate(as_batch(dicts).restore(np.arange(table.n_rows))):
        assert part.tolist() == list(range(table.offsets[i], table.offsets[i + 1]))
