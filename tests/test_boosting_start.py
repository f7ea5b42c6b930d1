"""Where boosting starts: contexts of the labels and the table counted from them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from seqboost.boosting import history_table, label_table
from seqboost.chain import SeenContexts, SeenPotentials, seen_counts, seen_steps
from seqboost.chain.reference import SeenTwin
from seqboost.core.contexts import ContextSpace, observed_contexts


def extended_contexts(*arguments):
    return observed_contexts(*arguments, mark_unobserved=True)[1]


def random_labels(seed, n_labels, unobserved=0.0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 12)
    labels = rng.integers(n_labels, size=lengths.sum()).astype(np.int32)
    labels[rng.random(len(labels)) < unobserved] = -1
    return labels, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("unobserved", [0.0, 0.3])
def test_the_table_is_smoothed_counting(order, unobserved):
    labels, offsets = random_labels(7, 3, unobserved)
    weights = np.repeat(np.random.default_rng(0).integers(1, 4, len(offsets) - 1), np.diff(offsets)).astype(float)
    contexts = extended_contexts(labels, offsets, 3, order)
    n_extended = ContextSpace(3, order).n_extended
    table = label_table(labels, contexts, weights, n_extended, 3)
    assert table.shape == (n_extended, 3)
    assert np.allclose(np.exp(table).sum(axis=1), 1)
    of_label, of_context, of_both = Counter(), Counter(), Counter()
    for label, context, weight in zip(labels.tolist(), contexts.tolist(), weights, strict=True):
        if label >= 0:
            of_label[label] += weight
            if context >= 0:
                of_context[context] += weight
                of_both[context, label] += weight
    total = sum(of_label.values()) + 3
    for e in range(n_extended):
        for k in range(3):
            share = (of_label[k] + 1) / total
            assert table[e, k] == pytest.approx(np.log((of_both[e, k] + 3 * share) / (of_context[e] + 3)))


def test_contexts_never_seen_have_the_shares_of_the_labels():
    labels = np.array([0, 0, 0, 1], dtype=np.int32)
    contexts = extended_contexts(labels, np.array([0, 4]), 2, 1)
    table = label_table(labels, contexts, np.ones(4), 3, 2)
    assert np.allclose(np.exp(table[2]), [4 / 6, 2 / 6])  # nothing follows label 1
    assert np.exp(table[1, 0]) > np.exp(table[1, 1])


def seen_chain(order, min_count, seed=0):
    """Return a chain of seen contexts that starts from the table of its own labels."""
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(rng.integers(1, 9, 30)))
    labels, weights = rng.integers(3, size=offsets[-1]).astype(np.int32), rng.random(offsets[-1])
    contexts = SeenContexts.from_labels(labels, offsets, 3, order, min_count=min_count)
    counts = seen_counts(contexts, seen_steps(contexts, labels, offsets), weights)
    table = history_table(counts, contexts.arc_start, contexts.graph.arc_parent, 3)
    nothing = np.zeros((3, 1, 1), np.float32)
    return SeenTwin(SeenPotentials(nothing, table, np.array([0, 1]), contexts)), labels, offsets, weights


@pytest.mark.parametrize("min_count", [1, 2, 5])
def test_histories_start_from_probabilities(min_count):
    twin, *_ = seen_chain(3, min_count)
    for length in range(5):
        for before in itertools.product(range(3), repeat=length):
            scores = [twin.p.table[twin.parameters(before, k)].sum() for k in range(3)]
            np.testing.assert_allclose(np.exp(scores).sum(), 1.0)


def test_single_labels_start_as_among_all_contexts():
    twin, labels, offsets, weights = seen_chain(1, 2)
    expected = label_table(labels, extended_contexts(labels, offsets, 3, 1), weights, 4, 3)
    for before in ((), (0,), (1,), (2,)):
        found = [twin.p.table[twin.parameters(before, k)].sum() for k in range(3)]
        np.testing.assert_allclose(found, expected[before[0] + 1 if before else 0])
