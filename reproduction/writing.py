"""Results as text, Markdown, CSV and pictures."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproduction.experiment import Experiment, Figure, Outcome, Row
from reproduction.store import Store
from seqboost.exceptions import MissingExtraError

__all__ = ["as_csv", "as_markdown", "as_text", "page", "section", "write"]

PAGE_HEAD = """# The sources' tables and figures, and ours

Made by `seqboost reproduce`. Columns that say "source" hold the numbers printed there, all others are ours; seeds are
fixed. Sections marked **(quick version)** come of `seqboost reproduce NAME --quick`, a small version that shows where
things point: their numbers are not to be held against the source's. The others are the whole experiment.
"""


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 10 else str(value)


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]


def as_text(rows: Sequence[Row]) -> str:
    """Write a table for a terminal."""
    lines = _lines(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    """Write a table in Markdown."""
    head, *body = _lines(rows)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in line) + " |" for line in lines
    )


def as_csv(rows: Sequence[Row]) -> str:
    """Write a table as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def rows_of(experiment: Experiment, outcomes: Sequence[Outcome]) -> list[Row]:
    """Make the table of an experiment."""
    return experiment.table([row for outcome in outcomes for row in outcome.rows])


def section(experiment: Experiment, rows: Sequence[Row], *, quick: bool, picture: str | None) -> str:
    """Write what the source says, the table, and what agrees."""
    version = " (quick version)" if quick else ""
    parts = [
        f"## {experiment.name}: {experiment.title}{version}",
        f"{experiment.source}, {experiment.place}. {experiment.says}",
        f"*Ours:* {experiment.protocol}" + (f" **Quick version:** {experiment.quick}" if quick else ""),
        as_markdown(rows),
    ]
    if picture is not None:
        parts.append(f"![{experiment.title}]({picture})")
    parts.append(f"**What agrees:** {experiment.agrees(list(rows))}")
    return "\n\n".join(parts) + "\n"


def write(experiment: Experiment, outcomes: Sequence[Outcome], folder: Path, *, quick: bool) -> list[Path]:
    """Write the table of an experiment as Markdown and CSV, and its figure; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = experiment.name + ("-quick" if quick else "")
    rows = rows_of(experiment, outcomes)
    picture = _drawn(experiment, outcomes, folder / f"{stem}.png")
    text = section(experiment, rows, quick=quick, picture=None if picture is None else picture.name)
    files = [folder / f"{stem}.md", folder / f"{stem}.csv"]
    for path, content in zip(files, (text.removeprefix("#"), as_csv(rows)), strict=True):
        path.write_text(content, encoding="utf-8")
    return files if picture is None else [*files, picture]


def page(experiments: Sequence[Experiment], store: Store, target: Path, pictures: Path) -> list[str]:
    """Write one page of all experiments that are complete, the full version if there is one; return those left out."""
    parts, wanting = [PAGE_HEAD], []
    for experiment in experiments:
        for quick in (False, True):
            outcomes = store.complete(experiment, quick)
            if outcomes is not None:
                break
        else:
            wanting.append(experiment.name)
            continue
        stem = experiment.name + ("-quick" if quick else "")
        picture = _drawn(experiment, outcomes, pictures / f"{stem}.png")
        link = None if picture is None else Path(os.path.relpath(picture, target.parent)).as_posix()
        parts.append(section(experiment, rows_of(experiment, outcomes), quick=quick, picture=link))
    if wanting:
        parts.append(f"Not run yet: {', '.join(wanting)}.\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(parts), encoding="utf-8")
    return wanting


def _drawn(experiment: Experiment, outcomes: Sequence[Outcome], target: Path) -> Path | None:
    """Draw the figure of an experiment; None if it has none, or if matplotlib is not installed."""
    figure = experiment.figure
    if figure is None:
        return None
    points = [point for outcome in outcomes for point in outcome.points] or rows_of(experiment, outcomes)
    if len({point[figure.x] for point in points}) < 2:
        return None
    try:
        draw(figure, points, target)
    except MissingExtraError:  # tables are worth having without pictures
        return None
    return target


def draw(figure: Figure, points: Sequence[Row], target: Path) -> None:
    """Draw points as lines, a panel beside the other."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError('figures need matplotlib: pip install "seqboost[plot]"') from error
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import NullFormatter

    panels = list(dict.fromkeys(point[figure.panel] for point in points))
    target.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"font.size": 8}):
        canvas = Canvas(figsize=(4.2 * len(panels), 3.6), layout="constrained")
        axes = canvas.subplots(1, len(panels), squeeze=False)[0]
        for axis, panel in zip(axes, panels, strict=True):
            own = [point for point in points if point[figure.panel] == panel]
            for line in dict.fromkeys(point[figure.line] for point in own):
                pairs = sorted((point[figure.x], point[figure.y]) for point in own if point[figure.line] == line)
                axis.plot(*zip(*pairs, strict=True), marker="o" if len(pairs) < 12 else None, markersize=3, label=line)
            axis.set(title=panel, xlabel=figure.x, ylabel=figure.y)
            if figure.is_log:
                axis.set_xscale("log")
                axis.xaxis.set_minor_formatter(NullFormatter())  # they would overlap
            axis.grid(alpha=0.3)
        axes[-1].legend()
        canvas.savefig(target, dpi=110, metadata={"Software": None})
