"""Tables of text (CSV, TSV): a line for each position, a header of names, one column that tells sequences apart.

Nothing but Python's own ``csv`` is needed. Rows of one sequence need not stand together; without a sequence column the
file is one sequence.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seqboost.files.building import PIECE_ROWS, Codes, Rows, TextColumn
from seqboost.files.output import label_text, refuse_sparse, sequence_rows
from seqboost.files.reading import MISSING_COLUMN, Answers, Reading, SequenceData, tabled
from seqboost.files.source import Source
from seqboost.files.times import TimeColumn
from seqboost.sequences.ordering import gap_name

__all__ = ["answer_table", "choose_columns", "read_table_file", "write_csv", "write_tsv"]

DELIMITERS = ",;\t|"
ROW = "(row)"  # a first column without a name: the numbers or names of rows that R and pandas write
LABEL_NAMES = ("label", "labels", "y", "tag", "class", "target")
FEATURE = "a feature, as in training"


@dataclass(frozen=True)
class Chosen:
    """Which columns of a table are what, by number."""

    features: list[int]
    label: int | None
    sequences: tuple[int, ...] = ()
    time: int | None = None

    @property
    def parsed(self) -> list[int]:
        """Columns that are parsed: features, and the time behind them."""
        return [*self.features, *([] if self.time is None else [self.time])]


def choose_columns(source: Source, names: Sequence[str], reading: Reading, labels: str) -> Chosen:
    """Choose features, label and sequence among the names of a table; refuse names that it does not have."""
    shown = ", ".join(map(repr, names[:30])) + (", ..." if len(names) > 30 else "")

    def place(name: str, role: str) -> int:
        if name in names:
            return list(names).index(name)
        hint = "" if reading.header else "; without a header columns are called x0, x1, ..."
        if role == FEATURE:
            hint += MISSING_COLUMN
        raise source.stop(f"it has no column {name!r}, which should be {role}; its columns are {shown}{hint}")

    for name, count in Counter(names).items():
        if count > 1:
            raise source.stop(f"it has the column {name!r} {count} times; give every column a name of its own")
    label = None
    if reading.label is not None and (labels == "required" or reading.label in names):
        label = place(reading.label, "the label")
    elif reading.label is None:
        found = [name for name in names if name.lower() in LABEL_NAMES]
        if len(found) == 1:
            label = list(names).index(found[0])
        elif labels == "required":
            raise source.stop(f"which column is the label? Name one of {shown} (--label)")
    asked = (reading.sequence,) if isinstance(reading.sequence, str) else reading.sequence or ()
    sequences = tuple(place(name, "the sequence column") for name in asked)
    time = None if reading.time is None else place(reading.time, "the time")
    used: dict[int, str] = {}
    for j, role in ((label, "label"), *((j, "sequence") for j in sequences), (time, "time")):
        if j in used:
            raise source.stop(f"the column {names[j]!r} cannot be both {used[j]} and {role}; name two columns")
        if j is not None:
            used[j] = role
    if time is not None and gap_name(reading.time) in names:
        raise source.stop(f"it has a column {gap_name(reading.time)!r}, which is needed for the gaps between times")
    roles = [(reading.drop, "dropped"), (reading.categorical, "categorical"), (reading.numeric, "numeric")]
    if reading.inputs:
        features = [place(name, FEATURE) for name in reading.inputs_in(names)]
    else:
        left_out = {place(name, role) for wanted, role in roles for name in wanted if role == "dropped"}
        for wanted, role in roles:
            for name in wanted:
                place(name, role)
        features = [j for j, name in enumerate(names) if j not in used and j not in left_out and name != ROW]
        if not features and time is None and labels != "only":
            raise source.stop(f"no column is left to learn from; its columns are {shown}")
    return Chosen([] if labels == "only" else features, label, sequences, time)


def sequence_keys(cells: Sequence[Sequence[str]]) -> Sequence[Any]:
    """Return what names the sequence of each row: the cell of the one column, or a tuple of those of several."""
    return cells[0] if len(cells) == 1 else list(zip(*cells, strict=True))


def read_table_file(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read CSV and TSV files; see :func:`seqboost.files.read_sequences`."""
    rows: Rows | None = None
    names: list[str] = []
    chosen = Chosen([], None)
    n_sequences = 0
    for source in sources:
        table = _Table(source, reading)
        if rows is None:
            names = table.names
            chosen = choose_columns(source, names, reading, labels)
            kinds = [TextColumn(names[j], reading.kind_of(names[j]), reading.missing) for j in chosen.features]
            rows = Rows(kinds, reading.missing, None if chosen.time is None else TimeColumn(names[chosen.time]))
        elif table.names != names:
            raise source.stop(f"its columns are {table.names}, but those of {sources[0].name} are {names}")
        ids = Codes()
        for lines, columns in table.pieces():
            numbers = np.zeros(len(lines), np.int64)
            for j in chosen.sequences:
                if "" in columns[j]:
                    raise source.stop(
                        f"line {lines[columns[j].index('')]} has nothing in the sequence column {names[j]!r}; every "
                        f"row must belong to a sequence"
                    )
            if chosen.sequences:
                numbers = ids.parse(sequence_keys([columns[j] for j in chosen.sequences])).astype(np.int64)
            label_cells = None if chosen.label is None else columns[chosen.label]
            rows.add(source, lines, [columns[j] for j in chosen.parsed], label_cells, numbers + n_sequences)
        n_sequences += max(len(ids.index), 1)
    assert rows is not None
    reading = replace(
        reading, label=names[chosen.label] if chosen.label is not None else reading.label, delimiter=table.delimiter
    )
    origin = "table" if chosen.sequences else "list"
    has_labels = chosen.label is not None
    return tabled(rows, sources, reading, origin=origin, has_labels=has_labels, typed=True)


