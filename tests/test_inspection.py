"""What inspection says of a model must add up to what the model does."""

import functools

import numpy as np
import pytest

import seqboost
from seqboost.exceptions import InputError, ParameterError
from seqboost.inspection import explain, feature_importances, linear_weights, transitions
from seqboost.inspection.explanation import _Scorer
from seqboost.inspection.nodes import node_means
from tests.support.estimators import with_method


def numeric_data(seed=0, n=30, n_labels=3):
    rng = np.random.default_rng(seed)
    y = [np.repeat(rng.integers(0, n_labels, 4), 5) for _ in range(n)]
    X = [np.column_stack([labels + rng.normal(size=len(labels)), rng.normal(size=(len(labels), 2))]) for labels in y]
    X[0][3, 1] = np.nan
    return X, y


def word_data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = [f"w{i}" for i in rng.integers(0, 12, 8)]
        X.append([{"word": w, "size": float(len(w)), "even": int(w[1:]) % 2 == 0 or None} for w in words])
        y.append(["A" if int(w[1:]) < 5 else "B" for w in words])
    return X, y


MODELS = {
    "joint": {"potentials": "joint", "trees": "per_label", "window": 1},
    "joint of order 2": {"potentials": "joint", "order": 2, "trees": "per_label"},
    "factored": {"potentials": "factored", "trees": "per_label", "window": (2, 0)},
    "shared": {"potentials": "joint", "trees": "shared", "window": 1},
    "shared factored": {"potentials": "factored", "trees": "shared"},
    "without transitions": {"order": 0},
    "seen contexts": {"order": 2, "contexts": "seen", "window": 0},
    "linear start": {"init": "linear", "window": 1},
}


@functools.cache
def fitted(name, data=numeric_data):
    X, y = data()
    settings = {"max_iter": 8, "min_samples_leaf": 3, "early_stopping": False, "random_state": 0}
    return seqboost.TreeCRF(**settings, **with_method(MODELS[name])).fit(X, y), X


