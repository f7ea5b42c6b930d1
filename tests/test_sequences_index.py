"""What a pandas index tells: the order of rows, and which label belongs to which row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from treecrf_data import small

from seqboost import HMM, TreeCRF, as_batch
from seqboost.evaluation import label_sequences
from seqboost.exceptions import InputError

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"id": np.repeat([3, 1, 2, 5], 6), "v": RNG.normal(size=24)})
LABELS = pd.Series(np.where(TABLE.v > 0, "up", "down"))
SHUFFLED = RNG.permutation(24)


# ------------------------------------------------------------------------------------------------- y


def test_labels_are_matched_by_index():
    expected = small(sequence="id").fit(TABLE, LABELS)
    turned = LABELS.iloc[SHUFFLED]
    model = small(sequence="id").fit(TABLE, turned)
    assert np.array_equal(model.predict_proba(TABLE), expected.predict_proba(TABLE))
    assert model.score(TABLE, turned) == expected.score(TABLE, LABELS)
    assert np.array_equal(model.log_prob(TABLE, turned), expected.log_prob(TABLE, LABELS))
    assert label_sequences(model, TABLE, turned).truth == label_sequences(model, TABLE, LABELS).truth
    validated = small(sequence="id").fit(TABLE, LABELS, X_val=TABLE, y_val=turned)
    again = small(sequence="id").fit(TABLE, LABELS, X_val=TABLE, y_val=LABELS)
    assert validated.history_["validation_score"] == again.history_["validation_score"]


@pytest.mark.parametrize("index", [pd.date_range("2026", periods=24), pd.MultiIndex.from_product([range(4), range(6)])])
def test_labels_are_matched_by_any_index(index):
    batch = as_batch(TABLE.set_axis(index), sequence="id")
    labels = LABELS.set_axis(index)
    pd.testing.assert_series_equal(batch.aligned(labels.iloc[SHUFFLED]), labels, check_freq=False)


def test_a_frame_of_labels_and_flat_tables():
    with pytest.warns(UserWarning, match="one position"):
        batch = as_batch(TABLE[["v"]])
    assert batch.aligned(LABELS.iloc[::-1].to_frame())[0].tolist() == LABELS.tolist()


def test_equal_indexes_may_repeat():
    index = np.tile(np.arange(6), 4)
    by_place = small(sequence="id").fit(TABLE, LABELS.to_numpy())
    model = small(sequence="id").fit(TABLE.set_axis(index), LABELS.set_axis(index))
    assert np.array_equal(model.predict_proba(TABLE), by_place.predict_proba(TABLE))


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        (range(24), range(100, 124), r"row 0 of X has 0, which y lacks\. .* or pass y\.to_numpy\(\) if"),
        (range(24), [*range(23), 99], "row 23 of X has 23, which y lacks"),
        (list("abcdefghijklmnopqrstuvwx"), range(24), "row 0 of X has 'a', which y lacks"),
        (range(24), [0, 0, *range(2, 24)], r"some of y repeat\. .*y\.to_numpy\(\)"),
        ([0, *range(23)], range(24), "some of X repeat"),
        (np.tile(np.arange(6), 4), np.repeat(np.arange(6), 4), "differ in order, and some of y repeat"),
    ],
)
def test_indexes_that_cannot_be_matched(x, y, match):
    with pytest.raises(InputError, match=match):
        small(sequence="id").fit(TABLE.set_axis(x), LABELS.set_axis(y))
    small(sequence="id").fit(TABLE.set_axis(x), LABELS.set_axis(y).to_numpy())


def test_lists_of_tables_and_series():
    tables = [part[["v"]] for _, part in TABLE.groupby("id", sort=False)]
    labels = [LABELS[part.index] for part in tables]
    expected = small().fit(tables, [part.tolist() for part in labels])
    model = small().fit(tables, [part.iloc[::-1] for part in labels])
    assert all(map(np.array_equal, model.predict_proba(tables), expected.predict_proba(tables)))
    with pytest.raises(InputError, match=r"X\[1\] and y\[1\] have different .* pass y\[1\]\.to_numpy\(\)"):
        small().fit(tables, [labels[0], labels[1].reset_index(drop=True), *labels[2:]])


# --------------------------------------------------------------------------------------------- the order of rows


def test_an_index_that_decreases_is_warned_of_once():
    model = small(sequence="id").fit(TABLE, LABELS)
    for run in (
        lambda: HMM(sequence="id").fit(TABLE.iloc[::-1], LABELS.iloc[::-1]),
        lambda: model.predict(TABLE.iloc[::-1]),
        lambda: model.score(TABLE.iloc[::-1], LABELS.iloc[::-1]),
    ):
        with pytest.warns(UserWarning, match="index of X") as found:
            run()
        assert len(found) == 1
        message = str(found[0].message)
        assert "decreases inside a sequence: sequence 0, position 1 (row 1 of the table) has 22 after 23" in message
        assert "X.sort_index()" in message
        assert "X.reset_index(drop=True)" in message
        assert found[0].filename == __file__


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2026", periods=24)[::-1],
        pd.date_range("2026", periods=24, tz="UTC")[::-1],
        pd.MultiIndex.from_product([list("wxyz"), [2.0, 1.5, 1, 0.5, 0.25, 0]]),
    ],
)
def test_times_and_levels_decrease_as_well(index):
    with pytest.warns(UserWarning, match="decreases inside a sequence: sequence 0, position 1"):
        as_batch(TABLE.set_axis(index), sequence="id")


@pytest.mark.parametrize(
    "index",
    [
        np.tile(np.arange(6), 4),
        np.repeat([3, 2, 1, 0], 6) * 10 + np.tile([0, 1, 1, 2, 3, 4], 4),
        pd.MultiIndex.from_product([list("zyxw"), range(6)]),
        list("abcdefghijklmnopqrstuvwx")[::-1],
    ],
    ids=["each from 0", "decreasing between sequences", "levels", "words"],
)
def test_order_within_sequences_is_all_that_counts(index):  # warnings are errors here
    as_batch(TABLE.set_axis(index), sequence="id")


def test_interleaved_sequences_and_lists_of_tables():
    order = np.argsort(np.tile(np.arange(6), 4), kind="stable")
    as_batch(TABLE.iloc[order], sequence="id")  # the index falls from row to row, but not inside a sequence
    tables = [part[["v"]] for _, part in TABLE.groupby("id", sort=False)]
    as_batch(tables)
    with pytest.warns(UserWarning, match="sequence 2, position 1 has 16 after 17"):
        as_batch([*tables[:2], tables[2].iloc[::-1], tables[3]])


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (pd.IntervalIndex.from_arrays(np.arange(24), np.arange(24) + 5), pd.RangeIndex(24)),  # overlapping
        (pd.MultiIndex.from_product([range(2), range(3), range(4)]), pd.MultiIndex.from_product([range(4), range(6)])),
        (pd.Index(np.arange(24), dtype="uint8"), pd.Index([None, *range(23)], dtype="Int64")),
    ],
    ids=["intervals", "levels", "missing"],
)
def test_indexes_that_pandas_cannot_compare(then, now):
    X, y = table_of(then), np.tile(["a", "b"], 12)
    model = TreeCRF(sequence="id", max_iter=2, early_stopping=False, window=0, potentials="joint").fit(X, y)
    assert len(model.predict(X)) == len(model.predict(table_of(now))) == 24
    with pytest.raises(InputError, match="have different pandas indexes"):
        model.fit(X, pd.Series(y, index=now))


def table_of(index):
    return pd.DataFrame({"id": np.repeat(range(4), 6), "x": np.arange(24.0)}, index=index)


def test_missing_times_do_not_decrease():
    times = pd.DatetimeIndex(["2026-01-01", "2026-01-02", None, "2026-01-03"])
    as_batch(pd.DataFrame({"id": [1, 1, 1, 1], "x": [1.0, 2, 3, 4]}, index=times), sequence="id")
