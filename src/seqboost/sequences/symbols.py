"""Scalars and strings -> batch: one column named "x0"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from seqboost.sequences.arrays import check_dtype, joined, read_matrix
from seqboost.sequences.batch import Layout, SequenceBatch
from seqboost.sequences.columns import assemble, infer_column, resolve_categorical

__all__ = ["read_numbers", "read_scalars", "read_strings"]


def read_scalars(values: Sequence[Any], layout: Layout, categorical_features: Any) -> SequenceBatch:
    """Read one scalar per position: numbers make a numeric column, anything else hashable a categorical one."""
    forced = bool(resolve_categorical(categorical_features, ["x0"]))
    return assemble([infer_column("x0", values, layout, forced=forced)], layout, "scalars")


def read_numbers(arrays: Sequence[NDArray[Any]], categorical_features: Any) -> SequenceBatch:
    """Read a list of 1-D numeric arrays, one number per position."""
    layout = Layout.from_lengths([len(array) for array in arrays])
    check_dtype(arrays[0], "X[0]")
    exact = bool(resolve_categorical(categorical_features, ["x0"]))
    return read_matrix(joined(arrays, exact)[:, None], layout, "scalars", categorical_features)


def read_strings(strings: Sequence[str], categorical_features: Any) -> SequenceBatch:
    """Read plain strings: each character is a position."""
    layout = Layout.from_lengths([len(string) for string in strings])
    forced = bool(resolve_categorical(categorical_features, ["x0"]))
    return assemble([infer_column("x0", list("".join(strings)), layout, forced=forced)], layout, "strings")
