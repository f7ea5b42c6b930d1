"""TreeCRF trained on sets of labels."""

from __future__ import annotations

import numpy as np
import pytest
from treecrf_data import all_equal, chains, labellings, small

from seqboost import HMM, MEMM, SlidingWindow, load
from seqboost.exceptions import InputError

X, Y = chains(n=12, lengths=(2, 6))


def with_sets(y, share=0.5, classes="abc", seed=0):
    """Replace labels by sets of two that hold them."""
    rng = np.random.default_rng(seed)

    def blurred(label):
        other = rng.choice([one for one in classes if one != label])
        return {label, str(other)} if rng.random() < share else label

    return [[blurred(label) for label in labels] for labels in y]


BLURRED = with_sets(Y)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_log_prob_of_sets_is_the_sum_over_their_labels(order, potentials):
    model = small(order=order, potentials=potentials if order else "joint").fit(X, BLURRED)
    found = model.log_prob(X[:4], BLURRED[:4])
    for i in range(4):
        paths = labellings(model.classes_, len(X[i]))
        fits = [
            path
            for path in paths
            if all(k in y if isinstance(y, set) else k == y for k, y in zip(path, BLURRED[i], strict=True))
        ]
        log_prob = model.log_prob([X[i]] * len(fits), fits)
        assert found[i] == pytest.approx(np.logaddexp.reduce(log_prob), abs=1e-4)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_training_climbs_the_likelihood_of_the_sets(order, potentials):
    model = small(order=order, potentials=potentials if order else "joint", max_iter=15).fit(X, BLURRED)
    scores = np.array(model.history_["train_score"])
    assert np.all(np.diff(scores) > 0)
    n_positions = sum(map(len, X))
    assert scores[-1] == pytest.approx(model.log_prob(X, BLURRED).sum() / n_positions, abs=1e-4)
    right = n_exact = 0
    for predicted, y in zip(model.predict(X), BLURRED, strict=True):
        exact = [t for t, label in enumerate(y) if not isinstance(label, set)]
        right, n_exact = right + sum(predicted[t] == y[t] for t in exact), n_exact + len(exact)
    assert model.history_["train_accuracy"][-1] == pytest.approx(right / n_exact)
    assert model.score(X, BLURRED) == pytest.approx(right / n_exact)


def test_sets_teach_more_than_unobserved_labels():
    rng = np.random.default_rng(0)
    X, y = chains(n=150, lengths=(5, 15), seed=1)
    X_test, y_test = chains(n=60, lengths=(5, 15), seed=2)
    hidden = [[label if rng.random() < 0.15 else None for label in labels] for labels in y]
    sets = [
        [label if label is not None else one for label, one in zip(few, many, strict=True)]
        for few, many in zip(hidden, with_sets(y, share=1.0), strict=True)
    ]
    accuracy = [
        small(max_iter=40, min_samples_leaf=20, learning_rate=0.1).fit(X, labels).score(X_test, y_test)
        for labels in (hidden, sets, y)
    ]
    assert accuracy[0] + 0.02 < accuracy[1] <= accuracy[2] + 0.02


def test_nothing_but_sets():
    sets = with_sets(Y, share=1.0)
    model = small(max_iter=10).fit(X, sets)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert np.all(np.diff(model.history_["train_score"]) > 0)
    assert np.isnan(model.history_["train_accuracy"]).all()


def test_sets_of_one_and_of_all_labels_change_nothing():
    y = [[None if i % 3 == 0 else label for i, label in enumerate(labels)] for labels in Y]
    same = [[{"a", "b", "c"} if label is None else {label} for label in labels] for labels in y]
    assert all_equal(small().fit(X, y).predict_proba(X), small().fit(X, same).predict_proba(X))


def test_labels_seen_in_sets_alone_are_classes():
    y = [["a" if label == "a" else {"b", "c"} for label in labels] for labels in Y]
    model = small(max_iter=20).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    prob = np.concatenate(model.predict_proba(X))
    np.testing.assert_allclose(prob[:, 1], prob[:, 2], atol=1e-5)  # nothing tells them apart


