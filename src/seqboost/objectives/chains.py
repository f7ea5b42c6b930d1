"""What objectives on a chain of labels have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, posterior
from seqboost.core.contexts import ContextSpace, observed_contexts
from seqboost.core.exceptions import ParameterError
from seqboost.core.labelsets import UNOBSERVED, LabelSets
from seqboost.objectives import checks
from seqboost.objectives.derivatives import Derivatives
from seqboost.objectives.forbidden import raise_if_forbidden
from seqboost.objectives.predictions import Predictions

__all__ = ["ChainObjective"]


class ChainObjective(ABC):
    """Labels, sequences, weights, and buffers in the shape of scores; parameters as in ``Likelihood``.

    A subclass calls ``_set_up`` from its ``_prepare``, and sets ``_chunks``.
    """

    takes_sets: ClassVar[bool] = False  # whether a label may be one of a set
    n_observed: NDArray[np.int64]
    _chunks: Sequence[tuple[int, int]]
    _predictions: Predictions | None = None

    def __init__(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        *,
        n_labels: int,
        order: int,
        joint: bool,
        sequence_weights: NDArray[np.float64] | None = None,
        curvature: str = "mixing",
        end: NDArray[np.float64] | None = None,
        classes: Sequence[object] | None = None,
        sets: LabelSets | None = None,
    ) -> None:
        self._space = ContextSpace(n_labels, order)
        self._labels = np.ascontiguousarray(labels, dtype=np.int32)
        self._offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        self._curvature = checks.curvature_code(curvature)
        self._end = np.zeros(n_labels) if end is None else np.ascontiguousarray(end, dtype=np.float64)
        self._classes, self._sets = classes, sets
        checks.check_labels(self._labels, self._offsets, n_labels, sets if self.takes_sets else None)
        weights = checks.sequence_weights(sequence_weights, len(self._offsets) - 1)
        self._n_slots = self._space.n_contexts if joint else 1
        self.has_table = not joint and self._space.n_contexts > 1
        self._prepare(weights)

    @abstractmethod
    def _prepare(self, weights: NDArray[np.float64]) -> None:
        """Take the weights of sequences, and make what stays the same from round to round."""

    def _set_up(self, weights: NDArray[np.float64], is_scored: NDArray[np.bool_]) -> None:
        """Count the positions that are scored, set the weights, and allocate the buffers of cells, filled with 0.

        A sequence without a scored position has weight 0: it says nothing (Δ = P − P = 0).
        """
        scored_before = np.append(0, np.cumsum(is_scored))
        self.n_observed = np.diff(scored_before[self._offsets])
        self._weights = np.where(self.n_observed > 0, weights, 0.0)
        self._row_weights = np.repeat(self._weights, np.diff(self._offsets))
        shape = (self._space.n_labels, len(self._labels), self._n_slots)
        self._gradient, self._hessian = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)

    def _observed_path(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the slots of scores and the rows of the table that the observed labels pass through, both (N,)."""
        slot, extended = observed_contexts(self._labels, self._offsets, self._space.n_labels, self._space.order)
        return slot if self._n_slots > 1 else np.zeros_like(slot), extended

    def _check_shape(self, scores: NDArray[np.float32]) -> None:
        if scores.shape != self._gradient.shape:
            raise ParameterError(f"scores must have shape {self._gradient.shape}, got {scores.shape}")

    def _potentials(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> Potentials:
        self._check_shape(scores)
        return Potentials(scores, table, self._offsets, self._space.order, self._end)

    def _raise_if_forbidden(self, table: NDArray[np.float64]) -> None:
        """Raise InputError if the labels of a sequence break a forbidden transition."""
        labels = self._labels, self._offsets
        raise_if_forbidden(*labels, table, self._space.order, self._end, self._classes, sets=self._sets)

    def _as_derivatives(
        self,
        log_likelihood: NDArray[np.float64],
        n_correct: NDArray[np.int64],
        of_table: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None],
        caution: float = 1.0,
    ) -> Derivatives:
        """Return the derivatives that the buffers hold, with those of the table."""
        return Derivatives(
            self._gradient, self._hessian, *of_table, log_likelihood, n_correct, self.n_observed, caution,
            self._n_exact, self._predictions,
        )  # fmt: skip

    @cached_property
    def _n_exact(self) -> NDArray[np.int64] | None:
        """The number of labels of each sequence that are known exactly; None if that is all observed ones."""
        if self._sets is None:
            return None
        return np.add.reduceat(self._labels > UNOBSERVED, self._offsets[:-1], dtype=np.int64)

    def watch_positions(self, first_row: int = 0, label_weights: NDArray[np.float64] | None = None) -> None:
        """Have ``derivatives`` say from now on what positions are labeled.

        Parameters
        ----------
        first_row : int, default=0
            Where a sequence starts: positions before it are left out.
        label_weights : ndarray of float64, shape (K,), optional
            Weights of labels at prediction, as in :class:`~seqboost.objectives.predictions.Predictions`.
        """
        self._predictions = Predictions(self._labels, first_row, label_weights)

    def _keep_predictions(self, start: int, stop: int) -> None:
        """Take predictions from the marginals that the buffer of the gradient holds at the rows start:stop."""
        if self._predictions is not None:
            self._predictions.fill(self._gradient[:, start:stop], start)

    def _watched(self, scores: NDArray[np.float32], table: NDArray[np.float64]) -> Potentials | None:
        """Return the chains of the watched sequences, for objectives without marginals; None if there are none."""
        if self._predictions is None or self._predictions.first_row >= len(self._labels):
            return None
        row = self._predictions.first_row
        offsets = self._offsets[np.searchsorted(self._offsets, row) :] - row
        return Potentials(np.ascontiguousarray(scores[:, row:]), table, offsets, self._space.order, self._end)

    def _predict_watched(self, watched: Potentials | None, n_threads: int) -> None:
        """Take predictions from a forward-backward pass over the watched sequences."""
        if self._predictions is not None and watched is not None:
            self._predictions.fill(posterior(watched, n_threads=n_threads).marginals, self._predictions.first_row)

    @abstractmethod
    def derivatives(self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1) -> Derivatives:
        """Give gradient and curvature at these scores.

        Parameters
        ----------
        scores : ndarray of float32, shape (K, N, C)
            Scores of the trees.
        table : ndarray of float64, shape (E, K)
            Baseline or transition scores, -inf = forbidden.
        n_threads : int, default=1
            Threads over chunks of sequences. The answer is the same, bit for bit, for any number.

        Returns
        -------
        Derivatives

        Raises
        ------
        InputError
            If the labels of a sequence break a forbidden transition.
        """

    @abstractmethod
    def log_likelihood(
        self, scores: NDArray[np.float32], table: NDArray[np.float64], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Give what is climbed of each sequence, (n_sequences,), unweighted, without derivatives.

        Leaves what ``derivatives`` returned untouched; parameters are as there.
        """
