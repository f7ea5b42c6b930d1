"""IOHMM: its probabilities against enumeration of all states, and EM that never falls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler, words
from scipy.optimize import check_grad
from scipy.special import softmax
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import chains

from seqboost import IOHMM, load
from seqboost.estimators.family import iohmm

UNWEIGHTED = "numbers are standardised by means and deviations that leave weights out, as for all linear labellers"
BY_WEIGHT = {f"check_sample_weight_equivalence_on_{form}_data": UNWEIGHTED for form in ("dense", "sparse")}


def laws(model, x):
    """Return P(j | i, x_t) with ⊥ as the last i, and P(k | j, x_t), from the weights."""
    inputs = model._inputs(model._batch([x])).toarray()
    moves = softmax(np.einsum("nf,fij->nij", inputs, model._moves), axis=2)
    emits = softmax(np.einsum("nf,fjk->njk", inputs, model._emits), axis=2)
    return moves, emits


@pytest.mark.parametrize("n_states", [2, 3, 4])
def test_probabilities_are_those_of_enumeration(n_states):
    X, y = chains(10, lengths=(1, 5))
    model = IOHMM(n_states=n_states, max_iter=3, random_state=0, window=1).fit(X, y)
    for x in X[:5]:
        moves, emits = laws(model, x)
        total, marginal = {}, np.zeros((len(x), 3))
        for labels in itertools.product(range(3), repeat=len(x)):
            total[labels] = 0.0
            for states in itertools.product(range(n_states), repeat=len(x)):
                p = 1.0
                for t, (s, k) in enumerate(zip(states, labels, strict=True)):
                    p *= moves[t, states[t - 1] if t else n_states, s] * emits[t, s, k]
                total[labels] += p
            marginal[np.arange(len(x)), list(labels)] += total[labels]
        assert sum(total.values()) == pytest.approx(1)
        np.testing.assert_allclose(model.predict_proba([x])[0], marginal, atol=1e-5)
        for labels in list(total)[:10]:
            found = model.log_prob([x], [["abc"[k] for k in labels]])[0]
            assert found == pytest.approx(np.log(total[labels]), abs=1e-4)
        hidden = [["a", *[None] * (len(x) - 1)]]
        expected = sum(p for labels, p in total.items() if labels[0] == 0)
        assert model.log_prob([x], hidden)[0] == pytest.approx(np.log(expected), abs=1e-4)


@pytest.mark.parametrize("n_states", [2, 3, 6])
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_em_never_falls(n_states, hidden):
    rng = np.random.default_rng(0)
    X, y = chains(25, lengths=(2, 9))
    y = [[None if rng.random() < hidden else k for k in labels] for labels in y]
    model = IOHMM(n_states=n_states, max_iter=12, tol=0, random_state=0, l2_regularization=0.3).fit(X, y)
    assert len(model.history_) >= 2
    # scores are of single precision, so the last digits of a sum over positions are not exact
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(model.history_))
    assert model.history_[-1] > model.history_[0] + 0.1


def test_history_is_the_penalised_likelihood():
    X, y = chains(12, lengths=(2, 6))
    weights = np.arange(1.0, 13.0)
    model = IOHMM(max_iter=4, tol=0, random_state=0, l2_regularization=0.7).fit(X, y, sample_weight=weights)
    size = (model._moves**2).sum() + (model._emits**2).sum()
    value = weights @ model.log_prob(X, y) - 0.35 * size
    assert model.history_[-1] == pytest.approx(value / (weights @ [len(x) for x in X]), abs=1e-6)


def test_the_slope_of_an_m_step():
    rng = np.random.default_rng(0)
    X, y = chains(6, lengths=(2, 5))
    model = IOHMM(max_iter=1, random_state=0).fit(X, y)
    x = model._inputs(model._batch(X))
    targets = rng.random((x.shape[0], 2, 3))
    seen = {}

    def remember(lost, start, **options):
        seen["lost"] = lost
        return type("Result", (), {"fun": np.inf, "x": start})

    original = iohmm.minimize
    try:
        iohmm.minimize = remember
        weights = rng.normal(size=(x.shape[1], 2, 3))
        assert iohmm._climb(x, targets, weights, 0.5) is weights  # what does not climb is not taken
    finally:
        iohmm.minimize = original
    point = rng.normal(size=weights.size)
    assert check_grad(lambda w: seen["lost"](w)[0], lambda w: seen["lost"](w)[1], point) < 1e-4


def test_hidden_states_remember():
    # b comes after two a's: no label alone tells, three states can count
    X, y = ["x" * n for n in (6, 7, 9, 5, 8)] * 4, ["aabaabaab"[:n] for n in (6, 7, 9, 5, 8)] * 4
    scores = [IOHMM(n_states=n, max_iter=150, tol=0, l2_regularization=0.01, random_state=1).fit(X, y).score(X, y)
              for n in (2, 4)]  # fmt: skip
    assert scores[1] > 0.95 > scores[0]


def test_contract(tmp_path):
    check_labeler(IOHMM(random_state=0, max_iter=8, l2_regularization=0.1), tmp_path=tmp_path)


def test_a_file_whose_weights_do_not_fit(tmp_path, monkeypatch):
    from seqboost.estimators import persistence

    IOHMM(max_iter=2).fit(*words()).save(tmp_path / "model")
    header, arrays = persistence.read_model(tmp_path / "model")
    monkeypatch.setattr(persistence, "read_model", lambda path: (header, {**arrays, "emits": arrays["emits"][:1]}))
    with pytest.raises(ValueError, match="the weights of this model do not fit"):
        load(tmp_path / "model")


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks(
    [IOHMM(random_state=0, max_iter=2)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES | BY_WEIGHT
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_errors():
    with pytest.raises(ValueError, match="'n_states' parameter of IOHMM must be an int from 2 to 1000 or None"):
        IOHMM(n_states=1).fit(*words())
