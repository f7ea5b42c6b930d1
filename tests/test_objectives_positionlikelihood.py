"""The weighted log-likelihood of single labels against enumeration and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from objectives_cases import (
    SHAPES,
    Case,
    assert_finite_differences,
    assert_finite_differences_of_table,
    make_case,
)
from scipy.special import log_softmax, softmax

from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import Likelihood, PositionLikelihood, positionlikelihood, reference

HIDDEN = [0.0, 0.4]
CURVATURES = ["count", "newton", "mixing"]


def position(case: Case, **changes) -> PositionLikelihood:
    return case.objective(PositionLikelihood, **changes)


def total(case: Case, scores: np.ndarray, table: np.ndarray) -> float:
    """Return the weighted objective by enumeration."""
    values = [
        reference.position_log_likelihood(
            scores[:, rows], table, case.labels[rows], case.position_weights[rows], case.order, case.end
        )
        for rows in case.sequences
    ]
    return float(case.weights @ np.array(values))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_is_the_finite_difference(order, joint, hidden):
    case = make_case(order, joint, n_labels=2, hidden=hidden, weighted=True)
    found = position(case).derivatives(case.scores, case.table)
    assert_finite_differences(case, total, found)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradient_of_the_table_is_the_finite_difference(order, hidden):
    case = make_case(order, False, n_labels=2, hidden=hidden, weighted=True)
    found = position(case).derivatives(case.scores, case.table)
    assert_finite_differences_of_table(case, total, found)


@pytest.mark.parametrize("scale", [0.3, 3.0])
@pytest.mark.parametrize("hidden", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_values_and_gradients_are_those_of_enumeration(order, joint, hidden, scale):
    case = make_case(order, joint, lengths=(4, 1, 5, 2, 1), hidden=hidden, weighted=True, scale=scale)
    end = np.random.default_rng(0).normal(size=3)
    case = replace(case, end=end)
    objective = position(case)
    objective._gradient[:], objective._hessian[:], objective._prob[:] = np.nan, np.nan, np.nan
    found = objective.derivatives(case.scores, case.table)
    plain = objective.log_likelihood(case.scores, case.table)
    for s, rows in enumerate(case.sequences):
        scores, labels, weights = case.scores[:, rows], case.labels[rows], case.position_weights[rows]
        expected = reference.position_log_likelihood(scores, case.table, labels, weights, order, end)
        assert found.log_likelihood[s] == pytest.approx(expected, abs=2e-5)
        assert plain[s] == pytest.approx(expected, abs=2e-5)
        delta = reference.position_gradient(scores, case.table, labels, weights, order, end)
        if not joint:
            delta = delta.sum(axis=2, keepdims=True)
        np.testing.assert_allclose(found.gradient[:, rows], case.weights[s] * delta, atol=2e-5)
        _, p = reference.gradient(scores, case.table, labels, order, end)
        assert found.n_correct[s] == np.sum(p.sum(axis=2).argmax(axis=0) == labels)
        assert found.n_observed[s] == np.sum(labels >= 0)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_sums_to_zero_at_each_position(order, joint):
    case = make_case(order, joint, hidden=0.2, weighted=True, scale=4.0)
    found = position(case).derivatives(case.scores, case.table)
    np.testing.assert_allclose(found.gradient.sum(axis=(0, 2)), 0, atol=1e-5)


@pytest.mark.parametrize("n_labels", [4, 40])  # 40: the likelihood goes another way, by rows
def test_a_factored_model_is_a_joint_one_whose_scores_do_not_depend_on_the_context(n_labels, monkeypatch):
    case = make_case(1, False, n_labels=n_labels, lengths=(200, 1, 30, 2), weighted=True, sticky=2.0)
    wide = replace(case, joint=True, scores=np.repeat(case.scores, n_labels, axis=2))
    whole = position(case).derivatives(case.scores, case.table)
    joint = position(wide).derivatives(wide.scores, wide.table)
    np.testing.assert_allclose(whole.gradient[..., 0], joint.gradient.sum(axis=2), atol=2e-5)
    np.testing.assert_allclose(whole.log_likelihood, joint.log_likelihood, rtol=1e-5)
    starts = np.isin(np.arange(233), case.offsets)
    np.testing.assert_allclose(whole.table_gradient[0], joint.gradient[:, starts].sum(axis=(1, 2)), atol=1e-4)
    np.testing.assert_allclose(whole.table_gradient[1:], joint.gradient[:, ~starts].sum(axis=1).T, atol=1e-3)
    for part in (1, 7):  # pairs are rebuilt in blocks, which cut sequences anywhere
        blocks = [(a, min(a + 233 // part, 233)) for a in range(0, 233, 233 // part)]
        monkeypatch.setattr(positionlikelihood, "position_blocks", lambda *_, blocks=blocks: blocks)
        again = position(case).derivatives(case.scores, case.table)
        np.testing.assert_array_equal(again.gradient, whole.gradient)
        np.testing.assert_allclose(again.table_gradient, whole.table_gradient, rtol=1e-12)


def test_order_zero_is_the_weighted_log_loss():
    case = make_case(0, True, lengths=(1,) * 20, weighted=True)
    case = replace(case, weights=np.ones(20))
    v = case.position_weights
    found = position(case, curvature="newton").derivatives(case.scores, case.table)
    logits = case.scores[:, :, 0].T + case.table
    p = softmax(logits, axis=1)
    of_labels = v * log_softmax(logits, axis=1)[np.arange(20), case.labels]
    np.testing.assert_allclose(found.log_likelihood, of_labels, atol=1e-6)
    np.testing.assert_allclose(found.gradient[:, :, 0].T, v[:, None] * (np.eye(3)[case.labels] - p), atol=1e-6)
    np.testing.assert_allclose(found.hessian[:, :, 0].T, v[:, None] * p * (1 - p), atol=1e-6)
    safe = position(case, curvature="mixing").derivatives(case.scores, case.table)
    np.testing.assert_allclose(safe.hessian[:, :, 0].T, 2 * v[:, None] * p * (1 - p), atol=1e-6)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_sequences_of_one_position_are_those_of_the_likelihood(order, joint, curvature):
    case = make_case(order, joint, lengths=(1,) * 9)
    ours = position(case, curvature=curvature).derivatives(case.scores, case.table)
    theirs = case.objective(Likelihood, curvature=curvature).derivatives(case.scores, case.table)
    np.testing.assert_allclose(ours.gradient, theirs.gradient, atol=1e-6)
    np.testing.assert_allclose(ours.hessian, theirs.hessian, atol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, atol=1e-6)
    if order and not joint:
        np.testing.assert_allclose(ours.table_gradient, theirs.table_gradient, atol=1e-6)
        np.testing.assert_allclose(ours.table_hessian, theirs.table_hessian, atol=1e-6)


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_twice_the_weights_is_twice_everything(order, joint, curvature):
    case = make_case(order, joint, hidden=0.2, weighted=True)
    once = position(case, curvature=curvature).derivatives(case.scores, case.table)
    assert np.all(once.hessian >= 0)
    for heavy in (
        replace(case, position_weights=2 * case.position_weights), replace(case, weights=2 * case.weights),
    ):  # fmt: skip
        twice = position(heavy, curvature=curvature).derivatives(case.scores, case.table)
        np.testing.assert_allclose(twice.gradient, 2 * once.gradient, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(twice.hessian, 2 * once.hessian, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("order", "joint"), [(0, True), (1, True), (1, False), (2, True), (2, False)])
def test_held_out_sequences_have_a_value_and_no_derivatives(order, joint):
    case = make_case(order, joint, weighted=True)
    half = replace(case, weights=np.array([1.0, 0.0, 0.0, 1.0]))
    found = position(half).derivatives(case.scores, case.table)
    rows = np.isin(np.repeat(np.arange(4), np.diff(case.offsets)), [1, 2])
    assert not found.gradient[:, rows].any()
    assert not found.hessian[:, rows].any()
    full = position(case).derivatives(case.scores, case.table)
    np.testing.assert_array_equal(found.log_likelihood, full.log_likelihood)
    np.testing.assert_array_equal(found.n_correct, full.n_correct)


@pytest.mark.parametrize(("order", "joint"), [(1, True), (1, False), (2, False)])
def test_threads_do_not_matter(order, joint):
    case = make_case(order, joint, lengths=(900, 1, 5000, 4200, 17), weighted=True, sticky=1.0)
    one = position(case).derivatives(case.scores, case.table, n_threads=1)
    one = replace(one, gradient=one.gradient.copy(), hessian=one.hessian.copy())
    two = position(case).derivatives(case.scores, case.table, n_threads=2)
    for name in ("gradient", "hessian", "log_likelihood", "table_gradient", "table_hessian"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("scale", [30.0, 1000.0])
def test_huge_scores_leave_everything_finite(scale, joint):
    case = make_case(1, joint, lengths=(30, 1, 5), weighted=True, scale=scale)
    found = position(case).derivatives(case.scores, case.table)
    for name in ("gradient", "hessian", "log_likelihood"):
        assert np.all(np.isfinite(getattr(found, name)))
    assert np.all(found.log_likelihood <= 0)


@pytest.mark.parametrize("n_labels", [1, 2])
def test_one_label_has_nothing_to_learn(n_labels):
    case = make_case(1, True, n_labels=n_labels)
    found = position(case).derivatives(case.scores, case.table)
    assert (not found.gradient.any()) == (n_labels == 1)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_a_small_step_along_the_gradient_climbs(order, joint):
    for seed in range(3):
        case = make_case(order, joint, lengths=(20, 3, 40), sticky=3.0, weighted=True, seed=seed)
        objective = position(case)
        found = objective.derivatives(np.nan_to_num(case.scores), case.table)
        before = case.weights @ found.log_likelihood
        step = np.where(found.hessian > 0, found.gradient / np.maximum(found.hessian, 1e-9), 0).astype(np.float32)
        moved = objective.log_likelihood(np.nan_to_num(case.scores) + 0.5 * np.clip(step, -1, 1), case.table)
        assert case.weights @ moved > before


def test_errors():
    case = make_case(1, True)
    with pytest.raises(InputError, match="position weights must be 12 finite numbers >= 0, one per position"):
        position(case, position_weights=np.ones(3))
    with pytest.raises(InputError, match="smallest value of -1"):
        position(case, position_weights=-np.ones(12))
    with pytest.raises(ParameterError, match=r"scores must have shape \(3, 12, 3\), got \(3, 12, 1\)"):
        position(case).derivatives(np.zeros((3, 12, 1), np.float32), case.table)


def test_forbidden_labels_are_named():
    case = make_case(1, False, lengths=(3, 3))
    case = replace(case, labels=np.array([0, 1, 0, 0, 0, 1], np.int32))
    table = case.table.copy()
    table[2, 0] = -np.inf  # label 0 after label 1
    with pytest.raises(InputError, match=r"y\[0\] moves from 1 to 0 at position 2"):
        position(case).derivatives(case.scores, table)
