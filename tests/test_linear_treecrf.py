"""TreeCRF(init="linear"): the linear part in fit, prediction, warm starts and the model file."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from treecrf_data import all_equal, chains, small

from seqboost import TreeCRF, load
from seqboost.boosting import boost
from seqboost.exceptions import InputError, ModelFileError, ParameterError
from seqboost.linear.reference import reference_linear_scores
from seqboost.model.file import read_model, write_model
from seqboost.training import single, starting


def linear(**parameters):
    return small(**({"init": "linear", "window": 1} | parameters))


def words(n=30, seed=0):
    """Sentences of dicts whose words are mostly rare, and each word's stem tells its label."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(1, 7, n):
        labels = rng.integers(0, 3, length)
        X.append(
            [{"stem": "abc"[k], "word": f"{'abc'[k]}{rng.integers(30)}", "size": float(rng.normal())} for k in labels]
        )
        y.append([f"L{k}" for k in labels])
    return X, y


def sparse_rows(n=30, seed=0):
    X, y = words(n, seed)
    names = sorted({row["word"] for rows in X for row in rows})
    return [sp.csr_array([[float(row["word"] == name) for name in names] for row in rows]) for rows in X], y


def numbers(n=12, seed=0):
    X, y = chains(n=n, seed=seed)
    X[0][0, 0] = np.nan
    X[1][:, 1] = np.nan
    return X, y


FORMS = {
    "numbers": numbers,
    "dicts": words,
    "sparse": sparse_rows,
    "strings": lambda: ([*["banana", "tomato", "a"] * 5], [*["010101", "010101", "1"] * 5]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("order", "potentials"), [(0, "joint"), (1, "joint"), (1, "factored"), (2, "joint"), (2, "factored")]
)
def test_training_scores_are_those_of_prediction(form, order, potentials, tmp_path, monkeypatch):
    X, y = FORMS[form]()
    grown = []
    own = lambda task, weights, plan, seed: weights.scores(task.rows)  # noqa: E731
    monkeypatch.setattr(starting, "cross_scores", own)
    monkeypatch.setattr(
        single, "boost", lambda task, ensemble, *rest: grown.append(ensemble) or boost(task, ensemble, *rest)
    )
    model = linear(order=order, potentials=potentials).fit(X, y)
    batch, scored = model._potentials(X)
    complete = np.arange(batch.n_rows) - np.repeat(batch.offsets[:-1], batch.lengths) >= order
    assert np.array_equal(grown[0].scores[:, complete], scored.scores[:, complete])
    part = model._result.model.linear
    assert part is not None
    assert part.value.any()
    n = sum(map(len, y))
    assert model.history_["train_score"][-1] == pytest.approx(model.log_prob(X, y).sum() / n, rel=1e-5)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert all_equal(again.predict_proba(X), model.predict_proba(X))
    other = linear(order=order, potentials=potentials, n_jobs=3).fit(X, y)
    assert all_equal(other.set_params(n_jobs=1).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_log_likelihood_never_falls_and_starts_above_that_of_the_labels(potentials):
    X, y = words()
    scores = linear(potentials=potentials, max_iter=15).fit(X, y).history_["train_score"]
    assert np.all(np.diff(scores) >= 0)
    assert scores[0] > small(potentials=potentials).fit(X, y).history_["train_score"][0] + 0.1


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_rows_of_the_model_are_linear_part_and_trees(potentials):
    X, y = words()
    model = linear(potentials=potentials).fit(X, y)
    frozen, batch = model._result.model, model._batch(X)
    without = frozen.scored(frozen.binner.transform(batch), rows=frozen.linear.columns.transform(batch)).scores
    from_trees = without - np.array(reference_linear_scores(frozen.linear, batch)).T[:, :, None]
    forest = type(frozen)(frozen.binner, frozen.forest, frozen.table, frozen.end, frozen.order)
    second = batch.offsets[:-1][np.diff(batch.offsets) > 1] + 1  # positions whose context slots all exist
    expected = forest.scored(frozen.binner.transform(batch)).scores
    np.testing.assert_allclose(from_trees[:, second], expected[:, second], atol=1e-4)
    with pytest.raises(ParameterError, match="rows of the linear part must be given"):
        frozen.scored(frozen.binner.transform(batch))


def test_best_iteration_zero_is_the_linear_chain():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 2)) for _ in range(40)]
    noise = [rng.normal(size=6) for _ in X]
    y = [(x[:, 0] + 0.7 * e > 0).astype(int) for x, e in zip(X, noise, strict=True)]
    model = linear(max_iter=30, early_stopping=True, n_iter_no_change=3, learning_rate=50.0, l2_regularization=0.0)
    with pytest.warns(UserWarning, match=r"keeps no round.*from the linear start \(init_ is 'linear'\) alone"):
        model.fit(X, y)
    assert model.best_iteration_ == 0
    assert model._result.model.forest.n_trees == 0
    assert model.best_score_ == model.history_["validation_score"][0]
    assert model.score(X, y) > 0.7


