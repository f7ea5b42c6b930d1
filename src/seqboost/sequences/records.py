"""Dicts and sets -> batch.

A key makes one column: strings -> categorical, numbers and booleans -> numeric. A key whose every value is True (or 1)
is an *indicator* and lives in the sparse part, where absent simply means absent; so do the members of lists and sets,
as ``"key=member"`` (or ``"member"`` if the position itself is a set). In the sparse part a None or NaN that the user
wrote stays, as an explicit NaN. So it is inferred in training; at prediction the schema says which keys are dense, and
all other numbers go to the sparse part: what is read of a position must not depend on the positions beside it.

The reader never loops over a dict's items in Python: it lays all keys and all values end to end, numbers the keys,
and sorts by key, so that each column is one slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.core.offsets import starts_of
from seqboost.sequences.batch import BatchSchema, Layout, SequenceBatch
from seqboost.sequences.columns import (
    ABSENT_TYPES,
    Column,
    Extra,
    TrainedCategories,
    assemble,
    floats,
    infer_column,
    is_missing,
    is_number_type,
    is_real_type,
    object_array,
    resolve_categorical,
    tidied,
)
from seqboost.sequences.sparse import check_sparse

__all__ = ["MULTIPLE", "indicator_matrix", "read_dicts", "read_tags", "without_columns"]

MULTIPLE = (list, tuple, set, frozenset, np.ndarray)
MANY_KEYS = 256  # beyond so many numeric keys, rare ones go to the sparse part instead of filling memory with NaN
RARE = 0.1


@dataclass(frozen=True, eq=False)
class _Items:
    """All items of all dicts, sorted by key (then by row)."""

    keys: list[Any]
    names: list[str]  # the keys as text
    starts: NDArray[np.int64]  # (n_keys + 1,) items of key j are starts[j]..starts[j+1]-1
    rows: NDArray[np.int64]  # (n_items,)
    values: NDArray[np.object_]  # (n_items,)

    def of(self, j: int) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
        """Return rows and values of one key."""
        span = slice(self.starts[j], self.starts[j + 1])
        return self.rows[span], self.values[span]


def read_dicts(
    dicts: Sequence[Any], layout: Layout, categorical_features: Any, schema: BatchSchema | None = None
) -> SequenceBatch:
    """Read one dict per position (None = a position where everything is missing)."""
    items = _collect(dicts)
    _refuse_equal_names(items, layout)
    forced = resolve_categorical(categorical_features, items.names, items.keys)
    indicator, multiple = _kinds(items, schema)
    indicator[list(forced)] = False
    multiple[list(forced)] = False
    sparse_rows: list[NDArray[np.int64]] = []
    sparse_names: list[str] = []
    sparse_values: list[NDArray[Any]] = []

    def add_sparse(rows: Any, names: list[str], values: Any) -> None:
        sparse_rows.append(np.asarray(rows, dtype=np.int64))
        sparse_names.extend(names)
        sparse_values.append(np.asarray(values, dtype=np.float64))

    columns, rows_of = [], []
    owners = {name: j for j, name in enumerate(items.names) if not multiple[j]}
    for j in np.flatnonzero(~indicator).tolist():
        rows, values = items.of(j)
        if multiple[j]:
            members = _members(items.names[j], rows, values, layout)
            for at, name in zip(*members[:2], strict=True):
                if owners.setdefault(name, j) != j:
                    raise _same_name(name, items, (owners[name], j), (int(items.of(owners[name])[0][0]), at), layout)
            add_sparse(*members)
        else:
            columns.append(_column(items.names[j], rows, values, layout, j in forced))
            rows_of.append(rows)
    if schema is None:
        columns = _move_rare(columns, rows_of, layout, add_sparse)
    _add_indicators(items, indicator, layout, add_sparse)
    lists = tuple(items.names[j] for j in np.flatnonzero(multiple))
    if schema is not None and schema.named and not columns and not sparse_names:
        return without_columns(layout, lists)
    counts = np.diff(items.starts)
    everywhere = tuple(items.names[j] for j in np.flatnonzero(counts == layout.n_rows))
    if not sparse_rows:
        return assemble(columns, layout, "dicts", Extra(lists=lists, everywhere=everywhere))
    rows, values = np.concatenate(sparse_rows), np.concatenate(sparse_values)
    extra = Extra(*indicator_matrix(rows, sparse_names, values, layout), lists=lists, everywhere=everywhere)
    return assemble(columns, layout, "dicts", extra)


def _collect(dicts: Sequence[Any]) -> _Items:
    """Lay keys and values end to end and sort them by key, keys in order of first appearance."""
    if set(map(type, dicts)) != {dict}:
        dicts = [{} if row is None else dict(row) for row in dicts]
    counts = np.fromiter(map(len, dicts), np.int64, len(dicts))
    n_items = int(counts.sum())
    keys = list(chain.from_iterable(dicts))
    index = {key: j for j, key in enumerate(dict.fromkeys(keys))}
    small = np.int16 if len(index) < 2**15 else np.int32  # NumPy sorts 16-bit integers by radix
    key_of = np.fromiter(map(index.__getitem__, keys), small, n_items)
    values = np.fromiter(chain.from_iterable(map(dict.values, dicts)), object, n_items)
    order = np.argsort(key_of, kind="stable")
    starts = starts_of(np.bincount(key_of, minlength=len(index)))
    rows = np.repeat(np.arange(len(dicts)), counts)[order]
    return _Items(list(index), [str(key) for key in index], starts, rows, values[order])


def _refuse_equal_names(items: _Items, layout: Layout) -> None:
    """Refuse keys that are different but are written alike, as 1 and "1": they would be one column."""
    if len(set(items.names)) == len(items.names):
        return
    first: dict[str, int] = {}
    for j, name in enumerate(items.names):
        i = first.setdefault(name, j)
        if i != j:
            raise _same_name(name, items, (i, j), (int(items.of(i)[0][0]), int(items.of(j)[0][0])), layout)


def _same_name(name: str, items: _Items, keys: tuple[int, int], rows: tuple[int, int], layout: Layout) -> InputError:
    """Return the error for two keys that make columns of one name, each with a row that has it."""
    one, other = (f"the key {items.keys[j]!r} at {layout.where(row)}" for j, row in zip(keys, rows, strict=True))
    return InputError(
        f"Two features have the name {name!r}: {one} and {other}. A column is known by its name (a key as text, or "
        "'key=member' for lists and sets). Rename one of the keys."
    )


def _kinds(items: _Items, schema: BatchSchema | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which keys are indicators and which have lists or sets as values.

    Indicators are always True in training; at prediction they are all numbers but those of dense columns.
    """
    dense = None if schema is None else {column.name for column in schema.columns}
    indicator = np.zeros(len(items.names), dtype=bool)
    multiple = np.zeros(len(items.names), dtype=bool)
    for j in range(len(items.names)):
        values = items.of(j)[1]
        tidy, types = tidied(values)
        if tidy is not values:
            values[:] = object_array(tidy)
        if not all(is_real_type(kind) or kind.__name__ in ABSENT_TYPES for kind in types):
            multiple[j] = any(issubclass(kind, MULTIPLE) for kind in types)
        elif dense is not None:
            indicator[j] = items.names[j] not in dense
        elif types == {bool}:
            indicator[j] = all(values)
        else:
            indicator[j] = (is_missing(values[0]) or values[0] == 1) and _always_one(values)
    return indicator, multiple


