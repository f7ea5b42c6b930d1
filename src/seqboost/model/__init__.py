"""The frozen forest, fast scoring, and the model file."""

from seqboost.model.file import FORMAT_VERSION, read_model, write_model
from seqboost.model.forest import Forest
from seqboost.model.frozen import FrozenModel
from seqboost.model.scoring import forest_scores

__all__ = ["FORMAT_VERSION", "Forest", "FrozenModel", "forest_scores", "read_model", "write_model"]
