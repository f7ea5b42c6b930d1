"""Chains of seen contexts against enumeration of all labellings, and against the chain of all contexts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from seqboost.chain import (
    Potentials,
    SeenContexts,
    SeenPotentials,
    Sums,
    k_best,
    log_partition,
    log_probability,
    pair_sums_chunk,
    path_scores,
    posterior,
    posterior_chunk,
    seen_counts,
    seen_posterior_chunk,
    seen_steps,
    viterbi,
)
from seqboost.chain.reach import arc_reach, label_reach
from seqboost.chain.reference import SeenTwin, random_seen, reach_slow, seen_histories_slow
from seqboost.exceptions import InputError, ParameterError

SHAPES = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (3, 3), (3, 4), (4, 2)]
CASES = {
    "plain": {},
    "nothing seen": {"n_training": 1},
    "much seen": {"n_training": 60},
    "huge": {"scale": 1e4},
    "wide": {"table_scale": 60.0},
    "forbidden": {"forbidden": 0.5},
    "closed": {"closed": True},
    "huge_forbidden": {"scale": 1e4, "forbidden": 0.5, "closed": True},
    "spread_forbidden": {"scale": 40.0, "forbidden": 0.7},
}


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


def training_labels(rng, n_labels, hidden=0.0):
    offsets = np.append(0, np.cumsum(rng.integers(1, 9, 12))).astype(np.int64)
    labels = rng.integers(n_labels, size=offsets[-1]).astype(np.int32)
    labels[rng.random(offsets[-1]) < hidden] = -1
    return labels, offsets


@pytest.mark.parametrize("hidden", [0.0, 0.2])
@pytest.mark.parametrize("min_count", [1, 2, 4])
@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_states_and_arcs_are_what_followed_in_training(n_labels, order, min_count, hidden):
    rng = np.random.default_rng([n_labels, order, min_count])
    labels, offsets = training_labels(rng, n_labels, hidden)
    c = SeenContexts.from_labels(labels, offsets, n_labels, order, min_count=min_count)
    expected = seen_histories_slow(labels, offsets, n_labels, order, min_count)
    found = {c.history(s): set(c.arc_label[c.arc_start[s] : c.arc_start[s + 1]].tolist()) for s in range(c.n_states)}
    assert found == expected
    assert len(found) == c.n_states
    state = {c.history(s): s for s in range(c.n_states)}
    g = c.graph
    for history, s in state.items():
        assert g.backoff[s] == state[history[1:]]
        own = found[history]
        rest = g.rest_arc[g.rest_start[s] : g.rest_start[s + 1]]
        assert set(g.arc_label[rest].tolist()) == (found[history[1:]] - own if len(history) > 1 else set())
        for a in range(c.arc_start[s], c.arc_start[s + 1]):
            after = (*history, int(c.arc_label[a]))[-order:]
            while after not in state:
                after = after[1:]
            assert g.arc_to[a] == state[after]
            assert history == () or g.arc_label[g.arc_parent[a]] == c.arc_label[a]
            assert history == () or g.arc_parent[a] in range(*c.arc_start[g.backoff[s] : g.backoff[s] + 2])


@pytest.mark.parametrize("case", [*CASES, "masked", "huge_masked"])
@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_against_enumeration(n_labels, order, case):
    rng = np.random.default_rng([len(case), order, n_labels])
    options = CASES.get(case, {"scale": 1e4} if case == "huge_masked" else {})
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


@pytest.mark.parametrize("case", ["plain", "huge", "wide", "forbidden", "closed", "huge_forbidden"])
@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_best_labelling_and_scores_of_labellings(n_labels, order, case):
    rng = np.random.default_rng([7, len(case), order, n_labels])
    p = random_seen(rng, n_labels, order, lengths=(1, 3, 4), **CASES[case])
    twin = SeenTwin(p)
    every = [twin.paths(s)[:2] for s in range(p.n_sequences)]
    if any(score.max() == -np.inf for _, score in every):
        with pytest.raises(InputError, match="no labelling of sequence"):
            viterbi(p)
        return
    found = viterbi(p)
    for s, (paths, score) in enumerate(every):
        assert tuple(found.labels[p.offsets[s] : p.offsets[s + 1]]) == paths[int(np.argmax(score))]
        np.testing.assert_allclose(found.scores[s], score.max(), rtol=1e-9)
    drawn = [int(rng.integers(len(paths))) for paths, _ in every]
    labels = np.concatenate([paths[i] for i, (paths, _) in zip(drawn, every, strict=True)]).astype(np.int32)
    expected = np.array([score[i] for i, (_, score) in zip(drawn, every, strict=True)])
    np.testing.assert_allclose(path_scores(p, labels), expected, rtol=1e-9)
    np.testing.assert_allclose(log_probability(p, labels), expected - log_partition(p), rtol=1e-6, atol=1e-6)


def test_of_equally_good_labellings_the_lowest_wins():
    p = random_seen(np.random.default_rng(0), 3, 3, lengths=(6, 1), scale=0.0, table_scale=0.0)
    assert not viterbi(p).labels.any()


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


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_reach_is_the_sum_over_pairs_of_positions(n, order):
    rng = np.random.default_rng([n, order])
    tau = rng.random(n)
    tau[0] = 0.0
    reach = np.full((4, n + 2), np.nan)
    label_reach(tau, n, order, reach)
    right, left = reach_slow(tau.tolist(), order, arcs=False)
    np.testing.assert_allclose(reach[:2, :n], [right, left])
    right, left = reach_slow(tau.tolist(), order, arcs=True)
    np.testing.assert_allclose(arc_reach(n, order, reach), (1 + right + left).max())


@pytest.mark.parametrize("case", ["plain", "much seen", "forbidden", "sticky", "strong"])
@pytest.mark.parametrize(("n_labels", "order"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)])
def test_curvature_bounds_the_hessian(n_labels, order, case):
    """H <= D as matrices, H the covariance of indicators: of labels at positions, and of parameters."""
    rng = np.random.default_rng([n_labels, order, len(case)])
    options = {"sticky": {"table_scale": 3.0}, "strong": {"scale": 4.0}}.get(case) or CASES.get(case, {})
    p = random_seen(rng, n_labels, order, lengths=(6,), **options)
    if case == "sticky":
        for (history, k), arc in SeenTwin(p).arc.items():
            p.table[arc] += 4.0 * (history[-1:] == (k,))
        p = replace(p, table=p.table.copy())
    log_z, marginals, reach, sums = run_one(p)
    if log_z[0] == -np.inf:
        pytest.skip("no labelling is allowed")
    paths, score, counts = SeenTwin(p).paths(0)
    prob = np.exp(score - log_z[0])
    nodes = np.array([np.eye(n_labels)[list(path)].reshape(-1) for path in paths])  # (paths, T * K)
    gamma = 1.0 + reach.sum(axis=0)
    q = marginals[:, :, 0].T.astype(np.float64)
    bound = (2.0 * gamma[:, None] * q * (1 - q)).reshape(-1)
    assert np.linalg.eigvalsh(np.diag(bound) - covariance(nodes, prob)).min() > -1e-6
    features = counts.sum(axis=1)
    features[:, p.contexts.n_arcs] = 0.0
    assert np.linalg.eigvalsh(np.diag(sums.variance) - covariance(features, prob)).min() > -1e-6


def run_one(p):
    marginals, log_z = np.empty_like(p.scores), np.empty(1)
    reach = np.empty((2, p.n_positions), np.float32)
    sums = Sums(np.ones(1), np.zeros(p.contexts.n_parameters), np.zeros(p.contexts.n_parameters), True)
    seen_posterior_chunk(p, 0, 1, marginals, log_z, reach=reach, sums=sums)
    return log_z, marginals, reach, sums


def covariance(x, prob):
    mean = prob @ x
    return (x * prob[:, None]).T @ x - np.outer(mean, mean)


def test_observed_counts_are_those_of_the_labelled_path():
    rng = np.random.default_rng(3)
    p = random_seen(rng, 3, 3, lengths=(4, 1, 3))
    labels = rng.integers(3, size=8).astype(np.int32)
    weights = rng.random(8)
    found = seen_counts(p.contexts, seen_steps(p.contexts, labels, p.offsets), weights)
    expected = np.zeros(p.contexts.n_parameters)
    twin = SeenTwin(p)
    for s, begin in enumerate(p.offsets[:-1]):
        path = tuple(labels[begin : p.offsets[s + 1]].tolist())
        for t, k in enumerate(path):
            expected[twin.parameters(path[:t], k)] += weights[begin + t]
    np.testing.assert_allclose(found, expected)


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


def test_arrays_there_and_back():
    c = random_seen(np.random.default_rng(1), 4, 3, forbidden=0.3).contexts
    back = SeenContexts.from_arrays(c.to_arrays(), 4, 3)
    for name, array in c.graph._asdict().items():
        np.testing.assert_array_equal(getattr(back.graph, name), array, err_msg=name)
    np.testing.assert_array_equal(back.open, c.open)
    assert back.is_constrained


def forged(name, change):
    contexts = random_seen(np.random.default_rng(1), 3, 3).contexts
    arrays = {key: array.copy() for key, array in contexts.to_arrays().items()}
    arrays[name] = change(arrays[name])
    return arrays


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("prefix", lambda a: a.astype(np.int64), "prefix is of type int64"),
        ("prefix", put(-1, 10**6), "does not come after its beginning"),
        ("prefix", put(-1, -1), "does not come after its beginning"),
        ("prefix", put(-1, 0), "order of their lengths"),
        ("newest", put(1, 2), "single labels are not there"),
        ("newest", put(-1, 77), "not one start"),
        ("newest", put(-1, 3), "not one start"),
        ("newest", lambda a: a[:2], "single labels are not there"),
        ("arc_label", put(-1, 99), "labels of the arcs do not rise"),
        ("arc_label", put(0, 1), "arcs do not belong"),
        ("arc_label", lambda a: a[:-1], "arcs do not belong"),
        ("arc_start", put(2, 10**9), "arcs do not belong"),
        ("arc_start", lambda a: a[:-1], "arcs do not belong"),
        ("allowed", lambda a: a[:1], "allowed must have shape"),
    ],
)
def test_forged_arrays_are_refused(name, change, match):
    with pytest.raises(ParameterError, match=match):
        SeenContexts.from_arrays(forged(name, change), 3, 3)


def test_histories_without_their_parts_are_refused():
    # (0,1) is there but not the arc 0 -> 1 that leads to it
    arrays = {
        "prefix": np.array([0, 0, 0, 1, 0], np.int32),
        "newest": np.array([0, 0, 1, 1, 2], np.int32),
        "arc_start": np.array([0, 2, 2, 2, 2, 2]),
        "arc_label": np.array([0, 1], np.int32),
        "allowed": np.ones((3, 2), bool),
    }
    with pytest.raises(ParameterError, match="lacks the arc that leads to it"):
        SeenContexts.from_arrays(arrays, 2, 2)
    arrays |= {"arc_start": np.array([0, 2, 3, 3, 4, 4]), "arc_label": np.array([0, 1, 1, 0], np.int32)}
    with pytest.raises(ParameterError, match="no arc to back off to"):
        SeenContexts.from_arrays(arrays, 2, 2)
    twice = {"prefix": np.array([0, 0, 0, 1, 1, 0], np.int32), "newest": np.array([0, 0, 1, 1, 1, 2], np.int32)}
    with pytest.raises(ParameterError, match="stands there twice"):
        SeenContexts.from_arrays(arrays | twice, 2, 2)
    # (0,1,0) without (1,0)
    endless = {"prefix": np.array([0, 0, 0, 1, 3, 0], np.int32), "newest": np.array([0, 0, 1, 1, 0, 2], np.int32)}
    with pytest.raises(ParameterError, match=r"\(0, 1, 0\) is there without its end"):
        SeenContexts.from_arrays(arrays | endless, 2, 3)


def test_errors():
    p = random_seen(np.random.default_rng(0), 3, 2)
    with pytest.raises(ParameterError, match=r"scores must be a C-contiguous float32 array of shape \(3, 15, 1\)"):
        replace(p, scores=p.scores.astype(np.float64))
    with pytest.raises(ParameterError, match=r"table must hold \d+ finite numbers"):
        replace(p, table=p.table[:-1])
    with pytest.raises(ParameterError, match="finite numbers"):
        replace(p, table=p.table + np.inf)
    with pytest.raises(ParameterError, match=r"end must have shape \(3,\)"):
        replace(p, end=np.zeros(2))
    with pytest.raises(InputError, match="sequence 1 is empty"):
        replace(p, offsets=np.array([0, 5, 5, 15]))
    with pytest.raises(InputError, match="they begin at 1"):
        replace(p, offsets=np.array([1, 15]))
    with pytest.raises(ParameterError, match="k best labellings of a chain of seen contexts"):
        k_best(p, 2)
    with pytest.raises(ParameterError, match="no beam search, got beam=3"):
        posterior(p, beam=3)
    with pytest.raises(ParameterError, match="no beam search, got beam=3"):
        viterbi(p, beam=3)
    closed = replace(p, end=np.full(3, -np.inf))
    with pytest.raises(InputError, match="no labelling of sequence 0 .* is allowed"):
        posterior(closed)
