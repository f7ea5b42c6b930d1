"""Trees: bin codes and derivatives in, one :class:`Tree` out."""

from seqboost.trees.columns import Columns, DenseColumns, Limits, Policies, Problem, SparseColumns, first_cells
from seqboost.trees.grower import Grower, Reducer, grow_together
from seqboost.trees.leaves import LeafRows
from seqboost.trees.samples import Fitted, SampleGrower
from seqboost.trees.tree import DENSE, LAG, SPARSE, Routes, Tree

__all__ = [
    "DENSE",
    "LAG",
    "SPARSE",
    "Columns",
    "DenseColumns",
    "Fitted",
    "Grower",
    "LeafRows",
    "Limits",
    "Policies",
    "Problem",
    "Reducer",
    "Routes",
    "SampleGrower",
    "SparseColumns",
    "Tree",
    "first_cells",
    "grow_together",
]
