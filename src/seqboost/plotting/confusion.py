"""Which label is taken for which."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from seqboost.core.exceptions import ParameterError
from seqboost.evaluation import Confusion, confusion, label_sequences
from seqboost.plotting.axes import axes_of

__all__ = ["ConfusionDisplay"]

WRITTEN = 20  # labels up to which numbers are written into the cells
LARGEST = 40  # labels that get a row; the others are left out, the rarest first


class ConfusionDisplay:
    """A confusion matrix: rows are true labels, columns predicted ones.

    Parameters
    ----------
    confusion : Confusion
        Labels and counts, as :func:`seqboost.evaluation.confusion` gives them.
    normalize : {"true", None}, default="true"
        Colour (and write) shares of each true label, or counts.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Where it was drawn.
    im_ : AxesImage
        The coloured cells.
    text_ : dict of (int, int) to Text
        The numbers in the cells; none for more than 20 labels.
    labels_ : tuple
        The labels that are shown: the 40 commonest.

    Examples
    --------
    >>> from seqboost.plotting import ConfusionDisplay
    >>> shown = ConfusionDisplay.from_predictions([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    >>> shown.text_[1, 0].get_text()
    '100'
    """

    def __init__(self, confusion: Confusion, *, normalize: str | None = "true") -> None:
        if normalize not in ("true", None):
            raise ParameterError(f"normalize={normalize!r}: expected 'true' or None")
        self.confusion = confusion
        self.normalize = normalize

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, normalize: str | None = "true", ax: Any = None) -> Self:
        """Label sequences, compare with their labels and draw.

        Parameters
        ----------
        estimator : labeller
            A fitted model.
        X, y : as in ``fit``
            Sequences and their true labels.
        normalize : {"true", None}, default="true"
            Show shares of each true label, or counts.
        ax : matplotlib axes, optional
            Where to draw.
        """
        found = label_sequences(estimator, X, y)
        return cls(confusion(found.truth, found.predicted), normalize=normalize).plot(ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, normalize: str | None = "true", ax: Any = None) -> Self:
        """Compare labels and draw; parameters as in :meth:`from_estimator`."""
        return cls(confusion(y_true, y_pred), normalize=normalize).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure unless given.
        """
        counts = self.confusion.counts
        kept = np.sort(np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[:LARGEST])
        self.labels_ = tuple(self.confusion.labels[k] for k in kept)
        values = counts[np.ix_(kept, kept)].astype(np.float64)
        if self.normalize == "true":
            values /= np.maximum(counts.sum(axis=1)[kept, None], 1) / 100
        n = len(kept)
        side = min(max(3.5, 1.5 + 0.45 * n), 14.0)
        ax = axes_of(ax, (side + 0.8, side))
        self.im_ = ax.imshow(values, cmap="Blues", vmin=0, vmax=100 if self.normalize else None)
        self.text_ = {}
        if n <= WRITTEN:
            middle = self.im_.norm.vmax / 2
            for (i, j), value in np.ndenumerate(values):
                if value > 0:
                    colour = "white" if value > middle else "black"
                    written = f"{value:.0f}" if value >= 1 else f"{value:.1f}"
                    self.text_[i, j] = ax.text(j, i, written, ha="center", va="center", color=colour, fontsize=8)
        names = [str(label) for label in self.labels_]
        ax.set_xticks(range(n), names, rotation=90 if max(map(len, names)) > 3 else 0)
        ax.set_yticks(range(n), names)
        ax.set(xlabel="predicted", ylabel="true")
        ax.spines[:].set_visible(False)
        ax.figure.colorbar(self.im_, ax=ax, shrink=0.8, label="% of the true label" if self.normalize else "positions")
        self.ax_, self.figure_ = ax, ax.figure
        return self
