"""Tables (pandas, polars, pyarrow, ... through narwhals) -> batch.

narwhals is imported only when a table comes in.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.sequences.batch import BatchSchema, Layout, SequenceBatch
from seqboost.sequences.columns import (
    Column,
    Extra,
    assemble,
    category_column,
    factorize,
    infer_column,
    is_missing,
    listed,
    object_array,
    resolve_categorical,
    shrink,
)
from seqboost.sequences.ordering import Roles, Times, find_layout, gap_name, is_among, read_times
from seqboost.sequences.records import without_columns

__all__ = [
    "as_frame",
    "holds_numbered_categories",
    "is_table",
    "label_column",
    "read_table",
    "read_table_list",
    "series_array",
]

LIBRARIES = {"pandas", "polars", "pyarrow", "narwhals", "modin", "cudf", "ibis", "duckdb", "dask", "pyspark"}
REPEATING = {"pandas", "pyarrow", "modin", "cudf"}  # their tables may have a name twice


def is_table(X: Any) -> bool:
    """Return whether an object is a table, without importing any table library."""
    if hasattr(X, "__narwhals_dataframe__") or hasattr(X, "__narwhals_lazyframe__"):
        return True
    return _comes_from(X, LIBRARIES) and hasattr(type(X), "columns")


def _comes_from(X: Any, libraries: set[str]) -> bool:
    """Return whether an object's class is, or derives from, one of certain libraries."""
    return any(kind.__module__.partition(".")[0] in libraries for kind in type(X).__mro__)


def as_frame(X: Any, place: str = "The table") -> Any:
    """Return a narwhals DataFrame."""
    import narwhals as nw

    if _comes_from(X, REPEATING):
        names = X.column_names if hasattr(X, "column_names") else X.columns
        for name in names:
            is_several = isinstance(name, Iterable) and not isinstance(name, (str, bytes, tuple))
            if callable(name) or is_several or isinstance(name, np.bool_):
                # pandas would call it, take it for several names, or not find it
                raise InputTypeError(f"{place} has a column named {name!r}; expected strings as names.")
        _refuse_repetition([str(name) for name in names], place)
    try:
        frame = nw.from_native(X)
    except Exception as error:  # whatever narwhals raises
        raise InputTypeError(f"A table of type {type(X).__name__} is not understood: {error}") from error
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


def series_array(values: Any) -> NDArray[Any]:
    """Turn a series, or what else can be an array, into one; of objects where NumPy has no type for its members.

    These are lists and structs, integers of 128 bits, and integers with gaps among them.
    """
    try:
        array = np.asarray(values)
    except Exception:  # whatever another library raises
        return object_array(_listed(values))
    if array is values or not _comes_from(values, LIBRARIES):
        return array
    if array.ndim != 1 or array.dtype.kind in "OV":
        return object_array(_listed(values))
    if array.dtype.kind == "f" and np.isnan(array).any():
        listed = _listed(values)
        if all(is_missing(value) or isinstance(value, (int, np.integer)) for value in listed):
            return object_array(listed)
    return array


