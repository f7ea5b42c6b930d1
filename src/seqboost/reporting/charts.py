"""Curves as SVG: lines stretch with the page, words around them do not."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from seqboost.reporting.markup import Markup, element, joined, json_block

__all__ = ["chart", "ticks"]

POINTS = 400  # of a curve; more cannot be seen
WIDTH, HEIGHT = 1000.0, 400.0


def ticks(low: float, high: float, n: int = 4) -> list[float]:
    """Return about ``n`` round numbers between two.

    Examples
    --------
    >>> ticks(0.12, 0.97)
    [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    rough = (high - low) / n
    base = 10.0 ** math.floor(math.log10(rough))
    step = base * min((1, 2, 5, 10), key=lambda m: abs(m * base - rough))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(name: str, title: str, curves: dict[str, NDArray[np.float64]], best: int | None) -> Markup:
    """Draw curves over rounds; ``best`` is marked. Values under the pointer are told by the page's script."""
    n = max(map(len, curves.values()))
    finite = np.concatenate([values[np.isfinite(values)] for values in curves.values()])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin
    kept = np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(np.int64))

    def place(x: float, y: float) -> tuple[float, float]:
        return WIDTH * x / max(n - 1, 1), HEIGHT * (high - y) / (high - low)

    lines = [
        element("line", x1=0, x2=WIDTH, y1=f"{place(0, y)[1]:.1f}", y2=f"{place(0, y)[1]:.1f}", class_="grid")
        for y in ticks(low, high)
    ]
    if best is not None and 0 <= best < n:
        x = f"{place(best, low)[0]:.1f}"
        lines.append(element("line", x1=x, x2=x, y1=0, y2=HEIGHT, class_="best"))
    for k, values in enumerate(curves.values()):
        points = [place(int(i), float(values[i])) for i in kept if i < len(values) and math.isfinite(values[i])]
        lines.append(element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=f"curve c{k}"))
    drawing = element(
        "svg", *lines, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip
    ends = ", ".join(f"{text} {values[-1]:.3g} at the end" for text, values in curves.items())
    plot = element(
        "div", drawing, element("span", class_="cross", hidden=True), class_="plot", tabindex=0, role="img",
        aria_label=f"{title} by round: {ends}", data_chart=f"chart-{name}",
    )  # fmt: skip
    left = element("div", *(_label(y, place(0, y)[1] / HEIGHT, "top") for y in ticks(low, high)), class_="left")
    below = element("div", *(_label(x, x / max(n - 1, 1), "left") for x in ticks(0, n - 1)), class_="below")
    keys = joined(element("span", text, class_=f"key c{k}") for k, text in enumerate(curves))
    data = {
        "rounds": kept.tolist(),
        "last": n - 1,
        "curves": {
            text: [_rounded(values[i]) if i < len(values) else None for i in kept.tolist()]
            for text, values in curves.items()
        },
    }
    readout = element("output", class_="readout")
    caption = element("figcaption", element("strong", title), " by round ", keys, readout)
    return element("figure", caption, left, plot, below, json_block(f"chart-{name}", data), class_="chart")


def _label(value: float, share: float, side: str) -> Markup:
    return element("span", f"{value:g}", style=f"{side}:{100 * share:.2f}%", aria_hidden="true")


def _rounded(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
