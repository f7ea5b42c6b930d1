r"""CRFsuite's files: a label and its attributes, between tabs; an empty line between sequences.

::

    B-NP    w[0]=Rockwell    w[1]=said    length:8

An attribute is an indicator, or a number if ``:value`` follows its name; ``\:`` and ``\\`` stand for a colon and a
backslash in a name. Indicators live in a sparse matrix: a file of a million attributes takes a few bytes for each.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from seqboost.files.building import Rows
from seqboost.files.output import label_text, sequence_values
from seqboost.files.reading import Answers, Reading, SequenceData, check_rows, labelled, made
from seqboost.files.source import Source
from seqboost.sequences.columns import Extra, narrowed

__all__ = ["SparseRows", "answer_crfsuite", "read_crfsuite", "write_crfsuite"]


class SparseRows:
    """Positions as lists of named values, laid end to end."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.indptr = array("q", [0])
        self.indices = array("i")
        self.values = array("d")
        self.sequences = array("q")
        self.labels = Rows([])
        self._codes = array("i")

    def add(self, present: dict[str, float], label: str | None, sequence: int) -> None:
        """Add a position."""
        index = self.index
        for name, value in present.items():
            self.indices.append(index.setdefault(name, len(index)))
            self.values.append(value)
        self.indptr.append(len(self.indices))
        self.sequences.append(sequence)
        if label is not None:
            self._codes.append(self.labels.labels.index[label])

    def finish(self, sources: Sequence[Source], reading: Reading, *, has_labels: bool) -> SequenceData:
        """Return the data, columns in the order of their names."""
        check_rows(len(self.sequences), sources)
        layout = self.labels.layout("list", np.array(self.sequences, dtype=np.int64))
        names = sorted(self.index)
        rank = np.empty(max(len(names), 1), dtype=np.int32)
        for j, name in enumerate(names):
            rank[self.index[name]] = j
        indices = rank[np.frombuffer(self.indices, dtype=np.int32)] if len(self.indices) else np.empty(0, np.int32)
        values = narrowed(np.array(self.values, dtype=np.float64))
        indptr = np.frombuffer(self.indptr, dtype=np.int64)
        matrix = sp.csr_array((values, indices, indptr), shape=(layout.n_rows, len(names)))
        matrix.sort_indices()
        matrix.eliminate_zeros()
        labels: tuple[Any, tuple[Any, ...]] = (None, ())
        if has_labels:
            self.labels.labels.pieces.append(np.array(self._codes, dtype=np.int32))
            labels = labelled(self.labels)
        return made([], layout, Extra(matrix, tuple(names)), "dicts", labels, sources, reading)


def read_crfsuite(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read CRFsuite's files; see :func:`seqboost.files.read_sequences`."""
    rows = SparseRows()
    sequence = 0
    for source in sources:
        for number, line in source.lines():
            text = line.rstrip("\r\n")
            if not text.strip():
                sequence += 1
                continue
            label, *attributes = text.split("\t")
            try:
                present = dict(map(_attribute, filter(None, attributes)))
            except ValueError as error:
                source.report(number, str(error), "escape colons in names as \\:")
                continue
            if not label:
                source.report(number, "the label is empty: expected 'label<TAB>attribute<TAB>...'")
                continue
            if not attributes and " " in text:
                source.report(number, "there is no tab: expected 'label<TAB>attribute<TAB>...'", "name another format")
                continue
            rows.add(present, label, sequence)
        sequence += 1
    return rows.finish(sources, replace(reading, label=None), has_labels=True)


def _attribute(text: str) -> tuple[str, float]:
    """Read ``name`` or ``name:value``."""
    if "\\" not in text:
        name, colon, value = text.partition(":")
    else:
        parts, colon, value = [], "", ""
        characters = iter(text)
        for c in characters:
            if c == "\\":
                parts.append(next(characters, "\\"))
            elif c == ":":
                colon, value = c, "".join(characters)
            else:
                parts.append(c)
        name = "".join(parts)
    if not colon:
        return name, 1.0
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"the attribute {text[:60]!r} should end in ':number', but {value[:40]!r} is none") from None
    if not np.isfinite(number):
        raise ValueError(f"the attribute {text[:60]!r} is not a finite number")
    return name, number


def answer_crfsuite(source: Source, data: SequenceData, answers: Answers, file: Any) -> None:
    """Write the file again with predicted labels in the place of labels.

    Probabilities follow labels as ``label:p``; the best labellings are written one after another, each after a line
    ``@probability``, as CRFsuite's own tagger does.
    """
    block: list[tuple[str, int]] = []
    row = 0

    def flush() -> None:
        for rank, path in enumerate(answers.paths or (answers.labels,)):
            if block and answers.paths:
                if not path[block[0][1]]:
                    break
                file.write(f"@probability\t{math.exp(answers.path_scores[rank][block[0][1]]):.6g}\n")
            for attributes, at in block:
                chance = ""
                if answers.proba is not None:
                    chance = f":{answers.proba[at, answers.classes.index(path[at])]:.6f}"
                file.write(f"{path[at]}{chance}{attributes}\n")
            if block:
                file.write("\n")
        block.clear()

    for number, line in source.lines():
        text = line.rstrip("\r\n")
        if not text.strip():
            flush()
        elif number not in data.bad_lines:
            _, tab, attributes = text.partition("\t")
            block.append((tab + attributes, row))
            row += 1
    flush()


def write_crfsuite(data: SequenceData, file: Any) -> None:
    """Write sequences as labels and attributes: ``name=category``, ``name:number``, and indicators by name."""
    sparse = set(data.batch.schema.sparse_names)
    for rows, labels in sequence_values(data):
        for row, label in zip(rows, labels, strict=True):
            attributes = []
            for name, value in row.items():
                if value is None:  # CRFsuite knows no missing values
                    continue
                if isinstance(value, str):
                    attributes.append(_escaped(f"{name}={value}"))
                elif name in sparse and value is True:
                    attributes.append(_escaped(name))
                else:
                    attributes.append(f"{_escaped(name)}:{float(value):.9g}")
            file.write("\t".join([label_text(label) or "_", *attributes]) + "\n")
        file.write("\n")


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace(":", "\\:").replace("\t", " ")
