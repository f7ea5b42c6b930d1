"""``fit(eval_metric=, eval_set=, eval_names=)``: metrics are those of predictions, and the first one stops."""

from __future__ import annotations

import numpy as np
import pytest
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import MEMM, FutureFeatureMEMM
from seqboost.callbacks import early_stopping, record_evaluation
from seqboost.evaluation import evaluate, label_sequences, sequence_scorer
from seqboost.exceptions import ParameterError

X, Y = chains(30)
VALID, TEST = chains(12, seed=1), chains(9, seed=2)
METHODS = [
    {}, {"potentials": "joint"}, {"potentials": "factored"}, {"order": 2}, {"order": 2, "contexts": "seen"},
    {"beam": 1, "order": 2}, {"objective": "pseudo_likelihood"}, {"objective": "position_likelihood"},
    {"class_weight": {"a": 1.0, "b": 20.0, "c": 0.5}}, {"init": "linear"}, {"trees": "per_label"},
    {"pseudo_likelihood_rounds": 2},
]  # fmt: skip


@pytest.mark.parametrize("parameters", METHODS, ids=str)
def test_metrics_are_those_of_predictions(parameters):
    names = ["macro_f1", "log_loss", "sequence_accuracy", "cohen_kappa"]
    model = small(**parameters).fit(X, Y, eval_set=[VALID, TEST], eval_metric=names)
    assert list(model.evals_result_) == ["training", "valid_0", "valid_1"]
    # A beam keeps the context of the true labels in training: what it predicts may differ.
    if "beam" not in parameters:
        for part, data in (("valid_0", VALID), ("valid_1", TEST)):
            for name in names:
                sign = -1.0 if name == "log_loss" else 1.0
                expected = sign * sequence_scorer("neg_log_loss" if name == "log_loss" else name)(model, *data)
                assert model.evals_result_[part][name][-1] == pytest.approx(expected, rel=1e-4), name


def test_metrics_of_a_memm_are_those_of_predictions():
    model = MEMM(max_iter=4, min_samples_leaf=1, early_stopping=False).fit(
        X, Y, eval_set=[VALID], eval_metric="macro_f1"
    )
    expected = label_sequences(model, *VALID).evaluate().macro_f1
    assert model.evals_result_["validation"]["macro_f1"][-1] == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["log_loss", "macro_f1", "accuracy", "log_likelihood"])
def test_the_first_metric_stops_and_chooses(metric):
    model = small(max_iter=60, early_stopping=True, n_iter_no_change=4, tol=0.0, learning_rate=1.0)
    model.fit(X, Y, eval_set=[VALID, TEST], eval_metric=[metric, "weighted_f1"])
    values = np.array(model.evals_result_["valid_0"][metric]) * (-1 if metric == "log_loss" else 1)
    assert model.best_iteration_ == int(np.argmax(values)) == model.n_iter_ - 4
    assert {len(values) for values in model.history_.values()} == {model.n_iter_ + 1}


def test_other_sets_and_metrics_change_no_model():
    plain = small(init="linear").fit(X, Y, eval_set=[VALID])
    watched = small(init="linear").fit(X, Y, eval_set=[VALID, TEST], eval_metric=["log_likelihood", "macro_f1"])
    assert all_equal(plain.predict_proba(X), watched.predict_proba(X))
    assert plain.history_["validation_score"] == watched.history_["validation_score"]


def test_names_functions_weights_and_callbacks(tmp_path):
    def errors(y_true, y_pred):
        return "errors", sum(int(np.sum(t != p)) for t, p in zip(y_true, y_pred, strict=True)), False

    result, weights = {}, [None, np.arange(1.0, 10.0)]
    model = small(max_iter=6).fit(
        X, Y, eval_set=[VALID, TEST], eval_names=["dev", "test"], eval_metric=errors, sample_weight_val=weights,
        callbacks=[record_evaluation(result), early_stopping(3)],
    )  # fmt: skip
    assert result == model.evals_result_
    assert list(result) == ["training", "dev", "test"]
    assert model.best_iteration_ == int(np.argmin(result["dev"]["errors"]))
    model = small(max_iter=3).fit(X, Y, eval_set=[VALID, TEST], eval_metric=errors, sample_weight_val=weights)
    found = model.predict(TEST[0])
    right = [np.sum(a == b) for a, b in zip(found, map(np.array, TEST[1]), strict=True)]
    assert model.history_["valid_1_errors"][-1] == sum(map(len, found)) - sum(right)
    share = np.dot(weights[1], right) / np.dot(weights[1], list(map(len, found)))
    assert model.history_["valid_1_accuracy"][-1] == pytest.approx(share)
    model.save(tmp_path / "model")
    assert seqboost.load(tmp_path / "model").evals_result_ == model.evals_result_


def test_held_out_sequences_are_measured():
    model = small(early_stopping=True, max_iter=8).fit(X, Y, eval_metric="balanced_accuracy")
    values = model.evals_result_["validation"]["balanced_accuracy"]
    assert model.best_iteration_ == int(np.argmax(values))
    trained = small(max_iter=3).fit(X, Y, eval_metric="macro_f1")
    assert trained.history_["train_macro_f1"][-1] == pytest.approx(evaluate(Y, trained.predict(X)).macro_f1)


def test_a_warm_start_brings_other_sets_and_metrics():
    model = small(max_iter=3, warm_start=True).fit(X, Y, eval_set=[VALID], eval_metric="macro_f1")
    before = list(model.history_["validation_macro_f1"])
    model.set_params(max_iter=5).fit(X, Y, eval_set=[VALID, TEST], eval_metric=["macro_f1", "log_loss"])
    assert {len(values) for values in model.history_.values()} == {6}
    assert model.history_["validation_macro_f1"][:4] == before
    assert np.isnan(model.history_["valid_1_score"]).tolist() == [True] * 3 + [False] * 3
    model.set_params(max_iter=7).fit(X, Y)
    assert sorted(model.evals_result_) == ["training"]
    assert {len(values) for values in model.history_.values()} == {8}


@pytest.mark.parametrize("arguments", [{"eval_metric": "macro_f1"}, {"eval_set": [VALID, TEST]}])
def test_future_features_are_stopped_by_the_log_likelihood_of_one_set(arguments):
    with pytest.raises(ParameterError, match=r"FutureFeatureMEMM takes one evaluation set and no eval_metric"):
        FutureFeatureMEMM(max_iter=2).fit(X, Y, **arguments)


def test_sets_whose_lists_would_be_mixed_up_are_refused():
    sets, names = [VALID, TEST, VALID], ["val", "test", "test_balanced"]
    with pytest.raises(ParameterError, match="'balanced_accuracy' of the evaluation set 'test' cannot be told from"):
        small().fit(X, Y, eval_set=sets, eval_names=names, eval_metric="balanced_accuracy")
    model = small().fit(X, Y, eval_set=sets, eval_names=names, eval_metric="macro_f1")
    assert [list(lists) for lists in list(model.evals_result_.values())[1:]] == [
        ["log_likelihood", "accuracy", "macro_f1"]
    ] * 3
