"""What an objective hands to the trees: first and second derivatives of the log-likelihood by score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqboost.objectives.predictions import Predictions

__all__ = ["Derivatives"]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of the weighted log-likelihood by the scores, and how well the scores do.

    The arrays over cells are views of the objective's buffers: the next call of ``derivatives`` overwrites them.

    Attributes
    ----------
    gradient : ndarray of float32, shape (K, N, C)
        Δ_t(c,k) times the weight of its sequence; zero at slots that do not exist. C is 1 for factored models.
    hessian : ndarray of float32, shape (K, N, C)
        Curvature >= 0, times the weight; zero at slots that do not exist.
    table_gradient, table_hessian : ndarray of float64, shape (E, K), or None
        The same for the transition table of a factored model.
    log_likelihood : ndarray of float64, shape (n_sequences,)
        log P(observed labels | X) of each sequence, without its weight; of the pseudo-likelihood Σ_t log P(y_t | the
        others, X), with position weights v Σ_t v_t log P(y_t | X).
    n_correct : ndarray of int64, shape (n_sequences,)
        Observed positions at which the most probable label (posterior) is the observed one.
    n_observed : ndarray of int64, shape (n_sequences,)
        Observed positions; of the pseudo-likelihood those that it scores.
    caution : float
        How many times the curvature "mixing" exceeds p(1 − p), on average over what is fitted; 1 for the others.
    n_exact : ndarray of int64, shape (n_sequences,), or None
        Observed positions whose label is known exactly, not as one of a set; None: all of them.
    predictions : Predictions or None
        What single positions are labeled, if the objective was asked to say so (``watch_positions``).
    """

    gradient: NDArray[np.float32]
    hessian: NDArray[np.float32]
    table_gradient: NDArray[np.float64] | None
    table_hessian: NDArray[np.float64] | None
    log_likelihood: NDArray[np.float64]
    n_correct: NDArray[np.int64]
    n_observed: NDArray[np.int64]
    caution: float
    n_exact: NDArray[np.int64] | None = None
    predictions: Predictions | None = None
