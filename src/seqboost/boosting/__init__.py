"""Boosting: the one loop, and what it works with."""

from seqboost.boosting.columns import tree_columns, tree_policies
from seqboost.boosting.directions import ConjugateEnsemble
from seqboost.boosting.ensemble import MAX_LEAF_VALUE, Ensemble, TreeFitter
from seqboost.boosting.history import Callback, FunctionCallback, History, Progress, Stopping, as_callback
from seqboost.boosting.loop import Boosting, Kept, boost
from seqboost.boosting.sampling import Everything, Examples, Goss, Sampler, Sequences, Stratified, Trimmed, Uniform
from seqboost.boosting.start import history_table, label_table
from seqboost.boosting.steps import Ascent, FixedStep, LineSearch, SafeStep, Step

__all__ = [
    "MAX_LEAF_VALUE",
    "Ascent",
    "Boosting",
    "Callback",
    "ConjugateEnsemble",
    "Ensemble",
    "Everything",
    "Examples",
    "FixedStep",
    "FunctionCallback",
    "Goss",
    "History",
    "Kept",
    "LineSearch",
    "Progress",
    "SafeStep",
    "Sampler",
    "Sequences",
    "Step",
    "Stopping",
    "Stratified",
    "TreeFitter",
    "Trimmed",
    "Uniform",
    "as_callback",
    "boost",
    "history_table",
    "label_table",
    "tree_columns",
    "tree_policies",
]
