"""Scores of labels and spans against slow, independent counts."""

import os
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqboost.evaluation import (
    accuracy,
    calibration,
    confusion,
    evaluate,
    label_scores,
    mcnemar,
    permutation_test,
    sequence_accuracy,
    span_scores,
)
from seqboost.exceptions import InputError, InputTypeError, ParameterError
from seqboost.files import convert_tags, spans_of


def conlleval_counts(true, predicted):
    """conlleval's own loop over the lines of a file, tag by tag, with its two tables of conditions written out.

    Sentences are separated by a boundary line, whose tag is O. Returns the numbers of true, predicted and right chunks
    of each type.
    """

    def split(tag):
        return (tag, "") if "-" not in tag else tuple(tag.split("-", 1))

    def ends(before, tag, before_type, kind):
        if (before, tag) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("B", "S"), ("I", "S")}:
            return True
        if before in ("E", "S"):
            return True
        return before not in ("O", ".") and before_type != kind

    def starts(before, tag, before_type, kind):
        if tag in ("B", "S"):
            return True
        if (before, tag) in {("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"), ("O", "E"), ("O", "I")}:
            return True
        return tag not in ("O", ".") and before_type != kind

    lines = []
    for t, p in zip(true, predicted, strict=True):
        lines += [*zip(t, p, strict=True), ("O", "O")]
    n_true, n_found, n_right = {}, {}, {}
    in_correct = False
    last_t, last_t_type, last_p, last_p_type = "O", "", "O", ""
    for t_tag, p_tag in lines:
        t, t_type = split(t_tag)
        p, p_type = split(p_tag)
        if in_correct:
            t_ends = ends(last_t, t, last_t_type, t_type)
            p_ends = ends(last_p, p, last_p_type, p_type)
            if t_ends and p_ends and last_t_type == last_p_type:
                in_correct = False
                n_right[last_t_type] = n_right.get(last_t_type, 0) + 1
            elif t_ends != p_ends or t_type != p_type:
                in_correct = False
        t_starts = starts(last_t, t, last_t_type, t_type)
        p_starts = starts(last_p, p, last_p_type, p_type)
        if t_starts and p_starts and t_type == p_type:
            in_correct = True
        if t_starts:
            n_true[t_type] = n_true.get(t_type, 0) + 1
        if p_starts:
            n_found[p_type] = n_found.get(p_type, 0) + 1
        last_t, last_t_type, last_p, last_p_type = t, t_type, p, p_type
    return n_true, n_found, n_right


def as_counts(scores):
    kept = {s.name: (s.n_true, s.n_predicted, s.n_right) for s in scores.by_type}
    return {kind: counts for kind, counts in kept.items() if any(counts)}


def oracle(true, predicted):
    n_true, n_found, n_right = conlleval_counts(true, predicted)
    kinds = sorted(set(n_true) | set(n_found))
    return {kind: tuple(d.get(kind, 0) for d in (n_true, n_found, n_right)) for kind in kinds}


def random_tags(rng, letters, lengths, kinds=("NP", "VP", "PP")):
    tags = ["O", *(f"{letter}-{kind}" for letter in letters for kind in kinds)]
    return [[str(tag) for tag in rng.choice(tags, n)] for n in lengths]


@pytest.mark.parametrize(("scheme", "letters"), [("IOB1", "BI"), ("IOB2", "BI"), ("BIOES", "BIES")])
def test_spans_agree_with_conlleval_on_broken_tags(scheme, letters):
    rng = np.random.default_rng(0)
    for _ in range(300):
        lengths = rng.integers(1, 12, size=rng.integers(1, 6))
        true, predicted = random_tags(rng, letters, lengths), random_tags(rng, letters, lengths)
        # mostly right, as real output is
        predicted = [[t if rng.random() < 0.6 else p for t, p in zip(*pair, strict=True)]
                     for pair in zip(true, predicted, strict=True)]  # fmt: skip
        assert as_counts(span_scores(true, predicted, scheme)) == oracle(true, predicted)


@pytest.mark.parametrize(("scheme", "letters"), [("IOB2", "BI"), ("BIOES", "BIES")])
def test_spans_agree_with_seqeval(scheme, letters):
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = np.random.default_rng(1)
    for _ in range(50):
        lengths = rng.integers(1, 12, size=4)
        true, predicted = random_tags(rng, letters, lengths), random_tags(rng, letters, lengths)
        predicted[0] = true[0] = ["B-NP", "I-NP"] if scheme == "IOB2" else ["B-NP", "E-NP"]  # something is right
        found = span_scores(true, predicted, scheme).overall
        assert found.f1 == pytest.approx(seqeval.f1_score(true, predicted))


def test_conlleval_example_by_hand():
    true = [["B-NP", "I-NP", "O", "B-VP", "B-NP"]]
    predicted = [["B-NP", "I-NP", "I-VP", "I-VP", "I-NP"]]
    found = span_scores(true, predicted, "IOB2")
    assert (found.overall.n_true, found.overall.n_predicted, found.overall.n_right) == (3, 3, 2)
    assert found.overall.f1 == pytest.approx(2 / 3)


