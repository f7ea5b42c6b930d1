"""MEMM: its chain against the definition, and what it shares with TreeCRF."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from family_data import check_labeler
from treecrf_data import all_equal, chains

from seqboost import MEMM, Method, TreeCRF
from seqboost.estimators import prediction
from tests.support.estimators import with_method


def small(**parameters):
    common = {"max_iter": 4, "min_samples_leaf": 1, "max_leaf_nodes": 6, "early_stopping": False, "random_state": 0}
    return MEMM(**with_method(common | parameters))


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_everything_is_that_of_the_definition(order, potentials):
    X, y = chains(12, lengths=(1, 5))
    model = small(order=order, potentials=potentials).fit(X, y)
    model.set_params(decoding="viterbi")
    for x in X[:5]:
        scored = TreeCRF._scored(model, model._batch([x]))  # before they are normalised
        probability = {}
        for path in itertools.product(range(3), repeat=len(x)):
            log_p = 0.0
            for t, k in enumerate(path):
                c = scored.space.context_of(path, t)
                e = int(scored.space.base[min(t, order)]) + c
                local = scored.scores[:, t, c if scored.joint else 0] + scored.table[e]
                log_p += local[k] - np.log(np.exp(local).sum())
            probability[path] = np.exp(log_p)
        assert sum(probability.values()) == pytest.approx(1)
        marginal = np.zeros((len(x), 3))
        for path, p in probability.items():
            marginal[np.arange(len(x)), list(path)] += p
            assert model.log_prob([x], [["abc"[k] for k in path]])[0] == pytest.approx(np.log(p), abs=1e-4)
        np.testing.assert_allclose(model.predict_proba([x])[0], marginal, atol=1e-5)
        best = max(probability, key=probability.get)
        assert model.predict([x])[0].tolist() == ["abc"[k] for k in best]


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_training_climbs_the_likelihood_of_the_chain(potentials):
    X, y = chains(20, lengths=(2, 9))
    model = small(max_iter=15, potentials=potentials).fit(X, y)
    scores = model.history_["train_score"]
    assert all(b >= a for a, b in itertools.pairwise(scores))
    assert scores[-1] == pytest.approx(model.log_prob(X, y).sum() / sum(map(len, X)), abs=1e-5)


def test_order_0_is_a_sliding_window():
    X, y = chains(20, lengths=(2, 9))
    common = {"max_iter": 4, "min_samples_leaf": 1, "max_leaf_nodes": 6, "early_stopping": False, "random_state": 0}
    crf = TreeCRF(**common, order=0, method=Method(curvature="newton")).fit(X, y)
    np.testing.assert_allclose(
        np.concatenate(small(order=0, curvature="newton").fit(X, y).predict_proba(X)),
        np.concatenate(crf.predict_proba(X)),
        atol=1e-5,
    )
    wide = small(order=0, window=0).fit(X, y)
    alone = [np.concatenate(wide.predict_proba([x[t : t + 1] for t in range(len(x))])) for x in X[:3]]
    assert all_equal(alone, wide.predict_proba(X[:3]))


def test_pieces_give_the_same(monkeypatch):
    X, y = chains(20, lengths=(2, 9))
    model = small(order=2).fit(X, y)
    whole, labels = model.predict_proba(X), model.predict(X)
    monkeypatch.setattr(prediction, "MOST_CELLS", 300)
    assert len(model._pieces(model._batch(X))) > 5
    assert all_equal(model.predict_proba(X), whole)
    assert all_equal(model.predict(X), labels)


def test_beam():
    X, y = chains(20, lengths=(2, 9))
    model = small().fit(X, y)
    exact = model.predict_proba(X)
    assert all_equal(model.predict_proba(X, beam=3), exact)
    narrow = model.predict_proba(X, beam=1)
    np.testing.assert_allclose(np.concatenate(narrow).sum(axis=1), 1, atol=1e-5)
    # a beam of one is greedy reading
    for x, labels in zip(X, model.set_params(decoding="viterbi").predict(X, beam=1), strict=True):
        scored, before = model._scored(model._batch([x])), 0
        for t, label in enumerate(labels):
            k = int(np.argmax(scored.scores[:, t, before]))
            assert "abc"[k] == label
            before = k


def test_unobserved_labels_and_forbidden_transitions():
    X, y = chains(20, lengths=(3, 9))
    hidden = [[None if t == 1 else k for t, k in enumerate(labels)] for labels in y]
    assert small().fit(X, hidden).score(X, y) > 0.6
    allowed = np.ones((3, 3), dtype=bool)
    allowed[0, 2] = False
    y = [["b" if b == "c" and i and labels[i - 1] == "a" else b for i, b in enumerate(labels)] for labels in y]
    y = [["b" if b == "c" and i and labels[i - 1] == "a" else b for i, b in enumerate(labels)] for labels in y]
    for decoding in ("viterbi", "posterior"):
        model = small(transitions=allowed, decoding=decoding).fit(X, y)
        assert not any(("a", "c") in itertools.pairwise(labels.tolist()) for labels in model.predict(X))
        np.testing.assert_allclose(np.concatenate(model.predict_proba(X)).sum(axis=1), 1, atol=1e-5)


def test_warm_start_is_cold_start():
    X, y = chains(15)
    cold = small(max_iter=6).fit(X, y)
    warm = small(max_iter=3, warm_start=True).fit(X, y)
    assert all_equal(warm.set_params(max_iter=6).fit(X, y).predict_proba(X), cold.predict_proba(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_any_number_of_threads(n_jobs):
    X, y = chains(15)
    assert all_equal(small(n_jobs=n_jobs).fit(X, y).predict_proba(X), small(n_jobs=3).fit(X, y).predict_proba(X))


def test_contract(tmp_path):
    check_labeler(small(), tmp_path=tmp_path)


def test_label_bias():
    """After "r" both words are nearly certain of what follows, so the middle letter cannot change the choice made."""
    X = ["rib"] * 30 + ["rob"] * 10
    y = ["abc"] * 30 + ["def"] * 10
    memm_ = small(window=0, max_iter=60, l2_regularization=0.1).fit(X, y)
    crf = TreeCRF(window=0, max_iter=60, min_samples_leaf=1, early_stopping=False, l2_regularization=0.1).fit(X, y)
    assert "".join(crf.set_params(decoding="viterbi").predict(["rob"])[0]) == "def"
    assert memm_.log_prob(["rob"], ["def"])[0] < np.log(0.6) < crf.log_prob(["rob"], ["def"])[0]


def test_errors_name_the_class():
    X, y = chains(5)
    with pytest.raises(ValueError, match="'order' parameter of MEMM must be an int from 0 to 8"):
        small(order=9).fit(X, y)
    with pytest.raises(ValueError, match="MEMM has an objective and contexts of its own, but its method changes obj"):
        small(objective="pseudo_likelihood").fit(X, y)
    with pytest.raises(ValueError, match="'init' parameter of MEMM must be one of 'auto', 'labels'"):
        small(init="linear").fit(X, y)
    with pytest.raises(ValueError, match="'min_duration' parameter of MEMM must be one of 1"):
        small(min_duration=2).fit(X, y)


def test_has_the_parameters_and_defaults_of_treecrf():
    ours, theirs = MEMM().get_params(), TreeCRF().get_params()
    assert ours == theirs
