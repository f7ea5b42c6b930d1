"""Binary problems of output coding: columns of earlier bits beside those of the user, and models of the bits.

In a cascade, what earlier models say of the neighbours is an input of later ones::

    user's columns at t | bit j at t−1 | bit j at t+1 | bit j+1 at t−1 | ...        j = b − h .. b − 1

never at t itself: there the bits are so much alike that a model would trust them too much.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from seqboost.core.exceptions import InputTypeError
from seqboost.estimators.family.matrices import neighbours
from seqboost.sequences import ColumnSchema, SequenceBatch
from seqboost.sequences.batch import Layout
from seqboost.training.dataset import Dataset
from seqboost.training.defaults import automatic_window

__all__ = ["Constant", "bit_columns", "bit_probability", "fit_bit", "plain_batch", "quiet"]


@dataclass(frozen=True)
class Constant:
    """Stands for a model where training sequences show one value only."""

    value: float


def plain_batch(batch: SequenceBatch) -> SequenceBatch:
    """Return a batch as one made of a list of sequences, so that labels and answers are lists."""
    return replace(batch, origin=Layout(batch.offsets, "list"))


def bit_columns(
    batch: SequenceBatch, said: NDArray[np.floating], bits: Sequence[int], offsets: Sequence[int]
) -> tuple[SequenceBatch, tuple[str, ...]]:
    """Return a batch with what was said of earlier bits at neighbouring positions, and the names of those columns.

    Parameters
    ----------
    batch : SequenceBatch
        The user's columns.
    said : ndarray of shape (n_rows, n_bits)
        Probabilities of bits; 1 is said where they are at least a half.
    bits : sequence of int
        Which of them.
    offsets : sequence of int
        Where, beside t; beyond the end of a sequence the value is missing.
    """
    if not len(bits) or not len(offsets):
        return batch, ()
    columns, names = [], []
    for shift in offsets:
        row, inside = neighbours(batch.offsets, shift)
        columns.append(np.where(inside[:, None], said[row][:, bits] >= 0.5, np.nan))
        names += [f"bit {b} at {shift:+d}" for b in bits]
    added = tuple(ColumnSchema(name, "numeric") for name in names)
    schema = replace(batch.schema, columns=batch.schema.columns + added)
    numeric = np.hstack([batch.numeric, *columns]).astype(batch.numeric.dtype)
    return replace(batch, numeric=np.ascontiguousarray(numeric), schema=schema), tuple(names)


def fit_bit(
    estimator: Any, training: Dataset, column: NDArray[np.uint8], names: tuple[str, ...], seed: int, n_jobs: Any
) -> Any:
    """Train a copy of a labeller on one column of a code.

    Parameters
    ----------
    estimator : labeller
        Is left as it is.
    training : Dataset
        Sequences with the columns of earlier bits, and codes of labels.
    column : ndarray of uint8, shape (K,)
        The bit of each label.
    names : tuple of str
        The columns of earlier bits, which windows leave alone: they are neighbours already.
    seed : int
        For labellers whose ``random_state`` is None.
    n_jobs : int or None
        For labellers that have such a parameter.
    """
    labels = np.where(training.labels >= 0, column[np.maximum(training.labels, 0)].astype(np.int64), -1)
    values = np.unique(labels[labels >= 0])
    if len(values) == 1:
        return Constant(float(values[0]))
    model = clone(estimator)
    owned = model.get_params(deep=False)
    changed: dict[str, Any] = {"n_jobs": n_jobs, "sequence": None, "time": None}
    if "window" in owned:
        changed |= {"window": _window_beside(model.window, training.batch, names)}
    if owned.get("potentials") == "auto" and getattr(owned.get("method"), "contexts", "all") == "all":
        changed |= {"potentials": "joint"}
    if "random_state" in owned and model.random_state is None:
        changed |= {"random_state": seed}
    model.set_params(**{name: value for name, value in changed.items() if name in owned})
    y: Any = labels
    if labels.min() < 0:
        y = labels.astype(object)
        y[labels < 0] = None
    bounds = training.batch.offsets
    by_sequence = [y[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    arguments = {}
    if (training.weights != 1.0).any():
        if not has_fit_parameter(model, "sample_weight"):
            raise InputTypeError(
                f"sample_weight was given, but {type(model).__name__}.fit takes none; leave it out, or use another "
                f"estimator"
            )
        arguments["sample_weight"] = training.weights
    return model.fit(training.batch, by_sequence, **arguments)


def _window_beside(window: Any, batch: SequenceBatch, names: tuple[str, ...]) -> Any:
    """Return a window of the user's columns alone; "auto" is what the rule makes of them."""
    if not names:
        return automatic_window(window, batch)
    if isinstance(window, str):
        own = len(batch.schema.columns) - len(names)
        numeric = batch.numeric[:, : batch.numeric.shape[1] - len(names)]
        columns = batch.schema.columns[:own]
        window = automatic_window(
            window, replace(batch, numeric=numeric, schema=replace(batch.schema, columns=columns))
        )
    beside = {names: 0}
    return {**window, **beside} if isinstance(window, dict) else {"*": window, **beside}


def bit_probability(model: Any, batch: SequenceBatch) -> NDArray[np.float64]:
    """Return P(bit = 1) at all positions; of a labeller without probabilities, 0 or 1."""
    if isinstance(model, Constant):
        return np.full(batch.n_rows, model.value)
    if hasattr(model, "predict_proba"):
        return np.concatenate(model.predict_proba(batch))[:, 1].astype(np.float64)
    return np.concatenate(model.predict(batch)).astype(np.float64)


class quiet(warnings.catch_warnings):  # noqa: N801
    """Keep labellers from warning of bits that they could not learn: some columns are like that."""

    def __enter__(self) -> None:
        """Begin."""
        super().__enter__()
        warnings.filterwarnings("ignore", message=".*keeps no round of boosting")
