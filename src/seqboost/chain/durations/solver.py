"""Inference for chains with minimum durations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.durations.forward_backward import duration_log_partition_chunk, duration_posterior_chunk
from seqboost.chain.durations.paths import duration_k_best, duration_viterbi_chunk
from seqboost.chain.durations.potentials import DurationPotentials
from seqboost.chain.exact.solver import ExactSolver
from seqboost.core.exceptions import ParameterError

__all__ = ["DurationSolver", "duration_solver"]


def duration_solver(potentials: DurationPotentials, beam: int | None) -> DurationSolver:
    """Return the solver of chains with minimum durations, which have no beam."""
    if beam is not None:
        raise ParameterError(
            f"chains with minimum durations (min_duration) have no beam search, got beam={beam}; use beam=None"
        )
    return DurationSolver(potentials)


@dataclass(frozen=True, eq=False)
class DurationSolver(ExactSolver):
    """Inference over the labelings whose runs are long enough."""

    potentials: DurationPotentials
    constraints = "durations, transitions"

    def fill(
        self,
        first: int,
        last: int,
        marginals: NDArray[np.float32] | None,
        log_z: NDArray[np.float64],
        labels: NDArray[np.int32] | None,
    ) -> None:
        """Run forward-backward, or the forward pass alone if nobody asks for marginals."""
        if marginals is None:
            duration_log_partition_chunk(self.potentials, first, last, log_z, labels=labels)
        else:
            duration_posterior_chunk(self.potentials, first, last, marginals, log_z, labels=labels)

    def fill_best(self, first: int, last: int, path: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the best labelings and their scores."""
        duration_viterbi_chunk(self.potentials, first, last, path, score)

    def k_best(self, sequence: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return up to ``k`` labelings of a sequence, best first, and their scores."""
        return duration_k_best(self.potentials, sequence, k)

    def path_scores(self, first: int, last: int, labels: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the scores of given labelings: one labeling agrees with all labels."""
        duration_log_partition_chunk(self.potentials, first, last, score, labels=labels)
