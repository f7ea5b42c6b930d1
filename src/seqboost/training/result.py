"""What a fit works on, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.boosting import VALIDATION, History, Metric
from seqboost.linear import LinearFit
from seqboost.model import FrozenModel
from seqboost.training.config import FitConfig
from seqboost.training.dataset import Dataset

__all__ = ["Candidate", "FitData", "FitResult"]


@dataclass(frozen=True, eq=False)
class FitData:
    """Sequences to train on, and what their labels are.

    Attributes
    ----------
    training : Dataset
        Training sequences.
    classes : ndarray of shape (n_labels,)
        The labels.
    validation : Dataset or None
        Sequences that the user holds out for early stopping: the first evaluation set.
    class_weights : ndarray of shape (n_labels,) or None
        Weights of labels; None: all are 1.
    others : tuple of Dataset
        Further evaluation sets, which have no part in the model.
    set_names : tuple of str
        Names of the evaluation sets.
    metrics : tuple of Metric
        What is computed of them in every round; the first one decides about stopping, or else the log-likelihood.
    """

    training: Dataset
    classes: NDArray[Any]
    validation: Dataset | None = None
    class_weights: NDArray[np.float64] | None = None
    others: tuple[Dataset, ...] = ()
    set_names: tuple[str, ...] = VALIDATION
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """Settings that were tried on held-out sequences.

    Attributes
    ----------
    settings : dict
        The settings that differ between candidates, by the names of parameters.
    score : float
        Log-likelihood per position of the sequences held out in its trainings; NaN if none was completed.
    seconds : float
        Time of its trainings.
    rounds : tuple of int
        Best number of rounds in each training.
    kept : bool
        Whether these settings were kept.
    """

    settings: Mapping[str, Any]
    score: float
    seconds: float
    rounds: tuple[int, ...]
    kept: bool = False


@dataclass(frozen=True, eq=False)
class FitResult:
    """A trained model, and how it came about.

    Attributes
    ----------
    model : FrozenModel
        What prediction needs.
    history : History
        Scores round by round.
    best_iteration : int
        Number of rounds kept.
    config : FitConfig
        The configuration, without any "auto".
    linear_fit : LinearFit or None
        How the linear start was fitted.
    label_odds : ndarray of float64 of shape (n_labels,) or None
        What multiplies the odds of labels in prediction; None: nothing.
    refitted : bool
        Whether the model was trained again with the sequences that had been held out.
    tuning : tuple of Candidate
        What was tried.
    """

    model: FrozenModel
    history: History
    best_iteration: int
    config: FitConfig
    linear_fit: LinearFit | None = None
    label_odds: NDArray[np.float64] | None = None
    refitted: bool = False
    tuning: tuple[Candidate, ...] = ()

    @property
    def best_score(self) -> float:
        """Log-likelihood per position of the kept rounds: of validation sequences, or else of training sequences."""
        return (self.history.validation_score or self.history.train_score)[self.best_iteration]

    @property
    def potentials(self) -> str:
        """Whether trees see the labels before: "joint" or "factored"."""
        return "joint" if self.model.forest.order == self.model.order else "factored"
