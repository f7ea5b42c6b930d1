"""Columns: their sizes, and whether policies for missing values matter."""

from __future__ import annotations

import numpy as np

from seqboost.core.missing import DIRECTION, INSTANCE_WEIGHTING, SURROGATE
from seqboost.trees.columns import lacks_values, needs_weights
from tests.support.trees import LACKING, ORDERED, SUBSET, policies_of, random_case


def asked(columns, policy):
    """Whether values are missing, and whether rows need weights."""
    policies = policies_of(columns, policy)
    return lacks_values(columns, policies), needs_weights(columns, policies)


def test_policies_of_dense_features():
    complete, damaged = (random_case(0, missing=missing, slots=()).columns for missing in (0.0, 0.2))
    assert asked(complete, DIRECTION) == asked(damaged, DIRECTION) == (False, False)
    assert asked(complete, INSTANCE_WEIGHTING) == (False, False)
    assert asked(damaged, INSTANCE_WEIGHTING) == asked(damaged, SURROGATE) == (True, True)
    assert asked(complete, SURROGATE) == (False, True)  # surrogates are found for rows to come
    for f in range(damaged.dense.displacement.size):
        policies = policies_of(damaged, DIRECTION)
        policies.dense[f] = INSTANCE_WEIGHTING
        assert lacks_values(damaged, policies)
        assert not lacks_values(complete, policies)


def test_policies_of_sparse_features():
    def columns(*slots):
        return random_case(0, columns=(), window=(), slots=slots).columns

    wide = columns((SUBSET, 6, 0))
    assert asked(wide, INSTANCE_WEIGHTING) == (True, True)
    indicator = columns((ORDERED, 1, 0))  # absent is a value
    assert asked(indicator, INSTANCE_WEIGHTING) == asked(indicator, SURROGATE) == (False, False)
    numbers = columns((LACKING, 2, 0))
    assert asked(numbers, INSTANCE_WEIGHTING) == asked(numbers, SURROGATE) == (True, True)
    assert asked(numbers, DIRECTION) == (False, False)
    present = numbers._replace(sparse=numbers.sparse._replace(indices=np.zeros_like(numbers.sparse.indices)))
    assert asked(present, INSTANCE_WEIGHTING) == (False, False)
    assert asked(present, SURROGATE) == (False, True)


def test_sizes():
    columns = random_case(0).columns
    assert columns.n_rows == 40
    assert columns.n_features == columns.dense.displacement.size + columns.sparse.enabled.size
    assert columns.n_cells == columns.dense.cell_start[-1] + columns.sparse.slot_start[-1] * columns.sparse.offset.size
    none = random_case(0, columns=(), window=(), slots=(), sparse_window=()).columns
    assert (none.n_cells, none.n_features, none.n_rows) == (0, 0, 40)
