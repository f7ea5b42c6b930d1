"""compare: the table agrees with what labellers say when they are asked one by one."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from treecrf_data import chains

from seqboost import HMM, LinearCRF, VotedPerceptron
from seqboost.evaluation import compare, mcnemar


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


def test_tables_and_unobserved_labels(data, capsys):
    X, y, X_test, y_test = data

    def table(X, seed):
        frame = pd.DataFrame(np.vstack(X), columns=["a", "b"])
        frame["who"] = np.repeat(np.arange(len(X)), [len(x) for x in X])
        return frame, np.random.default_rng(seed).permutation(len(frame))

    frame, _ = table(X, 0)
    test, _ = table(X_test, 1)
    labels, truth = np.concatenate(y), np.concatenate(y_test).astype(object)
    by_table = compare({"h": HMM(sequence="who")}, frame, labels, test, truth, verbose=True)
    assert capsys.readouterr().out.startswith("h: ")
    by_list = compare({"h": HMM()}, *data)
    assert by_table.rows[0].accuracy == by_list.rows[0].accuracy
    assert by_table.rows[0].sequence_accuracy == by_list.rows[0].sequence_accuracy
    hidden = [[None, *part[1:]] for part in y_test]
    model = HMM().fit(X, y)
    assert compare([HMM()], X, y, X_test, hidden).rows[0].accuracy == pytest.approx(model.score(X_test, hidden))


def test_errors(data, monkeypatch, found):
    X, y, X_test, y_test = data
    with pytest.raises(ValueError, match="labellers must be a dict of names to labellers, or a list"):
        compare(HMM(), *data)
    with pytest.raises(ValueError, match="labellers is empty"):
        compare([], *data)
    with pytest.raises(ValueError, match="labellers\\['a'\\] is 3, which is no labeller"):
        compare({"a": 3}, *data)
    with pytest.raises(ValueError, match=r"y_test\[0\] has 1 labels but X_test has"):
        compare([HMM()], X, y, X_test, [["a"], *y_test[1:]])
    with pytest.raises(ValueError, match="y_test has no observed label"):
        compare([HMM()], X, y, X_test, [[None] * len(part) for part in y_test])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"seqboost\[tables\]"):
        found.to_frame()