def test_warm_start_goes_on_from_the_linear_part(tmp_path):
    X, y = words()
    cold = linear(max_iter=6).fit(X, y)
    warm = linear(max_iter=3, warm_start=True).fit(X, y)
    part = warm._result.model.linear
    warm.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for model in (warm, loaded):
        model.set_params(max_iter=6).fit(X, y)
        assert all_equal(model.predict_proba(X), cold.predict_proba(X))
    assert warm._result.model.linear is part
    with pytest.raises(ParameterError, match="'init' parameter was 'linear' in the last fit"):
        warm.set_params(init="labels").fit(X, y)


def test_warm_start_on_other_sequences_begins_with_the_scores_of_the_model(monkeypatch):
    X, y = words(60)
    warm = linear(max_iter=3, warm_start=True).fit(X[:30], y[:30])
    monkeypatch.setattr(starting, "cross_scores", None)
    warm.set_params(max_iter=6).fit(X[30:], y[30:])
    assert warm.n_iter_ == 6


def test_unknown_categories_and_new_sparse_values_at_prediction():
    X, y = words()
    model = linear().fit(X, y)
    new = [[{"stem": "zzz", "word": "never", "size": None}, {"stem": "a", "word": "a1", "size": 1e30}]]
    probabilities = model.predict_proba(new)[0]
    assert np.isfinite(probabilities).all()
    assert probabilities[1].argmax() == 0


@pytest.mark.filterwarnings("ignore:TreeCRF keeps no round of boosting.*the linear start")
def test_rare_columns_that_trees_cannot_use_are_used():
    rng = np.random.default_rng(0)
    stems = [f"s{i}" for i in range(150)]
    kind = rng.integers(0, 2, 150)
    drawn = [rng.integers(0, 150, 10) for _ in range(100)]
    X, y = [[[stems[i]] for i in rows] for rows in drawn], [kind[rows] for rows in drawn]
    parameters = {"min_samples_leaf": 20, "early_stopping": "auto", "window": 0, "categorical_splits": "one_vs_rest"}
    held = slice(80, None)
    scores = [
        small(init=init, **parameters).fit(X[:80], y[:80]).score(X[held], y[held]) for init in ("labels", "linear")
    ]
    assert scores[1] > 0.95
    assert scores[1] > scores[0] + 0.1


def test_class_weight_and_sample_weight_move_the_linear_part():
    X, y = numbers(n=30)
    plain = linear(max_iter=1).fit(X, y)
    heavy = linear(max_iter=1, class_weight={"a": 50.0, "b": 1.0, "c": 1.0}).fit(X, y)
    share = [np.mean(np.concatenate(m.predict(X)) == "a") for m in (plain, heavy)]
    assert share[1] > share[0]
    sample_weight = np.where(np.arange(30) % 2, 1.0, 0.0)
    weighted = linear(max_iter=1).fit(X, y, sample_weight)
    only = linear(max_iter=1).fit(X[1::2], y[1::2])
    assert all_equal(weighted.predict_proba(X), only.predict_proba(X))


def test_forbidden_transitions():
    X, y = words()
    y = [["O" if label == "L0" else "B-x" if label == "L1" or not t else "B-x" for t, label in enumerate(s)] for s in y]
    y[3] = ["I-x"] * len(y[3])
    with pytest.raises(InputError, match=r"y\[3\] .*which transitions=... forbids"):
        linear(transitions="IOB2").fit(X, y)
    y[3] = ["B-x", *["I-x"] * (len(y[3]) - 1)]
    model = linear(transitions="IOB2").fit(X, y)
    assert np.isfinite(model.log_prob(X, y)).all()


def test_unobserved_labels():
    X, y = words()
    y[0] = [None] * len(y[0])
    y[1] = [None, *y[1][1:]]
    assert linear().fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("init", ["zero", None, 1, True])
def test_init_is_checked(init):
    with pytest.raises(ParameterError, match="'init' parameter of TreeCRF must be one of 'auto', 'labels', 'linear'"):
        TreeCRF(init=init).fit(*numbers())


def test_files_without_a_linear_part_load_and_damaged_ones_are_refused(tmp_path):
    X, y = words()
    path = tmp_path / "model"
    small().fit(X, y).save(path)
    header, arrays = read_model(path)
    assert not any(name.startswith("linear.") for name in arrays)
    del header["parameters"]["init"], header["lasting"]["init"]  # as files were before there was a linear part
    write_model(path, header, arrays)
    assert load(path).init == "labels"
    model = linear().fit(X, y)
    model.save(path)
    header, arrays = read_model(path)
    for name, damaged in (
        ("linear.value", arrays["linear.value"][:-1]),
        ("linear.label", arrays["linear.label"] + 100),
        ("linear.columns_feature_of", arrays["linear.columns_feature_of"] + 1000),
    ):
        write_model(path, header, arrays | {name: damaged})
        with pytest.raises(ModelFileError, match="the linear part of this model makes no sense"):
            load(path)