def _always_one(values: NDArray[np.object_]) -> bool:
    """Return whether values are all 1 or missing, and not all missing."""
    distinct = set(values)
    present = [value for value in distinct if not is_missing(value)]
    return len(present) == 1 and present[0] == 1


def _column(name: str, rows: NDArray[np.int64], values: NDArray[np.object_], layout: Layout, forced: bool) -> Column:
    """Spread a key's values over all rows."""
    if len(rows) < layout.n_rows:
        spread = np.full(layout.n_rows, None, dtype=object)
        spread[rows] = values
        values = spread
    if any(issubclass(kind, Mapping) for kind in set(map(type, values))):
        row = next(row for row, value in enumerate(values) if isinstance(value, Mapping))
        raise InputTypeError(
            f"The value of {name!r} at {layout.where(row)} is itself a dict. Flatten it into keys of its own, "
            f"for example {{'{name}:{next(iter(values[row]), 'key')}': ...}}."
        )
    return infer_column(name, values.tolist(), layout, forced=forced)


def _members(
    name: str, rows: NDArray[np.int64], values: NDArray[np.object_], layout: Layout
) -> tuple[list[int], list[str], list[float]]:
    """Turn lists and sets of strings into indicators ``"key=member"``; a lone string counts as a list of one."""
    at: list[int] = []
    names: list[str] = []
    data: list[float] = []
    for row, value in zip(rows.tolist(), values, strict=True):
        if is_missing(value):
            continue
        if not isinstance(value, (str, *MULTIPLE)):
            raise _neither(name, (row, value), (rows, values), layout)
        for member in (value,) if isinstance(value, str) else value:
            if not isinstance(member, str):
                raise InputTypeError(
                    f"The value of {name!r} at {layout.where(row)} is a {type(value).__name__} that holds "
                    f"{member!r}; lists and sets in dicts must hold strings. {_instead(member)}"
                )
            at.append(row)
            names.append(f"{name}={member}")
            data.append(1.0)
    return at, names, data


