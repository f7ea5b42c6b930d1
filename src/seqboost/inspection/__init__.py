"""What a fitted model has learnt, and why it labels a sequence as it does."""

from __future__ import annotations

from seqboost.inspection.explanation import Contribution, Explanation, PositionExplanation, explain
from seqboost.inspection.importance import FeatureImportances, feature_importances
from seqboost.inspection.linear import LinearWeight, linear_weights
from seqboost.inspection.summary import summary
from seqboost.inspection.transitions import Transition, transitions

__all__ = [
    "Contribution",
    "Explanation",
    "FeatureImportances",
    "LinearWeight",
    "PositionExplanation",
    "Transition",
    "explain",
    "feature_importances",
    "linear_weights",
    "summary",
    "transitions",
]
