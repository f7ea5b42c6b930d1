"""The tables and figures of the sources, made anew: ``seqboost reproduce``."""

from __future__ import annotations

from reproduction import beams, chains, coding, futures, holes, stratified, treeboosting, windows
from reproduction.experiment import Experiment, Figure, Outcome
from reproduction.running import Step, chosen, run
from reproduction.store import Kept, Store
from reproduction.writing import as_markdown, as_text, page, rows_of, write

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Figure",
    "Kept",
    "Outcome",
    "Step",
    "Store",
    "as_markdown",
    "as_text",
    "chosen",
    "page",
    "rows_of",
    "run",
    "write",
]

EXPERIMENTS: tuple[Experiment, ...] = (
    *treeboosting.EXPERIMENTS, *stratified.EXPERIMENTS, *windows.EXPERIMENTS,
    *sorted((*coding.EXPERIMENTS, *beams.EXPERIMENTS), key=lambda one: one.name),
    *chains.EXPERIMENTS, *holes.EXPERIMENTS, *futures.EXPERIMENTS,
)  # fmt: skip
