"""Inference for chains with all contexts, exactly or within a beam."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.beam import beam_sequence, make_beam
from seqboost.chain.exact.forward_backward import log_partition_chunk, posterior_chunk
from seqboost.chain.paths import k_best_sequence, path_scores_chunk, viterbi_chunk
from seqboost.chain.potentials import Potentials
from seqboost.core.exceptions import ParameterError
from seqboost.core.offsets import sequence_chunks

__all__ = ["BeamSolver", "ExactSolver", "exact_solver"]

NOTHING, NO_PATH = np.empty((0, 0, 0), np.float32), np.empty(0, np.int32)


def exact_solver(potentials: Potentials, beam: int | None) -> ExactSolver:
    """Return the solver of potentials: within a beam, if that holds fewer contexts than there are."""
    if beam is not None and beam < potentials.space.n_contexts:
        return BeamSolver(potentials, beam)
    return ExactSolver(potentials)


@dataclass(frozen=True, eq=False)
class ExactSolver:
    """Inference over all labelings."""

    potentials: Potentials
    constraints = "transitions"

    def chunks(self) -> list[tuple[int, int]]:
        """Return the chunks that threads share."""
        return sequence_chunks(self.potentials.offsets)

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
            log_partition_chunk(self.potentials, first, last, log_z, labels=labels)
        else:
            posterior_chunk(self.potentials, first, last, marginals, log_z, labels=labels)

    def fill_best(self, first: int, last: int, path: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the best labelings and their scores."""
        p = self.potentials
        choice = np.empty((self._longest(first, last), p.space.n_contexts), np.uint16)
        viterbi_chunk(p.lattice(), self._turned, first, last, choice, path, score)

    def k_best(self, sequence: int, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return up to ``k`` labelings of a sequence, best first, and their scores."""
        p, n_contexts = self.potentials, self.potentials.space.n_contexts
        begin, stop = int(p.offsets[sequence]), int(p.offsets[sequence + 1])
        values, rank = np.empty((2, n_contexts, k)), np.empty(p.n_labels, np.int64)
        choice = np.empty((stop - begin, n_contexts, k), np.int32)
        paths, scores = np.empty((k, stop - begin), np.int32), np.empty(k)
        k_best_sequence(p.lattice(), begin, stop, choice, values, rank, paths, scores)
        return paths, scores

    def path_scores(self, first: int, last: int, labels: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the scores of given labelings."""
        path_scores_chunk(self.potentials.lattice(), labels, first, last, score)

    def by_contexts(self) -> Potentials:
        """Return the same chains with a slot for each context."""
        p = self.potentials
        if p.joint:
            return p
        shape = (*p.scores.shape[:2], p.space.n_contexts)
        return p.with_scores(np.ascontiguousarray(np.broadcast_to(p.scores, shape)))

    def _longest(self, first: int, last: int) -> int:
        return int(np.diff(self.potentials.offsets[first : last + 1]).max())

    @cached_property
    def _turned(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.potentials.table.T)


@dataclass(frozen=True, eq=False)
class BeamSolver(ExactSolver):
    """Inference over the contexts of a beam."""

    width: int

    def fill(
        self,
        first: int,
        last: int,
        marginals: NDArray[np.float32] | None,
        log_z: NDArray[np.float64],
        labels: NDArray[np.int32] | None,
    ) -> None:
        """Run a pruned forward-backward pass."""
        if labels is not None:
            raise ParameterError("beam search cannot be combined with observed labels; drop beam or labels")
        self._search(first, last, NO_PATH, NOTHING if marginals is None else marginals, log_z)

    def fill_best(self, first: int, last: int, path: NDArray[np.int32], score: NDArray[np.float64]) -> None:
        """Fill the best labelings within the beam, and their scores."""
        self._search(first, last, path, NOTHING, score)

    def _search(
        self,
        first: int,
        last: int,
        path: NDArray[np.int32],
        marginals: NDArray[np.float32],
        total: NDArray[np.float64],
    ) -> None:
        p, lattice = self.potentials, self.potentials.lattice()
        beam = make_beam(self._longest(first, last), self.width, p.space.n_contexts)
        unforced, no_pairs = np.empty(0, np.int64), np.empty((0, 0, 0))
        for s in range(first, last):
            begin, stop = int(p.offsets[s]), int(p.offsets[s + 1])
            total[s] = beam_sequence(lattice, begin, stop, beam, path, marginals, unforced, no_pairs)
