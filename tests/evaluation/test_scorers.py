"""Scorers of sequences in scikit-learn's cross-validation and searches, on lists and tables."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate

from seqboost import HMM, SlidingWindow
from seqboost.evaluation import SequenceKFold, evaluate, label_sequences, sequence_accuracy, sequence_scorer
from seqboost.evaluation.scorers import NAMES
from seqboost.exceptions import InputError, ParameterError

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(1, 9, 30)
X = [RNG.normal(size=(n, 2)) for n in LENGTHS]
Y = [np.where(rows[:, 0] + 0.7 * RNG.normal(size=len(rows)) > 0, "run", "rest").tolist() for rows in X]
PLAIN = sorted(set(NAMES) - {"span_f1"})


def test_cross_validate_takes_several_on_lists():
    scoring = {name: sequence_scorer(name) for name in PLAIN}
    found = cross_validate(HMM(), X, Y, scoring=scoring, cv=KFold(3), return_estimator=True)
    for fold, (_, test) in enumerate(KFold(3).split(X)):
        X_test, y_test = [X[i] for i in test], [Y[i] for i in test]
        model = found["estimator"][fold]
        expected = label_sequences(model, X_test, y_test).evaluate()
        assert found["test_accuracy"][fold] == pytest.approx(model.score(X_test, y_test))
        assert found["test_macro_f1"][fold] == pytest.approx(expected.macro_f1)
        assert found["test_balanced_accuracy"][fold] == pytest.approx(np.mean([s.recall for s in expected.labels]))
        assert found["test_sequence_accuracy"][fold] == pytest.approx(expected.sequence_accuracy)
        assert found["test_log_likelihood"][fold] == pytest.approx(expected.log_likelihood)
        truth, proba = np.concatenate(y_test), np.concatenate(model.predict_proba(X_test))
        assert found["test_neg_log_loss"][fold] == pytest.approx(-log_loss(truth, proba, labels=model.classes_))


def test_tables_and_lists_score_the_same():
    table = pd.DataFrame(np.concatenate(X), columns=["a", "b"]).assign(trial=np.repeat(np.arange(len(X)), LENGTHS))
    labels = pd.Series(np.concatenate(Y))
    for name in PLAIN:
        scorer = sequence_scorer(name)
        of_table = cross_val_score(
            HMM(sequence="trial"), table, labels, scoring=scorer, cv=SequenceKFold(3, sequence="trial")
        )
        of_list = cross_val_score(HMM(), X, Y, scoring=scorer, cv=SequenceKFold(3))
        np.testing.assert_allclose(of_table, of_list)


def test_searches_choose_by_a_scorer():
    search = GridSearchCV(HMM(), {"order": [0, 1, 2]}, scoring=sequence_scorer("neg_log_loss"), cv=KFold(3)).fit(X, Y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() < 0
    assert search.score(X, Y) == sequence_scorer("neg_log_loss")(search.best_estimator_, X, Y)


def test_functions_get_observed_labels_by_sequence():
    told = []

    def worst(y_true, y_pred, at_least=0.0):
        told.append((y_true, y_pred))
        return max(at_least, *(float(np.mean(t != p)) for t, p in zip(y_true, y_pred, strict=True)))

    model = HMM().fit(X, Y)
    y = [[None, *labels[1:]] if i else labels for i, labels in enumerate(Y[:3])]
    scorer = sequence_scorer(worst, greater_is_better=False, at_least=0.25)
    found = scorer(model, X[:3], y)
    true, predicted = told[0]
    seen = [[label for label in labels if label is not None] for labels in y]
    assert [labels.tolist() for labels in true] == [labels for labels in seen if labels]
    assert [len(labels) for labels in predicted] == [len(labels) for labels in true]
    assert found <= -0.25
    assert repr(scorer) == "sequence_scorer(worst, greater_is_better=False, at_least=0.25)"


def test_functions_of_scikit_learn_are_a_line_away():
    def flat_f1(y_true, y_pred):
        return f1_score(np.concatenate(y_true), np.concatenate(y_pred), average="macro")

    model = HMM().fit(X, Y)
    assert sequence_scorer(flat_f1)(model, X, Y) == pytest.approx(sequence_scorer("macro_f1")(model, X, Y))


def test_labels_the_model_does_not_know_are_errors():
    model, y = HMM().fit(X, Y), [["walk"] * len(labels) for labels in Y[:1]] + Y[1:2]
    n_unknown, n_known = len(y[0]), len(y[1])
    right = np.sum(model.predict(X[1:2])[0] == np.array(y[1]))
    assert sequence_scorer("accuracy")(model, X[:2], y) == pytest.approx(right / (n_unknown + n_known))
    assert sequence_scorer("log_likelihood")(model, X[1:2], y[1:]) == pytest.approx(
        model.log_prob(X[1:2], y[1:]).sum() / n_known
    )
    assert sequence_scorer("neg_log_loss")(model, X[:2], y) < -n_unknown / (n_unknown + n_known) * 36
    told = []
    sequence_scorer(lambda t, p: told.append(t) or 0.0)(
        HMM().fit(X, [[1] * len(labels[:-1]) + [2] for labels in Y]), X[:1], y[:1]
    )
    assert told[0][0].tolist() == y[0]


def test_spans():
    tags = [["B-a", "I-a", "O", "B-a"], ["O", "B-b"]] * 6
    words = [["x", "y", "z", "x"], ["z", "u"]] * 6
    model = HMM().fit(words, tags)
    expected = evaluate(tags, model.predict(words), scheme="IOB2").spans.overall.f1
    scorer = sequence_scorer("span_f1", scheme="IOB2")
    assert scorer(model, words, tags) == expected
    assert repr(scorer) == "sequence_scorer('span_f1', scheme='IOB2')"


def test_scorers_can_be_pickled():
    model = HMM().fit(X, Y)
    scorer = pickle.loads(pickle.dumps(sequence_scorer(sequence_accuracy)))
    assert scorer(model, X, Y) == sequence_scorer("sequence_accuracy")(model, X, Y)


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ("f1", {}, r"metric must be one of accuracy, balanced_accuracy, .*neg_log_loss, .*; got 'f1'"),
        ("log_loss", {}, r"neg_log_loss.*; got 'log_loss'"),
        (3, {}, r"or a function metric\(y_true, y_pred\); got 3"),
        ("accuracy", {"scheme": "IOB2"}, r"'accuracy' takes no further arguments; got \['scheme'\]"),
        ("span_f1", {}, r"'span_f1' takes scheme=..., as 'IOB2'; got none"),
        ("accuracy", {"greater_is_better": False}, r"greater_is_better is for functions; 'accuracy' knows"),
        (sequence_accuracy, {"greater_is_better": "no"}, r"greater_is_better must be True or False; got 'no'"),
    ],
)
def test_bad_scorers(arguments, options, match):
    with pytest.raises(ParameterError, match=match):
        sequence_scorer(arguments, **options)


def test_what_cannot_be_scored():
    model = HMM().fit(X, Y)
    with pytest.raises(InputError, match=r"y has no observed label to score with"):
        sequence_scorer("macro_f1")(model, X[:1], [[None] * len(Y[0])])
    with pytest.raises(InputError, match=r"y has no label that HMM was trained with: \['rest', 'run'\]"):
        sequence_scorer("log_likelihood")(model, X[:1], [["walk"] * len(Y[0])])
    windows = SlidingWindow(LogisticRegression()).fit(X, Y)
    with pytest.raises(
        ParameterError, match=r"'log_likelihood' needs probabilities, which SlidingWindow does not give"
    ):
        sequence_scorer("log_likelihood")(windows, X, Y)
