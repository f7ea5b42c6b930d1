"""Prediction time: force a batch into the columns and kinds of training.

The readers infer kinds from the data before them, and the data of prediction may look different: a column all missing,
an indicator never on, a table with its columns in another order. Everything is brought back to the training schema
here, in one place, or refused with the sequence and position at fault.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError
from seqboost.sequences.batch import BatchSchema, ColumnSchema, SequenceBatch
from seqboost.sequences.columns import (
    Column,
    Extra,
    assemble,
    category_column,
    floats,
    is_number_type,
    type_name,
    value_types,
)
from seqboost.sequences.sparse import check_sparse

__all__ = ["columns_of", "conform", "refuse_mixtures"]


def columns_of(batch: SequenceBatch) -> list[Column]:
    """Return the dense columns of a batch."""
    columns = []
    n_numeric = n_categorical = 0
    for column in batch.schema.columns:
        if column.kind == "numeric":
            columns.append(Column(column.name, batch.numeric[:, n_numeric], single=column.single))
            n_numeric += 1
        else:
            values, categories = batch.categorical[:, n_categorical], batch.categories[n_categorical]
            columns.append(Column(column.name, values, categories, forced=column.forced))
            n_categorical += 1
    return columns


def refuse_mixtures(batch: SequenceBatch) -> SequenceBatch:
    """Return a batch of training as it is; refuse numbers beside other values in a column not declared categorical."""
    for column in columns_of(batch):
        if column.categories is None or column.forced:
            continue
        row = _first_row(column, is_number_type)
        if row is not None:
            other = next(value for value in column.categories if not is_number_type(type(value)))
            raise InputError(
                f"Column {column.name!r} mixes numbers and other values: {batch.where(row)} holds the number "
                f"{_value_at(column, row)!r} among values like {other!r}. Make them all numbers or all strings, or "
                "name the column in categorical_features."
            )
    return batch


def _first_row(column: Column, is_of: Callable[[type], bool]) -> int | None:
    """Return the first row whose category is of certain types, or None."""
    assert column.categories is not None
    kinds = {kind: is_of(kind) for kind in set(map(type, column.categories))}
    if not any(kinds.values()):
        return None
    found = np.array([kinds[type(value)] for value in column.categories] + [False])  # code -1 points to the last
    rows = np.flatnonzero(found[column.values])
    return int(rows[0]) if len(rows) else None


def _value_at(column: Column, row: int) -> Any:
    assert column.categories is not None
    return column.categories[column.values[row]]


def _check_clock(given: BatchSchema, schema: BatchSchema, estimator_name: str) -> None:
    """Refuse times of another kind than those of training: gaps of seconds and of numbers do not compare."""
    if None in (given.has_clock, schema.has_clock) or given.has_clock == schema.has_clock:
        return
    kinds = {True: "dates, times or durations, whose gaps are seconds", False: "numbers"}
    came, then = kinds[bool(given.has_clock)], kinds[bool(schema.has_clock)]
    raise InputError(
        f"The time column {given.time!r} holds {came}, but {estimator_name} was trained on {then}. Convert the column, "
        f"with pandas.to_datetime for example, to what it was in training."
    )


def conform(
    batch: SequenceBatch, schema: BatchSchema, estimator_name: str, allow_missing_columns: bool = False
) -> SequenceBatch:
    """Return the batch with exactly the columns and kinds of ``schema``."""
    given = batch.schema
    _check_clock(given, schema, estimator_name)
    target = replace(schema, form=given.form, sequence=given.sequence or schema.sequence)
    if (given.columns, given.sparse_names) == (schema.columns, schema.sparse_names):
        for same, wanted in zip(columns_of(batch), schema.columns, strict=True):
            _check_categories(same, wanted, batch, estimator_name)
        return batch.with_schema(target)
    by_name = _by_name(given, schema, estimator_name)
    if not by_name and given.n_features != schema.n_features:
        raise InputError(
            f"X has {given.n_features} features, but {estimator_name} is expecting {schema.n_features} features as "
            f"input: it was trained with the columns {_shown(schema.names)}."
        )
    dense: dict[Any, Column] = {}
    sparse_place: dict[Any, int] = {}
    for j, column in enumerate(columns_of(batch)):
        dense[column.name if by_name else j] = column
    for j, name in enumerate(given.sparse_names):
        sparse_place[name if by_name else len(given.columns) + j] = j
    keys = schema.sparse_names if by_name else range(len(schema.columns), schema.n_features)
    place = {key: j for j, key in enumerate(keys)}
    if by_name:
        _refuse_numbers_for_lists(batch, schema, dense, sparse_place, estimator_name)
        _refuse_lists_for_values(batch, schema, place, estimator_name)
    columns = []
    for j, wanted in enumerate(schema.columns):
        key = wanted.name if by_name else j
        source = dense.get(key)
        if source is None:
            # {"a": ["b"]} makes an indicator "a=b", which is not the user's key "a=b"
            at = None if by_name and _is_member(wanted.name, given) else sparse_place.get(key)
            source = _from_sparse(batch, at, absent=np.nan if by_name else 0.0)
        columns.append(_cast(source, wanted, batch, estimator_name))
    extra = Extra(sequence=target.sequence)
    if schema.sparse_names:
        sparse = _sparse_part(batch, place, dense, sparse_place, schema, estimator_name)
        single = given.single or any(column.single for column in given.columns)
        extra = Extra(sparse, schema.sparse_names, target.sequence, single=single)
    if by_name:
        if not allow_missing_columns:
            _refuse_missing_columns(given, schema, estimator_name)
        _warn_if_nothing_is_known(given, schema, estimator_name)
    return assemble(columns, batch.origin, target.form, extra).with_schema(target)


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")


def _by_name(given: BatchSchema, schema: BatchSchema, estimator_name: str) -> bool:
    """Decide whether columns are matched by name or by position."""
    if given.named and schema.named:
        return True
    if "dicts" in (given.form, schema.form) and given.named != schema.named:
        was = "named features (dicts)" if schema.named else "columns without names (arrays)"
        raise InputTypeError(
            f"{estimator_name} was trained with {was}: {_shown(schema.names)}; X has {_shown(given.names)}. "
            "Pass X in the form used in training."
        )
    if schema.named and not given.named:
        warnings.warn(
            f"X does not have valid feature names, but {estimator_name} was fitted with feature names; "
            "columns are matched by position",
            UserWarning,
            stacklevel=4,
        )
    elif given.named:
        warnings.warn(
            f"X has feature names, but {estimator_name} was fitted without feature names; "
            "columns are matched by position",
            UserWarning,
            stacklevel=4,
        )
    return False


def _refuse_missing_columns(given: BatchSchema, schema: BatchSchema, estimator_name: str) -> None:
    """Refuse data without a column of training: a name is misspelt, or the data are not those of the model."""
    present = {*given.names, *given.lists}
    present -= {column.name for column in schema.columns if _is_member(column.name, given)}  # they fill no dense column
    lacking = tuple(name for name in schema.required if name not in present)
    if lacking:
        every = ", as a key of every position" if schema.form == "dicts" else ""
        raise InputError(
            f"X lacks the column(s) {_shown(lacking)} that {estimator_name} was trained with{every}; it has "
            f"{_shown((*given.names, *given.lists)) or 'none'}. The feature names should match those that were passed "
            "during fit. Add the column(s), with None for values that are not known, or pass "
            "allow_missing_columns=True (--allow-missing-columns) to have all their values taken as missing."
        )


def _is_member(name: str, given: BatchSchema) -> bool:
    """Return whether a name is that of a member of a list, ``"key=member"``."""
    return any(name.startswith(f"{key}=") for key in given.lists) and name in given.sparse_names


def _warn_if_nothing_is_known(given: BatchSchema, schema: BatchSchema, estimator_name: str) -> None:
    """Warn if X has names and training had none of them; of some it is to be expected, as words are rare."""
    names = (*given.names, *given.lists)
    members = {column.name for column in schema.columns if _is_member(column.name, given)}  # they fill no dense column
    if not names or not set(names).difference(members).isdisjoint(schema.names):
        return
    keys = tuple(f"{name}=" for name in names)  # of lists: training may have had other members of them
    if any(known.startswith(keys) for known in schema.sparse_names):
        return
    warnings.warn(
        f"{estimator_name} knows none of the names in X, {_shown(names)}, so every position looks as if it had no "
        f"features: it was trained with {_shown(schema.names)}. Rename the features to those of training.",
        UserWarning,
        stacklevel=4,
    )


def _refuse_numbers_for_lists(
    batch: SequenceBatch,
    schema: BatchSchema,
    dense: dict[Any, Column],
    sparse_place: dict[Any, int],
    estimator_name: str,
) -> None:
    """Refuse numbers where training had lists of strings: they would be dropped."""
    for key in schema.lists:
        source = dense.get(key) or _from_sparse(batch, sparse_place.get(key), absent=np.nan)
        if source.categories is None:
            present = ~np.isnan(source.values)
            row = int(np.argmax(present)) if present.any() else None
        else:
            row = _first_row(source, is_number_type)
        if row is not None:
            raise InputError(
                f"The key {key!r} held lists or sets of strings when {estimator_name} was trained, but "
                f"{batch.where(row)} holds a number. Pass a list of strings, or one string."
            )


def _refuse_lists_for_values(
    batch: SequenceBatch, schema: BatchSchema, place: dict[Any, int], estimator_name: str
) -> None:
    """Refuse lists and sets where training had one value for each position."""
    for name in batch.schema.lists:
        if name in place or any(name == column.name for column in schema.columns):
            raise _list_for_value(batch, name, name in place, estimator_name)


def _list_for_value(batch: SequenceBatch, name: str, is_indicator: bool, estimator_name: str) -> InputError:
    """Return the error for lists (read as indicators ``"key=member"``) where training had one value for a position."""
    found, instead = "all of them empty", "the value itself, or None if it is missing"
    places = [j for j, given in enumerate(batch.schema.sparse_names) if given.startswith(f"{name}=")]
    if batch.sparse is not None and places:
        entries = batch.sparse[:, places].tocoo()
        first = int(np.argmin(entries.coords[0]))
        member = batch.schema.sparse_names[places[int(entries.coords[1][first])]][len(name) + 1 :]
        found = f"{batch.where(int(entries.coords[0][first]))} holds the member {member!r}"
        instead = "True or a number" if is_indicator else f"the value itself, for example {{{name!r}: {member!r}}}"
    return InputError(
        f"Column {name!r} held a single value at each position when {estimator_name} was trained, but X has lists or "
        f"sets there: {found}. Pass {instead}, or train with lists."
    )


def _from_sparse(batch: SequenceBatch, place: int | None, absent: float) -> Column:
    """Make a dense numeric column from a sparse one (or from none)."""
    values = np.full(batch.n_rows, np.nan if place is None else absent)
    if place is not None and batch.sparse is not None:
        column = batch.sparse[:, [place]].tocoo()
        values[column.coords[0]] = column.data
    return Column("", values)


def _cast(source: Column, wanted: ColumnSchema, batch: SequenceBatch, estimator_name: str) -> Column:
    """Give a column the kind it had in training."""
    if wanted.kind == "numeric":
        if source.categories is None:
            return Column(wanted.name, source.values, single=source.single)
        return Column(wanted.name, _numbers(source, wanted.name, batch, estimator_name))
    if source.categories is not None:
        _check_categories(source, wanted, batch, estimator_name)
        return Column(wanted.name, source.values, source.categories, wanted.forced)
    if wanted.forced:
        column = category_column(Column(wanted.name, source.values, single=source.single), batch.origin)
        _check_categories(column, wanted, batch, estimator_name)
        return column
    present = ~np.isnan(source.values)
    if present.any():
        row = int(np.argmax(present))
        raise _number_for_category(wanted.name, source.values[row].item(), batch.where(row), estimator_name)
    return Column(wanted.name, np.full(batch.n_rows, -1, dtype=np.int32), np.empty(0, dtype=object))


def _check_categories(source: Column, wanted: ColumnSchema, batch: SequenceBatch, estimator_name: str) -> None:
    """Refuse categories of types that training never had: they would be unknown, every one of them."""
    if source.categories is None:
        return
    row = None if wanted.forced else _first_row(source, is_number_type)
    if row is not None:
        raise _number_for_category(wanted.name, _value_at(source, row), batch.where(row), estimator_name)
    if not wanted.holds or set(value_types(source.categories)) <= set(wanted.holds):
        return  # most often; nothing below looks at the rows then
    found = value_types(source.categories[np.unique(source.values[source.values >= 0])])
    strange = [kind for kind in found if kind not in wanted.holds]
    if not strange:
        return
    row = _first_row(source, lambda kind: type_name(kind) in strange)
    assert row is not None
    raise InputError(
        f"Column {wanted.name!r} held {wanted.holds[0]}s as categories when {estimator_name} was trained, but now "
        f"{'all' if len(strange) == len(found) else 'some of'} its values are {strange[0]}s: {batch.where(row)} holds "
        f"{_value_at(source, row)!r}. Pass {wanted.holds[0]}s{' (decode them)' if 'byte string' in strange else ''}."
    )


def _number_for_category(name: str, value: Any, where: str, estimator_name: str) -> InputError:
    return InputError(
        f"Column {name!r} was categorical (strings) when {estimator_name} was trained, but {where} holds the number "
        f"{value!r}. Pass strings, or name the column in categorical_features when training."
    )


def _numbers(
    source: Column, name: str, batch: SequenceBatch, estimator_name: str, *, sparse: bool = False
) -> NDArray[np.float64]:
    """Return the categories of a column as numbers; whatever is no number, "3" included, is refused."""
    assert source.categories is not None
    row = _first_row(source, lambda kind: not is_number_type(kind))
    if row is not None:
        value = _value_at(source, row)
        kind, instead = "numeric", "a number, or NaN or None for missing"
        if sparse:
            kind, instead = "an indicator or a rare number", "True or a number, or leave it out where it is off"
        raise InputError(
            f"Column {name!r} was {kind} when {estimator_name} was trained, but {batch.where(row)} holds {value!r}, a "
            f"{type(value).__name__}. Pass {instead}."
        )

    def place(i: int) -> tuple[str, str]:
        return name, batch.where(int(np.argmax(source.values == i)))

    return floats([*source.categories, np.nan], place)[source.values]  # code -1 points to the last


def _sparse_part(
    batch: SequenceBatch,
    place: dict[Any, int],
    dense: dict[Any, Column],
    sparse_place: dict[Any, int],
    schema: BatchSchema,
    estimator_name: str,
) -> sp.csr_array:
    """Collect the sparse columns of training from sparse and dense columns of the batch."""
    rows: list[NDArray[Any]] = [np.empty(0, dtype=np.int64)]
    columns: list[NDArray[Any]] = [np.empty(0, dtype=np.int64)]
    data: list[NDArray[Any]] = [np.empty(0)]

    def add(at: NDArray[Any], where: Any, values: Any) -> None:
        rows.append(at)
        columns.append(np.broadcast_to(np.asarray(where, dtype=np.int64), at.shape))
        data.append(np.broadcast_to(np.asarray(values, dtype=np.float64), at.shape))

    if batch.sparse is not None:
        target = np.full(batch.sparse.shape[1], -1, dtype=np.int64)
        for key, j in sparse_place.items():
            target[j] = place.get(key, -1)
        entries = batch.sparse.tocoo()
        where = target[entries.coords[1]]
        known = where >= 0
        add(entries.coords[0][known], where[known], entries.data[known])
    absent_if_missing = batch.schema.form == "dicts"  # in a batch read without this schema: None and no key are one
    for key, column in dense.items():
        if key in place:
            values = column.values
            if column.categories is not None:
                values = _numbers(column, schema.sparse_names[place[key]], batch, estimator_name, sparse=True)
            there = ~np.isnan(values) if absent_if_missing else np.ones(len(values), dtype=bool)
            if not isinstance(key, str):  # found by position, as in matrices, where 0 is the same as absent
                there &= values != 0
            add(np.flatnonzero(there), place[key], values[there])
        elif column.categories is not None:  # a key that held lists of strings in training holds single strings now
            target = np.array([place.get(f"{key}={value}", -1) for value in column.categories] + [-1], dtype=np.int64)
            at = np.flatnonzero(target[column.values] >= 0)
            add(at, target[column.values[at]], 1.0)
    shape = (batch.n_rows, len(place))
    entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
    return check_sparse(sp.csr_array(entries, shape=shape), schema.sparse_names, batch.origin)
