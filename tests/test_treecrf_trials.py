"""What "auto" comes to where held-out sequences decide: potentials and window."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import numpy as np
import pytest
from sklearn.utils import check_random_state
from treecrf_data import all_equal

import seqboost
from seqboost import MEMM, TreeCRF
from seqboost.callbacks import early_stopping, record_evaluation
from seqboost.estimators import trials
from seqboost.estimators.holdout import hold_out, hold_out_blocks
from seqboost.estimators.labelled import Labelled
from seqboost.exceptions import MemoryLimitError
from seqboost.sequences import as_batch

COMMON = {"max_iter": 40, "n_iter_no_change": 5, "max_leaf_nodes": 8, "random_state": 0, "learning_rate": 0.5}


def labelled(seed=0, n=60, length=20, n_columns=2, *, depends):
    """Sequences whose labels repeat the one before where a column says so (``depends``), or come from columns alone."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, n_columns)) for _ in range(n)]
    y = []
    for x in X:
        labels = (x[:, 0] > 0).astype(int) + (x[:, 1] > 1)
        noisy = rng.random(length) < 0.2
        labels[noisy] = rng.integers(3, size=noisy.sum())
        for t in range(1, length if depends else 1):
            if x[t, 1] > 0:
                labels[t] = (labels[t - 1] + 1) % 3
        y.append(labels)
    return X, y


