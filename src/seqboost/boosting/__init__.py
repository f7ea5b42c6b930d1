"""Boosting: the one loop, and what it works with."""

from seqboost.boosting.columns import tree_columns, tree_policies
from seqboost.boosting.directions import ConjugateEnsemble
from seqboost.boosting.ensemble import MAX_LEAF_VALUE, Ensemble, TreeFitter
from seqboost.boosting.history import (
    VALIDATION,
    Callback,
    FunctionCallback,
    History,
    Progress,
    Stopping,
    as_callback,
    check_set_names,
)
from seqboost.boosting.loop import Boosting, Kept, boost
from seqboost.boosting.metrics import METRICS, Evaluator, Metric, as_metrics
from seqboost.boosting.sampling import Everything, Examples, Goss, Sampler, Sequences, Stratified, Trimmed, Uniform
from seqboost.boosting.start import history_table, label_table
from seqboost.boosting.steps import Ascent, FixedStep, LineSearch, SafeStep, Step

__all__ = [
    "MAX_LEAF_VALUE",
    "METRICS",
    "VALIDATION",
    "Ascent",
    "Boosting",
    "Callback",
    "ConjugateEnsemble",
    "Ensemble",
    "Evaluator",
    "Everything",
    "Examples",
    "FixedStep",
    "FunctionCallback",
    "Goss",
    "History",
    "Kept",
    "LineSearch",
    "Metric",
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
    "as_metrics",
    "boost",
    "check_set_names",
    "history_table",
    "label_table",
    "tree_columns",
    "tree_policies",
]
