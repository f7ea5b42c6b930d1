"""Viterbi, n best, given labellings: against enumeration of all labellings."""

import numpy as np
import pytest

from seqboost.chain import (
    Potentials,
    k_best,
    log_partition,
    log_probability,
    path_scores,
    posterior,
    viterbi,
)
from seqboost.chain.reference import enumerate_paths, random_potentials, viterbi_slow
from seqboost.exceptions import InputError, ParameterError

SHAPES = [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (2, 4), (3, 0), (3, 1), (3, 2), (4, 1), (4, 2)]
CASES = {"plain": {}, "huge": {"scale": 1e4}, "forbidden": {"forbidden": 0.2}, "closed": {"closed": True}}
both = pytest.mark.parametrize("joint", [True, False])


def possible(p):
    """Chains with at least one labelling each: random constraints may leave none."""
    keep = [s for s in range(p.n_sequences) if viterbi_slow(p, s)[1] > -np.inf]
    rows = np.concatenate([np.arange(p.offsets[s], p.offsets[s + 1]) for s in keep])
    offsets = np.concatenate([[0], np.cumsum([p.offsets[s + 1] - p.offsets[s] for s in keep])])
    return Potentials(np.ascontiguousarray(p.scores[:, rows]), p.table, offsets, p.order, p.end)


@both
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("n_labels", "order"), SHAPES)
def test_viterbi_and_k_best_against_enumeration(n_labels, order, case, joint):
    rng = np.random.default_rng(order + 7 * n_labels)
    p = possible(random_potentials(rng, n_labels, order, joint=joint, **CASES[case]))
    best = viterbi(p)
    lists = k_best(p, 7)
    for s in range(p.n_sequences):
        rows = slice(p.offsets[s], p.offsets[s + 1])
        expected = sorted((item for item in enumerate_paths(p, s) if item[1] > -np.inf), key=lambda item: -item[1])[:7]
        assert tuple(best.labels[rows]) == expected[0][0]
        np.testing.assert_allclose(best.scores[s], expected[0][1], rtol=1e-9)
        labels, scores = lists[s]
        assert len(labels) == len(scores) == len(expected)
        np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-9, atol=1e-9)
        assert len({tuple(path) for path in labels}) == len(labels)
        if case != "huge":
            assert [tuple(path) for path in labels] == [path for path, _ in expected]


@both
@pytest.mark.parametrize("order", [0, 1, 2])
def test_ties_go_to_the_lowest_label(order, joint):
    p = random_potentials(np.random.default_rng(0), 3, order, joint=joint, scale=0.0)
    p.table[:] = 0.0
    assert not viterbi(p).labels.any()
    labels, _ = k_best(p, 4)[1]
    assert labels.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0]]
    p.table[:, 0] = -1.0
    assert set(viterbi(p).labels) == {1}


@both
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_probabilities_of_all_labellings_sum_to_one(order, joint):
    p = random_potentials(np.random.default_rng(4), 3, order, joint=joint, lengths=(4, 4))
    total = np.zeros(2)
    for (path_a, score_a), (path_b, score_b) in zip(enumerate_paths(p, 0), enumerate_paths(p, 1), strict=True):
        labels = np.array(path_a + path_b, np.int32)
        np.testing.assert_allclose(path_scores(p, labels), [score_a, score_b], rtol=1e-9, atol=1e-9)
        total += np.exp(log_probability(p, labels)) if path_a[0] == 0 else np.exp(path_scores(p, labels) - log_z(p))
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


def log_z(p):
    """Log Z without the marginals' company."""
    return log_partition(p)


@both
def test_fully_observed_labels_are_a_path(joint):
    rng = np.random.default_rng(9)
    p = random_potentials(rng, 3, 2, joint=joint, lengths=(50, 1, 7))
    labels = rng.integers(0, 3, p.n_positions).astype(np.int32)
    clamped = posterior(p, labels=labels)
    np.testing.assert_allclose(clamped.log_z, path_scores(p, labels), rtol=1e-6, atol=1e-5)
    np.testing.assert_array_equal(clamped.decode(), labels)
    nobody = np.full(p.n_positions, -1, np.int32)
    np.testing.assert_allclose(posterior(p, labels=nobody).log_z, posterior(p).log_z, rtol=1e-7)


def test_long_sequence():
    p = random_potentials(np.random.default_rng(0), 3, 1, lengths=(200_000,))
    best = viterbi(p)
    np.testing.assert_allclose(path_scores(p, best.labels), best.scores, rtol=1e-9)
    assert best.scores[0] <= log_partition(p)[0]


@both
def test_threads(joint):
    p = random_potentials(np.random.default_rng(2), 3, 1, joint=joint, lengths=(700,) * 20)
    np.testing.assert_array_equal(viterbi(p, n_threads=1).labels, viterbi(p, n_threads=3).labels)
    labels = viterbi(p).labels
    np.testing.assert_array_equal(path_scores(p, labels), path_scores(p, labels, n_threads=2))


def test_errors_name_the_place():
    p = random_potentials(np.random.default_rng(5), 2, 1, lengths=(2, 3))
    with pytest.raises(ParameterError, match="k must be 1 or more, got 0"):
        k_best(p, 0)
    with pytest.raises(InputError, match="one label for each of 5 positions"):
        path_scores(p, np.zeros(4, np.int32))
    with pytest.raises(InputError, match=r"codes 0\.\.1, got 2 in sequence 1 at position 1"):
        path_scores(p, np.array([0, 0, 0, 2, 0], np.int32))
    p.table[1:] = -np.inf
    for search in (viterbi, lambda q: k_best(q, 2)):
        with pytest.raises(InputError, match="no labelling of sequence 0"):
            search(p)
