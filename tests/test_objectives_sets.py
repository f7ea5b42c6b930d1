"""Labels known as one of a set: the log-likelihood of the sets against enumeration and finite differences."""

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

from seqboost.boosting.history import History
from seqboost.core.labelsets import FIRST_SET, allowed_labels, forbid_others, join_sets
from seqboost.exceptions import InputError
from seqboost.objectives import LocalLikelihood, PositionLikelihood, PseudoLikelihood, reference

SETS = np.array([[True, True, False], [False, True, True], [True, False, True]])


def with_sets(case: Case, share: float = 0.5, seed: int = 0) -> Case:
    """Replace labels by sets that hold them."""
    rng = np.random.default_rng(seed)
    labels = case.labels.copy()
    for t in np.flatnonzero(rng.random(len(labels)) < share):
        holding = np.flatnonzero(SETS[:, labels[t]]) if labels[t] >= 0 else np.arange(len(SETS))
        labels[t] = FIRST_SET - rng.choice(holding)
    return replace(case, labels=labels)


def total(case: Case, scores: np.ndarray, table: np.ndarray) -> float:
    """Give the weighted log-likelihood by enumeration."""
    values = [
        reference.log_likelihood(scores[:, rows], table, case.labels[rows], case.order, case.end, SETS)
        for rows in case.sequences
    ]
    return float(case.weights @ np.array(values))


@pytest.mark.parametrize(("order", "joint"), [shape for shape in SHAPES if shape[0] < 3])
def test_gradient_is_the_finite_difference(order, joint):
    case = with_sets(make_case(order, joint, lengths=(3, 1, 4), hidden=0.2, weighted=True))
    found = case.objective(sets=SETS).derivatives(case.scores, case.table)
    assert_finite_differences(case, total, found)
    if not joint:
        assert_finite_differences_of_table(case, total, found)


@pytest.mark.parametrize("scale", [3.0, 1000.0])
@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_log_likelihood_and_gradient_are_those_of_enumeration(order, joint, share, scale):
    case = with_sets(make_case(order, joint, lengths=(4, 1, 5, 2, 1), hidden=0.2, weighted=True, scale=scale), share)
    objective = case.objective(sets=SETS)
    found, plain = objective.derivatives(case.scores, case.table), objective.log_likelihood(case.scores, case.table)
    for s, rows in enumerate(case.sequences):
        labels = case.labels[rows]
        arguments = case.scores[:, rows], case.table, labels, order, None, SETS
        expected = reference.log_likelihood(*arguments)
        assert found.log_likelihood[s] == pytest.approx(expected, abs=1e-5, rel=1e-5)
        assert plain[s] == found.log_likelihood[s]
        delta, p = reference.gradient(*arguments)
        delta = delta if joint else delta.sum(axis=2, keepdims=True)
        np.testing.assert_allclose(found.gradient[:, rows], case.weights[s] * delta, atol=1e-5)
        assert found.n_observed[s] == np.sum(labels != -1)
        assert found.n_exact[s] == np.sum(labels >= 0)
        assert found.n_correct[s] == np.sum(p.sum(axis=2).argmax(axis=0) == labels)


def test_many_labels_by_rows():
    rng, n_labels = np.random.default_rng(0), 40
    sets = rng.random((5, n_labels)) < 0.2
    sets[:, 0] = True
    case = make_case(1, False, n_labels=n_labels, lengths=(7, 1, 20, 3))
    labels = np.where(rng.random(31) < 0.5, FIRST_SET - rng.integers(5, size=31), case.labels).astype(np.int32)
    case = replace(case, labels=labels)
    found = case.objective(sets=sets).derivatives(case.scores, case.table)
    allowed = allowed_labels(labels, n_labels, sets)
    for s, rows in enumerate(case.sequences):
        log_z = []
        for mask in (allowed[rows], np.ones_like(allowed[rows])):
            forward = np.where(mask[0], case.scores[:, rows.start, 0] + case.table[0], -np.inf)
            for t in range(1, rows.stop - rows.start):
                step = np.logaddexp.reduce(forward[:, None] + case.table[1:], axis=0)
                forward = np.where(mask[t], step + case.scores[:, rows.start + t, 0], -np.inf)
            log_z.append(np.logaddexp.reduce(forward))
        assert found.log_likelihood[s] == pytest.approx(log_z[0] - log_z[1], abs=1e-4)


