"""Sums of pair marginals over positions against enumeration."""

import numpy as np
import pytest

from seqboost.chain import pair_sums_chunk
from seqboost.chain.reference import pair_marginals_brute, random_potentials
from tests.support.chains import CASES, run


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
