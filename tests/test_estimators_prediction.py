"""Estimators do no more inference and copying than an answer needs."""

import numpy as np
import pytest
from treecrf_data import chains, small

from seqboost.boosting.history import History
from seqboost.chain import inference
from seqboost.chain.exact import solver
from seqboost.estimators import prediction

X, Y = chains()


@pytest.fixture(scope="module", params=["joint", "factored"])
def model(request):
    return small(max_iter=3, potentials=request.param, window=0).fit(X, Y)


def refuse(*_arguments, **_keywords):
    raise AssertionError("not needed for this answer")


def test_predict_computes_node_marginals_once(model, monkeypatch):
    calls, real = [], inference.node_marginals
    monkeypatch.setattr(inference, "node_marginals", lambda marginals: calls.append(1) or real(marginals))
    model.predict(X)
    assert len(calls) == 1


def test_log_prob_and_predict_kbest_compute_no_marginals(model, monkeypatch):
    best = model.predict_kbest(X, 1)
    monkeypatch.setattr(solver, "posterior_chunk", refuse)
    monkeypatch.setattr(prediction, "posterior", refuse)
    again = model.predict_kbest(X, 1)
    assert [path[0][1] for path in again] == [path[0][1] for path in best]
    labels = [list(path[0][0]) for path in best]
    np.testing.assert_allclose(model.log_prob(X, labels), [path[0][1] for path in best], atol=1e-4)


def test_training_without_callbacks_copies_no_history_in_a_round(monkeypatch):
    calls, real = [], History.to_dict
    monkeypatch.setattr(History, "to_dict", lambda history: calls.append(1) or real(history))
    small(max_iter=2, potentials="joint", window=0).fit(X, Y)
    n_calls = len(calls)
    small(max_iter=6, potentials="joint", window=0).fit(X, Y)
    assert len(calls) == 2 * n_calls
