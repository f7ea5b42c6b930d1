"""The likelihood of chains of seen contexts: finite differences, weights, curvature, errors."""

from dataclasses import replace

import numpy as np
import pytest

from seqboost.chain.reference import SeenTwin, random_seen
from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import SeenLikelihood

SHAPES = [(2, 1), (2, 3), (3, 1), (3, 2), (3, 4)]


def make(n_labels, order, seed=0, **options):
    """Return potentials, labels that need not have been seen, and weights of sequences."""
    rng = np.random.default_rng([n_labels, order, seed])
    p = random_seen(rng, n_labels, order, lengths=(4, 1, 5, 2), **options)
    labels = rng.integers(n_labels, size=p.n_positions).astype(np.int32)
    return p, labels, np.array([1.0, 0.5, 2.0, 0.0])


def log_likelihoods(p, labels):
    """Return log P of the labels of each sequence by enumeration."""
    twin, found = SeenTwin(p), []
    for s, begin in enumerate(p.offsets[:-1]):
        paths, score, _ = twin.paths(s)
        path = tuple(labels[begin : p.offsets[s + 1]].tolist())
        found.append(score[paths.index(path)] - np.logaddexp.reduce(score))
    return np.array(found)


def labels_of_parameters(contexts):
    """Return how many labels each entry of the table stands for: θ for one, β for all without an arc."""
    without = [contexts.n_labels - int(n) for n in np.diff(contexts.arc_start)]
    return np.array([1] * contexts.n_arcs + [max(n, 1) for n in without])


@pytest.mark.parametrize("curvature", ["mixing", "newton", "count"])
@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_log_likelihood_and_marginals(n_labels, order, curvature):
    p, labels, weights = make(n_labels, order)
    objective = SeenLikelihood(labels, p.offsets, p.contexts, sequence_weights=weights, curvature=curvature)
    found = objective.derivatives(p.scores, p.table)
    np.testing.assert_allclose(found.log_likelihood, log_likelihoods(p, labels), rtol=1e-6)
    np.testing.assert_allclose(objective.log_likelihood(p.scores, p.table), found.log_likelihood, rtol=1e-12)
    twin = SeenTwin(p)
    for s, begin in enumerate(p.offsets[:-1]):
        rows = slice(begin, p.offsets[s + 1])
        node = twin.posterior(s)[1]
        observed = np.eye(n_labels)[labels[rows]].T
        np.testing.assert_allclose(found.gradient[:, rows, 0], weights[s] * (observed - node), atol=1e-6)
        assert found.n_correct[s] == (node.argmax(axis=0) == labels[rows]).sum()
        if curvature == "newton":
            np.testing.assert_allclose(found.hessian[:, rows, 0], weights[s] * node * (1 - node), atol=1e-6)
        elif curvature == "count":
            np.testing.assert_array_equal(found.hessian[:, rows, 0], weights[s])
        else:
            assert (found.hessian[:, rows, 0] >= 2 * weights[s] * node * (1 - node) - 1e-6).all()
    assert np.abs(found.gradient).max() <= weights.max() * 1.0001
    np.testing.assert_array_equal(found.n_observed, np.diff(p.offsets))


@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_finite_differences(n_labels, order):
    p, labels, weights = make(n_labels, order, seed=1)
    objective = SeenLikelihood(labels, p.offsets, p.contexts, sequence_weights=weights)
    found = objective.derivatives(p.scores, p.table)
    gradient, table_gradient = found.gradient.copy(), found.table_gradient.copy()

    def value(table, scores=p.scores):
        return float(weights @ log_likelihoods(replace(p, scores=scores, table=table), labels))

    step = 1e-4
    table_gradient *= labels_of_parameters(p.contexts)
    for i in range(p.contexts.n_parameters):
        shift = np.zeros_like(p.table)
        shift[i] = step if i != p.contexts.n_arcs else 0.0
        slope = (value(p.table + shift) - value(p.table - shift)) / (2 * step)
        np.testing.assert_allclose(table_gradient[i], slope, atol=1e-6)
    step = np.float32(2.0**-6)  # scores are in single precision
    for k in range(n_labels):
        for t in (0, 3, 4, 9, 11):
            up, low = p.scores.copy(), p.scores.copy()
            up[k, t] += step
            low[k, t] -= step
            difference = float(up[k, t, 0]) - float(low[k, t, 0])
            slope = (value(p.table, up) - value(p.table, low)) / difference
            np.testing.assert_allclose(gradient[k, t, 0], slope, atol=2e-4)


