"""TreeCRF among scikit-learn's tools."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import all_equal, chains, small

from seqboost import TreeCRF, as_batch

SPARSE_CHECK = (
    "the check reads classifier_tags of everything that has predict_proba; TreeCRF is no classifier to scikit-learn, "
    "because GridSearchCV(cv=3) would then stratify by ragged y. Sparse rows are tested in test_treecrf_inputs."
)
EXPECTED_FAILURES = {
    "check_estimator_sparse_array": SPARSE_CHECK,
    "check_estimator_sparse_matrix": SPARSE_CHECK,
}
# The checks know flat 2-D data only, about which fit warns: each row is then a sequence of its own.
FLAT = "ignore:X is one 2-D table of rows:UserWarning"
NO_ARRAY_API = "ignore::sklearn.exceptions.SkipTestWarning"


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks(
    [TreeCRF(max_iter=5, min_samples_leaf=1, max_leaf_nodes=8, early_stopping=False)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_flat_input_is_warned_about_once():
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    with pytest.warns(UserWarning, match=r"each row is taken as a sequence of one position.*pass \[X\]"):
        model = small().fit(X, y)
    assert model.predict(X).shape == (6,)  # no second warning: warnings are errors here
    assert model.predict_proba(X).shape == (6, 2)


def test_is_no_classifier_for_splitters():
    assert not is_classifier(TreeCRF())


def test_init_only_assigns():
    model = TreeCRF()
    assert vars(model) == model.get_params()
    odd = TreeCRF(learning_rate="nonsense", window=object)  # complaints come from fit
    assert odd.get_params()["learning_rate"] == "nonsense"


def test_clone_and_parameters():
    matrix = np.ones((3, 3), dtype=bool)
    model = small(window={"x0": (2, 0), "*": 1}, transitions=matrix)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params().keys() == model.get_params().keys()
    assert copy.window == {"x0": (2, 0), "*": 1}
    assert np.array_equal(copy.transitions, matrix)
    assert not hasattr(clone(model.fit(*chains())), "classes_")
    model.set_params(order=2, learning_rate=0.5)
    assert (model.order, model.learning_rate) == (2, 0.5)
    with pytest.raises(ValueError, match="Invalid parameter 'depth' for estimator TreeCRF"):
        model.set_params(depth=3)


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(TreeCRF()) == "TreeCRF()"
    assert repr(TreeCRF(order=2, window=(3, 0))) == "TreeCRF(order=2, window=(3, 0))"


def test_fit_returns_self_and_resets():
    model = small()
    X, y = chains()
    assert model.fit(X, y) is model
    first = model.predict_proba(X)
    X_other, y_other = chains(8, n_labels=4, n_columns=3, seed=1)
    model.fit(X_other, y_other)
    assert model.n_features_in_ == 3
    assert len(model.classes_) == 4
    assert model.n_iter_ == 4
    model.fit(X, y)
    assert all_equal(model.predict_proba(X), first)
    assert model.n_iter_ == len(model.history_["train_score"]) - 1 == 4


@pytest.mark.parametrize("form", ["arrays", "batch"])
def test_grid_search(form):
    X, y = chains(12)
    X = as_batch(X) if form == "batch" else X
    search = GridSearchCV(small(), {"window": [0, (1, 0)], "potentials": np.array(["joint", "factored"])}, cv=3)
    search.fit(X, y)
    assert search.cv_results_["split0_test_score"].shape == (4,)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_.potentials_ == search.best_params_["potentials"]
    assert len(search.predict(X)) == 12
    assert search.score(X, y) == search.best_estimator_.score(X, y)


def test_cross_validate_is_fit_and_score_by_hand():
    X, y = chains(9)
    found = cross_validate(small(), X, y, cv=KFold(3), return_train_score=True)
    parts = [list(range(i, i + 3)) for i in (0, 3, 6)]
    for score, train_score, test in zip(found["test_score"], found["train_score"], parts, strict=True):
        train = [i for i in range(9) if i not in test]
        model = small().fit([X[i] for i in train], [y[i] for i in train])
        assert score == model.score([X[i] for i in test], [y[i] for i in test])
        assert train_score == model.score([X[i] for i in train], [y[i] for i in train])


def test_cross_validate_slices_weights():
    X, y = chains(9)
    weights = np.arange(1.0, 10.0)
    found = cross_validate(small(), X, y, cv=KFold(3), params={"sample_weight": weights})
    model = small().fit(X[3:], y[3:], sample_weight=weights[3:])
    assert found["test_score"][0] == model.score(X[:3], y[:3])


def test_cross_val_predict_on_flat_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    with pytest.warns(UserWarning, match="each row is taken"):
        found = cross_val_predict(small(), X, (X[:, 0] > 0).astype(int), cv=3)
    assert ((found == 1) == (X[:, 0] > 0)).mean() > 0.8


class Doubled(TransformerMixin, BaseEstimator):
    """Doubles every number of every sequence."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return [2 * sequence for sequence in X]


