"""Class weights multiply the odds of single labels: recall rises with them, and rare events stay rare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import MEMM, TreeCRF
from seqboost.datasets import make_rare_events
from seqboost.exceptions import ParameterError
from tests.support.estimators import with_method


def quick(**parameters):
    return TreeCRF(potentials="joint", window=2, l2_regularization=10.0, random_state=0, **with_method(parameters))


def of_rare(model, X, y):
    """Return the share of positions labelled 1, and the recall and precision of label 1."""
    said, true = np.concatenate(model.predict(X)), np.concatenate(y)
    right = np.sum((said == 1) & (true == 1))
    return said.mean(), right / true.sum(), right / max(1, np.sum(said == 1))


@pytest.fixture(scope="module")
def rare():
    X, y = make_rare_events(60, random_state=10)
    X_test, y_test = make_rare_events(120, random_state=100)
    return X, y, X_test, y_test


@pytest.fixture(scope="module")
def by_weight(rare):
    X, y, X_test, y_test = rare
    weights = (None, {1: 2.0}, {1: 5.0}, {1: 20.0}, "balanced")
    return [of_rare(quick(class_weight=weight).fit(X, y), X_test, y_test) for weight in weights]


def test_recall_rises_with_the_weight(by_weight):
    recall = [found[1] for found in by_weight]
    assert recall == sorted(recall)
    assert recall[-1] > recall[0] + 0.1


def test_balanced_weights_predict_at_least_the_true_share_and_at_most_ten_times_it(rare, by_weight):
    share = np.concatenate(rare[3]).mean()
    assert share < by_weight[-1][0] < 10 * share


def test_weights_lower_the_weighted_loss(rare):
    X, y, X_test, y_test = rare
    true = np.concatenate(y_test)
    weight = np.where(true == 1, 20.0, 1.0)
    loss = [
        log_loss(true, np.concatenate(quick(class_weight=v).fit(X, y).predict_proba(X_test)), sample_weight=weight)
        for v in (None, {1: 20.0}, {1: 1e6})
    ]
    assert loss[1] < min(loss[0], loss[2])


def test_probabilities_are_the_posteriors_with_odds_multiplied():
    X, y = chains(n=30)
    weights = {"a": 3.0, "b": 0.5, "c": 1.0}
    plain, weighted = small().fit(X, y), small(class_weight=weights).fit(X, y)
    for prob, found in zip(plain.predict_proba(X), weighted.predict_proba(X), strict=True):
        expected = prob * np.array([3.0, 0.5, 1.0])
        np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
    labels = [p.argmax(axis=1) for p in weighted.predict_proba(X)]
    assert all_equal(weighted.predict(X), [weighted.classes_[k] for k in labels])
    np.testing.assert_allclose(weighted.log_prob(X, y), plain.log_prob(X, y))


def test_weights_are_kept_in_the_file(tmp_path):
    X, y = chains(n=20)
    model = small(class_weight="balanced").fit(X, y)
    model.save(tmp_path / "model.seqboost")
    assert all_equal(seqboost.load(tmp_path / "model.seqboost").predict_proba(X), model.predict_proba(X))


def test_weights_of_one_are_no_weights():
    X, y = chains(n=30)
    weighted = small(class_weight={"a": 1.0, "b": 1.0, "c": 1.0}).fit(X, y)
    for ours, plain in zip(weighted.predict_proba(X), small().fit(X, y).predict_proba(X), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weight", [1e-300, 1e300])
def test_extreme_weights_leave_probabilities_that_sum_to_one(weight):
    X, y = chains(n=20)
    prob = np.concatenate(small(class_weight={"a": weight}).fit(X, y).predict_proba(X))
    assert np.allclose(prob.sum(axis=1), 1, atol=1e-5)
    assert (prob[:, 0].min() > 0.99) if weight > 1 else (prob[:, 0].max() < 0.01)


@pytest.mark.parametrize(
    "parameters",
    [{"contexts": "seen", "order": 2}, {"beam": 2}, {"objective": "pseudo_likelihood"}, {"init": "linear"}],
)
def test_every_way_of_training_takes_weights(parameters):
    X, y = chains(n=40)
    shares = [
        np.mean(np.concatenate(small(class_weight=weight, **parameters).fit(X, y).predict(X)) == "a")
        for weight in (None, {"a": 20.0})
    ]
    assert shares[1] > shares[0]


def test_memm_takes_weights(rare):
    X, y, X_test, y_test = rare
    make = {"potentials": "joint", "window": 2, "l2_regularization": 10.0, "random_state": 0}
    plain, heavy = (of_rare(MEMM(class_weight=v, **make).fit(X, y), X_test, y_test) for v in (None, {1: 20.0}))
    assert heavy[1] > plain[1]
    assert heavy[0] < 0.3


def test_transitions_are_kept_to():
    X, y = chains(n=40)
    allowed = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]])
    kept = [s for s, labels in enumerate(y) if "ac" not in "".join(labels)]
    model = small(transitions=allowed, class_weight={"c": 50.0}).fit([X[s] for s in kept], [y[s] for s in kept])
    assert not any("ac" in "".join(labels) for labels in model.predict(X))


def test_viterbi_refuses_weights():
    X, y = chains(n=10)
    with pytest.raises(ParameterError, match="class_weight changes .* use decoding='posterior', or class_weight=None"):
        small(class_weight="balanced", decoding="viterbi").fit(X, y)
    model = small(class_weight="balanced").fit(X, y)
    with pytest.raises(ParameterError, match="class_weight changes"):
        model.set_params(decoding="viterbi").predict(X)


# Weights of loss terms: objective="position_likelihood"


def position(**parameters):
    return quick(objective="position_likelihood", **parameters)


def test_weighted_terms_raise_recall_too(rare):
    X, y, X_test, y_test = rare
    found = [of_rare(position(class_weight=v).fit(X, y), X_test, y_test) for v in (None, {1: 20.0}, "balanced")]
    assert found[0][1] < found[1][1] < found[2][1]
    share = np.concatenate(y_test).mean()
    assert share < found[2][0] < 10 * share


def test_a_validation_set_without_the_rare_label_does_not_stop_training_at_the_start(rare):
    X, y, X_test, y_test = rare
    common = [s for s, labels in enumerate(y) if not labels.any()]
    held, kept = common[:6], [s for s in range(len(X)) if s not in common[:6]]
    model = position(class_weight="balanced").fit(
        [X[s] for s in kept], [y[s] for s in kept], X_val=[X[s] for s in held], y_val=[y[s] for s in held]
    )
    share, recall, _ = of_rare(model, X_test, y_test)
    assert recall > 0.3
    assert share < 0.1


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_weighted_terms_are_climbed(potentials, trees):
    X, y = chains(n=40)
    settings = {"objective": "position_likelihood", "potentials": potentials, "trees": trees}
    plain = small(**settings).fit(X, y).predict_proba(X)
    heavy = small(class_weight={"a": 20.0}, **settings).fit(X, y)
    assert np.concatenate(heavy.predict_proba(X))[:, 0].mean() > np.concatenate(plain)[:, 0].mean() + 0.1
    score = heavy.history_["train_score"]
    assert all(np.diff(score) >= 0)  # step="safe" climbs the weighted objective


def test_unobserved_labels_have_no_term():
    X, y = chains(n=30)
    hidden = [[None if (s + t) % 3 == 0 else label for t, label in enumerate(labels)] for s, labels in enumerate(y)]
    model = small(objective="position_likelihood", class_weight={"a": 5.0}).fit(X, hidden)
    assert np.allclose(np.concatenate(model.predict_proba(X)).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("parameters", [{"pseudo_likelihood_rounds": 3}, {"beam": 2}, {"contexts": "seen", "order": 2}])
def test_ways_of_training_without_posteriors_are_refused(parameters):
    X, y = chains(n=10)
    with pytest.raises(ParameterError, match=r"objective='position_likelihood' needs|contexts='seen' needs"):
        small(objective="position_likelihood", **parameters).fit(X, y)


def test_a_model_of_an_earlier_version_is_not_weighted_twice():
    X, y = chains(n=20)
    model = small(class_weight="balanced", warm_start=True).fit(X, y)
    model._set_result(replace(model._result, label_odds=None))  # as from a file of then, whose trees hold the weights
    with pytest.raises(ParameterError, match="trained with class_weight by an earlier version"):
        model.set_params(max_iter=12).fit(X, y)


def test_weights_of_labels_in_the_trees_stay_there():
    X, y = chains(20, seed=1)
    model = small(class_weight={"a": 2.0}, warm_start=True).fit(X, y, [np.ones(len(labels)) for labels in y])
    with pytest.raises(ParameterError, match=r"or by weights of positions \(sample_weight\), which put the weights"):
        model.set_params(max_iter=6).fit(X, y)