class _Table:
    """A table of text: its names, then its rows in pieces."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source = source
        self._numbered = source.lines()
        first = next(self._numbered, None)
        if first is None:
            raise source.stop("it holds no line that could be read")
        self.delimiter = reading.delimiter or _delimiter(source, first[1])
        self._line = first[0]
        self._reader = csv.reader(self._texts(first), delimiter=self.delimiter, strict=True)
        self._held: list[tuple[int, list[str]]] = []
        try:
            header = next(row for row in self._reader if row)  # empty lines before the header are passed over
        except csv.Error as error:
            raise source.stop(f"its first line cannot be read ({error}); check the quotes") from None
        except StopIteration:
            raise source.stop("it holds no line that could be read") from None
        if reading.header:
            self.names = [name.strip() for name in header]
            self._held += self._first_row()
            if self._held and len(self._held[0][1]) == len(self.names) + 1:
                self.names.insert(0, ROW)
            elif self.names[0] == "" and len(self.names) > 1:
                self.names[0] = ROW
            if "" in self.names:
                raise source.stop(
                    f"column {self.names.index('') + 1} has no name in the header; name it, or say that there is no "
                    f"header (--no-header) and use x0, x1, ..."
                )
        else:
            self.names = list(reading.columns) or [f"x{j}" for j in range(len(header))]
            self._held.append((self._line, header))
            if len(self.names) != len(header):
                raise source.stop(f"its first line has {len(header)} cells, but {len(self.names)} names are given")

    def _first_row(self) -> list[tuple[int, list[str]]]:
        """Return the first row below the header, if there is one: it may have one cell more than there are names."""
        try:
            for row in self._reader:
                if row:
                    return [(self._line, row)]
        except csv.Error as error:
            self.source.report(self._line, f"{error}", "check the quotes around its cells")
        return []

    def _texts(self, first: tuple[int, str]) -> Iterator[str]:
        yield first[1]
        for number, text in self._numbered:
            self._line = number
            yield text

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Give the cells of each row, and the number of the line it ends on; bad ones are reported."""
        n_columns = len(self.names)
        held, self._held = self._held, []
        while True:
            if held:
                self._line, row = held.pop()
            else:
                try:
                    row = next(self._reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    self.source.report(self._line, f"{error}", "check the quotes around its cells")
                    continue
            if len(row) == n_columns:
                yield self._line, row
            elif row:
                self.source.report(
                    self._line, f"expected {n_columns} cells, as the header has names, got {len(row)}",
                    "check the delimiter",
                )  # fmt: skip

    def pieces(self) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
        """Give numbers of lines and columns of cells, some thousand rows at a time."""
        lines, rows = [], []
        for line, row in self.rows():
            lines.append(line)
            rows.append(row)
            if len(rows) == PIECE_ROWS:
                yield lines, list(zip(*rows, strict=True))
                lines, rows = [], []
        if rows:
            yield lines, list(zip(*rows, strict=True))


def _delimiter(source: Source, line: str) -> str:
    """Find what stands between the cells of the first line."""
    found = Counter(c for c in line if c in DELIMITERS)
    if source.name.lower().partition(".tsv")[1] and "\t" in found:
        return "\t"
    return found.most_common(1)[0][0] if found else ","


def answer_table(source: Source, data: SequenceData, answers: Answers, file: Any) -> None:
    """Write the table again with further columns: ``predicted``, ``p(label)``, ``path1`` and so on."""
    table = _Table(replace(source, bad=[], bad_lines=set(), skip_bad=True), data.reading)
    added = answers.names()
    kept = [j for j, name in enumerate(table.names) if name not in added]
    writer = csv.writer(file, delimiter=table.delimiter, lineterminator="\n")
    if data.reading.header:
        writer.writerow([*("" if table.names[j] == ROW else table.names[j] for j in kept), *added])
    at = 0
    for line, row in table.rows():
        if line not in data.bad_lines:
            writer.writerow([*(row[j] for j in kept), *answers.cells(at)])
            at += 1


def write_csv(data: SequenceData, file: Any) -> None:
    """Write sequences as a table between commas."""
    _write(data, file, ",")


def write_tsv(data: SequenceData, file: Any) -> None:
    """Write sequences as a table between tabs."""
    _write(data, file, "\t")


def _write(data: SequenceData, file: Any, delimiter: str) -> None:
    refuse_sparse(data, "tables")
    names = [column.name for column in data.batch.schema.columns]
    label, sequence = added_names(names, data.reading)
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow([sequence, *names, *([label] if data.label_codes is not None else [])])
    for number, (rows, labels) in enumerate(sequence_rows(data)):
        for row, value in zip(rows, labels, strict=True):
            cells: Iterable[str] = (row[name] for name in names)
            writer.writerow([number, *cells, *([label_text(value)] if data.label_codes is not None else [])])


def added_names(names: Sequence[str], reading: Reading) -> tuple[str, str]:
    """Return names for the columns of labels and sequences that no other column has."""
    label = reading.label if reading.label and not reading.label.isdecimal() else "label"
    sequence = reading.sequence if isinstance(reading.sequence, str) else "sequence"
    while label in names:
        label += "_"
    while sequence in names or sequence == label:
        sequence += "_"
    return label, sequence
