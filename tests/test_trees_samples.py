"""Trees on samples of the rows: the same trees as on rows that stay where they are, and the leaves of all others."""

from __future__ import annotations

import numpy as np
import pytest
from test_trees_cases import CATEGORICAL, LIMITS, NUMERIC, leaf_value, random_case, reference_weights, same_tree
from test_trees_shared import with_labels

from seqboost.trees import (
    LAG,
    Fitted,
    LabelSampleGrower,
    Policies,
    SharedGrower,
    SharedSampleGrower,
    label_grower,
    shared_grower,
)
from seqboost.trees.riders import MAX_ROUTED_LEAVES, Router
from seqboost.trees.samples import gather_cells

NO_SLOTS = {"slots": (), "sparse_window": ()}
LONG = (40, 1, 33, 2, 60, 1, 25)


def fitted_of(case, width=0, seed=0):
    """Return the fitted rows of a case, with random weights: none, of rows or of cells."""
    weight = np.random.default_rng(seed).integers(1, 5, size=(case.n_fitted, width)).astype(np.float32)
    return Fitted(case.rows, case.n_fitted, weight)


def weighted(case, fitted):
    """The case with the derivatives of its fitted rows times their weights, and nonsense elsewhere."""
    cells = [np.full_like(part, 777.0) for part in (case.gradient, case.hessian)]
    rows = case.rows[: case.n_fitted]
    for new, old in zip(cells, (case.gradient, case.hessian), strict=True):
        for p, row in enumerate(rows):
            cells_of_row = old[..., row, :]
            if fitted.weight.shape[1] == 0:
                new[..., row, :] = cells_of_row
            elif fitted.weight.shape[1] == 1:
                new[..., row, :] = cells_of_row * fitted.weight[p, 0]
            else:
                new[..., row, :] = cells_of_row * fitted.weight[p].reshape(cells_of_row.shape)
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
                    w = {"none": 1, "rows": weight[p, :1], "cells": weight[p, k * n_contexts + c :][:1]}[kind]
                    assert found[k, p, c] == cells[k, rows[p], c] * np.float32(w if kind == "none" else w[0])


def outputs(partitions, tree, case):
    """What the leaves add to scores of zero; −1 where nothing is written."""
    new = np.full(case.gradient.shape[-2:], -1.0, dtype=np.float32)
    for partition in partitions:
        partition.add(tree.value, np.zeros_like(new), new)
    return new