@pytest.mark.skipif(not os.path.isdir(os.environ.get("SEQBOOST_DATA", "")), reason="SEQBOOST_DATA names no folder")
def test_spans_of_a_model_of_conll2000():
    from seqboost import TreeCRF
    from seqboost.datasets import load_conll2000

    split = load_conll2000().split()
    X = [[{"word": word.lower(), "pos": pos} for word, pos in sentence] for sentence in split.X_train[:300]]
    new = [[{"word": word.lower(), "pos": pos} for word, pos in sentence] for sentence in split.X_test[:300]]
    settings = {"max_iter": 15, "window": 1, "init": "labels", "early_stopping": False, "random_state": 0}
    model = TreeCRF(**settings).fit(X, split.y_train[:300])
    true, predicted = [y.tolist() for y in split.y_test[:300]], [y.tolist() for y in model.predict(new)]
    broken = sum(  # posterior decoding knows no scheme: I follows O or another type now and then
        b.startswith("I-") and a[1:] != b[1:] for y in predicted for a, b in zip(["O", *y], y, strict=False)
    )
    assert broken > 0
    found = span_scores(true, predicted, "IOB2")
    assert found.overall.f1 > 0.65  # a small model; what matters is that the counts agree
    assert as_counts(found) == oracle(true, predicted)
    seqeval = pytest.importorskip("seqeval.metrics")
    assert found.overall.f1 == pytest.approx(seqeval.f1_score(true, predicted))


tags = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), min_size=0, max_size=10)


@given(tags, st.sampled_from(["IOB1", "IOB2", "BIOES"]))
@settings(max_examples=200, deadline=None)
def test_conversion_keeps_the_spans(sequence, new):
    assert spans_of(convert_tags(sequence, "IOB1", new), new) == spans_of(sequence, "IOB1")
    assert spans_of(convert_tags(sequence, "IOB2", new), new) == spans_of(sequence, "IOB2")


def test_tags_of_another_scheme_are_refused():
    with pytest.raises(InputError, match=r"position 1 has the label 'E-NP', which is no tag of the scheme IOB2"):
        spans_of(["B-NP", "E-NP"], "IOB2")
    with pytest.raises(ParameterError, match="unknown scheme 'IOB3'"):
        spans_of(["O"], "IOB3")
    with pytest.raises(InputError, match=r"sequence 1, position 0 has the label 'x'"):
        span_scores([["O"], ["x"]], [["O"], ["O"]], "IOB2")


def test_labels_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    true = [rng.integers(0, 4, n) for n in (1, 5, 30)]
    predicted = [np.where(rng.random(len(y)) < 0.6, y, rng.integers(0, 5, len(y))) for y in true]
    flat, flat_predicted = np.concatenate(true), np.concatenate(predicted)
    counted = confusion(true, predicted)
    assert counted.counts.tolist() == metrics.confusion_matrix(flat, flat_predicted, labels=counted.labels).tolist()
    assert accuracy(true, predicted) == pytest.approx(metrics.accuracy_score(flat, flat_predicted))
    expected = metrics.precision_recall_fscore_support(flat, flat_predicted, labels=counted.labels, zero_division=0)
    scores = label_scores(counted)
    for name, values in zip(("precision", "recall", "f1", "n_true"), expected, strict=True):
        np.testing.assert_allclose([getattr(score, name) for score in scores], values)


def test_unobserved_labels_do_not_count():
    true, predicted = [["a", None, "b"], [None]], [["a", "x", "a"], ["b"]]
    found = evaluate(true, predicted)
    assert found.n_positions == 2
    assert found.accuracy == 0.5
    assert found.sequence_accuracy == 0.0
    assert found.confusion.labels == ("a", "b")
    assert found.confusion.worst() == [("b", "a", 1)]
    with pytest.raises(InputError, match="no observed label"):
        accuracy([[None]], [["a"]])
    with pytest.raises(InputError, match="no observed label"):
        sequence_accuracy([[None]], [["a"]])


def test_wrong_shapes_are_named():
    with pytest.raises(InputError, match=r"y_true has 2 sequences but y_pred has 1"):
        accuracy([["a"], ["b"]], [["a"]])
    with pytest.raises(InputError, match=r"y_true\[1\] has 1 labels but y_pred\[1\] has 2"):
        accuracy([["a"], ["b"]], [["a"], ["b", "b"]])


def test_calibration_against_a_plain_loop():
    rng = np.random.default_rng(3)
    proba = [rng.dirichlet([1, 1, 1], n) for n in (1, 40, 60)]
    true = [rng.integers(0, 3, len(p)) for p in proba]
    found = calibration(true, proba, [0, 1, 2], n_bins=5)
    error = n = 0.0
    rows = [(p, y) for part, labels in zip(proba, true, strict=True) for p, y in zip(part, labels, strict=True)]
    for b in range(5):
        inside = [(p.max(), p.argmax() == y) for p, y in rows if b / 5 <= p.max() < (b + 1) / 5]
        if inside:
            conf, hit = (float(np.mean(x)) for x in zip(*inside, strict=True))
            error += len(inside) / len(rows) * abs(conf - hit)
            n += 1
    assert found.error == pytest.approx(error)
    assert len(found.bins) == n
    assert sum(b.n for b in found.bins) == 101
    certain = calibration([[0, 0]], [np.array([[1.0, 0.0], [1.0, 0.0]])], [0, 1])
    assert certain.error == 0.0


