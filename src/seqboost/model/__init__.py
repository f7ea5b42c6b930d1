"""The frozen forest, fast scoring, and the model file."""

from seqboost.model.forest import Forest
from seqboost.model.scoring import forest_scores

__all__ = ["Forest", "forest_scores"]
