"""What must be the same, however it is done: threads, restarts, order, files; and what must only rise."""

from __future__ import annotations

import json
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import Method, TreeCRF
from seqboost.boosting import tree_columns
from seqboost.exceptions import ModelFileError, ParameterError
from seqboost.model import write_model
from seqboost.sequences import LabelCoder, as_batch
from seqboost.training import methods as methods_module
from seqboost.training.dataset import Dataset
from seqboost.training.holdout import hold_out, hold_out_blocks

BOTH = pytest.mark.parametrize("potentials", ["joint", "factored"])


def sticky(n=20, length=60, seed=0, stay=0.96, n_labels=3):
    """Return noisy sensor-like sequences whose labels hardly ever change."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = [int(rng.integers(n_labels))]
        while len(labels) < length:
            labels.append(labels[-1] if rng.random() < stay else int(rng.integers(n_labels)))
        rows = np.array(labels)[:, None] * 0.7 + rng.normal(size=(length, 2))
        X.append(np.where(rng.random(rows.shape) < 0.1, np.nan, rows))
        y.append(labels)
    return X, y


def file_of(model, path):
    """Return the model's file, without the wall-clock times in it."""
    model.set_params(n_jobs=None)
    lists = model._result.history.lists
    lists["seconds"] = [0.0] * len(lists["seconds"])
    model.save(path)
    return path.read_bytes()


@BOTH
@pytest.mark.parametrize("max_features", [1.0, 0.5])
def test_any_number_of_threads_gives_the_same_file(potentials, max_features, tmp_path):
    # more than one chunk of 4096 positions: sums over chunks must not depend on threads either
    X, y = sticky(n=30, length=300)
    parameters = {"potentials": potentials, "window": 1, "max_features": max_features, "early_stopping": True}
    files = [file_of(small(**parameters, n_jobs=n_jobs).fit(X, y), tmp_path / "model") for n_jobs in (1, 2, 3)]
    assert files[0] == files[1] == files[2]
    model = seqboost.load(tmp_path / "model")
    assert all_equal(model.set_params(n_jobs=1).predict_proba(X), model.set_params(n_jobs=2).predict_proba(X))
    assert np.array_equal(model.set_params(n_jobs=1).log_prob(X, y), model.set_params(n_jobs=2).log_prob(X, y))


@BOTH
@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("max_features", [1.0, 0.5])
def test_warm_start_is_cold_start(potentials, early_stopping, max_features):
    X, y = chains(24)
    parameters = {
        "potentials": potentials, "early_stopping": early_stopping, "max_features": max_features,
        "n_iter_no_change": 5, "learning_rate": 0.8, "refit": False, "random_state": 1,
    }  # fmt: skip
    cold = small(**parameters, max_iter=9).fit(X, y)
    warm = small(**parameters, max_iter=2, warm_start=True).fit(X, y)
    for max_iter in (3, 6, 9):
        warm.set_params(max_iter=max_iter).fit(X, y)
    assert warm.n_iter_ == cold.n_iter_
    assert warm.best_iteration_ == cold.best_iteration_
    assert all_equal(warm.predict_proba(X), cold.predict_proba(X))
    for name in ("train_score", "train_accuracy", "step", *(["validation_score"] if early_stopping else [])):
        assert warm.history_[name] == cold.history_[name]


def test_warm_start_after_load(tmp_path):
    X, y = chains(24)
    parameters = {"early_stopping": True, "max_features": 0.5, "window": range(-1, 2), "refit": False}
    cold = small(**parameters, max_iter=6).fit(X, y)
    small(**parameters, max_iter=3, warm_start=True).fit(X, y).save(tmp_path / "model")
    warm = seqboost.load(tmp_path / "model").set_params(max_iter=6).fit(X, y)
    assert all_equal(warm.predict_proba(X), cold.predict_proba(X))


