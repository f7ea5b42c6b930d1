"""Inference for chains of seen contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.backoff.forward_backward import seen_chunks, seen_posterior_chunk
from seqboost.chain.backoff.paths import seen_path_scores
from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.chain.backoff.viterbi import seen_viterbi_chunk
from seqboost.core.exceptions import ParameterError

__all__ = ["BackoffSolver", "backoff_solver"]


def backoff_solver(potentials: SeenPotentials, beam: int | None) -> BackoffSolver:
    """Return the solver of seen contexts, which are few and have no beam."""
    if beam is not None:
        raise ParameterError(
            f"chains of seen contexts (contexts='seen') have no beam search, got beam={beam}; use beam=None"
        )
    return BackoffSolver(potentials)


@dataclass(frozen=True, eq=False)
class BackoffSolver:
    """Inference over all labelings of chains of seen contexts."""

    potentials: SeenPotentials
    constraints = "transitions"

    def chunks(self) -> list[tuple[int, int]]:
        """Return the chunks that threads share."""
        return seen_chunks(self.potentials.offsets)

    def fill(
        self,
        first: int,
        last: int,
        marginals: NDArray[np.float32] | None,
        log_z: NDArray[np.float64],
        labels: NDArray[np.int32] | None,
    ) -> None:
        """Run forward-backward."""
        seen_posterior_chunk(self.potentials, first, last, marginals, log_z, labels=labels)

    def fill_best(self, first: int, last: int, path: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the best labelings and their scores."""
        seen_viterbi_chunk(self.potentials, first, last, path, score)

    def k_best(self, sequence: int, k: int) -> NoReturn:
        """Refuse: only the best labeling is known."""
        raise ParameterError(
            "the k best labellings of a chain of seen contexts (contexts='seen') are not available; use viterbi for "
            "the best one, or train with contexts='all'"
        )

    def path_scores(self, first: int, last: int, labels: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the scores of given labelings."""
        score[first:last] = seen_path_scores(self.potentials, labels, first, last)

    def by_contexts(self) -> NoReturn:
        """Refuse: there is no slot for each context."""
        raise ParameterError(
            "predict_marginals has an entry for every context, which contexts='seen' does without; use "
            "predict_proba, or train with contexts='all'"
        )
