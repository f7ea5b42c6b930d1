"""Values -> columns -> batch: what all forms of input share.

A column is numeric (floats, NaN = missing) or categorical (codes, -1 = missing). Its kind is inferred from its values
once, in training; :mod:`seqboost.sequences.conform` forces it afterwards.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences.batch import BatchSchema, ColumnSchema, Layout, SequenceBatch

__all__ = [
    "Column",
    "Extra",
    "TrainedCategories",
    "are_single",
    "assemble",
    "category_column",
    "column_names",
    "first_unhashable",
    "floats",
    "infer_column",
    "is_beyond_floats",
    "is_missing",
    "is_number_type",
    "is_real_type",
    "listed",
    "narrowed",
    "resolve_categorical",
    "tidied",
    "type_name",
    "value_types",
]

TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
LARGEST_SINGLE = 2**24  # float32 holds all whole numbers up to here
ABSENT_TYPES = ("NoneType", "NAType", "NaTType", "MaskedConstant")  # by name: pandas must not be imported for its NA


@dataclass(frozen=True, eq=False)
class Column:
    """One dense column: floats, or codes into ``categories``."""

    name: str
    values: NDArray[Any]  # (n_rows,) floats or int32 codes
    categories: NDArray[np.object_] | None = None
    forced: bool = False
    single: bool = False  # whether floats of 64 bits came as float32

    @property
    def schema(self) -> ColumnSchema:
        """Name and kind."""
        if self.categories is None:
            single = self.single or self.values.dtype == np.float32
            return ColumnSchema(self.name, "numeric", self.forced, single=single)
        return ColumnSchema(self.name, "categorical", self.forced, value_types(self.categories))


class TrainedCategories(frozenset[str]):
    """Columns declared categorical in training; the data of prediction may lack them."""


@dataclass(frozen=True, eq=False)
class Extra:
    """What a batch holds besides dense columns."""

    sparse: sp.csr_array | None = None
    sparse_names: tuple[str, ...] = ()
    sequence: str | tuple[str, ...] | None = None
    lists: tuple[str, ...] = ()
    has_names: bool = False
    everywhere: tuple[str, ...] = ()
    single: bool = False
    time: str | None = None
    label: str | None = None
    has_clock: bool | None = None


def is_number_type(kind: type) -> bool:
    """Return whether values of a type are numbers (booleans count as 0 and 1)."""
    return issubclass(kind, (numbers.Number, np.number, np.bool_)) and not issubclass(kind, TIMES)


def is_real_type(kind: type) -> bool:
    """Return whether values of a type are numbers that floats stand for."""
    return is_number_type(kind) and not issubclass(kind, (complex, np.complexfloating))


def is_missing(value: Any) -> bool:
    """Return whether a value stands for "missing": None, NaN, NaT, NA, masked."""
    if value is None or type(value).__name__ in ABSENT_TYPES:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling NaN must not be compared
    return isinstance(value, (float, np.floating)) and value != value


def are_single(types: set[type]) -> bool:
    """Return whether values of these types are NumPy's numbers of at most 32 bits, or missing."""
    return bool(types) and all(issubclass(kind, (np.float32, np.float16)) for kind in types)


def tidied(values: Sequence[Any] | NDArray[Any]) -> tuple[Any, set[type]]:
    """Return values with None for what is masked or NA, and Python's scalars for wrapped ones, and their types."""
    types = set(map(type, values))
    wrapped = {kind for kind in types if issubclass(kind, np.ndarray) or kind.__module__.startswith("pyarrow.")}
    if wrapped or any(issubclass(kind, Decimal) or kind.__name__ in ABSENT_TYPES[1:] for kind in types):
        values = [_unwrapped(value) if type(value) in wrapped else value for value in values]
        values = [None if is_missing(value) else value for value in values]
        types = set(map(type, values))
    return values, types


def _unwrapped(value: Any) -> Any:
    """Return what a scalar of pyarrow or an array without dimensions holds."""
    if hasattr(value, "as_py"):
        return value.as_py()
    if not isinstance(value, np.ndarray) or value.ndim > 0:
        return value
    if np.ma.is_masked(value):
        return None
    return value[()] if value.dtype.kind in "mM" else value.item()  # item() may make bare ints of times


