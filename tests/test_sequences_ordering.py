"""Tables with several sequence columns, a time column, and labels by the name of their column."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from seqboost import HMM, IOHMM, MEMM, OutputCoding, SequenceBatch, TreeCRF, as_batch, as_labels, load
from seqboost.evaluation import SequenceKFold, compare, label_sequences
from seqboost.exceptions import InputError, InputTypeError

START = pd.Timestamp("2024-03-30 20:00")


def visits(n_sequences=24, seed=0):
    """Return rows of several sequences, told apart by two columns, in random order; gaps differ between labels."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(n_sequences):
        labels = np.repeat(rng.permutation(4) % 2, rng.integers(1, 4, 4))
        times = np.cumsum(np.where(labels == 1, 1, 40) * rng.uniform(0.9, 1.1, len(labels))).round(3)
        rows += [
            (f"p{s // 3}", s % 3, time, rng.normal() + label, "ab"[label])
            for time, label in zip(times, labels, strict=True)
        ]
    table = pd.DataFrame(rows, columns=["patient", "visit", "time", "x", "label"])
    return table.iloc[rng.permutation(len(table))]


TABLE = visits()
SETTINGS = {"sequence": ["patient", "visit"], "time": "time"}
FORMS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "lazy": lambda table: pl.from_pandas(table).lazy(),
    "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
}


def small(**settings):
    return TreeCRF(**{"max_iter": 8, "random_state": 0, "window": 1, "n_jobs": 1, **SETTINGS, **settings})


def slow_reading(table):
    """Return columns of TABLE as they should be read: rows by sequence and time, with gaps, and where they were."""
    keys = list(dict.fromkeys(zip(table.patient, table.visit, strict=True)))
    rows, gaps = [], []
    for key in keys:
        own = [i for i in range(len(table)) if (table.patient.iloc[i], table.visit.iloc[i]) == key]
        own.sort(key=lambda i: table.time.iloc[i])
        rows += own
        gaps += [np.nan] + [table.time.iloc[b] - table.time.iloc[a] for a, b in zip(own[:-1], own[1:], strict=True)]
    return keys, rows, gaps


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_grouped_by_all_columns_and_sorted_by_time(form):
    keys, rows, gaps = slow_reading(TABLE)
    batch = as_batch(FORMS[form](TABLE), **SETTINGS, label="label")
    assert batch.origin.ids == tuple(keys)
    assert batch.origin.table_rows.tolist() == rows
    assert batch.schema.names == ("x", "time gap")
    assert batch.schema.sequence == ("patient", "visit")
    np.testing.assert_array_equal(batch.numeric[:, 0], TABLE.x.to_numpy()[rows])
    np.testing.assert_allclose(batch.numeric[:, 1], gaps)
    np.testing.assert_array_equal(batch.restore(np.arange(batch.n_rows)), np.argsort(rows))
    assert [label for part in as_labels(TABLE.label, batch) for label in part] == TABLE.label.iloc[rows].tolist()


@pytest.mark.parametrize(
    "times",
    [
        START + pd.to_timedelta(TABLE.time, unit="s"),
        (START + pd.to_timedelta(TABLE.time, unit="s")).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"),
        (START + pd.to_timedelta(TABLE.time, unit="s")).astype("datetime64[ns]"),
        (START + pd.to_timedelta(TABLE.time, unit="s")).astype("datetime64[ms]"),
        pd.to_timedelta(TABLE.time, unit="s"),
        TABLE.time,
        TABLE.time.convert_dtypes(),
    ],
    ids=["naive", "zone", "ns", "ms", "duration", "numbers", "nullable"],
)
@pytest.mark.parametrize("form", ["pandas", "polars", "arrow"])
def test_times_of_all_kinds(form, times):  # the clock goes forward in Berlin on 2024-03-31
    expected = as_batch(TABLE, **SETTINGS, label="label")
    batch = as_batch(FORMS[form](TABLE.assign(time=times)), **SETTINGS, label="label")
    assert batch.origin.table_rows.tolist() == expected.origin.table_rows.tolist()
    np.testing.assert_allclose(batch.numeric, expected.numeric, atol=1e-9)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8"])
def test_gaps_of_integers_are_exact(dtype):
    info = np.iinfo(dtype)
    times = np.array([info.max, info.min, info.max - 1], dtype=dtype)
    batch = as_batch(pd.DataFrame({"t": times, "x": [1.0, 2, 3]}), time="t")
    assert batch.n_sequences == 1
    assert batch.numeric[1:, 1].tolist() == [float(int(info.max) - 1 - int(info.min)), 1.0]


