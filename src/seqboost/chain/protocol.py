"""What all kinds of chains have in common, and what each kind does in its own way.

A :class:`Chain` is data: log-scores, and where sequences begin. A :class:`Solver` works on the chains of one kind;
:mod:`seqboost.chain.inference` finds it by the chain's type and spreads its work over threads.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Chain", "Solver"]


class Chain(Protocol):
    """Log-scores of a set of chains of labels.

    Attributes
    ----------
    scores : float32 array (K, N, C) or (K, N, 1)
        Scores of labels at positions, with one slot per context or one for all.
    table : float64 array
        Scores of transitions.
    offsets : int64 array (n_sequences + 1,)
        Where sequences begin.
    end : float64 array (K,)
        Scores of closing a sequence.
    order, n_labels, n_positions, n_sequences : int
        Markov order, K, N, number of sequences.
    """

    @property
    def scores(self) -> NDArray[np.float32]: ...  # noqa: D102

    @property
    def table(self) -> NDArray[np.float64]: ...  # noqa: D102

    @property
    def offsets(self) -> NDArray[np.int64]: ...  # noqa: D102

    @property
    def end(self) -> NDArray[np.float64]: ...  # noqa: D102

    @property
    def order(self) -> int: ...  # noqa: D102

    @property
    def n_labels(self) -> int: ...  # noqa: D102

    @property
    def n_positions(self) -> int: ...  # noqa: D102

    @property
    def n_sequences(self) -> int: ...  # noqa: D102

    def with_scores(self, scores: NDArray[np.float32]) -> Self:
        """Return the same chains with other scores of labels."""


class Solver(Protocol):
    """Inference for the chains of one kind, in chunks of sequences.

    Attributes
    ----------
    constraints : str
        What may forbid labelings, in words.
    """

    constraints: str

    def chunks(self) -> list[tuple[int, int]]:
        """Return the chunks that threads share."""

    def fill(
        self,
        first: int,
        last: int,
        marginals: NDArray[np.float32] | None,
        log_z: NDArray[np.float64],
        labels: NDArray[np.int32] | None,
    ) -> None:
        """Fill log Z, and the marginals if there are any, of the sequences ``first:last`` that agree with labels."""

    def fill_best(self, first: int, last: int, path: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the best labelings of the sequences ``first:last`` and their scores."""

    def k_best(self, sequence: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return up to ``k`` labelings of a sequence, best first, and their scores; −inf = forbidden."""

    def path_scores(self, first: int, last: int, labels: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the scores of given labelings of the sequences ``first:last``; −inf = forbidden."""

    def by_contexts(self) -> Chain:
        """Return the same chains with a slot for each context, so that marginals are those of contexts."""
