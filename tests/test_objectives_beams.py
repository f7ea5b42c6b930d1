"""The likelihood within a beam against a slow beam and enumeration, and against finite differences."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from objectives_cases import SHAPES, make_case
from scipy.special import logsumexp
from treecrf_data import all_equal, chains, small

from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import BeamLikelihood, Likelihood
from seqboost.objectives.reference import extended_of, slot_of

BEAMS = [(order, joint, beam) for order, joint in SHAPES if 0 < order < 3 for beam in (1, 2, 4)]


def slow(scores, table, labels, order, width):
    """Give L and P(c_t, y_t) within the beam of one sequence: forward by dicts, then all labellings within."""
    n_labels, n_positions, n_slots = scores.shape

    def cell(path, t):
        slot = slot_of(path, t, n_labels, order)
        score = float(scores[path[t], t, slot if n_slots > 1 else 0])
        return score + table[extended_of(path, t, n_labels, order), path[t]], slot

    def context(path):
        return tuple(path[max(0, len(path) - order) :])

    kept, alpha = [{()}], {(): 0.0}
    for t in range(n_positions):
        following = {}
        for before, value in alpha.items():
            for k in range(n_labels):
                path = (0,) * (t - len(before)) + before + (k,)
                following.setdefault(context(path), []).append(value + cell(path, t)[0])
        following = {c: logsumexp(values) for c, values in following.items()}
        best = sorted(following, key=lambda c: -following[c])[:width]
        observed = context(tuple(int(k) for k in labels[: t + 1]))
        if observed not in best:
            best = [*best[: width - 1], observed]
        alpha = {c: following[c] for c in best}
        kept.append(set(best))
    values, paths = [], []
    for path in itertools.product(range(n_labels), repeat=n_positions):
        if all(context(path[: t + 1]) in kept[t + 1] for t in range(n_positions)):
            paths.append(path)
            values.append(sum(cell(path, t)[0] for t in range(n_positions)))
    log_z = logsumexp(values)
    pairs = np.zeros((n_labels, n_positions, n_labels**order))
    for path, value in zip(paths, values, strict=True):
        for t in range(n_positions):
            pairs[path[t], t, cell(path, t)[1]] += np.exp(value - log_z)
    truth = tuple(int(k) for k in labels)
    return sum(cell(truth, t)[0] for t in range(n_positions)) - log_z, pairs


def beam_of(case, beam, **changes):
    return case.objective(BeamLikelihood, beam=beam, **changes)


@pytest.mark.parametrize(("order", "joint", "beam"), BEAMS)
def test_values_and_gradients_are_those_of_the_slow_twin(order, joint, beam):
    case = make_case(order, joint, lengths=(4, 1, 5, 2), weighted=True)
    scores = np.nan_to_num(case.scores)
    found = beam_of(case, beam, curvature="newton").derivatives(scores, case.table)
    table = case.table
    of_table = np.zeros_like(case.table)
    for s, rows in enumerate(case.sequences):
        value, pairs = slow(scores[:, rows], table, case.labels[rows], order, beam + 1)
        assert found.log_likelihood[s] == pytest.approx(value, abs=1e-5)
        assert value <= 1e-9
        observed = np.zeros_like(pairs)
        path = tuple(case.labels[rows].tolist())
        for t, k in enumerate(path):
            observed[k, t, slot_of(path, t, 3, order)] = 1
        expected = case.weights[s] * (observed - pairs)
        curved = case.weights[s] * pairs * (1 - pairs)
        for t in range(len(path)):
            n_here, first = 3 ** min(t, order), sum(3**i for i in range(min(t, order)))
            of_table[first : first + n_here] += expected[:, t, :n_here].T
        if not joint:
            expected = expected.sum(axis=2, keepdims=True)
            node = pairs.sum(axis=2, keepdims=True)
            curved = case.weights[s] * node * (1 - node)
        np.testing.assert_allclose(found.gradient[:, rows], expected, atol=1e-5)
        np.testing.assert_allclose(found.hessian[:, rows], curved, atol=1e-5)
    if not joint:
        np.testing.assert_allclose(found.table_gradient, of_table, atol=1e-5)
    assert np.abs(found.gradient).sum(axis=2).max() <= (2.0 if joint else 1.0) * case.weights.max() * 1.0001


@pytest.mark.parametrize(("order", "joint", "beam"), BEAMS)
def test_gradient_is_the_finite_difference(order, joint, beam):
    case = make_case(order, joint, n_labels=3, lengths=(4, 2), weighted=True, scale=2.0)
    case = replace(case, scores=np.nan_to_num(case.scores))
    objective = beam_of(case, beam)
    gradient = objective.derivatives(case.scores, case.table).gradient.copy()
    step = 2e-3  # small enough for the beam to stay, large enough for single precision
    for cell in itertools.product(*map(range, case.scores.shape)):
        moved = []
        for sign in (1, -1):
            scores = case.scores.copy()
            scores[cell] += sign * step
            moved.append(float(case.weights @ objective.log_likelihood(scores, case.table)))
        assert gradient[cell] == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=2e-3)


@pytest.mark.parametrize(("order", "joint"), [(1, True), (1, False), (2, True), (2, False)])
def test_a_beam_that_holds_all_is_the_likelihood(order, joint):
    case = make_case(order, joint, weighted=True)
    scores = np.nan_to_num(case.scores)
    wide = beam_of(case, 3**order, curvature="newton").derivatives(scores, case.table)
    exact = case.objective(Likelihood, curvature="newton").derivatives(scores, case.table)
    np.testing.assert_allclose(wide.log_likelihood, exact.log_likelihood, atol=1e-5)
    np.testing.assert_allclose(wide.gradient, exact.gradient, atol=1e-5)
    np.testing.assert_allclose(wide.hessian, exact.hessian, atol=1e-5)
    np.testing.assert_array_equal(wide.n_correct, exact.n_correct)
    if not joint:
        np.testing.assert_allclose(wide.table_gradient, exact.table_gradient, atol=1e-5)
        np.testing.assert_allclose(wide.table_hessian, exact.table_hessian, atol=1e-4)


@pytest.mark.parametrize("curvature", ["count", "mixing"])
@pytest.mark.parametrize("joint", [True, False])
def test_other_curvatures(curvature, joint):
    case = make_case(1, joint, weighted=True)
    scores = np.nan_to_num(case.scores)
    newton = beam_of(case, 2, curvature="newton").derivatives(scores, case.table)
    found = beam_of(case, 2, curvature=curvature).derivatives(scores, case.table)
    if curvature == "mixing":
        np.testing.assert_allclose(found.hessian, 6 * newton.hessian, rtol=1e-5)
    else:
        exact = case.objective(Likelihood, curvature="count").derivatives(scores, case.table)
        np.testing.assert_array_equal(found.hessian, exact.hessian)
        if not joint:
            np.testing.assert_array_equal(found.table_hessian, exact.table_hessian)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_training_with_a_beam(potentials, trees):
    X, y = chains(30, n_labels=4, lengths=(3, 9))
    settings = {"potentials": potentials, "trees": trees, "max_iter": 8, "learning_rate": 1.0, "window": 0}
    pruned = small(beam=2, **settings).fit(X, y)
    scores = pruned.history_["train_score"]
    assert all(b >= a for a, b in itertools.pairwise(scores))  # steps are safe
    assert pruned.score(X, y) > 0.5
    exact = small(**settings).fit(X, y)
    assert not all_equal(pruned.predict_proba(X, beam=4), exact.predict_proba(X))
    wide = small(beam=4, **settings).fit(X, y)
    assert all_equal(wide.predict_proba(X), exact.predict_proba(X))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_any_number_of_threads(n_jobs):
    X, y = chains(30, n_labels=4, lengths=(3, 9))
    one = small(beam=2, potentials="factored", n_jobs=2).fit(X, y)
    other = small(beam=2, potentials="factored", n_jobs=n_jobs).fit(X, y)
    assert all_equal(other.predict_proba(X), one.predict_proba(X))


def test_errors():
    case = make_case(1, True, hidden=0.4)
    with pytest.raises(InputError, match=r"training with a beam needs every label, but y\[\d\] has an unobserved one"):
        beam_of(case, 1)
    case = make_case(1, True)
    with pytest.raises(ParameterError, match="beam must be 1 or more, got 0"):
        beam_of(case, 0)
    with pytest.raises(ParameterError, match="scores must have shape"):
        beam_of(case, 1).derivatives(case.scores[:, :2], case.table)
    case = make_case(1, False, lengths=(3,))
    table = case.table.copy()
    table[1 + case.labels[0], case.labels[1]] = -np.inf
    with pytest.raises(InputError, match=r"y\[0\] moves from"):
        beam_of(case, 1).derivatives(case.scores, table)