def test_gaps_are_never_rounded():
    times = np.array([0.0, 0.1, 0.3], dtype=np.float32)
    batch = as_batch(pd.DataFrame({"t": times, "x": np.zeros(3, dtype=np.float32)}), time="t")
    assert batch.numeric[1:, 1].tolist() == np.diff(times.astype(float)).tolist()
    assert [column.single for column in batch.schema.columns] == [True, False]


def test_dates_and_equal_times():
    days = [dt.date(2024, 3, 1), dt.date(2024, 2, 28), dt.date(2024, 3, 1)]
    batch = as_batch(pl.DataFrame({"day": days, "x": [1.0, 2, 3]}), time="day")
    assert batch.numeric[:, 0].tolist() == [2, 1, 3]  # rows of one time stay in the order of the table
    assert batch.numeric[1:, 1].tolist() == [2 * 86400, 0]
    assert np.isnan(batch.numeric[0, 1])


@pytest.mark.parametrize("form", FORMS)
def test_predictions_are_in_the_order_of_the_rows(form, tmp_path):
    model = small().fit(FORMS[form](TABLE), "label")
    assert model.feature_names_in_.tolist() == ["x", "time gap"]
    expected = pd.Series(model.predict(TABLE), index=TABLE.index)
    ordered = TABLE.sort_index()
    again = pd.Series(model.predict(FORMS[form](ordered)), index=ordered.index)
    assert again[expected.index].tolist() == expected.tolist()
    assert model.score(FORMS[form](TABLE), "label") == np.mean(expected == TABLE.label) > 0.9
    assert model.score(FORMS[form](TABLE), TABLE.label) == model.score(TABLE, "label")
    model.save(tmp_path / "model")
    for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert other._schema == model._schema
        assert other._schema.label == "label"
        assert other.get_params()["sequence"] == ["patient", "visit"]
        assert other.predict(FORMS[form](TABLE)).tolist() == expected.tolist()
        assert other.predict(TABLE.drop(columns="label")).tolist() == expected.tolist()


def test_lists_of_tables_are_sorted_one_by_one():
    parts = [part.drop(columns=["patient", "visit"]) for _, part in TABLE.groupby(["patient", "visit"], sort=False)]
    model = small(sequence=None).fit(parts, "label")
    whole = small().fit(TABLE, "label")
    flat = pd.concat([pd.Series(labels, part.index) for labels, part in zip(model.predict(parts), parts, strict=True)])
    assert flat[TABLE.index].tolist() == whole.predict(TABLE).tolist()
    np.testing.assert_array_equal(model.log_prob(parts, "label"), whole.log_prob(TABLE, "label"))
    labels = [part.label for part in parts]
    assert model.score(parts, labels) == model.score(iter(parts), labels) == whole.score(TABLE, "label")
    batch = as_batch(parts, time="time", label="label")[[2, 0]]
    assert [part.tolist() for part in model.predict(batch)] == [model.predict(parts)[i].tolist() for i in (2, 0)]
    assert "row" in batch.where(0)
    found = label_sequences(model, parts, "label")
    assert found.evaluate().accuracy == model.score(parts, "label")
    assert found.predicted == label_sequences(whole, TABLE, "label").predicted


def test_labels_by_sequence_are_in_the_order_of_the_rows():
    batch = as_batch(TABLE.drop(columns="label"), **SETTINGS)
    by_sequence = [part.label.tolist() for _, part in TABLE.groupby(["patient", "visit"], sort=False)]
    assert as_labels(by_sequence, batch) == as_labels(TABLE.label, batch)
    codes = TABLE.label.eq("b").astype(int)
    numbers = [part.to_numpy() for _, part in codes.groupby([TABLE.patient, TABLE.visit], sort=False)]
    assert as_labels(numbers, batch) == as_labels(codes, batch)


def test_a_table_without_a_sequence_column_is_one_sequence():
    table = TABLE[TABLE.patient == "p0"].drop(columns=["patient", "visit"])
    model = small(sequence=None, min_samples_leaf=2).fit(table, "label")
    ordered = table.sort_values("time")
    assert pd.Series(model.predict(table), table.index)[ordered.index].tolist() == model.predict(ordered).tolist()
    assert len(model.log_prob(table, "label")) == 1


def test_time_alone_can_be_the_only_feature():
    table = TABLE[["patient", "visit", "time", "label"]]
    model = small().fit(table, "label")
    assert model.feature_names_in_.tolist() == ["time gap"]
    assert model.score(table, "label") > 0.8
    assert model.predict(table.assign(note=START)).tolist() == model.predict(table).tolist()


