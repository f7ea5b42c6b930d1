"""What objectives on a chain of labels have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqboost.core.contexts import ContextSpace
from seqboost.objectives import checks
from seqboost.objectives.derivatives import Derivatives

__all__ = ["ChainObjective"]


class ChainObjective(ABC):
    """Labels, sequences, weights and the shape of scores, checked; parameters as in ``Likelihood``."""

    n_observed: NDArray[np.int64]

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
    ) -> None:
        self._space = ContextSpace(n_labels, order)
        self._labels = np.ascontiguousarray(labels, dtype=np.int32)
        self._offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        self._curvature = checks.curvature_code(curvature)
        self._end = np.zeros(n_labels) if end is None else np.ascontiguousarray(end, dtype=np.float64)
        self._classes = classes
        checks.check_labels(self._labels, self._offsets, n_labels)
        weights = checks.sequence_weights(sequence_weights, len(self._offsets) - 1)
        self._n_slots = self._space.n_contexts if joint else 1
        self.has_table = not joint and self._space.n_contexts > 1
        self._prepare(weights)

    @abstractmethod
    def _prepare(self, weights: NDArray[np.float64]) -> None:
        """Take the weights of sequences, and make what stays the same from round to round."""

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
