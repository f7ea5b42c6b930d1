"""Back-off chains against enumeration of all labellings, and against the chain of all contexts."""

import itertools

import numpy as np
import pytest

from seqboost.chain import (
    Potentials,
    SeenContexts,
    SeenPotentials,
    Sums,
    pair_sums_chunk,
    path_scores,
    posterior,
    posterior_chunk,
    seen_posterior_chunk,
    viterbi,
)
from seqboost.chain.reference import SeenTwin, random_seen
from tests.support.chains import SEEN_CASES, SEEN_SHAPES


def run(p, labels=None, weights=None, mixing=False):
    """Forward-backward in two chunks, into buffers poisoned with NaN."""
    marginals, log_z = np.full_like(p.scores, np.nan), np.full(p.n_sequences, np.nan)
    reach = np.full((2, p.n_positions), np.nan, np.float32)
    weights = np.ones(p.n_sequences) if weights is None else weights
    sums = Sums(weights, np.zeros(p.contexts.n_parameters), np.zeros(p.contexts.n_parameters), mixing)
    half = p.n_sequences // 2
    for first, last in [(0, half), (half, p.n_sequences)]:
        seen_posterior_chunk(p, first, last, marginals, log_z, labels=labels, reach=reach, sums=sums)
    return log_z, marginals, reach, sums


@pytest.mark.parametrize("case", [*SEEN_CASES, "masked", "huge_masked"])
@pytest.mark.parametrize(("n_labels", "order"), SEEN_SHAPES)
def test_against_enumeration(n_labels, order, case):
    rng = np.random.default_rng([len(case), order, n_labels])
    options = SEEN_CASES.get(case, {"scale": 1e4} if case == "huge_masked" else {})
    p = random_seen(rng, n_labels, order, **options)
    labels = rng.integers(-1, n_labels, p.n_positions).astype(np.int32) if "masked" in case else None
    weights = np.array([1.0, 0.0, 2.0, 0.5, 3.0])
    log_z, marginals, _, sums = run(p, labels, weights)
    twin = SeenTwin(p)
    mean, variance = np.zeros((2, p.contexts.n_parameters))
    for s in range(p.n_sequences):
        expected_log_z, node, counts = twin.posterior(s, labels)
        np.testing.assert_allclose(log_z[s], expected_log_z, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(marginals[:, p.offsets[s] : p.offsets[s + 1], 0], node, atol=1e-6)
        mean += weights[s] * counts.sum(axis=0)
        variance += weights[s] * (counts * (1 - counts)).sum(axis=0)
    mean[p.contexts.n_arcs] = variance[p.contexts.n_arcs] = 0.0  # β(ε) is no parameter
    np.testing.assert_allclose(sums.mean, mean, atol=1e-7)
    np.testing.assert_allclose(sums.variance, variance, atol=1e-7)


@pytest.mark.parametrize(("n_labels", "order"), [(1, 2), (2, 1), (2, 3), (3, 1), (3, 2)])
def test_if_all_contexts_were_seen_it_is_the_chain_of_all_contexts(n_labels, order):
    rng = np.random.default_rng([n_labels, order])
    every = np.array(list(itertools.product(range(n_labels), repeat=order + 1)), np.int32)
    starts = np.arange(0, every.size + 1, order + 1)
    contexts = SeenContexts.from_labels(every.reshape(-1), starts, n_labels, order)
    offsets = np.array([0, 1, 6, 8, 15])
    scores = rng.normal(size=(n_labels, 15, 1)).astype(np.float32)
    table = rng.normal(size=contexts.n_parameters)
    seen = SeenPotentials(scores, table, offsets, contexts)
    twin = SeenTwin(seen)
    dense = np.zeros((sum(n_labels**j for j in range(order + 1)), n_labels))
    place = {}
    dense_space = Potentials(scores, dense, offsets, order).space
    for length in range(order + 1):
        for before in itertools.product(range(n_labels), repeat=length):
            row = int(dense_space.base[length]) + dense_space.context_of(before, length)
            # a full context may stand anywhere: lengthen it, so that it does not begin with ⊥
            somewhere = before if length < order else (0, *before)
            for k in range(n_labels):
                entries = twin.parameters(somewhere, k)
                dense[row, k] = table[entries].sum()
                place[row, k] = entries[0]
    every_context = Potentials(scores, dense, offsets, order)
    a, b = posterior(seen), posterior(every_context)
    np.testing.assert_allclose(a.log_z, b.log_z, rtol=1e-6, atol=1e-6)  # dense ones are in single precision
    np.testing.assert_allclose(a.node_marginals(), b.node_marginals(), atol=1e-6)
    np.testing.assert_array_equal(viterbi(seen).labels, viterbi(every_context).labels)
    if n_labels > 1:
        marginals, log_z = np.empty_like(scores), np.empty(4)
        messages = posterior_chunk(every_context, 0, 4, marginals, log_z)
        mean, variance = np.zeros((2, *dense.shape))
        pair_sums_chunk(every_context, messages, np.ones(15), np.ones(15), mean, variance)
        sums = run(seen)[3]
        for (row, k), entry in place.items():
            np.testing.assert_allclose(sums.mean[entry], mean[row, k], atol=1e-6)
            np.testing.assert_allclose(sums.variance[entry], variance[row, k], atol=1e-6)


def test_threads_change_nothing():
    rng = np.random.default_rng(5)
    p = random_seen(rng, 4, 3, lengths=tuple(rng.integers(1, 9, 400)))
    one, many = posterior(p, n_threads=1), posterior(p, n_threads=3)
    assert np.array_equal(one.log_z, many.log_z)
    assert np.array_equal(one.marginals, many.marginals)
    assert np.array_equal(viterbi(p).labels, viterbi(p, n_threads=3).labels)


def test_long_sequences_neither_overflow_nor_underflow():
    rng = np.random.default_rng(6)
    p = random_seen(rng, 3, 2, lengths=(3000,), scale=5.0)
    found = posterior(p)
    assert np.isfinite(found.log_z).all()
    np.testing.assert_allclose(found.node_marginals().sum(axis=1), 1.0, atol=1e-6)
    best = viterbi(p)
    assert best.scores[0] < found.log_z[0]
    np.testing.assert_allclose(path_scores(p, best.labels), best.scores)
