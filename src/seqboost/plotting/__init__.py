"""Pictures of models and labellings, in scikit-learn's Display habit (extra ``plot``: matplotlib)."""

from __future__ import annotations

from seqboost.plotting.colours import label_colours
from seqboost.plotting.confusion import ConfusionDisplay
from seqboost.plotting.importance import ImportanceDisplay
from seqboost.plotting.learning_curve import LearningCurveDisplay
from seqboost.plotting.strips import LabelStripDisplay

__all__ = ["ConfusionDisplay", "ImportanceDisplay", "LabelStripDisplay", "LearningCurveDisplay", "label_colours"]
