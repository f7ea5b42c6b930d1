"""Which features a model makes use of."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from seqboost.core.exceptions import ParameterError
from seqboost.inspection import FeatureImportances, feature_importances
from seqboost.plotting.axes import axes_of
from seqboost.plotting.colours import FEW

__all__ = ["ImportanceDisplay"]


class ImportanceDisplay:
    """The features that matter most, as bars.

    Parameters
    ----------
    importances : FeatureImportances
        As :func:`seqboost.inspection.feature_importances` gives them.
    label : object, optional
        Show what matters for this label; for all together unless given.
    n_features : int, default=15
        How many features to show.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        Where it was drawn.
    bars_ : BarContainer
        The bars, the longest on top: shares of the whole in per cent.
    names_ : list of str
        The features of the bars.

    Examples
    --------
    >>> from seqboost import TreeCRF
    >>> from seqboost.plotting import ImportanceDisplay
    >>> model = TreeCRF(max_iter=20).fit(["banana", "tomato"] * 15, ["010101", "010101"] * 15)
    >>> ImportanceDisplay.from_estimator(model, by_column=True, n_features=1).names_
    ['x0']
    """

    def __init__(self, importances: FeatureImportances, *, label: Any = None, n_features: int = 15) -> None:
        if not isinstance(n_features, (int, np.integer)) or n_features < 1:
            raise ParameterError(f"n_features={n_features!r}: expected a whole number of 1 or more")
        self.importances = importances
        self.label = label
        self.n_features = int(n_features)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        label: Any = None,
        n_features: int = 15,
        kind: str = "gain",
        by_column: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw what a fitted model makes use of.

        Parameters
        ----------
        estimator : TreeCRF
            A fitted model.
        label : object, optional
            Show what matters for this label.
        n_features : int, default=15
            How many features to show.
        kind : {"gain", "splits"}, default="gain"
            What is summed: see :func:`seqboost.inspection.feature_importances`.
        by_column : bool, default=False
            Take the offsets of a column together.
        ax : matplotlib axes, optional
            Where to draw.
        """
        found = feature_importances(estimator, kind)
        return cls(found.by_column() if by_column else found, label=label, n_features=n_features).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure unless given.
        """
        found = self.importances.top(self.label, self.n_features)
        values = self.importances.values
        total = values.sum() if self.label is None else values[self.importances.labels.index(self.label)].sum()
        self.names_ = [name for name, _ in found]
        ax = axes_of(ax, (6.4, 1.0 + 0.28 * max(len(found), 3)))
        shares = [100 * value / total for _, value in found]
        self.bars_ = ax.barh(range(len(found)), shares, color=FEW[0])
        ax.set_yticks(range(len(found)), self.names_)
        ax.invert_yaxis()
        ax.set_xlabel(f"% of {'the gain' if self.importances.kind == 'gain' else 'all splits'}")
        ax.set_title("all labels" if self.label is None else f"label {self.label}", loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