def test_warm_start_without_more_rounds_changes_nothing():
    X, y = chains()
    model = small(warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    assert all_equal(model.fit(X, y).predict_proba(X), before)
    assert all_equal(model.set_params(max_iter=1).fit(X, y).predict_proba(X), before)
    assert model.n_iter_ == 4


def test_warm_start_may_begin_or_end_validation(tmp_path):
    X, y = chains(24)
    X_val, y_val = chains(8, seed=1)
    model = small(warm_start=True, max_iter=3).fit(X, y)
    model.set_params(max_iter=8, early_stopping=True, n_iter_no_change=2).fit(X, y, X_val=X_val, y_val=y_val)
    scores = np.array(model.history_["validation_score"])
    assert len(scores) == model.n_iter_ + 1
    assert np.isnan(scores[:3]).all()
    assert np.isfinite(scores[3:]).all()
    assert model.best_iteration_ == 3 + np.argmax(scores[3:]) >= 3
    assert model.best_score_ == scores[model.best_iteration_]
    n_positions = sum(map(len, y_val))
    assert model.log_prob(X_val, y_val).sum() / n_positions == pytest.approx(model.best_score_, rel=1e-6)
    model.save(tmp_path / "model")
    assert np.array_equal(seqboost.load(tmp_path / "model").history_["validation_score"], scores, equal_nan=True)
    kept = model.best_iteration_
    model.set_params(max_iter=kept + 2, early_stopping=False).fit(X, y)
    assert "validation_score" not in model.history_
    assert model.best_iteration_ == model.n_iter_ == kept + 2


@pytest.mark.parametrize(
    "change",
    [{"order": 2}, {"potentials": "factored"}, {"window": 1}, {"max_bins": 16}, {"transitions": "seen"},
     {"transitions": np.ones((3, 3))}, {"class_weight": "balanced"}, {"categorical_features": [0]}],
    ids=str,
)  # fmt: skip
def test_warm_start_refuses_another_model(change):
    X, y = chains()
    model = small(warm_start=True).fit(X, y)
    with pytest.raises(ParameterError, match=f"'{next(iter(change))}' parameter was .* in the last fit"):
        model.set_params(**change, max_iter=6).fit(X, y)


@BOTH
@pytest.mark.parametrize("order", [0, 1, 2])
def test_scores_kept_in_training_are_those_of_the_model(potentials, order, monkeypatch):
    ensembles = []

    class Watched(methods_module.Ensemble):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            ensembles.append(self)

    monkeypatch.setattr(methods_module, "Ensemble", Watched)
    X, y = chains(14, lengths=(1, 9))
    X = [np.where(np.random.default_rng(i).random(x.shape) < 0.1, np.nan, x) for i, x in enumerate(X)]
    model = small(potentials=potentials, order=order, window=1, max_iter=8).fit(X, y)
    frozen = model._result.model
    scored = frozen.scored(frozen.binner.transform(model._batch(X)))
    space, offsets = scored.space, scored.offsets
    exists = np.zeros(scored.scores.shape[1:], dtype=bool)
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        for t in range(stop - start):
            exists[start + t, : space.n_existing(t) if scored.scores.shape[2] > 1 else 1] = True
    assert len(frozen.forest.value) > 8
    assert np.array_equal(ensembles[0].scores[:, exists], scored.scores[:, exists])
    assert np.array_equal(ensembles[0].table, frozen.table)


@BOTH
def test_the_order_of_sequences_does_not_matter(potentials):
    X, y = chains(20)
    shuffled = np.random.default_rng(1).permutation(20)
    model = small(potentials=potentials, window=1).fit(X, y)
    other = small(potentials=potentials, window=1).fit([X[i] for i in shuffled], [y[i] for i in shuffled])
    for a, b in zip(model.predict_proba(X), other.predict_proba(X), strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6)


@BOTH
@pytest.mark.parametrize("curvature", ["mixing", "newton", "count"])
def test_weight_two_is_repetition(potentials, curvature):
    X, y = chains(12)
    weights = np.random.default_rng(0).integers(1, 4, 12)
    heavy = small(potentials=potentials, curvature=curvature).fit(X, y, sample_weight=weights)
    many = small(potentials=potentials, curvature=curvature).fit(
        [x for x, n in zip(X, weights, strict=True) for _ in range(n)],
        [labels for labels, n in zip(y, weights, strict=True) for _ in range(n)],
    )
    plain = small(potentials=potentials, curvature=curvature).fit(X, y)
    found, expected, other = (np.concatenate(model.predict_proba(X)) for model in (heavy, many, plain))
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert not np.allclose(found, other, rtol=1e-2)
    assert np.allclose(heavy.history_["train_score"], many.history_["train_score"])


def test_early_stopping_keeps_the_best_round():
    X, y = chains(30, n_columns=1)
    X_val, y_val = chains(15, n_columns=1, seed=1)
    parameters = {"learning_rate": 1.0, "max_leaf_nodes": 20, "curvature": "newton", "early_stopping": "auto"}
    model = small(**parameters, max_iter=60, n_iter_no_change=5).fit(X, y, X_val=X_val, y_val=y_val)
    scores = model.history_["validation_score"]
    assert len(scores) == model.n_iter_ + 1 < 60
    assert model.best_iteration_ == np.argmax(scores) == model.n_iter_ - 5
    assert model.best_score_ == max(scores)
    n_positions = sum(map(len, y_val))
    assert model.log_prob(X_val, y_val).sum() / n_positions == pytest.approx(max(scores), rel=1e-6)
    assert model.history_["validation_accuracy"][model.best_iteration_] == pytest.approx(model.score(X_val, y_val))
    shorter = small(**parameters | {"early_stopping": False}, max_iter=model.best_iteration_).fit(X, y)
    assert all_equal(model.predict_proba(X_val), shorter.predict_proba(X_val))
    for same in ({"eval_set": [(X_val, y_val)]}, {"eval_set": (X_val, y_val)}, {"eval_set": [[X_val, y_val]]}):
        other = small(**parameters, max_iter=60, n_iter_no_change=5).fit(X, y, **same)
        assert other.history_["validation_score"] == scores
        assert all_equal(other.predict_proba(X), model.predict_proba(X))


@pytest.mark.filterwarnings("ignore:TreeCRF keeps no round")
@BOTH
def test_validation_sequences_do_not_influence_the_trees(potentials):
    X, y = chains(15)
    X_val, y_val = chains(9, seed=5)
    plain = small(potentials=potentials, window=1).fit(X, y)
    watched = small(potentials=potentials, window=1).fit(X, y, X_val=[x * 3 for x in X_val], y_val=y_val)
    assert watched.history_["train_score"] == plain.history_["train_score"]
    assert len(watched.history_["validation_score"]) == 5
    assert all_equal(watched.predict_proba(X), plain.predict_proba(X))
    held = small(potentials=potentials, early_stopping=True, n_iter_no_change=50).fit(X, y)
    assert held.best_iteration_ <= held.n_iter_ == 4


def test_weights_of_validation_sequences():
    X, y = chains(10)
    X_val, y_val = chains(3, seed=2)
    model = small().fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=[1.0, 0.0, 2.0])
    log_p, lengths = model.log_prob(X_val, y_val), np.array([len(labels) for labels in y_val])
    expected = (log_p[0] + 2 * log_p[2]) / (lengths[0] + 2 * lengths[2])
    assert model.history_["validation_score"][-1] == pytest.approx(expected, rel=1e-6)