@pytest.mark.parametrize("data", [numeric_data, word_data])
@pytest.mark.parametrize("name", MODELS)
def test_credits_add_up_to_the_scores(name, data):
    model, X = fitted(name, data)
    batch = model._batch(X)[[2]]
    _, potentials = model._potentials(batch)
    scorer = _Scorer(model, batch)
    n_labels = len(model.classes_)
    rng = np.random.default_rng(0)
    for t in range(batch.n_rows):
        before = [int(rng.integers(n_labels)) if lag < t else n_labels for lag in range(scorer.order)]
        slot = sum(label * n_labels**lag for lag, label in enumerate(before) if label < n_labels)
        base, credits = scorer.credits(t, before)
        np.testing.assert_allclose(base + sum(credits.values()), potentials.scores[:, t, slot], atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_the_log_odds(name):
    model, X = fitted(name)
    found = explain(model, X, sequence=4)
    proba = model.predict_proba(X)[4]
    labels = model.predict(X)[4]
    assert [p.label for p in found.positions] == labels.tolist()
    for t, position in enumerate(found.positions):
        k, j = (found.labels.index(label) for label in (position.label, position.rival))
        assert k != j
        assert position.log_odds == pytest.approx(np.log(proba[t, k]) - np.log(proba[t, j]), abs=1e-6)
        parts = position.base + position.around + sum(c.log_odds for c in position.contributions)
        assert parts == pytest.approx(position.log_odds, abs=1e-9)
        sizes = [abs(c.log_odds) for c in position.contributions]
        assert sizes == sorted(sizes, reverse=True)


def test_labels_around_are_the_messages_of_a_factored_chain():
    model, X = fitted("factored")
    batch, potentials = model._potentials([X[1]])
    scores, table = potentials.scores[:, :, 0].T.astype(np.float64), potentials.table
    n, n_labels = scores.shape
    # forward and backward messages without the position's own score, by plain sums
    left = np.zeros((n, n_labels))
    left[0] = table[0]
    for t in range(1, n):
        into = left[t - 1] + scores[t - 1]
        left[t] = np.log(np.exp(into[:, None] + table[1:]).sum(axis=0))
    right = np.zeros((n, n_labels))
    right[-1] = potentials.end
    for t in range(n - 2, -1, -1):
        right[t] = np.log(np.exp(table[1:] + (scores[t + 1] + right[t + 1])[None]).sum(axis=1))
    for t, position in enumerate(explain(model, [X[1]]).positions):
        k, j = (model.classes_.tolist().index(label) for label in (position.label, position.rival))
        said = (left[t] + right[t])[k] - (left[t] + right[t])[j]
        assert position.around == pytest.approx(said, abs=1e-4)


def test_rival_can_be_named():
    model, X = fitted("joint")
    assert {p.rival for p in explain(model, X, against=2).positions} == {2}
    with pytest.raises(ParameterError, match="there is no label 'x'; the labels are 0, 1, 2"):
        explain(model, X, against="x")
    with pytest.raises(InputError, match="there is no sequence 30: X has 30, numbered from 0"):
        explain(model, X, sequence=30)


def test_a_score_that_was_not_walked_is_refused(monkeypatch):
    model, X = fitted("joint")
    monkeypatch.setattr(_Scorer, "_test", lambda self, tree, node, t, before: (("x0", 0), True))
    with pytest.raises(InputError, match="position 0 cannot be explained"):
        explain(model, X)


def test_values_are_shown():
    model, X = fitted("joint", word_data)
    position = explain(model, X, sequence=0).positions[0]
    shown = {c.name: c.value for c in position.contributions}
    assert shown.get("word", X[0][0]["word"]) == X[0][0]["word"]
    assert all(value == "–" for name, value in shown.items() if name.endswith("[-1]") and not name.startswith("label"))


@pytest.mark.parametrize("name", ["joint", "shared", "factored"])
def test_gains_are_those_of_the_splits(name):
    model, _ = fitted(name)
    forest = model._result.model.forest
    found = feature_importances(model)
    assert found.values.sum() == pytest.approx(forest.gain.sum(dtype=np.float64))
    assert (found.values >= 0).all()
    splits = feature_importances(model, "splits")
    assert splits.values.sum() == len(forest.kind) * (len(model.classes_) if forest.is_shared else 1)
    assert found.names == splits.names
    columns = found.by_column()
    assert columns.values.sum() == pytest.approx(found.values.sum())
    assert {"x0", "x1", "x2"} >= set(columns.names) - {"label"}
    assert found.top(0, n=1)[0][0].startswith(("x0", "label"))  # the column that tells


def test_gains_of_single_trees_by_a_plain_loop():
    model, _ = fitted("joint")
    forest, layout = model._result.model.forest, model._result.model.binner.layout
    expected = {}
    for number in range(forest.n_trees):
        tree = forest.tree(number)
        for kind, feature, gain in zip(tree.kind, tree.feature, tree.gain, strict=True):
            name = f"label[-{feature}]" if kind == 2 else layout.feature_name(int(feature))
            key = (int(forest.tree_label[number]), name)
            expected[key] = expected.get(key, 0.0) + float(gain)
    found = feature_importances(model)
    for (label, name), gain in expected.items():
        assert found.values[label, found.names.index(name)] == pytest.approx(gain)
    assert found.top(n=100) == sorted(found.top(n=100), key=lambda item: -item[1])
    with pytest.raises(ParameterError, match="expected 'gain' or 'splits'"):
        feature_importances(model, "weight")
    with pytest.raises(ParameterError, match="there is no label 7"):
        found.top(7)


def test_means_of_nodes_are_weighted_means_of_leaves():
    model, _ = fitted("shared")
    tree = model._result.model.forest.tree(0)
    means, weights = node_means(tree)
    n = np.maximum(tree.leaf_rows, 1).astype(np.float64)
    np.testing.assert_allclose(means[0], (n[:, None] * tree.value).sum(axis=0) / n.sum(), rtol=1e-6)
    assert weights[0] == n.sum()


def test_transitions_are_sorted():
    model, _ = fitted("joint")
    found = transitions(model)
    assert len(found) == 9
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    scores = model.transition_scores_
    assert all(scores[t.before, t.after] == t.score for t in found)
    with pytest.raises(ParameterError, match="this one is of order 2"):
        transitions(fitted("joint of order 2")[0])


def test_linear_weights_by_name():
    model, X = fitted("linear start", word_data)
    found = linear_weights(model)
    assert found
    assert any(weight.name.startswith("word=w") for weight in found)
    assert [abs(w.weight) for w in found] == sorted((abs(w.weight) for w in found), reverse=True)
    assert linear_weights(fitted("joint")[0]) == []
