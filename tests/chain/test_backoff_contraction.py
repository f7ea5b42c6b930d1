"""Contraction coefficients of back-off chains, and the curvature they bound."""

from dataclasses import replace

import numpy as np
import pytest

from seqboost.chain import Sums, seen_posterior_chunk
from seqboost.chain.backoff.contraction import arc_reach, label_reach
from seqboost.chain.reference import SeenTwin, random_seen, reach_slow
from tests.support.chains import SEEN_CASES


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
    options = {"sticky": {"table_scale": 3.0}, "strong": {"scale": 4.0}}.get(case) or SEEN_CASES.get(case, {})
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
