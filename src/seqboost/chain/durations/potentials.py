"""Chains of order 1 whose labels have minimum durations.

A run is a maximal block of equal labels.  Label k with minimum d_k stands for a chain of states

    (k,1) -> (k,2) -> … -> (k,d_k)        (k,d_k) -> (k,d_k) or (j,1), j != k

A sequence begins in any (k,d_k) and may end in any state, so that its first and its last run may be shorter: records
are cut from longer ones.  Every allowed labelling is one path of states and the other way round.  Scores are those of
labels and pairs of labels, whatever the state, so the chain has as many parameters as one without durations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.potentials import Potentials
from seqboost.core.exceptions import ParameterError

__all__ = ["DurationPotentials", "short_run"]


@dataclass(frozen=True, eq=False)
class DurationPotentials(Potentials):
    """Log-scores of a set of chains of order 1 whose labels have minimum durations.

    Parameters
    ----------
    scores, table, offsets, order, end
        As of :class:`Potentials`; ``order`` is 1.
    durations : int64 array (K,)
        Smallest number of positions of a run of each label.

    Examples
    --------
    >>> scores, table = np.zeros((2, 4, 1), np.float32), np.zeros((3, 2))
    >>> chain = DurationPotentials(scores, table, np.array([0, 4]), 1, durations=np.array([3, 1]))
    >>> from seqboost.chain import log_partition
    >>> round(float(np.exp(log_partition(chain)[0])))  # of 16, all but 1011, 1010, 1101, 0101 and 1001
    11
    """

    durations: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Check shapes and values."""
        super().__post_init__()
        if self.order != 1:
            raise ParameterError(f"minimum durations need a chain of order 1, got order {self.order}")
        durations = np.ascontiguousarray(self.durations, dtype=np.int64)
        if durations.shape != (self.n_labels,) or durations.min() < 1:
            raise ParameterError(f"durations must be {self.n_labels} whole numbers of 1 or more, got {self.durations}")
        object.__setattr__(self, "durations", durations)


def short_run(
    labels: NDArray[np.int32], offsets: NDArray[np.int64], durations: NDArray[np.int64]
) -> tuple[int, int] | None:
    """Return the first row and the length of the first run that is too short; None if there is none.

    Only runs between two observed labels count: others may go on where labels are unobserved, or beyond the sequence.

    Examples
    --------
    >>> short_run(np.array([0, 0, 1, 1, 0, 1]), np.array([0, 6]), np.array([1, 3]))
    (2, 2)
    """
    if not len(labels):
        return None
    is_first = np.append(True, labels[1:] != labels[:-1])
    is_first[offsets[:-1]] = True
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(labels))  # one beyond
    before, after = labels[np.maximum(first - 1, 0)], labels[np.minimum(last, len(labels) - 1)]
    inside = ~np.isin(first, offsets) & ~np.isin(last, offsets) & (before >= 0) & (after >= 0) & (labels[first] >= 0)
    short = np.flatnonzero(inside & (last - first < durations[labels[first]]))
    return (int(first[short[0]]), int(last[short[0]] - first[short[0]])) if short.size else None
