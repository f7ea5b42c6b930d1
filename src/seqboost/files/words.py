"""Columns that describe words: small letters, shape, beginnings and ends.

They are made from the distinct words of a column, not from its rows, so that a million positions cost no more than the
vocabulary. Neighbouring words are the business of ``window``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import numpy as np

from seqboost.core.exceptions import DataFileError
from seqboost.files.reading import SequenceData
from seqboost.sequences.columns import Column, Extra, assemble, renumber
from seqboost.sequences.conform import columns_of

__all__ = ["WORD_WINDOW", "add_word_features", "word_shape"]


def word_shape(word: str) -> str:
    """Return the kinds of a word's characters, runs as one: ``"McDonald's"`` is ``"XxXx'x"``.

    Examples
    --------
    >>> word_shape("McDonald's"), word_shape("1,024"), word_shape("IOB2")
    ("XxXx'x", '9,9', 'X9')
    """
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in word)
    return "".join(kind for kind, _ in groupby(kinds))


FEATURES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "shape": word_shape,
    "prefix2": lambda word: word[:2].lower(),
    "prefix3": lambda word: word[:3].lower(),
    "prefix4": lambda word: word[:4].lower(),
    "suffix2": lambda word: word[-2:].lower(),
    "suffix3": lambda word: word[-3:].lower(),
    "suffix4": lambda word: word[-4:].lower(),
    "digits": lambda word: "all" if word.isdigit() else "some" if any(map(str.isdigit, word)) else "none",
}
NEIGHBOURS = {"lower": 2, "shape": 2, "suffix3": 2}
WORD_WINDOW = 1  # of all other columns


def add_word_features(data: SequenceData, column: str | None = None) -> SequenceData:
    """Return the data with columns that describe the words of a column.

    Parameters
    ----------
    data : SequenceData
        As read from a file.
    column : str, optional
        The column of words; the first categorical one unless given.

    Returns
    -------
    SequenceData
        With the columns ``lower``, ``shape``, ``prefix2`` to ``prefix4``, ``suffix2`` to ``suffix4`` and ``digits``.
    """
    columns = columns_of(data.batch)
    words = next((c for c in columns if c.categories is not None and column in (None, c.name)), None)
    if words is None or words.categories is None:
        found = ", ".join(c.name for c in columns) or "none"
        raise DataFileError(f"word features need a column of words ({column or 'any'}); the columns are {found}")
    names = {c.name for c in columns}
    distinct = [str(word) for word in words.categories]
    for name, describe in FEATURES.items():
        described = list(map(describe, distinct))
        keys = list(dict.fromkeys(described))
        place = {key: k for k, key in enumerate(keys)}
        lookup = np.array([*(place[key] for key in described), -1], dtype=np.int32)  # code −1: missing
        codes = lookup[words.values]
        sorted_codes, categories = renumber(np.where(codes < 0, 0, codes), keys) if keys else (codes, words.categories)
        free = name if name not in names else f"{words.name}_{name}"
        columns.append(Column(free, np.where(codes < 0, -1, sorted_codes).astype(np.int32), categories))
    schema = data.batch.schema
    extra = Extra(
        data.batch.sparse,
        schema.sparse_names,
        schema.sequence,
        schema.lists,
        time=schema.time,
        has_clock=schema.has_clock,
    )
    batch = assemble(columns, data.batch.origin, "table", extra)
    return replace(data, batch=batch, reading=replace(data.reading, features="words"))


def word_window(data: SequenceData) -> dict[str, int]:
    """Return a window for columns of words: two neighbours of what tells most, one of all else."""
    names = {column.name for column in data.batch.schema.columns}
    return {"*": WORD_WINDOW, **{name: reach for name, reach in NEIGHBOURS.items() if name in names}}