@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_sets_of_one_and_of_all_labels_are_known_and_unobserved_ones(order, joint):
    case = make_case(order, joint, hidden=0.4, weighted=True)
    sets = np.vstack([np.eye(3, dtype=bool), np.ones((1, 3), dtype=bool)])
    labels = np.where(case.labels >= 0, FIRST_SET - case.labels, FIRST_SET - 3).astype(np.int32)
    plain = case.objective().derivatives(case.scores, case.table)
    found = replace(case, labels=labels).objective(sets=sets).derivatives(case.scores, case.table)
    np.testing.assert_allclose(found.log_likelihood, plain.log_likelihood, atol=1e-5)
    np.testing.assert_allclose(found.gradient, plain.gradient, atol=1e-6)


def test_accuracy_is_that_of_labels_known_exactly():
    case = with_sets(make_case(1, True, lengths=(6, 5)))
    found = case.objective(sets=SETS).derivatives(case.scores, case.table)
    entries = History(np.ones(2, bool), np.ones(2)).record(found, 1.0, 0.0, 1)
    assert entries["train_accuracy"] == found.n_correct.sum() / np.sum(case.labels >= 0)
    assert entries["train_score"] == found.log_likelihood.sum() / 11
    case = with_sets(case, share=1.0)
    found = case.objective(sets=SETS).derivatives(case.scores, case.table)
    assert np.isnan(History(np.ones(2, bool), np.ones(2)).record(found, 1.0, 0.0, 1)["train_accuracy"])


def test_impossible_sets_are_named():
    case = make_case(1, True, lengths=(2, 3))
    labels = np.array([0, 1, 2, -3, 0], np.int32)
    table = case.table.copy()
    table[3, :2] = -np.inf  # after label 2
    objective = replace(case, labels=labels).objective(sets=SETS, classes=["x", "y", "z"])
    with pytest.raises(InputError, match=r"y\[1\] has one of 'x', 'y' at position 1, to none of which the labels bef"):
        objective.derivatives(case.scores, table)


@pytest.mark.parametrize("kind", [PseudoLikelihood, PositionLikelihood, LocalLikelihood])
def test_other_objectives_refuse_sets(kind):
    case = with_sets(make_case(1, True))
    with pytest.raises(InputError, match=r"label codes must be in 0\.\.2, or -1 for unobserved"):
        case.objective(kind, sets=SETS)


@pytest.mark.parametrize(
    ("labels", "sets", "match"),
    [
        ([0, -4], SETS[:1], r"label codes must be in 0\.\.2.*has -4 at position 1"),
        ([0, -2], SETS, r"label codes must be in 0\.\.2.*has -2 at position 1"),
        ([0, -3], SETS[:, :2], r"sets must have shape \(n_sets, 3\).*got shape \(3, 2\)"),
        ([0, -3], np.zeros((1, 3), bool), r"sets must have shape \(n_sets, 3\) with a label in each"),
    ],
)
def test_strange_codes_and_sets_are_refused(labels, sets, match):
    case = replace(make_case(1, True, lengths=(2,)), labels=np.array(labels, np.int32))
    with pytest.raises(InputError, match=match):
        case.objective(sets=sets)


def test_scores_of_other_labels_are_forbidden():
    rng = np.random.default_rng(0)
    labels = rng.integers(-5, 3, 50).astype(np.int32)
    labels[labels == -2] = -1
    scores = rng.normal(size=(3, 50, 2)).astype(np.float32)
    masked = scores.copy()
    forbid_others(masked, labels, SETS)
    for t, label in enumerate(labels):
        for k in range(3):
            fits = label == -1 or label == k or (label <= -3 and SETS[-3 - label, k])
            assert np.array_equal(masked[k, t], scores[k, t] if fits else [-np.inf, -np.inf])
            assert allowed_labels(labels, 3, SETS)[t, k] == fits


def test_tables_of_sets_are_joined():
    labels = np.array([0, -3, -4], np.int32)
    joined, sets = join_sets((labels, SETS[:2]), (labels, SETS[1:]))
    assert joined.tolist() == [0, -3, -4, 0, -5, -6]
    np.testing.assert_array_equal(sets, np.concatenate([SETS[:2], SETS[1:]]))
    assert join_sets((labels, None), (labels, SETS))[0].tolist() == 2 * labels.tolist()
    assert join_sets((labels, SETS), (labels, None))[1] is SETS
