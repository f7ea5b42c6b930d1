"""What is written down about the rounds, and when to stop."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from seqboost.boosting import FunctionCallback, History, Stopping
from seqboost.boosting.callbacks import retell


def derivatives(log_likelihood, n_correct, n_observed):
    return SimpleNamespace(
        log_likelihood=np.array(log_likelihood), n_correct=np.array(n_correct), n_observed=np.array(n_observed),
        n_exact=None,
    )  # fmt: skip


def test_scores_are_weighted_means_per_observed_position():
    history = History(np.array([True, True, False]), np.array([1.0, 3.0, 2.0]))
    entry = history.record(derivatives([-4.0, -6.0, -5.0], [1, 2, 3], [2, 4, 5]), 0.5, 0.1, 1)
    assert entry["train_score"] == pytest.approx((-4 - 3 * 6) / (2 + 3 * 4))
    assert entry["train_accuracy"] == pytest.approx((1 + 3 * 2) / (2 + 3 * 4))
    assert entry["validation_score"] == pytest.approx(-1)
    assert entry["validation_accuracy"] == pytest.approx(3 / 5)
    assert history.to_dict() == {name: [value] for name, value in entry.items()}
    assert history.step == [0.5]
    assert history.objective_value(derivatives([-4.0, -6.0, -5.0], [0] * 3, [1] * 3)) == -22


def test_without_validation_sequences_there_are_no_validation_lists():
    history = History(np.array([True]), np.ones(1))
    assert sorted(history.record(derivatives([-1.0], [1], [1]), 1.0, 0.0, 1)) == [
        "evaluations", "seconds", "step", "train_accuracy", "train_score",
    ]  # fmt: skip
    assert "validation_score" not in history.to_dict()


def test_sequences_of_weight_zero_do_not_count():
    history = History(np.array([True, True, False, False]), np.array([1.0, 0.0, 0.0, 1.0]))
    entry = history.record(derivatives([-1.0, -np.inf, -np.inf, -2.0], [1, 0, 0, 1], [1, 1, 1, 1]), 1.0, 0.0, 1)
    assert (entry["train_score"], entry["validation_score"]) == (-1, -2)
    assert history.objective_value(derivatives([-1.0, -np.inf, 0.0, 0.0], [0] * 4, [1] * 4)) == -1


def test_refresh_scores_the_newest_round_again():
    lists = {
        "train_score": [-3.0, -2.0], "train_accuracy": [0.1, 0.2], "step": [0.0, 0.25], "seconds": [0.0, 7.0],
        "evaluations": [1.0, 2.0], "test_score": [-1.0, -1.0],
    }  # fmt: skip
    history = History(np.array([True, False]), np.ones(2), lists=lists)
    history.refresh(derivatives([-1.5, -4.0], [1, 0], [1, 2]))
    assert history.train_score == [-3.0, -1.5]
    assert np.array_equal(history.validation_score, [np.nan, -2.0], equal_nan=True)
    assert history.lists["train_accuracy"] == [0.1, 1.0]
    assert (history.step, history.lists["seconds"]) == ([0.0, 0.25], [0.0, 7.0])
    assert "test_score" not in history.to_dict()  # of a set that is there no more
    assert {len(values) for values in history.to_dict().values()} == {2}


def test_lists_handed_out_are_copies():
    history = History(np.array([True]), np.ones(1))
    history.record(derivatives([-1.0], [1], [1]), 1.0, 0.0, 1)
    history.to_dict()["train_score"].append(3.0)
    assert history.train_score == [-1.0]


@pytest.mark.parametrize(
    ("scores", "stops"),
    [
        ([-3.0], False),
        ([-3.0, -2.0, -2.5], False),  # no more than patience entries after the start
        ([-3.0, -2.0, -2.5, -2.1], True),  # two rounds without a better one
        ([-3.0, -2.0, -2.5, -1.9], False),
        ([-3.0, -2.0, -2.0, -1.995], True),  # better by less than tol
        ([-1.0, -2.0, -3.0], True),  # never better than the start
        ([np.nan, np.nan, -2.0], False),
        ([np.nan, np.nan, -2.0, -2.5, -2.4], True),
        ([np.nan, -2.0, -2.5, -1.0], False),
    ],
)
def test_when_to_stop(scores, stops):
    assert Stopping(patience=2, tol=0.01).should_stop(scores) == stops


def test_the_best_round():
    stopping = Stopping(5, 0.0)
    assert stopping.best([-3.0, -1.0, -2.0]) == 1
    assert stopping.best([-1.0, -3.0]) == 0
    assert stopping.best([-2.0, -1.0, -1.0]) == 1  # the earlier of equals
    assert stopping.best([-1.0, -4.0, -3.0, -3.5], at_least=1) == 2
    assert stopping.best([np.nan, -4.0, -3.0, -3.5], at_least=1) == 2


def test_a_training_is_retold_with_what_decided():
    told = []
    history = {"train_score": [-0.9, -0.8, -0.7], "validation_score": [-0.9, -0.7, -0.8]}
    retell(history, 5, [FunctionCallback(told.append)], ("mine",), history["validation_score"])
    assert [progress.watched for progress in told] == [[-0.9, -0.7], [-0.9, -0.7, -0.8]]
    assert {progress.set_names for progress in told} == {("mine",)}
