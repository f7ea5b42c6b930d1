"""The one place that imports matplotlib."""

from __future__ import annotations

from typing import Any

from seqboost.core.exceptions import MissingExtraError

__all__ = ["axes_of", "colour_map"]

NEEDED = 'plots need matplotlib, which is not installed: pip install "seqboost[plot]"'


def axes_of(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw on: those given, or those of a new figure of ``size`` inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError(NEEDED) from None
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def colour_map(colours: list[str]) -> Any:
    """Return a map from the numbers 0, 1, ... to colours."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(colours)
