"""Batches -> rows of text, for all writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from seqboost.core.exceptions import DataFileError
from seqboost.files.reading import SequenceData

__all__ = ["label_text", "number_text", "refuse_sparse", "sequence_rows", "sequence_values"]


def number_text(value: float) -> str:
    """Write a number as shortly as reading gives it back; missing ones are empty."""
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def label_text(label: Any) -> str:
    """Write a label; unobserved ones are empty."""
    return "" if label is None else str(label)


def refuse_sparse(data: SequenceData, what: str) -> None:
    """Refuse to write indicators where every position has the same columns."""
    if data.batch.schema.sparse_names:
        raise DataFileError(
            f"{what} have the same columns at every position and cannot hold sparse features; "
            "write .jsonl or .crfsuite instead"
        )


def sequence_values(data: SequenceData) -> Iterator[tuple[list[dict[str, Any]], list[Any]]]:
    """Give each sequence as dicts of what is present (strings, numbers), and its labels (None = unobserved).

    A missing value is left out, but not that of a sparse column, where it would then be off: it is None.
    """
    batch = data.batch
    labels = [None] * batch.n_rows if data.label_codes is None else data.labels
    rows_of_file = batch.origin.user_rows
    if rows_of_file is not None:
        labels = [labels[row] for row in rows_of_file.tolist()]
    for start, stop in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
        rows: list[dict[str, Any]] = [{} for _ in range(stop - start)]
        n_numeric = n_categorical = 0
        for column in batch.schema.columns:
            if column.kind == "numeric":
                for row, value in zip(rows, batch.numeric[start:stop, n_numeric].tolist(), strict=True):
                    if value == value:
                        row[column.name] = int(value) if value.is_integer() and abs(value) < 1e15 else value
                n_numeric += 1
            else:
                categories = batch.categories[n_categorical]
                for row, code in zip(rows, batch.categorical[start:stop, n_categorical].tolist(), strict=True):
                    if code >= 0:
                        row[column.name] = categories[code]
                n_categorical += 1
        if batch.sparse is not None:
            part = batch.sparse[np.arange(start, stop)].tocoo()
            for row, j, value in zip(*(c.tolist() for c in part.coords), part.data.tolist(), strict=True):
                rows[row][batch.schema.sparse_names[j]] = True if value == 1 else None if value != value else value
        yield rows, labels[start:stop]


def sequence_rows(data: SequenceData) -> Iterator[tuple[list[dict[str, str]], list[Any]]]:
    """Give each sequence as dicts of text, "" where a value is missing, and its labels."""
    names = [column.name for column in data.batch.schema.columns]
    for rows, labels in sequence_values(data):
        yield [{name: _text(row.get(name)) for name in names} for row in rows], labels


def _text(value: Any) -> str:
    if value is None:
        return ""
    return number_text(float(value)) if isinstance(value, (int, float)) else str(value)
