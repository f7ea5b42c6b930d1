"""Log Z, marginals and contraction coefficients against enumeration of all labellings."""

import numpy as np
import pytest

from seqboost.chain import Potentials, posterior
from seqboost.chain.reference import log_partition_slow, pair_marginals_brute, random_potentials, tau_brute
from seqboost.core.offsets import sequence_chunks
from seqboost.exceptions import InputError
from tests.support.chains import CASES, run

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
