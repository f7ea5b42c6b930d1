"""Cells of text -> columns, piece by piece.

A file is read in pieces of some thousand rows. What is kept of a piece is compact: floats for numbers, codes for words.
A column that is not declared is what its first values are: numbers, or categories if a tenth of them or more are no
numbers. From then on a cell that is no number is a bad line of a numeric column. A column of true and false alone is
numeric, 1 and 0, as a column of booleans in a typed table is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import DataFileError
from seqboost.files.source import Source
from seqboost.sequences.batch import Layout
from seqboost.sequences.columns import Column, renumber

__all__ = ["PIECE_ROWS", "Codes", "Rows", "TextColumn"]

PIECE_ROWS = 8192
MISSING_NUMBERS = frozenset({"", "NA", "N/A", "na", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None", "?"})
BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
NUMERIC_SHARE = 0.9  # so many of a column's first values are numbers: the others are slips, not categories
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?$|\d{1,2}:\d{2}(:\d{2}.*)?$|\d{1,2}[./]\d{1,2}[./]\d{2,4}")


class _Index(dict[str, int]):
    """Numbers of words, in the order of their first appearance."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class Codes:
    """Words as numbers; the words are kept once."""

    def __init__(self) -> None:
        self.index: dict[str, int] = _Index()
        self.pieces: list[NDArray[np.int32]] = []

    def parse(self, cells: Sequence[str]) -> NDArray[np.int32]:
        """Return the codes of words."""
        return np.fromiter(map(self.index.__getitem__, cells), np.int32, len(cells))

    def joined(self) -> NDArray[np.int32]:
        """Return the codes of all pieces, which are given up."""
        pieces, self.pieces = self.pieces, []
        return np.concatenate(pieces) if pieces else np.empty(0, np.int32)


class TextColumn:
    """One column of a file.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"auto", "numeric", "categorical"}
        What it is; "auto" is decided by the first values.
    missing : frozenset of str
        Further cells that stand for "missing"; empty ones always do.
    """

    def __init__(self, name: str, kind: str = "auto", missing: Iterable[str] = ()) -> None:
        self.name = name
        self.kind = kind
        self.missing = frozenset(missing) | {""}
        self._codes = Codes()
        self._numbers: list[NDArray[np.floating]] = []
        self._n_blank = 0  # rows without a value, before the kind is decided
        self._booleans: bool | None = None  # whether the first numbers were booleans; None before the first one

    def parse(self, cells: Sequence[str]) -> tuple[NDArray[Any], dict[int, tuple[str, str]]]:
        """Return the values of some cells, and what is wrong with which of them."""
        if self.kind == "auto":
            self._decide(cells)
        if self.kind == "categorical":
            return self._codes.parse(cells), {}
        if self.kind == "auto":
            return np.full(len(cells), np.nan), {}
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            return self._parse_slowly(cells)
        if self._booleans is None and not np.isnan(values).all():
            self._booleans = False
        return values, {} if not np.isinf(values).any() else self._infinite(values, cells)

    def _parse_slowly(self, cells: Sequence[str]) -> tuple[NDArray[np.float64], dict[int, tuple[str, str]]]:
        values, bad = np.full(len(cells), np.nan), {}
        if self._booleans is None:
            present = self._present(cells)
            self._booleans = any(map(_is_boolean, present)) and not any(map(_is_number, present)) if present else None
        for row, cell in enumerate(cells):
            if cell in self.missing or cell.strip() in MISSING_NUMBERS:
                continue
            try:
                values[row] = BOOLEANS[cell.strip()] if self._booleans and _is_boolean(cell) else float(cell)
            except ValueError:
                mend = f"declare the column categorical (--categorical {self.name})"
                if re.fullmatch(r"\s*-?\d+,\d+\s*", cell):
                    mend = "write decimal points instead of commas"
                bad[row] = (f"column {self.name!r} holds numbers, but here {_shown(cell)}", mend)
        return values, bad | self._infinite(values, cells)

    def _infinite(self, values: NDArray[np.floating], cells: Sequence[str]) -> dict[int, tuple[str, str]]:
        return {
            row: (f"column {self.name!r} holds {_shown(cells[row])}, expected a finite number", "leave it empty")
            for row in np.flatnonzero(np.isinf(values)).tolist()
        }

    def _decide(self, cells: Sequence[str]) -> None:
        """Decide by the values of a piece what the column is, if it has any."""
        values = self._present(cells)
        if not values:
            return
        if all(map(_is_boolean, values)):
            self.kind = "numeric"
            return
        n_numbers = sum(map(_is_number, values))
        if n_numbers == 0 and all(map(DATE.match, values)):
            raise DataFileError(
                f"column {self.name!r} holds dates or times ({values[0]!r}), which are neither numbers nor categories. "
                f"Drop it (--drop {self.name}), turn it into numbers (seconds since the start, hour of the day), "
                f"declare it categorical, or, if it orders the positions of a sequence, name it (--time {self.name})."
            )
        self.kind = "numeric" if n_numbers > NUMERIC_SHARE * len(values) else "categorical"

    def _present(self, cells: Sequence[str]) -> list[str]:
        """Return the cells that hold a value."""
        return [cell for cell in cells if cell not in self.missing and cell.strip() not in MISSING_NUMBERS]

    def commit(self, values: NDArray[Any], keep: NDArray[np.bool_] | None) -> None:
        """Keep parsed values, or those of some rows."""
        values = values if keep is None else values[keep]
        if self.kind == "auto":
            self._n_blank += len(values)
        elif self.kind == "numeric":
            self._numbers.append(values)
        else:
            self._codes.pieces.append(values)

    def finish(self) -> Column:
        """Return the column; the pieces are given up."""
        if self.kind == "categorical":
            blank = np.full(self._n_blank, self._codes.index[""], np.int32)
            self._codes.pieces.insert(0, blank)
            keys = [None if word in self.missing else word for word in self._codes.index]
            codes, categories = renumber(self._codes.joined(), keys)
            return Column(self.name, codes, categories)
        pieces, self._numbers = [np.full(self._n_blank, np.nan, dtype=np.float32), *self._numbers], []
        return Column(self.name, np.concatenate(pieces))


