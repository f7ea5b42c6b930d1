"""The one door: any object a user may call "sequences" -> SequenceBatch.

Looked at in this order: a batch; a table; a sparse matrix; an array; any iterable of sequences. What a sequence is
follows from its type (2-D array, sparse matrix, table, string) or from the types of its elements (dicts, sets, rows,
scalars).
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.sequences.arrays import (
    as_its_base,
    check_dtype,
    read_arrays,
    read_matrix,
    read_rows,
    rows_to_matrices,
    unmask,
)
from seqboost.sequences.batch import BatchSchema, Layout, SequenceBatch, empty_sequence
from seqboost.sequences.columns import (
    Extra,
    TrainedCategories,
    assemble,
    category_column,
    is_number_type,
    listed,
    resolve_categorical,
    tidied,
)
from seqboost.sequences.conform import columns_of, conform, refuse_mixtures
from seqboost.sequences.ordering import Roles
from seqboost.sequences.records import are_bags, read_dicts, read_tags, without_columns
from seqboost.sequences.sparse import read_sparse
from seqboost.sequences.symbols import read_numbers, read_scalars, read_strings
from seqboost.sequences.tables import holds_numbered_categories, is_table, read_table, read_table_list

__all__ = ["as_batch"]

EXPECTED = (
    "Expected a list of sequences (2-D arrays, sparse matrices, lists of dicts, lists of scalars, or strings), "
    "or one table with its sequence column named"
)


def as_batch(
    X: Any,
    *,
    sequence: Any = None,
    time: Any = None,
    label: str | None = None,
    categorical_features: Any = None,
    schema: BatchSchema | None = None,
    estimator_name: str = "TreeCRF",
    allow_missing_columns: bool = False,
) -> SequenceBatch:
    """Turn the user's object into a :class:`SequenceBatch`.

    Parameters
    ----------
    X : object
        * a list (or iterator, object array, 3-D array) of sequences: 2-D arrays with a row per position; sparse
          matrices; tables; lists of dicts; lists of sets or of lists of strings (*bags of attributes*, as CRFsuite has
          them: the order in them means nothing); lists of tuples, or of lists with other values than strings (rows:
          a column for each place); lists of scalars; strings (each character a position);
        * one table (pandas, polars, pyarrow, ...) with its ``sequence`` column named;
        * one 2-D array, sparse matrix or table without ``sequence`` and ``time``: *flat*, each row a sequence of one
          position;
        * a :class:`SequenceBatch`.
    sequence : str or list of str, default=None
        Column of the table that tells the sequences apart, or several: rows that agree in all of them are a sequence.
    time : str, default=None
        Column of the table (or of each table in a list) that orders the positions of a sequence: dates and times, or
        numbers. It is no feature, but the gap to the position before is one.
    label : str, default=None
        Column of the table that holds the labels, and so is no feature.
    categorical_features : list of names or indices, or mask, default=None
        Columns of numbers to be taken as categories. Strings are always categories.
    schema : BatchSchema, default=None
        Columns and kinds to be forced (those of training).
    estimator_name : str, default="TreeCRF"
        Name used in messages.
    allow_missing_columns : bool, default=False
        Whether X may lack columns of ``schema``; their values are missing then.

    Returns
    -------
    SequenceBatch
        The sequences.

    Examples
    --------
    >>> as_batch([[{"word": "the", "length": 3}, {"word": "cat", "length": 3}], [{"word": "go", "length": 2}]])
    SequenceBatch(2 sequences, 3 positions, 1 numeric, 1 categorical, 0 sparse)
    """
    if isinstance(X, SequenceBatch):
        _check_times(X, time)
        batch = X if schema is not None else _force(X, categorical_features)
        return batch if schema is None else conform(batch, schema, estimator_name, allow_missing_columns)
    roles = Roles(sequence, time, label)
    if schema is not None:
        categorical_features = TrainedCategories(column.name for column in schema.columns if column.forced)
        roles = roles.completed(schema)
    if is_table(X):
        batch = read_table(X, roles, categorical_features, schema)
        if batch.origin.origin == "flat":
            _warn_flat(schema, "Name the column that tells the sequences apart: sequence='...'")
    else:
        if sequence is not None and schema is None:
            raise InputTypeError(
                f"sequence={sequence!r} names a column of a table, but X is a {type(X).__name__}. "
                "Leave sequence out, or pass a table (pandas, polars, pyarrow)."
            )
        batch = _read(X, roles, categorical_features, schema, estimator_name)
    if schema is None:
        _check_times(batch, time)
        return refuse_mixtures(batch)
    return conform(batch, schema, estimator_name, allow_missing_columns)


def _check_times(batch: SequenceBatch, time: Any) -> None:
    """Refuse data that have not been ordered by the time column: no tables, or a batch that was read without it."""
    if time is not None and batch.schema.time != str(time):
        raise InputTypeError(
            f"time={time!r} names a column of a table, but X is no table, nor a list of tables, nor a batch that was "
            f"read with as_batch(table, time={time!r}). Leave time out, or pass a table (pandas, polars, pyarrow)."
        )


def _force(batch: SequenceBatch, categorical_features: Any) -> SequenceBatch:
    """Turn numeric columns of a ready batch into categories."""
    chosen = resolve_categorical(categorical_features, [column.name for column in batch.schema.columns])
    if all(batch.schema.columns[j].kind == "categorical" for j in chosen):
        return batch
    columns = [
        category_column(column, batch.origin) if j in chosen and column.categories is None else column
        for j, column in enumerate(columns_of(batch))
    ]
    schema = batch.schema
    extra = Extra(
        batch.sparse, schema.sparse_names, schema.sequence, schema.lists, schema.has_names, schema.everywhere,
        time=schema.time, label=schema.label,
    )  # fmt: skip
    return assemble(columns, batch.origin, schema.form, extra)


def _warn_flat(schema: BatchSchema | None, how: str) -> None:
    """Warn that a matrix is taken as one-position sequences, unless training already did."""
    if schema is None or schema.form != "flat":
        warnings.warn(
            "X is one 2-D table of rows: each row is taken as a sequence of one position, so labels do not influence "
            f"each other. {how}.",
            UserWarning,
            stacklevel=5,
        )


def _read(
    X: Any, roles: Roles, categorical_features: Any, schema: BatchSchema | None, estimator_name: str
) -> SequenceBatch:
    """Read anything but a table or a batch."""
    if not sp.issparse(X):  # some sparse matrices are mappings as well
        _refuse(X)
    else:
        _refuse_no_rows(X.shape)
        batch = read_sparse([X], "flat", categorical_features)
        _warn_flat(schema, "If X is one sequence, pass [X]")
        return batch
    if not isinstance(X, (list, tuple)) and (isinstance(X, np.ndarray) or hasattr(X, "__array__")):
        array = unmask(X, "X")
        check_dtype(array, "X")
        if array.ndim == 2 and not _holds_containers(array):
            _refuse_no_rows(array.shape)
            layout = Layout.from_lengths(np.ones(len(array), dtype=np.int64), "flat")
            batch = read_matrix(array, layout, "flat", categorical_features)
            _warn_flat(schema, "If X is one sequence, pass [X]")
            return batch
        if array.ndim == 0:
            raise InputTypeError(f"X is a single value. {EXPECTED}.")
        if array.ndim > 3:
            raise InputError(f"X has {array.ndim} dimensions; expected at most 3 (sequences, positions, features).")
        if array.ndim == 1 and array.dtype.kind in "biuf":
            raise _one_dimensional(f"array={array}")
        X = list(array)
    elif not isinstance(X, Iterable):
        raise InputTypeError(f"X is a {type(X).__name__}. {EXPECTED}.")
    return _read_list(listed(X, "X"), roles, categorical_features, schema, estimator_name)


def _refuse(X: Any) -> None:
    """Refuse objects that are not a list of sequences, saying how to wrap them."""
    if isinstance(X, (str, bytes)):
        raise InputTypeError(f"X is a single string. {EXPECTED}. For one sequence of characters pass [X].")
    if isinstance(X, Mapping):
        raise InputTypeError(
            f"X is a {type(X).__name__}. {EXPECTED}. For one sequence of one position pass [[X]]; "
            "for columns make a table."
        )
    if isinstance(X, (set, frozenset)):
        raise InputTypeError(f"X is a {type(X).__name__}, which has no order. {EXPECTED}.")
    if X is None or (np.isscalar(X) and not isinstance(X, str)):
        raise InputTypeError(f"X is {X!r}, a {type(X).__name__}. {EXPECTED}.")


def _refuse_no_rows(shape: tuple[int, ...]) -> None:
    if shape[0] == 0:
        raise InputError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")


def _one_dimensional(what: str) -> InputError:
    return InputError(
        f"Expected a list of sequences or a 2D array, got 1D numbers instead ({what:.60}). Reshape your data: "
        "pass [X] if X is one sequence of numbers, X.reshape(-1, 1) if each number is a sequence of its own, "
        "or X.reshape(1, -1) if X is a single position."
    )


def _holds_containers(array: NDArray[Any]) -> bool:
    """Return whether a 2-D object array holds dicts, sets or lists: then its rows are sequences of them."""
    if array.dtype.kind != "O" or array.size == 0:
        return False
    containers = (Mapping, set, frozenset, list, tuple, np.ndarray)
    return all(issubclass(kind, containers) for kind in set(map(type, array.flat)))


def _read_list(
    sequences: list[Any], roles: Roles, categorical_features: Any, schema: BatchSchema | None, estimator_name: str
) -> SequenceBatch:
    """Read a list of sequences by the kind of its members."""
    if schema is None and any(map(holds_numbered_categories, sequences)):
        categorical_features = ["x0"]
    sequences, kinds = _normalise(sequences)
    found = set(kinds)
    if found == {"matrix", "elements"}:
        sequences, kinds = rows_to_matrices(sequences, kinds)
        found = set(kinds)
    if not found:
        Layout.from_lengths([])
    if len(found) > 1:
        i = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
        raise InputTypeError(
            f"X mixes kinds of sequences: X[0] is {KINDS[kinds[0]]} but X[{i}] is {KINDS[kinds[i]]}. "
            "All sequences must have the same form."
        )
    kind = kinds[0]
    if kind == "matrix":
        return read_arrays(sequences, categorical_features)
    if kind == "sparse":
        return read_sparse(sequences, "sparse", categorical_features)
    if kind == "table":
        return read_table_list(sequences, roles._replace(sequence=None), categorical_features, schema)
    if kind == "string":
        return read_strings(sequences, categorical_features)
    if kind == "scalar":
        raise _one_dimensional(f"X[0]={sequences[0]!r}")
    if all(isinstance(sequence, np.ndarray) and sequence.dtype.kind in "biuf" for sequence in sequences):
        return read_numbers(sequences, categorical_features)
    return _read_elements(sequences, categorical_features, schema, estimator_name)


KINDS = {
    "matrix": "a 2-D array",
    "sparse": "a sparse matrix",
    "table": "a table",
    "string": "a string",
    "scalar": "a single value",
    "elements": "a list of elements",
}


def _normalise(sequences: list[Any]) -> tuple[list[Any], list[str]]:
    """Name the kind of each sequence; arrays are unwrapped, other iterables become lists."""
    kinds: list[str] = []
    normal: list[Any] = []
    for i, item in enumerate(sequences):
        kind = "elements"
        if type(item) is np.ndarray and item.ndim == 2:
            kind = "matrix"
        elif isinstance(item, (list, tuple)):
            item = as_its_base(item)
        elif isinstance(item, str):
            kind = "string"
        elif isinstance(item, (bytes, bytearray)):
            raise InputTypeError(
                f"X[{i}] is {item[:40]!r}, a {type(item).__name__}, which is not read as a sequence. Pass "
                f"X[{i}].decode() for a sequence of characters, or list(X[{i}]) for one of numbers."
            )
        elif sp.issparse(item):
            kind = "sparse"
        elif is_table(item):
            kind = "table"
        elif item is None or isinstance(item, numbers.Number) or np.isscalar(item):
            kind = "scalar"
        elif isinstance(item, np.ndarray) or hasattr(item, "__array__"):
            item = unmask(item, f"X[{i}]")
            kind = {0: "scalar", 1: "elements", 2: "matrix"}.get(item.ndim, "")
            if not kind:
                raise InputError(f"X[{i}] has {item.ndim} dimensions; expected 2 (positions, features).")
            if kind == "elements":
                check_dtype(item, f"X[{i}]")
        elif isinstance(item, (Mapping, set, frozenset)):
            raise InputTypeError(
                f"X[{i}] is a {type(item).__name__}, not a sequence. A sequence is a list of positions: "
                f"pass [X] if X is one sequence, or [[...]] around a single position."
            )
        elif isinstance(item, SequenceBatch) or not isinstance(item, Iterable):
            raise InputTypeError(f"X[{i}] is a {type(item).__name__}, which is not understood. {EXPECTED}.")
        else:
            item = listed(item, f"X[{i}]")
        if kind == "elements" and len(item) == 0:
            raise empty_sequence(i)
        kinds.append(kind)
        normal.append(item)
    return normal, kinds


def _read_elements(
    sequences: list[Any], categorical_features: Any, schema: BatchSchema | None, estimator_name: str
) -> SequenceBatch:
    """Read sequences given as lists of elements, by the kind of the elements."""
    layout = Layout.from_lengths([len(sequence) for sequence in sequences])
    elements, types = tidied(
        list(chain.from_iterable(s.tolist() if isinstance(s, np.ndarray) else s for s in sequences))
    )
    if any(issubclass(kind, (list, tuple)) for kind in types - {list, tuple}):
        elements = [as_its_base(element) for element in elements]
        types = set(map(type, elements))
    forms = {kind: _element_form(kind) for kind in types}
    found = set(forms.values()) - {"none"}
    if schema is not None and schema.form == "dicts" and _is_featureless(elements, found):
        return without_columns(layout)
    if found == {"dict"}:
        return read_dicts(elements, layout, categorical_features, schema)
    if found and found <= {"set", "list"} and (type(None) not in types or (schema and schema.form == "dicts")):
        bags = [() if element is None else element for element in elements]
        if are_bags(bags, "set" in found, layout, schema, estimator_name):
            return read_tags(bags, layout, categorical_features)
    if found <= {"row", "list"} and found and type(None) not in types:
        return read_rows(elements, layout, categorical_features)
    if found <= {"scalar"}:
        return read_scalars(elements, layout, categorical_features)
    raise _strange_element(elements, [forms[type(element)] for element in elements], layout)


def _strange_element(elements: list[Any], forms: list[str], layout: Layout) -> InputTypeError:
    """Return the error for elements that are of no form of input, naming the first at fault."""
    found = set(forms) - {"none"}
    if "other" in found:
        row, why = forms.index("other"), "which is not understood"
    elif not (found <= {"set", "list"} or found <= {"row", "list"}):
        first = next(row for row, form in enumerate(forms) if form != "none")
        row = next(row for row, form in enumerate(forms) if form not in (forms[first], "none"))
        why = f"and {layout.where(first)} a {type(elements[first]).__name__}"
    else:
        bags = elements if "set" in found else []
        strange = ((row, m) for row, bag in enumerate(bags) for m in bag or () if not isinstance(m, str))
        row, member = next(strange, (-1, None))
        why = f"with {member!r} in it, which is no string"
        if row < 0:
            row, why = forms.index("none"), "which is no row; write a row of None (or an empty set) if it is missing"
    return InputTypeError(
        "The elements of a sequence must all be of one kind (dicts, sets of strings, rows or scalars), but "
        f"{layout.where(row)} holds a {type(elements[row]).__name__}, {why}. In a row each argument must be a "
        "string or a number."
    )


def _is_featureless(elements: list[Any], found: set[str]) -> bool:
    """Return whether all positions are empty dicts or bags."""
    return found <= {"dict", "set", "list"} and all(element is None or len(element) == 0 for element in elements)


def _element_form(kind: type) -> str:
    """Name what an element of a type is."""
    if kind is type(None):
        return "none"
    if issubclass(kind, Mapping):
        return "dict"
    if issubclass(kind, (set, frozenset)):
        return "set"
    if issubclass(kind, list):
        return "list"
    if issubclass(kind, (tuple, np.ndarray)):
        return "row"
    if is_number_type(kind) or kind.__hash__ is not None:
        return "scalar"
    return "other"
