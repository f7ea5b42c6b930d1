"""``--plot``: pictures that commands write beside their result."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from seqboost.core.exceptions import DataFileError, MissingExtraError, ParameterError
from seqboost.files import written

__all__ = ["Plot", "check_plot", "save_plot"]

SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150

Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Write a picture as well (.png, .svg, .pdf; needs matplotlib).", show_default=False),
]


def check_plot(path: Path | None) -> None:
    """Refuse pictures that cannot be written before any work is done for them."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise ParameterError(f"--plot {path}: expected a file name that ends in {', '.join(SUFFIXES)}")
    if not path.resolve().parent.is_dir():
        raise DataFileError(f"cannot write to {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError('--plot needs matplotlib, which is not installed: pip install "seqboost[plot]"')


def save_plot(path: Path | None, draw: Callable[[Any], Any], size: tuple[float, float] = (7.0, 4.5)) -> None:
    """Draw on the axes of a new figure and write it, whole or not at all."""
    if path is None:
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"text.parse_math": False}):  # labels with dollar signs are no formulas
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        with written(path, binary=True) as temporary:
            figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=DOTS_PER_INCH)
