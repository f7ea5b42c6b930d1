"""``method=Method(...)`` and ``missing=Surrogates(n)``."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import MEMM, Method, Surrogates, TreeCRF
from seqboost.exceptions import ParameterError

X, Y = chains(20, lengths=(3, 8))


def test_parameters_clone_and_pickle():
    model = small(method=Method(curvature="newton", n_bags=2))
    assert model.get_params()["method__curvature"] == "newton"
    copied = clone(model)
    assert copied.method is not model.method
    assert copied.method.get_params() == model.method.get_params()
    assert pickle.loads(pickle.dumps(model)).method.get_params() == model.method.get_params()
    assert repr(model.method) == "Method(curvature='newton', n_bags=2)"
    assert model.set_params(method__n_bags=1).method.n_bags == 1


def test_none_is_the_default():
    assert all_equal(small().fit(X, Y).predict_proba(X), small(method=Method()).fit(X, Y).predict_proba(X))


def test_a_grid_searches_over_it():
    grid = {"method__curvature": ["mixing", "newton"], "method__sampling": [None, 0.5]}
    search = GridSearchCV(small(method=Method()), grid, cv=2).fit(X, Y)
    assert set(search.best_params_) == {"method__curvature", "method__sampling"}
    assert len(search.cv_results_["params"]) == 4


def test_a_grid_searches_over_the_default():
    search = GridSearchCV(small(), {"method__curvature": ["mixing", "newton"]}, cv=2).fit(X, Y)
    assert search.best_estimator_.method.curvature == search.best_params_["method__curvature"]
    assert small().set_params(method=Method(n_bags=2), method__curvature="newton").method.n_bags == 2
    model = small(method=Method(n_bags=2)).set_params(method=None, method__curvature="newton")
    assert model.method.get_params() == Method(curvature="newton").get_params()


def test_the_learning_rate_is_known_after_loading(tmp_path):
    model = small().fit(X, Y)
    model.save(tmp_path / "model")
    assert seqboost.load(tmp_path / "model").learning_rate_ == model.learning_rate_ == 0.25


def test_numbers_of_numpy_are_plain():
    model = small(method=Method(n_bags=np.int64(2), tol=np.float32(0.5), min_gain=np.float64(0.1))).fit(X, Y)
    config = model._result.config.method
    assert [type(value) for value in (config.n_bags, config.tol, config.min_gain)] == [int, float, float]


def test_it_is_kept_in_a_file(tmp_path):
    model = small(method=Method(sampling="goss", min_gain=0.1), missing={"*": Surrogates(2)}).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = seqboost.load(tmp_path / "model")
    assert loaded.method.get_params() == model.method.get_params()
    assert loaded.missing == {"*": Surrogates(2)}
    assert all_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", [TreeCRF, MEMM])
@pytest.mark.parametrize("method", ["newton", {"curvature": "newton"}, 3, Method])
def test_anything_else_is_refused(kind, method):
    match = f"The 'method' parameter of {kind.__name__} must be a seqboost.Method or None"
    with pytest.raises(ParameterError, match=match):
        kind(method=method).fit(X, Y)


def test_old_parameters_are_unknown():
    with pytest.raises(TypeError, match="curvature"):
        TreeCRF(curvature="newton")


@pytest.mark.parametrize("n", [0, 1001, 2.5, "3", True, None])
def test_numbers_of_surrogates(n):
    with pytest.raises(ParameterError, match="Surrogates needs an int from 1 to 1000; got"):
        Surrogates(n)


def test_surrogates_of_columns_agree():
    rows = [[{"a": 1.0, "b": None}, {"a": None, "b": 2.0}]] * 4
    with pytest.raises(
        ParameterError, match="All Surrogates in the 'missing' parameter must have the same number.*2, 4"
    ):
        small(missing={"a": Surrogates(2), "b": Surrogates(4)}).fit(rows, [[0, 1]] * 4)
    one, same = (small(missing=policy).fit(rows, [[0, 1]] * 4) for policy in ("surrogate", Surrogates(3)))
    assert all_equal(one.predict_proba(rows), same.predict_proba(rows))
