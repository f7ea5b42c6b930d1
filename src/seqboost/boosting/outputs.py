"""What a tree of a round adds to the scores of the training rows: those of one label, or those of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqboost.trees import Partition, RiderPartition, SharedPartition, WeightedPartition

__all__ = ["LabelOutputs", "Outputs", "SharedOutputs"]

LABELS_PER_TASK = 16

Scores = NDArray[np.float32]  # (n_labels, n_rows, n_contexts)


class Outputs(Protocol):
    """Where a tree's values go."""

    def tasks(self, value: NDArray[np.float32], old: Scores, new: Scores) -> list[tuple[Any, ...]]:
        """Give functions and their arguments that together write ``old`` plus the tree's values to ``new``."""


@dataclass(frozen=True, eq=False)
class LabelOutputs:
    """A tree of one label: the rows it was fitted to, and others."""

    partitions: tuple[Partition | RiderPartition | WeightedPartition, ...]
    label: int

    def tasks(self, value: NDArray[np.float32], old: Scores, new: Scores) -> list[tuple[Any, ...]]:
        """Give a task for each part of the rows: the label's scores."""
        return [(part.add, value, old[self.label], new[self.label]) for part in self.partitions]


@dataclass(frozen=True, eq=False)
class SharedOutputs:
    """A tree for all labels."""

    partition: SharedPartition | WeightedPartition

    def tasks(self, value: NDArray[np.float32], old: Scores, new: Scores) -> list[tuple[Any, ...]]:
        """Give a task for a few labels each."""
        parts = [slice(k, k + LABELS_PER_TASK) for k in range(0, len(old), LABELS_PER_TASK)]
        return [(self.partition.add, value[:, part], old[part], new[part]) for part in parts]
