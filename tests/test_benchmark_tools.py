"""The benchmarks' own tools: chains by enumeration, span F1 against seqeval, McNemar, window rows, reports."""

import itertools
import json
import warnings

import numpy as np
import pytest
from scipy import sparse

import report
from data import crfsuite_attributes, indicator_rows
from measure import exponent, sticky_sequences
from peers import Chain, _hold_out, cut_long, forward_backward, span_f1, span_f1_test, viterbi, window_rows


@pytest.mark.parametrize("length", [1, 2, 5])
def test_chain_decoders_against_all_paths(length):
    rng = np.random.default_rng(length)
    n_labels = 3
    scores = rng.normal(0, 2, size=(length, n_labels))
    start, transition = rng.normal(size=n_labels), rng.normal(size=(n_labels, n_labels))
    paths = list(itertools.product(range(n_labels), repeat=length))

    def total(path):
        moves = sum(transition[a, b] for a, b in itertools.pairwise(path))
        return start[path[0]] + scores[np.arange(length), path].sum() + moves

    totals = np.array([total(path) for path in paths])
    weights = np.exp(totals - totals.max())
    marginals = np.zeros((length, n_labels))
    for path, weight in zip(paths, weights / weights.sum(), strict=True):
        marginals[np.arange(length), path] += weight
    assert tuple(viterbi(scores, start, transition)) == paths[int(totals.argmax())]
    np.testing.assert_allclose(forward_backward(scores, start, transition), marginals, atol=1e-12)


def test_chain_counts_are_distributions():
    chain = Chain.count([np.array([0, 1, 1]), np.array([2])], 3)
    np.testing.assert_allclose(np.exp(chain.log_transition).sum(1), 1)
    np.testing.assert_allclose(np.exp(chain.log_start), np.array([2, 1, 2]) / 5)


def test_span_f1_equals_seqeval():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from seqeval.metrics import f1_score
    tags = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]
    rng = np.random.default_rng(0)
    y = [list(rng.choice(tags, size=rng.integers(1, 15))) for _ in range(60)]
    predicted = [list(np.where(rng.random(len(t)) < 0.3, rng.choice(tags, size=len(t)), t)) for t in y]
    assert span_f1(y, predicted) == pytest.approx(f1_score(y, predicted))
    assert span_f1(y, y) == 1.0


def test_span_f1_of_two_labellings_by_exchange():
    rng = np.random.default_rng(0)
    y = [["B-NP", "I-NP", "O"]] * 40
    good, bad = y, [["O", "O", "O"] if rng.random() < 0.5 else tags for tags in y]
    assert span_f1_test(y, good, good, 99) == 1.0
    assert span_f1_test(y, good, bad, 999) < 0.01
    one = [["O", "O", "O"] if i in (3, 9) else tags for i, tags in enumerate(y)]
    other = [["O", "O", "O"] if i == 5 else tags for i, tags in enumerate(y)]
    # Of 8 ways to exchange the three sentences that differ, all have a difference of one span at least.
    assert span_f1_test(y, one, other, 99) == 1.0


def test_window_rows_stop_at_the_ends_of_sequences():
    rows, categorical, known = window_rows(["ab", "c"], 1)
    assert categorical
    assert known == [["a", "b", "c"]]
    np.testing.assert_array_equal(rows, [[3, 0, 1], [0, 1, 3], [3, 2, 3]])
    unknown, _, _ = window_rows(["az"], 1, known)
    np.testing.assert_array_equal(unknown, [[3, 0, -1], [0, -1, 3]])
    numeric, categorical, _ = window_rows([np.array([[1.0], [2.0]]), np.array([[5.0]])], 1)
    assert not categorical
    np.testing.assert_array_equal(numeric, [[np.nan, 1, 2], [1, 2, np.nan], [np.nan, 5, np.nan]])
    wide, _, _ = window_rows([sparse.csr_array(np.eye(2, dtype=np.float32))], 1)
    np.testing.assert_array_equal(wide.toarray(), [[0, 0, 1, 0, 0, 1], [1, 0, 0, 1, 0, 0]])


def test_hold_out_takes_whole_sequences_and_cuts_only_few_long_ones():
    X, y = [np.full((3, 1), i) for i in range(10)], [np.full(3, i) for i in range(10)]
    X_fit, y_fit, X_held, y_held = _hold_out(X, y)
    assert (len(X_fit), len(X_held)) == (8, 2)
    assert {int(labels[0]) for labels in y_fit}.isdisjoint(int(labels[0]) for labels in y_held)
    pieces, labels = cut_long([np.arange(50)[:, None]], [np.arange(50)])
    assert [len(piece) for piece in pieces] == [5] * 10
    np.testing.assert_array_equal(np.concatenate(labels), np.arange(50))


def test_indicator_rows_of_crfsuite_attributes():
    sentence = [("The", "DT"), ("cat", "NN")]
    attributes = crfsuite_attributes(sentence)
    assert {"w[0]=The", "w[1]=cat", "w[0]|w[1]=The|cat", "pos[0]|pos[1]=DT|NN", "__BOS__"} <= set(attributes[0])
    train, test, names = indicator_rows([attributes], [[["w[0]=The", "never seen"]]])
    assert train[0].sum() == sum(map(len, attributes))
    assert [names[i] for i in test[0].indices] == ["w[0]=The"]


def test_exponent_and_made_up_sequences():
    assert exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)
    X, y = sticky_sequences(1000, 4, 3)
    assert [x.shape for x in X] == [(100, 4)] * 10
    assert {int(label) for labels in y for label in labels} == {0, 1, 2}


def test_report_replaces_rows_by_key(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.write("accuracy", [{"set": "a", "value": 1.0}, {"set": "b", "value": 2.0}], key=("set",))
    report.write("accuracy", [{"set": "b", "value": 3.0}], key=("set",), note="What is asked.")
    stored = json.loads((tmp_path / "accuracy.json").read_text(encoding="utf-8"))
    assert [(row["set"], row["value"]) for row in stored["rows"]] == [("a", 1.0), ("b", 3.0)]
    assert "| b | 3 |" in (tmp_path / "accuracy.md").read_text(encoding="utf-8")


def test_rows_of_a_report_remember_their_day(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    (tmp_path / "table.json").write_text(json.dumps({"date": "2001-02-03", "rows": [{"set": "a"}]}), encoding="utf-8")
    text = report.write("table", [{"set": "b"}], key=("set",)).read_text(encoding="utf-8")
    assert "\n| set |\n" in text
    assert "\n2001-02-03 to 20" in text
    days = [row["date"] for row in json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))["rows"]]
    assert days[0] == "2001-02-03" < days[1]
    text = report.write("table", [{"set": "a"}], key=("set",)).read_text(encoding="utf-8")
    assert f"\n{days[1]}; " in text
