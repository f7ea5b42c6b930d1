"""What every chain of labels does once it is trained: label, and answer for labels, pairs and whole paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from seqboost.chain import Chain, Potentials, context_marginals, k_best, log_partition, posterior, viterbi
from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.parameters import Rule, check_parameters, integer, n_jobs_rule, one_of, plain_number
from seqboost.estimators.arguments import where
from seqboost.estimators.labeler import Labeler
from seqboost.estimators.query import NO_QUERY, Query, cheapest, cost_matrix, scaled_costs
from seqboost.objectives.forbidden import raise_if_forbidden
from seqboost.sequences import LabelCoder, SequenceBatch
from seqboost.sequences.containers import labels_in, probabilities_in

__all__ = ["MOST_CELLS", "PREDICTION_RULES", "WEIGHTED_VITERBI", "SequenceLabeler", "in_pieces"]

MOST_CELLS = 2**25  # scores of a part of the sequences that are in memory at once

PREDICTION_RULES: dict[str, Rule] = {
    "decoding": one_of("posterior", "viterbi"),
    "n_jobs": n_jobs_rule(),
}

WEIGHTED_VITERBI = (
    "class_weight changes the probabilities of single labels, but decoding='viterbi' predicts the most probable "
    "labelling as a whole; use decoding='posterior', or class_weight=None"
)

COSTLY_VITERBI = (
    "costs= weighs the errors of single labels, but decoding='viterbi' predicts the most probable labelling as a "
    "whole; use decoding='posterior' (set_params changes it after fit), or costs=None"
)


class SequenceLabeler(Labeler):
    """Base class of estimators that label sequences with a chain of labels.

    A subclass has the parameters ``decoding``, ``sequence`` and ``n_jobs``, and ``_scored``, which turns a
    batch into potentials.
    """

    decoding: str
    _class_weights: NDArray[np.float64] | None = None  # (n_labels,) that multiply the odds of labels

    _prediction_rules: ClassVar[Mapping[str, Rule]] = PREDICTION_RULES

    @property
    def _beam(self) -> int | None:
        beam: int | None = plain_number(getattr(self, "beam", self._earlier_beam))
        return beam

    def _scored(self, batch: SequenceBatch) -> Chain:
        """Return the scores of all labels at all positions, given the labels before."""
        raise NotImplementedError

    def _pieces(self, batch: SequenceBatch) -> list[SequenceBatch]:
        """Cut a batch into parts whose scores fit into memory."""
        return [batch]

    def _constraint(self, scores: NDArray[np.float32], offsets: NDArray[np.int64]) -> Potentials | None:
        """Return a chain of these scores within the forbidden transitions; None if nothing is forbidden."""
        return None

    def _potentials(self, X: Any, allow_missing_columns: bool = False) -> tuple[SequenceBatch, Chain]:
        batch = self._opened(X, allow_missing_columns)
        return batch, self._scored(batch)

    def _beam_of(self, query: Query) -> int | None:
        return self._beam if query.beam is None else query.beam

    def _query(self, batch: SequenceBatch, name: str, known: Any = None, costs: Any = None, beam: Any = None) -> Query:
        """Read what the method ``name`` was asked besides X."""
        check_parameters(name, {"beam": beam}, {"beam": integer(1, none=True)})
        if costs is not None and self.decoding == "viterbi":
            raise ParameterError(COSTLY_VITERBI)
        matrix = None if costs is None else cost_matrix(costs, self.classes_)
        coder, labels = LabelCoder.from_classes(self.classes_), None
        if known is not None:
            with where("In known=, which has the form of y"):
                labels = coder.encode(known, batch, sets=True)
        return Query.of(labels, coder.sets_, matrix, plain_number(beam))

    @contextmanager
    def _naming_impossible(self, batch: SequenceBatch, query: Query) -> Iterator[None]:
        """Say which known labels are impossible, if that is why there is no answer."""
        try:
            yield
        except InputError as error:
            blank = np.zeros((len(self.classes_), batch.n_rows, 1), dtype=np.float32)
            limits = None if query.labels is None else self._constraint(blank, batch.offsets)
            if limits is not None and query.labels is not None:
                raise_if_forbidden(
                    query.labels, batch.offsets, limits.table, limits.order, limits.end, self.classes_.tolist(),
                    sets=query.sets, named="known[{}]".format,
                )  # fmt: skip
            if query.labels is None:
                raise
            raise InputError(f"Given the labels in known=, {error}") from error

    def _label_probs(self, potentials: Chain, query: Query = NO_QUERY) -> NDArray[np.float32]:
        """Return v_k P(y_t = k | X) / Σ_j v_j P(y_t = j | X), (N, K), with the class weights v."""
        found = posterior(potentials, beam=self._beam_of(query), n_threads=self._n_threads)
        prob = found.node_marginals()
        if self._class_weights is None:
            return prob
        weighted: NDArray[np.float64] = prob * self._class_weights
        weighted /= weighted.sum(axis=1, keepdims=True)
        return weighted.astype(np.float32)

    def _marginals(self, batch: SequenceBatch, query: Query = NO_QUERY) -> NDArray[np.float32]:
        parts = self._parts(batch, query)
        found = [self._label_probs(part.allowed(self._scored(piece)), part) for piece, part in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _codes(self, batch: SequenceBatch, query: Query = NO_QUERY) -> NDArray[np.int32]:
        return np.concatenate([self._best(piece, part) for piece, part in self._parts(batch, query)])

    def _parts(self, batch: SequenceBatch, query: Query) -> Iterator[tuple[SequenceBatch, Query]]:
        start = 0
        for piece in self._pieces(batch):
            yield piece, query.rows(start, start + piece.n_rows)
            start += piece.n_rows

    def _best(self, batch: SequenceBatch, query: Query) -> NDArray[np.int32]:
        """Return the codes of the best labels of a piece, (n_rows,)."""
        potentials, n_threads = query.allowed(self._scored(batch)), self._n_threads
        if self.decoding == "viterbi":
            if self._class_weights is not None:
                raise ParameterError(WEIGHTED_VITERBI)
            return viterbi(potentials, beam=self._beam_of(query), n_threads=n_threads).labels
        prob = self._label_probs(potentials, query)
        # Of the allowed labellings, the one with the most correct labels to be expected, or of the least costs.
        gain = prob if query.costs is None else -scaled_costs(prob, query)
        constrained = self._constraint(np.ascontiguousarray(gain.T[:, :, None]), batch.offsets)
        if constrained is not None:
            return viterbi(query.allowed(constrained), n_threads=n_threads).labels
        return cheapest(prob, query)

    def predict(
        self, X: Any, *, known: Any = None, costs: Any = None, beam: int | None = None,
        allow_missing_columns: bool = False,
    ) -> Any:  # fmt: skip
        """Label sequences.

        Parameters
        ----------
        X : as in ``fit``
        known : as y of ``fit``, optional
            Labels that are known: None or NaN where they are not, a set of labels where it is one of them. The others
            are predicted given these.
        costs : dict, DataFrame or array of shape (n_labels, n_labels), optional
            What it costs to predict a label for another one: ``{(true, predicted): cost}`` or ``{true: {predicted:
            cost}}`` (pairs left out cost 1, right labels 0), a DataFrame with true labels as index and predicted ones
            as columns, or an array in the order of ``classes_`` (row = true). The labels of least expected cost are
            predicted, by the probabilities of ``predict_proba``; within ``transitions``, the allowed labelling of least
            total cost. Needs ``decoding="posterior"``.
        beam : int or None, default=None
            Number of contexts to keep at each position. None: as in training, which keeps all unless it has a beam of
            its own.
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        list of ndarray, one array of labels per sequence; for a table one array, in the order of its rows

        Examples
        --------
        >>> from seqboost import TreeCRF
        >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
        >>> print(*model.predict(["manana"])[0])
        0 1 0 1 0 1
        >>> print(*model.predict(["manana"], known=[[None, None, None, "0", None, {"0", "1"}]])[0])
        0 1 1 0 1 0
        >>> print(*model.predict(["manana"], costs={("0", "1"): 1000})[0])
        0 0 0 0 0 0
        """
        batch = self._opened(X, allow_missing_columns)
        query = self._query(batch, "predict", known, costs, beam)
        with self._naming_impossible(batch, query):
            return labels_in(self._container, self.classes_[self._codes(batch, query)], batch)

    def predict_proba(
        self, X: Any, *, known: Any = None, beam: int | None = None, allow_missing_columns: bool = False
    ) -> Any:
        """Return P(y_t = k | X), or given known labels as well.

        Parameters
        ----------
        X : as in ``fit``
        known, beam : as in ``predict``, optional
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

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
        batch = self._opened(X, allow_missing_columns)
        query = self._query(batch, "predict_proba", known, beam=beam)
        with self._naming_impossible(batch, query):
            return probabilities_in(self._container, self._marginals(batch, query), batch, self.classes_)

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
        found = context_marginals(potentials, n_threads=self._n_threads)
        return batch.restore(np.ascontiguousarray(found.transpose(1, 2, 0)))

    def predict_kbest(
        self, X: Any, k: int = 5, *, known: Any = None, allow_missing_columns: bool = False
    ) -> list[list[tuple[NDArray[Any], float]]]:
        """Return the ``k`` most probable labellings of each sequence.

        Parameters
        ----------
        X : as in ``fit``
        k : int, default=5
            Number of labellings; fewer are returned if fewer are possible.
        known : as in ``predict``, optional
            Labels that are known; probabilities are those given them.
        allow_missing_columns : bool, default=False
            Whether X may lack columns of the training data (or keys that every training position had), whose values
            are missing then; an error otherwise.

        Returns
        -------
        list of lists of (labels, log-probability), best first; labels are in the order of positions, which is that of
            the ``time`` column if there is one

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
        n_threads, query = self._n_threads, self._query(batch, "predict_kbest", known)
        potentials = query.allowed(potentials)
        with self._naming_impossible(batch, query):
            log_z = log_partition(potentials, n_threads=n_threads)
        return [
            [(self.classes_[path], float(min(score - z, 0.0))) for path, score in zip(*found, strict=True)]
            for found, z in zip(k_best(potentials, k, n_threads=n_threads), log_z, strict=True)
        ]

    def log_prob(self, X: Any, y: Any, *, allow_missing_columns: bool = False) -> NDArray[np.float64]:
        """Return log P(y | X) of each sequence; labels that are None or NaN are summed over, as are those of sets.

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
        check_is_fitted(self)
        y = self._labels(X, y)
        batch, potentials = self._potentials(X, allow_missing_columns)
        coder, n_threads = LabelCoder.from_classes(self.classes_), self._n_threads
        labels = coder.encode(y, batch, sets=True)
        observed, given = potentials, labels
        if coder.sets_ is not None:
            observed, given = Query(labels, coder.sets_).allowed(potentials), np.full_like(labels, -1)
        score = log_partition(observed, labels=given, n_threads=n_threads, allow_impossible=True)
        return np.minimum(score - log_partition(potentials, n_threads=n_threads), 0.0)


def in_pieces(batch: SequenceBatch, n_cells: int) -> list[SequenceBatch]:
    """Cut a batch between sequences into parts of about ``MOST_CELLS`` scores, ``n_cells`` to a position."""
    piece = np.cumsum(batch.lengths) * n_cells // MOST_CELLS
    cuts = np.flatnonzero(np.diff(piece)) + 1
    return [batch[part] for part in np.split(np.arange(batch.n_sequences), cuts)] if len(cuts) else [batch]
