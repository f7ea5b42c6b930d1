"""Labels <-> codes 0..K-1, one code per row of a batch; -1 = unobserved."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from seqboost.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences.batch import SequenceBatch
from seqboost.sequences.columns import is_missing, object_array
from seqboost.sequences.tables import is_table

__all__ = ["UNKNOWN", "UNOBSERVED", "LabelCoder"]

UNOBSERVED, UNKNOWN = -1, -2
CONTAINERS = (list, np.ndarray)


class LabelCoder:
    """Number the labels of training and translate between labels and codes.

    Labels may be any hashable; None and NaN (and NA, NaT) mean *unobserved*.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,)
        The labels, sorted where they can be sorted, else in order of first appearance.

    Examples
    --------
    >>> from seqboost.sequences import as_batch
    >>> batch = as_batch(["ab", "c"])
    >>> coder = LabelCoder()
    >>> coder.fit(["XY", "X"], batch)
    array([0, 1, 0], dtype=int32)
    >>> coder.decode([1, 1])
    array(['Y', 'Y'], dtype='<U1')
    """

    classes_: NDArray[Any]

    @classmethod
    def from_classes(cls, classes: Any) -> LabelCoder:
        """Make a coder whose label ``k`` is ``classes[k]``."""
        coder = cls()
        coder.classes_ = classes if isinstance(classes, np.ndarray) else _class_array(list(classes))
        return coder

    def fit(self, y: Any, batch: SequenceBatch) -> NDArray[np.int32]:
        """Learn the labels and return their codes.

        Parameters
        ----------
        y : list of sequences of labels, or labels in the order of the rows (tables and flat input)
            Labels as the user gave them.
        batch : SequenceBatch
            The sequences they belong to.

        Returns
        -------
        ndarray of int32, shape (n_rows,)
            Code of each row's label; -1 = unobserved.
        """
        labels = _flat_labels(y, batch)
        if isinstance(labels, np.ndarray):
            return self._fit_numbers(labels, batch)
        index = _index_of(labels, batch)
        real = [label for label in index if not is_missing(label)]
        for label in real:
            if isinstance(label, (float, np.floating)) and not float(label).is_integer():
                _check_numbers(np.array([float(label)]), batch)
        if not real:
            raise _nothing_observed(batch)
        ordered = _sort_labels(real)
        self.classes_ = _class_array(ordered)
        rank = {label: k for k, label in enumerate(ordered)}
        codes = np.array([UNOBSERVED if is_missing(label) else rank[label] for label in index], dtype=np.int32)
        return codes[np.fromiter(map(index.__getitem__, labels), np.int64, len(labels))]

    def _fit_numbers(self, labels: NDArray[Any], batch: SequenceBatch) -> NDArray[np.int32]:
        """Learn labels given as one numeric array."""
        _check_numbers(labels, batch)
        distinct, codes = np.unique(labels, return_inverse=True)  # NaN sorts last
        n_real = len(distinct) - (int(np.isnan(distinct).sum()) if distinct.dtype.kind == "f" else 0)
        if n_real == 0:
            raise _nothing_observed(batch)
        self.classes_ = distinct[:n_real]
        return np.where(codes < n_real, codes, UNOBSERVED).astype(np.int32)

    def encode(self, y: Any, batch: SequenceBatch, unknown: str = "error") -> NDArray[np.int32]:
        """Translate labels into codes.

        Parameters
        ----------
        y : labels
            As in :meth:`fit`.
        batch : SequenceBatch
            The sequences they belong to.
        unknown : {"error", "ignore", "mark"}, default="error"
            A label not seen in training raises an error, counts as unobserved (-1), or is marked with -2.

        Returns
        -------
        ndarray of int32, shape (n_rows,)
            Codes.
        """
        if unknown not in ("error", "ignore", "mark"):
            raise ParameterError(f"unknown must be 'error', 'ignore' or 'mark', got {unknown!r}.")
        labels = _flat_labels(y, batch)
        index = {label: k for k, label in enumerate(self.classes_.tolist())}
        values = labels.tolist() if isinstance(labels, np.ndarray) else labels
        seen = _index_of(values, batch)
        code_of = {label: index.get(label, UNOBSERVED if is_missing(label) else UNKNOWN) for label in seen}
        codes = np.fromiter(map(code_of.__getitem__, values), np.int32, len(values))
        strange = codes == UNKNOWN
        if unknown == "error" and strange.any():
            row = int(np.argmax(strange))
            shown = ", ".join(map(repr, self.classes_[:10].tolist())) + (", ..." if len(self.classes_) > 10 else "")
            raise InputError(
                f"y holds the label {values[row]!r} at {batch.where(row)}, which was not seen in training. "
                f"Known labels: {shown}."
            )
        if unknown == "ignore":
            codes[strange] = UNOBSERVED
        return codes

    def decode(self, codes: Any) -> NDArray[Any]:
        """Translate codes into labels; negative codes become None (and the result an object array)."""
        codes = np.asarray(codes)
        if codes.size and codes.min() < 0:
            labels = np.full(codes.shape, None, dtype=object)
            labels[codes >= 0] = self.classes_[codes[codes >= 0]]
            return labels
        return self.classes_[codes]


def _index_of(labels: Sequence[Any], batch: SequenceBatch) -> dict[Any, int]:
    """Give the distinct labels numbers in order of first appearance, refusing what is no label."""
    for kind in set(map(type, labels)):
        if issubclass(kind, (np.datetime64, np.timedelta64)):
            row = next(row for row, label in enumerate(labels) if type(label) is kind)
            raise InputTypeError(
                f"The label at {batch.where(row)} is {labels[row]!r}, a date or time; convert such labels to strings, "
                "for example str(label)."
            )
        if kind.__hash__ is None or issubclass(kind, (complex, np.complexfloating)):
            row = next(row for row, label in enumerate(labels) if type(label) is kind)
            raise InputTypeError(
                f"The label at {batch.where(row)} is {labels[row]!r}, a {kind.__name__}; a label must be a string, a "
                "number or another hashable value, and None where it is unobserved."
            )
    index = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    if any(isinstance(label, (float, np.floating)) and np.isinf(label) for label in index):
        raise InputError("Input y contains infinity (inf). Use None or NaN where the label is unobserved.")
    return index


def _refuse_times(labels: NDArray[Any], name: str) -> None:
    """Refuse arrays of times, which would turn into bare ints."""
    if labels.dtype.kind in "mM":
        raise InputTypeError(
            f"{name} holds dates or times (dtype {labels.dtype}); labels must be strings, numbers or other hashable "
            f"values. Convert them to strings, for example {name}.astype(str)."
        )


def _sort_labels(labels: list[Any]) -> list[Any]:
    """Sort labels if they compare with one another, else keep the order of first appearance."""
    try:
        return sorted(labels)
    except TypeError:
        return labels


def _class_array(labels: list[Any]) -> NDArray[Any]:
    """Make an array of labels: int, float, bool or str dtype where all labels are of that type, else object."""
    for kinds in ((bool, np.bool_), (str,), (int, np.integer), (int, np.integer, float, np.floating)):
        if all(isinstance(label, kinds) for label in labels):
            if bool not in kinds and any(isinstance(label, (bool, np.bool_)) for label in labels):
                break
            array = np.array(labels)
            return array if array.dtype.kind in "biufU" and array.tolist() == labels else object_array(labels)
    return object_array(labels)


def _check_numbers(labels: NDArray[Any], batch: SequenceBatch) -> None:
    """Refuse infinite labels, and regression targets where X is flat."""
    if labels.dtype.kind != "f":
        return
    if np.isinf(labels).any():
        raise InputError("Input y contains infinity (inf). Use None or NaN where the label is unobserved.")
    real = labels[~np.isnan(labels)]
    if batch.origin.origin == "flat" and (real != np.floor(real)).any():
        raise InputError(
            "Unknown label type: continuous. Labels must be classes, but y holds numbers with fractions; "
            "bin them or turn them into strings if they really are classes."
        )


def _nothing_observed(batch: SequenceBatch) -> InputError:
    return InputError(
        f"y holds no observed label: all {batch.n_rows} labels are None or NaN. Input y contains NaN only; "
        "training needs at least one label."
    )


def _flat_labels(y: Any, batch: SequenceBatch) -> NDArray[Any] | list[Any]:
    """Lay the labels in the order of the batch's rows: a numeric array if y is numeric arrays, else a list."""
    if y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    iterable = hasattr(y, "__array__") or isinstance(y, Iterable)
    if isinstance(y, (str, bytes, Mapping)) or sp.issparse(y) or not iterable:
        raise InputTypeError(
            f"y is a {type(y).__name__}; expected a list with one sequence of labels for each sequence of X."
        )
    y = _unwrap(y)
    if isinstance(y, np.ndarray):
        _refuse_times(y, "y")
    origin = batch.origin.origin
    if origin == "list" or (origin == "table" and len(y) and _per_sequence(y, batch)):
        return _by_sequence(y, batch)
    return _by_row(y, batch)


