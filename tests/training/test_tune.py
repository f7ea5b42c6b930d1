"""``tune=`` and ``tuning_``."""

from __future__ import annotations

import math

import numpy as np
import pytest
from treecrf_data import all_equal

import seqboost
from seqboost import MEMM, Candidate, Method, TreeCRF
from seqboost.estimators.chains import candidate_from_json, candidate_to_json
from seqboost.exceptions import ModelFileError, ParameterError
from seqboost.training import tuning

COMMON = {"max_iter": 15, "n_iter_no_change": 4, "random_state": 0, "learning_rate": 0.5, "max_leaf_nodes": 8}


def noisy(n=40, length=25, seed=0):
    """Sequences of three columns, of which one tells the label of its position, with noise."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 3)) for _ in range(n)]
    return X, [(x[:, 0] + rng.normal(size=length) > 0).astype(int) for x in X]


@pytest.fixture(autouse=True)
def few_positions_suffice(monkeypatch):
    monkeypatch.setattr(tuning, "FEWEST_JUDGING", 80)
    monkeypatch.setattr(tuning, "ENOUGH_JUDGING", (1, 1))


def test_every_candidate_is_listed():
    X, y = noisy()
    model = TreeCRF(**COMMON).fit(X, y)
    assert all(isinstance(candidate, Candidate) for candidate in model.tuning_)
    assert len(model.tuning_) >= 4
    first = model.tuning_[0]
    assert first.settings == {"potentials": "joint", "l2_regularization": 10.0, "window": 6}
    assert [candidate.kept for candidate in model.tuning_].count(True) == 1
    kept = next(candidate for candidate in model.tuning_ if candidate.kept)
    assert kept.settings == {
        "potentials": model.potentials_, "l2_regularization": model.l2_regularization_, "window": model.window_,
    }  # fmt: skip
    assert kept.score == pytest.approx(model.best_score_)
    assert kept.score >= first.score
    for candidate in model.tuning_:
        assert math.isfinite(candidate.score)
        assert candidate.seconds > 0
        assert all(0 < n <= 15 for n in candidate.rounds)


def test_the_list_survives_a_file(tmp_path):
    model = TreeCRF(**COMMON).fit(*noisy())
    model.save(tmp_path / "model")
    assert seqboost.load(tmp_path / "model").tuning_ == model.tuning_


def test_false_goes_by_the_rules():
    X, y = noisy()
    model = TreeCRF(**COMMON, tune=False).fit(X, y)
    assert model.tuning_ == []
    assert (model.window_, model.l2_regularization_, model.potentials_) == (6, 10.0, "joint")
    named = TreeCRF(**COMMON, window=6, l2_regularization=10.0, potentials="joint").fit(X, y)
    assert all_equal(model.predict_proba(X), named.predict_proba(X))


def test_auto_leaves_named_settings_alone_and_true_tunes_what_is_left():
    X, y = noisy()
    named = {"window": 1, "potentials": "joint"}
    assert TreeCRF(**COMMON, **named).fit(X, y).tuning_ == []
    tuned = TreeCRF(**COMMON, **named, tune=True).fit(X, y)
    assert {candidate.settings["l2_regularization"] for candidate in tuned.tuning_} >= {10.0, 100.0}
    assert {candidate.settings["window"] for candidate in tuned.tuning_} == {1}


def test_memm_is_tuned_too():
    model = MEMM(**COMMON).fit(*noisy())
    assert len(model.tuning_) >= 2


@pytest.mark.parametrize(
    ("settings", "fit", "match"),
    [
        ({"early_stopping": False}, {}, "tune=True compares settings on held-out sequences, but none are held out"),
        ({}, {"X_val": noisy(5, seed=1)[0], "y_val": noisy(5, seed=1)[1]}, "validation data were given"),
        ({"warm_start": True}, {}, "tune=True needs held-out scores that can be compared; use it without warm_start"),
        ({"method": Method(beam=1)}, {}, "a beam in training"),
        ({"method": Method(objective="pseudo_likelihood")}, {}, "or the pseudo-likelihood"),
        ({"tune": "yes"}, {}, "The 'tune' parameter of TreeCRF must be one of 'auto', True, False. Got 'yes' instead."),
    ],
    ids=lambda given: str(given)[:20],
)  # fmt: skip
def test_where_nothing_can_be_tuned(settings, fit, match):
    with pytest.raises(ParameterError, match=match):
        TreeCRF(**COMMON, **{"tune": True, **settings}).fit(*noisy(), **fit)


def test_true_with_callbacks_that_may_stop():
    with pytest.raises(ParameterError, match="tune=True finds nothing to tune: callbacks that may stop"):
        TreeCRF(**COMMON, tune=True).fit(*noisy(), callbacks=[lambda progress: False])


@pytest.mark.parametrize(
    "forged",
    [
        {"score": "1"}, {"score": True}, {"seconds": "nan"}, {"seconds": -1.0}, {"seconds": None}, {"rounds": "12"},
        {"rounds": [-5]}, {"rounds": [1.5]}, {"kept": "no"}, {"settings": [1]},
    ],
    ids=str,
)  # fmt: skip
def test_forged_candidates_are_refused(forged):
    entry = candidate_to_json(Candidate({"window": 1}, math.nan, 0.5, (3, 4), True))
    assert candidate_from_json(entry).rounds == (3, 4)
    with pytest.raises(ModelFileError, match="candidates of tuning"):
        candidate_from_json({**entry, **forged})
