"""Which rows of a table are which sequence, and in which order.

The column ``sequence`` (or several of them) says which sequence a row belongs to, the column ``time`` where in it. Of
the times one feature is kept: the gap to the position before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.sequences.batch import BatchSchema, Layout
from seqboost.sequences.columns import first_unhashable, is_missing, number

__all__ = ["Roles", "Times", "find_layout", "gap_name", "is_among", "read_times", "sequence_columns", "sequence_ids"]

TICKS = {"us": ("microseconds", 1_000_000), "ns": ("nanoseconds", 1_000_000_000)}


class Roles(NamedTuple):
    """The columns of a table that are no features."""

    sequence: Any = None  # a name, or a list of names
    time: Any = None
    label: Any = None

    @property
    def names(self) -> list[Any]:
        """Names of all of them."""
        return [*sequence_columns(self.sequence), *(name for name in (self.time, self.label) if name is not None)]

    def completed(self, schema: BatchSchema) -> Roles:
        """Return them with those of training where none are named."""
        trained = list(schema.sequence) if isinstance(schema.sequence, tuple) else schema.sequence
        return Roles(
            trained if self.sequence is None else self.sequence,
            schema.time if self.time is None else self.time,
            schema.label if self.label is None else self.label,
        )


class Times(NamedTuple):
    """Times of rows, as numbers in the same order: ``per_unit`` of them make a second (or 1, of times in numbers)."""

    values: NDArray[Any]
    per_unit: int = 1

    @property
    def has_clock(self) -> bool:
        """Whether these are dates, times or durations, with gaps in seconds."""
        return self.per_unit != 1

    def gaps(self, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the gap to the row before, NaN at ``starts``; the times must rise from each start on."""
        gaps = np.empty(len(self.values))
        if self.values.dtype.kind == "f":
            gaps[1:] = np.diff(self.values.astype(np.float64))
        else:  # differences of unsigned integers are exact even where those of int64 would overflow
            gaps[1:] = np.diff(self.values.astype(np.uint64))
        gaps /= self.per_unit
        gaps[starts] = np.nan
        return gaps


def gap_name(time: Any) -> str:
    """Return the name of the feature that the column ``time`` becomes."""
    return f"{time} gap"


def sequence_columns(sequence: Any) -> list[Any]:
    """Return the names of the sequence columns: none, one, or those of a list."""
    if sequence is None:
        return []
    return sequence if isinstance(sequence, list) else [sequence]


def is_among(name: Any, names: Sequence[Any]) -> bool:
    """Return whether a name is one of several; what is not hashable is none, and True is not the name 1."""
    try:
        return name in {other for other in names if isinstance(other, bool) == isinstance(name, (bool, np.bool_))}
    except TypeError:
        return False


def find_layout(frame: Any, roles: Roles) -> tuple[Layout, Times | None]:
    """Find the sequences of a table, in order of first appearance, and its times in the order of the layout."""
    ids, codes = None, np.zeros(frame.shape[0], dtype=np.int64)
    if roles.sequence is not None:
        ids, codes = _sequences(frame, roles.sequence)
    if roles.time is None:
        times, order = None, np.argsort(codes, kind="stable")
    else:
        times = read_times(frame, roles.time, "the table")
        if roles.time in sequence_columns(roles.sequence):
            raise InputError(
                f"The column {roles.time!r} cannot be both sequence and time; its values are the same all along a "
                f"sequence. Name another one of {list(frame.columns)} as time."
            )
        order = np.lexsort((times.values, codes))  # stable
        times = times._replace(values=times.values[order])
    layout = Layout.from_lengths(np.bincount(codes), "table", order)
    return replace(layout, ids=ids), times


def _sequences(frame: Any, sequence: Any) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    """Return the ids of the sequences, and the number of the sequence of each row."""
    ids = sequence_ids(frame, sequence)
    try:
        index, codes = number(ids)
    except TypeError:
        name, values = next(
            (name, values)
            for name in sequence_columns(sequence)
            if (values := frame.get_column(name).to_list()) and _has_unhashable(values)
        )
        row = first_unhashable(values)
        raise InputTypeError(
            f"The sequence column {name!r} holds a {type(values[row]).__name__} in row {row} of the table, "
            f"{values[row]!r}; expected a number or a string that names the sequence of the row."
        ) from None
    for j, name in enumerate(sequence_columns(sequence)):
        several = isinstance(sequence, list)
        if any(is_missing(key[j] if several else key) for key in index):
            row = next(row for row, key in enumerate(ids) if is_missing(key[j] if several else key))
            raise InputError(
                f"The sequence column {name!r} is missing in row {row} of the table; "
                "every row must belong to a sequence."
            )
    return tuple(index), codes