def listed(values: Any, name: str) -> list[Any]:
    """Return the members of an iterable; some objects look like one and are none, as arrays without dimensions."""
    try:
        return list(values)
    except (TypeError, NotImplementedError) as error:
        raise InputTypeError(
            f"{name} is a {type(values).__name__} whose members cannot be read: {error}. Pass a list instead."
        ) from error


def value_types(values: Iterable[Any]) -> tuple[str, ...]:
    """Name the types of categories; nothing if there are others than these, which cannot be told apart."""
    found = set(map(type_name, set(map(type, values))))
    return () if "" in found else tuple(sorted(found))


def type_name(kind: type) -> str:
    """Name a type of categories: string, byte string or number; "" for any other."""
    if issubclass(kind, str):
        return "string"
    if issubclass(kind, bytes):
        return "byte string"
    return "number" if is_number_type(kind) else ""


def shrink(values: NDArray[Any]) -> NDArray[Any]:
    """Turn numbers into float32 where that is exact for their type, else float64."""
    exact = values.dtype.kind == "b" or values.dtype.itemsize <= (4 if values.dtype.kind == "f" else 2)
    with np.errstate(over="ignore"):  # a longdouble beyond all floats becomes infinite, and is refused as such
        return values.astype(np.float32 if exact else np.float64, copy=False)


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Turn numbers into float32 where that changes none of them, else float64."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = values.astype(np.float32, copy=False)
        return narrow if np.array_equal(narrow, values, equal_nan=True) else values.astype(np.float64, copy=False)


def infer_column(name: str, values: Sequence[Any], layout: Layout, *, forced: bool = False) -> Column:
    """Make a column from Python values: numbers alone -> numeric unless ``forced``, all else -> categorical.

    A mixture of numbers and other values is refused later, when it is known what training had
    (:func:`seqboost.sequences.conform.refuse_mixtures` and :func:`~seqboost.sequences.conform.conform`).
    """
    values, types = tidied(values)
    types -= {type(None)}
    for kind in types:
        _refuse_type(kind, name, values, layout)
    if all(map(is_number_type, types)) and not forced:
        numbers = floats(values, lambda row: (name, layout.where(row)))
        return Column(name, numbers.astype(np.float32) if are_single(types) else numbers)
    try:
        return Column(name, *factorize(values), forced=forced)
    except TypeError:
        row = first_unhashable(values)
        raise InputTypeError(
            f"Column {name!r} holds {values[row]!r:.60} ({layout.where(row)}), which cannot be a category: it is not "
            "hashable, because something inside it can change. Pass a string or a number."
        ) from None


def first_unhashable(values: Sequence[Any]) -> int:
    """Return the place of the first value that is not hashable, as a tuple that holds a list."""
    for i, value in enumerate(values):
        try:
            hash(value)
        except (TypeError, ValueError):  # the latter of writable memoryviews
            return i
    raise ValueError("all values are hashable")


def floats(values: Sequence[Any], place: Callable[[int], tuple[str, str]]) -> NDArray[np.float64]:
    """Return numbers as floats; Python's ints may be beyond them. ``place`` gives the column and place of a value."""
    try:
        with np.errstate(over="ignore"):  # as in `shrink`
            return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:  # an object whose own conversion fails
        raise InputTypeError(
            f"Column {place(0)[0]!r} holds a value that cannot be read as a number ({error}). Convert it to a float."
        ) from error
    except OverflowError:
        name, where = place(next(i for i, value in enumerate(values) if is_beyond_floats(value)))
        raise InputError(
            f"Column {name!r} holds a number that is too large for a float, at {where}: floats end at "
            "1.8e308. Divide the column by a constant, take logarithms, or pass NaN (missing)."
        ) from None


def is_beyond_floats(value: Any) -> bool:
    """Return whether a number (an int, a fraction) is finite but larger than any float."""
    try:
        float(value)
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
    return False


def _refuse_type(kind: type, name: str, values: Sequence[Any], layout: Layout) -> None:
    """Refuse types that no column can hold."""
    if issubclass(kind, TIMES):
        problem = (
            f"holds a date or time ({kind.__name__}), which is neither a number nor a category. "
            "Turn it into numbers first (seconds since the start, hour of the day, ...)"
        )
    elif issubclass(kind, (complex, np.complexfloating)):
        problem = "holds a complex number. Complex data not supported: pass real and imaginary parts as two columns"
    elif kind.__hash__ is None or issubclass(kind, (Iterator, range)) or _is_callable(kind):
        problem = f"holds a {kind.__name__}; a feature argument must be a string or a number"
    else:
        return
    row = next(row for row, value in enumerate(values) if type(value) is kind)
    raise InputTypeError(f"Column {name!r} {problem} ({layout.where(row)}).")


