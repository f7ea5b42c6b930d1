"""Cross-validation that keeps the positions of a sequence together, in tables as in lists."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from seqboost import SequenceBatch
from seqboost.core.exceptions import InputError, ParameterError

__all__ = ["SequenceKFold"]


class SequenceKFold(BaseCrossValidator):
    """Split whole sequences into folds: a splitter for scikit-learn's cross-validation and searches.

    scikit-learn's own splitters cut a table by rows, which tears its sequences apart. This one keeps the rows of a
    sequence together. Sequences are dealt out in their order, each to the fold with the fewest positions so far, so
    that the numbers of positions in any two folds differ by at most the length of the longest sequence.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=False
        Deal the sequences out in random order.
    random_state : int, RandomState or None, default=None
        Seed of that order.
    sequence : str, list of str or None, default=None
        Name of the column that tells sequences apart, if X is a table; a list: columns that do so together.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"trial": list("aaaabbccc"), "speed": range(9)})
    >>> for train, test in SequenceKFold(2, sequence="trial").split(table):
    ...     print(train, test)
    [4 5 6 7 8] [0 1 2 3]
    [0 1 2 3] [4 5 6 7 8]
    >>> [test.tolist() for _, test in SequenceKFold(2).split([[1.5, 2.0, 7.0], [2.1], [6.9, 3.0]])]
    [[0], [1, 2]]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: Any = None,
        sequence: str | list[str] | None = None,
    ) -> None:
        is_whole = isinstance(n_splits, numbers.Integral) and not isinstance(n_splits, bool)
        if not is_whole or n_splits < 2:
            raise ParameterError(f"n_splits must be an int of 2 or more. Got {n_splits!r} instead.")
        if not isinstance(shuffle, (bool, np.bool_)):
            raise ParameterError(f"shuffle must be True or False. Got {shuffle!r} instead.")
        if not shuffle and random_state is not None:
            raise ParameterError("random_state has no effect without shuffle=True; leave it out, or set shuffle=True.")
        self.n_splits = int(n_splits)
        self.shuffle = bool(shuffle)
        self.random_state = random_state
        self.sequence = sequence

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; X, y and groups are ignored."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the training and test indices of each fold: rows of a table, sequences of a list.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, or table
            As ``fit`` takes it.
        y, groups : object
            Ignored; ``groups`` with a warning.
        """
        if groups is not None:
            warnings.warn("SequenceKFold ignores groups: sequences are the groups.", UserWarning, stacklevel=2)
        member, lengths = self._sequences(X)
        if len(lengths) < self.n_splits:
            raise InputError(
                f"n_splits={self.n_splits} folds need at least as many sequences, but X has {len(lengths)}. Lower "
                f"n_splits."
            )
        order = np.arange(len(lengths))
        if self.shuffle:
            check_random_state(self.random_state).shuffle(order)
        n_positions = np.zeros(self.n_splits, dtype=np.int64)
        fold = np.empty(len(lengths), dtype=np.int64)
        for i in order:
            fold[i] = np.argmin(n_positions)
            n_positions[fold[i]] += lengths[i]
        fold_of = fold[member]
        for k in range(self.n_splits):
            yield np.flatnonzero(fold_of != k), np.flatnonzero(fold_of == k)

    def _sequences(self, X: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sequence that each item of X (a row of a table, else a sequence) is of, and all lengths."""
        import narwhals as nw

        table = nw.from_native(X, pass_through=True)
        if isinstance(table, nw.LazyFrame):
            table = table.collect()
        if isinstance(table, nw.DataFrame):
            wanted: list[Any] = self.sequence if isinstance(self.sequence, list) else [self.sequence]
            if not wanted or not all(name in table.columns for name in wanted):
                raise ParameterError(
                    f"X is a table, so SequenceKFold needs the column that tells its sequences apart: sequence=one of "
                    f"{table.columns}, or a list of several. Got {self.sequence!r} instead."
                )
            ids = list(zip(*(table.get_column(name).to_list() for name in wanted), strict=True))
            index = {name: i for i, name in enumerate(dict.fromkeys(ids))}
            member = np.fromiter(map(index.__getitem__, ids), np.int64, len(ids))
            return member, np.bincount(member, minlength=len(index))
        lengths = X.lengths if isinstance(X, SequenceBatch) else np.array([_length(part) for part in X], dtype=np.int64)
        return np.arange(len(lengths)), lengths


def _length(part: Any) -> int:
    """Return the number of positions of a sequence; a row of a flat matrix has one."""
    shape = getattr(part, "shape", None)
    return int(shape[0]) if shape else len(part) if hasattr(part, "__len__") else 1
