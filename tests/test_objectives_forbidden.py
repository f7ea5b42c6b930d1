"""Labels that break a forbidden transition are found and named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from objectives_cases import make_case

from seqboost.exceptions import InputError
from seqboost.objectives import Likelihood, find_forbidden, reference

CLASSES = ["B", "I", "O"]


def bio_table(order: int = 1) -> np.ndarray:
    """No I at the start or after O; no B after B."""
    table = np.zeros((sum(3**i for i in range(order + 1)), 3))
    table[0, 1] = -np.inf
    first = 1
    for j in range(1, order + 1):
        for slot in range(3**j):
            if slot % 3 == 2:
                table[first + slot, 1] = -np.inf
            if slot % 3 == 0:
                table[first + slot, 0] = -np.inf
        first += 3**j
    return table


def codes(text: str) -> np.ndarray:
    return np.array(["BIO".find(letter) for letter in text], dtype=np.int32)


@pytest.mark.parametrize(
    ("labels", "order", "last", "message"),
    [
        ("OBIBB", 1, "BIO", r"y\[1\] moves from 'B' to 'B' at position 4, which transitions=\.\.\. forbids\. Allow it"),
        ("OBIBB", 2, "BIO", r"y\[1\] moves from 'I', 'B' to 'B' at position 4"),
        ("IO", 1, "BIO", r"y\[1\] starts with 'I'"),
        ("OB", 1, "I", r"y\[1\] ends with 'B'"),
        ("OO?", 1, "I", r"y\[1\] has no allowed last label"),
        ("??BB", 2, "BIO", r"y\[1\] has 'B' at position 3, which no allowed labels before it lead to"),
    ],
)
@pytest.mark.parametrize("joint", [True, False])
def test_impossible_labels_are_named(labels, order, last, message, joint):
    flat = np.concatenate([codes("OBI"), codes(labels)])
    end = np.where([name in last for name in CLASSES], 0.0, -np.inf)
    offsets = np.append(0, np.cumsum([3, len(labels)]))
    objective = Likelihood(flat, offsets, n_labels=3, order=order, joint=joint, end=end, classes=CLASSES)
    scores = np.zeros((3, len(flat), 3**order if joint else 1), dtype=np.float32)
    with pytest.raises(InputError, match=message):
        objective.derivatives(scores, bio_table(order))
    with pytest.raises(InputError, match=message):
        objective.log_likelihood(scores, bio_table(order))


@pytest.mark.parametrize("joint", [True, False])
def test_unobserved_labels_go_round_what_is_forbidden(joint):
    objective = Likelihood(codes("O?I"), np.array([0, 3]), n_labels=3, order=1, joint=joint)
    found = objective.derivatives(np.zeros((3, 3, 3 if joint else 1), dtype=np.float32), bio_table())
    assert np.isfinite(found.log_likelihood[0])
    assert found.gradient[:, 1].sum(axis=1).argmax() == 0  # only B leads from O to I


@pytest.mark.parametrize("order", [1, 2])
def test_found_exactly_when_no_labelling_agrees(order):
    table, end = bio_table(order), np.array([0.0, 0.0, -np.inf])
    scores = np.zeros((3, 4, 1), dtype=np.float32)
    for labels in itertools.product(range(-1, 3), repeat=4):
        chosen = np.array(labels, dtype=np.int32)
        possible = np.isfinite(reference.log_likelihood(scores, table, chosen, order, end))
        assert (find_forbidden(chosen, table, order, end) is None) == possible


@pytest.mark.parametrize("joint", [True, False])
def test_forbidden_cells_have_no_gradient(joint):
    case = make_case(1, joint)
    table = bio_table()
    labels = np.concatenate([codes("OBIO"), codes("B"), codes("OBI?O"), codes("BO")])
    objective = Likelihood(labels, case.offsets, n_labels=3, order=1, joint=joint)
    found = objective.derivatives(case.scores, table)
    for start in case.offsets[:-1]:
        assert np.all(found.gradient[1, start] == 0)
    if joint:
        assert np.all(found.gradient[1, :, 2] == 0)
        assert np.all(found.hessian[1, :, 2] == 0)
    else:
        assert np.all(found.table_gradient[table == -np.inf] == 0)
        assert np.all(np.isfinite(found.table_hessian))