@pytest.mark.parametrize("kind", [HMM, IOHMM, MEMM])
def test_other_labelers(kind):
    settings = {"max_iter": 5} if kind is not HMM else {}
    model = kind(**settings, **SETTINGS).fit(TABLE, "label")
    assert model.score(TABLE, "label") > 0.7
    assert np.isfinite(model.log_prob(TABLE, "label")).all()


def test_output_coding_hands_ordered_sequences_to_its_labelers():
    table = TABLE.assign(label=np.where(TABLE.x > 1, "c", TABLE.label))
    model = OutputCoding(small(**SETTINGS), **SETTINGS).fit(table, "label")
    assert model.predict(table.sort_index())[np.argsort(np.argsort(table.index))].shape == (len(table),)


def test_validation_data_by_name_of_the_label_column():
    model = small(early_stopping=True).fit(TABLE, "label", X_val=visits(seed=1), y_val="label")
    pairs = small(early_stopping=True).fit(TABLE, "label", eval_set=[(visits(seed=1), "label")])
    assert model.history_["validation_score"] == pairs.history_["validation_score"]


def test_splitting_by_several_columns():
    folds = list(SequenceKFold(3, sequence=["patient", "visit"]).split(TABLE))
    keys = TABLE.patient + TABLE.visit.astype(str)
    assert sorted(row for _, test in folds for row in test.tolist()) == list(range(len(TABLE)))
    for train, test in folds:
        assert not set(keys.iloc[train]) & set(keys.iloc[test])
    with pytest.raises(ValueError, match=r"sequence=one of .* or a list of several\. Got \['patient', 'room'\]"):
        list(SequenceKFold(3, sequence=["patient", "room"]).split(TABLE))


def test_comparing_labelers_on_labels_by_name():
    found = compare([small(), HMM(**SETTINGS)], TABLE, "label", visits(seed=1), "label")
    scores = {row.name: row.accuracy for row in found.rows}
    assert scores == {name: found.models[name].score(visits(seed=1), "label") for name in scores}


def test_torn_sequences_are_named_by_all_their_columns():
    model = small().fit(TABLE, "label")
    with pytest.warns(UserWarning, match=r"torn apart.*sequence=\['patient', 'visit'\]"):
        model.predict(TABLE.iloc[::2])


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        (
            {"sequence": ["patient", "room"]},
            InputError,
            r"names 'room', which is no column of the table. Its col",
        ),
        ({"sequence": []}, InputError, r"sequence=\[\] must name one or more columns"),
        ({"sequence": ["visit", "visit"]}, InputError, r"must name one or more columns, each of them once"),
        ({"sequence": ("patient", "visit")}, InputError, r"names no column of the table.*or be a list of several"),
        ({"time": "clock"}, InputError, r"time='clock' names no column of the table. Its columns are \['patient'"),
        ({"time": ["time"]}, InputError, r"time=\['time'\] names no column of the table"),
        ({"time": "visit"}, InputError, r"The column 'visit' cannot be both sequence and time"),
        ({"time": "label"}, InputError, r"y='label' names the column that is the sequence or the time"),
    ],
)
def test_columns_that_make_no_sense(settings, error, match):
    with pytest.raises(error, match=match):
        small(**settings).fit(TABLE, "label")


@pytest.mark.parametrize(
    ("values", "error", "match"),
    [
        (TABLE.time.astype(str), InputTypeError, r"time column 'time' holds strings; expected dates and times, or num"),
        (TABLE.time > 3, InputTypeError, r"time column 'time' holds booleans"),
        (TABLE.time.astype("category"), InputTypeError, r"time column 'time' holds categories"),
        ([dt.date(2024, 1, 1)] * len(TABLE), InputTypeError, r"values of type Object; .* pandas.to_datetime\(X"),
        (TABLE.time.where(np.arange(len(TABLE)) != 3), InputError, r"'time' is missing in row 3 of the table; ev"),
        (TABLE.time.where(np.arange(len(TABLE)) != 3).convert_dtypes(), InputError, r"'time' is missing in row 3"),
        ([pd.NaT] + [START] * (len(TABLE) - 1), InputError,
         r"'time' is missing in row 0"),
        (TABLE.time.where(np.arange(len(TABLE)) != 3, np.inf), InputError, r"'time' is infinite in row 3 of the table"),
    ],
)  # fmt: skip
def test_times_that_make_no_sense(values, error, match):
    table = TABLE.assign(time=values)
    with pytest.raises(error, match=match):
        small().fit(table, "label")
    if not isinstance(values, list) and values.dtype != "category":
        with pytest.raises(error, match=match):
            small().fit(pl.from_pandas(table), "label")