def test_everything_at_once_is_ready_for_json():
    import json

    proba = [np.array([[0.9, 0.1], [0.2, 0.8]])]
    found = evaluate(
        [["B-X", "O"]], [["B-X", "O"]], scheme="IOB2", proba=proba, classes=["B-X", "O"], log_prob=[np.log(0.72)]
    )
    document = json.loads(json.dumps(found.to_dict()))
    assert document["spans"]["overall"]["f1"] == 1.0
    assert document["log_likelihood"] == pytest.approx(np.log(0.72) / 2)
    assert document["labels"][0]["name"] == "B-X"


FORMS = [
    lambda y: y,
    lambda y: tuple(map(tuple, y)),
    lambda y: ["".join(labels) for labels in y],
    lambda y: [np.array(labels) for labels in y],
    lambda y: pd.Series(y),
    lambda y: [pd.Series(labels, dtype="category") for labels in y],
    lambda y: pl.Series(y),
    lambda y: pa.array(y),
    lambda y: (iter(labels) for labels in y),
]


@pytest.mark.parametrize("form", FORMS)
def test_labels_come_in_all_forms_of_fit(form):
    true, guess = [["a", "b"], ["a"]], [["a", "a"], ["a"]]
    assert accuracy(form(true), form(guess)) == pytest.approx(2 / 3)
    assert evaluate(form(true), form(guess)).sequence_accuracy == 0.5
    assert mcnemar(form(true), true, guess).only_a == 1


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, np.ma.masked, Decimal("sNaN")])
def test_all_kinds_of_missing_labels_are_unobserved(missing):
    assert accuracy([["a", missing]], [["a", "b"]]) == 1.0
    assert confusion([["a", missing]], [["a", "b"]]).labels == ("a",)


NO_LABELLINGS = [None, 3, {"a": 1}, [3], [None], [{"a"}], [b"ab"], [["a"], 0.5], np.array(3), pd.NA, np.eye(2).data]


@pytest.mark.parametrize("labels", NO_LABELLINGS)
def test_what_is_no_labelling_is_refused(labels):
    for call in (accuracy, sequence_accuracy, confusion, evaluate, lambda a, b: span_scores(a, b, "IOB2")):
        with pytest.raises((InputError, InputTypeError), match="y_true"):
            call(labels, [["a"]])
        with pytest.raises((InputError, InputTypeError), match="y_pred"):
            call([["a"]], labels)
    for call in (mcnemar, permutation_test):
        with pytest.raises((InputError, InputTypeError), match=r"y_true|b"):
            call([["a"]], [["a"]], labels)


def test_labels_that_are_not_hashable_are_refused():
    with pytest.raises(InputTypeError, match=r"y_pred holds \[1\], a list, among the labels of sequence 1; a"):
        confusion([["a"], ["a"]], [["a"], [[1]]])


@pytest.mark.parametrize(
    ("proba", "match"),
    [
        (None, "proba must hold an array"),
        ([["a"]], "must hold"),
        ([[[0.5, 0.5j]]], "must hold"),
        ([], "proba has 0 arrays but y_true has 1 sequences"),
        ([[[0.5]]], r"proba\[0\] has shape \(1, 1\); expected \(1, 2\)"),
        ([[[0.5, np.nan]]], "other values than probabilities"),
        ([[[0.5, 1.5]]], "other values than probabilities"),
    ],
)
def test_what_are_no_probabilities_is_refused(proba, match):
    with pytest.raises((InputError, InputTypeError), match=match):
        calibration([["a"]], proba, ["a", "b"])


def test_other_arguments_that_make_no_sense():
    with pytest.raises(InputTypeError, match="classes is 3, a int; expected the labels of the columns"):
        calibration([["a"]], [[[1.0]]], 3)
    with pytest.raises(InputError, match=r"log_prob has shape \(2,\); expected \(1,\)"):
        evaluate([["a"]], [["a"]], log_prob=[-1.0, -2.0])
    with pytest.raises(InputTypeError, match="log_prob must hold numbers"):
        evaluate([["a"]], [["a"]], log_prob=["-1"])
    with pytest.raises(ParameterError, match="random_state=-1: expected a seed"):
        permutation_test([["a"]], [["a"]], [["a"]], random_state=-1)


def test_tuples_as_classes():
    found = calibration([[("a", 1)]], [[[0.9, 0.1]]], [("a", 1), ("b", 2)])
    assert found.bins[0].accuracy == 1.0


def test_tuples_beside_numpy_scalars_are_compared_as_labels():
    true = [[(1, 2), np.int64(3), 2**80], [np.int64(3)]]
    said = [np.array([(1, 2), 3, 2**80, None], dtype=object)[:3], [3]]
    assert accuracy(true, said) == 1.0
    assert sequence_accuracy(true, [[(1, 2), 3, 2**81], [3]]) == 0.5
