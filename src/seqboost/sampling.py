"""Which regression examples the trees of a round are fitted to: values of ``Method(sampling=...)``."""

from seqboost.boosting.sampling import Goss, Sequences, Stratified, Trimmed, Uniform

__all__ = ["Goss", "Sequences", "Stratified", "Trimmed", "Uniform"]
