"""What "auto" comes to where held-out sequences decide: potentials, penalty and window."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.utils import check_random_state
from treecrf_data import all_equal

import seqboost
from seqboost import MEMM, OutputCoding, TreeCRF
from seqboost.callbacks import early_stopping, log_evaluation, record_evaluation
from seqboost.exceptions import MemoryLimitError, ParameterError
from seqboost.features import SPARSE_KEY
from seqboost.model import read_model, write_model
from seqboost.sequences import as_batch
from seqboost.training import FitConfig, FitData, MethodConfig, run, tuning
from seqboost.training.dataset import Dataset
from seqboost.training.defaults import automatic_window, wider_window
from seqboost.training.holdout import Divisions, hold_out, hold_out_blocks
from seqboost.training.memory import FitMemory
from seqboost.training.progress import FitProgress
from seqboost.training.tuning import SharedStop, Tuner
from tests.support.estimators import with_method

SEED = int(check_random_state(0).randint(2**31))  # what random_state=0 comes to
COMMON = {
    "max_iter": 40, "n_iter_no_change": 5, "max_leaf_nodes": 8, "random_state": 0, "learning_rate": 0.5,
    "l2_regularization": 10.0,
}  # fmt: skip
GIVEN = {**COMMON, "window": 6}  # as the rules have it for two columns; only potentials are tried


def labelled(seed=0, n=60, length=20, n_columns=2, *, depends):
    """Sequences whose labels repeat the one before where a column says so (``depends``), or come from columns alone."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(length // 2, 3 * length // 2 + 1), n_columns)) for _ in range(n)]
    y = []
    for x in X:
        labels = (x[:, 0] > 0).astype(int) + (x[:, 1] > 1)
        noisy = rng.random(len(x)) < 0.2
        labels[noisy] = rng.integers(3, size=noisy.sum())
        for t in range(1, len(x) if depends else 1):
            if x[t, 1] > 0:
                labels[t] = (labels[t - 1] + 1) % 3
        y.append(labels)
    return X, y


