"""The log-likelihood and its gradient against enumeration and finite differences."""

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

from seqboost.core.offsets import sequence_chunks
from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import likelihood, partial, reference

HIDDEN = [0.0, 0.4]
POISONED = ("_gradient", "_hessian", "_log_z", "_path_score", "_tau", "_reach", "_pair_reach", "_means", "_variances")


def total(case: Case, scores: np.ndarray, table: np.ndarray) -> float:
    """Give the weighted log-likelihood by enumeration."""
    values = [
        reference.log_likelihood(scores[:, rows], table, case.labels[rows], case.order, case.end)
        for rows in case.sequences
    ]
    return float(case.weights @ np.array(values))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_is_the_finite_difference_of_the_log_likelihood(order, joint, hidden):
    case = make_case(order, joint, n_labels=2, hidden=hidden, weighted=True)
    found = case.objective().derivatives(case.scores, case.table)
    assert_finite_differences(case, total, found)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradient_of_the_table_is_the_finite_difference(order, hidden):
    case = make_case(order, False, n_labels=2, hidden=hidden, weighted=True)
    found = case.objective().derivatives(case.scores, case.table)
    assert_finite_differences_of_table(case, total, found)


@pytest.mark.parametrize("hidden", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_log_likelihood_gradient_and_correct_labels_are_those_of_enumeration(order, joint, hidden):
    case = make_case(order, joint, lengths=(4, 1, 5, 2, 1), hidden=hidden, weighted=True, scale=3.0)
    objective = case.objective()
    found = objective.derivatives(case.scores, case.table)
    plain = objective.log_likelihood(case.scores, case.table)
    table = case.table
    for s, rows in enumerate(case.sequences):
        labels = case.labels[rows]
        expected = reference.log_likelihood(case.scores[:, rows], table, labels, order)
        assert found.log_likelihood[s] == pytest.approx(expected, abs=1e-5)
        assert plain[s] == pytest.approx(expected, abs=1e-5)
        delta, p = reference.gradient(case.scores[:, rows], table, labels, order)
        if not joint:
            delta = delta.sum(axis=2, keepdims=True)
        np.testing.assert_allclose(found.gradient[:, rows], case.weights[s] * delta, atol=2e-6)
        best = p.sum(axis=2).argmax(axis=0)
        assert found.n_correct[s] == np.sum(best == labels)
        assert found.n_observed[s] == np.sum(labels >= 0)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_gradient_sums_to_zero_at_each_position(order, joint, hidden):
    case = make_case(order, joint, hidden=hidden, weighted=True, scale=4.0)
    found = case.objective().derivatives(case.scores, case.table)
    np.testing.assert_allclose(found.gradient.sum(axis=(0, 2)), 0, atol=1e-5)


@pytest.mark.parametrize("curvature", ["count", "newton", "mixing"])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_bounds_hold(order, joint, curvature):
    for hidden, scale in ((0.0, 0.1), (0.4, 5.0)):
        case = make_case(order, joint, hidden=hidden, weighted=True, scale=scale)
        found = case.objective(curvature=curvature).derivatives(case.scores, case.table)
        assert np.abs(found.gradient).sum(axis=2).max() <= (2.0 if joint else 1.0) * case.weights.max() * 1.0001
        assert np.all(found.hessian >= 0)


def test_order_zero_is_softmax_cross_entropy():
    case = make_case(0, True, lengths=(1,) * 20)
    found = case.objective(curvature="newton").derivatives(case.scores, case.table)
    logits = case.scores[:, :, 0].T + case.table
    p = softmax(logits, axis=1)
    one_hot = np.eye(3)[case.labels]
    np.testing.assert_allclose(found.log_likelihood, log_softmax(logits, axis=1)[np.arange(20), case.labels], atol=1e-6)
    np.testing.assert_allclose(found.gradient[:, :, 0].T, one_hot - p, atol=1e-6)
    np.testing.assert_allclose(found.hessian[:, :, 0].T, p * (1 - p), atol=1e-6)
    safe = case.objective(curvature="mixing").derivatives(case.scores, case.table)
    np.testing.assert_allclose(safe.hessian[:, :, 0].T, 2 * p * (1 - p), atol=1e-6)


@pytest.mark.parametrize("curvature", ["count", "newton", "mixing"])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_weight_two_is_repetition(order, joint, curvature):
    case = make_case(order, joint, hidden=0.2, lengths=(3, 4))
    once = replace(case, weights=np.array([2.0, 1.0])).objective(curvature=curvature)
    found = once.derivatives(case.scores, case.table)
    repeated = case.take([0, 0, 1])
    twice = repeated.objective(curvature=curvature).derivatives(repeated.scores, repeated.table)
    for name in ("gradient", "hessian"):
        ours, theirs = getattr(found, name), getattr(twice, name)
        np.testing.assert_allclose(ours[:, :3], theirs[:, :3] + theirs[:, 3:6], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(ours[:, 3:], theirs[:, 6:], rtol=1e-6)
    if not joint:
        np.testing.assert_allclose(found.table_gradient, twice.table_gradient, atol=1e-9)
        np.testing.assert_allclose(found.table_hessian, twice.table_hessian, atol=1e-9)


@pytest.mark.parametrize("curvature", ["count", "newton", "mixing"])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_weight_zero_gives_no_gradient_but_a_log_likelihood(order, joint, curvature):
    case = make_case(order, joint, hidden=0.2)
    held_out = replace(case, weights=np.array([1.0, 0.0, 0.0, 1.0]))
    full = case.objective(curvature=curvature).derivatives(case.scores, case.table)
    found = held_out.objective(curvature=curvature).derivatives(case.scores, case.table)
    np.testing.assert_array_equal(found.log_likelihood, full.log_likelihood)
    np.testing.assert_array_equal(found.n_correct, full.n_correct)
    assert np.all(found.gradient[:, 4:10] == 0)
    assert np.all(found.hessian[:, 4:10] == 0)
    np.testing.assert_array_equal(found.gradient[:, 10:], full.gradient[:, 10:])
    if not joint:
        alone = case.take([0, 3])
        only = alone.objective(curvature=curvature).derivatives(alone.scores, alone.table)
        np.testing.assert_allclose(found.table_gradient, only.table_gradient, atol=1e-12)
        np.testing.assert_allclose(found.table_hessian, only.table_hessian, atol=1e-12)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_same_bits_for_any_threads_and_any_order_of_sequences(order, joint, monkeypatch):
    case = make_case(order, joint, n_labels=2, lengths=(7, 30, 1, 50, 12, 33), hidden=0.1, weighted=True)
    for module in (likelihood, partial):
        monkeypatch.setattr(module, "sequence_chunks", lambda offsets: sequence_chunks(offsets, 20))
    found = case.objective().derivatives(case.scores, case.table, n_threads=1)
    threaded = case.objective().derivatives(case.scores, case.table, n_threads=3)
    for name in ("gradient", "hessian", "log_likelihood", "n_correct"):
        np.testing.assert_array_equal(getattr(found, name), getattr(threaded, name))
    turned = case.take([5, 4, 3, 2, 1, 0])
    other = turned.objective().derivatives(turned.scores, turned.table)
    np.testing.assert_array_equal(found.log_likelihood[::-1], other.log_likelihood)
    back = replace(turned, scores=other.gradient).take([5, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(found.gradient, back.scores)
    if not joint:
        np.testing.assert_array_equal(found.table_gradient, threaded.table_gradient)
        np.testing.assert_array_equal(found.table_hessian, threaded.table_hessian)
        np.testing.assert_allclose(found.table_gradient, other.table_gradient, atol=1e-10)


@pytest.mark.parametrize("curvature", ["newton", "mixing"])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_buffers_are_filled_whole(order, joint, curvature):
    case = make_case(order, joint, hidden=0.2, weighted=True)
    clean = case.objective(curvature=curvature).derivatives(case.scores, case.table)
    objective = case.objective(curvature=curvature)
    for name in POISONED:
        if hasattr(objective, name):
            getattr(objective, name).fill(np.nan)
    poisoned = objective.derivatives(case.scores, case.table)
    for name in ("gradient", "hessian", "log_likelihood", "n_correct", "table_gradient", "table_hessian"):
        np.testing.assert_array_equal(getattr(poisoned, name), getattr(clean, name))


def test_buffers_are_reused_and_log_likelihood_leaves_them_alone():
    case = make_case(1, False, hidden=0.2)
    objective = case.objective()
    first = objective.derivatives(case.scores, case.table)
    kept = first.gradient.copy()
    objective.log_likelihood(case.scores + 1, case.table * 2)
    np.testing.assert_array_equal(first.gradient, kept)
    assert objective.derivatives(case.scores * 2, case.table).gradient is first.gradient


def test_huge_scores_stay_finite():
    for order, joint in SHAPES:
        case = make_case(order, joint, hidden=0.2, scale=300.0)
        found = case.objective().derivatives(case.scores, case.table)
        for values in (found.gradient, found.hessian, found.log_likelihood):
            assert np.all(np.isfinite(values))


@pytest.mark.parametrize("curvature", ["count", "newton", "mixing"])
@pytest.mark.parametrize("joint", [True, False])
def test_one_label_is_certain(joint, curvature):
    case = make_case(1, joint, n_labels=1)
    found = case.objective(curvature=curvature).derivatives(case.scores, case.table)
    np.testing.assert_allclose(found.log_likelihood, 0, atol=1e-5)
    np.testing.assert_allclose(found.gradient, 0, atol=1e-6)
    np.testing.assert_array_equal(found.n_correct, np.diff(case.offsets))


def test_wrong_arguments_are_named():
    case = make_case(1, True)
    with pytest.raises(ParameterError, match="curvature must be one of .* got 'exact'"):
        case.objective(curvature="exact")
    wrong = replace(case, labels=np.where(np.arange(12) == 6, 7, case.labels))
    with pytest.raises(InputError, match=r"y\[2\] has 7 at position 1"):
        wrong.objective()
    with pytest.raises(InputError, match="sequence weights must be 4 finite numbers"):
        case.objective(sequence_weights=np.array([1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(ParameterError, match=r"scores must have shape \(3, 12, 3\), got \(3, 12, 1\)"):
        case.objective().derivatives(np.zeros((3, 12, 1), np.float32), case.table)
