"""Boosting: the one loop, and what it works with."""

from seqboost.boosting.columns import tree_columns
from seqboost.boosting.ensemble import MAX_LEAF_VALUE, Ensemble, SharedTreeFitter, TreeFitter
from seqboost.boosting.history import Callback, History, Progress, Stopping
from seqboost.boosting.loop import Boosting, boost
from seqboost.boosting.start import extended_contexts, label_table

__all__ = [
    "MAX_LEAF_VALUE",
    "Boosting",
    "Callback",
    "Ensemble",
    "History",
    "Progress",
    "SharedTreeFitter",
    "Stopping",
    "TreeFitter",
    "boost",
    "extended_contexts",
    "label_table",
    "tree_columns",
]
