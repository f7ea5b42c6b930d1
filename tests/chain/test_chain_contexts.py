"""Constraints as tables of scores."""

import numpy as np
import pytest

from seqboost.chain import end_scores, transition_table
from seqboost.core.contexts import ContextSpace
from seqboost.exceptions import ParameterError


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