def _listed(values: Any) -> list[Any]:
    """Return the members of a series as Python's own values."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return listed(values, "A series")


def holds_numbered_categories(values: Any) -> bool:
    """Return whether a series is one of categories that are numbers."""
    categories = getattr(getattr(values, "dtype", None), "categories", None)
    return categories is not None and np.asarray(categories).dtype.kind in "biuf"


def _refuse_repetition(names: list[str], place: str) -> None:
    """Refuse a table that has a name more than once: no column could be told by it."""
    for name, count in Counter(names).items():
        if count > 1:
            numbers = ", ".join(str(j) for j, other in enumerate(names) if other == name)
            raise InputError(
                f"{place} has the column {name!r} {count} times (columns {numbers}, counted from 0), but a column is "
                "known by its name. Rename the others, or drop them."
            )


def read_table(X: Any, roles: Roles, categorical_features: Any, schema: BatchSchema | None) -> SequenceBatch:
    """Read one table; rows with the same value in the column ``sequence`` are one sequence.

    They are in the order of the column ``time``, or of the rows. Without ``sequence`` the table is one sequence if it
    has ``time``; else each row is a sequence of its own (form "flat").
    """
    frame = as_frame(X)
    if frame.shape[0] == 0:
        raise InputError(
            f"Found array with 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required: the table is empty."
        )
    if roles.sequence is None and roles.time is None:
        layout, times = Layout.from_lengths(np.ones(frame.shape[0], dtype=np.int64), "flat"), None
    else:
        layout, times = find_layout(frame, roles)
    layout = replace(layout, index=_pandas_index(frame))
    if layout.origin == "table" and times is None:
        _warn_if_index_decreases(layout)
    chosen = _choose(list(frame.columns), roles, schema)
    if not chosen and schema is not None and times is None:
        return without_columns(layout)
    gaps = None if times is None else times.gaps(layout.offsets[:-1])
    columns = _columns([frame], chosen, layout.table_rows, layout, categorical_features)
    form, has_clock = "flat" if layout.origin == "flat" else "table", None if times is None else times.has_clock
    return _assembled(columns, gaps, layout, form, roles, has_clock)


def read_table_list(
    tables: Sequence[Any], roles: Roles, categorical_features: Any, schema: BatchSchema | None
) -> SequenceBatch:
    """Read a list of tables, one per sequence."""
    frames = [as_frame(table, f"X[{i}]") for i, table in enumerate(tables)]
    layout = Layout.from_lengths([frame.shape[0] for frame in frames])
    layout = replace(layout, index=tuple(map(_pandas_index, frames)))
    order = gaps = has_clock = None
    if roles.time is None:
        _warn_if_index_decreases(layout)
    else:
        times = [read_times(frame, roles.time, f"X[{i}]") for i, frame in enumerate(frames)]
        has_clock = _common_clock(times, roles.time)
        orders = [np.argsort(part.values, kind="stable") for part in times]
        own_rows = np.concatenate(orders).astype(np.int64)
        layout = replace(layout, table_rows=own_rows)
        order = own_rows + np.repeat(layout.offsets[:-1], np.diff(layout.offsets))
        start = np.zeros(1, dtype=np.int64)
        gaps = np.concatenate(
            [Times(t.values[o], t.per_unit).gaps(start) for t, o in zip(times, orders, strict=True)]
        )  # fmt: skip
    chosen = _choose(list(frames[0].columns), roles, schema)
    _check_same_columns(frames, chosen, roles, schema)
    columns = _columns(frames, chosen, order, layout, categorical_features)
    return _assembled(columns, gaps, layout, "table", roles, has_clock)


def _common_clock(times: Sequence[Times], name: Any) -> bool:
    """Return whether times are dates or numbers; refuse tables of which some have one and some the other."""
    kinds = {True: "dates, times or durations, whose gaps are seconds", False: "numbers"}
    for i, part in enumerate(times):
        if part.has_clock != times[0].has_clock:
            raise InputError(
                f"The time column {name!r} of X[{i}] holds {kinds[part.has_clock]}, but that of X[0] holds "
                f"{kinds[times[0].has_clock]}; all tables need the same kind. Convert one of them, for example with "
                f"pandas.to_datetime."
            )
    return times[0].has_clock


def _check_same_columns(frames: Sequence[Any], chosen: Sequence[Any], roles: Roles, schema: BatchSchema | None) -> None:
    """Refuse tables of which one has a feature that another one lacks."""
    trained = set() if schema is None else set(schema.names)
    for i, frame in enumerate(frames):
        lacking = [name for name in chosen if name not in frame.columns]
        if lacking:
            raise InputError(f"X[{i}] lacks the column(s) {lacking}, which X[0] has; all tables need the same columns.")
        others = [name for name in frame.columns if name not in chosen and name not in roles.names]
        more = [name for name in others if schema is None or str(name) in trained]
        if more:
            raise InputError(
                f"X[{i}] has the column(s) {more}, which X[0] lacks; all tables need the same columns. Add them to "
                "X[0], filled with None, or drop them."
            )


def label_column(X: Any, name: str, roles: Roles) -> Any:
    """Return the labels that a column of a table holds, or a list of them for a list of tables.

    Parameters
    ----------
    X : table or list of tables
        What the user gave as X.
    name : str
        What the user gave as y.
    roles : Roles
        Columns that hold something else.
    """
    is_list = isinstance(X, (list, tuple)) and len(X) > 0 and all(map(is_table, X))
    if not is_list and not is_table(X):
        raise InputTypeError(
            f"y={name!r} is a string, which names a column of a table, but X is a {type(X).__name__}. Pass a table, or "
            "one sequence of labels for each sequence of X."
        )
    labels = []
    for i, table in enumerate(X if is_list else [X]):
        place = f"X[{i}]" if is_list else "the table"
        frame = as_frame(table, place)
        if not is_among(name, frame.columns):
            raise InputError(f"y={name!r} names no column of {place}. Its columns are {list(frame.columns)}.")
        if name in roles.names:
            raise InputError(
                f"y={name!r} names the column that is the sequence or the time of X; the labels must be in another "
                f"column of {list(frame.columns)}."
            )
        labels.append(frame.get_column(name).to_native())
    return labels if is_list else labels[0]


def _choose(present: list[Any], roles: Roles, schema: BatchSchema | None) -> list[Any]:
    """Choose the feature columns: all that have no other role, or those of training, if there are any of them."""
    features = [name for name in present if name not in roles.names]
    if schema is None or not schema.named or schema.form == "dicts":
        return features
    known = {str(name): name for name in features}
    wanted = [column.name for column in schema.columns if roles.time is None or column.name != gap_name(roles.time)]
    return [known[name] for name in wanted if name in known] or (features if wanted else [])


def _pandas_index(frame: Any) -> Any:
    """Return the index of a table of pandas, None for all others."""
    native = frame.to_native()
    return native.index if _comes_from(native, {"pandas"}) else None


def _warn_if_index_decreases(layout: Layout) -> None:
    """Warn, once, if a pandas index of numbers or times decreases inside a sequence."""
    is_list, starts = isinstance(layout.index, tuple), layout.offsets[1:-1]
    for i, index in enumerate(layout.index if is_list else (layout.index,)):
        if index is None or index.is_monotonic_increasing:
            continue
        if layout.table_rows is not None:
            index = index[layout.table_rows]
        place = _first_decrease(index, starts[:0] if is_list else starts)
        if place is None:
            continue
        warnings.warn(
            f"The index of X decreases inside a sequence: {layout.where(int(layout.offsets[i]) + place)} has "
            f"{index[place]} after {index[place - 1]}. The rows of a sequence are read in the order of the table, "
            "and labels depend on it. If that order is right, call X.reset_index(drop=True); if the index is the time, "
            "sort by it with X.sort_index(). Do the same with y.",
            UserWarning,
            stacklevel=7,
        )
        return


def _first_decrease(index: Any, starts: NDArray[np.int64]) -> int | None:
    """Return the first place, other than those where sequences start, at which a pandas index decreases."""
    decreases = np.zeros(len(index) - 1, dtype=bool)
    tied = np.ones(len(index) - 1, dtype=bool)  # in the levels before
    tied[starts - 1] = False
    for k in range(index.nlevels):
        level = index.get_level_values(k)
        values = level.asi8 if hasattr(level, "asi8") else level.to_numpy()
        if values.dtype.kind in "iuf":
            known = ~np.asarray(level.isna())
            decreases |= tied & (values[1:] < values[:-1]) & known[1:] & known[:-1]
        else:  # the order of words means nothing
            try:
                values = level.factorize()[0]
            except TypeError:  # not hashable
                return None
        tied &= values[1:] == values[:-1]
    return int(np.argmax(decreases)) + 1 if decreases.any() else None


def _columns(
    frames: Sequence[Any],
    chosen: Sequence[Any],
    order: NDArray[np.int64] | None,
    layout: Layout,
    categorical_features: Any,
) -> list[Column]:
    """Read the chosen columns of one or more frames."""
    names = [str(name) for name in chosen]
    forced = resolve_categorical(categorical_features, names, chosen)
    return [
        _column(name, [frame.get_column(key) for frame in frames], order, layout, j in forced)
        for j, (name, key) in enumerate(zip(names, chosen, strict=True))
    ]


def _assembled(
    columns: list[Column],
    gaps: NDArray[np.float64] | None,
    layout: Layout,
    form: str,
    roles: Roles,
    has_clock: bool | None,
) -> SequenceBatch:
    """Make a batch of the columns of a table and, behind them, the gaps between its times."""
    if gaps is not None:
        columns.append(Column(gap_name(roles.time), gaps))
    sequence = tuple(map(str, roles.sequence)) if isinstance(roles.sequence, list) else roles.sequence
    extra = Extra(
        sequence=sequence if sequence is None or isinstance(sequence, tuple) else str(sequence), has_names=True,
        time=None if roles.time is None else str(roles.time), label=roles.label, has_clock=has_clock,
    )  # fmt: skip
    return assemble(columns, layout, form, extra)


def _column(name: str, parts: Sequence[Any], order: NDArray[np.int64] | None, layout: Layout, forced: bool) -> Column:
    """Read one column, given in parts, and put it in the order of the batch."""
    import narwhals as nw

    for dtype in {part.dtype for part in parts}:
        if dtype.is_temporal():
            raise InputTypeError(
                f"Column {name!r} holds dates or times ({dtype}), which are neither numbers nor categories. "
                "Turn it into numbers first (seconds since the start, hour of the day, ...) or drop it; if it orders "
                f"the positions of a sequence, name it: time={name!r}."
            )
        if dtype.is_nested():
            raise InputTypeError(f"Column {name!r} has the nested type {dtype}; expected numbers, strings or booleans.")
    exact = forced and any(part.dtype.is_integer() for part in parts)  # floats would merge large integers
    if not exact and all(part.dtype.is_numeric() or part.dtype == nw.Boolean for part in parts):
        numbers = np.concatenate([_numbers(part) for part in parts])
        numbers = numbers if order is None else numbers[order]
        column = Column(name, numbers)
        return category_column(column, layout) if forced else column
    values: list[Any] = list(chain.from_iterable(part.to_list() for part in parts))
    if order is not None:
        values = list(map(values.__getitem__, order.tolist()))
    if any(part.dtype in (nw.Categorical, nw.Enum) for part in parts):
        codes, categories = factorize(values)
        return Column(name, codes, categories, forced=not all(isinstance(value, str) for value in categories))
    # narwhals takes pandas' objects without a single value for strings, but nothing is known of them
    untyped = any(str(getattr(part.to_native(), "dtype", "")) == "object" for part in parts)
    if all(part.dtype == nw.String for part in parts) and not (untyped and all(map(is_missing, values))):
        return Column(name, *factorize(values), forced=forced)
    return infer_column(name, values, layout, forced=forced)


def _numbers(part: Any) -> NDArray[Any]:
    """Return a numeric or boolean series as floats, nulls as NaN."""
    if str(part.dtype) not in ("Int128", "UInt128"):  # for which NumPy has no type
        values = part.to_numpy()
        if values.dtype.kind in "biuf" and not (values.dtype.kind != "f" and part.null_count()):
            return shrink(values)
    return np.array([np.nan if is_missing(value) else value for value in part.to_list()], dtype=np.float64)
