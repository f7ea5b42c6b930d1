"""Answers as series and frames."""

import importlib
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from seqboost import HMM, SlidingWindow, TreeCRF, as_batch
from seqboost.evaluation import label_sequences
from seqboost.exceptions import MissingExtraError, ParameterError

TABLE = pd.DataFrame(
    {"word": [1, 0] * 6, "letter": list("tboamnaatnoa"), "vowel": [0, 0, 1, 1] * 3}, index=list("lkjihgfedcba")
)


def fitted(transform, **settings):
    model = HMM(sequence="word", **settings).set_output(transform=transform)
    return model.fit(TABLE, "vowel")


def test_pandas_has_the_index_of_the_table():
    model = fitted("pandas")
    labels, proba = model.predict(TABLE), model.predict_proba(TABLE)
    arrays = fitted("default")
    pd.testing.assert_series_equal(labels, pd.Series(arrays.predict(TABLE), TABLE.index, name="vowel"))
    expected = pd.DataFrame(arrays.predict_proba(TABLE), TABLE.index, columns=[0, 1])
    pd.testing.assert_frame_equal(proba, expected)
    assert model.score(TABLE, "vowel") == arrays.score(TABLE, "vowel")
    found, same = label_sequences(model, TABLE, "vowel"), label_sequences(arrays, TABLE, "vowel")
    assert found.predicted == same.predicted


def test_polars():
    model, table = fitted("polars"), pl.from_pandas(TABLE)
    arrays = fitted("default")
    assert model.predict(table).equals(pl.Series("vowel", arrays.predict(TABLE)))
    proba = model.predict_proba(table)
    assert proba.columns == ["0", "1"]
    np.testing.assert_array_equal(proba.to_numpy(), arrays.predict_proba(TABLE))


def test_lists_give_lists():
    X, y = ["ab", "bba"], [[(1, 2), "x"], ["x", "x", (1, 2)]]
    model = HMM().set_output(transform="pandas").fit(X, y)
    assert [part.tolist() for part in model.predict(X)] == [list(labels) for labels in y]
    assert {part.name for part in model.predict(X)} == {"label"}
    assert model.predict_proba(X)[1].columns.tolist() == model.classes_.tolist()
    model.set_output(transform="polars")
    assert [part.to_list() for part in model.predict(X)] == [list(labels) for labels in y]
    assert model.predict_proba(X)[0].columns == [str(label) for label in model.classes_.tolist()]
    tables = [part.drop(columns="word") for _, part in TABLE.groupby("word")]
    model = HMM().set_output(transform="pandas").fit(tables, "vowel")
    for part, table in zip(model.predict(tables), tables, strict=True):
        assert part.index.equals(table.index)
    assert model.predict(as_batch(tables, label="vowel")[[1]])[0].index.equals(tables[1].index)


def test_flat_tables_and_classifiers_of_scikit_learn():
    table = TABLE.drop(columns="word")
    with pytest.warns(UserWarning, match="one position"):
        model = SlidingWindow().set_output(transform="pandas").fit(table, "vowel")
    assert model.predict_proba(table).index.equals(model.predict(table).index)


def test_the_choice_goes_with_clones_and_pickles():
    model = fitted("pandas")
    assert isinstance(pickle.loads(pickle.dumps(model)).predict(TABLE), pd.Series)
    assert isinstance(clone(model).fit(TABLE, "vowel").predict(TABLE), pd.Series)
    assert isinstance(model.set_output().predict(TABLE), pd.Series)
    assert isinstance(model.set_output(transform=None).predict(TABLE), pd.Series)
    assert isinstance(model.set_output(transform="default").predict(TABLE), np.ndarray)
    assert isinstance(TreeCRF().set_output(transform="polars"), TreeCRF)


@pytest.mark.parametrize("transform", ["numpy", 3, ["pandas"], True])
def test_other_containers_are_refused(transform):
    with pytest.raises(ParameterError, match=r"expected 'pandas', 'polars', 'default' or None"):
        HMM().set_output(transform=transform)


def test_labels_that_are_written_alike_cannot_name_columns_of_polars():
    model = HMM().set_output(transform="polars").fit(["ab"] * 3, [[1, "1"]] * 3)
    with pytest.raises(ParameterError, match=r"written alike; use set_output\(transform='pandas'\)"):
        model.predict_proba(["ab"])


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_library_that_is_not_installed(name, monkeypatch):
    def missing(module, *args):
        raise ImportError(f"no {module}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=rf"needs {name}, which is not installed: pip install \"seqboost\[tab"):
        HMM().set_output(transform=name)
