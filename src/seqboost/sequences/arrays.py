"""Arrays -> batch: numeric matrices, matrices of objects, rows given as lists, and one flat matrix."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.sequences.batch import Layout, SequenceBatch
from seqboost.sequences.columns import (
    are_single,
    assemble,
    column_names,
    from_matrix,
    infer_column,
    is_real_type,
    resolve_categorical,
)
from seqboost.sequences.tables import series_array

__all__ = [
    "as_its_base",
    "check_dtype",
    "joined",
    "none_for_masked",
    "read_arrays",
    "read_matrix",
    "read_rows",
    "rows_to_matrices",
    "unmask",
]


def unmask(array: Any, where: str) -> NDArray[Any]:
    """Turn masked entries into missing ones; as an array of objects if floats would not hold its integers."""
    if type(array) is np.ndarray:
        return array
    if not isinstance(array, np.ma.MaskedArray):
        return series_array(array)
    check_dtype(array, where)
    if np.shape(np.ma.getmask(array)) not in ((), array.shape):
        raise InputError(
            f"{where} is a masked array of shape {array.shape} whose mask has shape {np.shape(np.ma.getmask(array))}; "
            "give it a mask of its own shape."
        )
    if array.dtype.kind not in "biuf" or (array.dtype.kind in "iu" and _exceeds_floats(array)):
        return none_for_masked(array)
    values = array.view(np.ndarray).astype(np.float64)  # of a masked matrix, too, whose own methods change its shape
    values[np.ma.getmaskarray(array).view(np.ndarray)] = np.nan
    return values


def _exceeds_floats(array: NDArray[Any]) -> bool:
    """Return whether an array has integers beyond those that floats hold exactly."""
    return bool(np.any(array > 2**53) or np.any(array < -(2**53))) if array.dtype.itemsize == 8 else False


def none_for_masked(array: np.ma.MaskedArray[Any, Any]) -> NDArray[np.object_]:
    """Return an array of objects with None for masked entries (``filled`` takes None for "the default", a "?")."""
    values = np.array(array.data, dtype=object)
    values[np.ma.getmaskarray(array)] = None
    return values


def check_dtype(array: NDArray[Any], where: str) -> None:
    """Refuse arrays whose dtype no column can hold."""
    kind = array.dtype.kind
    if kind == "c":
        message = f"Complex data not supported: {where} has dtype {array.dtype}. Pass real and imaginary parts apart."
        raise InputError(message) if where == "X" else InputTypeError(message)
    if kind in "mM":
        raise InputTypeError(
            f"{where} has dtype {array.dtype}: dates and times are neither numbers nor categories. "
            "Turn them into numbers first (seconds since the start, hour of the day, ...)."
        )
    if kind not in "biufOUST":
        raise InputTypeError(f"{where} has dtype {array.dtype}, which is not understood; expected numbers or strings.")


def read_arrays(arrays: Sequence[NDArray[Any]], categorical_features: Any) -> SequenceBatch:
    """Read a list of 2-D arrays, one per sequence (rows = positions, columns = features)."""
    widths = [array.shape[1] for array in arrays]
    if len(set(widths)) > 1:
        i = next(i for i, width in enumerate(widths) if width != widths[0])
        raise InputError(
            f"X[{i}] has {widths[i]} features but X[0] has {widths[0]}; all sequences need the same columns. "
            "Fill columns that do not exist in a sequence with NaN."
        )
    layout = Layout.from_lengths([len(array) for array in arrays])
    categorical = resolve_categorical(categorical_features, column_names(widths[0]))
    for dtype in {array.dtype for array in arrays}:
        i = next(i for i, array in enumerate(arrays) if array.dtype == dtype)
        check_dtype(arrays[i], f"X[{i}]")
    return read_matrix(joined(arrays, exact=bool(categorical)), layout, "arrays", categorical_features)


def joined(arrays: Sequence[NDArray[Any]], exact: bool) -> NDArray[Any]:
    """Lay arrays end to end; as objects if some are, or if integers and floats of them shall stay ``exact``."""
    kinds = {array.dtype.kind for array in arrays}
    if kinds & set("OUST") or (exact and len(kinds) > 1):
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)


def read_matrix(matrix: NDArray[Any], layout: Layout, form: str, categorical_features: Any) -> SequenceBatch:
    """Read one matrix that holds the rows of all sequences."""
    n_columns = matrix.shape[1]
    if n_columns == 0:
        raise InputError(
            f"Found array with 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required: X has no columns."
        )
    names = column_names(n_columns)
    categorical = resolve_categorical(categorical_features, names)
    if matrix.dtype.kind in "biuf":
        return from_matrix(matrix, layout, form, categorical)
    columns = [
        infer_column(name, matrix[:, j].tolist(), layout, forced=j in categorical) for j, name in enumerate(names)
    ]
    return assemble(columns, layout, form)


def read_rows(rows: Sequence[Any], layout: Layout, categorical_features: Any) -> SequenceBatch:
    """Read positions given as lists, tuples or 1-D arrays of equal length."""
    widths = list(map(len, rows))
    if len(set(widths)) > 1:
        row = next(row for row, width in enumerate(widths) if width != widths[0])
        raise InputError(
            f"{layout.where(row)} has {widths[row]} features but {layout.where(0)} has {widths[0]}; all positions need "
            "the same columns. Use None or NaN for missing values, or dicts if features come and go."
        )
    names = column_names(widths[0])
    categorical = resolve_categorical(categorical_features, names)
    matrix = None if categorical else _number_matrix(rows, widths[0])  # categories may be beyond exact floats
    if matrix is not None:
        return read_matrix(matrix, layout, "arrays", categorical_features)
    columns = [
        infer_column(name, values, layout, forced=j in categorical)
        for j, (name, values) in enumerate(zip(names, zip(*rows, strict=True), strict=True))
    ]
    return assemble(columns, layout, "arrays")


def _number_matrix(rows: Sequence[Any], width: int) -> NDArray[np.floating] | None:
    """Return rows of numbers at once, or None if they have to be looked at column by column."""
    types = set(map(type, chain.from_iterable(rows))) - {type(None)}
    if not all(map(is_real_type, types)):
        return None
    # an int beyond all floats, a signalling NaN: column by column it is told where the one is, the other is missing
    with suppress(OverflowError, ValueError), np.errstate(over="ignore"):
        dtype = np.float32 if are_single(types) else np.float64
        return np.array(list(rows) if width else [()] * len(rows), dtype=dtype)
    return None


def as_its_base(item: Any) -> Any:
    """Return a list or tuple for a subclass of them, which may count its members in a way of its own."""
    for base in (list, tuple):
        if isinstance(item, base) and type(item) is not base:
            return base(item)
    return item


def rows_to_matrices(sequences: list[Any], kinds: list[str]) -> tuple[list[Any], list[str]]:
    """Turn lists of rows into matrices where they stand beside matrices."""
    for i, kind in enumerate(kinds):
        rows = sequences[i]
        if kind == "elements" and len(rows) and all(map(_is_row, rows)):
            if len(set(map(len, rows))) > 1:
                raise InputError(f"The positions of X[{i}] do not all have the same number of features.")
            matrix = np.empty((len(rows), len(rows[0])), dtype=object)  # np.array would look into lists in cells, too
            for t, row in enumerate(rows):
                for j, value in enumerate(row):
                    matrix[t, j] = value
            sequences[i] = matrix
            kinds[i] = "matrix"
    return sequences, kinds


def _is_row(element: Any) -> bool:
    return isinstance(element, (list, tuple)) or (isinstance(element, np.ndarray) and element.ndim > 0)
