"""Values removed completely at random, to see what a model makes of data with holes.

The unit is a variable at a position, as in chapter 4 of Hao (2009): a letter, an amino acid or a number is there or is
not. Columns that are one variable together (the indicators of a category) go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from seqboost import SequenceBatch
from seqboost.core.exceptions import InputTypeError, ParameterError

__all__ = ["remove_values"]

KEPT = "\0kept"  # a name that no column has


def remove_values(
    X: Any, rate: float, *, random_state: Any = None, together: Sequence[Sequence[Any]] = (), sequence: Any = None
) -> Any:
    """Return the sequences with values removed completely at random.

    Each value is removed with probability ``rate``, whatever it is and whatever else is removed. With the same seed, a
    higher rate removes what a lower one does, and more.

    Parameters
    ----------
    X : list of sequences, array, table or SequenceBatch
        As for ``TreeCRF.fit``; left as it is.
    rate : float
        From 0 (nothing is removed) to 1 (everything).
    random_state : int, RandomState or None, default=None
        Seed.
    together : sequence of sequences of columns, default=()
        Columns, by number or name, that are one variable and are removed together: the indicators of a category.
    sequence : str, list of str or None, default=None
        Column of a table that tells sequences apart, or several; they are kept.

    Returns
    -------
    object
        As X, with NaN in arrays of numbers, None elsewhere, and null in tables. Strings become lists of characters.
        Sparse matrices get an explicit NaN for every value removed, also for those that were not stored: absent
        means 0, which can be missing like any number.

    Raises
    ------
    ParameterError
        If the rate is not a number from 0 to 1.
    InputTypeError
        If the positions are sets, which have no variables that could be missing.

    Examples
    --------
    >>> from seqboost.datasets import remove_values
    >>> remove_values(["banana", "fig"], 0.4, random_state=3)
    [['b', 'a', None, 'a', 'n', 'a'], [None, None, None]]
    >>> remove_values([[{"word": "go", "length": 2}]], 0.5, random_state=1)
    [[{'word': None, 'length': 2}]]
    """
    if isinstance(rate, bool) or not isinstance(rate, (int, float, np.integer, np.floating)) or not 0 <= rate <= 1:
        raise ParameterError(f"rate={rate!r}: expected the share of values to remove, a number from 0 to 1.")
    remover = _Remover(float(rate), check_random_state(random_state), together)
    if isinstance(X, SequenceBatch):
        return remover.batch(X)
    table = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return remover.table(table, sequence)
    if isinstance(X, np.ndarray) and X.dtype != object:
        return remover.array(X)
    if sp.issparse(X):
        return remover.sparse(X)
    if isinstance(X, str) or not isinstance(X, Iterable):
        raise InputTypeError(
            f"X is of type {type(X).__name__}; expected a list of sequences, an array, a table or a SequenceBatch."
        )
    return [remover.sequence(x, i) for i, x in enumerate(X)]


class _Remover:
    """Draws what is removed; one draw for each variable at each position, in the order of the data."""

    def __init__(self, rate: float, rng: np.random.RandomState, together: Sequence[Sequence[Any]]) -> None:
        self.rate = rate
        self.rng = rng
        self.together = [list(columns) for columns in together]

    def holes(self, n_rows: int, names: Sequence[Any]) -> NDArray[np.bool_]:
        """Draw what is removed of some columns, (n_rows, n_columns)."""
        holes = self.rng.random_sample((n_rows, len(names))) < self.rate
        places = {name: j for j, name in enumerate(names)}
        for columns in self.together:
            unknown = [column for column in columns if column not in places]
            if unknown:
                raise ParameterError(
                    f"together names the column {unknown[0]!r}, which X does not have; it has "
                    f"{', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}."
                )
            holes[:, [places[column] for column in columns]] = holes[:, [places[columns[0]]]]
        return holes

    def sequence(self, x: Any, i: int) -> Any:
        """Remove values of one sequence."""
        if isinstance(x, np.ndarray):
            return self.array(x)
        if sp.issparse(x):
            return self.sparse(x)
        table = nw.from_native(x, eager_only=True, pass_through=True)
        if isinstance(table, nw.DataFrame):
            return self.table(table, None)
        return [self.position(row, i, t) for t, row in enumerate(x)]

    def position(self, row: Any, i: int, t: int) -> Any:
        """Remove values of one position: a dict, a row of values, or a value."""
        if row is None:
            return None
        if isinstance(row, Mapping):
            names = list(row)
            known = [[name for name in columns if name in row] for columns in self.together]
            holes = _Remover(self.rate, self.rng, [columns for columns in known if columns]).holes(1, names)[0]
            return {name: None if hole else row[name] for name, hole in zip(names, holes, strict=True)}
        if isinstance(row, (set, frozenset)):
            raise InputTypeError(
                f"X[{i}][{t}] is a {type(row).__name__}: what is not in it is absent, so nothing in it can be missing. "
                f"Give the variables names: dicts, with the set as one of their values."
            )
        if isinstance(row, np.ndarray):
            return self.array(row[None])[0]
        if isinstance(row, (list, tuple)):
            holes = self.holes(1, range(len(row)))[0]
            values = [None if hole else value for value, hole in zip(row, holes, strict=True)]
            return tuple(values) if isinstance(row, tuple) else values
        return None if self.holes(1, [0])[0, 0] else row

    def array(self, x: NDArray[Any]) -> NDArray[Any]:
        """Remove values of an array whose last axis has the columns, or of one column."""
        rows = x.reshape(len(x), 1) if x.ndim == 1 else x.reshape(-1, x.shape[-1])
        holes = self.holes(len(rows), range(rows.shape[1])).reshape(x.shape)
        if x.dtype.kind in "biuf":
            dtype = x.dtype if x.dtype.kind == "f" else np.float64
            return np.where(holes, np.array(np.nan, dtype=dtype), x.astype(dtype))
        damaged = x.astype(object)
        damaged[holes] = None
        return damaged

    def sparse(self, x: Any) -> Any:
        """Remove values of a sparse matrix, stored or not."""
        rows = x.tocsr().astype(x.dtype if np.dtype(x.dtype).kind == "f" else np.float64)
        holes = sp.coo_array(self.holes(x.shape[0], range(x.shape[1])))
        stored = rows.tocoo()
        kept = np.isin(stored.row * x.shape[1] + stored.col, holes.row * x.shape[1] + holes.col, invert=True)
        data = np.concatenate([stored.data[kept], np.full(holes.nnz, np.nan, dtype=rows.dtype)])
        row, column = np.concatenate([stored.row[kept], holes.row]), np.concatenate([stored.col[kept], holes.col])
        kind = sp.csr_array if isinstance(x, sp.sparray) else sp.csr_matrix
        return kind((data, (row, column)), shape=x.shape)

    def table(self, table: nw.DataFrame[Any], sequence: Any) -> Any:
        """Remove values of a table but for its sequence column."""
        kept_whole = sequence if isinstance(sequence, list) else [] if sequence is None else [sequence]
        if not all(name in table.columns for name in kept_whole):
            raise ParameterError(f"sequence={sequence!r} is not a column of X; it has {', '.join(table.columns)}.")
        names = [name for name in table.columns if name not in kept_whole]
        holes = self.holes(len(table), names)
        native = nw.get_native_namespace(table)
        filled = []
        for name, hole in zip(names, holes.T, strict=True):
            kept = nw.new_series(KEPT, (~hole).tolist(), nw.Boolean(), native_namespace=native)
            filled.append(table.select(name, kept).select(nw.when(nw.col(KEPT)).then(nw.col(name)).alias(name))[name])
        return table.with_columns(*filled).to_native()

    def batch(self, batch: SequenceBatch) -> SequenceBatch:
        """Remove values of a batch."""
        names = list(batch.schema.names)
        n_dense = len(batch.schema.columns)
        holes = self.holes(batch.n_rows, names if self.together else range(len(names)))
        is_number = np.array([column.kind == "numeric" for column in batch.schema.columns], dtype=bool)
        numeric = np.where(holes[:, :n_dense][:, is_number], np.nan, batch.numeric).astype(batch.numeric.dtype)
        categorical = np.where(holes[:, :n_dense][:, ~is_number], -1, batch.categorical).astype(np.int32)
        sparse = batch.sparse
        if sparse is not None:
            sparse = _Given(holes[:, n_dense:]).sparse(sparse)
        return replace(batch, numeric=numeric, categorical=categorical, sparse=sparse)


class _Given(_Remover):
    """Removes what was drawn before."""

    def __init__(self, holes: NDArray[np.bool_]) -> None:
        self.given = holes

    def holes(self, n_rows: int, names: Sequence[Any]) -> NDArray[np.bool_]:
        """Return what was drawn."""
        return self.given
