"""Estimators: scikit-learn's interface to the packages below."""

from __future__ import annotations

import os
from typing import Any

from seqboost.estimators.family import (
    HMM,
    IOHMM,
    MEMM,
    LinearCRF,
    OutputCoding,
    RecurrentSlidingWindow,
    SlidingWindow,
    VotedPerceptron,
)
from seqboost.estimators.future import FutureFeatureMEMM, FutureFeatures, FuturePattern
from seqboost.estimators.method import Method
from seqboost.estimators.persistence import load_estimator
from seqboost.estimators.treecrf import TreeCRF

__all__ = [
    "HMM",
    "FutureFeatureMEMM",
    "FutureFeatures",
    "FuturePattern",
    "IOHMM",
    "LinearCRF",
    "MEMM",
    "Method",
    "OutputCoding",
    "RecurrentSlidingWindow",
    "SlidingWindow",
    "TreeCRF",
    "VotedPerceptron",
    "load_any",
]


def load_any(path: str | os.PathLike[str]) -> Any:
    """Read a model of any kind that was written by its ``save`` method."""
    return load_estimator(None, path)
