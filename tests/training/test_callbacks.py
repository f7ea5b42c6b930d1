"""The protocol of callbacks, and Ctrl-C during ``fit``."""

from __future__ import annotations

import copy
import os
import signal
import threading

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from treecrf_data import all_equal, chains, small

from seqboost import MEMM, Callback, FutureFeatureMEMM, TreeCRF
from seqboost.callbacks import log_evaluation, record_evaluation
from seqboost.exceptions import ParameterError
from seqboost.training import interrupt

X, Y = chains(60, lengths=(3, 9), seed=4)
STOPPED = {"max_iter": 12, "early_stopping": True, "n_iter_no_change": 3, "learning_rate": 1.0, "refit": True}


class Watching:
    """A callback with all its flags."""

    def __init__(self, *, may_stop=False, runs_in_refit=False, sees_model=False, stop_at=None):
        self.may_stop, self.runs_in_refit, self.sees_model = may_stop, runs_in_refit, sees_model
        self.stop_at, self.seen = stop_at, []

    def __call__(self, progress):
        self.seen.append(progress)
        return self.stop_at is not None and len(self.seen) >= self.stop_at


def test_what_is_a_callback():
    assert isinstance(Watching(), Callback)
    assert isinstance(log_evaluation(), Callback)
    assert isinstance(record_evaluation({}), Callback)
    assert not isinstance(print, Callback)


def test_one_that_sees_the_model_can_predict():
    watching = Watching(sees_model=True)
    model = small(max_iter=5).fit(X, Y, callbacks=[watching])
    assert [progress.iteration for progress in watching.seen] == [1, 2, 3, 4, 5]
    for n, progress in enumerate(watching.seen, 1):
        cold = small(max_iter=n).fit(X, Y)
        assert all_equal(progress.model.predict_proba(X), cold.predict_proba(X))
        assert progress.model.best_iteration_ == n
    assert watching.seen[-1].model is not model
    assert model.n_iter_ == 5


def test_others_see_none():
    watching = Watching()
    small(max_iter=2).fit(X, Y, callbacks=[watching])
    assert [progress.model for progress in watching.seen] == [None, None]


def test_with_early_stopping_the_model_is_the_best_so_far():
    watching = Watching(sees_model=True)
    model = small(**{**STOPPED, "refit": False}).fit(X, Y, callbacks=[watching])
    assert watching.seen[-1].model.best_iteration_ == model.best_iteration_
    assert all_equal(watching.seen[-1].model.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("runs_in_refit", [False, True])
def test_where_it_runs(runs_in_refit):
    watching = Watching(runs_in_refit=runs_in_refit)
    model = small(**STOPPED).fit(X, Y, callbacks=[watching])
    n_refit = model.best_iteration_ if runs_in_refit else 0
    assert len(watching.seen) == model.n_iter_ + n_refit
    assert model._result.refitted


@pytest.mark.parametrize("in_refit", [False, True])
def test_one_of_all_trainings_ends_the_fit(in_refit):
    whole = small(**STOPPED).fit(X, Y)
    stop_at = whole.n_iter_ + 1 if in_refit else 2
    watching = Watching(may_stop=True, runs_in_refit=True, stop_at=stop_at)
    model = small(**STOPPED).fit(X, Y, callbacks=[watching])
    assert not model._result.refitted
    assert len(watching.seen) == stop_at
    assert model.best_iteration_ == whole.best_iteration_ if in_refit else model.n_iter_ == 2
    assert model.get_params()["refit"] is True  # no callback changes the estimator


def test_an_error_in_a_callback_leaves_the_estimator_as_it_was():
    model = small(max_iter=3).fit(X, Y)
    before = copy.copy(vars(model))

    def fail(progress):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        model.fit(X[:30], Y[:30], callbacks=[fail])
    assert vars(model) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- Ctrl-C


@pytest.fixture
def _listening(monkeypatch):
    """Have Ctrl-C do what it does at a terminal; processes in the background are born deaf to it."""
    monkeypatch.setattr(interrupt.StopOnInterrupt, "last", -1e9)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


class Press:
    """Presses Ctrl-C in a round."""

    may_stop, sees_model = False, False

    def __init__(self, rounds, runs_in_refit=False):
        self.rounds, self.runs_in_refit, self.n_calls = rounds, runs_in_refit, 0

    def __call__(self, progress):
        self.n_calls += 1
        if self.n_calls in self.rounds:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("_listening")
@pytest.mark.parametrize("kind", [TreeCRF, MEMM])
def test_ctrl_c_keeps_the_best_model_so_far(kind):
    settings = {"max_iter": 10, "early_stopping": False, "window": 1, "random_state": 0, "min_samples_leaf": 5}
    model = kind(**settings)
    with pytest.warns(
        UserWarning, match=f"Training was interrupted: {kind.__name__} keeps the best model so far, of 4"
    ):
        model.fit(X, Y, callbacks=[Press([4])])
    shorter = kind(**{**settings, "max_iter": 4}).fit(X, Y)
    assert model.n_iter_ == 4
    assert all_equal(model.predict_proba(X), shorter.predict_proba(X))


@pytest.mark.usefixtures("_listening")
def test_ctrl_c_in_the_second_training_keeps_the_first_model():
    whole = small(**{**STOPPED, "refit": False}).fit(X, Y)
    model = small(**STOPPED)
    with pytest.warns(UserWarning, match="Training was interrupted"):
        model.fit(X, Y, callbacks=[Press([whole.n_iter_ + 1], runs_in_refit=True)])
    assert all_equal(model.predict_proba(X), whole.predict_proba(X))


@pytest.mark.usefixtures("_listening")
def test_ctrl_c_with_future_features():
    with pytest.warns(UserWarning, match="Training was interrupted"):
        FutureFeatureMEMM(max_iter=30, random_state=0).fit(X, Y, callbacks=[Press([2])])


@pytest.mark.usefixtures("_listening")
def test_pressing_twice_gives_up():
    model = small(max_iter=10).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:20], Y[:20], callbacks=[Press([2]), Press([2])])
    assert all_equal(model.predict_proba(X), before)


@pytest.mark.usefixtures("_listening")
def test_pressing_again_soon_ends_a_search():
    search = GridSearchCV(small(max_iter=5), {"max_leaf_nodes": [3, 4]}, cv=2, refit=False)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="Training was interrupted"):
        search.fit(X, Y, callbacks=[Press([2, 5])])


@pytest.mark.usefixtures("_listening")
def test_the_handler_of_a_program_stays():
    asked = []
    signal.signal(signal.SIGINT, lambda *_: asked.append(1))
    try:
        assert small(max_iter=4).fit(X, Y, callbacks=[Press([2])]).n_iter_ == 4
        assert asked == [1]
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_fit_without_handlers():
    found = []
    thread = threading.Thread(target=lambda: found.append(small(max_iter=2).fit(X, Y)))
    thread.start()
    thread.join()
    assert np.concatenate(found[0].predict(X)).shape == (sum(map(len, X)),)


def test_future_features_show_no_model_on_the_way():
    with pytest.raises(ParameterError, match="asks to see the model .*, but FutureFeatureMEMM has none before both"):
        FutureFeatureMEMM(max_iter=2).fit(X, Y, callbacks=[Watching(sees_model=True)])
