"""Training again on all sequences after early stopping."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from treecrf_data import all_equal, chains, small

from seqboost import MEMM, FutureFeatureMEMM, TreeCRF
from seqboost.exceptions import ParameterError
from seqboost.linear.lbfgs import DEFAULT_PLAN
from seqboost.training import run, single, starting

X, Y = chains(60, seed=4)
STOPPED = {"max_iter": 60, "early_stopping": True, "n_iter_no_change": 4, "learning_rate": 1.0, "random_state": 0}


@pytest.mark.parametrize("more", [{}, {"trees": "per_label"}, {"n_bags": 2}, {"sampling": "goss"}])
def test_the_model_is_that_of_all_sequences(more):
    model = small(**STOPPED, **more).fit(X, Y)
    n = model.best_iteration_
    assert 0 < n < model.n_iter_
    everything = small(**{**STOPPED, **more, "max_iter": n, "early_stopping": False}).fit(X, Y)
    assert all_equal(model.predict_proba(X), everything.predict_proba(X))
    part = small(**STOPPED, **more, refit=False).fit(X, Y)
    assert not all_equal(model.predict_proba(X), part.predict_proba(X))
    assert {**model.history_, "seconds": 0} == {**part.history_, "seconds": 0}
    assert (model.best_score_, model.best_iteration_) == (part.best_score_, part.best_iteration_)


def test_long_sequences_are_whole_again():
    rng = np.random.default_rng(0)
    y = [np.repeat(rng.integers(3, size=300), 10) for _ in range(2)]
    X = [labels[:, None] + rng.normal(size=(3000, 1)) for labels in y]
    stopped = TreeCRF(max_iter=30, n_iter_no_change=3, learning_rate=1.0, random_state=0).fit(X, y)
    whole = TreeCRF(max_iter=stopped.best_iteration_, learning_rate=1.0, random_state=0, early_stopping=False).fit(X, y)
    assert "validation_score" in stopped.history_
    assert all_equal(stopped.predict_proba(X), whole.predict_proba(X))


def test_validation_data_of_the_user_stay_out():
    given = {"X_val": X[:10], "y_val": Y[:10]}
    with_refit, without = (small(**STOPPED, refit=refit).fit(X[10:], Y[10:], **given) for refit in (True, False))
    assert all_equal(with_refit.predict_proba(X), without.predict_proba(X))


def test_many_positions_are_not_trained_again(monkeypatch):
    monkeypatch.setattr(run, "REFIT_POSITIONS", 10)
    auto, never, always = (small(**STOPPED, refit=refit).fit(X, Y) for refit in ("auto", False, True))
    assert all_equal(auto.predict_proba(X), never.predict_proba(X))
    assert not all_equal(auto.predict_proba(X), always.predict_proba(X))


def test_callbacks_see_the_first_training_alone():
    seen = []
    model = small(**STOPPED).fit(X, Y, callbacks=[lambda progress: seen.append(progress.iteration)])
    assert seen == list(range(1, model.n_iter_ + 1))


def test_both_trainings_are_shown(caplog):
    model = small(**STOPPED, verbose=2).fit(X, Y)
    rounds = [line for line in caplog.messages if line.startswith("[")]
    assert len(rounds) == model.n_iter_ + model.best_iteration_


def test_warm_starts_keep_their_held_out_sequences():
    warm = small(**STOPPED, warm_start=True).fit(X, Y)
    assert all_equal(warm.predict_proba(X), small(**STOPPED, refit=False).fit(X, Y).predict_proba(X))
    with pytest.raises(ParameterError, match="refit=True trains on the held-out sequences as well.*use refit=False"):
        small(**STOPPED, warm_start=True, refit=True).fit(X, Y)


def test_a_warm_start_after_a_refit_needs_other_sequences(tmp_path):
    first = small(**STOPPED).fit(X, Y)
    first.save(tmp_path / "model")
    for model in (first, TreeCRF.load(tmp_path / "model")):
        model.set_params(warm_start=True, max_iter=80)
        with pytest.raises(ParameterError, match="trained again on the sequences.*give X_val and y_val"):
            model.fit(X, Y)
    given = chains(9, seed=8)
    first.fit(X, Y, X_val=given[0], y_val=given[1])
    assert first.set_params(early_stopping=False, max_iter=90).fit(X, Y).n_iter_ == 90


@pytest.mark.filterwarnings("ignore:TreeCRF keeps no round of boosting.*the linear start")
def test_the_linear_start_goes_the_way_that_was_found(monkeypatch):
    rng = np.random.default_rng(0)
    y = [np.repeat(rng.integers(2, size=30), 10) for _ in range(10)]
    X = [[{"word": f"w{rng.integers(400)}", "size": label + rng.normal()} for label in labels] for labels in y]
    plans, original = [], starting.linear_start

    def note(task, seed, plan):
        found = original(task, seed, plan)
        plans.append((plan, found.plan))
        return found

    monkeypatch.setattr(starting, "linear_start", note)
    model = TreeCRF(max_iter=5, random_state=0).fit(X, y)
    assert model.init_ == "linear"
    assert plans[0][0] is None
    assert plans[0][1] not in (None, DEFAULT_PLAN)
    assert plans[1] == (plans[0][1], plans[0][1])


def test_a_second_training_that_fails_is_left(monkeypatch):
    part = small(**STOPPED, refit=False).fit(X, Y)
    original = single.train_once

    def stubborn(config, data, *course, **given):
        found = original(config, data, *course, **given)
        return found if data.validation is not None else replace(found, best_iteration=0)

    monkeypatch.setattr(single, "train_once", stubborn)
    model = small(**STOPPED).fit(X, Y)
    assert all_equal(model.predict_proba(X), part.predict_proba(X))
    assert model.best_iteration_ == part.best_iteration_


def test_other_values_are_refused():
    with pytest.raises(ParameterError, match="'refit' parameter of TreeCRF must be one of 'auto', True, False"):
        small(refit="yes").fit(X, Y)


def test_no_rounds_no_refit():
    rng = np.random.default_rng(0)
    noise = [rng.integers(2, size=len(labels)) for labels in Y]
    with pytest.warns(UserWarning, match="keeps no round of boosting.*their transitions alone.*y belongs to X"):
        model = small(**STOPPED).fit(X, noise)
    assert model.best_iteration_ == 0
    assert model._result.model.forest.n_trees == 0


@pytest.mark.parametrize("kind", [MEMM, FutureFeatureMEMM])
def test_others_that_keep_no_tree_warn_too(kind):
    rng = np.random.default_rng(0)
    noise = [rng.integers(2, size=len(labels)) for labels in Y]
    with pytest.warns(UserWarning, match=f"^{kind.__name__} keeps no round of boosting.*their transitions alone"):
        kind(max_iter=5, random_state=0).fit(X, noise)
