"""What is counted of the memory of a fit, where rows have weights."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from seqboost import TreeCRF
from seqboost.core.missing import INSTANCE_WEIGHTING
from seqboost.datasets import remove_values
from seqboost.exceptions import MemoryLimitError
from seqboost.training import memory, single
from seqboost.training.durations import duration_bytes
from seqboost.training.memory import WEIGHTED_ROW_BYTES, FitMemory, row_copies, segment_length
from seqboost.training.missing import dividing_rate
from seqboost.trees import Grower, Problem
from tests.support.trees import LIMITS, leaf_value, policies_of, random_case


@pytest.mark.parametrize("missing", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("max_leaf_nodes", [2, 16])
def test_copies_of_rows_are_about_those_of_a_tree(missing, max_leaf_nodes):
    case = random_case(0, missing=missing, slots=(), lengths=(400,) * 5, order=0, n_labels=1)
    limits = LIMITS._replace(max_leaf_nodes=max_leaf_nodes)
    policies = policies_of(case.columns, INSTANCE_WEIGHTING)
    grower = Grower(Problem(case.columns, case.space, limits), 1, policies)
    tree, leaves = grower.grow(case.gradient, case.hessian, case.rows, case.n_fitted, leaf_value(0.5))
    assert tree.n_leaves == max_leaf_nodes
    in_segments, in_leaves = row_copies(missing, max_leaf_nodes)
    n = len(case.rows)
    assert len(leaves.rows) / n == pytest.approx(in_leaves, rel=0.35)
    segments = grower.work.nodes.rows, grower.weighted.weight, grower.weighted.units
    assert in_segments <= 1.35 * len(segments[0]) / n
    assert sum(part.nbytes for part in segments) == WEIGHTED_ROW_BYTES * len(segments[0])
    assert len(segments[0]) / n <= segment_length(1.35 * in_segments)


def test_copies_without_missing_values_or_splits():
    assert row_copies(0.5, 1) == (1.0, 1.0)
    assert row_copies(0.0, 32) == (3.5, 1.0)
    assert row_copies(0.5, 2) == (1.75, 1.5)
    assert [segment_length(n) for n in (1.0, 2.0, 2.1, 9.0)] == [2.0, 2.0, 6.0, 24.0]


@pytest.mark.parametrize("shared", [False, True])
def test_rows_with_weights_are_counted(shared):
    sizes = (100_000, 3, 1, 500, 31, 2, 0, shared)
    usual = FitMemory(*sizes).total(joint=True)
    totals = [FitMemory(*sizes, dividing_rate=rate).total(joint=True) for rate in (0.0, 0.2, 0.4)]
    assert sorted({usual, *totals}) == [usual, *totals]
    # at 40 % and 31 leaves, segments of 16 copies of 12 bytes, for each thread unless trees are shared
    assert totals[-1] - usual > (1 if shared else 2) * 100_000 * 16 * 12
    assert FitMemory(*sizes, n_bags=5, dividing_rate=0.4).total(joint=True) > totals[-1]


def rates(monkeypatch, X, y, missing, **settings):
    """Return the rate that a fit counts with."""
    found = []
    monkeypatch.setattr(single, "dividing_rate", lambda binned: found.append(dividing_rate(binned)))
    TreeCRF(missing=missing, max_iter=1, early_stopping=False, **settings).fit(X, y)
    return found[0]


def test_the_rate_is_that_of_columns_which_lack_values(monkeypatch):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, size=20) for _ in range(10)]
    X = [np.column_stack([t + rng.normal(size=20), rng.normal(size=20), rng.normal(size=20)]) for t in y]
    assert rates(monkeypatch, X, y, "instance_weighting") is None
    assert rates(monkeypatch, X, y, "surrogate") == 0.0
    for x in X:
        x[::2, 0] = np.nan
        x[::4, 1] = np.nan
    assert rates(monkeypatch, X, y, "direction") is None
    assert rates(monkeypatch, X, y, "impute") is None
    assert rates(monkeypatch, X, y, "surrogate", window=2) == 0.0
    assert rates(monkeypatch, X, y, "instance_weighting", window=2) == pytest.approx(3 / 8)
    assert rates(monkeypatch, X, y, {"x1": "instance_weighting"}) == pytest.approx(1 / 4)
    sparse = [sp.csr_array(np.nan_to_num(x, nan=0.0)) for x in X]
    assert rates(monkeypatch, sparse, y, "instance_weighting") is None
    assert rates(monkeypatch, sparse, y, "surrogate") is None
    assert rates(monkeypatch, [sp.csr_array(x) for x in X], y, "instance_weighting") == pytest.approx(3 / 8)
    assert rates(monkeypatch, [sp.csr_array(x) for x in X], y, "surrogate") == 0.0


def test_a_fit_whose_weighted_rows_do_not_fit_is_refused(monkeypatch):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, size=50) for _ in range(40)]
    X = remove_values([t[:, None] + rng.normal(size=(50, 1)) for t in y], 0.4, random_state=0)
    settings = {"max_iter": 1, "max_leaf_nodes": 31, "max_bins": 4, "min_samples_leaf": 1, "trees": "per_label"}
    monkeypatch.setattr(memory, "available_bytes", lambda: 1_300_000)
    TreeCRF(missing="direction", n_jobs=1, **settings).fit(X, y)
    with pytest.raises(MemoryLimitError, match=r"fit would need about .* for 2,000 positions"):
        TreeCRF(missing="instance_weighting", n_jobs=1, **settings).fit(X, y)


def test_durations_take_pairs_of_labels_for_each_thread():
    assert duration_bytes(None, np.array([0, 10]), 2) == 0
    assert duration_bytes(np.array([1, 5, 2]), np.array([0, 10, 50]), 2) == 4 * 40 * 9 * 2
