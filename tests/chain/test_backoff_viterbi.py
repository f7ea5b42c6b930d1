"""Best labelling of back-off chains against enumeration."""

import numpy as np
import pytest

from seqboost.chain import log_partition, log_probability, path_scores, viterbi
from seqboost.chain.reference import SeenTwin, random_seen
from seqboost.exceptions import InputError
from tests.support.chains import SEEN_CASES, SEEN_SHAPES


@pytest.mark.parametrize("case", ["plain", "huge", "wide", "forbidden", "closed", "huge_forbidden"])
@pytest.mark.parametrize(("n_labels", "order"), SEEN_SHAPES)
def test_best_labelling_and_scores_of_labellings(n_labels, order, case):
    rng = np.random.default_rng([7, len(case), order, n_labels])
    p = random_seen(rng, n_labels, order, lengths=(1, 3, 4), **SEEN_CASES[case])
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
