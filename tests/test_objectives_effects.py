"""What a feature of positions is worth for each label: the optimum of a concave function."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from seqboost.objectives import best_effect


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("only", [None, 1])
def test_optimum_is_that_of_a_general_optimiser(n_labels, only):
    rng = np.random.default_rng(n_labels)
    base, feature = rng.normal(size=(200, n_labels)), rng.random(200)
    labels = rng.integers(-1, n_labels, 200).astype(np.int32)
    weights = rng.random(200) * (rng.random(200) < 0.8)
    free = np.ones(n_labels, dtype=bool) if only is None else np.arange(n_labels) == only

    def loss(eta):
        log_p = log_softmax(base + feature[:, None] * np.where(free, eta, 0.0), axis=1)
        own = np.where(labels >= 0, log_p[np.arange(200), labels], 0.0)
        return -weights @ own + eta @ eta / 2

    expected = minimize(loss, np.zeros(n_labels)).x
    np.testing.assert_allclose(best_effect(base, feature, labels, weights, free), expected, atol=1e-3)


def test_a_feature_that_tells_all_stays_finite():
    labels = np.repeat([0, 1], 500).astype(np.int32)
    effect = best_effect(np.zeros((1000, 2)), labels.astype(float), labels, np.ones(1000), np.ones(2, dtype=bool))
    assert np.isfinite(effect).all()
    assert effect[1] > 2


def test_a_feature_that_says_nothing_is_worth_nothing():
    labels = np.tile([0, 1, 1, 0], 50).astype(np.int32)
    feature = np.tile([1.0, 1.0, 0.0, 0.0], 50)
    effect = best_effect(np.zeros((200, 2)), feature, labels, np.ones(200), np.ones(2, dtype=bool))
    np.testing.assert_allclose(effect, 0, atol=1e-9)
