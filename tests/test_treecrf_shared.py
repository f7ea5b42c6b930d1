"""TreeCRF with one tree for all labels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from treecrf_data import all_equal, chains, small

import seqboost
from seqboost import TreeCRF
from seqboost.estimators import persistence
from seqboost.exceptions import ParameterError
from seqboost.model import read_model
from seqboost.sampling import Goss, Sequences, Trimmed, Uniform
from seqboost.training.memory import FitMemory

SHAPES = pytest.mark.parametrize(
    ("potentials", "order"), [("joint", 0), ("joint", 1), ("joint", 2), ("factored", 1), ("factored", 2)]
)


def dicts_of(X, rng):
    """The rows as dicts with a word, a number and indicators."""
    return [
        [
            {"word": f"w{rng.integers(9)}", "size": float(row[0]), f"is {int(row[1] > 0)}": True, "rare": row[0] > 2}
            for row in rows
        ]
        for rows in X
    ]


@SHAPES
def test_the_log_likelihood_rises_and_labels_are_learnt(potentials, order):
    X, y = chains(40, seed=1)
    model = small(trees="shared", potentials=potentials, order=order, max_iter=12).fit(X, y)
    scores = model.history_["train_score"]
    assert all(later >= earlier for earlier, later in zip(scores[:-1], scores[1:], strict=True))
    assert scores[-1] > scores[0] + 0.15
    forest = model._result.model.forest
    assert forest.is_shared
    assert forest.n_trees == 12
    # what is trained on is what is predicted with
    assert np.isclose(model.log_prob(X, y).sum() / sum(map(len, y)), scores[-1], rtol=1e-5)


@SHAPES
@pytest.mark.parametrize("kind", ["numbers", "dicts", "strings"])
def test_threads_files_and_pickles_give_the_same_bits(potentials, order, kind, tmp_path):
    X, y = chains(25, seed=2)
    if kind == "dicts":
        X = dicts_of(X, np.random.default_rng(0))
    elif kind == "strings":
        X = ["".join("abcdefg"[int(abs(v))] for v in rows[:, 0]) for rows in X]
    settings = {"trees": "shared", "potentials": potentials, "order": order, "window": 1, "max_features": 0.7}
    model = small(**settings, n_jobs=1).fit(X, y)
    expected = model.predict_proba(X)
    assert all_equal(small(**settings, n_jobs=3).fit(X, y).predict_proba(X), expected)
    model.save(tmp_path / "model")
    loaded = seqboost.load(tmp_path / "model")
    assert loaded.trees == "shared"
    assert all_equal(loaded.predict_proba(X), expected)
    assert all_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), expected)


@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_more_labels_than_decide(potentials):
    """40 labels, of which 32 are drawn for each tree; the same for any number of threads."""
    rng = np.random.default_rng(0)
    y = [rng.integers(40, size=12).tolist() for _ in range(60)]
    X = [np.array(labels, dtype=float)[:, None] + 0.3 * rng.normal(size=(12, 1)) for labels in y]
    settings = {"trees": "shared", "potentials": potentials, "max_iter": 25, "max_leaf_nodes": 40}
    model = small(**settings, n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.5
    assert all_equal(small(**settings, n_jobs=2).fit(X, y).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("potentials", ["joint", "factored"])
@pytest.mark.parametrize("max_features", [1.0, 0.5])
def test_warm_start_is_cold_start(potentials, max_features):
    X, y = chains(20, seed=3)
    settings = {"trees": "shared", "potentials": potentials, "max_features": max_features}
    cold = small(**settings, max_iter=6).fit(X, y)
    warm = small(**settings, max_iter=3, warm_start=True).fit(X, y)
    warm.set_params(max_iter=6).fit(X, y)
    assert all_equal(warm.predict_proba(X), cold.predict_proba(X))
    with pytest.raises(ParameterError, match="'trees' parameter was 'shared' in the last fit"):
        warm.set_params(trees="per_label", max_iter=9).fit(X, y)


def test_models_of_older_files_have_trees_of_their_own(tmp_path, monkeypatch):
    X, y = chains(10, seed=3)
    small(warm_start=True, trees="per_label").fit(X, y).save(tmp_path / "model")

    def read_older(path):
        document, arrays = read_model(path)
        for part in ("parameters", "lasting"):
            del document[part]["trees"], document[part]["init"]
        return document, arrays

    monkeypatch.setattr(persistence, "read_model", read_older)
    model = TreeCRF.load(tmp_path / "model")
    assert (model.trees, model.trees_, model.init, model.init_) == ("per_label", "per_label", "labels", "labels")
    assert model.set_params(max_iter=7).fit(X, y).n_iter_ == 7
    with pytest.raises(ParameterError, match="'trees' parameter was 'per_label' in the last fit"):
        model.set_params(trees="shared", max_iter=9).fit(X, y)


def test_early_stopping_keeps_the_best_round():
    X, y = chains(60, seed=4)
    model = small(trees="shared", max_iter=200, early_stopping=True, n_iter_no_change=5, learning_rate=1.0).fit(X, y)
    scores = model.history_["validation_score"]
    assert model.best_iteration_ == int(np.argmax(scores))
    assert model.n_iter_ < 200
    assert model._result.model.forest.n_rounds == model.best_iteration_


def test_two_labels_share_a_tree_with_opposite_values():
    """Order 0: gradients of two labels are opposite and curvatures equal, so are the values of every leaf."""
    X, y = chains(30, n_labels=2, seed=5)
    model = small(trees="shared", order=0).fit(X, y)
    value = model._result.model.forest.value
    np.testing.assert_allclose(value[:, 0], -value[:, 1], rtol=1e-3, atol=1e-5)
    alone = small(trees="per_label", order=0).fit(X, y)
    # twice the gain changes no choice between splits
    assert all(
        np.allclose(a, b, atol=1e-4) for a, b in zip(model.predict_proba(X), alone.predict_proba(X), strict=True)
    )


@pytest.mark.parametrize(
    "sampling", [0.5, Uniform(0.7), Sequences(0.6), Goss(0.3, 0.3), Trimmed(below=0.2)], ids=lambda s: str(s)
)
@pytest.mark.parametrize("potentials", ["joint", "factored"])
def test_samples(sampling, potentials):
    X, y = chains(40, seed=6)
    settings = {"trees": "shared", "potentials": potentials, "sampling": sampling, "max_iter": 8}
    model = small(**settings, n_jobs=1).fit(X, y)
    assert model.history_["train_score"][-1] > model.history_["train_score"][0]
    assert all_equal(small(**settings, n_jobs=2).fit(X, y).predict_proba(X), model.predict_proba(X))
    everything = small(**{**settings, "sampling": None}).fit(X, y)
    assert not all_equal(everything.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("change", [{"n_bags": 3}, {"direction": "conjugate"}, {"step": "line_search"}], ids=str)
def test_training_methods(change, tmp_path):
    X, y = chains(30, seed=7)
    model = small(trees="shared", max_iter=5, **change).fit(X, y)
    assert model.history_["train_score"][-1] > model.history_["train_score"][0]
    assert np.isclose(model.log_prob(X, y).sum() / sum(map(len, y)), model.history_["train_score"][-1], rtol=1e-4)
    model.save(tmp_path / "model")
    assert all_equal(seqboost.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("sampling", ["1p/3n", "balanced"])
def test_samples_of_a_label_need_trees_of_a_label(sampling):
    X, y = chains(5)
    with pytest.raises(ParameterError, match="trees='shared' a tree is for all labels; use trees='per_label'"):
        small(trees="shared", sampling=sampling).fit(X, y)


@pytest.mark.parametrize("trees", ["both", None, 1, True])
def test_other_values_are_refused(trees):
    X, y = chains(5)
    with pytest.raises(ParameterError, match="'trees' parameter of TreeCRF must be .* 'auto', 'per_label', 'shared'"):
        TreeCRF(trees=trees).fit(X, y)


def test_unseen_categories_in_a_warm_start():
    X = [["a", "b", "c"] * 4, ["b", "a", "c"] * 4] * 5
    y = [[ord(v) % 2 for v in word] for word in X]
    model = small(trees="shared", warm_start=True, max_iter=2).fit(X, y)
    model.set_params(max_iter=4).fit([["z", *word[1:]] for word in X], y)
    assert np.isfinite(np.concatenate(model.predict_proba(X))).all()


def test_memory_counts_the_vectors():
    few = FitMemory(10_000, 20, 1, 500, 31, 2, 0, shared=True)
    joint, factored = few.total(joint=True), few.total(joint=False)
    assert joint > factored
    # fixed-point vectors: 8 bytes a cell beside the 16 of scores and derivatives
    cells = 10_000 * 20 * 20
    assert joint > 24 * cells
    wide = FitMemory(10_000, 200, 1, 100_000, 31, 2, 0, shared=True).total(joint=False)
    assert wide - FitMemory(10_000, 200, 1, 0, 31, 2, 0, shared=True).total(joint=False) < 1.5 * 256 * 2**20
