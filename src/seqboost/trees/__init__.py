"""Trees: bin codes and derivatives in, one :class:`Tree` out."""

from seqboost.trees.criterion import Limits
from seqboost.trees.growing import TreeGrower
from seqboost.trees.histogram import DenseColumns, SparseColumns
from seqboost.trees.missing import Policies
from seqboost.trees.outputs import Partition
from seqboost.trees.riders import RiderPartition
from seqboost.trees.routes import Routes
from seqboost.trees.samples import Fitted, LabelSampleGrower, SharedSampleGrower
from seqboost.trees.shared_growing import SharedGrower
from seqboost.trees.shared_missing import shared_grower
from seqboost.trees.shared_partition import SharedPartition
from seqboost.trees.tree import DENSE, LAG, SPARSE, Tree
from seqboost.trees.weighted_growing import label_grower
from seqboost.trees.weighted_partition import WeightedPartition

__all__ = [
    "DENSE",
    "LAG",
    "SPARSE",
    "DenseColumns",
    "Fitted",
    "LabelSampleGrower",
    "Limits",
    "Partition",
    "Policies",
    "RiderPartition",
    "Routes",
    "SharedGrower",
    "SharedPartition",
    "SharedSampleGrower",
    "SparseColumns",
    "Tree",
    "TreeGrower",
    "WeightedPartition",
    "label_grower",
    "shared_grower",
]