def _is_callable(kind: type) -> bool:
    """Return whether objects of a type can be called (every class itself can)."""
    return any("__call__" in vars(base) for base in kind.__mro__)


def factorize(values: Sequence[Any]) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
    """Give the distinct values numbers, in sorted order where they can be sorted; None and NaN get -1."""
    index, codes = number(values)
    return renumber(codes.astype(np.int32), list(index))


def number(values: Sequence[Any]) -> tuple[dict[Any, int], NDArray[np.int64]]:
    """Give the distinct values numbers in order of first appearance (no Python loop over the values)."""
    index = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return index, np.fromiter(map(index.__getitem__, values), np.int64, len(values))


def renumber(codes: NDArray[np.int32], keys: list[Any]) -> tuple[NDArray[np.int32], NDArray[np.object_]]:
    """Sort the keys that codes point into; missing keys get code -1."""
    kept = [key for key in keys if not is_missing(key)]
    ordered = sort_values(kept)
    rank = {key: i for i, key in enumerate(ordered)}
    new = np.array([-1 if is_missing(key) else rank[key] for key in keys], dtype=np.int32)
    return (new[codes] if len(keys) else codes), object_array([plain(key) for key in ordered])


def sort_values(values: list[Any]) -> list[Any]:
    """Sort values; by type first if they do not compare, and not at all if even that fails."""
    with np.errstate(over="ignore"):  # fractions multiply NumPy's integers to compare with them
        try:
            return sorted(values)
        except (TypeError, ValueError):
            pass
        try:
            return sorted(values, key=lambda value: (type(value).__name__, value))
        except (TypeError, ValueError):
            return values


def plain(value: Any) -> Any:
    """Turn NumPy scalars into Python's, whole floats and booleans into ints: equal categories shall look equal."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """Make a 1-D object array, also of tuples and lists."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def category_column(column: Column, layout: Layout) -> Column:
    """Make a column of categories from numbers; NaN is missing. Integers stay such: floats would merge large ones."""
    name, values = column.name, column.values
    values = values if values.dtype.kind in "iu" else shrink(values)
    if column.schema.single:
        inexact = np.isfinite(values) & (np.abs(values) > LARGEST_SINGLE)
        if inexact.any():
            row = int(np.argmax(inexact))
            raise InputError(
                f"Column {name!r} holds categories as float32, which cannot tell whole numbers beyond "
                f"{LARGEST_SINGLE:,} apart: {layout.where(row)} holds {values[row]:.0f}. Pass the column as integers, "
                "float64 or strings."
            )
    distinct, codes = np.unique(values, return_inverse=True)  # NaN sorts last
    n_real = int(len(distinct) - np.isnan(distinct).sum())
    categories = object_array([plain(value) for value in distinct[:n_real]])
    return Column(name, np.where(codes < n_real, codes, -1).astype(np.int32), categories, forced=True)


def resolve_categorical(categorical_features: Any, names: Sequence[str], keys: Sequence[Any] | None = None) -> set[int]:
    """Turn ``categorical_features`` (names, indices or mask) into a set of column numbers.

    ``keys`` are the names as the user has them; a number that is one of them is a name.
    """
    if categorical_features is None or (isinstance(categorical_features, str) and categorical_features == "from_dtype"):
        return set()
    if isinstance(categorical_features, TrainedCategories):
        return {j for j, name in enumerate(names) if name in categorical_features}
    if isinstance(categorical_features, (str, numbers.Integral)):
        categorical_features = [categorical_features]
    if isinstance(categorical_features, Iterator):
        raise ParameterError(
            f"categorical_features is an iterator ({type(categorical_features).__name__}), which can be read only "
            "once; write a list of names or indices of columns."
        )
    if not isinstance(categorical_features, Iterable) or _is_single(categorical_features):
        raise ParameterError(
            f"categorical_features is {categorical_features!r}, a {type(categorical_features).__name__}; expected "
            "None, a list of names or indices of columns, or a mask."
        )
    wanted = list(categorical_features)
    n_columns = len(names)
    if wanted and all(isinstance(item, (bool, np.bool_)) for item in wanted):
        if len(wanted) != n_columns:
            raise ParameterError(
                f"categorical_features is a mask of {len(wanted)} entries but X has {n_columns} dense columns."
            )
        return {j for j, on in enumerate(wanted) if on}
    position = {name: j for j, name in enumerate(names)}
    own_numbers = {key: j for j, key in enumerate(keys or ()) if isinstance(key, numbers.Integral)}
    chosen = set()
    for item in wanted:
        is_number = isinstance(item, numbers.Integral) and not isinstance(item, (bool, *TIMES))
        if is_number and item in own_numbers:
            chosen.add(own_numbers[item])
        elif is_number and -n_columns <= int(item) < n_columns:
            chosen.add(int(item) % n_columns)
        elif isinstance(item, str) and item in position:
            chosen.add(position[item])
        else:
            shown = ", ".join(map(repr, names[:10])) + (", ..." if n_columns > 10 else "")
            raise ParameterError(
                f"categorical_features names {item!r}, but X has no such column. It has {n_columns} dense "
                f"column(s): {shown}. Give names, indices from 0 to {n_columns - 1}, or a mask."
            )
    return chosen


