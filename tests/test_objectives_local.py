"""Labels one by one, given the true labels before: value, gradient and curvature against the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from objectives_cases import SHAPES, Case, make_case

from seqboost.chain import ContextSpace, transition_table
from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import Likelihood, LocalLikelihood
from seqboost.objectives.local_reference import local_log_likelihood

CURVATURES = ["count", "newton", "mixing"]


def total(case: Case, scores: np.ndarray, table: np.ndarray) -> float:
    adjusted = table - np.log(case.class_weights)
    parts = [local_log_likelihood(scores[:, rows], adjusted, case.labels[rows], case.order) for rows in case.sequences]
    return float(case.weights @ np.array([part[0] for part in parts]))


@pytest.mark.parametrize("hidden", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_values_are_those_of_the_definition(order, joint, hidden):
    case = make_case(order, joint, lengths=(4, 1, 5, 2), hidden=hidden, weighted=True, scale=3.0)
    objective = case.objective(LocalLikelihood)
    found = objective.derivatives(case.scores, case.table)
    for s, rows in enumerate(case.sequences):
        expected = local_log_likelihood(case.scores[:, rows], case.training_table(), case.labels[rows], order)
        assert found.log_likelihood[s] == pytest.approx(expected[0], abs=1e-10)
        assert (found.n_correct[s], found.n_observed[s]) == expected[1:]
    np.testing.assert_array_equal(objective.log_likelihood(case.scores, case.table), found.log_likelihood)


@pytest.mark.parametrize("hidden", [0.0, 0.3])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_is_the_finite_difference(order, joint, hidden):
    case = make_case(order, joint, n_labels=2, lengths=(5, 1, 4, 2), hidden=hidden, weighted=True)
    found = case.objective(LocalLikelihood).derivatives(case.scores, case.table)
    step = 1e-5
    for cell in np.ndindex(case.scores.shape):
        if np.isfinite(case.scores[cell]):
            up, down = case.scores.astype(np.float64), case.scores.astype(np.float64)
            up[cell] += step
            down[cell] -= step
            slope = (total(case, up, case.table) - total(case, down, case.table)) / (2 * step)
            assert found.gradient[cell] == pytest.approx(slope, abs=2e-6)
        else:
            assert found.gradient[cell] == found.hessian[cell] == 0
    if joint:
        assert found.table_gradient is None
        return
    for cell in np.ndindex(case.table.shape):
        up, down = case.table.copy(), case.table.copy()
        up[cell] += step
        down[cell] -= step
        slope = (total(case, case.scores, up) - total(case, case.scores, down)) / (2 * step)
        assert found.table_gradient[cell] == pytest.approx(slope, abs=2e-6)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_curvature_of_one_choice(order, joint, curvature):
    case = make_case(order, joint, n_labels=3, lengths=(1,), weighted=True)
    found = case.objective(LocalLikelihood, curvature=curvature).derivatives(case.scores, case.table)
    score = case.scores[:, 0, 0] + case.training_table()[0]
    p = np.exp(score - np.logaddexp.reduce(score))
    hessian = case.weights[0] * (np.diag(p) - np.outer(p, p))
    expected = {"newton": np.diag(hessian), "mixing": np.abs(hessian).sum(axis=1), "count": case.weights[0]}[curvature]
    np.testing.assert_allclose(found.hessian[:, 0, 0], np.broadcast_to(expected, 3), rtol=1e-5)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), [(1, False), (2, False), (2, True)])
def test_bounds_hold_and_the_table_has_the_sums_of_its_cells(order, joint, curvature):
    case = make_case(order, joint, lengths=(9, 1, 7), weighted=True, scale=2.0)
    found = case.objective(LocalLikelihood, curvature=curvature).derivatives(case.scores, case.table)
    assert np.abs(found.gradient).sum(axis=2).max() <= found.gradient_bound
    assert found.hessian.sum(axis=2).max() <= found.hessian_bound
    if not joint:
        assert found.table_gradient.sum(axis=1) == pytest.approx(np.zeros(len(case.table)), abs=1e-6)
        assert found.table_hessian.sum() == pytest.approx(found.hessian.sum(), rel=1e-5)


def test_order_zero_is_the_likelihood_of_a_chain_without_transitions():
    case = make_case(0, True, lengths=(4, 1, 5), weighted=True)
    ours = case.objective(LocalLikelihood, curvature="newton").derivatives(case.scores, case.table)
    chain = case.objective(Likelihood, curvature="newton").derivatives(case.scores, case.table)
    np.testing.assert_allclose(ours.gradient, chain.gradient, atol=1e-6)
    np.testing.assert_allclose(ours.hessian, chain.hessian, atol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood, chain.log_likelihood, atol=1e-5)


def test_huge_scores_lose_nothing():
    case = make_case(1, True, lengths=(6, 3))
    scores = np.nan_to_num(case.scores) * 1e4
    found = case.objective(LocalLikelihood).derivatives(scores.astype(np.float32), case.table)
    assert np.isfinite(found.log_likelihood).all()
    assert np.isfinite(found.gradient).all()


def test_forbidden_transitions_have_no_probability_and_labels_that_break_them_are_named():
    case = make_case(1, True, lengths=(4, 3))
    allowed = ~np.eye(3, k=1, dtype=bool)  # 0 -> 1 and 1 -> 2 are forbidden
    table = case.table + transition_table(ContextSpace(3, 1), np.ones(3, dtype=bool), allowed)
    kept = replace(case, labels=np.array([0, 2, 1, 1, 1, 0, 0], dtype=np.int32))
    found = kept.objective(LocalLikelihood).derivatives(case.scores, table)
    assert found.gradient[1, 1, 0] == found.hessian[1, 1, 0] == 0
    broken = replace(case, labels=np.array([0, 2, 1, 1, 1, 0, 1], dtype=np.int32))
    with pytest.raises(InputError, match="position 2"):
        broken.objective(LocalLikelihood).derivatives(case.scores, table)


def test_scores_of_another_shape_are_refused():
    case = make_case(1, True)
    with pytest.raises(ParameterError, match="scores must have shape"):
        case.objective(LocalLikelihood).derivatives(case.scores[:, :, :1], case.table)
