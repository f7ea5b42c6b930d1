"""Log Z, marginals, pair sums and contraction coefficients against enumeration of all labellings."""

import numpy as np
import pytest
from chain_cases import CASES, run

from seqboost.chain import Potentials, log_partition, pair_sums_chunk, posterior
from seqboost.chain.reference import log_partition_slow, pair_marginals_brute, random_potentials, tau_brute
from seqboost.core.offsets import sequence_chunks
from seqboost.exceptions import InputError, ParameterError

SHAPES = [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (2, 4), (3, 0), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2)]


def in_layout(p, pair):
    """Pair marginals (T, C, K) in the layout of the scores."""
    marginals = pair.transpose(2, 0, 1)
    return marginals if p.joint else marginals.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("case", [*CASES, "masked", "huge_masked"])
@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_against_enumeration(n_labels, order, case, joint):
    rng = np.random.default_rng(len(case) + 10 * order + n_labels)
    options = CASES.get(case, {"scale": 1e4} if case == "huge_masked" else {})
    p = random_potentials(rng, n_labels, order, joint=joint, **options)
    labels = rng.integers(-1, n_labels, p.n_positions).astype(np.int32) if "masked" in case else None
    log_z, marginals, taus, _ = run(p, labels)
    for s in range(p.n_sequences):
        rows = slice(p.offsets[s], p.offsets[s + 1])
        expected_log_z, pair = pair_marginals_brute(p, s, labels)
        np.testing.assert_allclose(log_z[s], expected_log_z, rtol=1e-6, atol=2e-6)
        np.testing.assert_allclose(marginals[:, rows], in_layout(p, pair), atol=2e-6)
        if "huge" not in case:
            expected = np.array([tau_brute(pair[t], p, t) for t in range(len(pair))]).T
            np.testing.assert_allclose(taus[:, rows], expected, atol=2e-4)


@pytest.mark.parametrize("case", [*CASES, "masked"])
@pytest.mark.parametrize(("n_labels", "order"), [(1, 1), (2, 1), (3, 1), (2, 3), (3, 2)])
def test_pair_sums(n_labels, order, case):
    rng = np.random.default_rng(order + 5 * n_labels)
    p = random_potentials(rng, n_labels, order, joint=False, **CASES.get(case, {}))
    if p.joint:
        return
    labels = rng.integers(-1, n_labels, p.n_positions).astype(np.int32) if case == "masked" else None
    messages = run(p, labels)[3]
    weights = rng.random((2, p.n_positions))
    sums = np.zeros((2, *p.table.shape))
    for message in messages:
        pair_sums_chunk(p, message, weights[0], weights[1], sums[0], sums[1])
    expected = np.zeros_like(sums)
    for s in range(p.n_sequences):
        pair = pair_marginals_brute(p, s, labels)[1]
        for t in range(len(pair)):
            prob = pair[t, : p.space.n_existing(t)]
            rows = p.space.base[p.space.type_of(t)] + np.arange(len(prob))
            expected[0][rows] += weights[0, p.offsets[s] + t] * prob
            expected[1][rows] += weights[1, p.offsets[s] + t] * prob * (1 - prob)
    np.testing.assert_allclose(sums, expected, atol=2e-6)


def test_tau_of_many_labels_in_log_space_is_a_bound():
    p = random_potentials(np.random.default_rng(5), 9, 1, joint=False, lengths=(4, 3, 4))
    p.scores[:, 4:7] *= 200
    _, _, taus, messages = run(p)
    assert [flag for message in messages for flag in message.in_logs] == [False, True, False]
    for s in range(3):
        _, pair = pair_marginals_brute(p, s)
        for t in range(len(pair)):
            exact = np.array(tau_brute(pair[t], p, t))
            found = taus[:, p.offsets[s] + t]
            assert np.all(found >= exact - 1e-4)
            assert np.all(found <= 1.0 + 1e-6)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(("n_labels", "order"), [(5, 1), (6, 1), (7, 1), (9, 1), (12, 1), (20, 1), (5, 2), (9, 2)])