def _instead(member: Any) -> str:
    """Say what to do with a member of a list that is no string."""
    if is_missing(member):
        return "Leave missing members out."
    if isinstance(member, bytes):
        return "Decode byte strings."
    return "Give each number a key of its own." if is_number_type(type(member)) else "Turn it into a string."


def _neither(
    name: str,
    lone: tuple[int, Any],
    all_of_key: tuple[NDArray[np.int64], NDArray[np.object_]],
    layout: Layout,
) -> InputTypeError:
    """Return the error for a key that holds lists at one position and a number (or what not) at another."""
    listed, found = next(pair for pair in zip(*all_of_key, strict=True) if isinstance(pair[1], MULTIPLE))
    return InputTypeError(
        f"The key {name!r} holds lists or sets at some positions and single values at others: {layout.where(listed)} "
        f"holds a {type(found).__name__}, {layout.where(lone[0])} holds {lone[1]!r}. Give it lists of strings "
        "everywhere, or one number (or one string) at each position."
    )


def _move_rare(
    columns: list[Column], rows_of: list[NDArray[np.int64]], layout: Layout, add_sparse: Any
) -> list[Column]:
    """Move numeric keys that few rows have to the sparse part, if there are many numeric keys.

    Zeros stay values, and a None or NaN stays as an explicit NaN, as with indicators.
    """
    if sum(column.categories is None for column in columns) <= MANY_KEYS:
        return columns
    kept = []
    for column, rows in zip(columns, rows_of, strict=True):
        if column.categories is None and len(rows) < RARE * layout.n_rows:
            add_sparse(rows, [column.name] * len(rows), column.values[rows])
        else:
            kept.append(column)
    return kept


def _add_indicators(items: _Items, indicator: NDArray[np.bool_], layout: Layout, add_sparse: Any) -> None:
    """Add all indicator keys at once; a None or NaN stays as an explicit NaN."""
    key_of = np.repeat(np.arange(len(items.names)), np.diff(items.starts))
    chosen = indicator[key_of]
    if not chosen.any():
        return
    rows, names = items.rows[chosen], list(map(items.names.__getitem__, key_of[chosen].tolist()))
    add_sparse(rows, names, floats(items.values[chosen].tolist(), lambda i: (names[i], layout.where(rows[i]))))


