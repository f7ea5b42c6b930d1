"""Many labels: the same answers as enumeration and as the method for few labels, and the bounds of what differs."""

import numpy as np
import pytest

from seqboost.chain import Potentials, log_partition, pair_sums_chunk, posterior, posterior_chunk
from seqboost.chain.exact import forward_backward, many_labels
from seqboost.chain.exact.many_labels import RowMessages
from seqboost.chain.exact.pair_sums import SQUARED
from seqboost.chain.reference import pair_marginals_brute, random_potentials, tau_brute
from tests.support.chains import CASES, run


@pytest.fixture
def every_size(monkeypatch):
    """Use this method for any number of labels, in runs of a few sequences."""
    monkeypatch.setattr(forward_backward, "MANY_LABELS", 0)
    monkeypatch.setattr(many_labels, "RUN_CELLS", 1)
    monkeypatch.setattr(many_labels, "RUN_SEQUENCES", 2)


def pair_sums(p, messages, weights):
    sums = np.zeros((2, *p.table.shape))
    for message in messages:
        pair_sums_chunk(p, message, weights[0], weights[1], sums[0], sums[1])
    return sums


def few(monkeypatch, p, labels=None):
    """Run the method for few labels."""
    with monkeypatch.context() as patch:
        patch.setattr(forward_backward, "MANY_LABELS", 10**6)
        return run(p, labels)


@pytest.mark.parametrize("cost", [10, 47, 50, 56, 62, 90])
def test_rare_transitions_that_are_needed(monkeypatch, cost):
    """The labels are all but certain, and a transition between them is all but forbidden."""
    n_labels = 40
    table = np.zeros((n_labels + 1, n_labels))
    table[1:, 0] = -cost
    table[2] -= 40
    scores = np.zeros((n_labels, 3, 1), dtype=np.float32)
    scores[1, 0] = scores[0, 1] = 300
    p = Potentials(scores, table, np.array([0, 3]), order=1)
    found, expected = run(p), few(monkeypatch, p)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-7)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)
    sums = [pair_sums(p, messages, np.ones((2, 3))) for *_, messages in (found, expected)]
    np.testing.assert_allclose(sums[0][0], sums[1][0], atol=1e-6)


@pytest.mark.parametrize("weight", [1e-30, 1e30])
def test_weights_of_any_size(monkeypatch, weight):
    rng = np.random.default_rng(0)
    scores = (10 * rng.normal(size=(40, 50, 1))).astype(np.float32)
    p = Potentials(scores, 8 * rng.normal(size=(41, 40)), np.array([0, 20, 50]), order=1)
    weights = np.full((2, 50), weight) * [[1.0], [9.0]]
    sums = [pair_sums(p, answer[-1], weights) / weight for answer in (run(p), few(monkeypatch, p))]
    np.testing.assert_allclose(sums[0][0], sums[1][0], atol=1e-4)
    assert np.isfinite(sums[0]).all()


