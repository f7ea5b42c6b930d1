"""Training: from a configuration and labeled sequences to a model.

``train(config, data)`` is the way in. What it does, step by step, is in :mod:`seqboost.training.run`.
"""

from seqboost.training.config import (
    ChainConfig,
    FeatureConfig,
    FitConfig,
    MethodConfig,
    StoppingConfig,
    TreeConfig,
)
from seqboost.training.dataset import Dataset
from seqboost.training.missing import Surrogates
from seqboost.training.result import Candidate, FitData, FitResult
from seqboost.training.run import train

__all__ = [
    "Candidate",
    "ChainConfig",
    "Dataset",
    "FeatureConfig",
    "FitConfig",
    "FitData",
    "FitResult",
    "MethodConfig",
    "StoppingConfig",
    "Surrogates",
    "TreeConfig",
    "train",
]
