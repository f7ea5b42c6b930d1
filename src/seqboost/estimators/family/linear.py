"""A linear chain: weights of window features, and a table of transitions. What LinearCRF and VotedPerceptron train.

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
from seqboost.estimators.automatic import automatic_window
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.prediction import SequenceLabeler
from seqboost.features import FeatureBinner, LinearColumns, LinearRows, LinearWeights
from seqboost.sequences import BatchSchema, SequenceBatch

__all__ = ["LinearChain", "LinearLabeler", "fit_columns"]


def fit_columns(batch: SequenceBatch, window: Any) -> LinearColumns:
    """Learn the features of a linear model from training sequences."""
    return LinearColumns.fit(batch, FeatureBinner.fit(batch, window=window))


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

    @classmethod
    def dense(
        cls, columns: LinearColumns, weights: NDArray[np.floating], table: NDArray[np.float64], order: int
    ) -> LinearChain:
        """Make a chain of weights for all labels, (n_features, K)."""
        n_features, n_labels = weights.shape
        start = np.arange(0, n_features * n_labels + 1, n_labels, dtype=np.int64)
        label = np.tile(np.arange(n_labels, dtype=np.int32), n_features)
        value = np.ascontiguousarray(weights, dtype=np.float32).reshape(-1)
        return cls(LinearWeights(columns, n_labels, start, label, value), table, order)

    def rows(self, batch: SequenceBatch) -> LinearRows:
        """Turn a batch into pairs."""
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
        """Rebuild; ModelFileError if the parts do not fit together."""
        stored = Stored("transitions", arrays, header)
        binner = FeatureBinner.from_arrays(part_of(arrays, "binner."), stored.field("binner", dict))
        binner.check_schema(schema)
        weights = LinearWeights.from_arrays(part_of(arrays, "linear."), binner, n_labels)
        order = stored.integer("order", 0, MAX_ORDER)
        shape = (ContextSpace(n_labels, order).n_extended, n_labels)
        return cls(weights, stored.scores("table", shape), order)


class LinearLabeler(SequenceLabeler):
    """Base class of labellers that are a linear chain, trained where every label is observed.

    A subclass has the parameter ``window``; its ``fit`` calls :meth:`_learned_rows` and sets ``_chain``.
    """

    window: Any

    _chain: LinearChain

    def _learned_rows(self, X: Any, y: Any) -> tuple[Labelled, LinearColumns, LinearRows]:
        """Read X and y through the door; learn columns, labels and the features of their windows."""
        training = self._learned(X, y)
        training.check_observed(type(self).__name__, "use TreeCRF, which sums over such labels")
        self.window_ = automatic_window(self.window, training.batch)
        columns = fit_columns(training.batch, self.window_)
        return training, columns, columns.transform(training.batch)

    def _scored(self, batch: SequenceBatch) -> Potentials:
        return self._chain.scored(self._chain.rows(batch), self._n_threads)
