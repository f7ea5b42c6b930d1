"""Booleans mean the same in every format and table: the numbers 1 and 0."""

import json

import numpy as np
import pandas as pd
import pytest

import seqboost
from seqboost.exceptions import DataFileError
from seqboost.files import Reading, read_sequences, write_answers, write_sequences
from seqboost.files.building import PIECE_ROWS

WET = [True, False, None, True, True, False, False, True, None, False, True, False] * 3
IDS = [f"s{i // 6}" for i in range(len(WET))]
STATES = ["rain" if wet else "sun" for wet in WET]
READING = Reading(sequence="id", label="state")


def as_text(delimiter, words):
    lines = [delimiter.join(("id", "wet", "state"))]
    lines += [delimiter.join((s, words[wet], state)) for s, wet, state in zip(IDS, WET, STATES, strict=True)]
    return "\n".join(lines) + "\n"


@pytest.fixture(params=["csv", "tsv", "capitals", "spaces", "parquet", "arrow", "jsonl", "pandas", "polars", "list"])
def form(request, tmp_path):
    """The same data in one of many forms, as X."""
    kind = request.param
    small, large = {True: "true", False: "false", None: ""}, {True: "TRUE", False: "FALSE", None: "NA"}
    texts = {
        "csv": as_text(",", {True: "True", False: "False", None: ""}), "tsv": as_text("\t", small),
        "capitals": as_text(",", large), "spaces": as_text(",", {True: " true", False: "false ", None: " "}),
    }  # fmt: skip
    if kind in texts:
        path = tmp_path / ("d.tsv" if kind == "tsv" else "d.csv")
        path.write_text(texts[kind], encoding="utf-8")
        return read_sequences(path, READING).batch
    rows = [[{"wet": wet} for wet in WET[i : i + 6]] for i in range(0, len(WET), 6)]
    if kind == "list":
        return rows
    if kind == "jsonl":
        path = tmp_path / "d.jsonl"
        path.write_text("".join(json.dumps({"x": x, "y": ["sun"] * 6}) + "\n" for x in rows), encoding="utf-8")
        return read_sequences(path).batch
    columns = {"id": IDS, "wet": WET, "state": STATES}
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns).drop(columns="state")
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns).drop("state")
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    path = tmp_path / f"d.{kind}"
    (parquet.write_table if kind == "parquet" else feather.write_feather)(pa.table(columns), str(path))
    return read_sequences(path, READING).batch


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model trained from a CSV file."""
    path = tmp_path_factory.mktemp("booleans") / "train.csv"
    path.write_text(as_text(",", {True: "true", False: "false", None: ""}), encoding="utf-8")
    data = read_sequences(path, READING)
    return seqboost.TreeCRF(max_iter=3, min_samples_leaf=1, random_state=0, sequence="id").fit(data.batch, data.y)


def test_booleans_are_numbers(form):
    batch = seqboost.as_batch(form) if isinstance(form, list) else seqboost.as_batch(form, **_sequence_of(form))
    assert [column.kind for column in batch.schema.columns] == ["numeric"]
    expected = [np.nan if wet is None else float(wet) for wet in WET]
    np.testing.assert_array_equal(batch.numeric[:, 0], expected)


@pytest.mark.parametrize(
    "X",
    [
        [[True, False, None, True]], [np.array([True, False, None, True])], [[(True,), (False,), (None,), (True,)]],
        [np.array([[True], [False], [None], [True]])], [[np.True_, np.False_, np.nan, np.True_]], [[1, 0, None, True]],
    ],
)  # fmt: skip
def test_booleans_in_lists_and_arrays_are_numbers(X):
    batch = seqboost.as_batch(X)
    np.testing.assert_array_equal(batch.numeric[:, 0], [1, 0, np.nan, 1])


@pytest.mark.parametrize("dtype", ["object", "boolean", "bool[pyarrow]"])
def test_booleans_of_pandas_are_numbers(dtype):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    batch = seqboost.as_batch([pd.DataFrame({"wet": pd.array([True, False, None, True], dtype=dtype)})])
    np.testing.assert_array_equal(batch.numeric[:, 0], [1, 0, np.nan, 1])


def _sequence_of(form):
    return {} if isinstance(form, seqboost.SequenceBatch) else {"sequence": "id"}


def test_a_model_trained_from_csv_predicts_the_same_from_every_form(form, model, tmp_path):
    path = tmp_path / "again.csv"
    path.write_text(as_text(",", {True: "true", False: "false", None: ""}), encoding="utf-8")
    expected = model.predict_proba(read_sequences(path, READING).batch)
    found = model.predict_proba(form)
    flat = np.concatenate(found) if isinstance(found, list) else found
    np.testing.assert_array_equal(flat, expected)


@pytest.mark.parametrize("other", ["maybe", "1", "yes"])
def test_a_column_of_other_words_too_is_one_of_categories(tmp_path, other):
    path = tmp_path / "d.csv"
    path.write_text("id,wet,state\n" + "".join(f"a,{w},x\n" for w in ("true", "false", other)), encoding="utf-8")
    batch = read_sequences(path, READING).batch
    assert [column.kind for column in batch.schema.columns] == ["categorical"]
    assert sorted(batch.categories[0]) == sorted(["true", "false", other])


def test_a_word_after_the_first_piece_is_a_bad_line(tmp_path):
    path = tmp_path / "d.csv"
    lines = ["a,true,x"] * PIECE_ROWS + ["a,false,x", "a,1,x", "a,,x", "a,maybe,x"]
    path.write_text("id,wet,state\n" + "\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataFileError, match=f"line {PIECE_ROWS + 5}: column 'wet' holds numbers, but here 'maybe'"):
        read_sequences(path, READING)
    data = read_sequences(path, READING, skip_bad=True)
    np.testing.assert_array_equal(data.batch.numeric[-3:, 0], [0, 1, np.nan])


def test_a_boolean_among_numbers_is_a_bad_line(tmp_path):
    path = tmp_path / "d.csv"
    lines = "".join(f"a,{value},x\n" for value in [*range(20), "true"])
    path.write_text("id,speed,state\n" + lines, encoding="utf-8")
    for reading in (READING, Reading(sequence="id", label="state", numeric=("speed",))):
        with pytest.raises(DataFileError, match="line 22: column 'speed' holds numbers, but here 'true'"):
            read_sequences(path, reading)


def test_categories_on_demand(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(as_text(",", {True: "true", False: "false", None: ""}), encoding="utf-8")
    batch = read_sequences(path, Reading(sequence="id", label="state", categorical=("wet",))).batch
    assert batch.categories[0].tolist() == ["false", "true"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("words", [("True", "False"), ("true", "false")])
def test_labels_that_are_booleans_match_those_of_a_model(tmp_path, suffix, words):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    wet = [bool(i % 3) for i in range(12)]
    path = tmp_path / f"d.{suffix}"
    if suffix == "csv":
        lines = "".join(f"s,{i % 3},{words[not w]}\n" for i, w in enumerate(wet))
        path.write_text("id,x,wet\n" + lines, encoding="utf-8")
    else:
        parquet.write_table(pa.table({"id": ["s"] * 12, "x": [i % 3 for i in range(12)], "wet": wet}), path)
    data = read_sequences(path, Reading(sequence="id", label="wet"))
    for classes in ([False, True], ["False", "True"], ["false", "true"]):
        assert data.with_labels_of(classes).labels == [classes[w] for w in wet]
    if words == ("True", "False"):
        assert data.labels == wet
        model = seqboost.HMM().fit(data.batch, data.y)
        answers = seqboost.files.Answers([str(w) for w in model.predict(data.batch)], ("False", "True"))
        write_answers(path, data, answers, tmp_path / f"o.{suffix}")
        write_sequences(data, tmp_path / f"c.{suffix}")
        again = read_sequences(tmp_path / f"c.{suffix}", Reading(sequence="id", label="wet"))
        assert again.labels == wet


def test_categories_of_booleans_are_the_same_words_in_csv_and_parquet(tmp_path):
    frame = pd.DataFrame({"flag": [True, False, None, True]}, dtype="boolean")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    found = [
        read_sequences(tmp_path / name, Reading(categorical=("flag",)), labels="ignore").batch.categories[0].tolist()
        for name in ("a.csv", "a.parquet")
    ]
    assert found == [["False", "True"]] * 2
