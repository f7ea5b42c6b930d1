"""Base class of the labelers that train a linear chain: LinearCRF and VotedPerceptron."""

from __future__ import annotations

from typing import Any

from seqboost.chain import Potentials
from seqboost.estimators.automatic import automatic_window
from seqboost.estimators.labelled import Labelled
from seqboost.estimators.prediction import SequenceLabeler
from seqboost.features import FeatureBinner
from seqboost.linear import LinearChain, LinearColumns, LinearRows
from seqboost.sequences import SequenceBatch

__all__ = ["LinearLabeler", "fit_columns"]


def fit_columns(batch: SequenceBatch, window: Any) -> LinearColumns:
    """Learn the features of a linear model from training sequences."""
    return LinearColumns.fit(batch, FeatureBinner.fit(batch, window=window))


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
