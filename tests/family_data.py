"""What the tests of the family share: data in several forms, and the contract of every labeller."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from treecrf_data import all_equal, chains

from seqboost import as_batch, load

SPARSE_CHECK = (
    "the check reads classifier_tags of everything that has predict_proba; labellers are no classifiers to "
    "scikit-learn, because GridSearchCV(cv=3) would then stratify by ragged y"
)
EXPECTED_FAILURES = {"check_estimator_sparse_array": SPARSE_CHECK, "check_estimator_sparse_matrix": SPARSE_CHECK}
FLAT = "ignore:X is one 2-D table of rows:UserWarning"
NO_ARRAY_API = "ignore::sklearn.exceptions.SkipTestWarning"


def words(n=12, seed=0):
    """Return words and a vowel mark for each letter, of lengths 1 to 7."""
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("abcdeo"), size=rng.integers(1, 8))) for _ in range(n)]
    return X, ["".join("v" if c in "aeo" else "c" for c in word) for word in X]


def check_labeler(model, *, saves=True, probabilities=True, tmp_path=None):
    """Check what every labeller promises: forms of input and answers, scikit-learn's tools, files."""
    X, y = chains(12, lengths=(1, 8))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    assert vars(clone(model)).keys() == model.get_params(deep=False).keys()
    fitted = clone(model)
    assert fitted.fit(X, y) is fitted
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.n_features_in_ == 2
    labels = fitted.predict(X)
    assert [len(part) for part in labels] == [len(part) for part in y]
    assert set(np.concatenate(labels)) <= set("abc")
    right = np.mean(np.concatenate(labels) == np.concatenate(y))
    assert fitted.score(X, y) == pytest.approx(right)
    assert all_equal(fitted.predict(as_batch(X)), labels)
    again = clone(model).fit(X, y)
    assert all_equal(again.predict(X), labels)
    if probabilities:
        found = fitted.predict_proba(X)
        assert [part.shape for part in found] == [(len(part), 3) for part in y]
        np.testing.assert_allclose(np.concatenate(found).sum(axis=1), 1, atol=1e-5)
    assert all_equal(pickle.loads(pickle.dumps(fitted)).predict(X), labels)
    found = cross_validate(model, X, y, cv=KFold(3), error_score="raise")
    assert np.isfinite(found["test_score"]).all()
    search = GridSearchCV(model, {"sequence": [None]}, cv=3, error_score="raise").fit(X, y)
    assert len(search.predict(X)) == 12
    letters, marks = words(30)
    spelled = clone(model).fit(letters, marks)
    assert spelled.score(letters, marks) > 0.8
    assert len(spelled.predict(["zzz"])[0]) == 3  # an unknown category is no error
    with pytest.raises(ValueError, match=r"y\[0\] has 1 labels but X\[0\] has"):
        clone(model).fit(letters, ["c"] * 30)
    with pytest.raises(ValueError, match="only one class"):
        clone(model).fit(letters, ["c" * len(word) for word in letters])
    if saves:
        for trained, data in ((fitted, X), (spelled, letters)):
            path = tmp_path / "model.seqboost"
            trained.save(path)
            loaded = load(path)
            assert type(loaded) is type(trained)
            assert all_equal(loaded.predict(data), trained.predict(data))
            if probabilities:
                assert all_equal(loaded.predict_proba(data), trained.predict_proba(data))
            assert repr(loaded) == repr(trained)
    return fitted
