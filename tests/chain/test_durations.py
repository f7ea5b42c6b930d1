"""Chains with minimum durations against enumeration and against the chain of states written out."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.chains import CASES

from seqboost.chain import (
    DurationPotentials,
    Potentials,
    duration_pair_runs,
    k_best,
    log_partition,
    log_probability,
    path_scores,
    posterior,
    short_run,
    viterbi,
)
from seqboost.chain.durations import forward_backward
from seqboost.chain.reference import duration_paths, expanded, random_potentials, tau_brute
from seqboost.exceptions import InputError, ParameterError

DURATIONS = [(1, 1), (3, 1), (2, 2), (1, 1, 1), (2, 1, 3), (3, 3, 3), (9, 2, 1)]
LENGTHS = (1, 3, 2, 7, 5)


def random_case(durations, joint, seed=0, lengths=LENGTHS, **kind):
    rng = np.random.default_rng([seed, joint, *durations])
    p = random_potentials(rng, len(durations), 1, joint=joint, lengths=lengths, **kind)
    return DurationPotentials(p.scores, p.table, p.offsets, 1, p.end, np.array(durations))


def pairs_of(p, s, paths):
    """Return log Z and P(y_{t-1}=j, y_t=k), (T, K, K), at the first position in row 0."""
    scores, length = np.array([score for _, score in paths] or [-np.inf]), int(np.diff(p.offsets)[s])
    pair, highest = np.zeros((length, p.n_labels, p.n_labels)), scores.max()
    if highest == -np.inf:
        return -np.inf, pair
    log_z = highest + np.log(np.exp(scores - highest).sum())
    for path, score in paths:
        for t, k in enumerate(path):
            pair[t, path[t - 1] if t else 0, k] += np.exp(score - log_z)
    return log_z, pair


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", list(CASES))
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("durations", DURATIONS)
def test_marginals_are_those_of_enumeration(durations, joint, kind, masked):
    p = random_case(durations, joint, **CASES[kind])
    rng = np.random.default_rng(1)
    labels = None
    if masked:
        labels = np.where(rng.random(p.n_positions) < 0.3, rng.integers(0, p.n_labels, p.n_positions), -1)
        labels = labels.astype(np.int32)
    marginals, log_z = np.full_like(p.scores, np.nan), np.full(p.n_sequences, np.nan)
    taus = np.full((2, p.n_positions), np.nan, np.float32)
    for a, b in ((0, 2), (2, p.n_sequences)):
        for first, last, pairs in duration_pair_runs(p, a, b, marginals, log_z, labels=labels, taus=taus):
            assert pairs.shape == (p.n_labels, p.offsets[last] - p.offsets[first], p.n_labels)
    for s in range(p.n_sequences):
        expected, pair = pairs_of(p, s, duration_paths(p, s, labels))
        rows = slice(p.offsets[s], p.offsets[s + 1])
        assert log_z[s] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        found = marginals[:, rows].transpose(1, 2, 0)
        np.testing.assert_allclose(found, pair if joint else pair.sum(axis=1, keepdims=True), atol=1e-6)
        for t in range(1, len(pair)):
            forward, backward = tau_brute(pair[t], Potentials(p.scores, p.table, p.offsets, 1), t)
            assert taus[0, rows][t] == pytest.approx(forward, abs=1e-4)
            assert taus[1, rows][t] == pytest.approx(backward, abs=1e-4)
    alone = log_partition(p, labels=labels, allow_impossible=True)
    np.testing.assert_array_equal(alone, log_z)


@pytest.mark.parametrize("joint", [True, False])
def test_long_runs_are_those_of_the_states_written_out(joint):
    durations = (12, 1, 7, 30)
    p = random_case(durations, joint, lengths=(90, 1, 11, 60), scale=0.7)
    chain, label = expanded(p)
    assert chain.n_labels == sum(durations)
    slow, fast = posterior(chain), posterior(p)
    np.testing.assert_allclose(fast.log_z, slow.log_z, rtol=1e-6)
    states = slow.node_marginals()
    expected = np.stack([states[:, label == k].sum(axis=1) for k in range(4)], axis=1)
    np.testing.assert_allclose(fast.node_marginals(), expected, atol=2e-6)
    np.testing.assert_array_equal(viterbi(p).labels, label[viterbi(chain).labels])
    for (ours, our_scores), (theirs, their_scores) in zip(k_best(p, 7), k_best(chain, 7), strict=True):
        np.testing.assert_allclose(our_scores, their_scores, rtol=1e-9)
        np.testing.assert_array_equal(ours, label[theirs])


@pytest.mark.parametrize("kind", list(CASES))
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("durations", DURATIONS)
def test_best_labellings_are_those_of_enumeration(durations, joint, kind):
    p = random_case(durations, joint, lengths=(1, 3, 2, 6, 5), **CASES[kind])
    listed = [[(path, score) for path, score in duration_paths(p, s) if score > -np.inf] for s in range(p.n_sequences)]
    if not all(listed):
        with pytest.raises(InputError, match="relax the constraints on durations, transitions, start or end"):
            viterbi(p)
        with pytest.raises(InputError, match="relax the constraints on durations"):
            k_best(p, 3)
        return
    best, several = viterbi(p), k_best(p, 12)
    for s, paths in enumerate(listed):
        highest = sorted((score for _, score in paths), reverse=True)
        assert best.scores[s] == pytest.approx(highest[0], rel=1e-9)
        found = {tuple(path) for path in several[s][0]}
        assert len(found) == len(several[s][0]) == min(12, len(paths))
        assert tuple(best.labels[p.offsets[s] : p.offsets[s + 1]]) == tuple(several[s][0][0])
        np.testing.assert_allclose(several[s][1], highest[:12], rtol=1e-9, atol=1e-9)
        scores = dict(paths)
        np.testing.assert_allclose([scores[tuple(path)] for path in several[s][0]], several[s][1], rtol=1e-9, atol=1e-9)


def test_of_equal_labellings_the_lowest_wins():
    p = DurationPotentials(np.zeros((2, 5, 1), np.float32), np.zeros((3, 2)), np.array([0, 5]), 1, durations=np.ones(2))
    assert viterbi(p).labels.tolist() == [0] * 5
    paths, scores = k_best(p, 40)[0]
    assert [tuple(path) for path in paths] == sorted(tuple(path) for path in paths)
    assert len(paths) == 32
    assert not scores.any()


def test_first_and_last_run_may_be_shorter():
    p = DurationPotentials(np.zeros((2, 5, 1), np.float32), np.zeros((3, 2)), np.array([0, 5]), 1, durations=[3, 3])
    short = [path for path, _ in duration_paths(p, 0)]
    assert {(0, 1, 1, 1, 0), (0, 0, 0, 0, 1)} < set(short)
    assert (0, 0, 1, 1, 0) not in short
    assert np.exp(log_partition(p)[0]) == pytest.approx(len(short))


def test_scores_of_given_labellings():
    p = random_case((2, 1, 3), True, lengths=(7, 6))
    for path, score in duration_paths(p, 0)[::97]:
        labels = np.array([*path, 0, 0, 0, 0, 0, 0], np.int32)
        assert path_scores(p, labels)[0] == pytest.approx(score)
        assert log_probability(p, labels)[0] == pytest.approx(score - log_partition(p)[0])
    labels = np.array([1, 0, 1, 1, 1, 1, 1, *[2] * 6], np.int32)  # one 0 is too few
    assert path_scores(p, labels)[0] == -np.inf


@pytest.mark.parametrize("joint", [True, False])
def test_durations_of_one_change_nothing(joint):
    p = random_case((1, 1, 1), joint, lengths=(40, 1, 300))
    plain = Potentials(p.scores, p.table, p.offsets, 1, p.end)
    np.testing.assert_allclose(posterior(p).marginals, posterior(plain).marginals, atol=1e-6)
    np.testing.assert_array_equal(viterbi(p).labels, viterbi(plain).labels)


def test_runs_of_sequences_and_threads_do_not_matter(monkeypatch):
    p = random_case((4, 2, 9), True, lengths=tuple(np.random.default_rng(2).integers(1, 60, 300)))
    once = posterior(p)
    monkeypatch.setattr(forward_backward, "RUN_CELLS", 100)
    np.testing.assert_array_equal(posterior(p, n_threads=3).marginals, once.marginals)


def test_mass_is_kept_along_a_long_sequence():
    p = random_case((50, 20), False, lengths=(200_000,), scale=0.3)
    prob = posterior(p).node_marginals()
    np.testing.assert_allclose(prob.sum(axis=1), 1.0, atol=1e-6)


def test_short_run_finds_the_first_one_between_observed_labels():
    offsets, durations = np.array([0, 4, 10]), np.array([2, 3])
    assert short_run(np.array([1, 0, 0, 1, 0, 1, 1, 1, 0, 0]), offsets, durations) is None
    assert short_run(np.array([1, 0, 1, 1, 0, 1, 1, 1, 0, 0]), offsets, durations) == (1, 1)
    assert short_run(np.array([1, 0, 0, 1, 0, 1, 1, 0, 0, 0]), offsets, durations) == (5, 2)
    assert short_run(np.array([1, 0, -1, 1, 0, 1, 1, -1, 0, 0]), offsets, durations) is None


def test_bad_durations_and_beams():
    scores, table, offsets = np.zeros((2, 3, 1), np.float32), np.zeros((3, 2)), np.array([0, 3])
    for durations in ([1], [1, 0], [1, 2, 3]):
        with pytest.raises(ParameterError, match="durations must be 2 whole numbers of 1 or more, got"):
            DurationPotentials(scores, table, offsets, 1, durations=np.array(durations))
    with pytest.raises(ParameterError, match="need a chain of order 1, got order 0"):
        DurationPotentials(scores, table[:1], offsets, 0, durations=np.array([1, 1]))
    p = DurationPotentials(scores, table, offsets, 1, durations=np.array([2, 1]))
    for call in (posterior, viterbi, log_partition):
        with pytest.raises(ParameterError, match=re.escape("(min_duration) have no beam search, got beam=1")):
            call(p, beam=1)
