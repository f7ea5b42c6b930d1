"""How the score rose while a model was trained."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from seqboost.core.exceptions import InputError, ParameterError
from seqboost.plotting.axes import axes_of
from seqboost.plotting.colours import FEW

__all__ = ["LearningCurveDisplay"]

NAMES = {"score": "log-likelihood per position", "accuracy": "share of positions right"}


class LearningCurveDisplay:
    """A learning curve: score after each round, of training and of held-out sequences.

    Parameters
    ----------
    curves : dict of str to array-like of shape (n_rounds + 1,)
        Scores before the first round and after every round: "train", and "validation" if there was any.
    best_iteration : int, optional
        The number of rounds that was kept.
    metric : {"score", "accuracy"}, default="score"
        What the scores are: mean log-likelihood, or share of positions right.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Where it was drawn.
    lines_ : dict of str to Line2D
        The curves.
    best_ : Line2D or None
        The mark of the rounds that were kept.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.plotting import LearningCurveDisplay
    >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
    >>> LearningCurveDisplay.from_estimator(model).ax_.get_xlabel()
    'round'
    """

    def __init__(self, curves: dict[str, Any], *, best_iteration: int | None = None, metric: str = "score") -> None:
        self.curves: dict[str, NDArray[np.float64]] = {
            name: np.asarray(values, dtype=np.float64) for name, values in curves.items()
        }
        self.best_iteration = best_iteration
        self.metric = metric

    @classmethod
    def from_estimator(cls, estimator: Any, *, metric: str = "score", ax: Any = None) -> Self:
        """Draw the learning curve of a fitted model.

        Parameters
        ----------
        estimator : TreeCRF or another labeller with a ``history_``
            A fitted model.
        metric : {"score", "accuracy"}, default="score"
            What to show.
        ax : matplotlib axes, optional
            Where to draw.
        """
        if metric not in NAMES:
            raise ParameterError(f"metric={metric!r}: expected 'score' or 'accuracy'")
        check_is_fitted(estimator)
        history = getattr(estimator, "history_", None) or {}
        curves = {
            part: history[f"{part}_{metric}"] for part in ("train", "validation") if f"{part}_{metric}" in history
        }
        if not curves:
            raise InputError(f"{type(estimator).__name__} has no learning curve: it is not trained in rounds")
        best = getattr(estimator, "best_iteration_", None)
        return cls(curves, best_iteration=None if best is None else int(best), metric=metric).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure unless given.
        """
        ax = axes_of(ax, (6.4, 4.0))
        self.lines_ = {}
        for colour, (name, values) in zip(FEW, self.curves.items(), strict=False):
            text = {"train": "training", "validation": "held out"}.get(name, name)
            (self.lines_[name],) = ax.plot(np.arange(len(values)), values, color=colour, label=text)
        self.best_ = None
        if self.best_iteration is not None:
            text = f"{self.best_iteration} rounds kept"
            self.best_ = ax.axvline(self.best_iteration, color="0.6", linewidth=1, linestyle="--", label=text)
        ax.set(xlabel="round", ylabel=NAMES.get(self.metric, self.metric))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
