"""The locally normalised likelihood: its value against its twin, its gradient and curvature against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from objectives_cases import SHAPES, make_case

from seqboost.chain import transition_table
from seqboost.core.contexts import ContextSpace
from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import Likelihood, LocalLikelihood, reference

CURVATURES = ["count", "newton", "mixing"]


def total(case, scores, table):
    """Give the weighted log-likelihood by the slow twin."""
    values = [
        reference.local_log_likelihood(scores[:, rows], table, case.labels[rows], case.order) for rows in case.sequences
    ]
    return float(case.weights @ np.array(values))


def differences(case, values, of_table, step=1e-4):
    """Give first and second differences by every cell of scores or table."""
    first, second = np.zeros(values.shape), np.zeros(values.shape)
    middle = total(case, case.scores.astype(np.float64), case.table)
    for cell in zip(*np.nonzero(np.isfinite(values)), strict=True):
        moved = []
        for sign in (1, -1):
            changed = values.astype(np.float64).copy()
            changed[cell] += sign * step
            scores = case.scores.astype(np.float64)
            moved.append(total(case, scores, changed) if of_table else total(case, changed, case.table))
        first[cell] = (moved[0] - moved[1]) / (2 * step)
        second[cell] = (moved[0] - 2 * middle + moved[1]) / step**2
    return first, second


@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_derivatives_are_finite_differences(order, joint, hidden):
    case = make_case(order, joint, n_labels=2, lengths=(5, 1, 6, 2), hidden=hidden, weighted=True)
    found = case.objective(LocalLikelihood, curvature="newton").derivatives(case.scores, case.table)
    assert case.weights @ found.log_likelihood == pytest.approx(total(case, case.scores, case.table), rel=1e-6)
    gradient, second = differences(case, case.scores, of_table=False)
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-5)
    np.testing.assert_allclose(found.hessian, -second, atol=1e-5)
    if order and not joint:
        gradient, second = differences(case, case.table, of_table=True)
        np.testing.assert_allclose(found.table_gradient, gradient, atol=1e-5)
        np.testing.assert_allclose(found.table_hessian, -second, atol=1e-5)
    else:
        assert found.table_gradient is None


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_curvatures_and_bounds(order, joint, curvature):
    case = make_case(order, joint, lengths=(4, 1, 5, 2), weighted=True, hidden=0.1)
    newton = case.objective(LocalLikelihood, curvature="newton").derivatives(case.scores, case.table)
    found = case.objective(LocalLikelihood, curvature=curvature).derivatives(case.scores, case.table)
    touched = newton.hessian > 0
    if curvature == "count":
        weights = np.repeat(case.weights, np.diff(case.offsets))[None, :, None]
        np.testing.assert_allclose(found.hessian, np.where(touched, weights, 0), rtol=1e-6)
    else:
        factor = 2 if curvature == "mixing" else 1
        np.testing.assert_allclose(found.hessian, factor * newton.hessian, rtol=1e-6)
    assert np.abs(found.gradient).sum(axis=2).max() <= case.weights.max() * 1.0001
    np.testing.assert_allclose(found.gradient.sum(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize("scale", [0.3, 3.0])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_steps_of_the_curvature_mixing_climb(order, joint, scale):
    case = make_case(order, joint, scale=scale, weighted=True)
    objective = case.objective(LocalLikelihood)
    scores = np.nan_to_num(case.scores)
    before = -np.inf
    for _ in range(20):
        found = objective.derivatives(scores, case.table)
        value = float(case.weights @ found.log_likelihood)
        assert value >= before - 1e-5
        before = value
        scores = scores + np.where(found.hessian > 0, found.gradient / np.maximum(found.hessian, 1e-6), 0).clip(-2, 2)


def test_order_0_is_the_likelihood():
    case = make_case(0, True, weighted=True)
    ours = case.objective(LocalLikelihood, curvature="newton").derivatives(case.scores, case.table)
    theirs = case.objective(Likelihood, curvature="newton").derivatives(case.scores, case.table)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, atol=1e-6)
    np.testing.assert_allclose(ours.hessian, theirs.hessian, atol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, atol=1e-6)
    np.testing.assert_array_equal(ours.n_correct, theirs.n_correct)


def test_huge_scores_and_held_out_sequences():
    case = make_case(1, True, scale=300.0)
    case = replace(case, weights=np.array([1.0, 0.0, 1.0, 0.0]))
    objective = case.objective(LocalLikelihood)
    found = objective.derivatives(case.scores, case.table)
    assert np.isfinite(found.log_likelihood).all()
    assert not found.gradient[:, 4:5].any()
    kept = found.gradient.copy()
    np.testing.assert_array_equal(objective.log_likelihood(case.scores * 0.5, case.table).shape, (4,))
    np.testing.assert_array_equal(found.gradient, kept)  # values alone leave derivatives as they are


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads(n_threads):
    rng = np.random.default_rng(0)
    labels, offsets = rng.integers(3, size=12000).astype(np.int32), np.arange(0, 12001, 20)
    scores, table = rng.normal(size=(3, 12000, 1)).astype(np.float32), rng.normal(size=(4, 3))
    objective = LocalLikelihood(labels, offsets, n_labels=3, order=1, joint=False)
    one = objective.derivatives(scores, table)
    gradient, of_table = one.gradient.copy(), one.table_gradient.copy()
    other = LocalLikelihood(labels, offsets, n_labels=3, order=1, joint=False).derivatives(scores, table, n_threads)
    np.testing.assert_array_equal(gradient, other.gradient)
    np.testing.assert_array_equal(of_table, other.table_gradient)


def test_forbidden_transitions():
    case = make_case(1, False, lengths=(3,), n_labels=3)
    allowed = ~np.eye(3, k=1, dtype=bool)
    table = case.table + transition_table(ContextSpace(3, 1), None, allowed)
    good = replace(case, table=table, labels=np.array([0, 2, 1], np.int32))
    found = good.objective(LocalLikelihood).derivatives(case.scores, table)
    assert total(good, case.scores, table) == pytest.approx(found.log_likelihood.sum(), rel=1e-6)
    assert not found.table_gradient[1:][~allowed].any()
    bad = replace(good, labels=np.array([0, 1, 1], np.int32))
    with pytest.raises(InputError, match=r"y\[0\] moves from 0 to 1 at position 1"):
        bad.objective(LocalLikelihood).derivatives(case.scores, table)
    ends = replace(good, end=np.array([0.0, -np.inf, 0.0]))
    with pytest.raises(InputError, match=r"y\[0\] ends with 1"):
        ends.objective(LocalLikelihood).derivatives(case.scores, table)


def test_shape_of_scores():
    case = make_case(1, True)
    with pytest.raises(ParameterError, match="scores must have shape"):
        case.objective(LocalLikelihood).derivatives(case.scores[:, :3], case.table)
