"""Bags of later or earlier positions: sums, probabilities and gradients against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.objectives import BagLikelihood, Bags
from seqboost.objectives.bags_reference import bag_log_likelihood, bag_members

DIRECTIONS = ["future", "past", "both"]
SIZES = [1, 2, 3, 7, 100, None]
LENGTHS = (1, 7, 2, 12, 3)


def case(seed=0, n_labels=3, lengths=LENGTHS, hidden=0.0):
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(lengths))
    labels = rng.integers(0, n_labels, offsets[-1]).astype(np.int32)
    labels[rng.random(len(labels)) < hidden] = -1
    pattern = rng.normal(-1.0, 2.0, offsets[-1]).astype(np.float32)
    return offsets, labels, pattern, rng.normal(size=(offsets[-1], n_labels)), 2.0 * rng.normal(size=n_labels)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size", SIZES)
def test_sums_over_bags_and_over_their_holders(size, direction):
    offsets, _, values, *_ = case()
    bags = Bags(offsets, size, direction)
    values = values.astype(np.float64)
    members = np.zeros((len(values), len(values)))
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        for t in range(stop - start):
            members[start + t, start + np.array(bag_members(t, stop - start, size, direction), dtype=int)] = 1
    np.testing.assert_allclose(bags.sums(values), members @ values, atol=1e-12)
    np.testing.assert_allclose(bags.sums_of_holders(values), members.T @ values, atol=1e-12)


def test_small_values_beside_large_ones_are_not_lost():
    values = np.array([1e-20, 1e20, 1e-20, 1e-20, 1e-20])
    sums = Bags(np.array([0, 5]), 2, "future").sums(values)
    assert sums[2] == 2e-20
    assert sums[3] == 1e-20


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size", [1, 3, None])
@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_value_and_gradient_are_those_of_the_definition(size, direction, hidden):
    offsets, labels, pattern, base, effect = case(hidden=hidden)
    weights = np.array([1.0, 2.0, 0.5, 1.5, 0.0])
    objective = BagLikelihood(Bags(offsets, size, direction), labels, offsets, base, effect, weights)
    scores = pattern[None, :, None]
    definition = (base, effect, labels, offsets, size, direction)
    expected = bag_log_likelihood(pattern, *definition)
    np.testing.assert_allclose(objective.log_likelihood(scores), expected, rtol=1e-6)
    found = objective.derivatives(scores)
    np.testing.assert_array_equal(found.log_likelihood, objective.log_likelihood(scores))
    plain, step = objective.gradient(scores), 1e-5
    for s in range(len(pattern)):
        up, down = pattern.astype(np.float64), pattern.astype(np.float64)
        up[s] += step
        down[s] -= step
        slope = weights @ (bag_log_likelihood(up, *definition) - bag_log_likelihood(down, *definition)) / (2 * step)
        assert plain[s] == pytest.approx(slope, abs=1e-6)
    factor = found.gradient[0, :, 0] @ plain / (plain @ plain)
    np.testing.assert_allclose(found.gradient[0, :, 0], factor * plain, rtol=1e-4, atol=1e-6)
    assert np.all(found.hessian >= 0)


def test_rare_patterns_have_a_mean_curvature_of_a_coin_and_steps_of_about_one():
    offsets, labels, pattern, base, effect = case(lengths=(50, 60))
    objective = BagLikelihood(Bags(offsets, 5, "future"), labels, offsets, base, effect, np.ones(2))
    found = objective.derivatives(np.full((1, 110, 1), -20.0, dtype=np.float32))
    assert found.hessian.mean() == pytest.approx(0.25, rel=1e-3)
    held = found.hessian[0, :, 0] > 0
    assert np.abs(found.gradient[0, held, 0] / found.hessian[0, held, 0]).max() <= 1.0 + 1e-5


def test_extreme_patterns_stay_finite():
    offsets, labels, _, base, effect = case()
    bags = Bags(offsets, None, "future")
    for value in (-1e4, 1e4):
        pattern = np.full(offsets[-1], value, dtype=np.float32)
        found = BagLikelihood(bags, labels, offsets, base, effect, np.ones(5)).derivatives(pattern[None, :, None])
        assert np.isfinite(found.gradient).all()
        assert np.isfinite(found.hessian).all()
        probability = bags.probabilities(pattern)
        last = offsets[1:] - 1
        assert np.all(probability[last] == 0)
        assert np.all(np.delete(probability, last) == (value > 0))


def test_another_effect_leaves_the_first_objective_as_it_was():
    offsets, labels, pattern, base, effect = case()
    bags = Bags(offsets, 2, "future")  # shared by both
    first = BagLikelihood(bags, labels, offsets, base, effect, np.ones(5))
    scores = pattern[None, :, None]
    before = first.log_likelihood(scores)
    other = BagLikelihood(bags, labels, offsets, base, np.zeros(3), np.ones(5)).log_likelihood(scores)
    assert not np.array_equal(other, before)
    np.testing.assert_array_equal(first.log_likelihood(scores), before)
