"""What is held out for early stopping: whole sequences, or blocks of a few long ones.

In a picture::

    many sequences      ▓▓▓  ▓▓▓▓▓  ░░░░  ▓▓▓  ▓▓▓▓           ░ held out
    few long ones       ▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.core.labelsets import UNOBSERVED
from seqboost.training.config import FitConfig
from seqboost.training.dataset import Dataset

__all__ = [
    "ENOUGH_SEQUENCES",
    "SHORTEST_BLOCK",
    "Divisions",
    "divisions_of",
    "has_blocks",
    "hold_out",
    "hold_out_blocks",
]

ENOUGH_SEQUENCES = 20
"""From this number of sequences on, whole ones are held out; with fewer, blocks of long ones."""

JUDGING_SEQUENCES = 4
"""From this number of sequences on, whole ones compare models, even if blocks stop their training."""

# Neighbours of a held-out block are much like its ends; a block must be longer than that to say something new.
SHORTEST_BLOCK = 100


def _n_held(n_sequences: int, fraction: float) -> int:
    return min(max(1, math.ceil(fraction * n_sequences)), n_sequences - 1)


def hold_out(n_sequences: int, fraction: float, seed: int, part: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Divide whole sequences at random; return the training and the held-out ones, both in order.

    Parts with other numbers hold out other sequences, as long as there are any.
    """
    n_held = _n_held(n_sequences, fraction)
    shuffled = np.roll(np.random.default_rng(seed).permutation(n_sequences), -part * n_held)
    return np.sort(shuffled[n_held:]), np.sort(shuffled[:n_held])


def _block_offsets(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where blocks begin: about ``ENOUGH_SEQUENCES`` of one length, none shorter than ``SHORTEST_BLOCK``."""
    length = max(SHORTEST_BLOCK, offsets[-1] / ENOUGH_SEQUENCES)
    cuts = [
        np.linspace(start, stop, max(1, int((stop - start) / length)) + 1)[:-1].astype(np.int64)
        for start, stop in zip(offsets[:-1], offsets[1:], strict=True)
    ]
    return np.append(np.concatenate(cuts), offsets[-1])


def _telling(dataset: Dataset, offsets: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the numbers of blocks with an observed label that has a weight: others could not tell when to stop."""
    return np.flatnonzero(np.add.reduceat(dataset.telling_labels() != UNOBSERVED, offsets[:-1], dtype=np.int64))


def has_blocks(dataset: Dataset) -> bool:
    """Return whether blocks can be held out: the sequences are long enough, and labeled in two blocks or more."""
    offsets = dataset.batch.offsets
    is_long = bool(offsets[-1] >= ENOUGH_SEQUENCES * SHORTEST_BLOCK)
    return is_long and len(_telling(dataset, _block_offsets(offsets))) > 1


def hold_out_blocks(dataset: Dataset, fraction: float, seed: int, part: int = 0) -> tuple[Dataset, Dataset]:
    """Hold out blocks of sequences; what lies between two of them stays one piece.

    Examples
    --------
    >>> from seqboost.sequences import as_batch
    >>> one = Dataset(as_batch([np.arange(2000.0)[:, None]]), np.zeros(2000, np.int32), np.ones(1))
    >>> kept, held = hold_out_blocks(one, 0.1, seed=0)
    >>> kept.batch.lengths, held.batch.lengths
    (array([ 400, 1400]), array([100, 100]))
    """
    offsets = _block_offsets(dataset.batch.offsets)
    telling = _telling(dataset, offsets)
    is_kept = np.ones(len(offsets), dtype=bool)
    is_kept[telling[hold_out(len(telling), fraction, seed, part)[1]]] = False
    is_kept[-1] = False
    begins = np.isin(offsets, dataset.batch.offsets)  # of a sequence, or the end
    edge = begins | ~is_kept
    edge[1:] |= ~is_kept[:-1]
    pieces = dataset.cut(offsets[edge])
    is_training = is_kept[edge][:-1]
    return pieces.take(np.flatnonzero(is_training)), pieces.take(np.flatnonzero(~is_training))


@dataclass(frozen=True, eq=False)
class Divisions:
    """Ways to hold out a part of the sequences: number 0 is for early stopping, others hold out other sequences.

    A block is much like the rest of its sequence: it can tell when to stop, but not what suits other sequences.
    Therefore numbers from 1 on hold out whole sequences if there are a few, and only they should judge between models.
    """

    dataset: Dataset
    fraction: float
    seed: int
    by_blocks: bool

    def __call__(self, number: int) -> tuple[Dataset, Dataset]:
        """Return what is trained on and what is held out."""
        if self.by_blocks and (number == 0 or not self._judges_are_whole):
            return hold_out_blocks(self.dataset, self.fraction, self.seed, number)
        kept, held = hold_out(self.dataset.batch.n_sequences, self.fraction, self.seed, number)
        return self.dataset.take(kept), self.dataset.take(held)

    def judging(self, most: int) -> range:
        """Return the numbers of at most ``most`` divisions that compare models; none holds out what another does."""
        offsets = self.dataset.batch.offsets
        by_blocks = self.by_blocks and not self._judges_are_whole
        n_pieces = len(_telling(self.dataset, _block_offsets(offsets))) if by_blocks else len(offsets) - 1
        first = int(self.by_blocks and self._judges_are_whole)
        return range(first, first + min(most, n_pieces // _n_held(n_pieces, self.fraction)))

    @property
    def _judges_are_whole(self) -> bool:
        return not self.by_blocks or self.dataset.batch.n_sequences >= JUDGING_SEQUENCES


def divisions_of(training: Dataset, config: FitConfig) -> Divisions | None:
    """Return ways to hold out sequences, or None if none are to be held out."""
    early_stopping, transitions = config.stopping.early_stopping, config.chain.transitions
    if early_stopping is False:
        return None
    n_sequences = training.batch.n_sequences
    # A block that begins inside a span would break the rules of a scheme.
    can_cut = isinstance(transitions, str) and transitions == "any" and has_blocks(training)
    if early_stopping == "auto" and n_sequences < ENOUGH_SEQUENCES and not can_cut:
        return None
    by_blocks = can_cut and n_sequences < (ENOUGH_SEQUENCES if early_stopping == "auto" else 2)
    if n_sequences < 2 and not by_blocks:
        raise ParameterError(
            "early_stopping=True needs sequences to hold out, but X has only one, which cannot be cut (it is short, it "
            "has labels in one block only, or `transitions` has rules for its ends); give X_val and y_val, or set "
            "early_stopping=False"
        )
    return Divisions(training, config.stopping.validation_fraction, config.seed, by_blocks)
