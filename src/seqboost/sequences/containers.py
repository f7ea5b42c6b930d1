"""Answers of a labeler as series and frames of pandas or polars."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import MissingExtraError, ParameterError
from seqboost.sequences.batch import SequenceBatch

__all__ = ["CONTAINERS", "check_container", "labels_in", "probabilities_in"]

CONTAINERS = ("default", "pandas", "polars")


def check_container(container: Any) -> None:
    """Refuse what is no container, and one of a library that is not installed."""
    if not isinstance(container, str) or container not in CONTAINERS:
        raise ParameterError(
            f"set_output(transform={container!r}): expected 'pandas', 'polars', 'default' or None (unchanged)"
        )
    if container != "default":
        _library(container)


def _library(container: str) -> Any:
    try:
        return importlib.import_module(container)
    except ImportError as error:
        raise MissingExtraError(
            f"set_output(transform={container!r}) needs {container}, which is not installed: "
            'pip install "seqboost[tables]"'
        ) from error


def labels_in(container: str, flat: NDArray[Any], batch: SequenceBatch) -> Any:
    """Return a label for each row of a batch in the user's form: arrays, or series of a library.

    Parameters
    ----------
    container : {"default", "pandas", "polars"}
        What to return: arrays, or series.
    flat : ndarray of shape (n_rows,)
        Labels.
    batch : SequenceBatch
        The sequences. Series bear the name of its label column, and those of pandas its index.
    """
    if container == "default":
        return batch.restore(flat)
    library, name = _library(container), batch.schema.label or "label"

    def series(values: NDArray[Any], index: Any) -> Any:
        if container == "pandas":
            return library.Series(values, index=index, name=name)
        if values.dtype == object:  # labels of several types, or tuples
            return library.Series(name, values.tolist(), dtype=library.Object)
        return library.Series(name, values)

    return _each(series, batch.restore(flat), batch)


def probabilities_in(container: str, flat: NDArray[Any], batch: SequenceBatch, classes: NDArray[Any]) -> Any:
    """Return probabilities of labels, (n_rows, n_labels), in the user's form: arrays, or frames of a library.

    Parameters
    ----------
    container : {"default", "pandas", "polars"}
        What to return: arrays, or frames with a column for each label.
    flat : ndarray of shape (n_rows, n_labels)
        Probabilities.
    batch : SequenceBatch
        The sequences.
    classes : ndarray of shape (n_labels,)
        The labels, which name the columns; those of polars are texts.
    """
    if container == "default":
        return batch.restore(flat)
    library = _library(container)
    texts = [str(label) for label in classes.tolist()]
    if container == "polars" and len(set(texts)) < len(texts):
        raise ParameterError(
            f"columns of polars are named by texts, but some of the labels {classes.tolist()[:10]} are written alike; "
            "use set_output(transform='pandas')"
        )

    def frame(values: NDArray[Any], index: Any) -> Any:
        if container == "pandas":
            columns = library.Index(classes.tolist(), tupleize_cols=False)
            return library.DataFrame(values, index=index, columns=columns)
        return library.DataFrame(np.ascontiguousarray(values), schema=texts, orient="row")

    return _each(frame, batch.restore(flat), batch)


def _each(make: Any, answer: Any, batch: SequenceBatch) -> Any:
    """Make an object of an answer, or of each of a list of them, with the pandas index that X had."""
    index = batch.origin.index
    if not isinstance(answer, list):
        return make(answer, index)
    indexes = index if isinstance(index, tuple) else [None] * len(answer)
    return [make(part, own) for part, own in zip(answer, indexes, strict=True)]
