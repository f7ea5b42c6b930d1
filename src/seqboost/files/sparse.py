"""The sparse files of the hyphenation set (Dietterich, Hao & Ashenfelter 2008).

::

    1951 2 162                                   sequences, labels, features
    1 1 6 26 53 73 95 134 161 0                  sequence, position, n, n indices, label

Indices are indicators, called ``f26`` and so on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from seqboost.core.exceptions import DataFileError
from seqboost.files.crfsuite import SparseRows
from seqboost.files.output import label_text, sequence_values
from seqboost.files.reading import Answers, Reading, SequenceData
from seqboost.files.source import Source

__all__ = ["answer_sparse", "read_sparse_file", "write_sparse"]


def read_sparse_file(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read sparse files; see :func:`seqboost.files.read_sequences`."""
    rows = SparseRows()
    n_sequences = 0
    for source in sources:
        header: list[int] | None = None
        last = (0, 0)
        for number, line in source.lines():
            fields = line.split()
            if not fields:
                continue
            try:
                values = [int(field) for field in fields]
            except ValueError:
                if header is None:
                    raise _no_header(source, line) from None
                strange = next(field for field in fields if not re.fullmatch(r"-?[0-9]{1,999}", field))
                source.report(number, f"expected whole numbers, got {strange[:40]!r}")
                continue
            if header is None:
                if len(values) != 3 or min(values) < 1:
                    raise _no_header(source, line)
                header = values
                continue
            problem = _problem(values, header, last)
            if problem:
                source.report(number, problem)
                continue
            n_sequences += values[0] != last[0]
            last = (values[0], values[1])
            rows.add({f"f{index}": 1.0 for index in values[3:-1]}, str(values[-1]), n_sequences)
        if header is not None and last[0] < header[0]:
            what = f"its header announces {header[0]} sequences, but it ends in sequence {last[0]}; it was cut short"
            raise source.stop(f"{what}: copy it anew, or correct the header")
    return rows.finish(sources, reading, has_labels=True)


def _no_header(source: Source, line: str) -> DataFileError:
    return source.stop(
        f"expected a first line of three numbers (sequences, labels, features), got {line.strip()[:60]!r}; "
        "name the format if this is another one"
    )


def _problem(values: list[int], header: list[int], last: tuple[int, int]) -> str:
    """Say what is wrong with a line, "" if nothing is."""
    if len(values) < 4 or len(values) != values[2] + 4:
        n_indices = values[2] if len(values) > 2 else 0
        return (
            f"expected sequence, position, n = {n_indices}, {n_indices} indices and a label, got {len(values)} numbers"
        )
    if not 1 <= values[0] <= header[0]:
        return f"sequence {values[0]} is not one of the {header[0]} that the header announces"
    if any(not 0 <= index < header[2] for index in values[3:-1]):
        strange = next(index for index in values[3:-1] if not 0 <= index < header[2])
        return f"index {strange} is not one of the {header[2]} features that the header announces"
    expected = last[1] + 1 if values[0] == last[0] else 1
    if values[0] < last[0] or values[1] < expected:
        return f"position {values[1]} of sequence {values[0]} follows position {last[1]} of sequence {last[0]}"
    return ""


def answer_sparse(source: Source, data: SequenceData, answers: Answers, file: Any) -> None:
    """Write the file again with predicted labels in the place of labels."""
    if answers.proba is not None or answers.paths:
        raise DataFileError(
            "sparse files have one label for each position and no place for probabilities or further paths; "
            "convert the file to .jsonl first"
        )
    row, is_header = 0, True
    for number, line in source.lines():
        fields = line.split()
        if not fields or number in data.bad_lines:
            continue
        if is_header:
            is_header = False
            file.write(" ".join(fields) + "\n")
            continue
        file.write(" ".join([*fields[:-1], answers.labels[row]]) + "\n")
        row += 1


def write_sparse(data: SequenceData, file: Any) -> None:
    """Write sequences of indicators; labels must be whole numbers."""
    schema = data.batch.schema
    matrix = data.batch.sparse
    if schema.columns or matrix is None or not (matrix.data == 1).all():
        raise DataFileError("sparse files hold indicators only; write .jsonl or .crfsuite instead")
    if not all(label_text(label).isdecimal() for label in data.label_names) or data.label_codes is None:
        raise DataFileError("sparse files need a whole number as the label of every position")
    names = schema.sparse_names
    numbered = all(name[:1] == "f" and name[1:].isdecimal() for name in names)
    place = {name: int(name[1:]) if numbered else j for j, name in enumerate(names)}
    file.write(f"{data.batch.n_sequences} {len(data.label_names)} {max(place.values()) + 1}\n")
    for number, (rows, labels) in enumerate(sequence_values(data), start=1):
        for position, (row, label) in enumerate(zip(rows, labels, strict=True), start=1):
            indices = sorted(place[name] for name in row)
            cells = [number, position, len(indices), *indices, label_text(label)]
            file.write(" ".join(map(str, cells)) + "\n")
