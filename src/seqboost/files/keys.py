"""Objects with keys -> columns, as :mod:`seqboost.sequences.records` makes them of dicts, without keeping the objects.

What a key is shows at the end only: a key of strings turns into one of lists with the first list, a key of ones into a
number with the first 2, and a number goes to the sparse part if few rows have it. So strings are kept as codes, lists
as several codes in one row, and nulls as rows: in the sparse part null is missing, and a key that is not there is off.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import DataFileError
from seqboost.core.offsets import locate
from seqboost.files.building import Codes
from seqboost.files.source import Source
from seqboost.sequences.batch import Layout
from seqboost.sequences.columns import Column, Extra, renumber
from seqboost.sequences.records import MANY_KEYS, RARE, indicator_matrix

__all__ = ["Keys", "Position"]

Position = dict[str, Any]


class _Key:
    """Values of one key: the rows that have it, and numbers or words."""

    def __init__(self, row: int) -> None:
        self.first_row = row
        self.count = 0  # rows that have the key
        self.rows = array("q")
        self.numbers = array("d")
        self.words = Codes()
        self.codes = array("i")
        self.missing = array("q")  # rows of nulls, unless there are words
        self.kind = ""  # "number", "word" or "list" (several words in a row); "" before the first value
        self.since = ""  # where it became so
        self.only_ones = True

    def add(self, row: int, value: Any) -> None:
        """Add a value that was found to be of the right kind."""
        self.count += 1
        if value is None:
            if not self.codes:
                self.missing.append(row)
        elif isinstance(value, (str, list)):
            for word in (value,) if isinstance(value, str) else value:
                self.rows.append(row)
                self.codes.append(self.words.index[word])
        else:
            self.only_ones = self.only_ones and value == 1
            self.rows.append(row)
            self.numbers.append(value)

    def first_row_of(self, code: int) -> int:
        """Return the first row with a word, or with the key itself (-1)."""
        return self.first_row if code < 0 else self.rows[self.codes.index(code)]

    @property
    def is_indicator(self) -> bool:
        """Whether every value is true or 1, or null."""
        return self.only_ones and self.kind == "number"

    @property
    def is_numeric(self) -> bool:
        """Whether this is a column of numbers, be they all missing."""
        return self.kind in ("number", "") and not self.is_indicator

    @property
    def n_present(self) -> int:
        """Number of rows that have a number or null."""
        return len(self.rows) + len(self.missing)

    def column(self, name: str, n_rows: int) -> Column:
        """Return a dense column."""
        rows = np.array(self.rows, dtype=np.int64)
        if self.kind == "word":
            codes = np.full(n_rows, -1, dtype=np.int32)
            found, categories = renumber(np.array(self.codes, dtype=np.int32), list(self.words.index))
            codes[rows] = found
            return Column(name, codes, categories)
        values = np.full(n_rows, np.nan)
        values[rows] = self.numbers
        return Column(name, values)

    def entries(self, name: str) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64]]:
        """Return rows, names and values for the sparse part."""
        rows = np.array(self.rows, dtype=np.int64)
        if self.kind == "list":
            members = [f"{name}={word}" for word in self.words.index]
            return rows, [members[code] for code in self.codes], np.ones(len(rows))
        rows = np.append(rows, np.array(self.missing, dtype=np.int64))
        return rows, [name] * len(rows), np.append(self.numbers, np.full(len(self.missing), np.nan))


class Keys:
    """The keys of all objects, in order of first appearance.

    Parameters
    ----------
    drop : sequence of str
        Keys that are left out, whatever they hold.
    """

    def __init__(self, drop: Sequence[str] = ()) -> None:
        self.dropped = dict.fromkeys(drop, False)  # whether it was there
        self._keys: dict[str, _Key] = {}
        self._lengths = array("q")
        self._lines = array("q")  # of each sequence
        self._sources: list[Source] = []
        self._starts: list[int] = []  # number of the first sequence of each source
        self.n_rows = 0

    @property
    def names(self) -> list[str]:
        """The keys that are not dropped."""
        return list(self._keys)

    def kept(self, positions: list[Position]) -> list[Position]:
        """Return positions without the keys that are to be dropped."""
        for key in self.dropped:
            self.dropped[key] = self.dropped[key] or any(key in position for position in positions)
        if not self.dropped:
            return positions
        return [{key: v for key, v in position.items() if key not in self.dropped} for position in positions]

    def add(self, positions: list[Position], source: Source, line: int) -> None:
        """Add a sequence, or nothing of it: a ValueError says what is wrong with its values."""
        kinds = self._check(positions)
        for row, position in enumerate(positions, start=self.n_rows):
            for key, value in position.items():
                values = self._keys.get(key)
                if values is None:
                    values = self._keys[key] = _Key(row)
                values.add(row, value)
        for key, kind in kinds.items():
            if self._keys[key].kind != kind:
                self._keys[key].kind, self._keys[key].since = kind, f"{source.name}, line {line}"
        if not self._sources or self._sources[-1] is not source:
            self._sources.append(source)
            self._starts.append(len(self._lines))
        self._lines.append(line)
        self._lengths.append(len(positions))
        self.n_rows += len(positions)

    def _check(self, positions: list[Position]) -> dict[str, str]:
        """Return the kinds of the keys of a sequence; refuse values of another kind than those before."""
        kinds: dict[str, str] = {}
        for t, position in enumerate(positions):
            for key, value in position.items():
                if value is None:
                    continue
                kind = "word" if isinstance(value, str) else "list" if isinstance(value, list) else "number"
                if kind != "word":
                    problem = _problem(value)
                    if problem:
                        raise ValueError(f"position {t}: {key!r} {problem}")
                known = kinds.get(key) or (self._keys[key].kind if key in self._keys else "")
                if known and kind != known:
                    if "number" in (kind, known):
                        where = "elsewhere in this line" if key in kinds else f"in {self._keys[key].since}"
                        raise ValueError(
                            f"position {t}: {key!r} is the {kind} {value!r:.60}, but a {known} {where}; give the key "
                            f"numbers alone or strings (or lists of strings) alone, or drop it (--drop {key})"
                        )
                    kind = "list"  # a lone string is a list of one
                kinds[key] = kind
        return kinds

    def layout(self) -> Layout:
        """Return where sequences lie."""
        return Layout.from_lengths(self._lengths)

    def columns(self, layout: Layout, *, is_sparse: bool) -> tuple[list[Column], Extra]:
        """Turn keys into dense columns and, if there may be a sparse part, indicators into sparse ones.

        Each key is given up before the next is turned.
        """
        self._refuse_equal_names(layout)
        n_numeric = sum(key.is_numeric for key in self._keys.values())
        lists = tuple(name for name, key in self._keys.items() if key.kind == "list")
        everywhere = tuple(name for name, key in self._keys.items() if key.count == layout.n_rows)
        columns, rows, names, values = [], [], [], []
        for name in list(self._keys):
            key = self._keys.pop(name)
            is_rare = n_numeric > MANY_KEYS and key.is_numeric and key.n_present < RARE * layout.n_rows
            if is_sparse and (key.is_indicator or is_rare or key.kind == "list"):
                entries = key.entries(name)
                rows.append(entries[0])
                names += entries[1]
                values.append(entries[2])
            else:
                columns.append(key.column(name, layout.n_rows))
        if not names:
            return columns, Extra(lists=lists, everywhere=everywhere)
        matrix = indicator_matrix(np.concatenate(rows), names, np.concatenate(values), layout)
        return columns, Extra(*matrix, lists=lists, everywhere=everywhere)

    def _refuse_equal_names(self, layout: Layout) -> None:
        """Refuse two keys that make columns of one name, as {"a": ["b"], "a=b": 7} does."""
        owners = {name: (name, -1) for name, key in self._keys.items() if key.kind != "list"}
        for name, key in self._keys.items():
            for code, word in enumerate(key.words.index if key.kind == "list" else ()):
                member = f"{name}={word}"
                owner, other = owners.setdefault(member, (name, code))
                if owner == name:
                    continue
                here = self._where(key.first_row_of(code), layout)
                there = self._where(self._keys[owner].first_row_of(other), layout)
                raise DataFileError(
                    f"{here}: two features have the name {member!r}: the member {word!r} of the list {name!r} here, "
                    f"and the key {owner!r} in {there}. A column is known by its name, 'key=member' for lists. Rename "
                    f"one of the keys, or drop it (--drop {owner})."
                )

    def _where(self, row: int, layout: Layout) -> str:
        """Say in words where a row lies."""
        sequence, position = locate(layout.offsets, row)
        source = self._sources[bisect_right(self._starts, sequence) - 1]
        return f"{source.name}, line {self._lines[sequence]}, position {position}"


def _problem(value: Any) -> str:
    """Say what is wrong with a value that is no string, "" if nothing is."""
    if isinstance(value, list):
        strange = [member for member in value if not isinstance(member, str)]
        return f"is a list with {strange[0]!r:.60} in it; lists should hold strings only" if strange else ""
    if isinstance(value, dict):
        return "is itself an object; flatten it"
    try:
        return "" if math.isfinite(value) else "is not a finite number; use null for missing"
    except OverflowError:  # JSON's integers may be of any length
        return "is an integer too large for a float (they end at 1.8e308); divide it, or use null for missing"
