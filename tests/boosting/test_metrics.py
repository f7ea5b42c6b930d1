"""Metrics of several evaluation sets: by hand, by name and by function, and what they stop."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from test_boosting_loop import Workshop

from seqboost.boosting import (
    METRICS,
    Evaluator,
    History,
    Progress,
    Stopping,
    as_metrics,
    boost,
    check_set_names,
)
from seqboost.boosting.callbacks import describe, evaluations, record_evaluation
from seqboost.core.metrics import COUNT_METRICS, LabelCounts
from seqboost.exceptions import ParameterError
from seqboost.objectives import Likelihood, Predictions, PseudoLikelihood

CLASSES = np.array(["a", "b", "c"])
# Sequences of 2, 3, 2 and 3 positions: one of training, two of set 0, one of set 1.
OFFSETS = np.array([0, 2, 5, 7, 10])
LABELS = np.array([0, 1, 0, 0, 1, 1, -1, 2, 2, 0], dtype=np.int32)
PREDICTED = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2], dtype=np.int32)
PART, WEIGHTS = np.array([-1, 0, 0, 1], dtype=np.int8), np.array([1.0, 1.0, 3.0, 2.0])


def evaluator(*metrics, labels=LABELS):
    return Evaluator(as_metrics(list(metrics)), labels, OFFSETS, CLASSES)


def derivatives(predicted=PREDICTED, prob=0.5):
    predictions = Predictions(LABELS)
    predictions.labels[:] = predicted
    predictions.prob[:] = prob
    return SimpleNamespace(
        log_likelihood=np.array([-1.0, -3.0, -1.0, -6.0]), n_correct=np.array([1, 2, 0, 2]),
        n_observed=np.array([2, 3, 1, 3]), n_exact=None, predictions=predictions,
    )  # fmt: skip


def history_of(*metrics, **options):
    settings = {"set_names": ("valid_0", "valid_1"), "evaluator": evaluator(*metrics)}
    return History(PART, WEIGHTS, **(settings | options))


def test_macro_f1_of_two_sets_by_hand():
    history = history_of("macro_f1")
    entry = history.record(derivatives(), 1.0, 0.0, 1)
    # Set 0, weights 1 and 3: a is true twice, predicted once and right once; b is true 1 + 3 times, predicted twice,
    # right once; c never is true (but predicted 3 times).
    assert entry["validation_macro_f1"] == pytest.approx((2 * 1 / (2 + 1) + 2 * 1 / (4 + 2)) / 2)
    # Set 1: c is true twice, predicted three times, right twice; a is true once.
    assert entry["valid_1_macro_f1"] == pytest.approx((2 * 2 / (2 + 3) + 0) / 2)
    assert entry["validation_score"] == pytest.approx((-3 - 3 * 1) / (3 + 3))
    assert entry["valid_1_score"] == pytest.approx(-2)
    assert entry["valid_1_accuracy"] == pytest.approx(2 / 3)
    assert "train_macro_f1" not in entry
    assert evaluations(history.to_dict(), history.set_names) == {
        "training": {"log_likelihood": [-0.5], "accuracy": [0.5]},
        "valid_0": {
            "log_likelihood": [-1.0], "accuracy": [pytest.approx(1 / 3)],
            "macro_f1": [pytest.approx(0.5)],
        },
        "valid_1": {
            "log_likelihood": [-2.0], "accuracy": [pytest.approx(2 / 3)], "macro_f1": [pytest.approx(0.4)],
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(METRICS) - {"log_likelihood", "accuracy"}))
def test_named_metrics_weight_sequences(name):
    entry = history_of(name).record(derivatives(prob=0.25), 1.0, 0.0, 1)
    rows = [2, 3, 4, 5, 5, 5]  # of set 0; a sequence of weight 3 is there three times
    if name == "log_loss":
        expected = math.log(4)
    elif name == "sequence_accuracy":
        expected = 0.0
    else:
        expected = COUNT_METRICS[name](LabelCounts.from_codes(LABELS[rows], PREDICTED[rows], 3))
    assert entry[f"validation_{name}"] == pytest.approx(expected)


def test_without_evaluation_sets_metrics_are_of_training_sequences():
    history = History(np.ones(4, dtype=bool), np.array([1.0, 0.0, 0.0, 0.0]), evaluator=evaluator("balanced_accuracy"))
    assert history.record(derivatives(), 1.0, 0.0, 1)["train_balanced_accuracy"] == 0.5
    assert history.watched == []


def test_functions_get_labels_of_observed_positions_by_sequence():
    told = []

    def worst(y_true, y_pred):
        told.append((y_true, y_pred))
        return min(float(np.mean(t == p)) for t, p in zip(y_true, y_pred, strict=True))

    history = history_of(worst, partial(lambda t, p: np.float32(len(t))))
    entry = history.record(derivatives(), 1.0, 0.0, 1)
    (true, predicted), _ = told
    assert [labels.tolist() for labels in true] == [["a", "a", "b"], ["b"]]
    assert [labels.tolist() for labels in predicted] == [["a", "b", "b"], ["c"]]
    assert (entry["validation_worst"], entry["valid_1_worst"]) == (0.0, pytest.approx(2 / 3))
    assert entry["validation_custom"] == 2.0
    assert history.watched == [0.0]


def test_a_function_may_name_itself_and_its_direction():
    history = history_of(lambda y_true, y_pred: ("cost", 7.0, False), "macro_f1")
    assert history.record(derivatives(), 1.0, 0.0, 1)["validation_cost"] == 7.0
    assert history.watched == [-7.0]


@pytest.mark.parametrize(
    ("metric", "watched"),
    [("log_likelihood", [-1.0]), ("accuracy", [pytest.approx(1 / 3)]), ("log_loss", [-math.log(2)])],
)
def test_what_is_watched_has_the_sign_of_the_metric(metric, watched):
    history = history_of(metric, "macro_f1")
    history.record(derivatives(), 1.0, 0.0, 1)
    assert history.watched == watched


def test_recorded_metrics_cost_nothing():
    asked = []
    objective = SimpleNamespace(watch_positions=lambda *arguments: asked.append(arguments))
    history_of("accuracy", "log_likelihood").watch(objective, None)
    History(PART, WEIGHTS).watch(objective)
    assert asked == []
    history_of("macro_f1").watch(objective, None)
    assert asked == [(2, None)]


def test_a_set_without_observed_labels_is_nan():
    labels = np.where(np.arange(10) >= 7, -1, LABELS).astype(np.int32)
    history = history_of(evaluator=evaluator("macro_f1", "log_loss", "sequence_accuracy", labels=labels))
    entry = history.record(derivatives(), 1.0, 0.0, 1)
    assert math.isnan(entry["valid_1_macro_f1"])
    assert math.isnan(entry["valid_1_log_loss"])
    assert math.isnan(entry["valid_1_sequence_accuracy"])

    def never(y_true, y_pred):
        pytest.fail("there is nothing to measure")

    nothing = history_of(evaluator=evaluator(never, labels=np.full(10, -1, dtype=np.int32)))
    assert math.isnan(nothing.record(derivatives(), 1.0, 0.0, 1)["validation_never"])


def test_a_function_that_raises_is_named():
    def broken(y_true, y_pred):
        raise ValueError("no such thing")

    with pytest.raises(
        ParameterError,
        match=r"eval_metric 'broken' failed on the evaluation set 'validation' with "
        r"ValueError: no such thing\. It is called as metric\(y_true, y_pred\)",
    ):
        history_of(broken).record(derivatives(), 1.0, 0.0, 1)


@pytest.mark.parametrize("answer", [None, "0.5", (1, 2), ("name", "value", True), ("name", 0.5, "up"), 1j])
def test_what_a_function_returns_is_checked(answer):
    with pytest.raises(ParameterError, match=r"eval_metric 'custom' returned .*; expected a number, or a tuple"):
        history_of(lambda y_true, y_pred: answer).record(derivatives(), 1.0, 0.0, 1)


def test_names_of_functions_stay_the_same():
    answers = iter([("one", 1.0, True), ("one", 1.0, True), ("one", 2.0, False)])
    history = history_of(lambda y_true, y_pred: next(answers), set_names=("validation",))
    history.part = np.array([-1, 0, 0, -1], dtype=np.int8)
    for _ in range(2):
        history.record(derivatives(), 1.0, 0.0, 1)
    with pytest.raises(ParameterError, match=r"returned \('one', 2.0, False\) after \('one', 1.0, True\)"):
        history.record(derivatives(), 1.0, 0.0, 1)


@pytest.mark.parametrize("name", ["accuracy", "score", "log_likelihood", "macro_f1"])
def test_names_of_functions_are_their_own(name):
    with pytest.raises(ParameterError, match=f"a metric called '{name}', which is the name of another one"):
        history_of("macro_f1", lambda y_true, y_pred: (name, 1.0, True)).record(derivatives(), 1.0, 0.0, 1)


@pytest.mark.parametrize("wrong", ["f1", 3, ["macro_f1", None], [["macro_f1"]]])
def test_bad_metrics_list_the_known_ones(wrong):
    with pytest.raises(ParameterError, match=r"eval_metric must be one of accuracy, balanced_accuracy, .*macro_f1"):
        as_metrics(wrong)
    with pytest.raises(ParameterError, match=r"a metric called 'log_loss', which is the name of another one"):
        as_metrics(["log_loss", "log_loss"])
    assert as_metrics(None) == ()


@pytest.mark.parametrize(
    "names", ["ab", ["a"], ["a", 1], ["a", ""], ["a", "a"], ["train", "a"], ["a", "training"], ["a", "validation"]]
)
def test_bad_names_of_sets(names):
    with pytest.raises(ParameterError, match=r"eval_names (must be a list with a name for each of the 2|has ')"):
        check_set_names(names, 2)
    assert check_set_names(["validation", "test"], 2) == ("validation", "test")


def test_metrics_need_predictions():
    with pytest.raises(ParameterError, match=r"call history\.watch"):
        history_of("macro_f1").record(SimpleNamespace(**{**vars(derivatives()), "predictions": None}), 1.0, 0.0, 1)


def test_lists_keep_one_length_when_sets_and_metrics_change():
    first = history_of("macro_f1")
    for _ in range(3):
        first.record(derivatives(), 1.0, 0.0, 1)
    kept = {name: values[:2] for name, values in first.to_dict().items()}
    second = History(np.array([-1, 0, 1, 2]), WEIGHTS, ("validation", "valid_1", "late"), evaluator("log_loss"), kept)
    second.refresh(derivatives())
    second.record(derivatives(), 0.5, 0.1, 2)
    found = second.to_dict()
    assert {len(values) for values in found.values()} == {3}
    assert not [name for name in found if name.endswith("macro_f1")]
    assert np.isnan(found["late_score"]).tolist() == [True, False, False]
    assert np.isnan(found["validation_log_loss"]).tolist() == [True, False, False]
    assert found["step"] == [1.0, 1.0, 0.5]


def test_nan_neither_stops_nor_is_best():
    nan, stopping = math.nan, Stopping(patience=2, tol=0.0)
    assert not stopping.should_stop([nan, nan, nan, nan])
    assert not stopping.should_stop([1.0, nan, nan])
    assert stopping.should_stop([1.0, nan, 0.5])
    assert stopping.best([nan, nan, nan]) == 2
    assert stopping.best([0.5, nan, 0.7, nan]) == 2
    assert stopping.best([0.5, nan], at_least=2) == 2


def test_lines_and_dicts_of_callbacks_show_metrics():
    record = {
        "train_score": -0.5, "train_accuracy": 0.5, "validation_score": -1.0, "validation_accuracy": 0.5,
        "test_score": -2.0, "test_accuracy": 0.1, "validation_macro_f1": 0.25, "step": 1.0,
    }  # fmt: skip
    progress = Progress(3, 9, record, {name: [value] for name, value in record.items()}, set_names=("valid", "test"))
    assert describe(progress) == "[3/9] validation log-likelihood -1.0000 accuracy 0.5000 macro_f1 0.2500"
    result = {}
    record_evaluation(result)(progress)
    assert list(result) == ["training", "valid", "test"]
    assert result["valid"] == {"log_likelihood": [-1.0], "accuracy": [0.5], "macro_f1": [0.25]}


class Divided(Workshop):
    """Eight sequences of training, two of set 0, two of set 1."""

    def __init__(self, joint=True):
        super().__init__(joint, learning_rate=1.0)
        self.part = np.repeat([-1, 0, 1], [8, 2, 2])
        weights = np.where(self.part < 0, 1.0, 0.0)
        settings = {"n_labels": 3, "order": 1, "joint": joint, "sequence_weights": weights}
        self.objective = Likelihood(self.labels, self.binned.offsets, **settings)
        self.opening = PseudoLikelihood(self.labels, self.binned.offsets, **settings)
        self.examples = self.examples._replace(n_fitted=int(self.binned.offsets[8]))

    def boosted(self, *metrics, max_iter=12, **changes):
        watching = Evaluator(as_metrics(list(metrics)), self.labels, self.binned.offsets, np.array(list("xyz")))
        history = History(self.part, np.ones(12), ("valid_0", "valid_1"), watching)
        ensemble = self.ensemble()
        kept = boost(self.task(max_iter, **changes), ensemble, history)
        return kept, history.to_dict(), ensemble


@pytest.mark.parametrize("joint", [True, False])
def test_a_metric_that_only_falls_stops_at_once(joint):
    rounds = iter(range(99))

    def falling(y_true, y_pred):
        return "falling", -float(next(rounds)), True

    kept, history, _ = Divided(joint).boosted(falling, stopping=Stopping(3, 0.0))
    assert kept.n_rounds == 0
    assert {len(values) for values in history.values()} == {4}


def test_a_loss_that_falls_does_not_stop():
    rounds = iter(range(99))
    kept, history, _ = Divided().boosted(lambda t, p: ("loss", -float(next(rounds)), False), stopping=Stopping(3, 0.0))
    assert kept.n_rounds == 12 == len(history["validation_loss"]) - 1


def test_the_first_metric_of_the_first_set_decides():
    seen = []
    callbacks = [lambda progress: seen.append(progress.watched[-1])]
    kept, history, _ = Divided().boosted(
        "log_loss", "macro_f1", max_iter=40, stopping=Stopping(4, 0.0), callbacks=callbacks
    )
    best = int(np.argmin(history["validation_log_loss"]))
    assert kept.n_rounds == best == len(history["step"]) - 1 - 4
    assert seen == [-value for value in history["validation_log_loss"][1:]]
    assert len(history["valid_1_log_loss"]) == len(history["valid_1_macro_f1"]) == len(history["valid_1_score"])


def test_metrics_change_no_model_and_agree_with_accuracy():
    shop = Divided()

    def share(y_true, y_pred):
        return float(np.mean(np.concatenate(y_true) == np.concatenate(y_pred)))

    _, history, watched = shop.boosted("macro_f1", share, max_iter=5)
    assert history["validation_share"] == pytest.approx(history["validation_accuracy"])
    assert history["valid_1_share"] == pytest.approx(history["valid_1_accuracy"])
    plain = Divided()
    _, other, ensemble = plain.boosted(max_iter=5)
    np.testing.assert_array_equal(watched.scores, ensemble.scores)
    assert {name: history[name] for name in other if name != "seconds"} == {
        name: values for name, values in other.items() if name != "seconds"
    }


def test_metrics_of_opening_rounds_are_those_of_the_posterior():
    shop = Divided()
    kept, history, _ = shop.boosted("macro_f1", max_iter=6, opening=shop.opening, n_opening=3)
    assert kept.n_rounds == 6
    assert np.isfinite(history["validation_macro_f1"]).all()


def test_a_metric_without_values_lets_training_go_on():
    kept, _, _ = Divided().boosted(lambda t, p: math.nan, stopping=Stopping(2, 0.0), max_iter=7)
    assert kept.n_rounds == 7


def test_stopping_as_a_callback_looks_at_the_metric():
    rounds = iter(range(99))
    _, history, _ = Divided().boosted(lambda t, p: -float(next(rounds)), callbacks=[Stopping(3, 0.0)])
    assert len(history["step"]) - 1 == 3


def test_a_warm_start_begins_a_metric():
    shop = Divided()
    _, lists, ensemble = shop.boosted(max_iter=3)
    watching = Evaluator(as_metrics("macro_f1"), shop.labels, shop.binned.offsets, np.array(list("xyz")))
    history = History(shop.part, np.ones(12), ("valid_0", "valid_1"), watching, lists)
    assert boost(replace(shop.task(), max_iter=5), ensemble, history, n_earlier=3).n_rounds == 5
    found = history.to_dict()
    assert {len(values) for values in found.values()} == {6}
    assert np.isnan(found["validation_macro_f1"]).tolist() == [True] * 3 + [False] * 3
