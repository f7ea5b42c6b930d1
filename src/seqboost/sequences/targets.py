"""The user's y -> labels in the order of a batch's rows, by row (tables, flat input) or by sequence."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.sequences.arrays import none_for_masked
from seqboost.sequences.batch import SequenceBatch
from seqboost.sequences.columns import first_unhashable, is_missing, listed, tidied
from seqboost.sequences.tables import as_frame, is_table, series_array

__all__ = ["as_labels", "flat_labels"]

CONTAINERS = (list, np.ndarray)


def as_labels(y: Any, batch: SequenceBatch | None = None, *, name: str = "y") -> list[list[Any]]:
    """Read labels in any form that ``fit`` takes, as one list for each sequence.

    Parameters
    ----------
    y : labels
        A sequence of labels for each sequence, or for a table or flat input one label for each row.
    batch : SequenceBatch, optional
        The sequences they belong to. Without them, labels must come as a sequence of labels for each sequence.
    name : str, default="y"
        Name used in messages.

    Returns
    -------
    list of lists
        Labels of each sequence; None = unobserved, or one of a set of labels.

    Examples
    --------
    >>> from seqboost import as_batch
    >>> as_labels(["XY", "X"], as_batch(["ab", "c"]))
    [['X', 'Y'], ['X']]
    """
    if batch is None:
        parts = [_label_sequence(part, f"{name}[{i}]", "labels") for i, part in enumerate(_members(y, name))]
        lists = [_tidied_labels(part.tolist() if isinstance(part, np.ndarray) else part) for part in parts]
    else:
        labels = flat_labels(y, batch)
        values = labels.tolist() if isinstance(labels, np.ndarray) else labels
        bounds = batch.offsets.tolist()
        lists = [values[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
    lists = [
        [None if is_missing(label) or isinstance(label, frozenset) else label for label in labels] for labels in lists
    ]
    for i, labels in enumerate(lists):
        try:
            set(labels)
        except (TypeError, ValueError):
            label = labels[first_unhashable(labels)]
            raise InputTypeError(
                f"{name} holds {label!r:.60}, a {type(label).__name__}, among the labels of sequence {i}; a label must "
                "be a string, a number or another hashable value, and None where it is unobserved."
            ) from None
    return lists


def flat_labels(y: Any, batch: SequenceBatch) -> NDArray[Any] | list[Any]:
    """Lay the labels in the order of the batch's rows: a numeric array if y is numeric arrays, else a list."""
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    y = _members(batch.aligned(y), "y")
    origin = batch.origin.origin
    if origin == "list" or (origin == "table" and len(y) and _per_sequence(y, batch)):
        labels = _by_sequence(y, batch)
    else:
        labels = _by_row(y, batch)
    if isinstance(labels, np.ndarray):
        return labels
    return _tidied_labels(labels)


def _tidied_labels(labels: Any) -> list[Any]:
    """Return labels with None for what is unobserved, and Python's scalars for NumPy's.

    NumPy's compare with tuples element by element, so that such labels could be neither sorted nor counted. Sets become
    frozensets, or the label they hold if that is one.
    """
    tidy, types = tidied(labels)
    if any(issubclass(kind, (tuple, np.generic, set, frozenset)) for kind in types):
        return list(map(_one_label, tidy))
    return list(tidy)


def _one_label(label: Any) -> Any:
    if isinstance(label, (set, frozenset)):
        one_of = frozenset(map(_python_label, label))
        return next(iter(one_of)) if len(one_of) == 1 else one_of
    return _python_label(label)


def _python_label(label: Any) -> Any:
    if type(label) is tuple:
        return tuple(map(_python_label, label))
    return label.item() if isinstance(label, (np.bool_, np.integer, np.floating, np.str_)) else label


def _members(y: Any, name: str) -> Any:
    """Turn any container into a list or an array."""
    iterable = hasattr(y, "__array__") or isinstance(y, Iterable) or is_table(y)
    if isinstance(y, (str, bytes, Mapping)) or sp.issparse(y) or not iterable:
        raise InputTypeError(
            f"{name} is a {type(y).__name__}; expected a list with one sequence of labels for each sequence of X."
        )
    if type(y) in (list, tuple):
        return y
    if isinstance(y, (list, tuple)) or (not hasattr(y, "__array__") and not is_table(y)):
        return listed(y, name)
    array = _array(y, name)
    if array.ndim == 0:
        raise InputTypeError(f"{name} is a single value; expected one sequence of labels for each sequence of X.")
    return array


def _array(values: Any, name: str) -> NDArray[Any]:
    """Turn an array, a series or a table of labels into an array; what is masked becomes None."""
    if is_table(values):
        frame = as_frame(values, name)
        if len(frame.columns) == 0:
            raise InputError(f"{name} is a table without columns; expected one column, of labels.")
        if len(frame.columns) != 1:
            return np.asarray(frame.to_numpy())
        return _array(_only_column(frame, name), name)[:, None]
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        _refuse_times(values, name)
        return none_for_masked(values)
    array = series_array(values)
    _refuse_times(array, name)
    return array


def _only_column(frame: Any, name: str) -> Any:
    """Return the one column of a table of labels."""
    try:
        return frame.get_column(frame.columns[0]).to_native()
    except Exception as error:  # a name that the library of the table cannot look up, each in its own way
        raise InputError(
            f"{name} is a table whose column {frame.columns[0]!r} cannot be read ({error!s:.100}); pass an array."
        ) from error


