"""Column files (CoNLL, CRF++, Wapiti): a line of cells for each position, an empty line between sequences.

::

    Rockwell  NNP  B-NP         cells between tabs or blanks; the label stands last unless another column is named
    said      VBD  B-VP
                                an empty line ends the sequence
    -DOCSTART- -X- O            ends a sequence too, and is no position

Cells are categories, also those that look like numbers: a word is a word. Tags are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seqboost.files.building import PIECE_ROWS, Rows, TextColumn
from seqboost.files.output import refuse_sparse, sequence_rows
from seqboost.files.reading import MISSING_COLUMN, Answers, Reading, SequenceData, tabled
from seqboost.files.source import Source

__all__ = ["answer_conll", "read_conll", "write_conll"]

DOCUMENT = "-DOCSTART-"


def read_conll(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read column files; see :func:`seqboost.files.read_sequences`."""
    rows: Rows | None = None
    names: list[str] = []
    label: int | None = None
    used: list[int] = []
    n_sequences = 0
    for source in sources:
        separator = reading.delimiter
        piece: list[tuple[int, int, list[str]]] = []  # line, sequence, cells
        for number, cells in _positions(source, separator):
            if cells is None:
                n_sequences += 1
                continue
            if rows is None:
                names, label = _columns(source, len(cells), reading, labels)
                used = _used(source, names, label, reading)
                columns = [
                    TextColumn(names[j], reading.kind_of(names[j], "categorical"), reading.missing) for j in used
                ]
                rows = Rows(columns, reading.missing)
            if len(cells) != len(names):
                source.report(
                    number, f"expected {len(names)} columns as in the lines before, got {len(cells)}", "check the tabs"
                )
                continue
            piece.append((number, n_sequences, cells))
            if len(piece) == PIECE_ROWS:
                _add(rows, source, piece, used, label)
                piece = []
        if rows is not None and piece:
            _add(rows, source, piece, used, label)
        n_sequences += 1
    reading = replace(reading, columns=tuple(names), label=names[label] if label is not None else reading.label)
    return tabled(rows or Rows([]), sources, reading, origin="list", has_labels=label is not None, typed=False)


def _add(rows: Rows, source: Source, piece: list[Any], used: list[int], label: int | None) -> None:
    lines, sequences, cells = zip(*piece, strict=True)
    columns = list(zip(*cells, strict=True))
    labels = None if label is None else columns[label]
    rows.add(source, lines, [columns[j] for j in used], labels, np.array(sequences, dtype=np.int64))


def _positions(source: Source, separator: str | None) -> Iterator[tuple[int, list[str] | None]]:
    """Give the cells of each line; None where a sequence ends."""
    for number, line in source.lines():
        text = line.rstrip("\r\n")
        if not text.strip():
            yield number, None
            continue
        if separator is None:
            separator = "\t" if "\t" in text else " "
        cells = text.split() if separator == " " else text.split(separator)
        yield number, None if cells[0] == DOCUMENT else cells


def _columns(source: Source, n_cells: int, reading: Reading, labels: str) -> tuple[list[str], int | None]:
    """Name the columns by the first line, and find that of the labels."""
    names = list(reading.columns)
    if names and len(names) == n_cells + 1 and reading.label in (None, names[-1]) and labels != "required":
        return names[:-1], None  # a file to be labelled, without the column of labels
    if names and len(names) != n_cells:
        raise source.stop(
            f"its first line has {n_cells} columns, expected {len(names)} ({', '.join(names)}); "
            "check the format, what stands between the columns, or their names"
        )
    if not names:
        names = ["word", *(f"x{j}" for j in range(1, n_cells))]
        if labels != "ignore" and reading.label is None:
            if n_cells < 2:
                raise source.stop(
                    "its first line has only one column, expected at least two, the last one with the label; "
                    "check the format and what stands between the columns"
                )
            names[-1] = "label"
    if labels == "ignore":
        return names, names.index(reading.label) if reading.label in names else None
    return names, _label_place(source, names, reading.label)


def _label_place(source: Source, names: list[str], label: str | None) -> int:
    if label is None:
        return len(names) - 1
    if label in names:
        return names.index(label)
    if label.lstrip("-").isdecimal() and -len(names) <= int(label) < len(names):
        return int(label) % len(names)
    raise source.stop(
        f"it has no column {label!r}; its columns are {', '.join(names)}, or numbers from 0 to {len(names) - 1}"
    )


def _used(source: Source, names: list[str], label: int | None, reading: Reading) -> list[int]:
    """Choose the columns that are features."""
    inputs = reading.inputs_in(names)
    declared = [name for name in reading.categorical if name not in reading.inputs]
    for name in (*reading.drop, *declared, *inputs):
        if name not in names and name != reading.label:
            hint = MISSING_COLUMN if name in inputs else ""
            raise source.stop(f"it has no column {name!r}; its columns are {', '.join(names)}{hint}")
    if not reading.inputs:
        inputs = [name for j, name in enumerate(names) if j != label and name not in reading.drop]
    return [names.index(name) for name in inputs]


def answer_conll(source: Source, data: SequenceData, answers: Answers, file: Any) -> None:
    """Write the file again with a further column, the predicted label, and probabilities as ``label/p``.

    The best labellings follow one another as whole sequences, each after a line ``# rank log-probability``, as CRF++
    writes them.
    """
    separator = data.reading.delimiter
    row = 0
    block: list[tuple[str, int]] = []  # lines of the sequence that is being read, with their rows

    def flush() -> None:
        paths = answers.paths or (answers.labels,)
        for rank, path in enumerate(paths):
            if answers.paths and block:
                first = block[0][1]
                if not path[first]:
                    break
                file.write(f"# {rank} {answers.path_scores[rank][first]:.6f}\n")
            for text, at in block:
                file.write(f"{text}{mark}{path[at]}{_chances(answers, at, mark)}\n")
            if rank + 1 < len(paths):
                file.write("\n")
        block.clear()

    mark = separator or " "
    for number, line in source.lines():
        text = line.rstrip("\r\n")
        if not text.strip():
            flush()
            file.write("\n")
            continue
        if separator is None:
            separator = mark = "\t" if "\t" in text else " "
        if text.split(None if separator == " " else separator, 1)[0] == DOCUMENT:
            flush()
            file.write(f"{text}{mark}O\n")
        elif number not in data.bad_lines:
            block.append((text, row))
            row += 1
    flush()


def _chances(answers: Answers, row: int, mark: str) -> str:
    if answers.proba is None:
        return ""
    chances = zip(answers.classes, answers.proba[row], strict=True)
    return "".join(f"{mark}{label}/{p:.6f}" for label, p in chances)


def write_conll(data: SequenceData, file: Any) -> None:
    """Write sequences as columns between tabs, the label last."""
    names = [column.name for column in data.batch.schema.columns]
    refuse_sparse(data, "column files")
    for rows, labels in sequence_rows(data):
        for row, label in zip(rows, labels, strict=True):
            cells = [_cell(row[name]) for name in names]
            file.write("\t".join([*cells, "_" if label is None else str(label)]) + "\n")
        file.write("\n")


def _cell(value: str) -> str:
    return "_".join(value.split()) or "_"
