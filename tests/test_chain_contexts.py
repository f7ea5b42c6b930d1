"""Constraints as tables, potentials as checked arrays."""

import numpy as np
import pytest

from seqboost.chain import Potentials, end_scores, transition_table
from seqboost.core.contexts import ContextSpace
from seqboost.exceptions import InputError, ParameterError


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


def test_potentials_are_checked():
    scores = np.zeros((2, 5, 2), np.float32)
    table = np.zeros((3, 2))
    offsets = np.array([0, 2, 5])
    assert Potentials(scores, table, offsets, 1).joint
    assert not Potentials(scores[:, :, :1].copy(), table, offsets, 1).joint
    with pytest.raises(ParameterError, match="C-contiguous float32"):
        Potentials(scores.astype(np.float64), table, offsets, 1)
    with pytest.raises(ParameterError, match=r"4 context slots \(joint\) or 1 \(factored\)"):
        Potentials(scores, np.zeros((7, 2)), offsets, 2)
    with pytest.raises(ParameterError, match=r"float64 array of shape \(3, 2\)"):
        Potentials(scores, np.zeros((2, 2)), offsets, 1)
    with pytest.raises(ParameterError, match=r"end must have shape \(2,\)"):
        Potentials(scores, table, offsets, 1, np.zeros(3))
    with pytest.raises(InputError, match="sequence 1 is empty"):
        Potentials(scores, table, np.array([0, 2, 2, 5]), 1)
    with pytest.raises(InputError, match="they span 0:4"):
        Potentials(scores, table, np.array([0, 2, 4]), 1)
