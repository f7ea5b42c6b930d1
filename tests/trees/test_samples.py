"""Trees on samples of the rows: the same trees as on rows that stay where they are, and the leaves of all others."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost.core.missing import INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees import Fitted, SampleGrower
from seqboost.trees.masks import MAX_LEAVES
from seqboost.trees.samples import gather_cells
from tests.support.trees import (
    CATEGORICAL,
    LIMITS,
    NUMERIC,
    leaf_value,
    policies_of,
    random_case,
    same_tree,
    with_outputs,
)

NO_SLOTS = {"slots": (), "sparse_window": ()}
LONG = (40, 1, 33, 2, 60, 1, 25)
VALUE = leaf_value(LIMITS.l2_regularization)


def fitted_of(case, width=0, seed=0):
    """Return the fitted rows of a case, with random weights: none, of rows or of cells."""
    weight = np.random.default_rng(seed).integers(1, 5, size=(case.n_fitted, width)).astype(np.float32)
    return Fitted(case.rows, case.n_fitted, weight)


def weighted(case, fitted):
    """The case with the derivatives of its fitted rows times their weights, and nonsense elsewhere."""
    cells = [np.full_like(part, 777.0) for part in (case.gradient, case.hessian)]
    for new, old in zip(cells, (case.gradient, case.hessian), strict=True):
        for p, row in enumerate(case.rows[: case.n_fitted]):
            weight = fitted.weight[p] if fitted.weight.shape[1] else np.float32(1)
            new[:, row] = old[:, row] * (weight.reshape(old[:, row].shape) if weight.size > 1 else weight)
    return case.with_derivatives(*cells)


@pytest.mark.parametrize("n_labels", [1, 3])
@pytest.mark.parametrize("n_contexts", [1, 4])
@pytest.mark.parametrize("kind", ["none", "rows", "cells"])
def test_gathered_cells(kind, n_contexts, n_labels):
    rng = np.random.default_rng(0)
    gradient, hessian = rng.normal(size=(2, n_labels, 30, n_contexts)).astype(np.float32)
    rows = np.concatenate([np.sort(rng.permutation(30)[:11]), [0]]).astype(np.int32)
    width = {"none": 0, "rows": 1, "cells": n_labels * n_contexts}[kind]
    weight = rng.random((11, width)).astype(np.float32)
    new = [np.full((n_labels, 11, n_contexts), np.nan, np.float32) for _ in range(2)]
    gather_cells(gradient, hessian, Fitted(rows, 11, weight), *new)
    for found, cells in zip(new, (gradient, hessian), strict=True):
        for k in range(n_labels):
            for p in range(11):
                for c in range(n_contexts):
                    w = {"none": [1], "rows": weight[p], "cells": weight[p, k * n_contexts + c :]}[kind]
                    assert found[k, p, c] == cells[k, rows[p], c] * np.float32(w[0])


def outputs(leaves, tree, case):
    """What the leaves add to scores of zero; −1 where nothing is written."""
    new = np.full(case.gradient.shape, -1.0, dtype=np.float32)
    leaves.add(tree.value, np.zeros_like(new), new)
    return new


@pytest.mark.parametrize("width", ["none", "rows", "cells"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("forms", [{}, NO_SLOTS], ids=["sparse", "dense"])
@pytest.mark.parametrize("n_riders", [0, 1, 60])
@pytest.mark.parametrize("joint", [False, True], ids=["one output", "all labels"])
def test_a_gathered_sample_gives_the_same_tree(joint, n_riders, forms, order, width):
    case = random_case(1, order=order, lengths=LONG, n_riders=n_riders, **forms)
    case = with_outputs(case) if joint else case
    n_cells = case.gradient.shape[0] * case.gradient.shape[2]
    fitted = fitted_of(case, {"none": 0, "rows": 1, "cells": n_cells}[width])
    expected, leaves = weighted(case, fitted).grow()
    assert expected.n_leaves > 3
    grower = SampleGrower(case.grower(n_threads=2))
    for _ in range(2):  # buffers hold another tree's numbers the second time
        tree, found = grower.grow(case.gradient, case.hessian, fitted, VALUE)
        assert same_tree(tree, expected)
        assert np.array_equal(outputs(found, tree, case), outputs(leaves, expected, case))
        other = random_case(9, order=order, lengths=LONG, n_riders=20, **forms)
        other = with_outputs(other) if joint else other
        grower.grow(other.gradient, other.hessian, fitted_of(other, 1), VALUE)


@pytest.mark.parametrize("policy", [INSTANCE_WEIGHTING, SURROGATE])
@pytest.mark.parametrize("forms", [{}, NO_SLOTS], ids=["sparse", "dense"])
@pytest.mark.parametrize("joint", [False, True])
def test_a_gathered_sample_of_rows_that_lack_values_gives_the_same_tree(joint, forms, policy):
    case = random_case(1, order=1, lengths=LONG, n_riders=60, missing=0.3, **forms)
    policies = policies_of(case.columns, policy)
    case = with_outputs(case) if joint else case
    fitted = fitted_of(case, 1)
    expected, leaves = weighted(case, fitted).grow(LIMITS, policies)
    sampler = SampleGrower(case.grower(LIMITS, policies))
    for _ in range(2):
        tree, found = sampler.grow(case.gradient, case.hessian, fitted, VALUE)
        assert same_tree(tree, expected)
        assert found.others is None  # they ride along
        assert np.array_equal(outputs(found, tree, case), outputs(leaves, expected, case))


@pytest.mark.parametrize(("max_leaf_nodes", "sends"), [(2, True), (MAX_LEAVES, True), (MAX_LEAVES + 1, False)])
def test_other_rows_are_sent_down_the_tree_if_masks_hold_its_leaves(max_leaf_nodes, sends):
    limits = LIMITS._replace(max_leaf_nodes=max_leaf_nodes, min_samples_leaf=1, l2_regularization=0.0)
    case = random_case(0, lengths=(90, 1, 60), n_riders=40, **NO_SLOTS)
    expected, leaves = case.grow(limits)
    tree, found = SampleGrower(case.grower(limits)).grow(case.gradient, case.hessian, fitted_of(case), leaf_value(0.0))
    assert tree.n_leaves == max_leaf_nodes
    assert same_tree(tree, expected)
    assert (found.others is not None) == sends
    assert np.array_equal(outputs(found, tree, case), outputs(leaves, expected, case))


def test_categories_that_no_fitted_row_has():
    case = random_case(2, columns=((CATEGORICAL, 4), (NUMERIC, 3)), window=(0,), n_riders=20, **NO_SLOTS)
    dense = case.columns.dense
    for row in case.rows[case.n_fitted :: 2]:
        dense.codes[dense.address[row]] = dense.n_values[0] + 2
    expected, leaves = case.grow()
    tree, found = SampleGrower(case.grower()).grow(case.gradient, case.hessian, fitted_of(case), VALUE)
    assert same_tree(tree, expected)
    assert found.others is not None
    assert np.array_equal(outputs(found, tree, case), outputs(leaves, expected, case))


def test_all_rows_are_not_gathered(monkeypatch):
    case = random_case(0)
    fitted = fitted_of(case)
    assert fitted.is_whole
    assert not fitted_of(case, 1).is_whole
    grower = SampleGrower(case.grower())
    monkeypatch.setattr(grower, "_problem", None)  # or else this fails
    tree, found = grower.grow(case.gradient, case.hessian, fitted, VALUE)
    assert found.others is None
    assert same_tree(tree, case.grow()[0])
