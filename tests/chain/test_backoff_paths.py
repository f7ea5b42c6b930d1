"""Given labellings of back-off chains."""

import numpy as np

from seqboost.chain import seen_counts, seen_steps
from seqboost.chain.reference import SeenTwin, random_seen


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