class Rows:
    """Rows of a file with columns: cells, a label and a sequence for each.

    Parameters
    ----------
    columns : sequence of TextColumn
        The features, in the order of the cells.
    missing : iterable of str
        Labels that stand for "unobserved"; empty ones always do.
    time : column of times, optional
        Orders the positions of each sequence; its cells come last.
    """

    def __init__(self, columns: Sequence[TextColumn], missing: Iterable[str] = (), time: Any = None) -> None:
        self.columns = [*columns, *([] if time is None else [time])]
        self.time = time
        self.has_clock: bool | None = None
        self.gaps: NDArray[np.float64] | None = None  # from position to position, as soon as there is a layout
        self.labels = Codes()
        self.missing = frozenset(missing) | {""}
        self._sequences: list[NDArray[np.int64]] = []
        self.n_rows = 0

    def add(
        self,
        source: Source,
        lines: Sequence[int],
        cells: Sequence[Sequence[str]],
        labels: Sequence[str] | None,
        sequences: NDArray[np.int64],
    ) -> None:
        """Add a piece.

        Parameters
        ----------
        source : Source
            Where the rows come from.
        lines : sequence of int
            Their numbers there.
        cells : sequence of sequences of str
            The cells of each column.
        labels : sequence of str or None
            A label for each row.
        sequences : ndarray of int64
            Number of the sequence of each row.
        """
        parsed, bad = [], {}
        for column, values in zip(self.columns, cells, strict=True):
            try:
                good, problems = column.parse(values)
            except DataFileError as error:
                raise source.stop(str(error)) from None
            parsed.append(good)
            bad.update(problems)
        for row in sorted(bad):
            source.report(lines[row], *bad[row])
        keep = None
        if bad:
            keep = np.ones(len(lines), dtype=np.bool_)
            keep[list(bad)] = False
        for column, good in zip(self.columns, parsed, strict=True):
            column.commit(good, keep)
        if labels is not None:
            codes = self.labels.parse(labels)
            self.labels.pieces.append(codes if keep is None else codes[keep])
        kept = sequences if keep is None else sequences[keep]
        self._sequences.append(kept)
        self.n_rows += len(kept)

    def layout(self, origin: str, numbers: NDArray[np.int64] | None = None) -> Layout:
        """Return where sequences lie; rows of one sequence need not stand together in the file."""
        if numbers is None:
            numbers = np.concatenate(self._sequences) if self._sequences else np.empty(0, np.int64)
        self._sequences = []
        lengths = np.bincount(numbers)
        if self.time is not None:
            return self._timed_layout(origin, numbers, lengths[lengths > 0])
        if (np.diff(numbers) >= 0).all():
            order = np.arange(len(numbers), dtype=np.int64)
        else:
            # numbers are in order of first appearance, so are the sequences
            order = np.argsort(numbers, kind="stable").astype(np.int64)
        return Layout.from_lengths(lengths[lengths > 0], origin, order if origin == "table" else None)

    def _timed_layout(self, origin: str, numbers: NDArray[np.int64], lengths: NDArray[np.int64]) -> Layout:
        """Return where sequences lie, each sorted by time."""
        times = self.time.times()
        self.columns.remove(self.time)
        order = np.lexsort((times.values, numbers)).astype(np.int64)  # stable
        layout = Layout.from_lengths(lengths, origin, order)
        self.has_clock = times.has_clock
        self.gaps = times._replace(values=times.values[order]).gaps(layout.offsets[:-1])
        if origin == "table":
            return layout
        return replace(layout, table_rows=order - np.repeat(layout.offsets[:-1], lengths))

    def finish(self, layout: Layout) -> list[Column]:
        """Return the columns in the order of the layout; each gives its pieces up before the next is made."""
        rows = layout.user_rows
        in_order = rows is None or bool((np.diff(rows) == 1).all())
        columns = []
        while self.columns:
            column = self.columns.pop(0).finish()
            if not in_order:
                column = Column(column.name, column.values[rows], column.categories, column.forced)
            columns.append(column)
        return columns


def _is_boolean(cell: str) -> bool:
    return cell.strip() in BOOLEANS


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")
