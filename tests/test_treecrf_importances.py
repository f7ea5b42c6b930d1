"""``feature_importances_``: the share of each column in the gain of the trees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from treecrf_data import small

from seqboost import MEMM, TreeCRF
from seqboost.inspection import feature_importances


def told(n=30, length=12, seed=0):
    """Sequences of three numbers, of which the second tells the label."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 3)) for _ in range(n)]
    return X, [(x[:, 1] > 0).astype(int) for x in X]


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_the_column_that_tells_the_label_has_nearly_all(trees):
    X, y = told()
    model = small(window=1, trees=trees).fit(X, y)
    found = model.feature_importances_
    assert found.shape == (model.n_features_in_,)
    assert found.sum() == pytest.approx(1.0)
    assert found[1] > 0.9


@pytest.mark.parametrize("missing", ["direction", "indicator"])
def test_it_is_what_inspection_says_of_columns(missing):
    rng = np.random.default_rng(1)
    y = [rng.integers(3, size=10) for _ in range(30)]
    X = [
        [
            {
                "v": float(k + rng.normal()) if rng.random() < 0.8 else None,
                "kind": "ab"[int(k > 0)] if rng.random() < 0.9 else "c",
                "word": f"w{rng.integers(300)}",
                "bag": {f"t{rng.integers(5)}", f"k{k}"},
            }
            for k in labels
        ]
        for labels in y
    ]
    model = TreeCRF(max_iter=5, min_samples_leaf=2, window=1, init="labels", missing=missing, random_state=0).fit(X, y)
    slow = feature_importances(model).by_column()
    totals = dict(zip(slow.names, slow.values.sum(axis=0), strict=True))
    names = model.feature_names_in_.tolist()
    expected = np.array([totals.get(name, 0.0) + totals.get(f"{name} is missing", 0.0) for name in names])
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-6)


def test_names_of_a_table_and_sparse_columns():
    X, y = told()
    table = pd.concat([pd.DataFrame(x, columns=list("abc")).assign(who=i) for i, x in enumerate(X)])
    model = small(sequence="who").fit(table, np.concatenate(y))
    assert dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))["b"] > 0.9
    sparse = small().fit([sp.csr_array(x) for x in X], y)
    assert sparse.feature_importances_.argmax() == 1


def test_none_without_trees_and_for_memm():
    X, y = told()
    assert MEMM(max_iter=3, random_state=0, window=0).fit(X, y).feature_importances_.argmax() == 1
    empty = small(max_iter=1, window=0).fit([np.zeros((5, 2))] * 3, [[0, 1, 0, 1, 1]] * 3)
    assert empty.feature_importances_.tolist() == [0.0, 0.0]
    with pytest.raises(NotFittedError):
        TreeCRF().feature_importances_  # noqa: B018