@pytest.mark.usefixtures("every_size")
@pytest.mark.parametrize("case", [*CASES, "masked", "huge_masked", "forbidden_masked"])
@pytest.mark.parametrize("n_labels", [1, 2, 3, 4])
def test_against_enumeration(n_labels, case):
    rng = np.random.default_rng(len(case) + n_labels)
    scale = 1e4 if case == "huge_masked" else 1.0
    forbidden = 0.3 if case == "forbidden_masked" else 0.0
    options = CASES.get(case, {"scale": scale, "forbidden": forbidden})
    p = random_potentials(rng, n_labels, 1, joint=False, lengths=(1, 3, 2, 5, 1, 4, 5), **options)
    labels = rng.integers(-1, n_labels, p.n_positions).astype(np.int32) if "masked" in case else None
    log_z, marginals, taus, messages = run(p, labels)
    weights = rng.random((1, p.n_positions)) * [[1.0], [2.5]]
    expected_sums = np.zeros((2, *p.table.shape))
    for s in range(p.n_sequences):
        rows = slice(p.offsets[s], p.offsets[s + 1])
        expected_log_z, pair = pair_marginals_brute(p, s, labels)
        np.testing.assert_allclose(log_z[s], expected_log_z, rtol=1e-6, atol=2e-6)
        np.testing.assert_allclose(marginals[:, rows, 0], pair.sum(axis=1).T, atol=2e-6)
        for t in range(len(pair)):
            if "huge" not in case:
                exact = np.array(tau_brute(pair[t], p, t)) if t else np.zeros(2)
                assert np.all(taus[:, p.offsets[s] + t] >= exact - 2e-4)
                assert np.all(taus[:, p.offsets[s] + t] <= 1.0 + 1e-6)
            prob = pair[t, : p.space.n_existing(t)]
            at = p.space.base[p.space.type_of(t)] + np.arange(len(prob))
            expected_sums[0][at] += weights[0, p.offsets[s] + t] * prob
            expected_sums[1][at] += weights[1, p.offsets[s] + t] * prob * (1 - prob)
    assert np.all(taus[:, p.offsets[:-1]] == 0.0)
    if not p.joint:
        sums = pair_sums(p, messages, weights)
        np.testing.assert_allclose(sums[0], expected_sums[0], atol=3e-6)
        assert np.all(sums[1] >= expected_sums[1] - 3e-6)
        assert np.all(sums[1] <= expected_sums[1] * (1 + 2 * SQUARED) + 3e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("every_size")
@pytest.mark.parametrize("n_labels", [9, 16, 37, 130])
def test_agrees_with_the_method_for_few_labels(n_labels, case, masked, monkeypatch):
    rng = np.random.default_rng(n_labels)
    lengths = (1, 40, 3, 3, 1, 17, 70, 2, 2, 9, 1, 5)
    p = random_potentials(rng, n_labels, 1, joint=False, lengths=lengths, **CASES[case])
    labels = rng.integers(-1, n_labels, p.n_positions).astype(np.int32) if masked else None
    log_z, marginals, taus, messages = run(p, labels)
    assert all(isinstance(message, RowMessages) for message in messages)
    slow_log_z, slow_marginals, slow_taus, slow_messages = few(monkeypatch, p, labels)
    np.testing.assert_allclose(log_z, slow_log_z, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(marginals, slow_marginals, atol=5e-6)
    weights = rng.random((1, p.n_positions)) * [[1.0], [2.5]] * (rng.random(p.n_positions) < 0.8)
    sums, expected = pair_sums(p, messages, weights), pair_sums(p, slow_messages, weights)
    np.testing.assert_allclose(sums[0], expected[0], atol=2e-5)
    assert np.all(sums[1] >= expected[1] - 2e-5)
    assert np.all(sums[1] <= expected[1] * (1 + 2 * SQUARED) + 2e-5)
    weights[1] *= rng.random(p.n_positions)
    weights[0, ::7] = 0.0
    sums, expected = pair_sums(p, messages, weights), pair_sums(p, slow_messages, weights)
    np.testing.assert_allclose(sums[0], expected[0], atol=2e-5)
    assert np.all(sums[1] >= expected[1] - 2e-5)
    assert sums[1].sum() <= 1.5 * expected[1].sum() + 1e-2
    if "huge" not in case:
        assert taus.mean() <= slow_taus.mean() + 0.03


@pytest.mark.parametrize("table_scale", [0.02, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("n_labels", [33, 60])
def test_tau_is_a_bound_and_near_the_exact_coefficient(n_labels, table_scale):
    rng = np.random.default_rng(n_labels)
    p = random_potentials(rng, n_labels, 1, joint=False, lengths=(1, 4, 12, 2))
    p.table[:] *= table_scale
    taus = run(p)[2]
    scores = np.ascontiguousarray(np.broadcast_to(p.scores, (n_labels, p.n_positions, n_labels)))
    pairs = posterior(Potentials(scores, p.table, p.offsets, 1)).marginals.transpose(1, 2, 0).astype(float)
    exact = np.array([tau_brute(pairs[t], p, 1) for t in range(p.n_positions)]).T
    exact[:, p.offsets[:-1]] = 0.0
    assert np.all(taus >= exact - 1e-4)
    assert np.all(taus <= 1.0 + 1e-6)
    later = np.setdiff1d(np.arange(p.n_positions), p.offsets[:-1])
    assert taus[:, later].mean() <= 2 * exact[:, later].mean() + 0.02


def test_tau_of_impossible_labels_does_not_count():
    """Half of the labels are impossible by their scores, and the transitions from them are the odd ones."""
    n_labels, half = 80, 40
    rng = np.random.default_rng(0)
    p = random_potentials(rng, n_labels, 1, joint=False, lengths=(6, 7), scale=0.1)
    p.table[:] *= 0.05
    p.table[1 + half :, half:] = -np.inf
    p.table[1 + half :, 0] = 30.0
    p.scores[half:] = -np.inf
    taus = run(p)[2]
    inner = Potentials(p.scores[:half].copy(), np.ascontiguousarray(p.table[: half + 1, :half]), p.offsets, 1)
    np.testing.assert_allclose(taus, run(inner)[2], atol=0.02)
    assert taus.max() < 0.3


@pytest.mark.usefixtures("every_size")
def test_what_is_lost_in_single_precision_is_done_again():
    """Left to right in one sequence, every step towards its only allowed labels costs 30; the other one is ordinary."""
    n_labels = 12
    scores = np.zeros((n_labels, 2 * n_labels, 1), np.float32)
    scores[1:, :n_labels] = -30.0
    scores[:, n_labels - 1] = -np.inf
    scores[-1, n_labels - 1] = 0.0
    table = np.full((n_labels + 1, n_labels), -np.inf)
    table[0, 0] = 0.0
    for k in range(n_labels):
        table[1 + k, k : k + 2] = 0.0
    p = Potentials(scores, table, np.array([0, n_labels, 2 * n_labels]), 1)
    marginals, log_z = np.full_like(scores, np.nan), np.full(2, np.nan)
    taus = np.full((2, 2 * n_labels), np.nan, np.float32)
    messages = posterior_chunk(p, 0, 2, marginals, log_z, tau_forward=taus[0], tau_backward=taus[1])
    assert messages.lost.tolist() == [True, False]
    np.testing.assert_array_equal(log_partition(p), log_z)
    np.testing.assert_allclose(log_z[0], -30.0 * (n_labels - 2))
    np.testing.assert_allclose(marginals[:, :n_labels, 0], np.eye(n_labels), atol=1e-6)
    assert np.all(np.isfinite(taus))
    steps = pair_sums(p, [messages], np.repeat([[1.0, 0.0]], n_labels, axis=1).repeat(2, axis=0))[0]
    np.testing.assert_allclose(steps[1:, 1:].diagonal(), np.ones(n_labels - 1), atol=1e-6)
    assert steps.sum() == pytest.approx(n_labels)


def test_any_number_of_threads_gives_the_same_bits():
    p = random_potentials(np.random.default_rng(2), 40, 1, joint=False, lengths=(1, 300, 20, 700) * 8)
    one, three = posterior(p, n_threads=1), posterior(p, n_threads=3)
    np.testing.assert_array_equal(one.marginals, three.marginals)
    np.testing.assert_array_equal(one.log_z, three.log_z)
