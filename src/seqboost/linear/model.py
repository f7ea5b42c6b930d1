"""A trained linear chain: weights of window features, and a table of transitions.

F_t(c, k) = Σ_j x_tj w_jk + A(c, k)              x_t = the pairs of `LinearColumns` in the window of t
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials
from seqboost.core.contexts import ContextSpace
from seqboost.core.stored import MAX_ORDER, Stored, part_of
from seqboost.features import FeatureBinner
from seqboost.linear.columns import LinearRows
from seqboost.linear.weights import LinearWeights
from seqboost.sequences import BatchSchema, SequenceBatch

__all__ = ["LinearChain"]


@dataclass(frozen=True, eq=False)
class LinearChain:
    """Weights and transitions.

    Attributes
    ----------
    weights : LinearWeights
        w.
    table : ndarray of float64, shape (E, K)
        A.
    order : int
        Markov order.
    """

    weights: LinearWeights
    table: NDArray[np.float64]
    order: int

    def rows(self, batch: SequenceBatch) -> LinearRows:
        """Turn a batch into rows of the linear model."""
        return self.weights.columns.transform(batch)

    def scored(self, rows: LinearRows, n_threads: int) -> Potentials:
        """Score all labels at all positions."""
        return Potentials(self.weights.scores(rows, n_threads), self.table, rows.offsets, self.order)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return arrays and a header of plain values."""
        arrays, header = self.weights.columns.binner.to_arrays()
        arrays = {f"binner.{name}": array for name, array in arrays.items()}
        arrays |= {f"linear.{name}": array for name, array in self.weights.to_arrays().items()}
        return arrays | {"table": self.table}, {"binner": header, "order": self.order}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[Any]], header: dict[str, Any], schema: BatchSchema, n_labels: int
    ) -> LinearChain:
        """Rebuild from the result of `to_arrays`; ModelFileError if the parts do not fit together."""
        stored = Stored("transitions", arrays, header)
        binner = FeatureBinner.from_arrays(part_of(arrays, "binner."), stored.field("binner", dict))
        binner.check_schema(schema)
        weights = LinearWeights.from_arrays(part_of(arrays, "linear."), binner, n_labels)
        order = stored.integer("order", 0, MAX_ORDER)
        shape = (ContextSpace(n_labels, order).n_extended, n_labels)
        return cls(weights, stored.scores("table", shape), order)
