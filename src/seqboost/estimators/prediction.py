"""What every labeller of sequences does once it is trained: predict, score, save and load."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from seqboost._jit import thread_count
from seqboost.chain import Posterior, Potentials, SeenPotentials, k_best, log_partition, posterior, viterbi
from seqboost.estimators.labellings import log_partition_of
from seqboost.estimators.parameters import check_parameters, integer, n_jobs_rule, one_of, plain_number
from seqboost.estimators.persistence import load_estimator, save_estimator
from seqboost.estimators.training import Trained
from seqboost.exceptions import InputError, ParameterError
from seqboost.sequences import BatchSchema, LabelCoder, SequenceBatch, as_batch, sequence_weights

__all__ = ["PREDICTION_RULES", "SequenceLabeler"]

PREDICTION_RULES = {
    "decoding": one_of("posterior", "viterbi"),
    "beam": integer(1, none=True),
    "n_jobs": n_jobs_rule(),
}


class SequenceLabeler(BaseEstimator):
    """Base class of estimators that label sequences with a chain of labels.

    A subclass has the parameters ``decoding``, ``beam``, ``sequence`` and ``n_jobs``; its ``fit`` sets ``classes_``,
    ``_schema`` and ``_trained``.
    """

    decoding: str
    beam: int | None
    sequence: str | None
    n_jobs: int | None

    classes_: NDArray[Any]
    _schema: BatchSchema
    _trained: Trained

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn: missing values and sparse rows are fine, y is required."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether fit has been called."""
        return hasattr(self, "_trained")

    @property
    def _n_threads(self) -> int:
        return thread_count(plain_number(self.n_jobs))

    @property
    def _beam(self) -> int | None:
        beam: int | None = plain_number(self.beam)
        return beam

    def _batch(self, X: Any) -> SequenceBatch:
        return as_batch(X, sequence=self.sequence, schema=self._schema, estimator_name=type(self).__name__)

    def _potentials(self, X: Any) -> tuple[SequenceBatch, Potentials | SeenPotentials]:
        check_is_fitted(self)
        check_parameters(type(self).__name__, vars(self), PREDICTION_RULES)
        batch = self._batch(X)
        model, n_threads = self._trained.model, self._n_threads
        rows = None if model.linear is None else model.linear.columns.transform(batch)
        return batch, model.scored(model.binner.transform(batch, n_threads=n_threads), n_threads, rows)

    def _posterior(self, potentials: Potentials | SeenPotentials) -> Posterior:
        return posterior(potentials, beam=self._beam, n_threads=self._n_threads)

    def predict(self, X: Any) -> Any:
        """Label sequences.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray, one array of labels per sequence; for a table one array, in the order of its rows

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> print(*model.predict(["manana"])[0])
        0 1 0 1 0 1
        """
        batch, potentials = self._potentials(X)
        return batch.restore(self.classes_[self._decode(potentials)])

    def _decode(self, potentials: Potentials | SeenPotentials) -> NDArray[np.int32]:
        model, n_threads = self._trained.model, self._n_threads
        if self.decoding == "viterbi":
            return viterbi(potentials, beam=self._beam, n_threads=n_threads).labels
        found = self._posterior(potentials)
        if not model.is_constrained:
            return found.decode()
        # Of the allowed labellings, the one with the most correct labels to be expected.
        nodes = np.ascontiguousarray(found.node_marginals().T[:, :, None])
        return viterbi(model.constrained(nodes, potentials.offsets), n_threads=n_threads).labels

    def predict_proba(self, X: Any) -> Any:
        """Return P(y_t = k | X).

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_labels), columns in the order of ``classes_``; for a table one array

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> model.predict_proba(["manana"])[0].shape
        (6, 2)
        """
        batch, potentials = self._potentials(X)
        return batch.restore(self._posterior(potentials).node_marginals())

    def predict_marginals(self, X: Any) -> Any:
        """Return P(y_{t−1}, …, y_{t−m}, y_t | X): probabilities of contexts and labels together.

        Parameters
        ----------
        X : as in ``fit``

        Returns
        -------
        list of ndarray of shape (n_elements, n_labels ** order, n_labels)
            For order 1, entry [t, a, b] is the probability of label b after label a. A context is numbered
            y_{t−1} + n_labels · y_{t−2} + …; labels before the start of a sequence count as number 0. ``beam`` plays no
            part here, nor in ``predict_kbest`` and ``log_prob``.

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> model.predict_marginals(["manana"])[0].shape
        (6, 2, 2)
        """
        batch, potentials = self._potentials(X)
        if isinstance(potentials, SeenPotentials):
            raise ParameterError(
                "predict_marginals has an entry for every context, which contexts='seen' does without; use "
                "predict_proba, or train with contexts='all'"
            )
        n_contexts = potentials.space.n_contexts
        if potentials.scores.shape[2] != n_contexts:
            shape = (*potentials.scores.shape[:2], n_contexts)
            scores = np.ascontiguousarray(np.broadcast_to(potentials.scores, shape))
            potentials = Potentials(scores, potentials.table, potentials.offsets, potentials.order, potentials.end)
        found = posterior(potentials, n_threads=self._n_threads)
        return batch.restore(np.ascontiguousarray(found.marginals.transpose(1, 2, 0)))

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[NDArray[Any], float]]]:
        """Return the ``k`` most probable labellings of each sequence.

        Parameters
        ----------
        X : as in ``fit``
        k : int, default=5
            Number of labellings; fewer are returned if fewer are possible.

        Returns
        -------
        list of lists of (labels, log-probability), best first

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> for labels, log_probability in model.predict_kbest(["manana"], k=2)[0]:
        ...     print(*labels, log_probability < 0)
        0 1 0 1 0 1 True
        0 1 0 1 0 0 True
        """
        check_parameters("predict_kbest", {"k": k}, {"k": integer(1, 1_000_000)})
        batch, potentials = self._potentials(X)
        k = min(int(k), len(self.classes_) ** int(batch.lengths.max()))
        n_threads = self._n_threads
        log_z = log_partition(potentials, n_threads=n_threads)
        return [
            [(self.classes_[path], float(min(score - z, 0.0))) for path, score in zip(*found, strict=True)]
            for found, z in zip(k_best(potentials, k, n_threads=n_threads), log_z, strict=True)
        ]

    def log_prob(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Return log P(y | X) of each sequence; labels that are None or NaN are summed over.

        A labelling that ``transitions`` forbids has −inf.

        Parameters
        ----------
        X, y : as in ``fit``

        Returns
        -------
        ndarray of float64 of shape (n_sequences,)

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> likely, unlikely = model.log_prob(["manana", "manana"], ["010101", "101010"])
        >>> bool(likely > unlikely)
        True
        """
        batch, potentials = self._potentials(X)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch)
        n_threads = self._n_threads
        score = log_partition_of(labels, potentials, n_threads)
        return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of elements that are labelled right; unobserved labels do not count.

        Parameters
        ----------
        X, y : as in ``fit``
        sample_weight : array-like of shape (n_sequences,), optional
            Weights of sequences.

        Returns
        -------
        float

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> model.score(["manana"], ["010101"])
        1.0
        """
        batch, potentials = self._potentials(X)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch, unknown="mark")
        weights = np.repeat(sequence_weights(sample_weight, batch), batch.lengths)
        counted = (labels != -1) & (weights > 0)
        if not counted.any():
            raise InputError(
                "y has no observed label to score against: every label is None or NaN, or has sample_weight 0"
            )
        return float(np.average((self._decode(potentials) == labels)[counted], weights=weights[counted]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, without pickle; ``seqboost.load`` reads it.

        Parameters
        ----------
        path : str or path
            A file that exists is replaced, in one step.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that was written by ``save``."""
        return load_estimator(cls, path)