def far(seed=0, n=40, length=30, n_columns=32):
    """Sequences of many columns whose labels are told by a column two positions before."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, n_columns)) for _ in range(n)]
    return X, [np.r_[0, 0, (x[:-2, 0] > 0).astype(int)] for x in X]


@pytest.fixture(autouse=True)
def few_positions_suffice(monkeypatch):
    monkeypatch.setattr(trials, "FEWEST_JUDGING", 100)
    monkeypatch.setattr(trials, "ENOUGH_JUDGING", (1, 1))


@pytest.fixture
def tried(monkeypatch):
    """Note the potentials and windows of all trainings beside the first."""
    seen = []
    train = trials.train

    def noted(training, held_out, settings):
        seen.append((settings["potentials"], settings["window"]))
        return train(training, held_out, settings)

    monkeypatch.setattr(trials, "train", noted)
    return seen


@pytest.mark.parametrize("labeller", [TreeCRF, MEMM])
@pytest.mark.parametrize(("depends", "best"), [(True, "joint"), (False, "factored")])
def test_the_more_probable_potentials_are_kept(labeller, depends, best):
    X, y = labelled(depends=depends)
    given = {kind: labeller(**COMMON, potentials=kind).fit(X, y) for kind in ("joint", "factored")}
    scores = {kind: model.best_score_ for kind, model in given.items()}
    assert max(scores, key=scores.get) == best
    auto = labeller(**COMMON).fit(X, y)
    assert auto.potentials_ == best
    assert auto.best_score_ == scores[best]
    assert auto.best_iteration_ == given[best].best_iteration_
    assert all_equal(auto.predict_proba(X), given[best].predict_proba(X))  # trained again on all sequences


def test_a_wider_window_is_kept_if_it_tells_more(tried):
    X, y = far()
    auto = TreeCRF(**COMMON).fit(X, y)
    assert tried == [("factored", 1), (auto.potentials_.replace("joint", "auto"), 2)]
    assert auto.window_ == 2
    given = TreeCRF(**COMMON, window=2, potentials=auto.potentials_).fit(X, y)
    assert all_equal(auto.predict_proba(X), given.predict_proba(X))


def test_a_wider_window_that_tells_nothing_is_not_kept():
    X, _ = far(seed=1)
    noise = np.random.default_rng(1)
    y = [(x[:, 0] + noise.normal(size=len(x)) > 0).astype(int) for x in X]
    given = [TreeCRF(**COMMON, potentials="joint", window=window).fit(X, y).best_score_ for window in (1, 2)]
    assert given[0] > given[1]
    assert TreeCRF(**COMMON, potentials="joint").fit(X, y).window_ == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"potentials": "joint", "window": 1}, []),
        ({"potentials": "joint"}, []),  # two columns have a window of six as it is
        ({"window": range(-1, 2)}, [("factored", range(-1, 2))]),
        ({"order": 0}, []),
        ({"early_stopping": False}, []),
        ({"init": "linear"}, []),
        ({"order": 2, "contexts": "seen"}, []),
        ({}, [("factored", 6)]),
    ],
)
def test_what_is_tried(tried, settings, expected):
    X, y = labelled(depends=False)
    TreeCRF(**{**COMMON, "max_iter": 3, **settings}).fit(X, y)
    assert tried == expected


def test_only_held_out_sequences_of_a_fit_decide(tried, monkeypatch):
    X, y = labelled(depends=False)
    TreeCRF(**COMMON).fit(X, y, X_val=X[:10], y_val=y[:10])
    TreeCRF(**COMMON).fit(X[:30], y[:30])  # 60 positions are held out
    monkeypatch.setattr(trials, "TRIAL_POSITIONS", 1000)
    TreeCRF(**COMMON).fit(X, y)
    assert tried == []


def lead_of(change, X, y, part):
    """Return by how much held-out sequences of a part are more probable with a change, the slow way."""
    kept, held = hold_out(len(X), 0.1, int(check_random_state(0).randint(2**31)), part)
    given = [X[i] for i in kept], [y[i] for i in kept]
    judging = {"X_val": [X[i] for i in held], "y_val": [y[i] for i in held]}
    rules = {**COMMON, "potentials": "joint", "window": 6}
    scores = [TreeCRF(**{**rules, **changed}).fit(*given, **judging).best_score_ for changed in (change, {})]
    return (scores[0] - scores[1]) * sum(map(len, judging["y_val"]))


@pytest.mark.parametrize("seed", range(4))
def test_few_sequences_judge_part_by_part(monkeypatch, tried, seed):
    monkeypatch.setattr(trials, "ENOUGH_JUDGING", (4, 300))  # 120 are held out in each part
    X, y = labelled(seed, depends=False)
    leads = [lead_of({"potentials": "factored"}, X, y, part) for part in range(3)]
    total = np.cumsum(leads)
    auto = TreeCRF(**COMMON).fit(X, y)
    assert auto.potentials_ == ("factored" if (total[1:] > 0).all() else "joint")
    n_parts = 2 if total[1] <= 0 else 3
    assert len(tried) == 2 * n_parts - 1  # the first training was there already
    given = TreeCRF(**COMMON, potentials=auto.potentials_).fit(X, y)
    assert all_equal(auto.predict_proba(X), given.predict_proba(X))


def test_a_challenger_that_is_behind_after_two_parts_is_out(monkeypatch, tried):
    monkeypatch.setattr(trials, "ENOUGH_JUDGING", (4, 10_000))
    X, y = labelled(depends=True)
    assert TreeCRF(**COMMON).fit(X, y).potentials_ == "joint"
    assert tried == [("factored", 6), ("factored", 6), ("auto", 6)]


def test_parts_hold_out_other_sequences():
    parts = [hold_out(30, 0.1, 5, part) for part in range(10)]
    assert sorted(np.concatenate([held for _, held in parts])) == list(range(30))
    assert all(sorted([*kept, *held]) == list(range(30)) for kept, held in parts)
    one = Labelled(as_batch([np.arange(3000.0)[:, None]]), np.zeros(3000, np.int32), np.ones(1))
    blocks = [hold_out_blocks(one, 0.1, 0, part)[1].batch.numeric[:, 0] for part in range(10)]
    assert sorted(np.concatenate(blocks)) == list(range(3000))


def test_a_trial_that_does_not_fit_into_memory_is_left_out(monkeypatch):
    X, y = labelled(depends=False)

    def too_large(*_):
        raise MemoryLimitError("no room")

    monkeypatch.setattr(trials, "train", too_large)
    auto, joint = TreeCRF(**COMMON).fit(X, y), TreeCRF(**COMMON, potentials="joint").fit(X, y)
    assert all_equal(auto.predict_proba(X), joint.predict_proba(X))


def test_callbacks_see_the_training_that_is_kept():
    X, y = labelled(depends=False)
    result, seen = {}, []
    watching = [record_evaluation(result), lambda progress: seen.append(progress.iteration), early_stopping(3)]
    model = TreeCRF(**COMMON).fit(X, y, callbacks=watching)
    assert model.potentials_ == "factored"
    assert result == model.evals_result_
    assert seen[-model.n_iter_ :] == list(range(1, model.n_iter_ + 1))
    assert seen.count(1) == 2  # joint potentials came first
    assert all_equal(
        model.predict_proba(X), TreeCRF(**COMMON).fit(X, y, callbacks=[early_stopping(3)]).predict_proba(X)
    )


def test_a_callback_that_stops_training_ends_it(tried):
    X, y = labelled(depends=False)
    model = TreeCRF(**COMMON).fit(X, y, callbacks=[lambda progress: progress.iteration == 4])
    assert (model.potentials_, model.n_iter_, tried) == ("joint", 4, [])


def test_a_stop_during_a_trial_keeps_what_is_best_so_far():
    X, y = labelled(depends=False)
    by_rules = TreeCRF(**COMMON, potentials="joint", refit=False).fit(X, y)

    class Stop:
        asked_in_refit = True
        calls = 0

        def __call__(self, progress):
            self.calls += 1
            return self.calls > by_rules.n_iter_

    watched = []
    model = TreeCRF(**COMMON, refit=False).fit(X, y, callbacks=[Stop(), lambda p: watched.append(p.iteration)])
    assert model.potentials_ == "joint"
    assert all_equal(model.predict_proba(X), by_rules.predict_proba(X))
    assert len(watched) == by_rules.n_iter_


def test_warm_starts_and_files_go_on_with_what_was_chosen(tmp_path, tried):
    X, y = far()
    first = TreeCRF(**{**COMMON, "max_iter": 6}, warm_start=True, potentials="auto").fit(X, y)
    assert first.window_ == 2
    n_tried = len(tried)
    first.save(tmp_path / "model")
    loaded = seqboost.load(tmp_path / "model")
    assert (loaded.window_, loaded.potentials_) == (first.window_, first.potentials_)
    for model in (first, loaded):
        model.set_params(max_iter=8).fit(X, y)
        assert (model.window_, model.potentials_, model.n_iter_) == (2, loaded.potentials_, 8)
    assert all_equal(first.predict_proba(X), loaded.predict_proba(X))
    assert len(tried) == n_tried


def test_what_is_tried_is_shown():
    X, y = labelled(depends=False)
    shown = io.StringIO()
    with redirect_stderr(shown):
        TreeCRF(**COMMON, verbose=2).fit(X, y)
    assert shown.getvalue().splitlines().count("trying factored") == 1


def test_threads_do_not_matter():
    X, y = far()
    one, two = (TreeCRF(**{**COMMON, "max_iter": 8}, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.window_ == two.window_
    assert all_equal(one.predict_proba(X), two.predict_proba(X))