@pytest.mark.parametrize("width", ["none", "rows", "cells"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("forms", [{}, NO_SLOTS], ids=["sparse", "dense"])
@pytest.mark.parametrize("n_riders", [0, 1, 60])
def test_a_gathered_sample_gives_the_same_tree(n_riders, forms, order, width):
    for seed in range(3):
        case = random_case(seed, order=order, lengths=LONG, n_riders=n_riders, **forms)
        n_cells = case.gradient.shape[1]
        fitted = fitted_of(case, {"none": 0, "rows": 1, "cells": n_cells}[width])
        expected, partition = weighted(case, fitted).grow()
        assert expected.n_leaves > 3
        grower = LabelSampleGrower(case.grower())
        for _ in range(2):  # buffers hold another tree's numbers the second time
            tree, partitions = grower.grow(case.gradient, case.hessian, fitted, leaf_value(LIMITS.l2_regularization))
            assert same_tree(tree, expected)
            assert np.array_equal(outputs(partitions, tree, case), outputs([partition], expected, case))
            other = random_case(seed + 9, order=order, lengths=LONG, n_riders=20, **forms)
            grower.grow(other.gradient, other.hessian, fitted_of(other, 1), leaf_value(1.0))


@pytest.mark.parametrize("width", ["none", "rows", "cells"])
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("forms", [{}, NO_SLOTS], ids=["sparse", "dense"])
@pytest.mark.parametrize("n_riders", [0, 1, 60])
def test_a_gathered_sample_gives_the_same_shared_tree(n_riders, forms, order, width):
    case = with_labels(random_case(1, order=order, lengths=LONG, n_riders=n_riders, **forms))
    n_cells = case.gradient.shape[0] * case.gradient.shape[2]
    fitted = fitted_of(case, {"none": 0, "rows": 1, "cells": n_cells}[width])
    value = leaf_value(LIMITS.l2_regularization)
    plain = SharedGrower(case.dense, case.sparse, case.space, LIMITS)
    ours = weighted(case, fitted)
    expected, partition = plain.grow(ours.gradient, ours.hessian, case.rows, case.n_fitted, value)
    assert expected.n_leaves > 3
    grower = SharedSampleGrower(SharedGrower(case.dense, case.sparse, case.space, LIMITS, 2))
    for _ in range(2):
        tree, found = grower.grow(case.gradient, case.hessian, fitted, value)
        assert same_tree(tree, expected)
        assert np.array_equal(found.leaf_of, partition.leaf_of)
        grower.grow(case.gradient[:, ::-1].copy(), case.hessian, fitted, value)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("max_leaf_nodes", [1, 2, 8, MAX_ROUTED_LEAVES])
def test_rows_reach_the_leaves_of_the_twin(max_leaf_nodes, order):
    n_tests = set()
    for seed in range(3):
        case = random_case(seed, order=order, lengths=LONG, n_riders=80, **NO_SLOTS)
        limits = LIMITS._replace(max_leaf_nodes=max_leaf_nodes, min_samples_leaf=1, l2_regularization=0.0)
        tree, _ = case.grow(limits)
        rows = case.rows[case.n_fitted :]
        riders = Router(case.dense, case.space).route(tree, rows)
        numbered = tree.value.copy()
        numbered[:] = np.arange(tree.n_leaves)
        found = np.full(case.gradient.shape, -1.0, dtype=np.float32)
        riders.add(numbered, np.zeros_like(found), found)
        leaf_of = np.full(found.shape, 9999, dtype=np.uint16)
        riders.fill(leaf_of, tree.n_leaves)
        expected = np.full_like(found, -1.0)
        for e in case.examples:
            if e.row in set(rows.tolist()):
                (expected[e.row, e.context],) = reference_weights(tree, case.columns, e.row, e.lags)
        assert np.array_equal(found, expected)
        assert np.array_equal(leaf_of[rows], np.where(expected < 0, tree.n_leaves, expected)[rows])
        assert np.all(np.delete(leaf_of, rows, axis=0) == 9999)
        n_tests |= {tree.n_splits, *(["lag"] if LAG in tree.kind else [])}
    assert max_leaf_nodes - 1 in n_tests
    assert ("lag" in n_tests) == (order > 0 and max_leaf_nodes > 2) or max_leaf_nodes == 2


def test_categories_that_no_fitted_row_has():
    case = random_case(2, columns=((CATEGORICAL, 4), (NUMERIC, 3)), window=(0,), n_riders=20, **NO_SLOTS)
    for row in case.rows[case.n_fitted :: 2]:
        case.dense.codes[case.dense.address[row]] = case.dense.n_values[0] + 2
    expected, partition = case.grow()
    tree, partitions = LabelSampleGrower(case.grower()).grow(
        case.gradient, case.hessian, fitted_of(case), leaf_value(LIMITS.l2_regularization)
    )
    assert same_tree(tree, expected)
    assert len(partitions) == 2
    assert np.array_equal(outputs(partitions, tree, case), outputs([partition], expected, case))


def test_all_rows_are_not_gathered():
    case = random_case(0)
    fitted = fitted_of(case)
    assert fitted.is_whole
    assert not fitted_of(case, 1).is_whole
    grower = LabelSampleGrower(case.grower())
    grower.columns = None  # or else this fails
    tree, partitions = grower.grow(case.gradient, case.hessian, fitted, leaf_value(LIMITS.l2_regularization))
    assert len(partitions) == 1
    assert same_tree(tree, case.grow()[0])


@pytest.mark.parametrize("policy", [1, 2])
@pytest.mark.parametrize("forms", [{}, NO_SLOTS], ids=["sparse", "dense"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_gathered_sample_of_rows_that_lack_values_gives_the_same_tree(shared, forms, policy):
    case = random_case(1, order=1, lengths=LONG, n_riders=60, missing=0.3, **forms)
    policies = Policies(
        np.full(len(case.dense.feature), policy, np.uint8), np.full(len(case.sparse.kind), policy, np.uint8)
    )
    case = with_labels(case) if shared else case
    fitted = fitted_of(case, 1)
    there = weighted(case, fitted)
    columns = case.dense, case.sparse, case.space, LIMITS, policies
    direct = (shared_grower if shared else label_grower)(*columns)
    expected, partition = direct.grow(there.gradient, there.hessian, case.rows, case.n_fitted, leaf_value(0.5))
    sampler = SharedSampleGrower(shared_grower(*columns)) if shared else LabelSampleGrower(label_grower(*columns))
    for _ in range(2):
        tree, found = sampler.grow(case.gradient, case.hessian, fitted, leaf_value(0.5))
        assert same_tree(tree, expected)
        old = np.zeros_like(case.gradient)
        new, right = np.full_like(old, np.nan), np.full_like(old, np.nan)
        (found if shared else found[0]).add(tree.value, old, new)
        partition.add(tree.value, old, right)
        np.testing.assert_array_equal(new, right)
