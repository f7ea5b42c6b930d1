"""A colour for each label, to be told apart on white paper and on dark screens."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable
from typing import Any

__all__ = ["label_colours"]

# Luminances from 0.13 to 0.30: a contrast of 3 or more both to white and to nearly black.
FEW = ("#3b7dd8", "#d06a10", "#2c9a5b", "#a35cc4", "#d2467c", "#1b919e", "#a07f10", "#a2674a")
NEUTRAL = "#808791"  # of "O", outside of all spans
GOLDEN = 0.6180339887498949  # steps of this share of the circle never come close to an earlier hue
LUMINANCES = (0.2, 0.14, 0.27)


def label_colours(labels: Iterable[Any]) -> list[str]:
    """Return a colour for each label.

    The label "O" (outside of all spans) is grey; the others get colours in their order.

    Parameters
    ----------
    labels : iterable
        The labels.

    Returns
    -------
    list of str
        Colours as ``"#rrggbb"``.

    Examples
    --------
    >>> from seqboost.plotting import label_colours
    >>> label_colours(["B", "I", "O"])
    ['#3b7dd8', '#d06a10', '#808791']
    """
    colours, n = [], 0
    for label in labels:
        if label == "O":
            colours.append(NEUTRAL)
        else:
            colours.append(FEW[n] if n < len(FEW) else _generated(n - len(FEW)))
            n += 1
    return colours


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.1): 0 black, 1 white."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _generated(n: int) -> str:
    """Return the n-th colour beyond the few: a new hue, as light as its turn says."""
    hue, target = (0.07 + n * GOLDEN) % 1.0, LUMINANCES[n % len(LUMINANCES)]
    low, high = 0.0, 1.0
    for _ in range(20):  # luminance grows with lightness
        lightness = (low + high) / 2
        colour = "#" + "".join(f"{round(255 * c):02x}" for c in colorsys.hls_to_rgb(hue, lightness, 0.6))
        low, high = (lightness, high) if luminance(colour) < target else (low, lightness)
    return colour
