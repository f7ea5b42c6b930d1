"""Every parameter of every labeller, with values that make no sense."""

from __future__ import annotations

import inspect
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from treecrf_data import chains

import seqboost
from seqboost.exceptions import ParameterError, SeqboostError

LABELERS = (
    "TreeCRF", "MEMM", "HMM", "LinearCRF", "VotedPerceptron", "SlidingWindow", "RecurrentSlidingWindow", "IOHMM",
    "OutputCoding", "FutureFeatureMEMM",
)  # fmt: skip
SENSELESS = [
    object(), len, int, 1j, float("nan"), np.float32("nan"), float("inf"), -float("inf"), Decimal("sNaN"), pd.NA,
    np.timedelta64(3, "D"), np.datetime64("2020-01-01"), b"x", "nonsense", "\x00", np.array("nonsense"), np.array(1j),
    np.zeros((2, 2, 2)), {"nonsense": 1}, [object()], iter([1]),
]  # fmt: skip
X, Y = chains(6)
PARAMETERS = [
    (name, parameter)
    for name in LABELERS
    for parameter in inspect.signature(getattr(seqboost, name).__init__).parameters
    if parameter != "self"
]


def refusal(parameter):
    """Return what is raised; a sequence column is looked for in the table, and here is none."""
    return SeqboostError if parameter == "sequence" else ParameterError


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_values_that_make_no_sense_are_refused(name, parameter):
    for value in SENSELESS:
        model = getattr(seqboost, name)(**{parameter: value})
        with pytest.raises(refusal(parameter), match=f"{parameter}|scheme|CRFsuite"):
            model.fit(X, Y)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
@pytest.mark.parametrize("value", [-(10**400), -(2**63), -1e6, np.int64(-(2**40)), np.float64(-1e300)])
def test_numbers_far_out_of_range_are_refused(name, parameter, value):
    with pytest.raises(refusal(parameter), match=f"{parameter}|scheme|CRFsuite"):
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
