"""Files with a time column and several sequence columns, and the commands that read them."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_run import run

import seqboost
from seqboost.exceptions import DataFileError
from seqboost.files import Reading, read_sequences

FAST = ["--max-iter", "5", "--set", "min_samples_leaf=2"]
READING = Reading(sequence=("patient", "visit"), time="at", label="label")


def visits(n_sequences=12, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for s in range(n_sequences):
        labels = np.repeat(rng.permutation(4) % 2, 2)
        seconds = np.cumsum(np.where(labels == 1, 1, 30) + rng.integers(0, 2, 8))
        at = pd.Timestamp("2024-03-30 23:59:30") + pd.to_timedelta(seconds, unit="s")
        x = (rng.normal(size=8) + labels).round(3)
        parts.append(pd.DataFrame({"patient": f"p{s // 3}", "visit": s % 3, "at": at, "x": x,
                                   "label": np.where(labels, "b", "a")}))  # fmt: skip
    table = pd.concat(parts, ignore_index=True)
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


TABLE = visits()
NUMBERS = TABLE.assign(at=(TABLE["at"] - TABLE["at"].min()).dt.total_seconds())
ZONED = TABLE.assign(at=TABLE["at"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))


def write(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_feather(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("table", [TABLE, NUMBERS, ZONED], ids=["naive", "numbers", "zoned"])
def test_files_are_read_as_tables_are(table, suffix, tmp_path):
    data = read_sequences(write(table, tmp_path / f"d{suffix}"), READING)
    batch = seqboost.as_batch(table, sequence=["patient", "visit"], time="at", label="label")
    np.testing.assert_array_equal(data.batch.origin.table_rows, batch.origin.table_rows)
    np.testing.assert_array_equal(data.batch.numeric, batch.numeric)
    assert data.batch.schema.names == ("x", "at gap")
    assert data.reading.inputs == ("x",)
    assert seqboost.as_labels(data.y, data.batch) == seqboost.as_labels(table.label, batch)
    assert data.sequences_of(data.labels) == seqboost.as_labels(table.label, batch)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_for_each_sequence(suffix, tmp_path):
    parts = [part for _, part in TABLE.groupby(["patient", "visit"], sort=False)]
    columns = ["at", "x", "label"]
    paths = [write(part[columns], tmp_path / f"{i}{suffix}") for i, part in enumerate(parts)]
    data = read_sequences(paths, Reading(time="at", label="label"))
    batch = seqboost.as_batch([part[columns] for part in parts], time="at", label="label")
    np.testing.assert_array_equal(data.batch.numeric, batch.numeric)
    assert data.y == [part.label.tolist() for part in parts]
    assert data.sequences_of(data.labels) == seqboost.as_labels([part.label for part in parts], batch)
    restored = np.concatenate(data.batch.restore(data.batch.numeric[:, 0]))
    np.testing.assert_array_equal(restored, np.concatenate([part.x for part in parts]))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_train_and_predict(suffix, tmp_path):
    path, model_path = write(TABLE, tmp_path / f"d{suffix}"), tmp_path / "m.seqboost"
    options = ["--sequence", "patient", "--sequence", "visit", "--time", "at", "--label", "label"]
    done = run("train", path, *options, "--model", model_path, *FAST, "--json")
    assert json.loads(done.stdout)["sequences"] == 12
    run("predict", model_path, path, "--output", tmp_path / f"p{suffix}", "--kbest", 1)
    model = seqboost.load(model_path)
    assert model.reading_["time"] == "at"
    assert model.reading_["sequence"] == ["patient", "visit"]
    assert model.feature_names_in_.tolist() == ["x", "at gap"]
    frame = pd.read_csv(tmp_path / "p.csv") if suffix == ".csv" else pd.read_parquet(tmp_path / "p.parquet")
    expected = seqboost.load(model_path).predict(TABLE.drop(columns="label"))
    assert frame.predicted.tolist() == expected.tolist()
    assert frame["at"].astype(str).tolist() == TABLE["at"].astype(str).tolist()
    found = json.loads(run("evaluate", model_path, path, "--json").stdout)
    assert found["accuracy"] == pytest.approx(np.mean(expected == TABLE.label))


def csv_with(tmp_path, *times):
    path = tmp_path / "d.csv"
    path.write_text("s,at,x,label\n" + "".join(f"1,{time},{i},a\n" for i, time in enumerate(times)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("times", "match"),
    [
        (["1", "", "3"], r"line 3.*the time column 'at' is empty. Mend the line, give every row a time"),
        (["1", "x", "3"], r"line 3.*holds numbers, but here 'x'. Mend the line, write all times in one form"),
        (["1", "inf"], r"column 'at' holds 'inf', expected a finite number"),
        (["2024-01-01", "3"], r"the time column 'at' holds dates without a time zone, but here '3'"),
        (["2024-01-01T10:00Z", "2024-01-01T11:00"], r"holds dates with a time zone, but here '2024-01-01T11:00'"),
        (["noon", "3"], r"the time column 'at' holds 'noon'; expected numbers, or dates and times such as 2024"),
    ],
)
def test_times_that_make_no_sense(times, match, tmp_path):
    with pytest.raises(DataFileError, match=match):
        read_sequences(csv_with(tmp_path, *times), Reading(sequence="s", time="at"))


def test_bad_lines_can_be_left_out(tmp_path):
    path = csv_with(tmp_path, "30", "", "10", "x")
    data = read_sequences(path, Reading(sequence="s", time="at"), skip_bad=True)
    assert data.n_bad == 2
    assert data.batch.numeric[:, 0].tolist() == [2, 0]
    assert data.batch.numeric[1, 1] == 20


def test_parquet_without_a_time_and_with_times_of_other_types(tmp_path):
    table = TABLE.assign(at=TABLE["at"].where(np.arange(len(TABLE)) != 4))
    with pytest.raises(DataFileError, match=r"the time column 'at' is empty. Mend the line, give every row a time"):
        read_sequences(write(table, tmp_path / "d.parquet"), READING)
    with pytest.raises(DataFileError, match=r"the time column 'at' holds values of type bool"):
        read_sequences(write(TABLE.assign(at=True), tmp_path / "e.parquet"), READING)
    paths = [write(TABLE, tmp_path / "f.parquet"), write(NUMBERS, tmp_path / "g.parquet")]
    with pytest.raises(DataFileError, match=r"its times, the column 'at', are numbers, but those before are times of"):
        read_sequences(paths, READING)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"time": "clock"}, r"it has no column 'clock', which should be the time"),
        ({"time": "label"}, r"the column 'label' cannot be both label and time; name two columns"),
        ({"sequence": ("patient", "room")}, r"it has no column 'room', which should be the sequence column"),
        ({"sequence": ("patient", "at")}, r"the column 'at' cannot be both sequence and time; name two columns"),
    ],
)
def test_columns_that_make_no_sense(changed, match, tmp_path):
    reading = Reading(**{"sequence": ("patient", "visit"), "time": "at", "label": "label", **changed})
    with pytest.raises(DataFileError, match=match):
        read_sequences(write(TABLE, tmp_path / "d.csv"), reading)


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "d.txt").write_text("ab\t01\n", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"the time, 'at', is a column of a table .* but the format is text"):
        read_sequences(tmp_path / "d.txt", Reading(time="at"))
    with pytest.raises(DataFileError, match=r"it has a column 'at gap', which is needed for the gaps between times"):
        read_sequences(write(TABLE.assign(**{"at gap": 1}), tmp_path / "e.csv"), READING)
