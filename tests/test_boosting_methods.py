"""Samples, steps and directions of the literature: what they draw, where they lead, and that models agree with them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from test_boosting_loop import Workshop
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import Method
from seqboost.boosting import (
    Ascent,
    ConjugateEnsemble,
    FixedStep,
    LineSearch,
    Sequences,
    Trimmed,
    boost,
)
from seqboost.boosting import steps as steps_module
from seqboost.exceptions import ParameterError

BOTH = pytest.mark.parametrize("joint", [True, False])


def method_of(model):
    """Return the method of an estimator, with its defaults."""
    return model.method or Method()


@BOTH
def test_line_search_comes_close_to_the_top(joint):
    shop = Workshop(joint, learning_rate=0.3)
    ensemble = shop.ensemble()
    for _ in range(6):
        boosted = shop.round(ensemble)
        derivatives = shop.objective.derivatives(ensemble.scores, ensemble.table)
        before = shop.history.objective_value(derivatives)
        found = LineSearch().take(Ascent(ensemble, boosted, shop.objective, derivatives, shop.history, 1))
        assert found.n_evaluations <= steps_module.MAX_EVALUATIONS + 1
        top = shop.history.objective_value(found.derivatives)
        values = []
        for factor in (0.5, 0.7, 1.4, 2.0):
            ensemble.repeat(boosted, found.step * factor)
            values.append(shop.objective.log_likelihood(ensemble.scores, ensemble.table).sum())
        ensemble.repeat(boosted, found.step)
        assert top >= max(values) - 0.05 * (top - before)
        shop.history.lists.setdefault("step", []).append(found.step)


@BOTH
def test_the_slope_is_that_of_finite_differences(joint):
    shop = Workshop(joint)
    ensemble = shop.ensemble()
    boosted = shop.round(ensemble)
    derivatives = shop.objective.derivatives(ensemble.scores, ensemble.table)
    before = shop.history.objective_value(derivatives)
    ensemble.add(boosted, 1.0)
    slope = ensemble.slope(derivatives)
    ensemble.repeat(boosted, 1e-3)
    after = shop.objective.log_likelihood(ensemble.scores, ensemble.table).sum()
    assert (after - before) / 1e-3 == pytest.approx(slope, rel=2e-2)


def test_shrinkage_goes_part_of_the_way():
    steps = []
    for shrinkage in (1.0, 0.25):
        shop = Workshop(True)
        ensemble = shop.ensemble()
        boosted = shop.round(ensemble)
        derivatives = shop.objective.derivatives(ensemble.scores, ensemble.table)
        ascent = Ascent(ensemble, boosted, shop.objective, derivatives, shop.history, 1)
        steps.append(LineSearch(shrinkage).take(ascent).step)
    assert steps[1] == pytest.approx(steps[0] / 4)


@BOTH
def test_conjugate_directions_are_combinations_of_all_trees(joint):
    shop = Workshop(joint, learning_rate=0.2)
    start = shop.ensemble()
    n = len(shop.rows)
    ensemble = ConjugateEnsemble(start.scores, start.table, 1, n_fitted=n)
    outputs, tables, directions = [], [], [np.zeros_like(start.scores)]
    scores, table = start.scores.copy(), start.table.copy()
    table_direction = np.zeros_like(table)
    for step in (1.0, 0.5, 2.0, 1.0, 0.7):
        boosted = shop.round(ensemble)
        output = np.zeros_like(scores)
        boosted.write(boosted.bags, np.zeros_like(scores), output, 1)
        beta = 0.0
        if outputs:
            beta = max(0.0, np.sum(output * (output - outputs[-1])) / np.sum(outputs[-1] ** 2))
        directions.append(output + beta * directions[-1])
        outputs.append(output)
        table_direction = (0 if boosted.table_move is None else boosted.table_move) + beta * table_direction
        scores, table = scores + step * directions[-1], table + step * table_direction
        tables.append(table)
        ensemble.add(boosted, 3.0)
        ensemble.repeat(boosted, step)
        assert ensemble.coefficients[-1] == pytest.approx(beta, rel=1e-4)
        np.testing.assert_allclose(ensemble.scores, scores, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ensemble.table, table, rtol=1e-6, atol=1e-9)
    assert max(ensemble.coefficients) > 0  # or else this was the gradient all along
    for n_rounds in (5, 3, 1, 0):  # the weights of the trees after any number of rounds
        total = np.zeros_like(scores)
        grown = [trees for bags in ensemble._rounds for trees in bags]
        for trees, output, original in zip(ensemble.kept(n_rounds), outputs, grown, strict=False):
            ratios = [t.value[0] / o.value[0] if o.value[0] else 0.0 for t, o in zip(trees, original, strict=True)]
            total += np.array(ratios, dtype=np.float32)[:, None, None] * output
        expected = np.zeros_like(scores)
        for step, direction in zip(ensemble.steps[:n_rounds], directions[1:], strict=False):
            expected += step * direction
        np.testing.assert_allclose(total, expected, rtol=1e-3, atol=1e-4)


METHODS = [
    {"sampling": 0.5}, {"sampling": "1p/3n"}, {"sampling": "goss"}, {"sampling": "balanced"},
    {"sampling": Trimmed(share=0.1)}, {"sampling": Sequences(0.5)}, {"step": "line_search"}, {"step": "fixed"},
    {"direction": "conjugate"}, {"direction": "conjugate", "step": "line_search"}, {"n_bags": 3},
    {"n_bags": 2, "direction": "conjugate"}, {"objective": "pseudo_likelihood"}, {"pseudo_likelihood_rounds": 3},
    {"curvature": "newton", "step": "safe"},
]  # fmt: skip


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_model_has_the_scores_of_training(method, potentials):
    X, y = chains(24)
    model = small(**method, potentials=potentials, max_iter=6).fit(X, y)
    n_positions = sum(map(len, y))
    if method_of(model).objective == "likelihood":
        found = model.log_prob(X, y).sum() / n_positions
        assert found == pytest.approx(model.history_["train_score"][-1], rel=1e-4)
    assert len(model.history_["evaluations"]) == len(model.history_["train_score"])
    assert model.history_["train_score"][-1] > model.history_["train_score"][-3]
    other = clone(model).set_params(n_jobs=2).fit(X, y)
    assert all_equal(other.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_early_stopping_keeps_the_best_round_of_every_method(method):
    X, y = chains(60)
    X_val, y_val = chains(20, seed=1)
    model = small(**method, early_stopping=True, max_iter=40, n_iter_no_change=5, learning_rate=0.5)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    first = method_of(model).pseudo_likelihood_rounds
    scores = model.history_["validation_score"]
    assert model.best_iteration_ == first + int(np.argmax(scores[first:]))
    if method_of(model).objective == "likelihood":
        found = model.log_prob(X_val, y_val).sum() / sum(map(len, y_val))
        assert found == pytest.approx(scores[model.best_iteration_], rel=1e-4)


def test_a_sampled_model_starts_again_where_it_stopped():
    X, y = chains(24)
    method = {"sampling": "1p/3n", "n_bags": 2}
    whole = small(**method, max_iter=6).fit(X, y)
    parts = small(**method, max_iter=3, warm_start=True).fit(X, y)
    parts.set_params(max_iter=6).fit(X, y)
    assert all_equal(parts.predict_proba(X), whole.predict_proba(X))
    assert parts.best_iteration_ == 6


def test_pseudo_likelihood_rounds_are_followed_by_the_likelihood():
    X, y = chains(24)
    model = small(pseudo_likelihood_rounds=2, max_iter=5).fit(X, y)
    only = small(objective="pseudo_likelihood", max_iter=2).fit(X, y)
    assert model.history_["train_score"][:2] == only.history_["train_score"][:2]
    first_two = only.log_prob(X, y).sum() / sum(map(len, y))  # round 2 is scored again by the likelihood
    assert model.history_["train_score"][2] == pytest.approx(first_two, rel=1e-5)
    all_rounds = small(pseudo_likelihood_rounds=9, max_iter=2).fit(X, y)
    assert all_equal(all_rounds.predict_proba(X), only.predict_proba(X))


@pytest.mark.parametrize("value", [0, 1.5, "3n", True, [0.5], "uniform"])
def test_sampling_must_be_something_that_is_known(value):
    X, y = chains()
    with pytest.raises(ParameterError, match="'sampling' parameter of Method must be None, a share above 0"):
        small(sampling=value).fit(X, y)


def test_fixed_steps_are_the_papers(monkeypatch):
    shop = Workshop(True, learning_rate=1.0, curvature="count", l2=0.0)
    boost(shop.task(5, step=FixedStep()), shop.ensemble(), shop.history)
    assert shop.history.step[1:] == [1.0] * 5


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_a_tree_uses_its_own_features_alone(trees):
    X, y = chains(40, n_columns=8)
    X = [x + np.arange(len(x))[:, None] * 0.1 for x in X]
    common = {"potentials": "factored", "order": 0, "max_leaf_nodes": 12, "trees": trees, "max_iter": 6, "window": 0}
    model = small(**common, max_features_per_tree=0.25).fit(X, y)
    forest = model._result.model.forest
    used = [set(forest.tree(i).feature.tolist()) for i in range(forest.n_trees)]
    assert max(map(len, used)) == 2
    assert len(set.union(*used)) > 4  # other trees, other features
    of_nodes = small(**common, max_features_per_tree=0.5, max_features=0.5).fit(X, y)._result.model.forest
    assert max(len(set(of_nodes.tree(i).feature.tolist())) for i in range(of_nodes.n_trees)) <= 4
    whole = small(**common).fit(X, y)._result.model.forest
    assert max(len(set(whole.tree(i).feature.tolist())) for i in range(whole.n_trees)) > 4


COMBINATIONS = [
    {"trees": "shared", "init": "linear"}, {"trees": "shared", "init": "linear", "potentials": "joint"},
    {"trees": "shared", "order": 2, "contexts": "seen"}, {"trees": "shared", "n_bags": 2, "sampling": "goss"},
    {"trees": "shared", "direction": "conjugate", "step": "line_search"}, {"trees": "shared", "sampling": 0.5},
    {"init": "linear", "n_bags": 2, "sampling": "1p/3n"}, {"init": "linear", "direction": "conjugate"},
    {"init": "linear", "pseudo_likelihood_rounds": 2}, {"trees": "shared", "objective": "likelihood", "order": 2},
    {"order": 2, "contexts": "seen", "sampling": "goss", "direction": "conjugate"},
    {"trees": "shared", "pseudo_likelihood_rounds": 2, "max_features_per_tree": 0.5},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:TreeCRF keeps no round of boosting")  # the linear start may be best
@pytest.mark.parametrize("method", COMBINATIONS, ids=str)
def test_methods_work_together(method, tmp_path):
    X, y = chains(24)
    X_val, y_val = chains(12, seed=1)
    model = small(**{"potentials": "factored", **method}, max_iter=6, early_stopping=True, window=1)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    found = model.log_prob(X_val, y_val).sum() / sum(map(len, y_val))
    assert found == pytest.approx(model.best_score_, rel=1e-4)
    model.save(tmp_path / "model")
    assert all_equal(seqboost.load(tmp_path / "model").predict_proba(X_val), model.predict_proba(X_val))