def test_whole_sequences_are_held_out():
    X, y = chains(30)
    model = small(early_stopping=True, validation_fraction=0.3, n_iter_no_change=9, refit=False).fit(X, y)
    kept, held = hold_out(30, 0.3, model._result.config.seed)
    assert len(held) == 9
    assert sorted([*kept, *held]) == list(range(30))
    n_positions = sum(len(y[i]) for i in held)
    log_p = model.log_prob([X[i] for i in held], [y[i] for i in held]).sum()
    assert log_p / n_positions == pytest.approx(model.best_score_, rel=1e-6)
    by_hand = small(early_stopping=True, n_iter_no_change=9).fit(
        [X[i] for i in kept], [y[i] for i in kept], X_val=[X[i] for i in held], y_val=[y[i] for i in held]
    )
    assert all_equal(by_hand.predict_proba(X), model.predict_proba(X))


def test_auto_stopping_depends_on_the_number_of_sequences():
    few, many = chains(19), chains(20)
    assert "validation_score" not in small(early_stopping="auto").fit(*few).history_
    assert "validation_score" in small(early_stopping="auto").fit(*many).history_


def test_blocks_of_few_long_sequences_are_held_out():
    X, y = chains(600)
    X, y = [np.concatenate(X[:300]), np.concatenate(X[300:])], [np.concatenate(y[:300]), np.concatenate(y[300:])]
    model = small(early_stopping="auto", n_iter_no_change=9).fit(X, y)
    assert "validation_score" in model.history_
    batch, labels = as_batch(X), LabelCoder.from_classes(model.classes_)
    whole = Dataset(batch, labels.encode(y, batch), np.array([1.0, 2.0]))
    kept, held = hold_out_blocks(whole, 0.1, model._result.config.seed)
    assert kept.batch.n_rows + held.batch.n_rows == batch.n_rows
    assert abs(held.batch.n_rows - 0.1 * batch.n_rows) < 0.03 * batch.n_rows
    assert min(held.batch.lengths) >= 100
    rows = {tuple(row) for row in held.batch.numeric}
    assert rows.isdisjoint(tuple(row) for row in kept.batch.numeric)
    for part in (kept, held):  # pieces keep the weights and labels of the sequences they come from
        for i in range(part.batch.n_sequences):
            source = X[part.numbers[i]]
            piece = part.batch[i].numeric
            start = int(np.flatnonzero((source == piece[0]).all(axis=1))[0])
            np.testing.assert_array_equal(source[start : start + len(piece)], piece)
            first = part.batch.offsets[i]
            expected = model.classes_[part.labels[first : first + len(piece)]]
            np.testing.assert_array_equal(y[part.numbers[i]][start : start + len(piece)], expected)
            assert part.weights[i] == part.numbers[i] + 1


