"""Base class of the labelers that train a linear chain: LinearCRF and VotedPerceptron."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials
from seqboost.core.parameters import Rule, check_parameters
from seqboost.estimators.arguments import unchanged_on_failure
from seqboost.estimators.prediction import SequenceLabeler
from seqboost.features import FeatureBinner
from seqboost.linear import LinearChain, LinearColumns, LinearRows
from seqboost.sequences import SequenceBatch
from seqboost.training.defaults import automatic_window

__all__ = ["LinearLabeler", "fit_columns"]


def fit_columns(batch: SequenceBatch, window: Any) -> LinearColumns:
    """Learn the features of a linear model from training sequences."""
    return LinearColumns.fit(batch, FeatureBinner.fit(batch, window=window))


class LinearLabeler(SequenceLabeler):
    """Base class of labellers that are a linear chain, trained where every label is observed.

    A subclass has the parameter ``window``, the rules of its parameters, and :meth:`_train`, which sets ``_chain``.
    """

    window: Any

    _rules: ClassVar[Mapping[str, Rule]]
    _chain: LinearChain

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sequences.

        Parameters
        ----------
        X, y : as in :meth:`seqboost.TreeCRF.fit`
            Every label must be observed.

        Returns
        -------
        self : object
        """
        name = type(self).__name__
        check_parameters(name, vars(self), self._rules)
        with unchanged_on_failure(self):
            training = self._learned(X, y)
            training.check_observed(name, "use TreeCRF, which sums over such labels")
            self.window_ = automatic_window(self.window, training.batch)
            columns = fit_columns(training.batch, self.window_)
            self._train(columns, columns.transform(training.batch), training.labels)
        return self

    def _train(self, columns: LinearColumns, rows: LinearRows, labels: NDArray[np.int32]) -> None:
        """Train the chain; every label is observed."""
        raise NotImplementedError

    def _scored(self, batch: SequenceBatch) -> Potentials:
        return self._chain.scored(self._chain.rows(batch), self._n_threads)
