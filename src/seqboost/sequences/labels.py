"""Labels <-> codes 0..K-1, one code per row of a batch; -1 = unobserved."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.sequences.batch import SequenceBatch
from seqboost.sequences.columns import first_unhashable, is_missing, object_array
from seqboost.sequences.targets import flat_labels

__all__ = ["UNKNOWN", "UNOBSERVED", "LabelCoder", "label_array"]

UNOBSERVED, UNKNOWN = -1, -2


class LabelCoder:
    """Number the labels of training and translate between labels and codes.

    Labels may be any hashable; None and NaN (and NA, NaT, masked) mean *unobserved*.

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
        coder.classes_ = classes if isinstance(classes, np.ndarray) else label_array(list(classes))
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
        labels = flat_labels(y, batch)
        if isinstance(labels, np.ndarray):
            return self._fit_numbers(labels, batch)
        index = _index_of(labels, batch)
        real = [label for label in index if not is_missing(label)]
        for label in real:
            if _has_fraction(label):
                raise _continuous(label, batch.where(labels.index(label)))
        if not real:
            raise _nothing_observed(batch)
        ordered = _sort_labels(real)
        self.classes_ = label_array(ordered)
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
        labels = flat_labels(y, batch)
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
    try:
        index = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    except TypeError:
        row = first_unhashable(labels)
        raise InputTypeError(
            f"The label at {batch.where(row)} is {labels[row]!r:.60}, which is not hashable: something inside it can "
            "change. Use tuples instead of lists inside labels."
        ) from None
    for label in index:
        if isinstance(label, (tuple, frozenset)) and _holds_nan(label):
            raise InputError(
                f"The label at {batch.where(list(labels).index(label))} is {label!r}, which holds NaN and so is equal "
                "to no other label. Use None or NaN itself where the label is unobserved, and None or a word inside "
                "labels."
            )
    for label in index:
        if isinstance(label, (float, np.floating)) and np.isinf(label):
            raise _infinite_label(batch.where(list(labels).index(label)))
    return index


def _infinite_label(where: str) -> InputError:
    return InputError(
        f"Input y contains infinity (inf): the label at {where}. Use None or NaN where the label is unobserved."
    )


def _holds_nan(label: Any) -> bool:
    """Tell whether a label has NaN somewhere inside."""
    if isinstance(label, (tuple, frozenset)):
        return any(map(_holds_nan, label))
    return label is not None and is_missing(label)


def _sort_labels(labels: list[Any]) -> list[Any]:
    """Sort labels if they compare with one another, else keep the order of first appearance."""
    try:
        return sorted(labels)
    except TypeError:
        return labels


def label_array(labels: list[Any]) -> NDArray[Any]:
    """Make an array of labels: int, float, bool or str dtype where all labels are of that type, else object."""
    for kinds in ((bool, np.bool_), (str,), (int, np.integer), (int, np.integer, float, np.floating)):
        if all(isinstance(label, kinds) for label in labels):
            if bool not in kinds and any(isinstance(label, (bool, np.bool_)) for label in labels):
                break
            array = np.array(labels)
            fits = array.dtype.kind in ("iu" if float not in kinds and int in kinds else "biufU")  # no float for 2**63
            return array if fits and array.tolist() == labels else object_array(labels)
    return object_array(labels)


def _check_numbers(labels: NDArray[Any], batch: SequenceBatch) -> None:
    """Refuse infinite labels and labels with fractions."""
    if labels.dtype.kind != "f":
        return
    infinite = np.isinf(labels)
    if infinite.any():
        raise _infinite_label(batch.where(int(np.argmax(infinite))))
    fractions = (labels != np.floor(labels)) & ~np.isnan(labels)
    if fractions.any():
        row = int(np.argmax(fractions))
        raise _continuous(labels[row].item(), batch.where(row))


def _has_fraction(label: Any) -> bool:
    """Check whether a label is a number that is not whole."""
    if isinstance(label, Decimal):
        return label != label.to_integral_value()
    return isinstance(label, numbers.Real) and bool(label % 1)


def _continuous(label: Any, where: str) -> InputError:
    return InputError(
        f"Unknown label type: continuous. Labels must be classes, but the label at {where} is {label!r}, a number with "
        "a fraction. Bin the target (for example with numpy.digitize), or turn the labels into strings if they really "
        "are classes."
    )


def _nothing_observed(batch: SequenceBatch) -> InputError:
    return InputError(
        f"y holds no observed label: all {batch.n_rows} labels are None or NaN. Input y contains NaN only; "
        "training needs at least one label."
    )
