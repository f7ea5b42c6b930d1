"""Every parameter of every labeller, with values that make no sense."""

from __future__ import annotations

import inspect
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier
from treecrf_data import chains

import seqboost
from seqboost.callbacks import early_stopping, log_evaluation
from seqboost.exceptions import ParameterError, SeqboostError

LABELERS = (
    "TreeCRF", "MEMM", "HMM", "LinearCRF", "VotedPerceptron", "SlidingWindow", "RecurrentSlidingWindow", "IOHMM",
    "OutputCoding", "FutureFeatureMEMM",
)  # fmt: skip
SENSELESS = [
    object(), len, int, 1j, float("nan"), np.float32("nan"), float("inf"), -float("inf"), Decimal("sNaN"), pd.NA,
    np.timedelta64(3, "D"), np.datetime64("2020-01-01"), b"x", "nonsense", "\x00", np.array("nonsense"), np.array(1j),
    np.zeros((2, 2, 2)), {"nonsense": 1}, [object()], iter([1]),
    -(10**400), -(2**63), -1e6, np.int64(-(2**40)), np.float64(-1e300),
]  # fmt: skip
X, Y = chains(6)
PARAMETERS = [
    (name, parameter)
    for name in LABELERS
    for parameter in inspect.signature(getattr(seqboost, name).__init__).parameters
    if parameter != "self"
]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_values_that_make_no_sense_are_refused(name, parameter):
    # sequence and time columns are looked for in the table, and here is none
    error = SeqboostError if parameter in ("sequence", "time") else ParameterError
    for value in SENSELESS:
        with pytest.raises(error, match=f"{parameter}|scheme|CRFsuite"):
            getattr(seqboost, name)(**{parameter: value}).fit(X, Y)


@pytest.mark.parametrize("name", ["TreeCRF", "MEMM", "VotedPerceptron", "IOHMM", "OutputCoding", "FutureFeatureMEMM"])
@pytest.mark.parametrize("value", [-1, 2**32, 0.5, True, "0", np.random.default_rng(0), [1, 2]])
def test_random_states_of_scikit_learn_and_no_others(name, value):
    with pytest.raises(ParameterError, match=r"random_state.*must be None, an int from 0 to 2\*\*32 - 1 or a Random"):
        getattr(seqboost, name)(random_state=value).fit(X, Y)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, np.timedelta64(3, "D"), "2", None, 10**400])
def test_numbers_of_paths(k):
    model = seqboost.HMM().fit(X, Y)
    with pytest.raises(ParameterError, match="'k' parameter of predict_kbest"):
        model.predict_kbest(X, k)


@pytest.mark.parametrize("name", ["num_memories", "epsilon", "linesearch", "feature.possible_states"])
@pytest.mark.parametrize("value", [None, -1, "x", float("nan"), [1], 10**400])
def test_parameters_of_crfsuite(name, value):
    """CRFsuite takes what it cannot read for 0, and crashes without memories."""
    with pytest.raises(ParameterError, match=f"'{name}' parameter of CRFsuite must be"):
        seqboost.LinearCRF(algorithm_params={name: value}).fit(X, Y)


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2)])
def test_windows_without_a_single_value(estimator):
    """Sequences of one position have no neighbours: columns of the matrix are empty."""
    X = [[[0.0]], [[1.0]], [[0.0]], [[1.0]]]
    model = seqboost.SlidingWindow(estimator, window=1, encoding="codes").fit(X, [["a"], ["b"], ["a"], ["b"]])
    assert [len(labels) for labels in model.predict([*X, [[0.0], [1.0]]])] == [1, 1, 1, 1, 2]


def test_times_and_arrays_in_other_arguments():
    three_days = np.timedelta64(3, "D")
    for make in (early_stopping, log_evaluation):
        with pytest.raises(ParameterError, match="must be an int"):
            make(three_days)
    with pytest.raises(ParameterError, match=r"class_weight\['a'\] is np.timedelta64\(3,'D'\)"):
        seqboost.TreeCRF(class_weight={"a": three_days}).fit(X, Y)
    with pytest.raises(ParameterError, match=r"eval_set must be a list of pairs \(X, y\); got a ndarray"):
        seqboost.TreeCRF().fit(X, Y, eval_set=np.array(3))
