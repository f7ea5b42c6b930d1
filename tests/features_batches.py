"""Small batches for the tests of the features room, made without the door `as_batch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from seqboost.sequences.batch import BatchSchema, ColumnSchema, Layout, SequenceBatch

MISSING = None


def make_batch(
    lengths: Sequence[int],
    *,
    numeric: Any = None,
    categorical: Sequence[Sequence[Any]] = (),
    sparse: Any = None,
    order: str | None = None,
    sparse_names: Sequence[str] | None = None,
) -> SequenceBatch:
    """Make a batch from a matrix of numbers, columns of categories (None = missing) and a sparse matrix.

    `order` gives the user's order of columns, such as "nccn"; the default is numbers first.
    """
    layout = Layout.from_lengths(lengths)
    n_rows = layout.n_rows
    numbers = np.empty((n_rows, 0)) if numeric is None else np.ascontiguousarray(numeric)
    codes = np.full((n_rows, len(categorical)), -1, dtype=np.int32)
    tables = []
    for j, column in enumerate(categorical):
        distinct = list(dict.fromkeys(value for value in column if value is not MISSING))
        place = {value: i for i, value in enumerate(distinct)}
        codes[:, j] = [place.get(value, -1) for value in column]
        table = np.empty(len(distinct), dtype=object)
        table[:] = distinct
        tables.append(table)
    order = order or "n" * numbers.shape[1] + "c" * len(categorical)
    columns = tuple(ColumnSchema(f"x{i}", "numeric" if kind == "n" else "categorical") for i, kind in enumerate(order))
    matrix = None if sparse is None else sp.csr_array(sparse)
    if sparse_names is None:
        sparse_names = () if matrix is None else [f"s{j}" for j in range(matrix.shape[1])]
    schema = BatchSchema(columns, tuple(sparse_names), "dicts")
    return SequenceBatch(layout.offsets, numbers, codes, tuple(tables), matrix, schema, layout)


def random_batch(rng: np.random.Generator, lengths: Sequence[int], *, dtype: Any = np.float64, **change: Any) -> Any:
    """Make a batch with every kind of column: many, few, constant, missing, wide, indicators, sparse numbers.

    `change`: ``extra_categories`` adds categories to each column, ``n_words`` sets the size of the wide one.
    """
    n = sum(lengths)
    extra, n_words = change.get("extra_categories", ()), change.get("n_words", 400)
    numeric = np.column_stack(
        [
            rng.normal(size=n),
            rng.integers(0, 4, size=n),
            np.full(n, 3.0),
            np.full(n, np.nan),
            np.where(rng.random(n) < 0.3, np.nan, rng.exponential(size=n)),
        ]
    ).astype(dtype)
    letters = [*"abcde", None, *extra]
    words = [f"w{i}" for i in range(n_words)] + [*extra]
    categorical = [
        [letters[i] for i in rng.integers(0, len(letters), size=n)],
        [None] * n,
        [words[i] if rng.random() > 0.1 else None for i in rng.integers(0, len(words), size=n)],
        [int(i) for i in rng.integers(-3, 3, size=n)],
    ]
    sparse = np.zeros((n, 6))
    sparse[:, 0] = rng.random(n) < 0.3
    sparse[:, 1] = 2.5 * (rng.random(n) < 0.3)
    sparse[:, 2] = np.where(rng.random(n) < 0.5, rng.normal(size=n), 0)
    sparse[:, 3] = np.where(rng.random(n) < 0.5, rng.choice([-1, 1, 2, np.nan], size=n), 0)
    sparse[:, 4] = np.where(rng.random(n) < 0.5, -rng.random(n), 0)
    sparse[:1, 5] = 1  # seen once
    return make_batch(lengths, numeric=numeric, categorical=categorical, sparse=sparse, order="ncnncncnc")
