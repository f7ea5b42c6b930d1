"""The numbering of contexts against enumeration."""

import itertools

import numpy as np
import pytest

from seqboost.core.contexts import ContextSpace, context_space, observed_contexts, row_types
from seqboost.core.exceptions import ParameterError

SIZES = [(n_labels, order) for n_labels in (1, 2, 3, 5) for order in range(4)]


def enumerated(n_labels, order):
    """All extended contexts in their order, as tuples of labels, lag 1 first: shorter ones first, old lags slowest."""
    return [lags[::-1] for j in range(order + 1) for lags in itertools.product(range(n_labels), repeat=j)]


def ragged(seed, n_labels, unobserved=0.0):
    """Random labels of sequences of different lengths, some of them 1."""
    rng = np.random.default_rng(seed)
    lengths = rng.permutation(np.append(rng.integers(1, 8, 12), [1, 1]))
    labels = rng.integers(n_labels, size=lengths.sum()).astype(np.int32)
    labels[rng.random(len(labels)) < unobserved] = -1
    return labels, np.append(0, np.cumsum(lengths)).astype(np.int64)


def walk(labels, offsets, order):
    """Labels before each position, lag 1 first, as many as there are up to the order."""
    for start, stop in itertools.pairwise(offsets.tolist()):
        for t in range(start, stop):
            yield tuple(labels[max(start, t - order) : t][::-1].tolist())


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_next_context_follows_the_labels(n_labels, order):
    space = ContextSpace(n_labels, order)
    lag_labels = space.lag_labels()
    for labels in itertools.product(range(n_labels), repeat=6):
        c = 0
        for t in range(6):
            assert space.context_of(labels, t) == c < space.n_existing(t)
            existing = [labels[t - lag] for lag in range(1, space.type_of(t) + 1)]
            missing = [n_labels] * (order - space.type_of(t))
            assert lag_labels[:, space.base[space.type_of(t)] + c].tolist() == existing + missing
            assert space.number(existing) == c
            c = space.next_context(c, labels[t])


def test_extended_contexts_are_counted():
    space = ContextSpace(3, 2)
    assert (space.n_contexts, space.n_extended, space.n_shared) == (9, 13, 3)
    assert space.base.tolist() == [0, 1, 4]
    assert space.extended_types().tolist() == [0, 1, 1, 1] + [2] * 9


@pytest.mark.parametrize(("n_labels", "order"), SIZES)
def test_extended_contexts_are_those_enumerated(n_labels, order):
    space, contexts = ContextSpace(n_labels, order), enumerated(n_labels, order)
    assert space.n_extended == len(contexts)
    assert space.n_contexts_of.tolist() == [sum(len(c) == j for c in contexts) for j in range(order + 1)]
    assert space.base.tolist() == [[len(c) for c in contexts].index(j) for j in range(order + 1)]
    assert space.extended_types().tolist() == [len(c) for c in contexts]
    padded = [[*c, *[n_labels] * (order - len(c))] for c in contexts]
    assert space.lag_labels().T.tolist() == padded
    assert [space.base[len(c)] + space.number(c) for c in contexts] == list(range(len(contexts)))


@pytest.mark.parametrize(("n_labels", "order"), SIZES)
def test_context_spaces_are_those_enumerated(n_labels, order):
    labels, offsets = ragged(order, n_labels)
    found, space = context_space(n_labels, order, offsets), ContextSpace(n_labels, order)
    assert found.n_labels == n_labels
    expected = (
        (found.base, space.base, np.int64),
        (found.n_contexts_of, space.n_contexts_of, np.int64),
        (found.lag_label, space.lag_labels(), np.int32),
        (found.type_of, space.extended_types(), np.uint8),
        (found.row_type, [len(lags) for lags in walk(labels, offsets, order)], np.uint8),
    )
    for array, values, dtype in expected:
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize("order", [0, 1, 3, 9])
def test_types_of_positions(order):
    labels, offsets = ragged(order, 2)
    found = row_types(offsets, order)
    assert found.dtype == np.uint8
    assert found.tolist() == [len(lags) for lags in walk(labels, offsets, order)]
    assert row_types(np.array([0]), order).tolist() == []


@pytest.mark.parametrize(("n_labels", "order"), SIZES)
@pytest.mark.parametrize("unobserved", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("mark", [False, True])
def test_observed_contexts_are_those_enumerated(n_labels, order, unobserved, mark):
    labels, offsets = ragged(order, n_labels, unobserved)
    numbers = {c: e for e, c in enumerate(enumerated(n_labels, order))}
    base = [min(e for c, e in numbers.items() if len(c) == j) for j in range(order + 1)]
    context, extended = observed_contexts(labels, offsets, n_labels, order, mark_unobserved=mark)
    assert context.dtype == extended.dtype == np.int32
    expected = []
    for lags in walk(labels, offsets, order):
        e = numbers[tuple(max(label, 0) for label in lags)]
        expected.append((-1, -1) if mark and -1 in lags else (e - base[len(lags)], e))
    assert list(zip(context.tolist(), extended.tolist(), strict=True)) == expected


def test_space_is_checked():
    with pytest.raises(ParameterError, match="at least one label, got n_labels=0"):
        ContextSpace(0, 1)
    with pytest.raises(ParameterError, match="order must be 0 or more, got -1"):
        ContextSpace(2, -1)