def test_pipeline():
    X, y = chains()
    model = make_pipeline(Doubled(), small()).fit(X, y, treecrf__callbacks=[lambda progress: progress.iteration == 2])
    assert model[-1].n_iter_ == 2
    assert model.score(X, y) == model[-1].score([2 * sequence for sequence in X], y)
    assert len(Pipeline(model.steps).predict_proba(X)) == len(X)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_pickle_and_joblib_keep_every_bit(potentials, tmp_path):
    X, y = chains()
    model = small(potentials=potentials, window=1).fit(X, y)
    probabilities = model.predict_proba(X)  # before pickling: whatever prediction remembers must be picklable too
    joblib.dump(model, tmp_path / "model.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert all_equal(copy.predict_proba(X), probabilities)
        assert copy.history_ == model.history_
        assert copy.get_params() == model.get_params()
        copy.set_params(warm_start=True, max_iter=6).fit(X, y)
        assert copy.n_iter_ == 6
    unfitted = pickle.loads(pickle.dumps(small()))
    assert unfitted.max_iter == 4


def test_names_and_number_of_columns():
    X, y = chains()
    model = small().fit(X, y)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    table = pd.DataFrame({"series": [1, 1, 2, 2], "size": [1.0, 2, 3, 4], "kind": list("uvuv")})
    model.set_params(sequence="series").fit(table, [0, 1, 0, 1])
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["size", "kind"]
    model.set_params(sequence=None).fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    model.fit([[{"size": 1, "kind": "u"}, {"kind": "v"}]], [[0, 1]])
    assert sorted(model.feature_names_in_) == ["kind", "size"]


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.predict(["ab"]),
        lambda model: model.predict_proba(["ab"]),
        lambda model: model.predict_marginals(["ab"]),
        lambda model: model.predict_kbest(["ab"]),
        lambda model: model.log_prob(["ab"], ["01"]),
        lambda model: model.score(["ab"], ["01"]),
        lambda model: model.save("never_written.seqboost"),
        lambda model: model.transition_scores_,
    ],
    ids=["predict", "predict_proba", "predict_marginals", "predict_kbest", "log_prob", "score", "save", "transitions"],
)
def test_not_fitted(use):
    with pytest.raises(NotFittedError, match="This TreeCRF instance is not fitted yet"):
        use(TreeCRF())


def test_attributes_after_fit():
    X, y = chains(30)
    model = small(early_stopping=True, n_iter_no_change=2, max_iter=6).fit(X, y)
    rounds = model.n_iter_ + 1
    assert set(model.history_) == {
        "train_score", "train_accuracy", "validation_score", "validation_accuracy", "step", "evaluations", "seconds",
    }  # fmt: skip
    assert all(len(values) == rounds for values in model.history_.values())
    assert model.evals_result_ == {
        "training": {"log_likelihood": model.history_["train_score"], "accuracy": model.history_["train_accuracy"]},
        "validation": {
            "log_likelihood": model.history_["validation_score"],
            "accuracy": model.history_["validation_accuracy"],
        },
    }
    model.set_params(early_stopping=False).fit(X, y)
    assert sorted(model.history_) == ["evaluations", "seconds", "step", "train_accuracy", "train_score"]
    assert list(model.evals_result_) == ["training"]
    assert model.best_score_ == model.history_["train_score"][-1]
    assert model.transition_scores_.shape == (3, 3)
    assert np.allclose(np.exp(model.transition_scores_).sum(axis=1), 1)  # joint: the baseline, a chain of labels
    assert not hasattr(small(order=2).fit(X, y), "transition_scores_")


def test_history_scores_are_log_prob_and_score():
    X, y = chains(12)
    n_positions = sum(map(len, y))
    model = small().fit(X, y)
    assert model.history_["train_score"][-1] == pytest.approx(model.log_prob(X, y).sum() / n_positions, rel=1e-6)
    assert model.history_["train_accuracy"][-1] == pytest.approx(model.score(X, y))
