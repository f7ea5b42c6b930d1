"""Made-up Markov chains have the law that they promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from seqboost.datasets import make_cycle, make_hmm


@pytest.mark.parametrize(("kind", "p_observe", "n_observe"), [("transition", 0.2, 8), ("both", 0.6, 2)])
def test_hmm(kind, p_observe, n_observe):
    X, y = make_hmm(kind, n_sequences=300, length=30, random_state=0)
    seen, labels = np.array([[int(o[1:]) for o in x] for x in X]), np.array(y)
    assert np.mean(seen == labels) == pytest.approx(p_observe, abs=0.02)
    assert np.mean(labels[:, 1:] == labels[:, :-1]) == pytest.approx(0.6, abs=0.02)
    often = np.flatnonzero(np.bincount(labels[:, :-1].ravel(), minlength=40) > 100)
    assert len(often) > 20
    for k in often:
        assert len(set(seen[labels == k].tolist()) - {k}) == n_observe
        assert len(set(labels[:, 1:][labels[:, :-1] == k].tolist()) - {k}) == 2


def test_hmm_keeps_its_law_with_more_sequences():
    X, y = make_hmm(n_sequences=3, random_state=1)
    more, _ = make_hmm(n_sequences=5, random_state=1)
    assert all(map(np.array_equal, X, more))
    assert [len(x) for x in X] == [len(labels) for labels in y] == [20] * 3


def test_cycle():
    X, y = make_cycle(n_sequences=30, length=10, spacing=3, random_state=0)
    for x, labels in zip(X, y, strict=True):
        assert all(b == a % 3 + 1 for a, b in itertools.pairwise(labels))
        told = [t for t, o in enumerate(x) if o != "?"]
        assert all(b - a == 3 for a, b in itertools.pairwise(told))
        assert all(x[t] == str(labels[t]) for t in told)
    assert {labels[0] for labels in y} == {1, 2, 3}


def test_errors():
    with pytest.raises(ValueError, match="kind must be one of 'transition', 'both', got 'none'"):
        make_hmm("none")
    with pytest.raises(ValueError, match="needs more than 8 labels, got n_labels=5"):
        make_hmm(n_labels=5)
    with pytest.raises(ValueError, match="make_cycle needs at least 2 labels"):
        make_cycle(n_labels=1)
