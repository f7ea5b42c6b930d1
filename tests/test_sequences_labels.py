"""Labels, weights and chunk schemes."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.class_weight import compute_class_weight

from seqboost.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences import LabelCoder, allowed_transitions, as_batch, as_labels, class_weights, sequence_weights
from seqboost.sequences.schemes import SCHEMES

BATCH = as_batch(["abc", "de"])
TIMES = np.arange(5).astype("datetime64[D]").astype("datetime64[ns]")


def flat_batch(n: int):
    with pytest.warns(UserWarning, match="one position"):
        return as_batch(np.zeros((n, 1)))


@pytest.mark.parametrize(
    ("y", "classes", "kind", "codes"),
    [
        (["BIO", "OO"], ["B", "I", "O"], "U", [0, 1, 2, 2, 2]),
        ([["x", "y", None], ["y", np.nan]], ["x", "y"], "U", [0, 1, -1, 1, -1]),
        ([[3, 1, 2], (2, 1)], [1, 2, 3], "i", [2, 0, 1, 1, 0]),
        ([np.array([3, 1, 2]), np.array([2, 1])], [1, 2, 3], "i", [2, 0, 1, 1, 0]),
        ([np.array([3, 1, np.nan]), [2, 1]], [1, 2, 3], "f", [2, 0, -1, 1, 0]),
        ([np.array([0.0, 1, np.nan]), np.array([0.0, 1])], [0, 1], "f", [0, 1, -1, 0, 1]),
        ([[True, False, True], [None, False]], [False, True], "b", [1, 0, 1, -1, 0]),
        ([[1, 2.0, 1], [1, 1]], [1, 2], "f", [0, 1, 0, 0, 0]),
        ([["b", 1, "a"], [1, 1]], ["b", 1, "a"], "O", [0, 1, 2, 1, 1]),
        ([[(2, "a"), (1, "b"), None], [(1, "b")] * 2], [(1, "b"), (2, "a")], "O", [1, 0, -1, 0, 0]),
        ([pd.Series(["u", "v", pd.NA]), pl.Series(["u", None])], ["u", "v"], "U", [0, 1, -1, 0, -1]),
        (iter([["u", "v", "v"], iter("uu")]), ["u", "v"], "U", [0, 1, 1, 0, 0]),
    ],
)
def test_fit(y, classes, kind, codes):
    coder = LabelCoder()
    got = coder.fit(y, BATCH)
    assert got.dtype == np.int32
    assert got.tolist() == codes
    assert coder.classes_.tolist() == classes
    assert coder.classes_.dtype.kind == kind


def masked(values, hidden):
    return np.ma.masked_array(values, np.isin(np.arange(len(values)), hidden))


@pytest.mark.parametrize("kind", [np.int64, np.float64, str, object])
def test_masked_labels_are_unobserved(kind):
    values = np.array([1, 2, 99, 2, 1]).astype(kind)
    classes = np.unique(values[:2]).tolist()
    coder = LabelCoder()
    assert coder.fit([masked(values[:3], 2), masked(values[3:], [])], BATCH).tolist() == [0, 1, -1, 1, 0]
    assert coder.classes_.tolist() == classes
    assert type(coder.classes_.tolist()[0]) is type(classes[0])
    batch = as_batch(pd.DataFrame({"id": [1, 2, 1, 2, 1], "v": range(5)}), sequence="id")
    assert coder.fit(masked(values, 2), batch).tolist() == [0, -1, 0, 1, 1]
    assert coder.classes_.tolist() == classes


def test_masked_labels_of_a_matrix_and_in_a_list():
    coder = LabelCoder()
    matrix = np.ma.masked_equal([[1, 99], [2, 1]], 99)
    assert coder.fit(matrix, as_batch(["ab", "cd"])).tolist() == [0, -1, 1, 0]
    assert coder.fit([list(matrix[0]), [2, 1]], as_batch(["ab", "cd"])).tolist() == [0, -1, 1, 0]
    assert coder.classes_.tolist() == [1, 2]
    assert coder.fit([3, np.ma.masked, np.array(4)], flat_batch(3)).tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([3, None, 5], dtype="Int64"),
        pl.Series([3, None, 5]),
        pl.Series([3, None, 5], dtype=pl.Int128),
        pa.chunked_array([[3, None], [5]]),
    ],
    ids=["pandas", "polars", "Int128", "pyarrow"],
)
def test_integers_with_gaps_stay_integers(series):
    batch = as_batch(pd.DataFrame({"id": [1, 1, 1], "v": range(3)}), sequence="id")
    coder = LabelCoder()
    for y, of in (([series, [5, 3]], BATCH), (series, batch), (series, flat_batch(3))):
        assert coder.fit(y, of).tolist()[:3] == [0, -1, 1]
        assert coder.classes_.dtype.kind == "i"
    frame = pa.table({"y": series}) if isinstance(series, pa.ChunkedArray) else series.to_frame()
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert coder.fit(frame, batch).tolist() == [0, -1, 1]
    assert coder.classes_.dtype.kind == "i"


def test_truth_values_with_gaps_and_floats_stay_what_they_are():
    coder = LabelCoder()
    coder.fit([pd.Series([True, None, False], dtype="boolean"), [True, False]], BATCH)
    assert coder.classes_.dtype == bool
    coder.fit([pd.Series([1.0, None, 2.0]), np.array([1.0, 2.0])], BATCH)
    assert coder.classes_.dtype == float


@pytest.mark.parametrize("nan", ["NaN", "sNaN"])
def test_decimal_nan_is_unobserved(nan):
    coder = LabelCoder()
    assert coder.fit([[Decimal(nan), Decimal(1), Decimal(2)], [Decimal(2)] * 2], BATCH).tolist() == [-1, 0, 1, 1, 1]


def test_encode_and_decode():
    coder = LabelCoder()
    codes = coder.fit(["BIO", "OO"], BATCH)
    assert coder.decode(codes).tolist() == list("BIOOO")
    assert coder.decode([0, -1]).tolist() == ["B", None]
    assert coder.encode([["O", None, "B"], "II"], BATCH).tolist() == [2, -1, 0, 1, 1]
    with pytest.raises(InputError, match="label 'Z' at sequence 1, position 0, which was not seen in training"):
        coder.encode(["BIO", "ZO"], BATCH)
    assert coder.encode(["BIO", "ZO"], BATCH, unknown="ignore").tolist() == [0, 1, 2, -1, 2]
    assert coder.encode(["BIO", "ZO"], BATCH, unknown="mark").tolist() == [0, 1, 2, -2, 2]
    with pytest.raises(ParameterError, match="unknown must be"):
        coder.encode(["BIO", "ZO"], BATCH, unknown="x")
    again = LabelCoder.from_classes(coder.classes_)
    assert again.encode(["BIO", "OO"], BATCH).tolist() == codes.tolist()
    assert LabelCoder.from_classes(["a", "b"]).decode([1]).tolist() == ["b"]


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        (None, InputError, "requires y to be passed, but the target y is None"),
        (["BIO"], InputError, "y has 1 label sequences but X has 2"),
        (list("BIOOO"), InputError, "y has 5 label sequences but X has 2 sequences. Split it"),
        (["BIO", "OOO"], InputError, r"y\[1\] has 3 labels but X\[1\] has 2 positions \(a string"),
        ([[1, 2], [1, 2]], InputError, r"y\[0\] has 2 labels but X\[0\] has 3 positions"),
        ([[None] * 3, [np.nan] * 2], InputError, "no observed label"),
        ([np.full(3, np.nan), np.full(2, np.nan)], InputError, "no observed label"),
        ([1, 2], InputTypeError, r"y\[0\] is 1, a int; expected a sequence of 3 labels"),
        ([{"a": 1}, [1, 2]], InputTypeError, r"y\[0\] is .* a dict"),
        ([[1, [2], 3], [1, 2]], InputTypeError, r"label at sequence 0, position 1 is \[2\], a list"),
        ([np.zeros((3, 2)), [1, 2]], InputError, r"y\[0\] has shape \(3, 2\)"),
        ("BIOOO", InputTypeError, "y is a str"),
        (3, InputTypeError, "y is a int"),
        (np.array(3), InputTypeError, "y is a single value"),
        ([[1, 2, np.inf], [1, 1]], InputError, "Input y contains inf"),
        ([np.array([1, 2, np.inf]), np.array([1, 1])], InputError, "Input y contains inf"),
        ([TIMES[:3], TIMES[3:]], InputTypeError,
         r"y\[0\] holds dates or times \(dtype datetime64\[ns\]\).*Convert them to strings"),
        ([pd.Series(TIMES[:3]), pd.Series(TIMES[3:])], InputTypeError, r"y\[0\] holds dates or times"),
        ([list("abc"), TIMES[3:] - TIMES[0]], InputTypeError, r"y\[1\] holds dates or times \(dtype timedelta64"),
        ([np.ma.masked_array(TIMES[:3], [1, 0, 0]), list("ab")], InputTypeError, r"y\[0\] holds dates or times"),
        ([[(0, 1), (np.nan, 1), (1, 1)], [(0, 1)] * 2], InputError,
         r"label at sequence 0, position 1 is \(nan, 1\), which holds NaN and so is equal to no other label"),
        ([["a", "b", "c"], b"ab"], InputTypeError, r"y\[1\] is b'ab', a bytes; expected a sequence of 2 labels"),
        ([["a", "b"], ["a", "b"]], InputError,
         r"X\[0\] is a string, and each character of it is a position; for words pass a list: X\[0\].split\(\)"),
        ([["a", "b", "c"], ["a", TIMES[0]]], InputTypeError,
         "label at sequence 1, position 1 is .*, a date or time; convert such labels to strings"),
    ],
)  # fmt: skip
def test_refused(y, error, match):
    with pytest.raises(error, match=match):
        LabelCoder().fit(y, BATCH)


@pytest.mark.parametrize("y", [TIMES, pd.Series(TIMES), pl.Series(TIMES), TIMES[:, None], list(TIMES)])
def test_times_of_flat_input_are_refused(y):
    with pytest.raises(InputTypeError, match="onvert (them|such labels) to strings"):
        LabelCoder().fit(y, flat_batch(5))


def test_flat_labels():
    batch = flat_batch(3)
    coder = LabelCoder()
    assert coder.fit(np.array([4, 2, 4]), batch).tolist() == [1, 0, 1]
    assert coder.fit(["b", "a", None], batch).tolist() == [1, 0, -1]
    assert coder.fit([["b"], ["a"], ["a"]], batch).tolist() == [1, 0, 0]
    assert coder.fit(np.array([1.0, 0.0, 1.0]), batch).tolist() == [1, 0, 1]
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert coder.fit(np.array([[4], [2], [4]]), batch).tolist() == [1, 0, 1]
    with pytest.raises(InputError, match=r"y should be a 1d array, got an array of shape \(3, 2\)"):
        coder.fit(np.zeros((3, 2)), batch)
    for y in (np.array([0.5, 1, 2]), [0.5, 1.0, 2.0]):
        with pytest.raises(InputError, match="Unknown label type: continuous"):
            coder.fit(y, batch)
    with pytest.raises(InputError, match="y has 2 labels but X has 3 rows"):
        coder.fit([1, 2], batch)


def test_table_labels():
    frame = pd.DataFrame({"id": [1, 2, 1, 2, 1], "v": range(5), "y": list("abcde")})
    batch = as_batch(frame, sequence="id")
    coder = LabelCoder()
    for y in (frame["y"], pl.Series(list("abcde")), list("abcde"), [list("ace"), list("bd")], ["ace", "bd"]):
        assert coder.fit(y, batch).tolist() == [0, 2, 4, 1, 3]
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert coder.fit(frame[["y"]], batch).tolist() == [0, 2, 4, 1, 3]
    assert coder.fit(np.arange(5), batch).tolist() == [0, 2, 4, 1, 3]
    assert batch.restore(coder.decode(coder.fit(frame["y"], batch))).tolist() == list("abcde")
    part = batch[1:]
    assert coder.encode(["b", "d"], part).tolist() == [1, 3]
    with pytest.raises(InputError, match="y has 4 labels but the table has 5 rows"):
        coder.fit(list("abcd"), batch)
    for y in (frame[["id", "y"]], np.zeros((5, 2))):
        with pytest.raises(InputError, match=r"of shape \(5, 2\).*y has 2 columns. Pass the one that holds the labels"):
            coder.fit(y, batch)


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_codes_round_trip(y):
    batch = as_batch([[0] * len(labels) for labels in y])
    coder = LabelCoder()
    if not any(label for labels in y for label in labels):
        with pytest.raises(InputError, match="no observed label"):
            coder.fit(y, batch)
        return
    codes = coder.fit(y, batch)
    assert [part.tolist() for part in batch.restore(coder.decode(codes))] == y
    assert coder.encode(y, batch).tolist() == codes.tolist()


def test_scalars_of_pyarrow_are_their_values():
    coder = LabelCoder()
    assert coder.fit([list(pa.array(["x", None, "y"])), list(pa.array(["y", "x"]))], BATCH).tolist() == [0, -1, 1, 1, 0]
    assert coder.classes_.tolist() == ["x", "y"]


def test_arrays_without_dimensions_as_labels():
    coder = LabelCoder()
    assert coder.fit([[np.ma.array(5, mask=True), np.array(3), 3], [4, 4]], BATCH).tolist() == [-1, 0, 0, 1, 1]
    assert coder.classes_.tolist() == [3, 4]
    with pytest.raises(InputTypeError, match="sequence 1, position 0 is .*, a date or time"):
        LabelCoder().fit([["a", "b", "a"], [np.array(TIMES[0]), "a"]], BATCH)


@pytest.mark.parametrize("label", [(1, [2]), (1, np.array([2]))], ids=str)
def test_labels_with_lists_inside(label):
    with pytest.raises(
        InputTypeError, match=r"The label at sequence 1, position 0 is \(1, .*not hashable.* Use tuples"
    ):
        LabelCoder().fit([["a", "b", "a"], [label, "a"]], BATCH)


@pytest.mark.parametrize("series", [pd.Series, pl.Series, pa.array, pd.array])
def test_labels_of_a_table_as_series_by_sequence(series):
    batch = as_batch(pd.DataFrame({"id": [1, 2, 1], "v": [0.5, 1.5, 2.5]}), sequence="id")
    coder = LabelCoder()
    assert coder.fit([series(["x", "y"]), series(["z"])], batch).tolist() == [0, 1, 2]
    assert coder.fit(list(np.array(["x", "z", "y"])), batch).tolist() == [0, 1, 2]  # strings of NumPy are no series


@pytest.mark.parametrize(
    "y",
    [
        [np.array([0, 1, 0.0]), np.array([1, np.inf])],
        [[0, 1, 0.0], [1, np.inf]],
        [["a", "b", "a"], ["a", -np.inf]],
    ],
)
def test_infinity_has_a_place(y):
    with pytest.raises(InputError, match=r"contains infinity \(inf\): the label at sequence 1, position 1. Use None"):
        LabelCoder().fit(y, BATCH)


def test_signed_and_unsigned_labels_stay_integers():
    coder = LabelCoder()
    large = 2**53
    y = [np.array([large, large + 1, 0], dtype=np.uint64), np.array([0, large + 1], dtype=np.int64)]
    assert coder.fit(y, BATCH).tolist() == [1, 2, 0, 0, 2]
    assert coder.classes_.tolist() == [0, large, large + 1]
    assert coder.classes_.dtype.kind == "i"


def test_sequence_weights():
    assert sequence_weights(None, BATCH).tolist() == [1, 1]
    assert sequence_weights(2, BATCH).tolist() == [2, 2]
    assert sequence_weights(np.array(2.0), BATCH).tolist() == [2, 2]
    for same in ([1, Decimal("0.5")], pd.Series([1, 0.5]), np.ma.array([1, 0.5]), pl.Series([1.0, 0.5]), (True, 0.5)):
        assert sequence_weights(same, BATCH).tolist() == [1, 0.5]
    given_weights = np.array([0, 3])
    weights = sequence_weights(given_weights, BATCH)
    assert weights.dtype == np.float64
    assert weights.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        ([1, 2, 3], "sample_weight has 3 weights but X has 2 sequences"),
        ([[1], [2]], "Sample weights must be 1D array or scalar"),
        ([1, -1], r"sample_weight\[1\] is -1.0; weights must be finite"),
        ([np.nan, 1], r"sample_weight\[0\] is nan"),
        ([1, np.inf], r"sample_weight\[1\] is inf"),
        ([0, 0], "All sample weights are zero"),
        (["a", "b"], "one number for each sequence"),
        (["1", "2"], "one number for each sequence; it has something else in it, as strings, dates"),
        (np.array(["1", 2], dtype=object), "one number for each sequence"),
        (np.array([1, 2], dtype="M8[ns]"), "one number for each sequence"),
        ([1, 2j], "one number for each sequence"),
        ([[1], [2, 3]], "one number for each sequence"),
        ([1, None], r"sample_weight\[1\] is nan"),
        (np.ma.array([1, 50.0], mask=[0, 1]), r"sample_weight\[1\] is masked; every sequence needs a weight"),
        ([1e30, 2e30], r"sample_weight\[1\] is 2e\+30; weights must be at most 1e\+30\. Divide all"),
    ],
)
def test_bad_sequence_weights(weight, match):
    with pytest.raises(InputError, match=match):
        sequence_weights(weight, BATCH)


def test_class_weights():
    classes, codes = np.array(["a", "b"]), np.array([0, 0, 1, 0, -1])
    assert class_weights(None, classes, codes).tolist() == [1, 1]
    assert class_weights({"b": 3}, classes, codes).tolist() == [1, 3]
    expected = compute_class_weight("balanced", classes=classes, y=["a", "a", "b", "a"])
    np.testing.assert_allclose(class_weights("balanced", classes, codes), expected)
    with pytest.raises(ParameterError, match="names the label 'c', which is not in y"):
        class_weights({"c": 1}, classes, codes)
    for bad in (0, -1, np.inf, np.nan, "x"):
        with pytest.raises(ParameterError, match=r"class_weight\['a'\] is"):
            class_weights({"a": bad}, classes, codes)
    with pytest.raises(ParameterError, match="class_weight must be"):
        class_weights("even", classes, codes)


def encode_chunks(scheme: str, chunks: list[tuple[str | None, int]]) -> list[str]:
    """Write chunks (type, length) in a scheme, straight from the definition of each."""
    tags: list[str] = []
    for i, (kind, length) in enumerate(chunks):
        if kind is None:
            tags += ["O"] * length
            continue
        after_same = i > 0 and chunks[i - 1][0] == kind
        before_same = i + 1 < len(chunks) and chunks[i + 1][0] == kind
        inner = {"BILOU": "BILU", "BMEWO": "BMEW"}.get(scheme, "BIES")
        if scheme in ("IOB1", "IOB2", "BIO"):
            prefixes = ["B" if scheme != "IOB1" or after_same else "I"] + ["I"] * (length - 1)
        elif scheme in ("IOE1", "IOE2"):
            prefixes = ["I"] * (length - 1) + ["E" if scheme == "IOE2" or before_same else "I"]
        elif length == 1:
            prefixes = [inner[3]]
        else:
            prefixes = [inner[0]] + [inner[1]] * (length - 2) + [inner[2]]
        tags += [f"{prefix}-{kind}" for prefix in prefixes]
    return tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_allowed_paths_are_exactly_the_encodings_of_chunks(scheme):
    prefixes = [p for p in SCHEMES[scheme].prefixes if p != "O"]
    classes = ["O"] + [f"{p}-{kind}" for p in prefixes for kind in "XY"]
    start, allowed, end = allowed_transitions(scheme, np.array(classes))
    n_positions = 3
    legal = set()
    options = [(kind, length) for kind in (None, "X", "Y") for length in (1, 2, 3)]
    for n_chunks in (1, 2, 3):
        for chunks in itertools.product(options, repeat=n_chunks):
            if sum(length for _, length in chunks) == n_positions:
                legal.add(tuple(encode_chunks(scheme, list(chunks))))
    passed = set()
    for path in itertools.product(range(len(classes)), repeat=n_positions):
        if start[path[0]] and end[path[-1]] and all(allowed[a, b] for a, b in itertools.pairwise(path)):
            passed.add(tuple(classes[k] for k in path))
    assert passed == legal


def test_scheme_without_types():
    start, allowed, end = allowed_transitions("bio", ["B", "I", "O"])
    assert start.tolist() == [True, False, True]
    assert allowed.tolist() == [[True, True, True], [True, True, True], [True, False, True]]
    assert end.all()


@pytest.mark.parametrize("label", ["E-X", "X", "O-X", "NP", 3, ""])
def test_label_outside_the_scheme(label):
    with pytest.raises(ParameterError, match="does not fit the scheme 'IOB2'"):
        allowed_transitions("IOB2", np.array(["O", label], dtype=object))


def test_unknown_scheme():
    with pytest.raises(ParameterError, match="Unknown chunk scheme 'IOX'"):
        allowed_transitions("IOX", ["O"])


def test_labels_by_sequence():
    table = pd.DataFrame({"who": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0]})
    batch = as_batch(table, sequence="who")
    assert as_labels(pd.Series(["up", "down", None, "up"]), batch) == [["up", None], ["down", "up"]]
    assert as_labels(np.array([1.0, 2.0, np.nan, 1.0]), batch) == [[1.0, None], [2.0, 1.0]]
    assert as_labels([["up", "up"], ["down", None]], batch) == [["up", "up"], ["down", None]]
    assert as_labels(["ab", "c"], as_batch(["xy", "z"])) == [["a", "b"], ["c"]]
    with pytest.raises(InputError, match="y has 3 labels but the table has 4 rows"):
        as_labels(["up"] * 3, batch)


# ------------------------------------------------------------------------------------------- labels that are no classes


@pytest.mark.parametrize(
    "y",
    [
        [[1, 2.0, 2], [0.5, 1]],
        [["a", "b", "a"], [0.5, "a"]],
        [np.array([1.0, 2, 2]), np.array([0.5, np.nan])],
        [np.array([1.0, 2, 2], dtype=np.float32), [np.float32(0.5), None]],
        [[Decimal(1), Decimal(2), Decimal(1)], [Decimal("0.5"), Decimal(1)]],
        [[Fraction(1), Fraction(2), Fraction(1)], [Fraction(1, 2), Fraction(1)]],
        [pd.Series([1.0, 2, 2]), pd.Series([0.5, None])],
        [pl.Series([1.0, 2, 2]), pl.Series([0.5, None])],
    ],
)
def test_labels_with_fractions_are_refused(y):
    with pytest.raises(
        InputError,
        match=r"Unknown label type: continuous.* the label at sequence 1, position 0 is .*, a number with a fraction\. "
        r"Bin the target .* strings",
    ):
        LabelCoder().fit(y, BATCH)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, pa.array])
def test_labels_of_tables_with_fractions_are_refused(kind):
    table = as_batch(pd.DataFrame({"id": [2, 1, 2, 1], "v": [1.0, 2, 3, 4]}), sequence="id")
    with pytest.raises(InputError, match=r"label at sequence 1, position 0 \(row 1 of the table\) is 1.25, a number"):
        LabelCoder().fit(kind([1.0, 1.25, 2.0, 3.5]), table)
    assert LabelCoder().fit(kind([1.0, 2.0, 2.0, 3.0]), table).tolist() == [0, 1, 1, 2]


def test_strings_of_numbers_are_labels():
    coder = LabelCoder()
    coder.fit([["0.5", "1.5", "0.5"], ["2.5", None]], BATCH)
    assert coder.classes_.tolist() == ["0.5", "1.5", "2.5"]
    coder.fit([[10**400, Decimal("1e400"), True], [Fraction(4, 2), None]], BATCH)  # whole, and beyond floats
    assert len(coder.classes_) == 3


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([(1, 2), np.int64(3)], [(1, 2), 3]),
        ([np.float64(3.0), (3.0, 1.0)], [3.0, (3.0, 1.0)]),
        ([("a", np.int64(1)), ("b", np.int64(2))], [("a", 1), ("b", 2)]),
        ([np.str_("a"), np.bool_(True), (1, 2)], ["a", True, (1, 2)]),
    ],
)
def test_tuples_beside_numpy_scalars(labels, expected):
    batch = as_batch(["ab" * len(labels)])
    coder = LabelCoder()
    codes = coder.fit([labels * 2], batch)
    assert coder.classes_.tolist() == expected
    assert list(map(type, coder.classes_.tolist())) == list(map(type, expected))
    assert codes.tolist() == [*range(len(labels))] * 2
    np.testing.assert_array_equal(coder.encode([labels * 2], batch), codes)


@pytest.mark.parametrize("labels", [[-1, 2**63], [1, 2**63], [2**63, 2**64], [2**70, 2**71], [-(2**80), 10**300]])
def test_integers_beyond_64_bits_stay_what_they_are(labels):
    coder = LabelCoder()
    codes = coder.fit([labels], as_batch(["ab"]))
    assert coder.classes_.tolist() == labels
    assert all(type(label) is int for label in coder.classes_.tolist())
    assert coder.decode(codes).tolist() == labels
    assert LabelCoder.from_classes(labels).classes_.tolist() == labels
