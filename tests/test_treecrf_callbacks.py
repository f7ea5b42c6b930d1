"""Callbacks: those under LightGBM's names, and scikit-learn's."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import TreeCRF
from seqboost.callbacks import early_stopping, log_evaluation, record_evaluation
from seqboost.exceptions import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore:TreeCRF keeps no round")  # noise stops at once

X, Y = chains()
NOISE = chains(n=6, seed=5)[0], [list(reversed(labels)) for labels in chains(n=6, seed=6)[1]]
NOISE = NOISE[0], [(labels * 8)[: len(rows)] for rows, labels in zip(*NOISE, strict=True)]


def test_early_stopping_is_that_of_the_parameters():
    by_parameter = small(max_iter=60, early_stopping=True, n_iter_no_change=3, tol=0.0).fit(X, Y, eval_set=[NOISE])
    for parameter in (True, "auto", False):
        model = small(max_iter=60, early_stopping=parameter, n_iter_no_change=1)
        model.fit(X, Y, eval_set=[NOISE], callbacks=[early_stopping(3)])
        assert model.n_iter_ == by_parameter.n_iter_ < 60
        assert (
            model.best_iteration_ == by_parameter.best_iteration_ == int(np.argmax(model.history_["validation_score"]))
        )
        assert all_equal(model.predict_proba(X), by_parameter.predict_proba(X))


def test_early_stopping_waits_longer_than_the_parameters_would():
    model = small(max_iter=12, early_stopping=True, n_iter_no_change=1)
    assert model.fit(X, Y, eval_set=[NOISE], callbacks=[early_stopping(20)]).n_iter_ == 12
    assert model.fit(X, Y, eval_set=[NOISE]).n_iter_ < 12


def test_early_stopping_counts_only_real_improvement():
    model = small(max_iter=30).fit(X, Y, eval_set=[(X, Y)], callbacks=[early_stopping(2, min_delta=100.0)])
    assert model.n_iter_ == 2


def test_early_stopping_serves_many_fits():
    callback = early_stopping(2)
    counts = {small(max_iter=40).fit(X, Y, eval_set=[NOISE], callbacks=[callback]).n_iter_ for _ in range(3)}
    assert len(counts) == 1
    assert pickle.loads(pickle.dumps(callback)) == callback


def test_early_stopping_needs_validation_sequences():
    with pytest.raises(ParameterError, match=r"early_stopping needs validation sequences.*give X_val and y_val"):
        small().fit(X, Y, callbacks=[early_stopping(2)])
    held_out = small(early_stopping=True, max_iter=30).fit(X, Y, callbacks=[early_stopping(2, min_delta=100.0)])
    assert held_out.n_iter_ == 2


def test_log_evaluation(capfd):
    small(max_iter=5).fit(X, Y, callbacks=[log_evaluation(2)])
    out, err = capfd.readouterr()
    assert [line.split("]")[0] for line in out.splitlines()] == ["[2/5", "[4/5"]
    assert "train log-likelihood -" in out
    assert err == ""
    small(max_iter=3).fit(X, Y, eval_set=[NOISE], callbacks=[log_evaluation(), log_evaluation(0)])
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("validation log-likelihood -" in line for line in lines)


def test_record_evaluation():
    result = {"validation": "from an earlier fit"}
    model = small().fit(X, Y, callbacks=[record_evaluation(result)])
    assert result == model.evals_result_
    assert set(result) == {"training"}
    model = small().fit(X, Y, eval_set=[NOISE], callbacks=[record_evaluation(result)])
    assert result == model.evals_result_
    assert set(result) == {"training", "validation"}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: early_stopping(0), "stopping_rounds must be an int of 1 or more; got 0"),
        (lambda: early_stopping(2.5), "stopping_rounds must be an int of 1 or more; got 2.5"),
        (lambda: early_stopping(True), "stopping_rounds must be an int of 1 or more; got True"),
        (lambda: early_stopping(2, min_delta=-1), "min_delta must be a finite number of 0 or more; got -1"),
        (lambda: early_stopping(2, min_delta=np.nan), "min_delta must be a finite number of 0 or more; got nan"),
        (lambda: log_evaluation("often"), "period must be an int; got 'often'"),
        (lambda: record_evaluation([]), "eval_result must be a dict to be filled; got a list"),
    ],
)
def test_bad_arguments(make, match):
    with pytest.raises(ParameterError, match=match):
        make()


class _Watcher:
    """Looks at the model in every training."""

    may_stop, runs_in_refit, sees_model = False, True, True

    def __init__(self):
        self.models = []

    def __call__(self, progress):
        self.models.append(progress.model)


def test_models_that_callbacks_keep_do_not_grow(tmp_path):
    watcher = _Watcher()
    small(max_iter=4).fit(X, Y, callbacks=[watcher])
    watcher.models[0].save(tmp_path / "first.seqboost")
    assert [seen.n_iter_ for seen in watcher.models] == [1, 2, 3, 4]
    assert seqboost.load(tmp_path / "first.seqboost").n_iter_ == 1


@pytest.mark.parametrize("early_stopping", [True, False])
def test_callbacks_of_all_trainings_see_the_model(early_stopping):
    watcher = _Watcher()
    model = small(max_iter=4, early_stopping=early_stopping).fit(X, Y, callbacks=[watcher])
    assert len(watcher.models) == 4 + (model.best_iteration_ if early_stopping else 0)
    assert all(seen.predict(X[:1])[0].shape == (len(X[0]),) for seen in watcher.models)


def test_attributes_that_a_callback_lacks_are_those_of_a_function():
    class Looks:
        sees_model = True

        def __call__(self, progress):
            assert progress.model.n_iter_ == progress.iteration
            return progress.iteration == 2

    assert small(max_iter=4).fit(X, Y, callbacks=[Looks()]).n_iter_ == 2


def test_a_class_is_no_callback():
    with pytest.raises(ParameterError, match=r"the class _Watcher itself.*pass an object of it, _Watcher\(\.\.\.\)"):
        small().fit(X, Y, callbacks=[_Watcher])


def test_callbacks_are_a_module_of_the_package():
    code = "import seqboost; print(seqboost.callbacks.early_stopping(3))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "patience=3" in done.stdout
    assert seqboost.callbacks.early_stopping is early_stopping


class Recorder:
    """A callback as scikit-learn has them, which notes what it is told."""

    def __init__(self, stop_after=None, fail_after=None):
        self.told, self.stop_after, self.fail_after = [], stop_after, fail_after

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.told.append(f"end {context.task_name}")
        if context.task_name == f"round {self.fail_after}":
            raise RuntimeError("no more power")
        if fitted_estimator is not None:
            self.score = fitted_estimator.score(X, y)
        return context.task_name == f"round {self.stop_after}"


class TestScikit:
    @pytest.fixture(autouse=True)
    def _callbacks_of_scikit_learn(self):
        self.module = pytest.importorskip("sklearn.callback")

    def test_hooks_are_called_in_order(self):
        recorder = Recorder()
        model = small(max_iter=2).set_callbacks(recorder).fit(X, Y)
        rounds = ["begin round 1", "end round 1", "begin round 2", "end round 2"]
        assert recorder.told == ["setup", "begin fit", *rounds, "end fit", "teardown"]
        assert recorder.score == model.score(X, Y)
        assert all_equal(model.predict_proba(X), small(max_iter=2).fit(X, Y).predict_proba(X))
        assert set(vars(model)) - set(vars(small().fit(X, Y))) == {"_skl_callbacks"}

    def test_a_true_answer_stops(self):
        assert small(max_iter=9).set_callbacks(Recorder(stop_after=3)).fit(X, Y).n_iter_ == 3

    def test_torn_down_after_an_error(self):
        recorder = Recorder(fail_after=2)
        model = small().fit(X, Y)
        before = model.predict_proba(X)
        with pytest.raises(RuntimeError, match="no more power"):
            model.set_callbacks(recorder).fit(*chains(8, n_labels=4, seed=1))
        assert recorder.told[-1] == "teardown"
        assert all_equal(model.predict_proba(X), before)
        assert "_callback_fit_ctx" not in vars(model)
        with pytest.raises(ValueError, match="y has 3 label sequences"):
            model.fit(X, Y[:3])
        assert recorder.told[-1] == "teardown"

    def test_scores_of_the_end(self):
        monitor = self.module.ScoringMonitor(
            scoring=lambda model, *data, **weights: {"right": model.score(*data, **weights)}
        )
        weights = np.arange(1.0, len(X) + 1)
        model = small(max_iter=2).set_callbacks(monitor).fit(X, Y, sample_weight=weights)
        assert monitor.get_logs().data[-1]["right"] == model.score(X, Y, weights)

    def test_clone_save_and_warm_start(self, tmp_path):
        recorder = Recorder()
        model = clone(small(max_iter=2).set_callbacks(recorder)).set_params(warm_start=True).fit(X, Y)
        recorder.told.clear()
        model.set_params(max_iter=3).fit(X, Y)
        assert [what for what in recorder.told if what.startswith("end round")] == ["end round 3"]
        model.save(tmp_path / "model")
        assert all_equal(TreeCRF.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))

    def test_progress_bar_of_a_search(self, capfd):
        pytest.importorskip("rich")
        search = GridSearchCV(small(), {"max_leaf_nodes": [2, 3]}, cv=2)
        y = [np.array(labels) for labels in Y]
        search.set_callbacks(self.module.ProgressBar()).fit(X, y)
        assert "TreeCRF - fit" in capfd.readouterr().out


def test_older_scikit_learn_has_no_callbacks():
    code = """
import sys
sys.modules["sklearn.callback"] = None
try:
    import sklearn.base
    from seqboost import TreeCRF
except ImportError as error:  # scikit-learn itself needs its callbacks
    print("cannot be tried" if "seqboost" not in str(error) else error)
else:
    from seqboost.estimators.arguments import with_callbacks
    print(hasattr(TreeCRF(), "set_callbacks"), with_callbacks(len) is len)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("False True", "cannot be tried")
