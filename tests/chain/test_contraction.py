"""Contraction coefficients against those of pair marginals by enumeration."""

import numpy as np
import pytest

from seqboost.chain import Potentials
from seqboost.chain.reference import pair_marginals_brute, random_potentials, tau_brute
from tests.support.chains import run


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
