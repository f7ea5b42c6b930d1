"""Arrays -> batch: numeric matrices, matrices of objects, rows given as lists, and one flat matrix."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.exceptions import InputError, InputTypeError
from seqboost.sequences.batch import Layout, SequenceBatch
from seqboost.sequences.columns import assemble, from_matrix, infer_column, is_number_type, resolve_categorical

__all__ = ["check_dtype", "none_for_masked", "read_arrays", "read_matrix", "read_rows", "unmask"]


def unmask(array: Any) -> NDArray[Any]:
    """Turn masked entries into missing ones."""
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray):
        return np.ma.filled(array.astype(np.float64), np.nan) if array.dtype.kind in "biuf" else none_for_masked(array)
    return np.asarray(array)


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
    for dtype in {array.dtype for array in arrays}:
        i = next(i for i, array in enumerate(arrays) if array.dtype == dtype)
        check_dtype(arrays[i], f"X[{i}]")
    if {array.dtype.kind for array in arrays} & set("OUST"):
        arrays = [array.astype(object) for array in arrays]
    return read_matrix(np.concatenate(arrays), layout, "arrays", categorical_features)


def read_matrix(matrix: NDArray[Any], layout: Layout, form: str, categorical_features: Any) -> SequenceBatch:
    """Read one matrix that holds the rows of all sequences."""
    n_columns = matrix.shape[1]
    if n_columns == 0:
        raise InputError(
            f"Found array with 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required: X has no columns."
        )
    names = [f"x{j}" for j in range(n_columns)]
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
    matrix = _number_matrix(rows, widths[0])
    if matrix is not None:
        return read_matrix(matrix, layout, "arrays", categorical_features)
    names = [f"x{j}" for j in range(widths[0])]
    categorical = resolve_categorical(categorical_features, names)
    columns = [
        infer_column(name, values, layout, forced=j in categorical)
        for j, (name, values) in enumerate(zip(names, zip(*rows, strict=True), strict=True))
    ]
    return assemble(columns, layout, "arrays")


def _number_matrix(rows: Sequence[Any], width: int) -> NDArray[np.float64] | None:
    """Return rows of numbers at once, or None if they have to be looked at column by column."""
    types = set(map(type, chain.from_iterable(rows))) - {type(None)}
    if not all(is_number_type(kind) and not issubclass(kind, (complex, np.complexfloating)) for kind in types):
        return None
    # an int beyond all floats, a signalling NaN: column by column it is told where the one is, the other is missing
    with suppress(OverflowError, ValueError), np.errstate(over="ignore"):
        return np.array(list(rows) if width else [()] * len(rows), dtype=np.float64)
    return None
