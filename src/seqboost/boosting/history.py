"""What happened round by round, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from seqboost.objectives import Derivatives

__all__ = ["Callback", "FunctionCallback", "History", "Progress", "Stopping", "as_callback"]


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each round.

    Attributes
    ----------
    iteration : int
        Rounds done so far, this one included.
    max_iter : int
        Rounds asked for.
    record : dict of str to float
        The newest entry of each list of the history.
    history : dict of lists
        Everything up to this round, as in ``history_``.
    model : estimator or None
        A fitted estimator of the best rounds so far, for callbacks whose ``sees_model`` is true.
    """

    iteration: int
    max_iter: int
    record: dict[str, float]
    history: dict[str, list[float]] = field(repr=False)
    model: Any = field(default=None, repr=False)


@runtime_checkable
class Callback(Protocol):
    """An object for ``fit(callbacks=[...])``, called after every round.

    A plain function is one that may stop, does not run in a refit and does not see the model.

    Attributes
    ----------
    may_stop : bool
        Whether a true answer ends the training. Callbacks that may stop see the one training there is, so that nothing
        is tuned. Others are told of the training that was kept, when it is known.
    runs_in_refit : bool
        Whether it is called in every training of a fit: those of candidates, and the refit. A true answer then ends the
        whole fit.
    sees_model : bool
        Whether :attr:`Progress.model` is a fitted estimator of the rounds so far. It costs time in every round.
    """

    @property
    def may_stop(self) -> bool: ...  # noqa: D102

    @property
    def runs_in_refit(self) -> bool: ...  # noqa: D102

    @property
    def sees_model(self) -> bool: ...  # noqa: D102

    def __call__(self, progress: Progress, /) -> Any:
        """Look at a round; return true to stop."""


@dataclass(frozen=True)
class FunctionCallback:
    """A plain function as a :class:`Callback`."""

    function: Callable[[Progress], Any]
    may_stop: bool = True
    runs_in_refit: bool = False
    sees_model: bool = False

    def __call__(self, progress: Progress, /) -> Any:
        """Call the function."""
        return self.function(progress)


def as_callback(callback: Callable[[Progress], Any]) -> Callback:
    """Return a callback as it is, and a function as one that may stop."""
    return callback if isinstance(callback, Callback) else FunctionCallback(callback)


LISTS = (
    "train_score", "train_accuracy", "validation_score", "validation_accuracy", "step", "seconds", "evaluations",
)  # fmt: skip


@dataclass
class History:
    """Log-likelihood and accuracy per position, before the first round and after every round.

    ``train_score`` and ``validation_score`` are mean log-likelihoods per observed position (weighted by sequence);
    ``train_accuracy`` and ``validation_accuracy`` are shares of positions whose most probable label is the right one
    (of those whose label is known exactly, not as one of a set).
    ``evaluations`` counts how often a round looked at the objective: once, and again for every step it tried.
    """

    is_training: np.ndarray  # (n_sequences,) bool
    weights: np.ndarray  # (n_sequences,) float64
    train_score: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    evaluations: list[float] = field(default_factory=list)

    def objective_value(self, derivatives: Derivatives) -> float:
        """Return the weighted log-likelihood of the training sequences, which boosting climbs."""
        return self.objective_of(derivatives.log_likelihood)

    def objective_of(self, log_likelihood: np.ndarray) -> float:
        """Return the same from the log-likelihoods of the sequences."""
        used = self.is_training & (self.weights > 0)
        return float(np.dot(self.weights[used], log_likelihood[used]))

    def record(self, derivatives: Derivatives, step: float, seconds: float, n_evaluations: int) -> dict[str, float]:
        """Add a round; return its entries."""
        entries = {"step": step, "seconds": seconds, "evaluations": float(n_evaluations)}
        for name, part in (("train", self.is_training), ("validation", ~self.is_training)):
            if part.any():
                weights = self.weights[part]
                observed = float(np.dot(weights, derivatives.n_observed[part]))
                likelihood = np.where(weights > 0, derivatives.log_likelihood[part], 0.0)
                correct = float(np.dot(weights, derivatives.n_correct[part]))
                exact = observed if derivatives.n_exact is None else float(np.dot(weights, derivatives.n_exact[part]))
                entries[f"{name}_score"] = float(np.dot(weights, likelihood)) / max(observed, 1e-300)
                is_nowhere_exact = derivatives.n_exact is not None and exact == 0.0
                entries[f"{name}_accuracy"] = math.nan if is_nowhere_exact else correct / max(exact, 1e-300)
        for key, value in entries.items():
            getattr(self, key).append(value)
        return entries

    def refresh(self, derivatives: Derivatives) -> None:
        """Score the newest round again: a warm start may come with other sequences than the fit before."""
        step, seconds, n_evaluations = self.step[-1], self.seconds[-1], int(self.evaluations[-1])
        for name in LISTS:
            del getattr(self, name)[-1:]
        self.record(derivatives, step, seconds, n_evaluations)

    def to_dict(self) -> dict[str, list[float]]:
        """Return the lists by name; without validation sequences their lists are left out."""
        return {name: list(getattr(self, name)) for name in LISTS if getattr(self, name)}


@dataclass(frozen=True)
class Stopping:
    """Stop when the validation score has not risen by ``tol`` for ``patience`` rounds; a callback as well.

    Parameters
    ----------
    patience : int
        Rounds without improvement that are tolerated.
    tol : float
        What counts as improvement.
    """

    patience: int
    tol: float
    may_stop: ClassVar[bool] = True
    runs_in_refit: ClassVar[bool] = False
    sees_model: ClassVar[bool] = False

    def __call__(self, progress: Progress, /) -> bool:
        """Tell whether to stop after a round."""
        return self.should_stop(progress.history["validation_score"])

    def best(self, scores: list[float], at_least: int = 0) -> int:
        """Return the number of rounds, ``at_least`` or more, with the best score (``scores[0]``: before the first)."""
        return at_least + int(np.argmax(scores[at_least:])) if len(scores) > at_least else at_least

    def should_stop(self, scores: list[float]) -> bool:
        """Tell whether the last ``patience`` rounds brought nothing."""
        if len(scores) <= self.patience:
            return False
        earlier = np.array(scores[: -self.patience])
        earlier = earlier[~np.isnan(earlier)]  # rounds of a fit without validation sequences, before a warm start
        return len(earlier) > 0 and max(scores[-self.patience :]) <= earlier.max() + self.tol
