"""Class weights are weights of loss terms: recall rises with them, and rare events stay rare."""

from __future__ import annotations

import numpy as np
import pytest
from treecrf_data import all_equal, chains, small

from seqboost import MEMM, TreeCRF
from seqboost.datasets import make_rare_events
from seqboost.exceptions import ParameterError


def quick(**parameters):
    return TreeCRF(potentials="joint", window=2, l2_regularization=10.0, random_state=0, **parameters)


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
    weights = (None, {1: 5.0}, {1: 20.0}, "balanced")
    return [of_rare(quick(class_weight=weight).fit(X, y), X_test, y_test) for weight in weights]


def test_recall_rises_with_the_weight(by_weight):
    recall = [found[1] for found in by_weight]
    assert recall == sorted(recall)
    assert recall[-1] > recall[0] + 0.1


def test_balanced_weights_predict_at_least_the_true_share_and_at_most_ten_times_it(rare, by_weight):
    share = np.concatenate(rare[3]).mean()
    assert share < by_weight[-1][0] < 10 * share


def test_a_validation_set_without_the_rare_label_does_not_stop_training_at_the_start(rare):
    X, y, X_test, y_test = rare
    common = [s for s, labels in enumerate(y) if not labels.any()]
    held, kept = common[:6], [s for s in range(len(X)) if s not in common[:6]]
    model = quick(class_weight="balanced").fit(
        [X[s] for s in kept], [y[s] for s in kept], X_val=[X[s] for s in held], y_val=[y[s] for s in held]
    )
    share, recall, _ = of_rare(model, X_test, y_test)
    assert recall > 0.3
    assert share < 0.1


def test_memm_and_linear_start_take_weights(rare):
    X, y, X_test, y_test = rare
    for make in (
        lambda weight: MEMM(potentials="joint", window=2, l2_regularization=10.0, random_state=0, class_weight=weight),
        lambda weight: quick(init="linear", class_weight=weight),
    ):
        plain, heavy = (of_rare(make(weight).fit(X, y), X_test, y_test) for weight in (None, {1: 20.0}))
        assert heavy[1] > plain[1]
        assert heavy[0] < 0.3


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_every_kind_of_model_takes_weights(potentials, trees):
    X, y = chains(n=40)
    plain = small(potentials=potentials, trees=trees).fit(X, y).predict_proba(X)
    heavy = small(potentials=potentials, trees=trees, class_weight={"a": 20.0}).fit(X, y)
    assert np.concatenate(heavy.predict_proba(X))[:, 0].mean() > np.concatenate(plain)[:, 0].mean() + 0.1
    score = heavy.history_["train_score"]
    assert all(np.diff(score) >= 0)  # step="safe" climbs the weighted objective


def test_weights_of_one_are_no_weights():
    X, y = chains(n=30)
    weighted = small(class_weight={"a": 1.0, "b": 1.0, "c": 1.0}).fit(X, y)
    assert all_equal(weighted.predict_proba(X), small().fit(X, y).predict_proba(X))


def test_unobserved_labels_have_no_term():
    X, y = chains(n=30)
    hidden = [[None if (s + t) % 3 == 0 else label for t, label in enumerate(labels)] for s, labels in enumerate(y)]
    model = small(class_weight={"a": 5.0}).fit(X, hidden)
    assert np.allclose(np.concatenate(model.predict_proba(X)).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "pseudo_likelihood"}, "objective=.pseudo_likelihood. does not .* objective=.likelihood."),
        ({"pseudo_likelihood_rounds": 3}, "pseudo_likelihood_rounds=3 does not compute"),
        ({"beam": 2}, "beam=2 does not compute in training; use beam=None, or class_weight=None"),
    ],
)  # fmt: skip
def test_ways_of_training_without_posteriors_refuse_weights(parameters, message):
    X, y = chains(n=10)
    with pytest.raises(ParameterError, match=message):
        small(class_weight="balanced", **parameters).fit(X, y)


def test_a_beam_of_prediction_is_fine():
    X, y = chains(n=10)
    model = small(class_weight="balanced").fit(X, y)
    model.set_params(beam=2)
    assert len(model.predict(X)) == len(X)
    MEMM(class_weight="balanced", beam=2, max_iter=3, early_stopping=False).fit(X, y)