def test_a_sequence_is_not_cut_where_transitions_have_rules():
    X, y = chains(600)
    X, y = [np.concatenate(X)], [np.concatenate(y)]
    assert "validation_score" in small(early_stopping=True).fit(X, y).history_
    assert "validation_score" not in small(early_stopping="auto", transitions="seen").fit(X, y).history_
    with pytest.raises(ParameterError, match="needs sequences to hold out, but X has only one, which cannot be cut"):
        small(early_stopping=True, transitions="seen").fit(X, y)


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_a_warm_start_may_bring_new_categories(trees):
    words, labels = ["abab", "baab", "bbaa"] * 8, ["0101", "1001", "1100"] * 8
    model = small(window=1, warm_start=True, trees=trees, max_iter=3).fit(words, labels)
    new = [word.replace("b", "z") for word in words] + words
    model.set_params(max_iter=6).fit(new, labels + labels)
    binned = model._result.model.binner.transform(as_batch(new, schema=model._schema))
    dense, _ = tree_columns(binned)
    largest = [binned.codes.reshape(-1)[dense.address + d].max() for d in dense.displacement]
    assert np.all(largest < np.diff(dense.cell_start))  # every code has a cell of its own feature
    assert np.max(largest - dense.n_values) == 2  # and there were unknown ones
    found = model.log_prob(new, labels + labels).sum() / (4 * len(new))
    assert found == pytest.approx(model.history_["train_score"][-1], rel=1e-5)
    assert model.history_["train_score"][-1] > model.history_["train_score"][3]


def test_random_state():
    X, y = chains(30)
    parameters = {"early_stopping": True, "max_features": 0.5}
    a, b = (small(**parameters, random_state=7).fit(X, y) for _ in range(2))
    assert all_equal(a.predict_proba(X), b.predict_proba(X))
    assert not all_equal(a.predict_proba(X), small(**parameters, random_state=8).fit(X, y).predict_proba(X))
    state = np.random.RandomState(7)
    first, second = (small(**parameters, random_state=state).fit(X, y) for _ in range(2))
    assert all_equal(first.predict_proba(X), a.predict_proba(X))
    assert not all_equal(second.predict_proba(X), a.predict_proba(X))


def test_callbacks_are_told_and_can_stop():
    X, y = chains()
    told, other = [], []

    def stop_at_three(progress):
        told.append(progress)
        return progress.iteration == 3

    model = small(max_iter=9).fit(X, y, callbacks=[stop_at_three, other.append])
    assert [progress.iteration for progress in told] == [1, 2, 3]
    assert len(other) == 3  # the last one is asked too, though the first one already said stop
    assert model.n_iter_ == model.best_iteration_ == 3
    assert all(progress.max_iter == 9 for progress in told)
    assert [progress.record["train_score"] for progress in told] == model.history_["train_score"][1:]
    assert small().fit(X, y, callbacks=None).n_iter_ == 4
    assert small().fit(X, y, callbacks=lambda progress: True).n_iter_ == 1


def test_an_error_in_a_callback_leaves_the_earlier_model():
    X, y = chains()
    model = small().fit(X, y)
    before, attributes = model.predict_proba(X), set(vars(model))

    def fail(progress):
        raise RuntimeError("no more power")

    with pytest.raises(RuntimeError, match="no more power"):
        model.fit(*chains(8, n_labels=4, n_columns=3, seed=1), callbacks=[fail])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 2
    assert set(vars(model)) == attributes
    assert all_equal(model.predict_proba(X), before)
    fresh = small()
    with pytest.raises(RuntimeError, match="no more power"):
        fresh.fit(X, y, callbacks=[fail])
    assert vars(fresh) == fresh.get_params()


