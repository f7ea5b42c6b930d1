"""Patterns as columns for any labeller."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from seqboost.core.exceptions import ParameterError
from seqboost.estimators.future.memm import FutureFeatureMEMM
from seqboost.sequences import SequenceBatch

__all__ = ["FutureFeatures"]


class FutureFeatures(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Patterns in later (or earlier) positions as columns, for any labeller.

    Finds patterns as :class:`FutureFeatureMEMM` does, and adds for each of them a column: how surely it lies in the bag
    of a position. A first-order chain that is given them knows of dependencies that reach further than its order.

    Parameters
    ----------
    model : FutureFeatureMEMM, default=None
        How to look for patterns; None: ``FutureFeatureMEMM(order=0)``.

    Attributes
    ----------
    model_ : FutureFeatureMEMM
        The fitted model.
    names_ : list of str
        Names of the new columns.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(200)]
    >>> y = [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]
    >>> both = make_pipeline(FutureFeatures(FutureFeatureMEMM(order=0, random_state=0)), TreeCRF(window=0))
    >>> print(*both.fit(X, y).predict(["aabbbbxa"])[0])
    False True False False False False False False
    """

    def __init__(self, model: FutureFeatureMEMM | None = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, **arguments: Any) -> FutureFeatures:
        """Find patterns.

        Parameters
        ----------
        X, y, **arguments
            As in :meth:`FutureFeatureMEMM.fit`.
        """
        model = FutureFeatureMEMM(order=0) if self.model is None else self.model
        if not isinstance(model, FutureFeatureMEMM):
            raise ParameterError(
                f"The 'model' parameter of FutureFeatures must be a FutureFeatureMEMM. Got {model!r:.60} instead."
            )
        self.model_ = clone(model).fit(X, y, **arguments)
        self.names_ = list(self.model_._result.names[: len(self.model_.patterns_)])
        return self

    def transform(self, X: Any) -> SequenceBatch:
        """Return the sequences with the new columns, as a batch that every labeller takes for X."""
        check_is_fitted(self)
        batch: SequenceBatch = self.model_._opened(X)
        return batch.with_numbers(self.names_, self.model_._result.future_features(batch, self.model_._n_threads))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of all columns of what ``transform`` returns."""
        check_is_fitted(self)
        return np.array([*self.model_._schema.names, *self.names_], dtype=object)