def _is_single(values: Any) -> bool:
    """Return whether an array has no dimensions, and so no members."""
    return isinstance(values, np.ndarray) and values.ndim == 0


def column_names(n_columns: int) -> list[str]:
    """Name columns that have no names."""
    return [f"x{j}" for j in range(n_columns)]


def from_matrix(
    matrix: NDArray[Any], layout: Layout, form: str, categorical: set[int], names: Sequence[str] | None = None
) -> SequenceBatch:
    """Make a batch from one numeric matrix."""
    names = column_names(matrix.shape[1]) if names is None else names
    if not categorical:
        numeric = np.ascontiguousarray(shrink(matrix))
        single = numeric.dtype == np.float32
        schema = BatchSchema(tuple(ColumnSchema(name, "numeric", single=single) for name in names), (), form)
        _refuse_infinity(numeric, names, layout)
        nothing = np.empty((layout.n_rows, 0), dtype=np.int32)
        return SequenceBatch(layout.offsets, numeric, nothing, (), None, schema, layout)
    columns = []
    for j, name in enumerate(names):
        if j in categorical:
            columns.append(category_column(Column(name, matrix[:, j]), layout))
        else:
            columns.append(Column(name, shrink(matrix[:, j])))
    return assemble(columns, layout, form)


def assemble(columns: Sequence[Column], layout: Layout, form: str, extra: Extra | None = None) -> SequenceBatch:
    """Make a batch from columns (and a sparse part)."""
    extra = extra or Extra()
    if not columns and not extra.sparse_names:
        raise InputError(
            f"X has no features: 0 feature(s) (shape=({layout.n_rows}, 0)) while a minimum of 1 is required."
        )
    numeric_columns = [column for column in columns if column.categories is None]
    categorical_columns = [column for column in columns if column.categories is not None]
    narrow = all(column.values.dtype == np.float32 for column in numeric_columns)
    numeric = np.empty((layout.n_rows, len(numeric_columns)), dtype=np.float32 if narrow else np.float64)
    for j, column in enumerate(numeric_columns):
        numeric[:, j] = column.values
    _refuse_infinity(numeric, [column.name for column in numeric_columns], layout)
    categorical = np.empty((layout.n_rows, len(categorical_columns)), dtype=np.int32)
    for j, column in enumerate(categorical_columns):
        categorical[:, j] = column.values
    categories = tuple(column.categories for column in categorical_columns if column.categories is not None)
    schema = BatchSchema(
        tuple(column.schema for column in columns), extra.sparse_names, form, extra.sequence, extra.lists,
        extra.has_names, extra.everywhere, extra.single, extra.time, extra.label, extra.has_clock,
    )  # fmt: skip
    return SequenceBatch(layout.offsets, numeric, categorical, categories, extra.sparse, schema, layout)


def _refuse_infinity(matrix: NDArray[Any], names: Sequence[str], layout: Layout) -> None:
    """Refuse infinite values, saying where the first one is."""
    bad = np.isinf(matrix)
    if not bad.any():
        return
    row, j = (int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    raise infinity(names[j], layout.where(row))


def infinity(name: str, where: str) -> InputError:
    """Return the error for an infinite value."""
    return InputError(
        f"Input X contains infinity (inf) or a number too large for a float: {where}, column {name!r}. Replace it by "
        "NaN (missing) or a finite number."
    )
