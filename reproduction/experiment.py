"""What an experiment is: cells that are run one by one, and a table made of what they gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Cell", "Experiment", "Figure", "Outcome", "Row"]

Cell = Mapping[str, Any]
"""What tells a cell from the others: its set, its method, …"""
Row = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a cell gave; only what JSON can hold.

    Attributes
    ----------
    rows : list of dict
        Rows of the table, or what ``Experiment.table`` makes rows of.
    points : list of dict
        Points of the figure, if they are not the rows of the table.
    """

    rows: list[Row]
    points: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """How points are drawn: the names of their entries for panels, lines and axes."""

    panel: str
    line: str
    x: str
    y: str
    is_log: bool = False


def _same(rows: list[Row]) -> list[Row]:
    return rows


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a source, and how we get ours.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    title : str
    source : str
        Who published it.
    place : str
        Which table or figure it is there.
    says : str
        What the source finds, in a sentence.
    protocol : str
        How ours are made, and where that differs from the source. A change of it makes kept cells invalid.
    quick : str
        What the quick version leaves out.
    cells : callable
        ``cells(quick)`` gives the cells.
    run : callable
        ``run(cell, quick)`` gives the outcome of one.
    agrees : callable
        Tells from the rows of the table what agrees with the source, in a sentence.
    table : callable
        Makes the rows of the table of those of all cells.
    figure : Figure or None
    """

    name: str
    title: str
    source: str
    place: str
    says: str
    protocol: str
    quick: str
    cells: Callable[[bool], list[Cell]]
    run: Callable[[Cell, bool], Outcome]
    agrees: Callable[[list[Row]], str]
    table: Callable[[list[Row]], list[Row]] = _same
    figure: Figure | None = None
