"""compare: the table agrees with what labellers say when they are asked one by one."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from treecrf_data import chains

from seqboost import HMM, LinearCRF, VotedPerceptron, as_batch
from seqboost.evaluation import compare, label_sequences, mcnemar


@pytest.fixture(scope="module")
def data():
    return (*chains(40, lengths=(2, 9)), *chains(25, lengths=(2, 9), seed=1))


@pytest.fixture(scope="module")
def found(data):
    labellers = {"chain": HMM(), "order 0": HMM(order=0), "perceptron": VotedPerceptron(random_state=0)}
    return compare(labellers, *data)


def test_rows_are_what_labellers_say_by_themselves(found, data):
    X, y, X_test, y_test = data
    by_name = {row.name: row for row in found.rows}
    assert [row.accuracy for row in found.rows] == sorted((row.accuracy for row in found.rows), reverse=True)
    best = found.rows[0].name
    for name, model in (("chain", HMM()), ("order 0", HMM(order=0))):
        model.fit(X, y)
        row = by_name[name]
        assert row.accuracy == pytest.approx(model.score(X_test, y_test))
        labels = model.predict(X_test)
        whole = [list(a) == list(b) for a, b in zip(labels, y_test, strict=True)]
        assert row.sequence_accuracy == pytest.approx(np.mean(whole))
        expected = 1.0 if name == best else mcnemar(y_test, found.predictions[best], labels).pvalue
        assert row.pvalue == pytest.approx(expected)
        assert row.fit_seconds > 0
        assert row.predict_seconds > 0
    assert set(found.models) == set(by_name)
    assert found.models["chain"].classes_.tolist() == ["a", "b", "c"]


def test_forms_of_the_table(found):
    text = str(found).splitlines()
    assert text[0].split()[:4] == ["labeller", "accuracy", "sequence", "accuracy"]
    assert text[0].endswith("p (McNemar)")
    assert len(text) == 4
    assert text[1].endswith("best")
    assert repr(found) == str(found)
    markdown = found.to_markdown().splitlines()
    assert markdown[0].startswith("| labeller | accuracy |")
    assert markdown[1] == "| --- | --- | --- | --- | --- | --- | --- |"
    assert len(markdown) == 5
    frame = found.to_frame()
    assert frame.index.tolist() == [row.name for row in found.rows]
    assert frame["accuracy"].tolist() == [row.accuracy for row in found.rows]


def test_memory_is_noticed(data):
    class Large(HMM):
        def fit(self, X, y, sample_weight=None):
            block = np.ones(30_000_000)
            block += 1
            return super().fit(X, y, sample_weight)

    memory = compare([Large()], *data).rows[0].memory_mb
    assert np.isnan(memory) or memory > 150


def test_lists_get_names_of_classes(data):
    names = {row.name for row in compare([HMM(), LinearCRF(max_iter=5), HMM(order=0), HMM(order=2)], *data).rows}
    assert names == {"HMM", "LinearCRF", "HMM 2", "HMM 3"}


def test_tables_and_unobserved_labels(data, caplog):
    X, y, X_test, y_test = data

    def table(X, seed):
        frame = pd.DataFrame(np.vstack(X), columns=["a", "b"])
        frame["who"] = np.repeat(np.arange(len(X)), [len(x) for x in X])
        return frame, np.random.default_rng(seed).permutation(len(frame))

    frame, _ = table(X, 0)
    test, _ = table(X_test, 1)
    labels, truth = np.concatenate(y), np.concatenate(y_test).astype(object)
    by_table = compare({"h": HMM(sequence="who")}, frame, labels, test, truth, verbose=True)
    assert caplog.messages[0].startswith("h: ")
    by_list = compare({"h": HMM()}, *data)
    assert by_table.rows[0].accuracy == by_list.rows[0].accuracy
    assert by_table.rows[0].sequence_accuracy == by_list.rows[0].sequence_accuracy
    hidden = [[None, *part[1:]] for part in y_test]
    model = HMM().fit(X, y)
    assert compare([HMM()], X, y, X_test, hidden).rows[0].accuracy == pytest.approx(model.score(X_test, hidden))


@pytest.mark.parametrize("names", [("walking", "resting", "driving"), ("go", "resting", "up")])
def test_labels_of_tables_are_whole_strings(data, names, monkeypatch):
    X, y, X_test, y_test = data
    named = dict(zip("abc", names, strict=True))
    tables = []
    for parts in (X, X_test):
        table = pd.DataFrame(np.vstack(parts), columns=["a", "b"])
        table["who"] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        tables.append(as_batch(table, sequence="who"))
    labels, truth = (np.array([named[label] for part in parts for label in part]) for parts in (y, y_test))
    counted = []
    module = sys.modules["seqboost.evaluation.compare"]
    monkeypatch.setattr(module, "mcnemar", lambda *given: counted.append(mcnemar(*given)) or counted[-1])
    labellers = {"chain": HMM(), "order 0": HMM(order=0)}
    found = compare(labellers, tables[0], labels, tables[1], pd.Series(truth))
    for row in found.rows:
        model = found.models[row.name]
        expected = label_sequences(model, tables[1], truth).evaluate()
        assert (row.accuracy, row.sequence_accuracy) == (expected.accuracy, expected.sequence_accuracy)
        assert row.accuracy == model.score(tables[1], truth)
    best, other = (found.predictions[row.name] for row in found.rows)
    (test,) = counted
    assert test.only_a == ((best == truth) & (other != truth)).sum()
    assert test.only_b == ((best != truth) & (other == truth)).sum()
    by_list = compare(labellers, *data)
    assert [(r.name, r.accuracy, r.pvalue) for r in found.rows] == [
        (r.name, r.accuracy, r.pvalue) for r in by_list.rows
    ]


def test_bad_test_data_stop_it_after_the_first_labeller(data):
    fitted = []

    class Watched(HMM):
        def fit(self, X, y, sample_weight=None):
            fitted.append(self)
            return super().fit(X, y, sample_weight)

    X, y, X_test, y_test = data
    with pytest.raises(ValueError, match="In the test data: y has 24 label sequences but X has 25 sequences"):
        compare([Watched(), Watched()], X, y, X_test, y_test[:-1])
    assert len(fitted) == 1


def test_errors(data, monkeypatch, found):
    X, y, X_test, y_test = data
    with pytest.raises(ValueError, match="labellers must be a dict of names to labellers, or a list"):
        compare(HMM(), *data)
    with pytest.raises(ValueError, match="labellers is empty"):
        compare([], *data)
    with pytest.raises(ValueError, match="labellers\\['a'\\] is 3, which is no labeller"):
        compare({"a": 3}, *data)
    with pytest.raises(ValueError, match=r"In the test data: y\[0\] has 1 labels but X\[0\] has"):
        compare([HMM()], X, y, X_test, [["a"], *y_test[1:]])
    with pytest.raises(ValueError, match="has no observed label to compare with"):
        compare([HMM()], X, y, X_test, [[None] * len(part) for part in y_test])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"seqboost\[tables\]"):
        found.to_frame()
