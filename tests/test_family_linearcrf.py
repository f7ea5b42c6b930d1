"""LinearCRF against python-crfsuite called directly."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler, words
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import chains

from seqboost import LinearCRF, as_batch
from seqboost.estimators.family import crfsuite
from seqboost.estimators.family.linear import fit_columns
from seqboost.estimators.family.linearcrf import ALGORITHMS

pycrfsuite = pytest.importorskip("pycrfsuite")


def letters(word):
    """Return the attributes of a window of one letter to each side, as one would write them for CRFsuite."""
    rows = []
    for t, _ in enumerate(word):
        row = {}
        for o in (-1, 0, 1):
            inside = 0 <= t + o < len(word)
            row[f"{o}={word[t + o]}" if inside else f"{o} beyond"] = 1.0
        rows.append(row)
    return rows


def direct(X, y, path, algorithm, parameters):
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    trainer.set_params({"feature.possible_transitions": True, **parameters})
    for x, labels in zip(X, y, strict=True):
        trainer.append(x, list(labels))
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def marginals(tagger, x, classes):
    tagger.set(x)
    return np.array([[tagger.marginal(k, t) for k in classes] for t in range(len(x))])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_agrees_with_crfsuite_called_directly(algorithm, tmp_path):
    X, y = words(40)
    parameters = {"max_iterations": 100} | ({"c2": 0.1} if algorithm in ("lbfgs", "l2sgd") else {})
    crfsuite._seed_shuffles()
    tagger = direct([letters(x) for x in X], y, tmp_path / "model", algorithm, parameters)
    model = LinearCRF(algorithm=algorithm, max_iter=100, c2=0.1, window=1).fit(X, y)
    found, best = model.predict_proba(X), model.set_params(decoding="viterbi").predict(X)
    # L-BFGS and friends see the attributes in another order, so sums differ in their last digits.
    for x, p, path in zip(X, found, best, strict=True):
        np.testing.assert_allclose(p, marginals(tagger, letters(x), model.classes_), atol=2e-3)
        assert path.tolist() == tagger.tag(letters(x))


def test_weights_are_read_to_the_last_digit(tmp_path):
    X, y = chains(20, lengths=(1, 9))
    model = LinearCRF(window=1, c2=0.1).fit(X, y)
    batch = as_batch(X)
    columns = fit_columns(batch, 1)
    rows = columns.transform(batch)
    labels = np.searchsorted(model.classes_, np.concatenate(y)).astype(np.int32)
    content = crfsuite.train(columns, rows, labels, "lbfgs", {"c2": 0.1, "feature.possible_transitions": True})
    (tmp_path / "model").write_bytes(content)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    weights, table = crfsuite.read_weights(content, columns, 3)
    info = tagger.info()
    for (a, b), weight in info.transitions.items():
        assert table[1 + int(a), int(b)] == pytest.approx(weight, abs=1e-6)
    assert (table[0] == 0).all()
    assert len(info.state_features) == len(weights.value)
    for (attribute, label), weight in info.state_features.items():
        f = int(attribute)
        span = slice(weights.start[f], weights.start[f + 1])
        assert weights.value[span][weights.label[span] == int(label)] == pytest.approx(weight, abs=1e-6)
    # the same bits were trained on, so posteriors agree as far as single precision goes
    for x, p in zip(crfsuite.attributes(columns, rows), model.predict_proba(X), strict=True):
        np.testing.assert_allclose(p, marginals(tagger, x, ["0", "1", "2"]), atol=1e-5)


def test_numbers_are_standardised_and_missing_ones_marked():
    X, y = chains(30, lengths=(3, 9))
    shifted = [x * [1000, 1] + [5000, 0] for x in X]
    plain, moved = LinearCRF(window=0).fit(X, y), LinearCRF(window=0).fit(shifted, y)
    np.testing.assert_allclose(
        np.concatenate(plain.predict_proba(X)), np.concatenate(moved.predict_proba(shifted)), atol=1e-3
    )
    X[0][:, 0] = np.nan
    assert np.isfinite(LinearCRF().fit(X, y).score(X, y))


def test_sparse_rows():
    X, y = words(40)
    alphabet = sorted(set("".join(X)))
    rows = [sp.csr_array(np.array([[c == a for a in alphabet] for c in word], dtype=float)) for word in X]
    assert LinearCRF().fit(rows, y).score(rows, y) == 1.0


def test_contract(tmp_path):
    model = check_labeler(LinearCRF(max_iter=30), tmp_path=tmp_path)
    assert model.transition_scores_.shape == (3, 3)
    assert model.n_weights_ > 0
    X, y = chains(5)
    paths = model.predict_kbest(X, k=2)
    assert model.log_prob(X[:1], [paths[0][0][0]])[0] == pytest.approx(paths[0][0][1], abs=1e-6)


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks([LinearCRF(max_iter=20)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_prediction_and_files_need_no_crfsuite(tmp_path, monkeypatch):
    X, y = words(20)
    model = LinearCRF().fit(X, y)
    model.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "pycrfsuite", None)
    assert LinearCRF.load(tmp_path / "model").score(X, y) == model.score(X, y)
    with pytest.raises(ImportError, match=r"pip install 'seqboost\[crfsuite\]'"):
        LinearCRF().fit(X, y)


def test_errors():
    X, y = words(10)
    with pytest.raises(ValueError, match="'algorithm' parameter of LinearCRF must be one of 'lbfgs', 'l2sgd'"):
        LinearCRF(algorithm="newton").fit(X, y)
    with pytest.raises(ValueError, match="CRFsuite's algorithm 'arow' has no parameter 'c3'; it has .*variance"):
        LinearCRF(algorithm="arow", algorithm_params={"c3": 1}).fit(X, y)
    with pytest.raises(ValueError, match="'algorithm_params' parameter of LinearCRF must be a dict"):
        LinearCRF(algorithm_params=[1]).fit(X, y)
    hidden = [[None] * len(labels) if i == 3 else list(labels) for i, labels in enumerate(y)]
    hidden[4][0] = None
    with pytest.raises(ValueError, match=r"LinearCRF needs every label, but y\[4\] has an unobserved one.*use TreeCRF"):
        LinearCRF().fit(X, hidden)
