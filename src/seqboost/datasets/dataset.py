"""What a loader gives: sequences, labels, and the usual ways to divide them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError

__all__ = ["SequenceDataset", "Split", "rotated"]


class Split(NamedTuple):
    """Training and test sequences with their labels."""

    X_train: list[Any]
    y_train: list[NDArray[Any]]
    X_test: list[Any]
    y_test: list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SequenceDataset:
    """A data set of sequences.

    Attributes
    ----------
    name : str
    X : list
        Sequences, in the form that suits them: strings, arrays, lists of dicts or of tuples.
    y : list of ndarray
        Labels.
    folds : list of (ndarray, ndarray)
        Numbers of training and test sequences: one pair for a published split, several for recordings that take turns.
    columns : tuple of str
        Names of the columns, if sequences are arrays.
    """

    name: str
    X: list[Any]
    y: list[NDArray[Any]]
    folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that every sequence has as many labels as positions."""
        for i, (x, labels) in enumerate(zip(self.X, self.y, strict=True)):
            n = x.shape[0] if hasattr(x, "shape") else len(x)
            if n != len(labels):
                raise InputError(f"{self.name}: sequence {i} has {n} positions but {len(labels)} labels")

    def split(self, fold: int = 0) -> Split:
        """Return the training and test sequences of a fold."""
        train, test = self.folds[fold]
        take = [[part[i] for i in chosen] for chosen in (train, test) for part in (self.X, self.y)]
        return Split(*take)

    def splits(self) -> list[Split]:
        """Return the training and test sequences of all folds."""
        return [self.split(fold) for fold in range(len(self.folds))]

    def __repr__(self) -> str:
        """Say how much of what the set holds."""
        labels = len({label for y in self.y for label in np.unique(y).tolist()})
        n_positions = sum(map(len, self.y))
        return f"SequenceDataset({self.name}: {len(self.X)} sequences, {n_positions} positions, {labels} labels)"


def published(
    name: str, train: tuple[Sequence[Any], Sequence[Any]], test: tuple[Sequence[Any], Sequence[Any]]
) -> SequenceDataset:
    """Make a set with a published split."""
    n = len(train[0])
    fold = (np.arange(n), np.arange(n, n + len(test[0])))
    return SequenceDataset(name, [*train[0], *test[0]], [*train[1], *test[1]], [fold])


def rotated(n_sequences: int, n_folds: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Hold out whole recordings, each once; their order is shuffled with a fixed seed."""
    order = np.random.default_rng(0).permutation(n_sequences)
    return [(np.setdiff1d(order, held_out), held_out) for held_out in np.array_split(order, n_folds)]
