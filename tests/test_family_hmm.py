"""HMM against enumeration of all labellings and against scikit-learn's naive Bayes models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler, words
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import all_equal, chains

from seqboost import HMM, TreeCRF, load
from seqboost.estimators.family.hmm import transition_scores
from seqboost.estimators.persistence import KINDS
from seqboost.exceptions import InputError


def enumerated(model, emission, order, length):
    """Return P(Y | X) of every labelling by the definition: Π P(y_t | before) P(x_t | y_t), normalised."""
    n_labels = len(model.classes_)
    base = np.cumsum([0] + [n_labels**j for j in range(order)])
    found = {}
    for path in itertools.product(range(n_labels), repeat=length):
        total = 0.0
        for t, k in enumerate(path):
            n_lags = min(t, order)
            context = sum(path[t - lag] * n_labels ** (lag - 1) for lag in range(1, n_lags + 1))
            total += model.transition_scores_[base[n_lags] + context, k] + emission[t, k]
        found[path] = total
    highest = max(found.values())
    norm = sum(np.exp(v - highest) for v in found.values())
    return {path: np.exp(v - highest) / norm for path, v in found.items()}


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_everything_is_that_of_enumeration(order):
    X, y = chains(12, lengths=(1, 6))
    model = HMM(order=order).fit(X, y)
    flat, labels = np.vstack(X), np.concatenate(y)
    means = {k: flat[labels == k].mean(axis=0) for k in "abc"}
    variances = {k: flat[labels == k].var(axis=0) + 1e-9 * flat.var(axis=0).max() for k in "abc"}
    for x in X[:6]:
        emission = np.array(
            [[-0.5 * np.sum(np.log(2 * np.pi * variances[k]) + (row - means[k]) ** 2 / variances[k]) for k in "abc"]
             for row in x]
        )  # fmt: skip
        probability = enumerated(model, emission, order, len(x))
        marginal = np.zeros((len(x), 3))
        for path, p in probability.items():
            marginal[np.arange(len(x)), list(path)] += p
        np.testing.assert_allclose(model.predict_proba([x])[0], marginal, atol=1e-5)
        best = max(probability, key=probability.get)
        assert HMM(order=order, decoding="viterbi").fit(X, y).predict([x])[0].tolist() == ["abc"[k] for k in best]
        assert model.log_prob([x], [["abc"[k] for k in best]])[0] == pytest.approx(np.log(probability[best]), abs=1e-5)
        paths = model.predict_kbest([x], k=3)[0]
        ranked = sorted(probability.values(), reverse=True)[: len(paths)]
        np.testing.assert_allclose([np.exp(score) for _, score in paths], ranked, atol=1e-5)


def test_transitions_are_counted():
    model = HMM().fit(["xxx", "xx"], ["aba", "ab"])
    share = np.array([4, 3]) / 7  # a three times, b twice, and one more each
    after_start = (np.array([2, 0]) + 1 * share) / 3  # a twice: one different label
    after_a = (np.array([0, 2]) + 1 * share) / 3
    after_b = (np.array([1, 0]) + 1 * share) / 2
    np.testing.assert_allclose(np.exp(model.transition_scores_), [after_start, after_a, after_b])


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_transitions_are_those_of_counting_by_hand(order):
    rng = np.random.default_rng(order)
    sequences = [rng.integers(3, size=n) for n in (1, 2, 7, 5, 9)]
    weights = rng.uniform(0.5, 2, size=5)
    sequences[3][2] = -1  # unobserved

    def smoothed(history, at_start):
        """Return P(. | history, oldest first), by the definition."""
        counts = np.zeros(3)
        for s, w in zip(sequences, weights, strict=True):
            for t, k in enumerate(s):
                j = len(history)
                if k >= 0 and t >= j and tuple(s[t - j : t]) == history and (not at_start or t == j):
                    counts[k] += w
        if not history and not at_start:
            return (counts + 1) / (counts.sum() + 3)
        shorter = smoothed(history, False) if at_start else smoothed(history[1:], False)
        d = (counts > 0).sum()
        return (counts + d * shorter) / (counts.sum() + d) if d else shorter

    expected = []
    for j in range(order + 1):
        for c in range(3**j):
            history = tuple(c // 3**i % 3 for i in reversed(range(j)))
            expected.append(smoothed(history, j < order))
    found = transition_scores(
        np.concatenate(sequences).astype(np.int32), np.array([0, 1, 3, 10, 15, 24]),
        np.repeat(weights, [1, 2, 7, 5, 9]), 3, order,
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(found), expected)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)


def without_prior(naive_bayes, X, prior):
    return naive_bayes.predict_joint_log_proba(X) - prior


def test_emissions_are_those_of_naive_bayes():
    rng = np.random.default_rng(0)
    numbers, categories = rng.normal(size=(60, 2)), rng.integers(4, size=(60, 2))
    indicators = (rng.random((60, 5)) < 0.3).astype(float)
    labels = rng.integers(3, size=60)
    names = np.array(list("wxyz"))

    def emitted(X):
        model = HMM(smoothing=0.7).fit([X], [labels])
        return model._emissions.scores(model._batch([X]))

    gauss = GaussianNB().fit(numbers, labels)
    np.testing.assert_allclose(emitted(numbers), without_prior(gauss, numbers, np.log(gauss.class_prior_)))
    counted = CategoricalNB(alpha=0.7).fit(categories, labels)
    expected = without_prior(counted, categories, counted.class_log_prior_)
    np.testing.assert_allclose(emitted([tuple(row) for row in names[categories].tolist()]), expected)
    bernoulli = BernoulliNB(alpha=0.7).fit(indicators, labels)
    expected = without_prior(bernoulli, indicators, bernoulli.class_log_prior_)
    np.testing.assert_allclose(emitted(sp.csr_array(indicators)), expected)


def test_missing_values_say_nothing():
    X, y = words(30)
    model = HMM(order=0).fit([[{"letter": c, "n": 1.0 * (c == "a")} for c in word] for word in X], y)
    nothing = model.predict_proba([[{"letter": None, "n": None}, {"letter": "never seen", "n": None}]])[0]
    prior = np.exp(model.transition_scores_[0])
    np.testing.assert_allclose(nothing, [prior / prior.sum()] * 2, rtol=1e-5)


def test_unobserved_labels_do_not_count():
    X, y = chains(10, lengths=(4, 5))
    hidden = [[None, *labels[1:]] for labels in y]
    cut = HMM(order=0).fit([x[1:] for x in X], [labels[1:] for labels in y])
    assert all_equal(HMM(order=0).fit(X, hidden).predict_proba(X), cut.predict_proba(X))


def test_weight_2_is_repetition():
    X, y = chains(8)
    weighted = HMM().fit(X, y, sample_weight=[2, 2] + [1] * 6)
    repeated = HMM().fit(X[:2] + X, y[:2] + y)
    np.testing.assert_allclose(
        np.concatenate(weighted.predict_proba(X)), np.concatenate(repeated.predict_proba(X)), atol=1e-6
    )


def test_constant_and_all_missing_columns():
    rng = np.random.default_rng(0)
    X, y = chains(8)
    X = [np.column_stack([x, np.full(len(x), np.nan), np.full(len(x), 7.0)]) for x in X]
    model = HMM().fit(X, y)
    assert np.isfinite(np.concatenate(model.predict_proba(X))).all()
    far = [x + 1e6 * rng.normal(size=x.shape) for x in X]
    assert np.isfinite(np.concatenate(model.predict_proba(far))).all()


@pytest.mark.parametrize("order", [0, 2])
def test_contract(order, tmp_path):
    check_labeler(HMM(order=order), tmp_path=tmp_path)


def test_files_name_their_kind(tmp_path):
    HMM().fit(*words()).save(tmp_path / "model")
    with pytest.raises(ValueError, match="holds a model of kind 'HMM', not TreeCRF; read it with the class that wrote"):
        TreeCRF.load(tmp_path / "model")
    assert set(KINDS) == {
        "FutureFeatureMEMM", "HMM", "IOHMM", "LinearCRF", "MEMM", "OutputCoding", "TreeCRF", "VotedPerceptron",
    }  # fmt: skip


def test_a_file_whose_parts_do_not_fit(tmp_path, monkeypatch):
    from seqboost.estimators import persistence

    model = HMM().fit(*words())
    model.save(tmp_path / "model")
    header, arrays = persistence.read_model(tmp_path / "model")
    for name, match in (("table", "transitions of this model"), ("category_scores.0", "emissions of this model")):
        monkeypatch.setattr(persistence, "read_model", lambda path, n=name: (header, {**arrays, n: arrays[n][:1]}))
        with pytest.raises(ValueError, match=match):
            load(tmp_path / "model")


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks([HMM()], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_errors():
    with pytest.raises(ValueError, match="'smoothing' parameter of HMM must be a number above 0. Got 0"):
        HMM(smoothing=0).fit(*words())
    with pytest.raises(ValueError, match="'order' parameter of HMM must be an int from 0 to 8"):
        HMM(order=-1).fit(*words())


@pytest.mark.parametrize("value", [1e300, -1.7e308, 1e150])
def test_numbers_whose_squares_are_no_floats_are_refused_by_name_and_place(value):
    X, y = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, value]]], [["a", "b"], ["b", "a"]]
    with pytest.raises(InputError, match=r"column 'x1' holds .* at sequence 1, position 1, expected a number between"):
        HMM().fit([np.array(x) for x in X], y)
    model = HMM().fit([np.array(x) for x in X[:1]], y[:1])
    with pytest.raises(InputError, match=r"column 'x1' holds .* at sequence 1, position 1"):
        model.predict([np.array(x) for x in X])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_numbers_have_probabilities(dtype):
    X = [np.array([[1e30], [2.0], [-3e37], [0.0]], dtype=dtype)]
    model = HMM().fit([np.arange(8, dtype=dtype)[:, None]], [list("abababab")])
    proba = model.predict_proba(X)[0]
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
