"""What objectives say of single positions, against enumeration of all labelings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from objectives_cases import SHAPES, make_case

from seqboost.chain import Potentials, locally_normalised
from seqboost.chain.reference import SeenTwin, pair_marginals_brute, random_seen
from seqboost.objectives import (
    BagLikelihood,
    Bags,
    BeamLikelihood,
    Likelihood,
    LocalLikelihood,
    PositionLikelihood,
    Predictions,
    PseudoLikelihood,
    SeenLikelihood,
)

KINDS = [Likelihood, PositionLikelihood, PseudoLikelihood, LocalLikelihood]


def node_marginals(case, kind):
    """Return P(y_t = k | X), (N, K), by enumeration."""
    chain = Potentials(case.scores, case.table, case.offsets, case.order)
    if kind is LocalLikelihood:
        chain = locally_normalised(chain)
    return np.concatenate([pair_marginals_brute(chain, s)[1].sum(axis=1) for s in range(len(case.offsets) - 1)])


def assert_predicts(found, node, labels, first_row=0):
    """Compare predictions with marginals of all positions from ``first_row`` on."""
    later = np.arange(len(labels)) >= first_row
    best = np.sort(node, axis=1)
    is_clear = later & (best[:, -1] - best[:, -2] > 1e-5)
    assert is_clear.any()
    np.testing.assert_array_equal(found.labels[is_clear], node.argmax(axis=1)[is_clear])
    np.testing.assert_array_equal(found.labels[~later], -1)
    own = np.where(later & (labels >= 0), node[np.arange(len(labels)), np.maximum(labels, 0)], np.nan)
    np.testing.assert_allclose(found.prob, own, atol=1e-5)


@pytest.mark.parametrize("hidden", [0.0, 0.4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("order", "joint"), SHAPES)
def test_predictions_are_those_of_the_posterior(kind, order, joint, hidden):
    case = make_case(order, joint, hidden=hidden, weighted=True, seed=3)
    held_out = replace(case, weights=np.array([1.0, 0.5, 0.0, 0.0]))
    objective, first_row = held_out.objective(kind), int(case.offsets[2])
    objective.watch_positions(first_row)
    found = objective.derivatives(case.scores, case.table).predictions
    assert_predicts(found, node_marginals(case, kind), case.labels, first_row)


@pytest.mark.parametrize("kind", KINDS)
def test_watching_changes_no_derivative(kind):
    case = make_case(2, False, weighted=True)
    plain, watching = case.objective(kind), case.objective(kind)
    watching.watch_positions()
    one, two = plain.derivatives(case.scores, case.table), watching.derivatives(case.scores, case.table, n_threads=2)
    assert one.predictions is None
    for name in ("gradient", "hessian", "table_gradient", "table_hessian", "log_likelihood", "n_correct"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("kind", KINDS)
def test_label_weights_move_predictions(kind):
    case, weights = make_case(1, True, seed=1), np.array([1.0, 30.0, 0.2])
    objective = case.objective(kind)
    objective.watch_positions(0, weights)
    weighted = node_marginals(case, kind) * weights
    weighted /= weighted.sum(axis=1, keepdims=True)
    assert_predicts(objective.derivatives(case.scores, case.table).predictions, weighted, case.labels)


def test_a_wide_beam_predicts_as_the_posterior():
    case = make_case(1, False, lengths=(4, 1, 5))
    objective = case.objective(BeamLikelihood, beam=3)
    objective.watch_positions()
    found = objective.derivatives(case.scores, case.table).predictions
    assert_predicts(found, node_marginals(case, BeamLikelihood), case.labels)


def test_chains_of_seen_contexts():
    rng = np.random.default_rng(4)
    p = random_seen(rng, 3, 2, lengths=(4, 1, 5, 2))
    labels = rng.integers(3, size=p.n_positions).astype(np.int32)
    objective, twin = SeenLikelihood(labels, p.offsets, p.contexts), SeenTwin(p)
    objective.watch_positions(int(p.offsets[1]))
    found = objective.derivatives(p.scores, p.table).predictions
    node = np.concatenate([twin.posterior(s)[1].T for s in range(4)])
    assert_predicts(found, node, labels, int(p.offsets[1]))


def test_bags():
    rng = np.random.default_rng(0)
    offsets, labels = np.array([0, 3, 5]), np.array([0, 1, -1, 1, 0], dtype=np.int32)
    base, effect = rng.normal(size=(5, 2)), np.array([0.0, 1.0])
    bags = Bags(offsets, size=None, direction="both")
    objective = BagLikelihood(bags, labels, offsets, base, effect, np.ones(2))
    objective.watch_positions(3)
    scores = rng.normal(size=(1, 5, 1)).astype(np.float32)
    found = objective.derivatives(scores)
    node = np.exp(base + bags.probabilities(scores.reshape(-1))[:, None] * effect)
    assert_predicts(found.predictions, node / node.sum(axis=1, keepdims=True), labels, 3)


def test_nothing_is_filled_before_the_first_row():
    found = Predictions(np.array([0, 1, 1], np.int32), first_row=3)
    found.fill(np.full((2, 3, 1), 0.5, np.float32), 0)
    assert found.labels.tolist() == [-1, -1, -1]