def _has_unhashable(values: list[Any]) -> bool:
    try:
        set(values)
    except TypeError:
        return True
    return False


def sequence_ids(frame: Any, sequence: Any) -> list[Any]:
    """Return the id of the sequence of each row: the value of the one column, or a tuple of those of several."""
    columns = list(frame.columns)
    if isinstance(sequence, list):
        if not sequence or any(name in sequence[:j] for j, name in enumerate(sequence)):
            raise InputError(
                f"sequence={sequence!r} must name one or more columns, each of them once. The columns are {columns}."
            )
        strange = [name for name in sequence if not is_among(name, columns)]
        if strange:
            raise InputError(
                f"sequence={sequence!r} names {strange[0]!r}, which is no column of the table. Its columns are "
                f"{columns}; sequence must name those that together tell the sequences apart."
            )
        return list(zip(*(frame.get_column(name).to_list() for name in sequence), strict=True))
    if not is_among(sequence, columns):
        raise InputError(
            f"sequence={sequence!r} names no column of the table. Its columns are {columns}; "
            "sequence must name the one that tells the sequences apart, or be a list of several."
        )
    ids: list[Any] = frame.get_column(sequence).to_list()
    return ids


def read_times(frame: Any, time: Any, place: str) -> Times:
    """Return the times of the rows of a table."""
    import narwhals as nw

    if not is_among(time, frame.columns):
        raise InputError(
            f"time={time!r} names no column of {place}. Its columns are {list(frame.columns)}; time must name the one "
            "that orders the positions of a sequence."
        )
    if gap_name(time) in map(str, frame.columns):
        raise InputError(
            f"{place.capitalize()} has a column {gap_name(time)!r} already, which is the name of the feature that "
            f"time={time!r} becomes; rename it."
        )
    column = frame.get_column(time)
    dtype = column.dtype
    if dtype == nw.Boolean or not (dtype.is_numeric() or dtype in (nw.Datetime, nw.Date, nw.Duration)):
        raise InputTypeError(
            f"The time column {time!r} holds {_kind(dtype)}; expected dates and times, or numbers. Parse it first, for "
            f"example X[{time!r}] = pandas.to_datetime(X[{time!r}])."
        )
    values, ticks = _ticks(column)
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    for bad, what in ((missing, "is missing"), (np.isinf(values), "is infinite")):
        if bad.any():
            raise InputError(
                f"The time column {time!r} {what} in row {int(np.argmax(bad))} of {place}; every row needs a time. "
                "Fill it in, or drop the row."
            )
    return Times(values, ticks)


def _kind(dtype: Any) -> str:
    """Say what a column of a type holds."""
    import narwhals as nw

    names = {nw.String: "strings", nw.Boolean: "booleans", nw.Categorical: "categories", nw.Enum: "categories"}
    return next((name for kind, name in names.items() if dtype == kind), f"values of type {dtype}")


def _ticks(column: Any) -> tuple[NDArray[Any], int]:
    """Return a column of times as numbers, and how many of them are a second; missing ones are any number."""
    import narwhals as nw

    dtype = column.dtype
    if dtype == nw.Date:
        column, dtype = column.cast(nw.Datetime("us")), nw.Datetime("us")
    if dtype in (nw.Datetime, nw.Duration):
        unit = "ns" if dtype.time_unit == "ns" else "us"
        words, ticks = TICKS[unit]
        counted = column.dt.timestamp(unit) if dtype == nw.Datetime else getattr(column.dt, f"total_{words}")()
        values = counted.to_numpy()
        if values.dtype.kind not in "iu":  # what is missing makes others floats, which are not exact
            values = np.array([0 if is_missing(value) else int(value) for value in counted.to_list()], dtype=np.int64)
        return values, ticks
    if str(dtype) not in ("Int128", "UInt128"):  # for which NumPy has no type
        values = column.to_numpy()
        if values.dtype.kind in "iuf" and values.dtype.itemsize <= 8:
            return values, 1
    return np.array([np.nan if is_missing(value) else value for value in column.to_list()], dtype=np.float64), 1