def test_silence_by_default(capfd):
    X, y = chains(24)
    small(early_stopping=True).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_a_bar_when_asked(capfd, caplog):
    X, y = chains(24)
    small(verbose=1, early_stopping=True).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "8/8 refit: train log-likelihood" in err  # one bar for both trainings
    assert caplog.messages == []
    small(verbose=2).fit(X, y)
    assert capfd.readouterr().out == ""
    assert [line.split()[0] for line in caplog.messages[2:6]] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    small(verbose=True).fit(X, y)
    assert "4/4" in capfd.readouterr().err


@BOTH
@pytest.mark.parametrize("unobserved", [0.0, 0.3])
def test_the_log_likelihood_never_falls(potentials, unobserved):
    X, y = sticky()
    rng = np.random.default_rng(1)
    y = [[None if rng.random() < unobserved else label for label in labels] for labels in y]
    model = small(potentials=potentials, learning_rate=1.0, max_iter=60, max_leaf_nodes=15, min_samples_leaf=5)
    scores = model.fit(X, y).history_["train_score"]
    assert model.n_iter_ == 60
    assert np.all(np.diff(scores) >= 0)
    assert scores[-1] > scores[0] + 0.05


@BOTH
def test_all_but_the_curvature_of_the_papers_halve_steps(potentials):
    X, y = chains(12)
    first = 1.0 if potentials == "joint" else 0.5
    for curvature in ("mixing", "newton"):
        safe = small(potentials=potentials, learning_rate=50.0, max_iter=15, curvature=curvature).fit(X, y)
        assert np.all(np.diff(safe.history_["train_score"]) >= 0)
        assert min(safe.history_["step"][1:]) < first
    free = small(potentials=potentials, learning_rate=50.0, max_iter=15, curvature="count").fit(X, y)
    assert set(free.history_["step"][1:]) == {first}


def test_sequences_of_one_position_are_boosted_classification():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=600), [-0.7, 0.7])
    limits = {"max_iter": 30, "learning_rate": 0.1, "max_leaf_nodes": 8, "min_samples_leaf": 10}
    peer = HistGradientBoostingClassifier(**limits, l2_regularization=1.0, early_stopping=False).fit(X, y)
    rows = [row[None, :] for row in X]
    ours = TreeCRF(
        **limits,
        l2_regularization=1.0,
        order=0,
        method=Method(curvature="newton"),
        early_stopping=False,
        trees="per_label",
    ).fit(rows, [[label] for label in y])
    losses = [log_loss(y, peer.predict_proba(X)), log_loss(y, np.concatenate(ours.predict_proba(rows)))]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[1] == pytest.approx(-ours.history_["train_score"][-1], rel=1e-5)
    agree = np.mean(peer.predict(X) == np.concatenate(ours.predict(rows)))
    assert agree > 0.95
    with pytest.warns(UserWarning, match="each row is taken"):
        flat = clone(ours).fit(X, y)
    assert np.array_equal(flat.predict_proba(X), np.concatenate(ours.predict_proba(rows)))


@pytest.mark.parametrize(
    "parameters",
    [{}, {"trees": "per_label"}, {"potentials": "factored", "order": 2}, {"transitions": "seen"},
     {"window": {"x0": (2, 0), "*": [-1, 1]}},
     {"class_weight": {"a": 2.0}}, {"early_stopping": True, "validation_fraction": 0.25}, {"order": 0},
     {"random_state": np.random.RandomState(0)}, {"window": {-1, 0}}, {"learning_rate": np.float32(0.5)},
     {"transitions": np.ones((3, 3), dtype=bool)}],
    ids=lambda parameters: "-".join(parameters) or "defaults",
)  # fmt: skip
def test_a_saved_model_predicts_the_same_bits(parameters, tmp_path):
    X, y = chains(20)
    model = small(**parameters).fit(X, y)
    model.save(tmp_path / "model.seqboost")
    again = seqboost.load(tmp_path / "model.seqboost")
    assert isinstance(again, TreeCRF)
    assert all_equal(again.predict_proba(X), model.predict_proba(X))
    assert all_equal(again.predict(X), model.predict(X))
    assert all_equal(again.predict_marginals(X), model.predict_marginals(X))
    assert np.array_equal(again.log_prob(X, y), model.log_prob(X, y))
    for a, b in zip(again.predict_kbest(X, 3), model.predict_kbest(X, 3), strict=True):
        assert [(labels.tolist(), score) for labels, score in a] == [(labels.tolist(), score) for labels, score in b]
    assert again.history_ == model.history_
    assert (again.best_iteration_, again.best_score_, again.n_iter_, again.potentials_, again.n_features_in_) == (
        model.best_iteration_, model.best_score_, model.n_iter_, model.potentials_, model.n_features_in_
    )  # fmt: skip
    again.save(tmp_path / "again.seqboost")
    if "random_state" not in parameters and "window" not in parameters and "learning_rate" not in parameters:
        assert (tmp_path / "again.seqboost").read_bytes() == (tmp_path / "model.seqboost").read_bytes()