def _unwrap(y: Any) -> Any:
    """Turn any container into a list or an array; a column vector into a 1-D array."""
    if isinstance(y, (list, tuple)):
        return y
    if not hasattr(y, "__array__") and not is_table(y):
        return list(y)
    array = y.to_numpy() if is_table(y) and hasattr(y, "to_numpy") else np.asarray(y)
    if array.ndim == 0:
        raise InputTypeError("y is a single value; expected one sequence of labels for each sequence of X.")
    return array


def _per_sequence(y: Any, batch: SequenceBatch) -> bool:
    """Tell whether the labels of a table came as one sequence of labels per sequence."""
    first = y[0]
    column = isinstance(y, np.ndarray) and y.shape[1:] == (1,)
    if len(y) == batch.n_rows and (column or not isinstance(first, CONTAINERS)):
        return False
    return isinstance(first, (*CONTAINERS, tuple)) or (len(y) == batch.n_sequences and isinstance(first, str))


def _by_row(y: Any, batch: SequenceBatch) -> NDArray[Any] | list[Any]:
    """Read labels given in the order of the table's (or flat matrix's) rows."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        y = y[:, 0]
    if isinstance(y, np.ndarray) and y.ndim > 1:
        raise InputError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
    if len(y) != batch.n_rows:
        what = "the table has" if batch.origin.origin == "table" else "X has"
        raise InputError(
            f"y has {len(y)} labels but {what} {batch.n_rows} rows (inconsistent numbers of samples); "
            "expected one label for each row."
        )
    if isinstance(y, (list, tuple)):
        y = [label[0] if isinstance(label, CONTAINERS) and len(label) == 1 else label for label in y]
    rank = batch.origin.table_rank if batch.origin.origin == "table" else None
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
        return y if rank is None else y[rank]
    values: list[Any] = y.tolist() if isinstance(y, np.ndarray) else list(y)
    return values if rank is None else list(map(values.__getitem__, rank.tolist()))


def _by_sequence(y: Any, batch: SequenceBatch) -> NDArray[Any] | list[Any]:
    """Read labels given as one sequence of labels for each sequence of X."""
    if len(y) != batch.n_sequences:
        hint = ""
        if len(y) == batch.n_rows:
            hint = " Split it at the ends of the sequences: one list of labels for each sequence."
        raise InputError(f"y has {len(y)} label sequences but X has {batch.n_sequences} sequences.{hint}")
    parts: list[Any] = []
    lengths = batch.lengths.tolist()
    for i, (part, length) in enumerate(zip(y, lengths, strict=True)):
        if isinstance(part, (set, frozenset, Mapping)) or not (
            isinstance(part, (list, tuple, str)) or hasattr(part, "__len__") or hasattr(part, "__iter__")
        ):
            raise InputTypeError(
                f"y[{i}] is {part!r}, a {type(part).__name__}; expected a sequence of {length} labels for X[{i}]. "
                "Wrap it as a list, with one label for each position."
            )
        if not isinstance(part, (list, tuple, str, np.ndarray)):
            part = np.asarray(part) if hasattr(part, "__array__") else list(part)
        if isinstance(part, np.ndarray) and part.ndim != 1:
            if part.ndim == 0 or part.shape[1:] != (1,):
                raise InputError(f"y[{i}] has shape {part.shape}; expected a 1-D array of {length} labels.")
            part = part[:, 0]
        if isinstance(part, np.ndarray):
            _refuse_times(part, f"y[{i}]")
        if len(part) != length:
            note = " (a string counts one label per character)" if isinstance(part, str) else ""
            raise InputError(f"y[{i}] has {len(part)} labels but X[{i}] has {length} positions{note}.")
        parts.append(part)
    if all(isinstance(part, np.ndarray) and part.dtype.kind in "biuf" for part in parts):
        return np.concatenate(parts)
    return list(chain.from_iterable(part.tolist() if isinstance(part, np.ndarray) else part for part in parts))
