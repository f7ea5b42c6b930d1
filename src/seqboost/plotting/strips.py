"""A sequence's labels and probabilities as coloured strips."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError
from seqboost.evaluation import label_sequences
from seqboost.plotting.axes import axes_of, colour_map
from seqboost.plotting.colours import label_colours

__all__ = ["LabelStripDisplay"]

LISTED = 30  # labels in the legend


class LabelStripDisplay:
    """One sequence as strips: true labels, predicted labels, and the probabilities of labels stacked to one.

    Parameters
    ----------
    predicted : sequence of labels
        Predicted labels of the sequence.
    truth : sequence of labels, optional
        True labels; None or NaN = unobserved, left white.
    proba : array-like of shape (n_elements, n_labels), optional
        Probabilities of the labels.
    classes : sequence, optional
        Labels of the columns of ``proba``, and the order of colours; those that occur unless given.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Where it was drawn.
    images_ : dict of str to AxesImage
        The strips "true" and "predicted": numbers of labels, masked where there is none.
    areas_ : list of PolyCollection
        Probabilities, one area for each label; none without ``proba``.
    classes_ : tuple
        The labels, in the order of their numbers.

    Examples
    --------
    >>> from seqboost.plotting import LabelStripDisplay
    >>> shown = LabelStripDisplay.from_predictions("AABB", "AAAB")
    >>> shown.images_["true"].get_array().tolist()
    [[0, 0, 1, 1]]
    """

    def __init__(self, predicted: Any, *, truth: Any = None, proba: Any = None, classes: Any = None) -> None:
        self.predicted = list(predicted)
        self.truth = None if truth is None else list(truth)
        self.proba: NDArray[np.float64] | None = None if proba is None else np.asarray(proba, dtype=np.float64)
        known = [] if classes is None else classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
        others = dict.fromkeys(x for x in [*(self.truth or []), *self.predicted] if x is not None and x == x)
        known += [label for label in (sorted(others, key=str) if classes is None else others) if label not in known]
        self.classes_: tuple[Any, ...] = tuple(known)
        self._check()

    def _check(self) -> None:
        n = len(self.predicted)
        if self.truth is not None and len(self.truth) != n:
            raise InputError(
                f"truth has {len(self.truth)} labels but predicted has {n}; expected those of one sequence"
            )
        if self.proba is not None and (self.proba.ndim != 2 or len(self.proba) != n):
            raise InputError(f"proba has the shape {self.proba.shape}; expected ({n}, number of labels)")

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, *, sequence: int = 0, ax: Any = None) -> Self:
        """Label one sequence and draw it.

        Parameters
        ----------
        estimator : labeller
            A fitted model.
        X : as in ``fit``
            Sequences.
        y : as in ``fit``, optional
            Their true labels.
        sequence : int, default=0
            Which of them.
        ax : matplotlib axes, optional
            Where to draw.
        """
        found = label_sequences(estimator, X, y)
        if not 0 <= sequence < len(found.predicted):
            raise InputError(f"there is no sequence {sequence}: X has {len(found.predicted)}, numbered from 0")
        return cls(
            found.predicted[sequence],
            truth=None if found.truth is None else found.truth[sequence],
            proba=None if found.proba is None else found.proba[sequence],
            classes=np.asarray(estimator.classes_),
        ).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, proba: Any = None, classes: Any = None, ax: Any = None
    ) -> Self:
        """Draw the labels of one sequence; ``y_true`` may be None. Parameters as those of the class."""
        return cls(y_pred, truth=y_true, proba=proba, classes=classes).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the strips.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure unless given.
        """
        from_top = [("true", self.truth), ("predicted", self.predicted)]
        strips = [(name, labels) for name, labels in from_top if labels is not None]
        height = 2.0 if self.proba is not None else 0.0
        n, colours = len(self.predicted), label_colours(self.classes_)
        ax = axes_of(ax, (min(max(5.0, 0.12 * n), 14.0), 1.2 + 0.35 * len(strips) + 0.6 * height))
        top = height + 0.2
        self.images_, ticks = {}, []
        for name, labels in reversed(strips):
            bounds = (-0.5, n - 0.5, top, top + 0.8)
            self.images_[name] = ax.imshow(
                self._numbers(labels), aspect="auto", interpolation="nearest", extent=bounds, cmap=colour_map(colours),
                vmin=-0.5, vmax=len(colours) - 0.5,
            )  # fmt: skip
            ticks.append((top + 0.4, name))
            top += 1.0
        self.areas_ = [] if self.proba is None else self._stack(ax, self.proba, colours, height)
        if self.proba is not None:
            ticks.append((height / 2, "probability"))
        ax.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
        ax.set(xlim=(-0.5, n - 0.5), ylim=(0, top), xlabel="position")
        ax.spines[:].set_visible(False)
        ax.tick_params(axis="y", length=0)
        self._add_legend(ax, colours)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _numbers(self, labels: list[Any]) -> Any:
        """Return the numbers of labels as one row, masked where unobserved."""
        index = {label: k for k, label in enumerate(self.classes_)}
        return np.ma.masked_less(np.array([[index.get(label, -1) for label in labels]]), 0)

    def _stack(self, ax: Any, proba: NDArray[np.float64], colours: list[str], height: float) -> list[Any]:
        edges = np.arange(len(proba) + 1) - 0.5
        bounds = np.hstack([np.zeros((len(proba), 1)), np.cumsum(proba, axis=1)]) * height
        bounds = np.vstack([bounds, bounds[-1]])  # a step has two ends
        return [
            ax.fill_between(edges, bounds[:, k], bounds[:, k + 1], step="post", color=colours[k], linewidth=0)
            for k in range(proba.shape[1])
        ]

    def _add_legend(self, ax: Any, colours: list[str]) -> None:
        from matplotlib.patches import Patch

        marks = [Patch(color=c, label=str(x)) for c, x in zip(colours[:LISTED], self.classes_, strict=False)]
        if len(self.classes_) > LISTED:
            marks.append(Patch(color="none", label=f"… {len(self.classes_) - LISTED} more"))
        columns = min(len(marks), 8)
        ax.legend(handles=marks, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)