def far(seed=0, n=40, length=30, n_columns=32):
    """Sequences of many columns whose labels are told by a column two positions before."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, n_columns)) for _ in range(n)]
    return X, [np.r_[0, 0, (x[:-2, 0] > 0).astype(int)] for x in X]


def near(n=40, length=30, n_columns=32):
    """Sequences of many columns of which one tells the label of its own position."""
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(length, n_columns)) for _ in range(n)]
    return X, [(x[:, 0] + rng.normal(size=len(x)) > 0).astype(int) for x in X]


@pytest.fixture(autouse=True)
def few_positions_suffice(monkeypatch):
    monkeypatch.setattr(tuning, "FEWEST_JUDGING", 80)
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (1, 1))


@pytest.fixture
def tried(monkeypatch):
    """Note the potentials and windows of all trainings beside the first."""
    seen = []
    train = tuning.train_once

    def noted(config, data, *course, **given):
        seen.append((config.chain.potentials, config.features.window))
        return train(config, data, *course, **given)

    monkeypatch.setattr(tuning, "train_once", noted)
    return seen


@pytest.mark.parametrize("labeller", [TreeCRF, MEMM])
@pytest.mark.parametrize(("depends", "best"), [(True, "joint"), (False, "factored")])
def test_the_more_probable_potentials_are_kept(labeller, depends, best):
    X, y = labelled(depends=depends)
    given = {kind: labeller(**GIVEN, potentials=kind).fit(X, y) for kind in ("joint", "factored")}
    scores = {kind: model.best_score_ for kind, model in given.items()}
    assert max(scores, key=scores.get) == best
    auto = labeller(**GIVEN).fit(X, y)
    assert auto.potentials_ == best
    assert auto.best_score_ == scores[best]
    assert auto.best_iteration_ == given[best].best_iteration_
    assert all_equal(auto.predict_proba(X), given[best].predict_proba(X))  # trained again on all sequences


def test_a_wider_window_is_kept_if_it_tells_more(tried):
    X, y = far()
    auto = TreeCRF(**COMMON).fit(X, y)
    assert tried == [("factored", 1), (auto.potentials_, 2)]
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
        ({"potentials": "joint"}, [("joint", 0)]),  # two columns have a window of six as it is
        ({"window": range(-1, 2)}, [("factored", range(-1, 2))]),
        ({"order": 0}, [("joint", 0)]),
        ({"order": 0, "window": 6}, []),
        ({"early_stopping": False}, []),
        ({"init": "linear"}, []),
        ({"order": 2, "contexts": "seen"}, [("factored", 0)]),
        ({"beam": 2}, []),
        ({"objective": "pseudo_likelihood"}, []),
        ({"pseudo_likelihood_rounds": 3}, []),
        ({"pseudo_likelihood_rounds": 1}, [("factored", 6), ("factored", 0)]),
        ({}, [("factored", 6), ("factored", 0)]),
    ],
)
def test_what_is_tried(tried, settings, expected):
    X, y = labelled(depends=False)
    TreeCRF(**with_method({**COMMON, "max_iter": 3, **settings})).fit(X, y)
    assert tried == expected


def test_only_held_out_sequences_of_a_fit_decide(tried):
    X, y = labelled(depends=False)
    TreeCRF(**COMMON).fit(X, y, X_val=X[:10], y_val=y[:10])
    TreeCRF(**COMMON).fit(X[:30], y[:30])  # 60 positions are held out
    assert tried == []


def test_no_window_is_kept_if_neighbours_tell_nothing(tried):
    X, y = near()
    known = {**COMMON, "potentials": "joint"}
    given = {window: TreeCRF(**known, window=window).fit(X, y) for window in (0, 1, 2)}
    assert max(given, key=lambda window: given[window].best_score_) == 0
    auto = TreeCRF(**known).fit(X, y)
    assert tried == [("joint", 2), ("joint", 0)]
    assert auto.window_ == 0
    assert all_equal(auto.predict_proba(X), given[0].predict_proba(X))


def sticky(n_labels=2, noise=3.0, n=40, length=40):
    """Sequences of labels that last, seen through noise."""
    rng = np.random.default_rng(0)
    y = [np.repeat(rng.integers(n_labels, size=length // 8), 8) for _ in range(n)]
    return [np.column_stack([labels + rng.normal(0, noise, len(labels)) for _ in "ab"]) for labels in y], y


def free(**given):
    """Settings that leave λ and the potentials, of which none are tried for order 0, to ``fit``."""
    return {**COMMON, "l2_regularization": "auto", "order": 0, "window": 6, **given}


@pytest.fixture
def penalties(monkeypatch):
    """Note λ of all trainings beside the first."""
    seen = []
    train = tuning.train_once

    def noted(config, data, *course, **given):
        seen.append(config.trees.l2_regularization)
        return train(config, data, *course, **given)

    monkeypatch.setattr(tuning, "train_once", noted)
    return seen


@pytest.mark.parametrize(("noise", "expected"), [(0.2, 10.0), (1.0, 100.0)])
def test_a_larger_penalty_is_kept_if_it_is_better(penalties, noise, expected):
    X, y = sticky(noise=noise)
    given = {
        penalty: TreeCRF(**free(l2_regularization=penalty, potentials="joint")).fit(X, y)
        for penalty in (10.0, 100.0, 1000.0)
    }
    assert max(given, key=lambda penalty: given[penalty].best_score_) == expected
    auto = TreeCRF(**free()).fit(X, y)
    assert auto.l2_regularization_ == expected
    assert penalties == ([100.0] if expected == 10.0 else [100.0, 1000.0])
    assert all_equal(auto.predict_proba(X), given[expected].predict_proba(X))


def test_a_larger_penalty_is_tried_twice_at_most(monkeypatch, penalties):
    prefer = Tuner._prefers
    monkeypatch.setattr(Tuner, "_prefers", lambda *given: prefer(*given) or True)
    X, y = sticky()
    assert TreeCRF(**free(max_iter=3)).fit(X, y).l2_regularization_ == 1000.0
    assert penalties == [100.0, 1000.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [100.0]),
        ({"l2_regularization": 5.0}, []),
        ({"potentials": "joint"}, []),
        ({"potentials": "joint", "window": "auto"}, [100.0, 10.0]),
        ({"warm_start": True}, []),
    ],
)
def test_when_a_larger_penalty_is_tried(penalties, settings, expected):
    X, y = sticky(noise=0.2)
    model = TreeCRF(**free(max_iter=5, **settings)).fit(X, y)
    assert penalties == expected
    assert model.l2_regularization_ == settings.get("l2_regularization", 10.0)


def test_many_labels_keep_a_small_penalty(penalties):
    X, y = sticky(n_labels=11)
    assert TreeCRF(**free(max_iter=3)).fit(X, y).l2_regularization_ == 10.0
    assert penalties == []
    TreeCRF(**free(max_iter=3)).fit(X, [labels.clip(0, 9) for labels in y])
    assert penalties[0] == 100.0


def test_warm_starts_keep_the_penalty(tmp_path, penalties):
    X, y = sticky(noise=1.0)
    model = TreeCRF(**free(max_iter=6), refit=False).fit(X, y)
    assert model.l2_regularization_ == 100.0
    model.save(tmp_path / "model")
    loaded = seqboost.load(tmp_path / "model")
    assert loaded.l2_regularization_ == 100.0
    named = TreeCRF(**free(max_iter=9, l2_regularization=100.0, potentials="joint"), refit=False).fit(X, y)
    n_tried = len(penalties)
    for each in (model, loaded):
        each.set_params(max_iter=9, warm_start=True).fit(X, y)
        assert each.l2_regularization_ == 100.0
        assert all_equal(each.predict_proba(X), named.predict_proba(X))
        each.set_params(max_iter=10, l2_regularization=3.0).fit(X, y)  # what is named may change
        assert each.l2_regularization_ == 3.0
    assert len(penalties) == n_tried


@pytest.mark.parametrize(
    "watched", [{}, {"early_stopping": True}, {"early_stopping": False}], ids=["by data", "", "no"]
)
def test_a_warm_start_goes_on_with_the_penalty_it_was_given(penalties, watched):
    X, y = sticky(noise=1.0)
    validation = {} if watched else {"X_val": X[:9], "y_val": y[:9]}
    model = TreeCRF(**free(max_iter=3, warm_start=True, l2_regularization=100.0, **watched)).fit(X, y, **validation)
    model.set_params(max_iter=5, l2_regularization=3.0).fit(X, y, **validation)
    before = model._result.config
    assert model.l2_regularization_ == 3.0
    with pytest.raises(ParameterError, match="max_leaf_nodes"):
        model.set_params(max_leaf_nodes=1).fit(X, y, **validation)
    assert model._result.config is before
    model.set_params(max_iter=7, max_leaf_nodes=8, l2_regularization="auto").fit(X, y, **validation)
    assert model.l2_regularization_ == 3.0
    assert penalties == []


def test_files_from_before_the_penalty_was_chosen(tmp_path):
    X, y = sticky(n=8)
    model = TreeCRF(**free(max_iter=2, l2_regularization=3.0, early_stopping=False)).fit(X, y)
    model.save(tmp_path / "model")
    document, arrays = read_model(tmp_path / "model")
    del document["lasting"]["l2_regularization"]  # as they were written
    write_model(tmp_path / "model", document, arrays)
    loaded = seqboost.load(tmp_path / "model")
    assert (loaded.l2_regularization, loaded.l2_regularization_) == (3.0, 3.0)
    assert all_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_a_window_without_neighbours_is_not_tried_again(tried):
    rng = np.random.default_rng(0)
    X = [
        [{"w": [rng.choice(list("ab"))], **{f"x{j}": rng.normal() for j in range(80)}} for _ in range(20)]
        for _ in "a" * 60
    ]
    model = TreeCRF(**{**COMMON, "max_iter": 2, "potentials": "joint"}).fit(X, [rng.integers(2, size=20) for _ in X])
    assert model.window_ == {"*": 0, SPARSE_KEY: 0}
    assert tried == []


def test_letters_keep_their_neighbours(tried):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcd"), size=20)) for _ in range(60)]
    TreeCRF(**{**COMMON, "max_iter": 3}).fit(X, [[c == "a" for c in x] for x in X])
    assert tried == [("factored", 6)]


# --- more positions than there is time for


@pytest.fixture
def many(monkeypatch):
    """Have 1,200 positions count as very many, of which 900 judge that no window is best; note what they train."""
    monkeypatch.setattr(tuning, "TUNED_POSITIONS", 1000)
    monkeypatch.setattr(tuning, "SAMPLE_POSITIONS", 910)
    seen, train = [], tuning.train_once

    def noted(config, data, *course, **given):
        n_rows = data.training.batch.n_rows + data.validation.batch.n_rows
        seen.append((config.chain.potentials, config.features.window, n_rows))
        return train(config, data, *course, **given)

    def prefer(self, challenger, best):
        is_complete = [self._is_complete(contestant, self._judging[0]) for contestant in (best, challenger)]
        return all(is_complete) and challenger.config.features.window == 0

    monkeypatch.setattr(tuning, "train_once", noted)
    monkeypatch.setattr(Tuner, "_prefers", prefer)
    return seen


def test_a_sample_chooses_the_window(many):
    X, y = near()
    auto = TreeCRF(**COMMON).fit(X, y)
    assert many == [("auto", 1, 900), ("auto", 2, 900), ("auto", 0, 900)]
    assert (auto.window_, auto.potentials_) == (0, "joint")  # which go by the rules
    given = TreeCRF(**COMMON, potentials="joint", window=0).fit(X, y)
    assert auto.n_iter_ == given.n_iter_
    assert all_equal(auto.predict_proba(X), given.predict_proba(X))  # of all sequences


def test_a_sample_chooses_the_penalty(monkeypatch, penalties):
    def prefer(self, challenger, best):
        is_complete = [self._is_complete(contestant, self._judging[0]) for contestant in (best, challenger)]
        return all(is_complete) and (best, challenger) == tuple(sorted((best, challenger), key=closeness))

    def closeness(contestant):
        return -abs(contestant.config.trees.l2_regularization - 100.0)

    monkeypatch.setattr(tuning, "TUNED_POSITIONS", 1000)
    monkeypatch.setattr(tuning, "SAMPLE_POSITIONS", 900)
    monkeypatch.setattr(Tuner, "_prefers", prefer)
    X, y = sticky(noise=1.0)
    auto = TreeCRF(**free(window="auto")).fit(X, y)
    assert auto.l2_regularization_ == 100.0
    assert penalties[:3] == [10.0, 100.0, 1000.0]
    given = TreeCRF(**free(potentials="joint", window=auto.window_, l2_regularization=100.0)).fit(X, y)
    assert all_equal(auto.predict_proba(X), given.predict_proba(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_sample_is_drawn_by_the_seed(many, monkeypatch, n_jobs):
    X, y = near()
    drawn, sample_of = [], tuning.Dataset.take
    monkeypatch.setattr(tuning.Dataset, "take", lambda *given: drawn.append(given[1].tolist()) or sample_of(*given))
    for seed in (0, 0, 1):
        TreeCRF(**{**COMMON, "max_iter": 1, "random_state": seed}, n_jobs=n_jobs).fit(X, y)
    samples = [sequences for sequences in drawn if len(sequences) == 30]
    assert samples[0] == samples[1] != samples[2]
    assert all(sample == sorted(set(sample)) for sample in samples)


@pytest.mark.parametrize(
    "settings", [{"window": 1}, {"init": "linear"}, {"beam": 2}, {"warm_start": True}], ids=lambda given: [*given][0]
)
def test_without_a_sample(many, settings):
    X, y = near()
    TreeCRF(**with_method({**COMMON, "max_iter": 3, **settings})).fit(X, y)
    assert many == []


def test_sequences_that_are_longer_than_a_sample_go_by_rules(many):
    X, y = near(n=2, length=1000)
    assert TreeCRF(**{**COMMON, "max_iter": 3}).fit(X, y).window_ == 1
    assert many == []


@pytest.mark.parametrize("window", [1, {"x0": 1}, [-1, 1]], ids=repr)
def test_windows_of_the_user_need_no_sample(many, window):
    X, y = near()
    model = TreeCRF(**{**COMMON, "max_iter": 3}, window=window, potentials="joint").fit(X, y)
    assert (model.window_, many) == (window, [])


def test_one_sequence_is_no_sample(many):
    X, y = near(n=3, length=900)
    settings = {**COMMON, "max_iter": 3, "early_stopping": True, "transitions": "seen"}
    assert TreeCRF(**settings).fit(X, y).window_ == 1
    assert many == []


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_passes_over_what_is_too_long(monkeypatch, seed):
    monkeypatch.setattr(tuning, "TUNED_POSITIONS", 1000)
    monkeypatch.setattr(tuning, "SAMPLE_POSITIONS", 600)
    lengths = [900, 10, 550, 10, 900, *[10] * 70]
    whole = Dataset(as_batch([np.zeros((n, 1)) for n in lengths]), np.zeros(sum(lengths), np.int32), np.ones(75))
    sample = tuning.sample_for_tuning(whole, seed)
    assert sample.batch.n_rows == 600
    assert 900 not in sample.batch.lengths


def test_a_sample_does_not_choose_potentials(monkeypatch):
    chosen = []
    monkeypatch.setattr(Tuner, "_search", lambda self, by_rules, names: chosen.append(names) or by_rules)
    X, y = near()
    sample = Dataset(as_batch(X), np.concatenate(y).astype(np.int32), np.ones(len(X)))
    names = ["potentials", "l2_regularization", "window"]
    data = FitData(sample, np.arange(2))
    Tuner(Divisions(sample, 0.1, 0, by_blocks=False), data, None, SharedStop([]), FitProgress()).best_config(
        FitConfig(), names
    )
    assert chosen == [["l2_regularization", "window"]]


def test_a_window_that_only_a_sample_has_room_for(many, monkeypatch):
    X, y = near()
    of_all = run.train_once

    def train(config, data, *course, **given):
        if config.features.window == 0:
            raise MemoryLimitError("no room")
        return of_all(config, data, *course, **given)

    monkeypatch.setattr(run, "train_once", train)
    auto = TreeCRF(**COMMON).fit(X, y)
    assert auto.window_ == 1
    given = TreeCRF(**COMMON, potentials="joint", window=1).fit(X, y)
    assert all_equal(auto.predict_proba(X), given.predict_proba(X))
    with pytest.raises(MemoryLimitError, match="no room"):
        TreeCRF(**COMMON, potentials="joint", window=0).fit(X, y)


def test_callbacks_are_told_of_a_sample_that_was_all_there_was_time_for(many):
    X, y = near()
    result = {}
    model = TreeCRF(**COMMON, refit=False).fit(X, y, callbacks=[record_evaluation(result), StopAfter(2)])
    assert model.n_iter_ == 3
    assert result == model.evals_result_


def test_callbacks_see_nothing_of_a_sample(many):
    X, y = near()
    result = {}
    model = TreeCRF(**COMMON).fit(X, y, callbacks=[record_evaluation(result), early_stopping(3)])
    assert model.window_ == 0
    assert result == model.evals_result_


@pytest.mark.parametrize("n_rounds", [0, 3, 10, 18, 30, 40])
def test_a_stop_while_a_sample_is_tried_leaves_what_it_has_trained(many, n_rounds):
    X, y = near()
    settings = {**COMMON, "max_iter": 12, "n_iter_no_change": 20, "refit": False, "potentials": "joint"}
    model = TreeCRF(**settings).fit(X, y, callbacks=[StopAfter(n_rounds)])
    is_of_all = n_rounds > 3 * 12
    assert model.n_iter_ == (n_rounds + 1 - 3 * 12 if is_of_all else min(n_rounds + 1, 12))
    assert model.window_ == (0 if is_of_all else 1)
    assert len(model.predict(X)) == len(X)


def lead_of(change, X, y, part):
    """Return by how much held-out sequences of a part are more probable with a change, the slow way."""
    kept, held = hold_out(len(X), 0.1, SEED, part)
    given = [X[i] for i in kept], [y[i] for i in kept]
    judging = {"X_val": [X[i] for i in held], "y_val": [y[i] for i in held]}
    rules = {**COMMON, "potentials": "joint", "window": 6}
    scores = [TreeCRF(**{**rules, **changed}).fit(*given, **judging).best_score_ for changed in (change, {})]
    return (scores[0] - scores[1]) * sum(map(len, judging["y_val"]))


@pytest.mark.parametrize("seed", range(4))
def test_few_sequences_judge_part_by_part(monkeypatch, tried, seed):
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (4, 300))  # 120 are held out in each part
    X, y = labelled(seed, depends=False)
    leads = [lead_of({"potentials": "factored"}, X, y, part) for part in range(3)]
    total = np.cumsum(leads)
    auto = TreeCRF(**GIVEN).fit(X, y)
    assert auto.potentials_ == ("factored" if (total[1:] > 0).all() else "joint")
    n_parts = 2 if total[1] <= 0 else 3
    assert len(tried) == 2 * n_parts - 1  # the first training was there already
    given = TreeCRF(**GIVEN, potentials=auto.potentials_).fit(X, y)
    assert all_equal(auto.predict_proba(X), given.predict_proba(X))


def test_a_challenger_that_is_behind_after_two_parts_is_out(monkeypatch, tried):
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (4, 10_000))
    X, y = labelled(depends=True)
    assert TreeCRF(**GIVEN).fit(X, y).potentials_ == "joint"
    assert tried == [("factored", 6), ("joint", 6), ("factored", 6)]


def prefers(gains, lengths, tol=1e-6):
    """Ask held-out sequences of some lengths to judge a challenger that gains so much per position on each."""
    judges = [Dataset(as_batch([np.zeros((n, 1))]), np.zeros(n, np.int32), np.ones(1)) for n in lengths]
    contestants = [
        tuning._Contestant(
            FitConfig(method=MethodConfig(tol=tol)),
            {n: SimpleNamespace(best_score=score) for n, score in enumerate(scores)},
        )
        for scores in (gains, np.zeros(len(gains)))
    ]
    return tuner_of(judges, SharedStop([]))._prefers(*contestants)


def tuner_of(judges, stop):
    """Return a tuner whose divisions hold out these."""

    class Given(SimpleNamespace):
        def __call__(self, number):
            return None, judges[number]

    return Tuner(
        Given(judging=lambda most: range(len(judges))), FitData(judges[0], np.arange(2)), None, stop, FitProgress()
    )


def test_each_held_out_label_counts_the_same(monkeypatch):
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (4, 10_000))
    assert not prefers([-0.1, 0.5], [100, 10])
    assert prefers([0.1, -0.5], [100, 10])
    assert not prefers([1e-7], [100])
    assert prefers([1e-7], [100], tol=0.0)
    assert not prefers([-0.1, 0.05, 1.0], [10, 10, 10])  # out after the second
    assert prefers([-0.1, 0.2, 0.1], [10, 10, 10])
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (2, 20))
    assert prefers([0.1, 0.1, -1.0], [10, 10, 10])  # the third is not asked


def test_no_more_than_four_parts_judge(monkeypatch, tried):
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (4, 10_000))
    X, y = labelled(depends=False)
    assert TreeCRF(**{**GIVEN, "max_iter": 8}).fit(X, y).potentials_ == "factored"
    assert len(tried) == 2 * 4 - 1


def test_a_training_that_was_stopped_says_nothing(monkeypatch):
    stop = SharedStop([])

    def stopped(*_, **given):
        stop.stopped = True
        return SimpleNamespace(best_score=0.0)

    monkeypatch.setattr(tuning, "train_once", stopped)
    judge = Dataset(as_batch([np.zeros((9, 1))]), np.zeros(9, np.int32), np.ones(1))
    config = FitConfig(method=MethodConfig(tol=0.0))
    best = tuning._Contestant(config, {0: SimpleNamespace(best_score=-1.0)})
    challenger = tuning._Contestant(config)
    assert not tuner_of([judge], stop)._prefers(challenger, best)
    assert challenger.results == {}


def test_parts_hold_out_other_sequences():
    parts = [hold_out(30, 0.1, 5, part) for part in range(10)]
    assert sorted(np.concatenate([held for _, held in parts])) == list(range(30))
    assert all(sorted([*kept, *held]) == list(range(30)) for kept, held in parts)
    one = Dataset(as_batch([np.arange(3000.0)[:, None]]), np.zeros(3000, np.int32), np.ones(1))
    blocks = [hold_out_blocks(one, 0.1, 0, part)[1].batch.numeric[:, 0] for part in range(10)]
    assert sorted(np.concatenate(blocks)) == list(range(3000))


def test_a_trial_that_does_not_fit_into_memory_is_left_out(monkeypatch):
    X, y = labelled(depends=False)

    def too_large(*_, **given):
        raise MemoryLimitError("no room")

    monkeypatch.setattr(tuning, "train_once", too_large)
    auto, joint = TreeCRF(**COMMON).fit(X, y), TreeCRF(**COMMON, potentials="joint").fit(X, y)
    assert all_equal(auto.predict_proba(X), joint.predict_proba(X))


def test_callbacks_that_only_read_see_the_training_that_is_kept(capsys):
    X, y = labelled(depends=False)
    result = {}
    watching = [record_evaluation(result), log_evaluation(), early_stopping(3)]
    model = TreeCRF(**COMMON).fit(X, y, callbacks=watching)
    assert model.potentials_ == "factored"
    assert result == model.evals_result_
    told = capsys.readouterr().out.splitlines()
    assert told[-1].startswith(
        f"[{model.n_iter_}/40] validation log-likelihood {result['validation']['log_likelihood'][-1]:.4f}"
    )
    assert [line.startswith("[1/40]") for line in told].count(True) == 2  # joint potentials came first
    unwatched = TreeCRF(**COMMON).fit(X, y, callbacks=[early_stopping(3)])
    assert all_equal(model.predict_proba(X), unwatched.predict_proba(X))


def test_callbacks_of_the_user_see_the_only_training(tried):
    X, y = labelled(depends=False)
    seen = []
    model = TreeCRF(**COMMON).fit(X, y, callbacks=[lambda progress: seen.append(progress.iteration)])
    assert (model.potentials_, seen, tried) == ("joint", list(range(1, model.n_iter_ + 1)), [])
    model = TreeCRF(**COMMON).fit(X, y, callbacks=[lambda progress: progress.iteration == 4])
    assert (model.potentials_, model.n_iter_, tried) == ("joint", 4, [])


def test_callbacks_of_scikit_learn_see_the_only_training(tried):
    callback = pytest.importorskip("sklearn.callback")
    X, y = labelled(depends=False)
    with redirect_stdout(io.StringIO()):
        model = TreeCRF(**COMMON).set_callbacks(callback.ProgressBar()).fit(X, y)
    assert (model.potentials_, tried) == ("joint", [])


class StopAfter:
    """A callback that ends all training after so many rounds, as Ctrl-C does on the command line."""

    may_stop = runs_in_refit = True
    sees_model = False

    def __init__(self, n_rounds):
        self.n_left = n_rounds

    def __call__(self, progress):
        self.n_left -= 1
        return self.n_left < 0


@pytest.mark.parametrize("n_more", [0, 5, 12, 25, 40, 60, 80, 100, 130])
def test_a_stop_at_any_time_leaves_a_complete_training(n_more):
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(400, 32)) for _ in range(6)]  # blocks stop, whole sequences judge
    y = [((x[:, 0] > 0) ^ (rng.random(len(x)) < 0.1)).astype(int) for x in X]
    settings = {**COMMON, "max_iter": 15, "refit": False}
    by_rules = TreeCRF(**settings, potentials="joint", window=1).fit(X, y)
    model = TreeCRF(**settings).fit(X, y, callbacks=[StopAfter(by_rules.n_iter_ + n_more)])
    given = TreeCRF(**settings, potentials=model.potentials_, window=model.window_).fit(X, y)
    assert model.n_iter_ == given.n_iter_
    assert all_equal(model.predict_proba(X), given.predict_proba(X))
    if n_more == 0:
        assert (model.potentials_, model.window_) == ("joint", 1)


def test_warm_starts_go_on_without_trials(tmp_path, tried):
    X, y = far()
    first = TreeCRF(**{**COMMON, "max_iter": 3}, warm_start=True).fit(X, y)
    assert (first.window_, tried) == (1, [])
    model = TreeCRF(**{**COMMON, "max_iter": 6}, refit=False).fit(X, y)
    assert model.window_ == 2
    n_tried = len(tried)
    model.save(tmp_path / "model")
    loaded = seqboost.load(tmp_path / "model")
    assert (loaded.window_, loaded.potentials_) == (2, model.potentials_)
    for each in (model, loaded):
        each.set_params(max_iter=8, warm_start=True).fit(X, y)
        each.set_params(max_iter=9, potentials=each.potentials_, window=each.window_).fit(X, y)
        assert (each.window_, each.potentials_, each.n_iter_) == (2, loaded.potentials_, 9)
    assert all_equal(model.predict_proba(X), loaded.predict_proba(X))
    assert len(tried) == n_tried


def test_what_there_is_room_for_is_asked_once(monkeypatch):
    X, y = labelled(depends=True)
    answers = iter([True])
    monkeypatch.setattr(FitMemory, "prefers_joint", lambda memory: next(answers, False))
    auto = TreeCRF(**COMMON).fit(X, y)
    assert auto.potentials_ == "joint"
    assert all_equal(auto.predict_proba(X), TreeCRF(**COMMON, potentials="joint").fit(X, y).predict_proba(X))


def test_rounding_does_not_choose():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(20, 2)) for _ in range(60)]
    with pytest.warns(UserWarning, match="keeps no round"):
        model = TreeCRF(**GIVEN).fit(X, [rng.integers(2, size=20) for _ in X])
    assert (model.best_iteration_, model.potentials_) == (0, "joint")


def test_labels_judge_not_positions(tried):
    X, y = labelled(depends=False)
    hidden = [[label if t % 5 == 0 else None for t, label in enumerate(labels)] for labels in y]
    TreeCRF(**GIVEN).fit(X, hidden)
    assert tried == []
    light = np.full(len(X), 1e-6)
    light[hold_out(len(X), 0.1, SEED)[1][0]] = 1.0  # one of the held-out sequences is all that counts
    TreeCRF(**GIVEN).fit(X, y, sample_weight=light)
    assert tried == []
    TreeCRF(**GIVEN).fit(X, y, sample_weight=np.full(len(X), 1e-6))
    assert tried == [("factored", 6)]


def test_bits_go_by_rules(tried):
    X, y = labelled(depends=False)
    bits = OutputCoding(code="one_vs_rest", random_state=0).fit(X, y).estimators_
    assert tried == []
    assert {(bit.potentials_, bit.window_) for bit in bits} == {("joint", 6)}


def test_wider_windows():
    dense = as_batch([np.zeros((3, 32)), np.zeros((30, 32))])
    assert [wider_window(side, dense) for side in (0, 1, 2, 4, 6)] == [None, 2, 4, 6, None]
    assert wider_window(2, as_batch([np.zeros((4, 32))])) == 3
    assert wider_window(2, as_batch([np.zeros((3, 32))])) is None
    mixed = as_batch([[{**dict(enumerate(row)), "words": {"x", "y"}} for row in x] for x in far()[0]])
    assert automatic_window("auto", mixed) == {"*": 1, SPARSE_KEY: 0}
    assert wider_window({"*": 1, SPARSE_KEY: 0}, mixed) == {"*": 2, SPARSE_KEY: 0}
    assert wider_window({"*": 6, SPARSE_KEY: 0}, mixed) is None


def test_a_change_that_has_won_stays_in_the_next_trial(tried):
    X, _ = far(seed=1)
    noise = np.random.default_rng(2)
    y = [(x[:, 0] + 2 * noise.normal(size=len(x)) > 0).astype(int) for x in X]
    model = TreeCRF(**COMMON).fit(X, y)
    assert model.potentials_ == "factored"
    assert tried == [("factored", 1), ("factored", 2), ("factored", 0)]


@pytest.mark.parametrize(
    ("n", "fraction", "numbers"), [(2, 0.1, 2), (3, 0.1, 3), (5, 0.3, 2), (30, 0.1, 4), (30, 0.9, 1)]
)
def test_no_sequence_judges_twice(n, fraction, numbers):
    many = Dataset(as_batch([np.zeros((5, 1))] * n), np.zeros(5 * n, np.int32), np.ones(n))
    divisions = Divisions(many, fraction, 0, by_blocks=False)
    judging = divisions.judging(4)
    assert judging == range(numbers)
    held = np.concatenate([divisions(number)[1].numbers for number in judging])
    assert len(held) == len(set(held.tolist()))


@pytest.mark.parametrize(("n", "numbers", "held"), [(1, range(4), 400), (3, range(4), 400), (4, range(1, 5), 1000)])
def test_whole_sequences_judge_where_blocks_stop(n, numbers, held):
    length = 4001 // n
    few = Dataset(as_batch([np.zeros((length, 1))] * n), np.zeros(length * n, np.int32), np.ones(n))
    divisions = Divisions(few, 0.1, 0, by_blocks=True)
    assert divisions.judging(4) == numbers
    assert divisions(0)[1].batch.n_rows < 500
    assert [divisions(number)[1].batch.n_rows // 100 * 100 for number in numbers] == [held] * 4


def test_what_is_tried_is_shown(caplog):
    X, y = labelled(depends=False)
    TreeCRF(**COMMON, verbose=2).fit(X, y)
    assert caplog.messages.count("trying factored") == 1
    assert sum(line.startswith("factored: held-out") for line in caplog.messages) == 1


def test_one_bar_for_all_trials():
    X, y = far()
    mixed = [[dict(enumerate(row)) | {"words": {"a", "b"}} for row in x] for x in X]
    shown = io.StringIO()
    with redirect_stderr(shown):
        TreeCRF(**COMMON, verbose=1).fit(mixed, y)
    assert shown.getvalue().count("━") > 0
    n_rounds, expected = map(int, re.search(r"(\d+)/(\d+)", shown.getvalue()).groups())
    assert n_rounds == expected > 40


def test_threads_do_not_matter():
    X, y = far()
    one, two = (TreeCRF(**{**COMMON, "max_iter": 8}, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.window_ == two.window_
    assert all_equal(one.predict_proba(X), two.predict_proba(X))
