"""A small, seeded sample of the fuzzer's forged model files."""

from __future__ import annotations

import pytest

import seqboost
from fuzz import model_files
from fuzz.outcome import check_probabilities


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def state(folder):
    return model_files.prepare(folder / "worker")


def test_models_of_every_kind_come_back_as_they_were(folder, tmp_path):
    for name in model_files.kinds():
        path, X, _ = model_files.trained_model(name, folder / "trained_models")
        model = seqboost.load(path)
        check_probabilities(model.predict_proba(X))
        model.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes(), name


def test_forged_files_are_refused_or_answer_well(state):
    found = [model_files.run(state, seed) for seed in range(400)]
    assert found.count("refused") > 200
    assert found.count("accepted") > 50
