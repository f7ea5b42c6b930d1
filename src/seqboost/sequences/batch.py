"""The one form in which data travels: rows of all sequences laid end to end, with offsets between the sequences.

::

    user's object --as_batch--> SequenceBatch        rows      0 1 2 3 4 | 5 6 | 7 8 9
                                                     offsets   0           5     7       10
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError
from seqboost.core.offsets import locate, starts_of
from seqboost.sequences.schema import BatchSchema, ColumnSchema

__all__ = ["BatchSchema", "ColumnSchema", "Layout", "SequenceBatch"]


def empty_sequence(i: int) -> InputError:
    """Return the error for an empty sequence."""
    return InputError(
        f"X[{i}] is an empty sequence; every sequence needs at least one position. "
        "Drop empty sequences (and their labels) first."
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the sequences lie in the rows, and where the rows lay in the user's object.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Sequence ``i`` holds rows ``offsets[i]`` to ``offsets[i + 1] - 1``.
    origin : {"list", "table", "flat"}
        What the user handed in: a list of sequences, one table, or one flat matrix of one-position sequences.
    table_rows : ndarray of int64, shape (n_rows,), or None
        Row of the user's table that each row came from. For a list of tables, each of which is a sequence, the row of
        that table; None if no table was sorted.
    ids : tuple or None
        What the sequence column of the user's table holds for each sequence; tuples for several columns.
    index : pandas.Index, tuple of these (one for each sequence), or None
        Index of the user's table, or of the tables in the user's list.
    """

    offsets: NDArray[np.int64]
    origin: str = "list"
    table_rows: NDArray[np.int64] | None = None
    ids: tuple[Any, ...] | None = None
    index: Any = None

    @classmethod
    def from_lengths(cls, lengths: Any, origin: str = "list", table_rows: NDArray[np.int64] | None = None) -> Layout:
        """Build a layout from the lengths of the sequences; refuses empty sequences."""
        lengths = np.asarray(lengths, dtype=np.int64)
        if len(lengths) == 0:
            raise InputError(
                "Found array with 0 sample(s): X holds no sequences while a minimum of 1 is required. "
                "Pass a list with at least one sequence."
            )
        if lengths.min() == 0:
            raise empty_sequence(int(np.argmin(lengths)))
        return cls(starts_of(lengths), origin, table_rows)

    @property
    def n_rows(self) -> int:
        """Number of positions of all sequences."""
        return int(self.offsets[-1])

    @property
    def table_rank(self) -> NDArray[np.int64]:
        """Place of each row among the table rows held here, in the table's order."""
        assert self.table_rows is not None
        rank = np.empty(self.n_rows, dtype=np.int64)
        rank[np.argsort(self.table_rows, kind="stable")] = np.arange(self.n_rows)
        return rank

    @property
    def sequence_rank(self) -> NDArray[np.int64] | None:
        """Place of each row if each sequence were in the order of the user's rows; None if it is."""
        if self.table_rows is None:
            return None
        rank = np.empty(self.n_rows, dtype=np.int64)
        rank[np.lexsort((self.table_rows, np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))))] = (
            np.arange(self.n_rows)
        )
        return rank

    @property
    def user_rows(self) -> NDArray[np.int64] | None:
        """Row, in the user's table or in all tables of the list laid end to end, of each row; None if the same."""
        return self.table_rows if self.origin == "table" else self.sequence_rank

    def where(self, row: int) -> str:
        """Say in words where a row lies: ``"sequence 3, position 7"``."""
        if self.origin == "flat":
            return f"row {int(row)}"
        sequence, position = locate(self.offsets, row)
        text = f"sequence {sequence}, position {position}"
        if self.table_rows is not None:
            text += f" (row {int(self.table_rows[row])} of the table)"
        return text

    def take(self, sequences: NDArray[np.int64]) -> tuple[Layout, NDArray[np.int64]]:
        """Return the layout of some sequences, and the rows they hold."""
        starts = self.offsets[sequences]
        lengths = self.offsets[sequences + 1] - starts
        offsets = starts_of(lengths)
        rows = np.arange(offsets[-1], dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
        table_rows = None if self.table_rows is None else self.table_rows[rows]
        ids = None if self.ids is None else tuple(self.ids[i] for i in sequences.tolist())
        index = tuple(self.index[i] for i in sequences.tolist()) if isinstance(self.index, tuple) else None
        return Layout(offsets, self.origin, table_rows, ids, index), rows


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Sequences in the one form all packages understand.

    Indexing selects *sequences* and gives a batch again, so scikit-learn's splitters slice it as they would an array.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_sequences + 1,)
        Sequence ``i`` holds rows ``offsets[i]`` to ``offsets[i + 1] - 1``.
    numeric : ndarray of float32 or float64, shape (n_rows, n_numeric)
        Numeric columns, C order; NaN = missing, never infinite.
    categorical : ndarray of int32, shape (n_rows, n_categorical)
        Codes into ``categories[j]``; -1 = missing.
    categories : tuple of ndarray of object
        The distinct values of each categorical column in this batch.
    sparse : scipy.sparse.csr_array of float32 or float64, shape (n_rows, n_sparse), or None
        Absent entries are absent (not missing); an explicit NaN is missing. An explicit 0 is a number (rare keys of
        dicts have some; sparse matrices are read without theirs).
    schema : BatchSchema
        Names and kinds of the columns.
    origin : Layout
        What is needed to give answers back in the user's form.
    """

    offsets: NDArray[np.int64]
    numeric: NDArray[Any]
    categorical: NDArray[np.int32]
    categories: tuple[NDArray[np.object_], ...]
    sparse: sp.csr_array | None
    schema: BatchSchema
    origin: Layout

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        """Number of positions of all sequences."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each sequence."""
        return np.diff(self.offsets)

    @property
    def shape(self) -> tuple[int]:
        """``(n_sequences,)``: what scikit-learn's splitters look at."""
        return (self.n_sequences,)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self.n_sequences

    def __repr__(self) -> str:
        """Say how much of what the batch holds."""
        return (
            f"SequenceBatch({self.n_sequences} sequences, {self.n_rows} positions, {self.numeric.shape[1]} numeric, "
            f"{self.categorical.shape[1]} categorical, {0 if self.sparse is None else self.sparse.shape[1]} sparse)"
        )

    def __getitem__(self, key: Any) -> SequenceBatch:
        """Select sequences by number, slice, index array or mask; the answer is a batch."""
        layout, rows = self.origin.take(self._selected(key))
        categorical, categories = compact(self.categorical[rows], self.categories)
        return SequenceBatch(
            layout.offsets,
            self.numeric[rows],
            categorical,
            categories,
            None if self.sparse is None else self.sparse[rows],
            self.schema,
            layout,
        )

    def _selected(self, key: Any) -> NDArray[np.int64]:
        """Turn any index scikit-learn or a user may use into sequence numbers."""
        if isinstance(key, tuple):  # scikit-learn asks for batch[indices, ...]
            key = tuple(part for part in key if part is not Ellipsis)
            if len(key) != 1:
                raise IndexError(f"a SequenceBatch has one axis (sequences), got {len(key)} indices")
            key = key[0]
        if isinstance(key, slice):
            return np.arange(*key.indices(self.n_sequences), dtype=np.int64)
        index = np.asarray(key)
        if index.size == 0:
            index = index.astype(np.int64)
        if index.dtype.kind == "b":
            if index.shape != (self.n_sequences,):
                raise IndexError(f"mask of shape {index.shape} does not fit a batch of {self.n_sequences} sequences")
            return np.flatnonzero(index)
        if index.dtype.kind not in "iu" or index.ndim > 1:
            raise IndexError(f"sequences are selected by number, slice, index array or mask, got {key!r}")
        index = np.atleast_1d(index).astype(np.int64)
        if index.size and (index.min() < -self.n_sequences or index.max() >= self.n_sequences):
            raise IndexError(f"sequence number out of range for a batch of {self.n_sequences} sequences")
        return np.where(index < 0, index + self.n_sequences, index)

    def where(self, row: int) -> str:
        """Say in words where a row lies: ``"sequence 3, position 7"``."""
        return self.origin.where(row)

    def cut(self, offsets: NDArray[np.int64]) -> SequenceBatch:
        """Return the same rows as other sequences, which begin at ``offsets``."""
        return replace(self, offsets=offsets, origin=replace(self.origin, offsets=offsets, ids=None, index=None))

    def with_schema(self, schema: BatchSchema) -> SequenceBatch:
        """Return the same data under another schema; whether numbers came as float32 stays known."""
        columns = tuple(
            wanted if wanted.single == given.single else replace(wanted, single=given.single)
            for wanted, given in zip(schema.columns, self.schema.columns, strict=True)
        )
        return replace(self, schema=replace(schema, columns=columns, single=self.schema.single))

    def with_numbers(self, names: Sequence[str], values: NDArray[np.floating]) -> SequenceBatch:
        """Return the batch with more numeric columns, behind those it has.

        Parameters
        ----------
        names : sequence of str
            Names of the new columns; none may be there already.
        values : ndarray of shape (n_rows, n_new)
            NaN = missing.

        Examples
        --------
        >>> from seqboost.sequences import as_batch
        >>> as_batch(["abc", "de"]).with_numbers(["place"], np.arange(5.0)[:, None])
        SequenceBatch(2 sequences, 5 positions, 1 numeric, 1 categorical, 0 sparse)
        """
        taken = sorted(set(names) & set(self.schema.names))
        if taken:
            raise InputError(f"X has a column {taken[0]!r} already; rename it: that name is needed for a new column")
        columns = (*self.schema.columns, *(ColumnSchema(name, "numeric") for name in names))
        numeric = np.concatenate([self.numeric, values], axis=1, dtype=np.float64)
        return replace(self, numeric=numeric, schema=replace(self.schema, columns=columns))

    def aligned(self, y: Any) -> Any:
        """Return labels in the order of the user's rows, where both X and y have a pandas index.

        Parameters
        ----------
        y : object
            Labels as the user gave them: a series for a table, a list of series for a list of tables. All others are
            returned as they are.
        """
        index = self.origin.index
        if not isinstance(index, tuple):
            return _aligned(y, index, "")
        if not isinstance(y, (list, tuple)) or len(y) != len(index):
            return y
        return [_aligned(part, own, f"[{i}]") for i, (part, own) in enumerate(zip(y, index, strict=True))]

    def restore(self, flat: Any) -> Any:
        """Give per-row answers back in the user's form.

        Parameters
        ----------
        flat : array-like, shape (n_rows, ...)
            One answer per row of the batch.

        Returns
        -------
        list of ndarray or ndarray
            One array per sequence for lists of sequences; one array in the order of the table's rows for a table; the
            array itself for flat input.
        """
        flat = np.asarray(flat)
        if len(flat) != self.n_rows:
            raise InputError(f"restore() needs one value per row: got {len(flat)} values for {self.n_rows} rows")
        if self.origin.origin == "flat":
            return flat
        if self.origin.origin == "table":
            restored = np.empty_like(flat)
            restored[self.origin.table_rank] = flat
            return restored
        rank = self.origin.sequence_rank
        if rank is not None:
            sorted_rows, flat = flat, np.empty_like(flat)
            flat[rank] = sorted_rows
        bounds = self.offsets.tolist()
        return [flat[start:stop] for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]


def places_of(labels: Any, index: Any) -> NDArray[np.intp] | None:
    """Return where the labels of one pandas index stand in another, −1 for nowhere; None if pandas cannot tell."""
    if labels.nlevels != index.nlevels:
        return None
    try:
        return np.asarray(index.get_indexer(labels))
    except Exception:  # of overlapping intervals, other numbers of levels, missing values: each has its own
        return None


def _aligned(y: Any, index: Any, place: str) -> Any:
    """Return a series in the order of a pandas index; one of another length is refused later."""
    given: Any = getattr(y, "index", None)
    if index is None or not hasattr(given, "get_indexer") or len(given) != len(index) or given.equals(index):
        return y
    rows = None
    if not (given.is_unique and index.is_unique):
        problem = f"their labels differ in order, and some of {'X' if given.is_unique else 'y'}{place} repeat"
    else:
        problem, rows = "they are of different kinds", places_of(index, given)
    if rows is not None:
        if (rows >= 0).all():
            return y.iloc[rows]
        row = int(np.argmin(rows))
        problem = f"row {row} of X{place} has {index[row : row + 1].tolist()[0]!r}, which y{place} lacks"
    raise InputError(
        f"X{place} and y{place} have different pandas indexes, so labels cannot be matched with rows: {problem}. Give "
        f"both the same index, or pass y{place}.to_numpy() if the labels are in the order of the rows."
    )


def compact(
    codes: NDArray[np.int32], categories: tuple[NDArray[np.object_], ...]
) -> tuple[NDArray[np.int32], tuple[NDArray[np.object_], ...]]:
    """Drop categories that no row uses, so that a slice equals a batch made from the slice."""
    kept = []
    for j, values in enumerate(categories):
        used = np.zeros(len(values) + 1, dtype=bool)
        used[codes[:, j]] = True  # code -1 marks the spare last entry
        used = used[:-1]
        if not used.all():
            renumbered = np.full(len(values) + 1, -1, dtype=np.int32)
            renumbered[:-1][used] = np.arange(used.sum())
            codes[:, j] = renumbered[codes[:, j]]
            values = values[used]
        kept.append(values)
    return codes, tuple(kept)