def indicator_matrix(
    rows: NDArray[np.int64], names: list[str], values: NDArray[Any], layout: Layout
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Build the sparse part from (row, name, value); columns sorted by name, a repeated (row, name) counts once.

    Zeros are kept: unlike absent entries they are values.
    """
    ordered = sorted(map(str, set(names)))  # NumPy's strings become Python's
    index = {name: j for j, name in enumerate(ordered)}
    columns = np.fromiter(map(index.__getitem__, names), np.int64, len(names))
    place = rows * len(ordered) + columns
    if len(place) and (np.diff(place) <= 0).any():
        place, first = np.unique(place, return_index=True)
        rows, columns, values = rows[first], columns[first], values[first]
    sparse = sp.csr_array((values, (rows, columns)), shape=(layout.n_rows, len(ordered)))
    return check_sparse(sparse, ordered, layout), tuple(ordered)


def are_bags(
    elements: Sequence[Any], has_sets: bool, layout: Layout, schema: BatchSchema | None, estimator_name: str
) -> bool:
    """Return whether sets and lists are bags of attributes (strings) rather than rows of columns.

    At prediction the schema of training decides, in training the members: a list of strings is a bag, any other list a
    row, and both together are refused.
    """
    if schema is not None and not has_sets and schema.form != "dicts":
        return False
    kinds = {kind: issubclass(kind, str) for kind in set(map(type, chain.from_iterable(elements)))}
    if has_sets or all(kinds.values()):
        return all(kinds.values()) and (has_sets or bool(kinds))
    if schema is None and not any(kinds.values()):
        return False
    lengths = np.fromiter(map(len, elements), np.int64, len(elements))
    is_string = np.fromiter(map(kinds.__getitem__, map(type, chain.from_iterable(elements))), bool, lengths.sum())
    n_strings = np.bincount(np.repeat(np.arange(len(elements)), lengths)[is_string], minlength=len(elements))
    bags, others = np.flatnonzero((n_strings == lengths) & (lengths > 0)), np.flatnonzero(n_strings < lengths)
    strange = next(member for member in elements[others[0]] if not kinds[type(member)])
    if schema is not None:
        raise InputTypeError(
            f"{estimator_name} was trained with dicts, sets or lists of strings, so that a list is a bag of "
            f"attributes, but the list at {layout.where(others[0])} holds {strange!r}. Leave it out, or pass dicts."
        )
    if len(bags):
        raise InputTypeError(
            "Lists of strings are bags of attributes (as in CRFsuite), other lists are rows of columns, but X has "
            f"both: {layout.where(bags[0])} holds {elements[bags[0]]!r:.60}, {layout.where(others[0])} a list with "
            f"{strange!r}. Pass tuples if the places in the lists are columns (then None is a missing value), or dicts "
            "to give features names."
        )
    return False


def read_tags(tags: Sequence[Any], layout: Layout, categorical_features: Any) -> SequenceBatch:
    """Read one set (or list) of strings per position: each string is an indicator."""
    counts = np.fromiter(map(len, tags), np.int64, len(tags))
    rows = np.repeat(np.arange(len(tags)), counts)
    names = list(chain.from_iterable(tags))
    sparse, ordered = indicator_matrix(rows, names, np.ones(len(names)), layout)
    if not isinstance(categorical_features, TrainedCategories) and resolve_categorical(categorical_features, ordered):
        raise ParameterError(
            "categorical_features cannot be used with bags of attributes (sets or lists of strings); pass tuples, "
            "whose places are columns, or dicts."
        )
    return assemble([], layout, "dicts", Extra(sparse, ordered))


def without_columns(layout: Layout, lists: tuple[str, ...] = ()) -> SequenceBatch:
    """Return positions that carry no feature; only prediction knows which columns they lack."""
    n_rows = layout.n_rows
    schema = BatchSchema((), (), "dicts", lists=lists)
    numeric, categorical = np.empty((n_rows, 0), dtype=np.float32), np.empty((n_rows, 0), dtype=np.int32)
    return SequenceBatch(layout.offsets, numeric, categorical, (), None, schema, layout)
