"""Contexts as numbers, constraints as tables."""

import itertools

import numpy as np
import pytest

from seqboost.chain import ContextSpace, end_scores, transition_table
from seqboost.exceptions import ParameterError


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_next_context_follows_the_labels(n_labels, order):
    space = ContextSpace(n_labels, order)
    for labels in itertools.product(range(n_labels), repeat=6):
        c = 0
        for t in range(6):
            assert space.context_of(labels, t) == c < space.n_existing(t)
            existing = [labels[t - lag] for lag in range(1, space.type_of(t) + 1)]
            missing = [n_labels] * (order - space.type_of(t))
            assert space.digits(space.type_of(t))[c].tolist() == existing + missing
            c = space.next_context(c, labels[t])


def test_extended_contexts_are_counted():
    space = ContextSpace(3, 2)
    assert (space.n_contexts, space.n_extended, space.n_shared) == (9, 13, 3)
    assert space.base.tolist() == [0, 1, 4]
    assert space.extended_types().tolist() == [0, 1, 1, 1] + [2] * 9


@pytest.mark.parametrize("order", [1, 2, 3])
def test_transition_table_forbids_by_the_newest_lag(order):
    space = ContextSpace(3, order)
    allowed = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], bool)
    table = transition_table(space, start=np.array([True, False, True]), allowed=allowed)
    assert table[0].tolist() == [0.0, -np.inf, 0.0]
    for context_type in range(1, order + 1):
        for c in range(3**context_type):
            row = table[space.base[context_type] + c]
            np.testing.assert_array_equal(row == 0.0, allowed[c % 3])
    assert end_scores(space, np.array([True, True, False])).tolist() == [0.0, 0.0, -np.inf]


def test_no_constraints_are_zero():
    assert not transition_table(ContextSpace(2, 0)).any()
    assert not end_scores(ContextSpace(2, 0)).any()


@pytest.mark.parametrize("kind", ["start", "allowed"])
def test_constraints_need_an_order(kind):
    with pytest.raises(ParameterError, match=f"constraint '{kind}' needs labels that see each other"):
        transition_table(ContextSpace(2, 0), **{kind: np.ones((2, 2) if kind == "allowed" else 2, bool)})
    with pytest.raises(ParameterError, match="constraint 'end' needs"):
        end_scores(ContextSpace(2, 0), np.ones(2, bool))


def test_constraints_have_a_shape():
    with pytest.raises(ParameterError, match=r"allowed must be a boolean array of shape \(2, 2\).*got bool of shape"):
        transition_table(ContextSpace(2, 1), allowed=np.ones((2, 3), bool))
    with pytest.raises(ParameterError, match="start must be a boolean array"):
        transition_table(ContextSpace(2, 1), start=np.zeros(2))


def test_space_is_checked():
    with pytest.raises(ParameterError, match="at least one label, got n_labels=0"):
        ContextSpace(0, 1)
    with pytest.raises(ParameterError, match="order must be 0 or more, got -1"):
        ContextSpace(2, -1)
