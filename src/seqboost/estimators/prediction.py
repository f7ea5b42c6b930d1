"""What every chain of labels does once it is trained: label, and answer for labels, pairs and whole paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Posterior, Potentials, SeenPotentials, k_best, log_partition, posterior, viterbi
from seqboost.core.exceptions import ParameterError
from seqboost.estimators.labeler import Labeler
from seqboost.estimators.parameters import Rule, check_parameters, integer, n_jobs_rule, one_of, plain_number
from seqboost.sequences import LabelCoder, SequenceBatch

__all__ = ["PREDICTION_RULES", "SequenceLabeler"]

PREDICTION_RULES: dict[str, Rule] = {
    "decoding": one_of("posterior", "viterbi"),
    "beam": integer(1, none=True),
    "n_jobs": n_jobs_rule(),
}

WEIGHTED_VITERBI = (
    "class_weight changes the probabilities of single labels, but decoding='viterbi' predicts the most probable "
    "labelling as a whole; use decoding='posterior', or class_weight=None"
)


class SequenceLabeler(Labeler):
    """Base class of estimators that label sequences with a chain of labels.

    A subclass has the parameters ``decoding``, ``beam``, ``sequence`` and ``n_jobs``, and ``_scored``, which turns a
    batch into potentials.
    """

    decoding: str
    beam: int | None
    _class_weights: NDArray[np.float64] | None = None  # (n_labels,) that multiply the odds of labels

    _prediction_rules: ClassVar[Mapping[str, Rule]] = PREDICTION_RULES

    @property
    def _beam(self) -> int | None:
        beam: int | None = plain_number(self.beam)
        return beam

    def _scored(self, batch: SequenceBatch) -> Potentials | SeenPotentials:
        """Return the scores of all labels at all positions, given the labels before."""
        raise NotImplementedError

    def _constraint(self, scores: NDArray[np.float32], potentials: Potentials | SeenPotentials) -> Potentials | None:
        """Return a chain of these scores within the forbidden transitions; None if nothing is forbidden."""
        return None

    def _potentials(
        self, X: Any, allow_missing_columns: bool = False
    ) -> tuple[SequenceBatch, Potentials | SeenPotentials]:
        batch = self._opened(X, allow_missing_columns)
        return batch, self._scored(batch)

    def _posterior(self, potentials: Potentials | SeenPotentials) -> Posterior:
        return posterior(potentials, beam=self._beam, n_threads=self._n_threads)

    def _label_probs(self, potentials: Potentials | SeenPotentials) -> NDArray[np.float32]:
        """Return v_k P(y_t = k | X) / Σ_j v_j P(y_t = j | X), (N, K), with the class weights v."""
        prob = self._posterior(potentials).node_marginals()
        if self._class_weights is None:
            return prob
        weighted = prob * self._class_weights
        return (weighted / weighted.sum(axis=1, keepdims=True)).astype(np.float32)

    def _marginals(self, batch: SequenceBatch) -> NDArray[np.float32]:
        return self._label_probs(self._scored(batch))

    def _codes(self, batch: SequenceBatch) -> NDArray[np.int32]:
        potentials, n_threads = self._scored(batch), self._n_threads
        if self.decoding == "viterbi":
            if self._class_weights is not None:
                raise ParameterError(WEIGHTED_VITERBI)
            return viterbi(potentials, beam=self._beam, n_threads=n_threads).labels
        prob = self._label_probs(potentials)
        # Of the allowed labellings, the one with the most correct labels to be expected.
        constrained = self._constraint(np.ascontiguousarray(prob.T[:, :, None]), potentials)
        if constrained is not None:
            return viterbi(constrained, n_threads=n_threads).labels
        return np.argmax(prob, axis=1).astype(np.int32)

    def predict_marginals(self, X: Any, *, allow_missing_columns: bool = False) -> Any:
        """Return P(y_{t−1}, …, y_{t−m}, y_t | X): probabilities of contexts and labels together.

        Parameters
        ----------
        X : as in ``fit``
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

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
        batch, potentials = self._potentials(X, allow_missing_columns)
        if isinstance(potentials, SeenPotentials):
            raise ParameterError(
                "predict_marginals has an entry for every context, which contexts='seen' does without; use "
                "predict_proba, or train with contexts='all'"
            )
        n_contexts = potentials.space.n_contexts
        if potentials.scores.shape[2] != n_contexts:
            shape = (*potentials.scores.shape[:2], n_contexts)
            scores = np.ascontiguousarray(np.broadcast_to(potentials.scores, shape))
            potentials = replace(potentials, scores=scores)
        found = posterior(potentials, n_threads=self._n_threads)
        return batch.restore(np.ascontiguousarray(found.marginals.transpose(1, 2, 0)))

    def predict_kbest(
        self, X: Any, k: int = 5, *, allow_missing_columns: bool = False
    ) -> list[list[tuple[NDArray[Any], float]]]:
        """Return the ``k`` most probable labellings of each sequence.

        Parameters
        ----------
        X : as in ``fit``
        k : int, default=5
            Number of labellings; fewer are returned if fewer are possible.
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

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
        batch, potentials = self._potentials(X, allow_missing_columns)
        k = min(int(k), len(self.classes_) ** int(batch.lengths.max()))
        n_threads = self._n_threads
        log_z = log_partition(potentials, n_threads=n_threads)
        return [
            [(self.classes_[path], float(min(score - z, 0.0))) for path, score in zip(*found, strict=True)]
            for found, z in zip(k_best(potentials, k, n_threads=n_threads), log_z, strict=True)
        ]

    def log_prob(self, X: Any, y: Any, *, allow_missing_columns: bool = False) -> NDArray[np.float64]:
        """Return log P(y | X) of each sequence; labels that are None or NaN are summed over.

        A labelling that ``transitions`` or ``min_duration`` forbids has −inf.

        Parameters
        ----------
        X, y : as in ``fit``
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

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
        batch, potentials = self._potentials(X, allow_missing_columns)
        labels = LabelCoder.from_classes(self.classes_).encode(y, batch)
        n_threads = self._n_threads
        score = log_partition(potentials, labels=labels, n_threads=n_threads, allow_impossible=True)
        return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)
