"""Weights of sequences, of positions and of labels."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, ParameterError, SeqboostError
from seqboost.sequences.batch import SequenceBatch
from seqboost.sequences.columns import ABSENT_TYPES, is_beyond_floats, is_real_type
from seqboost.sequences.targets import flat_labels

__all__ = ["Weights", "class_weights", "sample_weights", "sequence_weights"]

LARGEST = 1e30  # sums of derivatives are float32, which end at 3.4e38


class Weights(NamedTuple):
    """Weights of sequences, and of their positions if these have any."""

    sequences: NDArray[np.float64]  # (n_sequences,)
    positions: NDArray[np.float64] | None  # (n_rows,)

    def of_rows(self, batch: SequenceBatch) -> NDArray[np.float64]:
        """Return the weight of each row, (n_rows,)."""
        rows = np.repeat(self.sequences, batch.lengths)
        return rows if self.positions is None else rows * self.positions


def sample_weights(sample_weight: Any, batch: SequenceBatch) -> Weights:
    """Read weights of sequences, or of positions.

    Parameters
    ----------
    sample_weight : array-like, number or None
        A weight for each sequence; or, as labels come, a sequence of weights for each sequence, and for a table one for
        each row.
    batch : SequenceBatch
        The sequences.

    Examples
    --------
    >>> from seqboost import as_batch
    >>> batch = as_batch(["ab", "c"])
    >>> sample_weights([2, 1], batch).positions is None
    True
    >>> sample_weights([[0.5, 2], [1]], batch).positions
    array([0.5, 2. , 1. ])
    """
    if not _is_by_position(sample_weight, batch):
        return Weights(sequence_weights(sample_weight, batch), None)
    try:
        flat = flat_labels(sample_weight, batch)
    except SeqboostError as error:
        raise InputError(
            f"In sample_weight, which has the form of y if it weighs positions (else it has one number for each of the "
            f"{batch.n_sequences} sequences): {error}"
        ) from error
    weights = _floats(flat)
    if weights.ndim != 1:
        raise InputError(
            f"sample_weight is nested too deeply: at {batch.where(0)} it has an array of shape {weights.shape[1:]}; "
            f"expected one number for each position, or one for each of the {batch.n_sequences} sequences."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0) & (weights <= LARGEST))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"The sample_weight at {batch.where(row)} is {weights[row]}; weights must be finite, not negative and at "
            f"most {LARGEST:g}."
        )
    if not weights.any():
        raise InputError("All sample weights are zero; at least one position needs a positive sample_weight.")
    return Weights(np.ones(batch.n_sequences), weights)


def _is_by_position(sample_weight: Any, batch: SequenceBatch) -> bool:
    """Return whether weights come by position: as sequences, or for each row of a table that has longer sequences."""
    if sample_weight is None or _is_several(_first_of(sample_weight)):
        return sample_weight is not None
    is_table = batch.origin.origin == "table" and batch.n_rows != batch.n_sequences
    return is_table and hasattr(sample_weight, "__len__") and len(sample_weight) == batch.n_rows


def _is_several(first: Any) -> bool:
    """Return whether the first weight is a sequence of weights, which may be ragged by mistake."""
    return isinstance(first, (list, tuple)) or np.ndim(first) > 0


def _first_of(sample_weight: Any) -> Any:
    """Return the first weight of a container; a number if it is none, or has none."""
    if isinstance(sample_weight, (str, bytes, Mapping)) or not hasattr(sample_weight, "__len__"):
        return 0.0
    first = next(iter(sample_weight), 0.0) if len(sample_weight) else 0.0
    return first if isinstance(first, (list, tuple)) or hasattr(first, "__array__") else 0.0


def sequence_weights(sample_weight: Any, batch: SequenceBatch) -> NDArray[np.float64]:
    """Return one weight per sequence; weight 2 counts a sequence twice.

    Parameters
    ----------
    sample_weight : array-like, shape (n_sequences,), number or None
        None means one for every sequence.
    batch : SequenceBatch
        The sequences.

    Returns
    -------
    ndarray of float64, shape (n_sequences,)
        Weights: at most 1e30, not negative, not all zero.
    """
    if sample_weight is None:
        return np.ones(batch.n_sequences)
    weights = _floats(sample_weight)
    if weights.ndim == 0:
        weights = np.full(batch.n_sequences, weights)
    if weights.ndim != 1:
        raise InputError(f"Sample weights must be 1D array or scalar, got an array of shape {weights.shape}.")
    if len(weights) != batch.n_sequences:
        raise InputError(
            f"sample_weight has {len(weights)} weights but X has {batch.n_sequences} sequences; "
            "expected one weight for each sequence."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"sample_weight[{i}] is {weights[i]}; weights must be finite (no NaN, no inf) and not negative."
        )
    if weights.max() > LARGEST:
        i = int(np.argmax(weights > LARGEST))
        raise InputError(
            f"sample_weight[{i}] is {weights[i]}; weights must be at most {LARGEST:g}. "
            "Divide all of them by a constant."
        )
    if not weights.any():
        raise InputError("All sample weights are zero; at least one sequence needs a positive sample_weight.")
    return weights


def _floats(sample_weight: Any) -> NDArray[np.float64]:
    """Return weights as floats; strings and times are no weights, even if NumPy can make numbers of them."""
    if np.ma.is_masked(sample_weight):
        i = int(np.argmax(np.ma.getmaskarray(sample_weight)))
        raise InputError(f"sample_weight[{i}] is masked; every sequence needs a weight, and 0 leaves one out.")
    try:
        given = np.asarray(sample_weight)
        kinds = set(map(type, given.flat)) if given.dtype.kind == "O" else {given.dtype.type}
        if not all(is_real_type(kind) or kind.__name__ in ABSENT_TYPES for kind in kinds):
            raise TypeError
        with np.errstate(over="ignore"):  # a longdouble beyond all floats becomes infinite, and is refused as such
            return given.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "sample_weight must hold one number for each sequence; it has something else in it, as strings, dates or "
            "lists."
        ) from None
    except OverflowError:
        raise InputError(
            "sample_weight holds a number that is too large for a float; weights must be finite. Divide all of them "
            "by a constant."
        ) from None


def class_weights(class_weight: Any, classes: Any, codes: Any) -> NDArray[np.float64]:
    """Return one weight per label.

    Parameters
    ----------
    class_weight : {"balanced"}, dict or None
        ``"balanced"`` gives label k the weight n / (K * n_k), where n_k of the n observed labels are k, as
        scikit-learn does. A dict gives weights by label; labels it does not name weigh 1.
    classes : array-like, shape (n_labels,)
        The labels.
    codes : ndarray of int, shape (n_rows,)
        Codes of the labels; negative = unobserved.

    Returns
    -------
    ndarray of float64, shape (n_labels,)
        Weights, all positive.
    """
    classes = np.asarray(classes)
    n_labels = len(classes)
    weights = np.ones(n_labels)
    if class_weight is None:
        return weights
    if isinstance(class_weight, str) and class_weight == "balanced":
        codes = np.asarray(codes)
        counts = np.bincount(codes[codes >= 0], minlength=n_labels)
        return np.where(counts > 0, counts.sum() / (n_labels * np.maximum(counts, 1)), 1.0)
    if not isinstance(class_weight, Mapping):
        raise ParameterError(
            f"class_weight must be 'balanced', a dict from labels to weights, or None; got {class_weight!r}."
        )
    index = {label: k for k, label in enumerate(classes.tolist())}
    for label, weight in class_weight.items():
        if label not in index:
            raise ParameterError(
                f"class_weight names the label {label!r}, which is not in y. The labels are {classes.tolist()[:20]}."
            )
        if is_beyond_floats(weight):
            raise ParameterError(f"class_weight[{label!r}] is too large for a float; weights must be finite.")
        is_real = isinstance(weight, numbers.Real) and is_real_type(type(weight))  # no times
        if not is_real or not 0 < float(weight) < np.inf:
            raise ParameterError(f"class_weight[{label!r}] is {weight!r}; weights must be positive and finite.")
        weights[index[label]] = weight
    return weights
