"""Beam search: exact where it holds all contexts, near otherwise."""

import numpy as np
import pytest

from seqboost.chain import Potentials, log_partition, path_scores, posterior, viterbi
from seqboost.chain.reference import random_potentials
from seqboost.exceptions import InputError, ParameterError


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


@pytest.mark.parametrize("joint", [True, False])
def test_viterbi(joint):
    p = random_potentials(np.random.default_rng(5), 3, 2, joint=joint, lengths=(1, 8, 20))
    exact = viterbi(p)
    np.testing.assert_array_equal(viterbi(p, beam=9).labels, exact.labels)
    previous = np.full(3, -np.inf)
    for beam in (1, 8):
        found = viterbi(p, beam=beam)
        np.testing.assert_allclose(path_scores(p, found.labels), found.scores, rtol=1e-6)
        assert np.all(found.scores <= exact.scores + 1e-9)
        assert np.all(found.scores >= previous - 1e-9)
        previous = found.scores
    np.testing.assert_array_equal(viterbi(p, beam=8).labels, exact.labels)
