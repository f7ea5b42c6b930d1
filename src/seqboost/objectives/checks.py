"""What every objective is told about labels and weights: checks, and messages that name the sequence at fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.labelsets import FIRST_SET, LabelSets, set_rows
from seqboost.core.offsets import locate
from seqboost.objectives.curvature import COUNT, MIXING, NEWTON

__all__ = [
    "check_labels",
    "check_no_sets",
    "check_observed",
    "curvature_code",
    "position_weights",
    "sequence_weights",
]

_CURVATURES = {"count": COUNT, "newton": NEWTON, "mixing": MIXING}


def curvature_code(curvature: str) -> int:
    """Give COUNT, NEWTON or MIXING."""
    if curvature not in _CURVATURES:
        raise ParameterError(f"curvature must be one of 'mixing', 'newton' and 'count', got {curvature!r}")
    return _CURVATURES[curvature]


def check_observed(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    what: str,
    cure: str,
    name: str = "y",
    numbers: NDArray[np.intp] | None = None,
) -> None:
    """Raise InputError at the first unobserved label, which ``what`` needs; ``numbers`` are those the user knows."""
    hidden = np.flatnonzero(labels < 0)
    if len(hidden):
        s, position = locate(offsets, hidden[0])
        found = "a set of labels" if labels[hidden[0]] <= FIRST_SET else "an unobserved one (None or NaN)"
        raise InputError(
            f"{what} needs every label, but {name}[{s if numbers is None else numbers[s]}] has {found} at position "
            f"{position}; {cure}, or leave such sequences out"
        )


def check_no_sets(
    labels: NDArray[np.int32],
    offsets: NDArray[np.int64],
    what: str,
    cure: str,
    name: str = "y",
    numbers: NDArray[np.intp] | None = None,
) -> None:
    """Raise InputError at the first set of labels, with which ``what`` cannot train."""
    rows = set_rows(labels)
    if len(rows):
        s, position = locate(offsets, rows[0])
        raise InputError(
            f"{what} cannot train on sets of labels, but {name}[{s if numbers is None else numbers[s]}] has one at "
            f"position {position}; {cure}, or give one label there, or None"
        )


def check_labels(
    labels: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int, sets: LabelSets | None = None
) -> None:
    """Raise if a label code is neither in 0..K-1 nor -1 nor that of a set."""
    if sets is not None and (sets.ndim != 2 or sets.shape[1] != n_labels or not sets.any(axis=1).all()):
        raise InputError(f"sets must have shape (n_sets, {n_labels}) with a label in each, got shape {sets.shape}")
    bad = np.flatnonzero((labels < -1) | (labels >= n_labels))
    if sets is not None:
        bad = bad[~((labels[bad] <= FIRST_SET) & (labels[bad] > FIRST_SET - len(sets)))]
    if len(bad):
        sequence, position = locate(offsets, bad[0])
        raise InputError(
            f"label codes must be in 0..{n_labels - 1}, or -1 for unobserved; y[{sequence}] has "
            f"{labels[bad[0]]} at position {position}"
        )


def sequence_weights(weights: NDArray[np.float64] | None, n_sequences: int) -> NDArray[np.float64]:
    """Return w of each sequence, 1 if there are none."""
    return np.ones(n_sequences) if weights is None else _checked_weights(weights, n_sequences, "sequence")


def position_weights(weights: NDArray[np.float64] | None, labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return v of each position: 1 if there are none, 0 where the label is unobserved."""
    return np.where(labels >= 0, 1.0 if weights is None else _checked_weights(weights, len(labels), "position"), 0.0)


def _checked_weights(weights: NDArray[np.float64], n: int, of: str) -> NDArray[np.float64]:
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.shape != (n,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InputError(
            f"{of} weights must be {n} finite numbers >= 0, one per {of}; got shape "
            f"{weights.shape}" + (f" with a smallest value of {weights.min()}" if weights.size else "")
        )
    return weights
