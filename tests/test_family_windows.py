"""Sliding windows, plain and recurrent."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from family_data import EXPECTED_FAILURES, FLAT, NO_ARRAY_API, check_labeler, words
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from treecrf_data import all_equal, chains

from seqboost import RecurrentSlidingWindow, SlidingWindow, as_batch
from seqboost.estimators.family.matrices import CodeWindows, IndicatorWindows
from seqboost.features import FeatureBinner
from seqboost.linear import LinearColumns, LinearWeights

TREES = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=1, random_state=0)


def windows_by_hand(X, window):
    """Return windows of numbers, position by position."""
    rows = []
    for sequence in X:
        for t in range(len(sequence)):
            row = []
            for column in range(sequence.shape[1]):
                for o in window:
                    row.append(sequence[t + o, column] if 0 <= t + o < len(sequence) else np.nan)
            rows.append(row)
    return np.array(rows)


def test_code_windows_are_windows():
    X = [x.astype(np.float32).astype(np.float64) for x in chains(8, lengths=(1, 6))[0]]  # to which they are rounded
    X[0][0, 1] = np.nan
    batch = as_batch(X)
    found = CodeWindows.fit(batch, FeatureBinner.fit(batch, window=[-2, 0, 1])).transform(batch)
    np.testing.assert_array_equal(found, windows_by_hand(X, [-2, 0, 1]))


def test_codes_of_categories():
    batch = as_batch(["abb", "b"])
    windows = CodeWindows.fit(batch, FeatureBinner.fit(batch, window=1))
    assert windows.is_category.all()
    # b is the most frequent: 0; a: 1; beyond the end: 2
    np.testing.assert_array_equal(windows.transform(batch), [[2, 1, 0], [1, 0, 0], [0, 0, 2], [2, 0, 2]])
    np.testing.assert_array_equal(windows.transform(as_batch(["xa"])), [[2, np.nan, 1], [np.nan, 1, 2]])


def test_the_rarest_of_very_many_categories_are_missing():
    X = [[f"w{i}"] for i in range(300)] + [["w299"]] * 3
    batch = as_batch(X)
    found = CodeWindows.fit(batch, FeatureBinner.fit(batch)).transform(batch)[:, 0]
    assert np.isnan(found).sum() == 300 - 252
    assert (found[-3:] == 0).all()


def test_sparse_columns_of_code_windows():
    dense = np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]])
    batch = as_batch([sp.csr_array(dense[:2]), sp.csr_array(dense[2:])])
    windows = CodeWindows.fit(batch, FeatureBinner.fit(batch, window=[0, 1]))
    np.testing.assert_array_equal(windows.transform(batch), [[0, 2, 1, 0], [1, 0, 0, 0], [0, 3, 0, 0]])
    assert windows.is_category.tolist() == [False] * 4


@pytest.mark.parametrize("form", ["numbers", "letters", "sparse"])
def test_indicator_windows_are_what_linear_weights_see(form):
    rng = np.random.default_rng(0)
    X, _ = chains(9, lengths=(1, 6))
    sparse = [sp.csr_array(x * (rng.random(x.shape) < 0.5)) for x in X]
    X = {"numbers": X, "letters": words()[0], "sparse": sparse}[form]
    batch = as_batch(X)
    columns = LinearColumns.fit(batch, FeatureBinner.fit(batch, window=2))
    matrix = IndicatorWindows(columns).transform(batch)
    n_features, n_labels = columns.n_features, 3
    value = rng.normal(size=(n_features, n_labels)).astype(np.float32)
    start = np.arange(0, n_features * n_labels + 1, n_labels)
    label = np.tile(np.arange(n_labels, dtype=np.int32), n_features)
    weights = LinearWeights(columns, n_labels, start, label, value.ravel())
    scores = weights.scores(columns.transform(batch))[:, :, 0].T
    np.testing.assert_allclose(matrix @ value, scores, atol=1e-4)


def test_sliding_window_is_the_classifier_on_windows():
    X, y = chains(15, lengths=(1, 8))
    matrix, flat = windows_by_hand(X, [-1, 0, 1]), np.concatenate(y)
    direct = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=1, random_state=0).fit(matrix, flat)
    model = SlidingWindow(TREES, window=1).fit(X, y)
    np.testing.assert_array_equal(np.concatenate(model.predict(X)), direct.predict(matrix))
    np.testing.assert_allclose(np.concatenate(model.predict_proba(X)), direct.predict_proba(matrix))


@pytest.mark.parametrize(
    "estimator", [None, DecisionTreeClassifier(), RandomForestClassifier(5), LogisticRegression(), BernoulliNB()]
)
def test_any_classifier(estimator):
    X, y = words(60)
    assert SlidingWindow(estimator, window=1).fit(X, y).score(X, y) > 0.9


def test_histogram_trees_are_told_of_categories():
    model = SlidingWindow(TREES, window=0).fit(*words(30))
    assert model.estimator_.is_categorical_.tolist() == [True]
    own = SlidingWindow(HistGradientBoostingClassifier(max_iter=2, categorical_features=[]), window=0).fit(*words(30))
    assert own.estimator_.categorical_features == []  # what the user asked for stays


def test_a_classifier_without_probabilities():
    X, y = words(40)
    model = SlidingWindow(LinearSVC(), window=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert not hasattr(model, "predict_proba")
    assert RecurrentSlidingWindow(LinearSVC(), window=0).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("kind", [SlidingWindow, RecurrentSlidingWindow])
def test_contract(kind, tmp_path):
    model = check_labeler(kind(DecisionTreeClassifier(random_state=0)), saves=False)
    with pytest.raises(TypeError, match=r"holds a classifier of scikit-learn.*joblib.dump\(model, path\)"):
        model.save(tmp_path / "model")
    joblib.dump(model, tmp_path / "model.joblib")
    X, _ = chains(5)
    assert all_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))


@pytest.mark.filterwarnings(FLAT, NO_ARRAY_API)
@parametrize_with_checks(
    [kind(DecisionTreeClassifier(random_state=0)) for kind in (SlidingWindow, RecurrentSlidingWindow)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_unobserved_labels_and_weights():
    X, y = words(40)
    hidden = [[None if t == 1 else c for t, c in enumerate(marks)] for marks in y]
    for kind in (SlidingWindow, RecurrentSlidingWindow):
        assert kind(TREES).fit(X, hidden).score(X, y) > 0.9
        twice = kind(DecisionTreeClassifier(random_state=0)).fit(X + X[:5], y + y[:5])
        weighted = kind(DecisionTreeClassifier(random_state=0)).fit(X, y, sample_weight=[2] * 5 + [1] * 35)
        assert all_equal(twice.predict(X), weighted.predict(X))


def test_errors():
    X, y = words(10)
    with pytest.raises(ValueError, match="'estimator' parameter of SlidingWindow must be a classifier.*Got 'trees'"):
        SlidingWindow("trees").fit(X, y)
    with pytest.raises(ValueError, match="'encoding' parameter of SlidingWindow must be one of 'auto', 'codes'"):
        SlidingWindow(encoding="dense").fit(X, y)
    with pytest.raises(ValueError, match="'direction' parameter of RecurrentSlidingWindow"):
        RecurrentSlidingWindow(direction="up").fit(X, y)
    with pytest.raises(TypeError, match="sample_weight was given, but KNeighborsClassifier.fit takes none"):
        SlidingWindow(KNeighborsClassifier(2)).fit(X, y, sample_weight=np.arange(1, 11))


# ------------------------------------------------------------------------------------------------------- recurrent


def read_by_hand(model, X, order, backwards):
    """Label sequence by sequence and position by position."""
    n_labels, answer = len(model.classes_), []
    for sequence in X:
        length = len(sequence)
        matrix = model._windows.transform(as_batch([sequence]))
        given = {}
        for t in reversed(range(length)) if backwards else range(length):
            lags = [given.get(t + lag if backwards else t - lag, n_labels) for lag in range(1, order + 1)]
            given[t] = int(model.estimator_.predict(np.append(matrix[t], lags)[None])[0])
        answer.append(model.classes_[[given[t] for t in range(length)]])
    return answer


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
@pytest.mark.parametrize("order", [1, 2])
def test_reading_is_step_by_step(direction, order):
    X, y = chains(15, lengths=(1, 7))
    model = RecurrentSlidingWindow(TREES, direction=direction, order=order, window=0).fit(X, y)
    assert all_equal(model.predict(X), read_by_hand(model, X, order, direction == "right_to_left"))


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_only_the_recurrent_window_can_alternate(direction):
    X, y = ["a" * n for n in (5, 8, 3, 6)], ["0101010101"[:n] for n in (5, 8, 3, 6)]
    if direction == "right_to_left":
        y = [labels[::-1] for labels in y]
    tree = DecisionTreeClassifier()
    assert SlidingWindow(tree, window=0).fit(X, y).score(X, y) < 0.7
    assert RecurrentSlidingWindow(tree, window=0, direction=direction).fit(X, y).score(X, y) == 1.0


@pytest.mark.parametrize("estimator", [TREES, LogisticRegression()])
def test_training_on_predicted_labels(estimator):
    # Labels stay, and the input says little: trained on true labels, the model trusts the label before too much.
    X, y = chains(60, lengths=(5, 30), stickiness=0.95)
    X = [x / 3 for x in X]
    X_test, y_test = chains(60, lengths=(5, 30), stickiness=0.95, seed=1)
    X_test = [x / 3 for x in X_test]
    predicted = RecurrentSlidingWindow(estimator, window=2, training="predicted", n_iter=2).fit(X, y)
    inside = RecurrentSlidingWindow(estimator, window=2, training="predicted", n_folds=None).fit(X, y)
    assert predicted.score(X_test, y_test) > 0.5
    assert inside.score(X_test, y_test) > 0.5
    assert not all_equal(predicted.predict_proba(X_test), inside.predict_proba(X_test))