def test_held_out_sequences_and_early_stopping():
    X, y = chains(n=60, lengths=(2, 8), seed=3)
    blurred = with_sets(y)
    settings = {"early_stopping": True, "max_iter": 15, "refit": False}
    model = small(**settings).fit(X, blurred)
    assert len(model.history_["validation_score"]) == len(model.history_["train_score"])
    model = small(**settings).fit(X, blurred, X_val=X[:9], y_val=with_sets(y[:9], share=0.3, seed=5))
    assert np.isfinite(model.history_["validation_score"]).all()
    exact = small(**settings).fit(X, y, X_val=X[:9], y_val=blurred[:9])
    value = exact.history_["validation_score"][-1]
    exact.set_params(early_stopping=False, max_iter=len(exact.history_["train_score"]) - 1).fit(X, y)
    assert value == pytest.approx(exact.log_prob(X[:9], blurred[:9]).sum() / sum(map(len, X[:9])), abs=1e-4)


def test_linear_start():
    words = [["red", "green", "blue", "red"], ["green", "green", "red"]] * 6
    y = [[{"r", "x"} if word == "red" else word[0] for word in sentence] for sentence in words]
    model = small(init="linear", max_iter=3).fit(words, y)
    assert model.classes_.tolist() == ["b", "g", "r", "x"]
    assert set(np.concatenate(model.predict(words))) <= {"b", "g", "r", "x"}


@pytest.mark.parametrize("transitions", ["any", "seen"])
def test_seen_transitions_are_those_that_sets_may_show(transitions):
    y = [["a", {"b", "c"}, "a"], ["a", {"b", "c"}, "a"]]
    model = small(transitions=transitions).fit([[0.0, 1.0, 2.0]] * 2, y)
    possible = np.isfinite(model.log_prob([[0.0, 1.0, 1.0]] * 5, ["aba", "aca", "aaa", "abc", "bca"]))
    assert possible.tolist() == [True, True, *([transitions == "any"] * 3)]


def test_impossible_sets_are_named_by_the_users_number():
    rules = {"a": ["a", "b"], "b": ["b", "c"], "c": ["a", "c"]}
    y = [["a", "b", "c"], ["a", None, {"a", "b"}], ["b", {"a", "c"}, "b"]]
    with pytest.raises(InputError, match=r"y\[2\] moves from 'c' to 'b' at position 2, which transitions.* forbids"):
        small(transitions=rules).fit([[0.0, 1.0, 2.0]] * 3, y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"contexts": "seen"}, r"contexts='seen' needs every label, but y\[0\] has a set of labels at position"),
        ({"beam": 2}, r"training with a beam cannot train on sets of labels, but y\[0\] has one at position"),
        ({"objective": "pseudo_likelihood"}, r"objective='pseudo_likelihood' cannot train on sets of labels"),
        ({"objective": "position_likelihood"}, r"objective='position_likelihood' cannot train on sets of labels"),
        ({"pseudo_likelihood_rounds": 2}, r"pseudo_likelihood_rounds cannot train on sets of labels"),
    ],
)
def test_other_ways_of_training_refuse_sets(parameters, match):
    y = [["a", {"a", "b"}, "b"], ["c", "a", "b"]]
    with pytest.raises(InputError, match=match):
        small(order=2, **parameters).fit([[0.0, 1.0, 2.0]] * 2, y)


@pytest.mark.parametrize("kind", [MEMM, HMM, SlidingWindow])
def test_other_labelers_refuse_sets(kind):
    with pytest.raises(InputError, match=r"label at sequence 0, position 1 is \{.*\}, a set of labels.*give one label"):
        kind().fit([[0.0, 1.0, 2.0]] * 2, [["a", {"a", "b"}, "b"], ["c", "a", "b"]])


def test_warm_start_and_model_file(tmp_path):
    model = small(warm_start=True, max_iter=2).fit(X, BLURRED)
    model.set_params(max_iter=4).fit(X, BLURRED)
    assert all_equal(model.predict_proba(X), small(max_iter=4).fit(X, BLURRED).predict_proba(X))
    model.save(tmp_path / "model")
    assert all_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_threads_change_nothing():
    assert all_equal(small(n_jobs=1).fit(X, BLURRED).predict_proba(X), small(n_jobs=2).fit(X, BLURRED).predict_proba(X))


@pytest.mark.parametrize("sampling", ["balanced", "1p/3n", "goss", 0.5])
def test_samplers_take_sets_for_unobserved(sampling):
    rng = np.random.default_rng(0)
    codes = [rng.integers(3, size=8).tolist() for _ in range(12)]
    X = [np.array(labels)[:, None] + rng.normal(size=(8, 1)) for labels in codes]
    y = [[{0, 2} if label == 2 else label for label in labels] for labels in codes]
    model = small(trees="per_label", sampling=sampling).fit(X, y)
    assert model.best_iteration_ > 0
    assert all(np.isfinite(prob).all() for prob in model.predict_proba(X))
