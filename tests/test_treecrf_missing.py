"""``TreeCRF(missing=...)``: every policy with every kind of column, order, potential and tree; oracles by hand."""

import itertools
import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import seqboost
from seqboost import Surrogates, TreeCRF
from seqboost.datasets import remove_values
from seqboost.exceptions import ParameterError
from seqboost.features.policies import POLICIES
from seqboost.training import starting
from tests.support.estimators import with_method

LENGTHS = (1, 2, 9, 14, 3, 7, 25, 30, 11, 5, 16, 20, 13, 8, 2, 1, 18, 22, 10, 15)
CHAINS = [(0, "joint"), (1, "joint"), (1, "factored"), (2, "joint"), (2, "factored")]


def labelled(seed=0, n_labels=3):
    rng = np.random.default_rng(seed)
    y = []
    for length in LENGTHS:
        moves = rng.random(length) < 0.5
        y.append(rng.integers(0, n_labels, size=length)[np.maximum.accumulate(np.where(moves, np.arange(length), 0))])
    return y, rng


def numeric(rate=0.3):
    """Numbers that tell the label, one of them missing everywhere."""
    y, rng = labelled()
    shown = [(t + rng.normal(0, 0.7, len(t)), rng.integers(0, 4, len(t)), np.full(len(t), np.nan)) for t in y]
    X = [np.column_stack(columns) for columns in shown]
    return remove_values(X, rate, random_state=0), y


def categorical(rate=0.3):
    """Letters that tell the label in three cases of four, and a column that is missing everywhere."""
    y, rng = labelled()
    right = [rng.random(len(t)) < 0.75 for t in y]
    shown = [np.where(ok, t, (t + 1) % 3) for t, ok in zip(y, right, strict=True)]
    X = [[{"letter": "abc"[k], "other": "xyzw"[rng.integers(4)], "none": None} for k in t] for t in shown]
    X[0][0]["none"] = "once"
    return remove_values(X, rate, random_state=0), y


def wide(rate=0.3):
    """Words, more of them than a byte can hold: half tell the label, the others are seen once or twice."""
    y, rng = labelled()
    y.append(rng.integers(0, 3, size=700))
    rare = iter([f"w{i}" for i in range(400)] * 2)
    X = [["abc"[k] if rng.random() < 0.5 else next(rare) for k in t] for t in y]
    return remove_values(X, rate, random_state=0), y


def sparse(rate=0.3):
    """Sparse numbers and indicators, some of them explicitly missing."""
    y, rng = labelled()
    X = []
    for t in y:
        dense = np.zeros((len(t), 4))
        dense[:, 0] = (t == 0) & (rng.random(len(t)) < 0.8)
        dense[:, 1] = np.where(t == 1, rng.normal(2, 1, len(t)), 0)
        dense[:, 2] = rng.random(len(t)) < 0.2
        dense[:, 3] = np.where(rng.random(len(t)) < 0.4, rng.normal(size=len(t)), 0)
        X.append(sp.csr_array(dense))
    return remove_values(X, rate, random_state=0), y


KINDS = {"numeric": numeric, "categorical": categorical, "wide": wide, "sparse": sparse}


