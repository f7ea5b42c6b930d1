"""VotedPerceptron against its slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler, words
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import all_equal, chains

from seqboost import VotedPerceptron, as_batch, load
from seqboost.estimators.family.linear import fit_columns
from seqboost.estimators.family.matrices import indicator_matrix
from seqboost.estimators.family.reference import perceptron_slow


def slow(X, y, classes, *, window, order, max_iter, seed):
    """Return the vectors after each visit, as (features, transitions), and wrong sequences by pass."""
    batch = as_batch(X)
    columns = fit_columns(batch, window)
    matrix = indicator_matrix(columns, columns.transform(batch)).toarray()
    features = [matrix[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]
    labels = [np.searchsorted(classes, list(part)).tolist() for part in y]
    rng = check_random_state(seed)
    visits = np.concatenate([rng.permutation(len(X)) for _ in range(max_iter)]).tolist()
    history = perceptron_slow(features, labels, visits, len(classes), order)
    vectors = []
    for weights, _ in history:
        w = np.zeros((columns.n_features, len(classes)))
        transitions = {}
        for (kind, place, k), value in weights.items():
            if kind == "feature":
                w[place, k] = value
            else:
                transitions[place, k] = value
        vectors.append((w, transitions))
    wrong = np.array([made for _, made in history]).reshape(max_iter, -1).sum(axis=1)
    return vectors, wrong.tolist()


def table_of(chain, transitions_keys, n_labels):
    """Return entries of a chain's table by (labels before, oldest first; label)."""
    order = chain.order
    base = np.cumsum([0] + [n_labels**j for j in range(order)])
    found = {}
    for before, k in transitions_keys:
        context = sum(label * n_labels**i for i, label in enumerate(reversed(before)))
        found[before, k] = chain.table[base[len(before)] + context, k]
    return found


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("form", ["numbers", "letters"])
def test_weights_are_those_of_the_slow_twin(order, form):
    X, y = chains(7, lengths=(1, 5)) if form == "numbers" else words(8)
    if form == "numbers":
        X[1][0, 0] = np.nan
    model = VotedPerceptron(order=order, window=1, max_iter=3, method="voted", n_voters=1000, random_state=3).fit(X, y)
    vectors, wrong = slow(X, y, model.classes_, window=1, order=order, max_iter=len(model.mistakes_), seed=3)
    assert model.mistakes_ == wrong
    assert model._votes.tolist() == [1] * len(vectors)
    for voter, (w, transitions) in zip(model._voters, vectors, strict=True):
        np.testing.assert_allclose(voter.weights.value.reshape(w.shape), w, atol=1e-5)
        found = table_of(voter, transitions, len(model.classes_))
        assert all(found[key] == pytest.approx(value) for key, value in transitions.items())
        assert np.abs(voter.table).sum() == pytest.approx(sum(map(abs, transitions.values())))
    averaged = VotedPerceptron(order=order, window=1, max_iter=3, random_state=3).fit(X, y)
    mean = np.mean([w for w, _ in vectors], axis=0)
    np.testing.assert_allclose(averaged._chain.weights.value.reshape(mean.shape), mean, atol=1e-5)
    np.testing.assert_allclose(averaged._chain.table, model._chain.table, atol=1e-9)
    np.testing.assert_allclose(averaged._chain.weights.value, model._chain.weights.value, atol=1e-5)


def test_groups_are_means_of_consecutive_vectors():
    X, y = chains(6)
    every = VotedPerceptron(max_iter=4, method="voted", n_voters=24, random_state=0).fit(X, y)
    grouped = VotedPerceptron(max_iter=4, method="voted", n_voters=5, random_state=0).fit(X, y)
    assert grouped._votes.tolist() == [5, 5, 5, 5, 4]
    first = np.mean([voter.weights.value for voter in every._voters[:5]], axis=0)
    np.testing.assert_allclose(grouped._voters[0].weights.value, first, atol=1e-5)
    last = np.mean([voter.table for voter in every._voters[20:]], axis=0)
    np.testing.assert_allclose(grouped._voters[-1].table, last, atol=1e-9)


def test_votes_are_counted():
    X, y = chains(6)
    model = VotedPerceptron(max_iter=3, method="voted", n_voters=4, random_state=0).fit(X, y)
    share = np.zeros((sum(map(len, X)), 3))
    for voter, votes in zip(model._voters, model._votes, strict=True):
        lone = VotedPerceptron().fit(X, y)
        lone._chain, lone._voters = voter, [voter]
        for row, label in enumerate(np.concatenate(lone.predict(X))):
            share[row, "abc".index(label)] += votes
    np.testing.assert_allclose(np.concatenate(model.predict_proba(X)), share / model._votes.sum())


def test_beam_in_training():
    X, y = chains(25, lengths=(3, 9))
    exact = VotedPerceptron(random_state=0).fit(X, y)
    wide = VotedPerceptron(random_state=0, beam=3).fit(X, y)
    assert all_equal(wide.predict_proba(X), exact.predict_proba(X))
    narrow = VotedPerceptron(random_state=0, beam=1).fit(X, y)
    assert not np.array_equal(narrow._chain.table, exact._chain.table)
    assert narrow.score(X, y) > 0.6
    # a beam that holds all contexts but one must decode as exact search does, up to what it drops
    order2 = VotedPerceptron(random_state=0, beam=8, order=2).fit(X, y)
    assert order2.score(X, y) > 0.6


def test_a_pass_without_mistakes_is_the_last():
    X, y = words(20)
    model = VotedPerceptron(window=0, max_iter=50, random_state=0).fit(X, y)
    assert model.mistakes_[-1] == 0
    assert model.n_iter_ == len(model.mistakes_) < 50
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("method", ["averaged", "voted"])
def test_contract(method, tmp_path):
    check_labeler(VotedPerceptron(method=method, n_voters=7, random_state=0), tmp_path=tmp_path)


def test_a_file_whose_voters_do_not_fit(tmp_path, monkeypatch):
    from seqboost.estimators import persistence

    VotedPerceptron(method="voted", n_voters=3).fit(*words()).save(tmp_path / "model")
    header, arrays = persistence.read_model(tmp_path / "model")
    arrays["voters.table"] = arrays["voters.table"][:1]
    monkeypatch.setattr(persistence, "read_model", lambda path: (header, arrays))
    with pytest.raises(ValueError, match="voters of this model do not fit"):
        load(tmp_path / "model")


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks([VotedPerceptron(random_state=0)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_errors():
    X, y = words(10)
    with pytest.raises(ValueError, match="'method' parameter of VotedPerceptron must be one of 'averaged', 'voted'"):
        VotedPerceptron(method="mean").fit(X, y)
    hidden = [list(labels) for labels in y]
    hidden[4][0] = None
    with pytest.raises(ValueError, match=r"VotedPerceptron needs every label, but y\[4\] has an unobserved one"):
        VotedPerceptron().fit(X, hidden if len(hidden[4]) > 1 else [*hidden[:4], ["c", None], *hidden[5:]])