def _refuse_times(labels: NDArray[Any], name: str) -> None:
    """Refuse arrays of times, which would turn into bare ints."""
    if labels.dtype.kind in "mM":
        raise InputTypeError(
            f"{name} holds dates or times (dtype {labels.dtype}); labels must be strings, numbers or other hashable "
            f"values. Convert them to strings, for example {name}.astype(str)."
        )


def _per_sequence(y: Any, batch: SequenceBatch) -> bool:
    """Return whether the labels of a table came as one sequence of labels per sequence."""
    first = y[0]
    columns = isinstance(y, np.ndarray) and y.ndim > 1
    is_container = isinstance(first, CONTAINERS) or _is_series(first)
    if len(y) == batch.n_rows and (columns or not is_container):
        return False
    return is_container or isinstance(first, tuple) or (len(y) == batch.n_sequences and isinstance(first, str))


def _is_series(labels: Any) -> bool:
    """Return whether an object is a series of labels, of whatever library (strings of NumPy look like it)."""
    return hasattr(labels, "__array__") and hasattr(labels, "__len__") and not isinstance(labels, np.generic)


def _by_row(y: Any, batch: SequenceBatch) -> NDArray[Any] | list[Any]:
    """Read labels given in the order of the table's (or flat matrix's) rows."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        y = y[:, 0]
    if isinstance(y, np.ndarray) and y.ndim > 1:
        raise InputError(
            f"y should be a 1d array, got an array of shape {y.shape} instead: a row has one label, but y has "
            f"{y.shape[1]} columns. Pass the one that holds the labels."
        )
    if len(y) != batch.n_rows:
        what = "the table has" if batch.origin.origin == "table" else "X has"
        raise InputError(
            f"y has {len(y)} labels but {what} {batch.n_rows} rows (inconsistent numbers of samples); "
            "expected one label for each row."
        )
    if isinstance(y, (list, tuple)):
        y = [label[0] if isinstance(label, CONTAINERS) and len(label) == 1 else label for label in tidied(y)[0]]
    rank = batch.origin.table_rank if batch.origin.origin == "table" else None
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
        return y if rank is None else y[rank]
    values: list[Any] = y.tolist() if isinstance(y, np.ndarray) else list(y)
    return values if rank is None else list(map(values.__getitem__, rank.tolist()))


def _by_sequence(y: Any, batch: SequenceBatch) -> NDArray[Any] | list[Any]:
    """Read labels given as one sequence of labels for each sequence of X."""
    if len(y) != batch.n_sequences:
        hint = ""
        if len(y) == batch.n_rows:
            hint = " Split it at the ends of the sequences: one list of labels for each sequence."
        raise InputError(f"y has {len(y)} label sequences but X has {batch.n_sequences} sequences.{hint}")
    lengths = batch.lengths.tolist()
    parts = [_part(part, i, length, batch) for i, (part, length) in enumerate(zip(y, lengths, strict=True))]
    rank = batch.origin.sequence_rank if batch.schema.time is not None else None
    if all(isinstance(part, np.ndarray) and part.dtype.kind in "biuf" for part in parts):
        labels = np.concatenate(parts)
        if labels.dtype.kind != "f" or any(part.dtype.kind == "f" for part in parts):
            # else signed and unsigned integers together have become floats
            return labels if rank is None else labels[rank]
    values = list(chain.from_iterable(part.tolist() if isinstance(part, np.ndarray) else part for part in parts))
    return values if rank is None else list(map(values.__getitem__, rank.tolist()))


def _part(part: Any, i: int, length: int, batch: SequenceBatch) -> Any:
    """Return the labels of one sequence as a list, a tuple, a string or a 1-D array, one for each position."""
    part = _label_sequence(part, f"y[{i}]", f"{length} labels for X[{i}]")
    if len(part) != length:
        raise InputError(f"y[{i}] has {len(part)} labels but X[{i}] has {length} positions{_counted(part, i, batch)}.")
    return part


def _label_sequence(part: Any, name: str, expected: str) -> Any:
    """Return the labels of one sequence as a list, a tuple, a string or a 1-D array."""
    if isinstance(part, (set, frozenset, Mapping, bytes, bytearray)) or not (
        isinstance(part, (list, tuple, str)) or hasattr(part, "__len__") or hasattr(part, "__iter__")
    ):
        raise InputTypeError(
            f"{name} is {part!r}, a {type(part).__name__}; expected a sequence of {expected}. "
            "Wrap it as a list, with one label for each position."
        )
    if type(part) not in (list, tuple, str):
        is_array = hasattr(part, "__array__") or is_table(part)
        part = _array(part, name) if is_array and not isinstance(part, (list, tuple, str)) else listed(part, name)
    if isinstance(part, np.ndarray) and part.ndim != 1:
        if part.ndim == 0 or part.shape[1:] != (1,):
            raise InputError(f"{name} has shape {part.shape}; expected a 1-D array of {expected}.")
        part = part[:, 0]
    return part


def _counted(part: Any, i: int, batch: SequenceBatch) -> str:
    """Say how strings were counted, if a number of labels or positions may surprise because of that."""
    if isinstance(part, str):
        return " (a string counts one label per character)"
    if batch.schema.form == "strings":
        return f" (X[{i}] is a string, and each character of it is a position; for words pass a list: X[{i}].split())"
    return ""