def test_tau_is_exact_for_few_labels_and_bounds_for_many(n_labels, order, joint):
    rng = np.random.default_rng(n_labels)
    p = random_potentials(rng, n_labels, order, joint=joint, lengths=(4, 6), scale=0.7)
    _, marginals, taus, _ = run(p)
    if joint:
        pairs = marginals.transpose(1, 2, 0)
    else:  # the joint model with the same scores has the same posterior, and shows it in full
        scores = np.ascontiguousarray(np.broadcast_to(p.scores, (n_labels, p.n_positions, p.space.n_contexts)))
        pairs = run(Potentials(scores, p.table, p.offsets, p.order))[1].transpose(1, 2, 0)
    for s in range(2):
        for t in range(p.offsets[s], p.offsets[s + 1]):
            exact = np.array(tau_brute(pairs[t].astype(float), p, t - p.offsets[s]))
            if n_labels <= 8 and p.space.n_contexts <= 16:
                np.testing.assert_allclose(taus[:, t], exact, atol=1e-5)
            else:
                assert np.all(taus[:, t] >= exact - 1e-5)
                assert np.all(taus[:, t] <= 1.0)
    assert taus.mean() < 0.95


@pytest.mark.parametrize("order", [1, 2])
def test_joint_and_factored_agree(order):
    rng = np.random.default_rng(3)
    p = random_potentials(rng, 11, order, joint=False, lengths=(1, 7, 3), forbidden=0.1)
    scores = np.ascontiguousarray(np.broadcast_to(p.scores, (11, p.n_positions, p.space.n_contexts)))
    wide = Potentials(scores, p.table, p.offsets, p.order)
    log_z, nodes, _, _ = run(p)
    wide_log_z, pairs, _, _ = run(wide)
    np.testing.assert_allclose(log_z, wide_log_z, atol=2e-6)
    np.testing.assert_allclose(nodes[:, :, 0], pairs.sum(axis=2), atol=2e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_edge_marginals_agree_with_node_marginals(order):
    p = random_potentials(np.random.default_rng(1), 3, order, lengths=(30, 1, 12))
    pairs = posterior(p).marginals.astype(float)
    np.testing.assert_allclose(pairs.sum(axis=(0, 2)), 1.0, atol=1e-5)
    newest = np.arange(p.space.n_contexts) % 3
    for t in set(range(p.n_positions)) - set(p.offsets):
        before = pairs[:, t - 1].sum(axis=1)
        again = np.bincount(newest, pairs[:, t].sum(axis=0), minlength=3)
        np.testing.assert_allclose(again, before, atol=1e-5)


def test_opposing_neighbours_with_forbidden_transitions():
    """Staying is forced, but scores of +-1e4 push each position the other way: nothing may be lost."""
    scores = np.zeros((2, 6, 2), np.float32)
    scores[0, ::2], scores[1, 1::2] = 1e4, 1e4
    table = np.zeros((3, 2))
    table[1, 1] = table[2, 0] = -np.inf
    for slots in (2, 1):
        p = Potentials(np.ascontiguousarray(scores[:, :, :slots]), table, np.array([0, 6]), 1)
        answer = posterior(p)
        np.testing.assert_allclose(answer.log_z, 3e4 + np.log(2.0))
        np.testing.assert_allclose(answer.node_marginals(), 0.5, atol=1e-6)


@pytest.mark.parametrize("joint", [True, False])
def test_messages_that_would_underflow(joint):
    """Left-to-right chain in which every step towards the only allowed end costs 75: below 1e-200 after a few."""
    n_labels = 12
    slots = n_labels if joint else 1
    scores = np.zeros((n_labels, n_labels, slots), np.float32)
    for k in range(n_labels):
        scores[k] = -75.0 if k else 0.0
    table = np.full((n_labels + 1, n_labels), -np.inf)
    table[0, 0] = 0.0
    for k in range(n_labels):
        table[1 + k, k : k + 2] = 0.0
    end = np.full(n_labels, -np.inf)
    end[-1] = 0.0
    p = Potentials(scores, table, np.array([0, n_labels]), 1, end)
    answer = posterior(p)
    np.testing.assert_allclose(answer.log_z, -75.0 * (n_labels - 1))
    np.testing.assert_allclose(answer.node_marginals(), np.eye(n_labels), atol=1e-6)


def test_long_sequence():
    rng = np.random.default_rng(0)
    p = random_potentials(rng, 3, 1, lengths=(1_000_000,))
    answer = posterior(p)
    np.testing.assert_allclose(answer.marginals.sum(axis=(0, 2)), 1.0, atol=1e-5)
    head = Potentials(p.scores[:, :2000].copy(), p.table, np.array([0, 2000]), 1)
    np.testing.assert_allclose(answer.marginals[:, :1900], posterior(head).marginals[:, :1900], atol=1e-5)
    np.testing.assert_allclose(posterior(head).log_z, log_partition_slow(head, 0), rtol=1e-7)
    assert np.isfinite(answer.log_z).all()


@pytest.mark.parametrize("joint", [True, False])
def test_any_number_of_threads_gives_the_same_bits(joint):
    p = random_potentials(np.random.default_rng(2), 3, 1, joint=joint, lengths=(700,) * 30)
    assert len(sequence_chunks(p.offsets)) > 2
    one, three = posterior(p, n_threads=1), posterior(p, n_threads=3)
    np.testing.assert_array_equal(one.marginals, three.marginals)
    np.testing.assert_array_equal(one.log_z, three.log_z)


def test_an_impossible_sequence_is_named():
    p = random_potentials(np.random.default_rng(2), 2, 1, lengths=(3, 1, 2))
    table = p.table.copy()
    table[1:] = -np.inf
    for scores in (p.scores, p.scores[:, :, :1].copy()):
        for offsets in ([0, 1, 4, 6], [0, 1, 2, 6]):
            impossible = Potentials(scores, table, np.array(offsets), 1)
            s = 1 if offsets[2] == 4 else 2
            with pytest.raises(InputError, match=rf"no labelling of sequence {s} \(length {3 if s == 1 else 4}\)"):
                posterior(impossible)


def test_beam():
    p = random_potentials(np.random.default_rng(5), 3, 2, lengths=(1, 8, 20), forbidden=0.1)
    exact = posterior(p)
    same = posterior(p, beam=9)
    np.testing.assert_array_equal(same.marginals, exact.marginals)
    for joint in (True, False):
        q = random_potentials(np.random.default_rng(6), 3, 2, joint=joint, lengths=(1, 8, 20), forbidden=0.1)
        errors = []
        for beam in (2, 5, 8):
            answer = posterior(q, beam=beam)
            assert np.all(answer.log_z <= posterior(q).log_z + 1e-5)
            np.testing.assert_allclose(answer.marginals.sum(axis=(0, 2)), 1.0, atol=1e-4)
            errors.append(np.abs(answer.marginals - posterior(q).marginals).max())
        assert errors[-1] < 0.1
        assert errors[-1] <= errors[0]


def test_beam_that_holds_all_possible_contexts_is_exact():
    """Only two of three labels are allowed, so two contexts are all there is."""
    p = random_potentials(np.random.default_rng(8), 3, 1, lengths=(5, 9), scale=2.0)
    p.table[:, 2] = -np.inf
    for q in (p, Potentials(p.scores[:, :, :1].copy(), p.table, p.offsets, 1)):
        q.scores[np.isnan(q.scores)] = 0.0
        np.testing.assert_allclose(posterior(q, beam=2).marginals, posterior(q).marginals, atol=2e-6)
        np.testing.assert_allclose(log_partition(q, beam=2), log_partition(q), rtol=1e-6)


def test_beam_is_checked():
    p = random_potentials(np.random.default_rng(5), 3, 1)
    with pytest.raises(ParameterError, match="beam must be 1 or more .* got 0"):
        posterior(p, beam=0)
    with pytest.raises(ParameterError, match="cannot be combined with observed labels"):
        posterior(p, beam=1, labels=np.full(p.n_positions, -1, np.int32))
    p.table[1, 0] = p.table[2:, 1:] = -np.inf
    p.table[0] = [3.0, 0.0, -np.inf]
    p.table[1] = -np.inf
    with pytest.raises(InputError, match="widen the beam"):
        posterior(p, beam=1)
