"""Model files that version 0.1 wrote, where the parameters of Method were parameters of the labelers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import seqboost
from seqboost import HMM, Method, Surrogates, TreeCRF
from seqboost.estimators.persistence import plain, revived
from seqboost.exceptions import ModelFileError, ParameterError
from seqboost.model import read_model, write_model

FOLDER = Path(__file__).parents[1] / "data" / "models_0_1"
STORED = json.loads((FOLDER / "predictions.json").read_text())
NAMES = sorted(STORED["models"])

METHODS = {
    "treecrf": {},
    "treecrf_objective": {"objective": "position_likelihood", "curvature": "newton", "step": "line_search"},
    "treecrf_pseudo": {
        "pseudo_likelihood_rounds": 1, "step": "fixed", "curvature": "count", "direction": "conjugate",
    },
    "treecrf_sampling": {
        "sampling": "1p/3n", "n_bags": 2, "categorical_splits": "one_vs_rest", "max_features_per_tree": 0.5,
        "min_gain": 0.01, "tol": 0.001,
    },
    "treecrf_share": {"sampling": 0.5},
    "treecrf_beam": {"beam": 2},
    "treecrf_seen": {"contexts": "seen"},
    "memm": {},
    "memm_beam": {"beam": 1, "sampling": "goss"},
}  # fmt: skip


def load(name):
    return seqboost.load(FOLDER / f"{name}.model")


def check_predictions(model, name):
    stored = STORED["models"][name]
    assert ["".join(labels) for labels in model.predict(STORED["X"])] == stored["labels"]
    for found, expected in zip(model.predict_proba(STORED["X"]), stored["proba"], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_every_file_has_predictions():
    assert sorted(path.stem for path in FOLDER.glob("*.model")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_files_predict_the_same_and_do_so_when_saved_again(name, tmp_path):
    model = load(name)
    check_predictions(model, name)
    model.save(tmp_path / "again.model")
    again = seqboost.load(tmp_path / "again.model")
    check_predictions(again, name)
    for one, other in zip(model.predict_proba(STORED["X"]), again.predict_proba(STORED["X"]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_moved_parameters_are_in_method(name):
    method = load(name).get_params(deep=False)["method"]
    assert (method or Method()).get_params() == {**Method().get_params(), **METHODS[name]}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("treecrf_surrogate", Surrogates(5)),
        ("treecrf_surrogate_column", {"a": Surrogates(5), "*": "direction"}),
        ("treecrf_viterbi", "direction"),
        ("treecrf", "direction"),
    ],
)
def test_number_of_surrogates_is_in_missing(name, missing):
    assert load(name).get_params()["missing"] == missing


def test_parameters_of_an_inner_labeler_are_moved():
    inner = load("outputcoding").estimator
    assert isinstance(inner, TreeCRF)
    assert inner.method.sampling == "goss"
    assert inner.missing == Surrogates(5)
    assert isinstance(load("outputcoding_hmm").estimator, HMM)


def test_an_inner_labeler_survives_plain_and_revived():
    inner = revived(plain(TreeCRF(method=Method(sampling="goss"), missing=Surrogates(5))))
    assert inner.method.sampling == "goss"
    assert inner.missing == Surrogates(5)


@pytest.mark.parametrize("name", ["hmm_beam", "linearcrf_beam", "futurefeaturememm_beam"])
def test_a_beam_of_prediction_lasts_until_it_is_given_or_the_model_is_fitted(name):
    model = load(name)
    assert "beam" not in model.get_params()
    pruned, full = (np.concatenate(model.predict_proba(STORED["X"], beam=beam)) for beam in (None, 100))
    assert np.abs(pruned - full).max() > 0.1
    training = STORED["training"]
    model.fit(training["X"], [list(labels) for labels in training["y"]])
    unpruned, full = (np.concatenate(model.predict_proba(STORED["X"], beam=beam)) for beam in (None, 100))
    np.testing.assert_array_equal(unpruned, full)


def test_a_bad_beam_is_refused(tmp_path):
    document, arrays = read_model(FOLDER / "hmm_beam.model")
    document["parameters"]["beam"] = -1
    write_model(tmp_path / "bad.model", document, arrays)
    with pytest.raises(ModelFileError, match="'beam' parameter of HMM must be"):
        seqboost.load(tmp_path / "bad.model")


def test_training_goes_on_from_a_file():
    training = STORED["training"]
    labels = [list(labels) for labels in training["y"]]
    model = load("treecrf_viterbi").set_params(warm_start=True, max_iter=5)
    before = model.best_score_
    model.fit(training["X"], labels)
    assert model.n_iter_ == 5
    assert model.best_score_ > before


def test_a_refitted_model_from_a_file_says_that_nothing_is_held_out():
    training = STORED["training"]
    model = load("treecrf").set_params(warm_start=True, max_iter=5)
    with pytest.raises(ParameterError, match="refit"):
        model.fit(training["X"], [list(labels) for labels in training["y"]])
