"""What every objective is told about labels and weights: checks, and messages that name the sequence at fault."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, ParameterError
from seqboost.core.offsets import locate
from seqboost.objectives.curvature import COUNT, MIXING, NEWTON

__all__ = ["check_labels", "curvature_code", "position_weights", "sequence_weights"]

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
        raise InputError(
            f"{what} needs every label, but {name}[{s if numbers is None else numbers[s]}] has an unobserved one (None "
            f"or NaN) at position {position}; {cure}, or leave such sequences out"
        )


def check_labels(labels: NDArray[np.int32], offsets: NDArray[np.int64], n_labels: int) -> None:
    """Raise if a label code is neither in 0..K-1 nor -1."""
    bad = np.flatnonzero((labels < -1) | (labels >= n_labels))
    if len(bad):
        sequence, position = locate(offsets, bad[0])
        raise InputError(
            f"label codes must be in 0..{n_labels - 1}, or -1 for unobserved; y[{sequence}] has "
            f"{labels[bad[0]]} at position {position}"
        )


def sequence_weights(weights: NDArray[np.float64] | None, n_sequences: int) -> NDArray[np.float64]:
    """Give w of each sequence, 1 if there are none."""
    if weights is None:
        return np.ones(n_sequences)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.shape != (n_sequences,) or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InputError(
            f"sequence weights must be {n_sequences} finite numbers >= 0, one per sequence; got shape "
            f"{weights.shape}" + (f" with a smallest value of {weights.min()}" if weights.size else "")
        )
    return weights


def position_weights(weights: NDArray[np.float64] | None, labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return v of each position: 1 if there are none, 0 where the label is unobserved."""
    if weights is None:
        return np.where(labels >= 0, 1.0, 0.0)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    if weights.shape != labels.shape or not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InputError(
            f"position weights must be {len(labels)} finite numbers >= 0, one per position; got shape "
            f"{weights.shape}" + (f" with a smallest value of {weights.min()}" if weights.size else "")
        )
    return np.where(labels >= 0, weights, 0.0)
