"""Sequences with some labels unobserved: their chain clamped to what is observed.

With U the unobserved labels, L = log Σ_U P(observed, U | X) = log Z_clamped − log Z, where Z_clamped sums over the
paths that agree with the observed labels, and where one of a set of labels is observed, have one of them. So the
gradient needs forward-backward twice, and only for these sequences, which are copied out of the scores into a smaller
set of chains.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, log_partition_chunk, pair_sums_chunk, posterior_chunk
from seqboost.core.labelsets import LabelSets, forbid_others
from seqboost.core.offsets import sequence_chunks, starts_of
from seqboost.core.threads import run_tasks

__all__ = ["ClampedSequences"]


class ClampedSequences:
    """The partly observed sequences of a batch and their posterior given the observed labels.

    Parameters
    ----------
    labels : ndarray of int32, shape (N,)
        -1 = unobserved, -3 - i = one of set i.
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Where each sequence starts.
    weights : ndarray of float64, shape (n_sequences,)
        Weights of sequences in the sums of pairs.
    partly : ndarray of bool, shape (n_sequences,)
        Which sequences to take.
    sets : ndarray of bool, shape (n_sets, K), optional
        Sets of labels.

    Attributes
    ----------
    sequences : ndarray of int64, shape (n_clamped,)
        Their indices.
    start : ndarray of int64, shape (n_sequences,)
        First row of each sequence in ``marginals``, -1 = not there.
    marginals : ndarray of float32, shape (K, rows, C)
        P(c,k | X, observed), after ``posterior``.
    log_z : ndarray of float64, shape (n_clamped,)
        Log sum of the scores of the paths that agree, after ``posterior`` or ``log_partition``.
    """

    def __init__(
        self,
        labels: NDArray[np.int32],
        offsets: NDArray[np.int64],
        weights: NDArray[np.float64],
        partly: NDArray[np.bool_],
        sets: LabelSets | None = None,
    ) -> None:
        lengths = np.diff(offsets)
        self.sequences = np.flatnonzero(partly)
        self._rows = np.flatnonzero(np.repeat(partly, lengths))
        self._labels, self._sets = labels[self._rows], sets
        self._offsets = starts_of(lengths[partly])
        self._row_weights = np.repeat(weights[partly], lengths[partly])
        self.start = np.full(len(lengths), -1, dtype=np.int64)
        self.start[partly] = self._offsets[:-1]
        self._chunks = sequence_chunks(self._offsets) if len(self.sequences) else []
        self.marginals = np.empty((0, 0, 0), dtype=np.float32)
        self.log_z = np.empty(len(self.sequences))
        self._means = np.zeros((0, 0, 0))

    def posterior(self, potentials: Potentials, n_threads: int, with_pairs: bool) -> None:
        """Fill ``marginals``, ``log_z`` and, if asked, the sums of pairs."""
        n_labels, _, n_slots = potentials.scores.shape
        shape = (n_labels, len(self._rows), n_slots)
        if self.marginals.shape != shape:
            self.marginals = np.empty(shape, dtype=np.float32)
        self._means = np.zeros((max(len(self._chunks), 1), *potentials.table.shape))
        if not self._chunks:
            return
        inner = self._inner(potentials)
        tasks = [(inner, chunk, first, last, with_pairs) for chunk, (first, last) in enumerate(self._chunks)]
        run_tasks(self._posterior_chunk, tasks, n_threads)

    def log_partition(self, potentials: Potentials, n_threads: int) -> None:
        """Fill ``log_z`` alone."""
        if self._chunks:
            inner = self._inner(potentials)
            run_tasks(self._evaluate, [(inner, first, last) for first, last in self._chunks], n_threads)

    def pair_sums(self) -> NDArray[np.float64]:
        """Return Σ_t w P(c,k | X, observed) over the rows of each extended context, shape (E, K)."""
        total: NDArray[np.float64] = self._means.sum(axis=0)
        return total

    def _inner(self, potentials: Potentials) -> Potentials:
        """Copy the scores of these sequences out, -inf for labels other than the observed ones.

        (Observed labels of the lattice would do the same, but more slowly.)
        """
        scores = np.take(potentials.scores, self._rows, axis=1)
        forbid_others(scores, self._labels, self._sets)
        return Potentials(scores, potentials.table, self._offsets, potentials.order, potentials.end)

    def _evaluate(self, inner: Potentials, first: int, last: int) -> None:
        log_partition_chunk(inner, first, last, self.log_z)

    def _posterior_chunk(self, inner: Potentials, chunk: int, first: int, last: int, with_pairs: bool) -> None:
        messages = posterior_chunk(inner, first, last, self.marginals, self.log_z)
        if with_pairs and messages is not None:
            unused = np.zeros_like(self._means[chunk])
            pair_sums_chunk(inner, messages, self._row_weights, self._row_weights, self._means[chunk], unused)