def model_of(policy, **settings):
    defaults = {
        "window": 1, "max_iter": 3, "min_samples_leaf": 2, "max_leaf_nodes": 6, "l2_regularization": 1.0,
        "early_stopping": False, "init": "labels", "random_state": 0, "n_jobs": 1,
    }  # fmt: skip
    return TreeCRF(missing=policy, **with_method({**defaults, **settings}))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_policies_with_every_kind_of_column_and_chain(policy, kind, trees, tmp_path):
    X, y = KINDS[kind]()
    for order, potentials in CHAINS:
        settings = {"order": order, "potentials": potentials, "trees": trees}
        model = model_of(policy, **settings).fit(X, y)
        # What the loop believed its scores to be, by partition, is what the frozen forest says.
        n = sum(map(len, y))
        assert np.sum(model.log_prob(X, y)) / n == pytest.approx(model.history_["train_score"][-1], abs=2e-5)
        assert model.history_["train_score"][-1] > model.history_["train_score"][0]
        probabilities = np.concatenate(model.predict_proba(X))
        model.save(tmp_path / "model")
        again = seqboost.load(tmp_path / "model")
        assert np.array_equal(np.concatenate(again.predict_proba(X)), probabilities)
        assert again.get_params() == model.get_params()
        both = model_of(policy, **settings, n_jobs=2).fit(X, y)
        assert np.array_equal(np.concatenate(both.predict_proba(X)), probabilities)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_values_missing_at_prediction_alone(policy, kind):
    X, y = KINDS[kind](rate=0.0)
    damaged = [KINDS[kind](rate)[0] for rate in (0.5, 1.0)]
    model = model_of(policy).fit(X, y)
    for Z in damaged:
        probabilities = np.concatenate(model.predict_proba(Z))
        assert np.isfinite(probabilities).all()
        assert probabilities.sum(axis=1) == pytest.approx(1.0)
    if kind != "sparse":  # a complete model still sees something through the holes of half of the values
        right = np.mean(np.concatenate(model.predict(damaged[0])) == np.concatenate(y))
        assert right > np.max(np.bincount(np.concatenate(y))) / len(np.concatenate(y)) - 0.05


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_nothing_missing_makes_all_policies_one(policy, trees):
    y, rng = labelled()
    X = [np.column_stack([t + rng.normal(0, 0.7, len(t)), rng.integers(0, 4, len(t))]) for t in y]
    direction = model_of("direction", trees=trees).fit(X, y)
    model = model_of(policy, trees=trees).fit(X, y)
    assert np.array_equal(np.concatenate(model.predict_proba(X)), np.concatenate(direction.predict_proba(X)))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_boundary_is_not_missing(policy, trees):
    """The first position is known by what is before it, nothing, which must not be mistaken for a missing letter."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), size=length)) for length in rng.integers(1, 12, size=200)]
    y = [np.arange(len(word)) == 0 for word in words]
    X = remove_values(words, 0.4, random_state=1)
    model = model_of(policy, window=[-1], order=0, max_iter=30, trees=trees, learning_rate=1.0).fit(X, y)
    assert np.mean(np.concatenate(model.predict(X)) == np.concatenate(y)) == 1.0


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_an_indicator_that_is_missing_goes_both_ways(trees):
    """One split, on an indicator: scores without it are the mean of those with and without, by their shares."""
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, size=12) for _ in range(30)]
    shown = [np.where(rng.random(12) < 0.25, np.nan, (t == 1) & (rng.random(12) < 0.8)) for t in y]
    X = [sp.csr_array(x[:, None]) for x in shown]
    settings = {"window": 0, "order": 0, "max_iter": 1, "max_leaf_nodes": 2, "learning_rate": 0.5, "trees": trees}
    model = model_of("instance_weighting", **settings).fit(X, y)
    known = np.concatenate(shown)
    share = np.mean(known[~np.isnan(known)])
    ((absent, carried, lacking),) = model.predict_proba([sp.csr_array(np.array([[0.0], [1.0], [np.nan]]))])
    margin = lambda p: np.log(p[1] / p[0])  # noqa: E731
    assert margin(carried) > 0 > margin(absent)
    expected = share * margin(carried) + (1 - share) * margin(absent)
    assert margin(lacking) == pytest.approx(expected, abs=1e-5)


def by_hand(X, policy):
    """Fill columns with their medians, and add those that tell of it."""
    flat = np.concatenate(X)
    fills = np.nanmedian(flat, axis=0)
    filled = [np.where(np.isnan(x), fills, x) for x in X]
    if policy == "indicator":
        filled = [np.hstack([x, np.isnan(holes)]) for x, holes in zip(filled, X, strict=True)]
    return filled


@pytest.mark.parametrize("policy", ["impute", "indicator"])
def test_filling_is_what_one_would_do_by_hand(policy):
    y, rng = labelled()
    X = [np.column_stack([t * 2 + rng.integers(0, 3, len(t)), rng.integers(0, 9, len(t))]).astype(float) for t in y]
    X = remove_values(X, 0.3, random_state=0)
    medians = np.nanmedian(np.concatenate(X), axis=0)
    assert (medians == np.round(medians)).all()  # so that bins by hand are those of the data
    model = model_of(policy, max_iter=10).fit(X, y)
    hand = model_of("direction", max_iter=10).fit(by_hand(X, policy), y)
    one, two = model.predict_proba(X), hand.predict_proba(by_hand(X, policy))
    assert np.concatenate(one) == pytest.approx(np.concatenate(two), abs=1e-6)


def test_the_most_frequent_category_stands_for_missing_ones():
    words, y = ["banana", "tomato", "panama"] * 9, ["010101", "010101", "010101"] * 9
    X = remove_values(words, 0.3, random_state=0)
    model = model_of("impute").fit(X, y)
    hand = model_of("direction").fit([[letter or "a" for letter in word] for word in X], y)
    filled = hand.predict_proba([[letter or "a" for letter in word] for word in X])
    assert np.array_equal(np.concatenate(model.predict_proba(X)), np.concatenate(filled))


def test_policies_by_column():
    X, y = categorical()
    policies = {"letter": "instance_weighting", "other": "impute", "*": "indicator"}
    model = model_of(policies).fit(X, y)
    names = model._result.model.binner.column_names
    assert "none is missing" in names
    assert "letter is missing" not in names
    assert np.isfinite(np.concatenate(model.predict_proba(X))).all()
    alone = model_of("impute").fit(X, y)
    assert not np.array_equal(np.concatenate(model.predict_proba(X)), np.concatenate(alone.predict_proba(X)))


def test_only_training_data_tell_what_stands_for_missing_values():
    X, y = numeric()
    far = [x + 1000 for x in X]
    model = model_of("impute", early_stopping=True).fit(X, y, X_val=far, y_val=y)
    medians = model._result.model.binner.filler.numbers[:2]
    assert medians == pytest.approx(np.nanmedian(np.concatenate(X)[:, :2], axis=0))


@pytest.mark.parametrize("policy", POLICIES)
def test_held_out_sequences_ride_along(policy):
    """Validation scores are taken from the partition; they must be those of the finished model."""
    X, y = numeric()
    n = len(X) // 2
    model = model_of(policy, early_stopping=True, max_iter=4).fit(X[:n], y[:n], X_val=X[n:], y_val=y[n:])
    expected = np.sum(model.log_prob(X[n:], y[n:])) / sum(map(len, y[n:]))
    assert model.history_["validation_score"][model.best_iteration_] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("policy", ["instance_weighting", "surrogate", "indicator"])
@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": 0.5}, {"sampling": "1p/3n"}, {"n_bags": 3}, {"step": "line_search"}, {"direction": "conjugate"},
        {"contexts": "seen", "order": 2}, {"max_features": 0.5}, {"max_depth": 2}, {"curvature": "count"},
    ],
    ids=str,
)  # fmt: skip
def test_policies_with_other_ways_to_train(policy, settings):
    X, y = numeric()
    model = model_of(policy, trees="per_label", learning_rate=0.1, **settings).fit(X, y)
    expected = np.sum(model.log_prob(X, y)) / sum(map(len, y))
    assert model.history_["train_score"][-1] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_warm_start_is_cold_start(policy):
    X, y = numeric()
    cold = model_of(policy, max_iter=4).fit(X, y)
    warm = model_of(policy, max_iter=2, warm_start=True).fit(X, y).set_params(max_iter=4).fit(X, y)
    assert np.concatenate(warm.predict_proba(X)) == pytest.approx(np.concatenate(cold.predict_proba(X)), abs=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_linear_start(policy, monkeypatch):
    X, y = numeric()
    own = lambda task, weights, plan, seed: weights.scores(task.rows)  # noqa: E731
    monkeypatch.setattr(starting, "cross_scores", own)  # scores of training as those of prediction
    model = model_of(policy, init="linear").fit(X, y)
    n = sum(map(len, y))
    assert np.sum(model.log_prob(X, y)) / n == pytest.approx(model.history_["train_score"][-1], abs=2e-5)


def test_a_model_for_strings_takes_lists_with_holes():
    words, y = ["banana", "tomato", "panama"] * 9, ["010101", "010101", "010101"] * 9
    model = model_of("impute").fit(words, y)
    assert len(model.predict([["b", None, "n"]])[0]) == 3


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"missing": "mean"}, "missing='mean' is not a policy for missing values; expected one of 'direction'"),
        ({"missing": 0}, "missing=0 is not a policy"),
        ({"missing": {"x9": "impute"}}, "missing names the column 'x9', which X does not have; expected one of 'x0'"),
        ({"missing": {"x0": "mode"}}, r"missing\['x0'\]='mode' is not a policy"),
        ({"missing": {"x0": "impute", ("x0", "x1"): "impute"}}, "missing names the column 'x0' twice"),
    ],
)
def test_parameters_that_make_no_sense(settings, match):
    X, y = numeric()
    with pytest.raises(ParameterError, match=match):
        model_of("direction").set_params(**settings).fit(X, y)


def test_a_warm_start_keeps_its_policy():
    X, y = numeric()
    model = model_of("impute", warm_start=True).fit(X, y)
    with pytest.raises(ParameterError, match="'missing' parameter was 'impute' in the last fit"):
        model.set_params(missing="indicator", max_iter=5).fit(X, y)


def test_policies_are_parameters_like_others(tmp_path):
    model = TreeCRF(missing={("a", "b"): "impute", "*": Surrogates(5)})
    assert clone(model).get_params()["missing"] == model.missing
    X, y = categorical()
    fitted = model_of({("letter", "other"): "impute", "*": "indicator"}).fit(X, y)
    fitted.save(os.fspath(tmp_path / "model"))
    assert seqboost.load(tmp_path / "model").missing == fitted.missing


@pytest.mark.parametrize("kind", ["numeric", "categorical", "sparse"])
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_policies_are_not_all_the_same(kind, trees):
    X, y = KINDS[kind]()
    models = {policy: model_of(policy, trees=trees, max_iter=10).fit(X, y) for policy in POLICIES}
    found = {policy: np.concatenate(model.predict_proba(X)) for policy, model in models.items()}
    # To categories "missing" is one more of them; medians and means may share a bin.
    alike = [{"impute", "impute_mean"}] * (kind != "sparse") + [{"direction", "indicator"}] * (kind == "categorical")
    for a, b in itertools.combinations(POLICIES, 2):
        assert {a, b} in alike or not np.array_equal(found[a], found[b]), (a, b)
