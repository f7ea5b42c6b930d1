"""How good labellings are, and whether one is better than another."""

from __future__ import annotations

from seqboost.evaluation.compare import Comparison, compare
from seqboost.evaluation.deviance import DevianceAnalysis, deviance_analysis
from seqboost.evaluation.mcnemar import McNemar, mcnemar

__all__ = ["Comparison", "DevianceAnalysis", "McNemar", "compare", "deviance_analysis", "mcnemar"]
