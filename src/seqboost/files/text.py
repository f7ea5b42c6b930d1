"""Plain text: a line is a sequence, its characters are the positions.

Labels follow after a tab: one character for each of the text, or words between blanks::

    banana<TAB>010101
    banana<TAB>C V C V C V
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from seqboost.core.exceptions import DataFileError
from seqboost.files.building import PIECE_ROWS, Rows, TextColumn
from seqboost.files.output import label_text, sequence_values
from seqboost.files.reading import Answers, Reading, SequenceData, check_rows, labelled, made
from seqboost.files.source import Source
from seqboost.sequences.columns import Extra

__all__ = ["answer_text", "read_text", "write_text"]


class _Piece(NamedTuple):
    """Some lines, character by character."""

    lines: list[int]
    characters: list[str]
    tags: list[str]
    sequences: list[int]

    def add(self, line: int, text: str, tags: list[str], sequence: int) -> None:
        """Add a line."""
        self.lines.extend([line] * len(text))
        self.characters.extend(text)
        self.tags.extend(tags)
        self.sequences.extend([sequence] * len(text))

    def flush(self, rows: Rows, source: Source) -> None:
        """Hand the lines over, and forget them."""
        if self.lines:
            numbers = np.array(self.sequences, dtype=np.int64)
            rows.add(source, self.lines, [self.characters], self.tags or None, numbers)
        for part in (self.lines, self.characters, self.tags, self.sequences):
            part.clear()


def read_text(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read lines of text; see :func:`seqboost.files.read_sequences`."""
    rows = Rows([TextColumn("x0", "categorical", missing=())])
    place = _label_place(sources[0], reading)
    has_labels: bool | None = None if labels != "required" else True
    n_sequences = 0
    for source in sources:
        piece = _Piece([], [], [], [])
        for number, line in source.lines():
            text, *others = line.rstrip("\r\n").split("\t")
            if not text:
                if others:
                    source.report(number, "there is no text before the tab")
                continue
            found = _labels(text, others[place]) if len(others) > place else []
            if has_labels is None:
                has_labels = len(others) > place and labels != "ignore"
            if has_labels and len(found) != len(text):
                source.report(
                    number,
                    _mismatch(text, found, others),
                    "name the format if this is another one (conll, if these are columns)",
                )
                continue
            piece.add(number, text, found if has_labels else [], n_sequences)
            n_sequences += 1
            if len(piece.characters) >= PIECE_ROWS:
                piece.flush(rows, source)
        piece.flush(rows, source)
    check_rows(rows.n_rows, sources)
    layout = rows.layout("list")
    of_rows = labelled(rows) if has_labels else (None, ())
    reading = replace(reading, label=str(place + 1))
    return made(rows.finish(layout), layout, Extra(), "strings", of_rows, sources, reading)


def _label_place(source: Source, reading: Reading) -> int:
    """Return which of the parts after the first tab holds the labels."""
    if reading.label is None:
        return 0
    if reading.label.isdecimal() and int(reading.label) >= 1:
        return int(reading.label) - 1
    raise source.stop(
        f"label={reading.label!r} names no part of its lines; in plain text the label is a number: 1 for what follows "
        "the first tab, 2 for the second"
    )


def _labels(text: str, labels: str) -> list[str]:
    words = labels.split(" ")
    return words if len(words) == len(text) and len(labels) != len(text) else list(labels)


def _mismatch(text: str, found: list[str], others: list[str]) -> str:
    shown = text if len(text) <= 30 else text[:27] + "..."
    if not others:
        return f"there are no labels after {shown!r}: expected a tab and a label for each character"
    return f"{shown!r} has {len(text)} characters but {len(found)} labels"


def answer_text(source: Source, data: SequenceData, answers: Answers, file: Any) -> None:
    """Write each line again with its predicted labels, then their probabilities, between tabs.

    The best labellings of a line follow one another, each with its log-probability.
    """
    row = 0
    for number, line in source.lines():
        text = line.rstrip("\r\n").split("\t")[0]
        if not text or number in data.bad_lines:
            continue
        span = slice(row, row + len(text))
        row = span.stop
        if answers.paths:
            for path, scores in zip(answers.paths, answers.path_scores, strict=True):
                if path[span.start]:
                    file.write(f"{text}\t{_joined(path[span])}\t{scores[span.start]:.6f}\n")
            continue
        chances = ""
        if answers.proba is not None:
            chances = "\t" + " ".join(f"{p:.4f}" for p in answers.proba[span].max(axis=1))
        file.write(f"{text}\t{_joined(answers.labels[span])}{chances}\n")


def _joined(labels: Sequence[str]) -> str:
    return ("" if all(len(label) == 1 for label in labels) else " ").join(labels)


def write_text(data: SequenceData, file: Any) -> None:
    """Write sequences of characters, one to a line, with their labels after a tab."""
    schema = data.batch.schema
    if len(schema.columns) != 1 or schema.columns[0].kind != "categorical" or schema.sparse_names:
        raise DataFileError("plain text holds one character for each position; these sequences have other columns")
    if any(len(str(c)) != 1 or c in "\t\r\n" for c in data.batch.categories[0]):
        raise DataFileError("plain text holds one character for each position; these sequences hold longer words")
    for rows, labels in sequence_values(data):
        text = "".join(row.get(schema.columns[0].name, " ") for row in rows)
        tags = "\t" + _joined([label_text(label) or "_" for label in labels]) if data.label_codes is not None else ""
        file.write(text + tags + "\n")
