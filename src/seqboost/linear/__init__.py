"""The linear chain: features of columns, weights, and training by L-BFGS; boosting may start from it."""

from __future__ import annotations

from seqboost.linear.columns import LinearColumns, LinearRows
from seqboost.linear.crossfit import LinearFit, cross_scores, digest
from seqboost.linear.lbfgs import LinearStart, Plan, linear_start
from seqboost.linear.model import LinearChain
from seqboost.linear.objective import LinearObjective, LinearTask
from seqboost.linear.weights import LinearGradient, LinearWeights

__all__ = [
    "LinearChain",
    "LinearColumns",
    "LinearFit",
    "LinearGradient",
    "LinearObjective",
    "LinearRows",
    "LinearStart",
    "LinearTask",
    "LinearWeights",
    "Plan",
    "cross_scores",
    "digest",
    "linear_start",
]