def test_saved_models_of_other_forms(tmp_path):
    dicts = [[{"w": "u", "n": 1.0, "tags": ["p", "q"]}, {"w": "v", "n": 2.0}], [{"w": "w", "tags": ["q"]}]]
    y = [["x", "y"], ["x"]]
    model = small().fit(dicts, y)
    model.save(tmp_path / "model")
    again = seqboost.load(tmp_path / "model")
    assert all_equal(again.predict_proba(dicts), model.predict_proba(dicts))
    assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X, y = chains()
    path = tmp_path_factory.mktemp("models") / "model.seqboost"
    small().fit(X, y).save(path)
    return path


def test_damaged_files(saved, tmp_path):
    content = saved.read_bytes()
    path = tmp_path / "damaged"
    rng = np.random.default_rng(0)
    for n_bytes in rng.integers(1, len(content), 10):
        path.write_bytes(content[:n_bytes])
        with pytest.raises(ModelFileError, match="damaged|not a seqboost model file"):
            seqboost.load(path)
    for at in [*rng.integers(0, len(content), 20), 0, len(content) - 1]:
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelFileError, match="damaged|not a seqboost model file|newer seqboost"):
            seqboost.load(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda header: header.pop("classes"), "does not hold a complete model"),
        (lambda header: header.update(estimator="Ridge"), "a model of kind 'Ridge', which this seqboost does not know"),
        (lambda header: header["classes"].append("d"), "4 labels have names, but 3 have trees"),
        (lambda header: header.update(best_iteration=99), "does not hold a complete model"),
        (lambda header: header["parameters"].update(colour=3), "does not hold a complete model"),
        (lambda header: header["model"].update(order=2), "do not fit together"),
        (lambda header: header.update(history={}), "does not hold a complete model"),
        (lambda header: header.update(history=[]), "does not hold a complete model"),
        (lambda header: header.update(schema=None), "does not hold a complete model"),
    ],
)
def test_sealed_files_that_make_no_sense(saved, tmp_path, change, match):
    with zipfile.ZipFile(saved) as archive:
        document = json.loads(archive.read("header.json"))
        arrays = {name: np.load(archive.open(f"arrays/{name}.npy")) for name in document["arrays"]}
    change(document["header"])
    write_model(tmp_path / "forged", document["header"], arrays)
    with pytest.raises(ModelFileError, match=match):
        seqboost.load(tmp_path / "forged")


def test_files_that_are_no_models(tmp_path):
    (tmp_path / "text").write_text("not a model")
    with pytest.raises(ModelFileError, match="is not a seqboost model file"):
        seqboost.load(tmp_path / "text")
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(ModelFileError, match="is not a seqboost model file"):
        seqboost.load(tmp_path / "arrays.npz")
    (tmp_path / "empty").touch()
    with pytest.raises(ModelFileError, match="it is empty"):
        seqboost.load(tmp_path / "empty")
    with pytest.raises(ModelFileError, match="is a folder"):
        seqboost.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no model file"):
        seqboost.load(tmp_path / "nothing")


def test_saving_replaces_in_one_step(saved, tmp_path):
    path = tmp_path / "model"
    shutil.copy(saved, path)
    model = small().fit([[0, 1, 2]], [[b"a", b"b", b"a"]])
    with pytest.raises(TypeError, match=r"label b'.* cannot be written to a model file.*pickle"):
        model.save(path)
    assert path.read_bytes() == saved.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*missing.*make it first"):
        seqboost.load(saved).save(tmp_path / "missing" / "model")


@BOTH
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_may_share_a_model(potentials, n_jobs):
    X, y = sticky(n=12, length=500)
    model = small(potentials=potentials, n_jobs=n_jobs, window=1).fit(X, y)
    expected, labels = model.predict_proba(X), model.predict(X)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: (model.predict_proba(X), model.predict(X)), range(16)):
            assert all_equal(found[0], expected)
            assert all_equal(found[1], labels)


def test_threads_may_train_at_the_same_time():
    X, y = chains(20)
    expected = small(n_jobs=2).fit(X, y).predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: small(n_jobs=2).fit(X, y).predict_proba(X), range(8)):
            assert all_equal(found, expected)