@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_curvature_of_the_table(n_labels, order):
    p, labels, weights = make(n_labels, order, seed=2)
    twin = SeenTwin(p)
    exact = np.zeros(p.contexts.n_parameters)
    counts = np.zeros(p.contexts.n_parameters)
    for s, n in enumerate(np.diff(p.offsets)):
        prob = twin.posterior(s)[2]
        exact += weights[s] * (prob * (1 - prob)).sum(axis=0)
        for t in range(n):
            for state in range(p.contexts.n_states):
                history = p.contexts.history(state)
                starts = bool(history) and history[0] == n_labels
                if (len(history) == t + 1) if starts else (len(history) <= t):
                    arcs = slice(p.contexts.arc_start[state], p.contexts.arc_start[state + 1])
                    counts[arcs] += weights[s]
                    counts[p.contexts.n_arcs + state] += weights[s]
    exact[p.contexts.n_arcs] = 0.0
    exact /= labels_of_parameters(p.contexts)
    counts /= labels_of_parameters(p.contexts)
    found = {
        name: SeenLikelihood(labels, p.offsets, p.contexts, sequence_weights=weights, curvature=name).derivatives(
            p.scores, p.table
        )
        for name in ("newton", "count", "mixing")
    }
    np.testing.assert_allclose(found["newton"].table_hessian, exact, atol=1e-6)
    np.testing.assert_allclose(found["count"].table_hessian, counts)
    assert (found["mixing"].table_hessian >= 2 * (order + 1) * exact - 1e-6).all()
    assert found["mixing"].caution >= 2.0
    assert found["newton"].caution == found["count"].caution == 1.0


def test_steps_by_the_rule_of_leaves_climb():
    """Labels and table moved together by half of G / (H + 1), capped, many times over: the likelihood never falls."""
    for seed in range(5):
        p, labels, weights = make(3, 3, seed=seed)
        objective = SeenLikelihood(labels, p.offsets, p.contexts, sequence_weights=weights)
        scores, table = p.scores, p.table
        reached = []
        for _ in range(30):
            found = objective.derivatives(scores, table)
            reached.append(float(weights @ found.log_likelihood))
            scores = scores + 0.5 * np.clip(found.gradient / (found.hessian + 1.0), -2, 2).astype(np.float32)
            table = table + 0.5 * np.clip(found.table_gradient / (found.table_hessian + 1.0), -2, 2)
        assert (np.diff(reached) >= 0).all()
        assert reached[-1] > reached[0] / 4


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    p = random_seen(rng, 4, 3, lengths=tuple(rng.integers(1, 9, 600)))
    labels = rng.integers(4, size=p.n_positions).astype(np.int32)
    objective = SeenLikelihood(labels, p.offsets, p.contexts)
    one = objective.derivatives(p.scores, p.table, n_threads=1)
    arrays = [one.gradient.copy(), one.hessian.copy(), one.table_gradient.copy(), one.table_hessian.copy()]
    many = objective.derivatives(p.scores, p.table, n_threads=3)
    for a, b in zip(arrays, (many.gradient, many.hessian, many.table_gradient, many.table_hessian), strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(one.log_likelihood, many.log_likelihood)


def test_huge_scores():
    p, labels, weights = make(3, 2, scale=1e4)
    found = SeenLikelihood(labels, p.offsets, p.contexts, sequence_weights=weights).derivatives(p.scores, p.table)
    for array in (found.gradient, found.hessian, found.table_gradient, found.table_hessian, found.log_likelihood):
        assert np.isfinite(array).all()


def test_errors():
    p, labels, _ = make(3, 2, forbidden=0.9)
    with pytest.raises(ParameterError, match=r"scores must have shape \(3, 12, 1\), got \(3, 11, 1\)"):
        SeenLikelihood(labels, p.offsets, p.contexts).derivatives(p.scores[:, 1:], p.table)
    hidden = labels.copy()
    hidden[6] = -1
    match = r"contexts='seen' needs every label, but y\[2\] has an unobserved one .* position 1"
    with pytest.raises(InputError, match=match):
        SeenLikelihood(hidden, p.offsets, p.contexts)
    row, k = np.argwhere(~p.contexts.allowed[:-1])[0]
    labels = np.array([row, k], np.int32)
    objective = SeenLikelihood(labels, np.array([0, 2]), p.contexts, classes=["a", "b", "c"])
    with pytest.raises(InputError, match=r"y\[0\] (starts|moves)"):
        objective.derivatives(p.scores[:, :2].copy(), p.table)