def test_missing_ids_in_one_of_several_columns():
    with pytest.raises(InputError, match=r"The sequence column 'visit' is missing in row 2 of the table"):
        small().fit(TABLE.assign(visit=TABLE.visit.where(np.arange(len(TABLE)) != 2)), "label")
    with pytest.raises(InputTypeError, match=r"The sequence column 'visit' holds a list in row 0 of the table"):
        small().fit(TABLE.assign(visit=[[1]] * len(TABLE)), "label")


def test_a_column_with_the_name_of_the_gap():
    with pytest.raises(InputError, match=r"The table has a column 'time gap' already.*rename it"):
        small().fit(TABLE.assign(**{"time gap": 1.0}), "label")


def test_time_needs_tables():
    message = r"time='time' names a column of a table, but X is no table"
    with pytest.raises(InputTypeError, match=message):
        small(sequence=None).fit(["ab", "b"], ["01", "1"])
    table = TABLE.reset_index(drop=True)
    batch = as_batch(table.drop(columns=["label", "time"]), sequence=SETTINGS["sequence"])
    with pytest.raises(InputTypeError, match=message):
        small().fit(batch, table.label)
    assert isinstance(as_batch(as_batch(TABLE, **SETTINGS), time="time"), SequenceBatch)


@pytest.mark.parametrize("method", ["fit", "score", "log_prob"])
@pytest.mark.parametrize(
    ("X", "y", "error", "match"),
    [
        (TABLE, "tag", InputError, r"y='tag' names no column of the table. Its columns are \['patient', .*'label'\]"),
        (TABLE, "visit", InputError, r"y='visit' names the column that is the sequence or the time of X"),
        (["ab"], "label", InputTypeError, r"y='label' is a string, which names a column of a table, but X is a list"),
        ([TABLE, TABLE.drop(columns="label")], "label", InputError, r"y='label' names no column of X\[1\]"),
        (as_batch(TABLE, **SETTINGS), "label", InputTypeError, r"but X is a SequenceBatch"),
    ],
)
def test_names_of_labels_that_make_no_sense(method, X, y, error, match):
    model = small().fit(TABLE, "label")
    with pytest.raises(error, match=match):
        getattr(model, method)(X, y)


def test_the_label_column_is_no_feature_and_may_come_or_not():
    by_name = small().fit(TABLE, "label")
    by_values = small().fit(TABLE.drop(columns="label"), TABLE.label)
    assert by_name.feature_names_in_.tolist() == by_values.feature_names_in_.tolist()
    expected = by_values.predict(TABLE.drop(columns="label")).tolist()
    assert by_name.predict(TABLE).tolist() == by_name.predict(TABLE.assign(label=1)).tolist() == expected
    renamed = TABLE.rename(columns={"label": "truth"})
    assert by_name.score(renamed, "truth") == by_name.score(TABLE, "label")


@pytest.mark.parametrize("as_list", [False, True])
def test_times_of_another_kind_than_in_training_are_refused(as_list, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "who": np.repeat(range(6), 5),
            "when": pd.date_range("2026-01-01", periods=30, freq="h"),
            "v": rng.normal(size=30),
        }
    )
    y = rng.integers(2, size=30)
    numbers = table.assign(when=table["when"].astype("int64"))

    def given(t):
        return [part.drop(columns="who") for _, part in t.groupby("who")] if as_list else t

    labels = np.split(y, 6) if as_list else y
    model = TreeCRF(max_iter=2, min_samples_leaf=1, sequence=None if as_list else "who", time="when").fit(
        given(table), labels
    )
    model.save(tmp_path / "model")
    for fitted in (model, load(tmp_path / "model")):
        assert len(fitted.predict(given(table))) == len(labels)
        with pytest.raises(InputError, match="The time column 'when' holds numbers, but TreeCRF was trained on dates"):
            fitted.predict(given(numbers))
    model.fit(given(numbers), labels)
    with pytest.raises(
        InputError, match="holds dates, times or durations, whose gaps are seconds, but TreeCRF was trained"
    ):
        model.predict(given(table))


def test_tables_with_times_of_two_kinds_are_refused():
    dates = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=5, freq="h"), "v": range(5)})
    numbers = dates.assign(when=range(5))
    with pytest.raises(InputError, match=r"'when' of X\[1\] holds numbers, but that of X\[0\] holds dates"):
        as_batch([dates, numbers], time="when")
    with pytest.raises(InputError, match=r"'when' of X\[2\] holds dates, .* but that of X\[0\] holds numbers"):
        as_batch([numbers, numbers, dates], time="when")
