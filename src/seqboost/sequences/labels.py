"""Labels <-> codes, one code per row of a batch: 0..K-1, -1 = unobserved, -3 - i = one of the labels of set i."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import InputError, InputTypeError, ParameterError
from seqboost.core.labelsets import FIRST_SET, UNKNOWN, UNOBSERVED, LabelSets
from seqboost.sequences.batch import SequenceBatch
from seqboost.sequences.columns import first_unhashable, is_missing, object_array
from seqboost.sequences.targets import flat_labels

__all__ = ["UNKNOWN", "UNOBSERVED", "LabelCoder", "label_array"]

SETS_REFUSED = (
    "The label at {where} is {label!r}, a set of labels: one of them, not known which. Here a label must be known or "
    "unobserved; give one label, or None. TreeCRF with its default objective trains on sets."
)


class LabelCoder:
    """Number the labels of training and translate between labels and codes.

    Labels may be any hashable; None and NaN (and NA, NaT, masked) mean *unobserved*. A set or frozenset of labels means
    one of them, not known which; a set of one label is that label, a set of all labels is unobserved.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,)
        The labels, sorted where they can be sorted, else in order of first appearance.
    sets_ : ndarray of bool, shape (n_sets, n_labels), or None
        The labels of each set of the last ``fit`` or ``encode``; None if it had none.

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
    sets_: LabelSets | None = None

    @classmethod
    def from_classes(cls, classes: Any) -> LabelCoder:
        """Make a coder whose label ``k`` is ``classes[k]``."""
        coder = cls()
        coder.classes_ = classes if isinstance(classes, np.ndarray) else label_array(list(classes))
        return coder

    def fit(self, y: Any, batch: SequenceBatch, *, sets: bool = False) -> NDArray[np.int32]:
        """Learn the labels and return their codes.

        Parameters
        ----------
        y : list of sequences of labels, or labels in the order of the rows (tables and flat input)
            Labels as the user gave them.
        batch : SequenceBatch
            The sequences they belong to.
        sets : bool, default=False
            Whether labels may be sets of labels; an error otherwise.

        Returns
        -------
        ndarray of int32, shape (n_rows,)
            Code of each row's label; -1 = unobserved, -3 - i = one of the set of row i of ``sets_``.
        """
        self.sets_ = None
        labels = flat_labels(y, batch)
        if isinstance(labels, np.ndarray):
            return self._fit_numbers(labels, batch)
        index = _index_of(labels, batch, sets)
        unordered = [label for label in index if isinstance(label, frozenset)]
        real = dict.fromkeys(label for label in index if not is_missing(label) and not isinstance(label, frozenset))
        for label in real:
            if _has_fraction(label):
                raise _continuous(label, batch.where(labels.index(label)))
        real |= dict.fromkeys(label for one in unordered for label in one)
        if not real:
            raise _nothing_observed(batch)
        ordered = _sort_labels(list(real))
        self.classes_ = label_array(ordered)
        code_of = {label: k for k, label in enumerate(ordered)}
        if unordered:
            code_of |= self._number_sets(unordered, code_of)
        codes = np.array([UNOBSERVED if is_missing(label) else code_of[label] for label in index], dtype=np.int32)
        return codes[np.fromiter(map(index.__getitem__, labels), np.int64, len(labels))]

    def _number_sets(self, found: list[frozenset[Any]], code_of: dict[Any, int]) -> dict[Any, int]:
        """Make the table of these sets, whose labels are all known, and return the code of each."""
        numbered = [one for one in found if len(one) < len(code_of)]
        table = np.zeros((len(numbered), len(code_of)), dtype=bool)
        for row, one in zip(table, numbered, strict=True):
            row[[code_of[label] for label in one]] = True
        self.sets_ = table if numbered else None
        return dict.fromkeys(found, UNOBSERVED) | {one: FIRST_SET - i for i, one in enumerate(numbered)}

    def _fit_numbers(self, labels: NDArray[Any], batch: SequenceBatch) -> NDArray[np.int32]:
        """Learn labels given as one numeric array."""
        _check_numbers(labels, batch)
        distinct, codes = np.unique(labels, return_inverse=True)  # NaN sorts last
        n_real = len(distinct) - (int(np.isnan(distinct).sum()) if distinct.dtype.kind == "f" else 0)
        if n_real == 0:
            raise _nothing_observed(batch)
        self.classes_ = distinct[:n_real]
        return np.where(codes < n_real, codes, UNOBSERVED).astype(np.int32)

    def encode(self, y: Any, batch: SequenceBatch, unknown: str = "error", *, sets: bool = False) -> NDArray[np.int32]:
        """Translate labels into codes.

        Parameters
        ----------
        y : labels
            As in :meth:`fit`.
        batch : SequenceBatch
            The sequences they belong to.
        unknown : {"error", "ignore", "mark"}, default="error"
            A label not seen in training raises an error, counts as unobserved (-1), or is marked with -2. A set that
            holds such a label counts as unobserved unless that is an error.
        sets : bool, default=False
            Whether labels may be sets of labels; an error otherwise.

        Returns
        -------
        ndarray of int32, shape (n_rows,)
            Codes, as of :meth:`fit`.
        """
        self.sets_ = None
        if unknown not in ("error", "ignore", "mark"):
            raise ParameterError(f"unknown must be 'error', 'ignore' or 'mark', got {unknown!r}.")
        labels = flat_labels(y, batch)
        index = {label: k for k, label in enumerate(self.classes_.tolist())}
        values = labels.tolist() if isinstance(labels, np.ndarray) else labels
        seen = _index_of(values, batch, sets)
        code_of = {label: index.get(label, UNOBSERVED if is_missing(label) else UNKNOWN) for label in seen}
        unordered = [label for label in seen if isinstance(label, frozenset)]
        if unordered:
            code_of |= self._number_sets([one for one in unordered if index.keys() >= one], index)
        codes = np.fromiter(map(code_of.__getitem__, values), np.int32, len(values))
        strange = codes == UNKNOWN
        if unknown == "error" and strange.any():
            raise self._not_seen(values, int(np.argmax(strange)), batch)
        if unordered:
            codes[[row for row in np.flatnonzero(strange) if isinstance(values[row], frozenset)]] = UNOBSERVED
            strange = codes == UNKNOWN
        if unknown == "ignore":
            codes[strange] = UNOBSERVED
        return codes

    def _not_seen(self, values: Sequence[Any], row: int, batch: SequenceBatch) -> InputError:
        label, classes = values[row], self.classes_.tolist()
        if isinstance(label, frozenset):
            label = next(one for one in label if one not in classes)
        shown = ", ".join(map(repr, classes[:10])) + (", ..." if len(classes) > 10 else "")
        return InputError(
            f"y holds the label {label!r} at {batch.where(row)}, which was not seen in training. Known labels: {shown}."
        )

    def decode(self, codes: Any) -> NDArray[Any]:
        """Translate codes into labels; negative codes become None (and the result an object array)."""
        codes = np.asarray(codes)
        if codes.size and codes.min() < 0:
            labels = np.full(codes.shape, None, dtype=object)
            labels[codes >= 0] = self.classes_[codes[codes >= 0]]
            return labels
        return self.classes_[codes]


def _index_of(labels: Sequence[Any], batch: SequenceBatch, sets: bool = False) -> dict[Any, int]:
    """Give the distinct labels numbers in order of first appearance, refusing what is no label."""
    kinds = set(map(type, labels))
    if frozenset in kinds:
        _check_sets(labels, batch, sets)
    for kind in kinds:
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
        if isinstance(label, tuple) and _holds_nan(label):
            raise InputError(
                f"The label at {batch.where(list(labels).index(label))} is {label!r}, which holds NaN and so is equal "
                "to no other label. Use None or NaN itself where the label is unobserved, and None or a word inside "
                "labels."
            )
    for label in index:
        if isinstance(label, (float, np.floating)) and np.isinf(label):
            raise _infinite_label(batch.where(list(labels).index(label)))
    return index


def _check_sets(labels: Sequence[Any], batch: SequenceBatch, allowed: bool) -> None:
    """Refuse sets of labels that are empty or hold what is no label; all of them, unless they are allowed."""
    rows: dict[frozenset[Any], int] = {}
    for row, label in enumerate(labels):
        if isinstance(label, frozenset):
            rows.setdefault(label, row)
    for label, row in rows.items():
        if not allowed:
            raise InputError(SETS_REFUSED.format(where=batch.where(row), label=set(label)))
        if not label:
            raise InputError(
                f"The label at {batch.where(row)} is an empty set: no label is allowed there. Use None where any label "
                f"is possible."
            )
        for one in label:
            if isinstance(one, frozenset) or _holds_nan((one,)) or one is None:
                raise InputError(
                    f"The label at {batch.where(row)} is {set(label)!r}, a set that holds {one!r}; expected a set of "
                    f"labels. Use None itself where any label is possible."
                )
            if _has_fraction(one):
                raise _continuous(one, batch.where(row))


def _infinite_label(where: str) -> InputError:
    return InputError(
        f"Input y contains infinity (inf): the label at {where}. Use None or NaN where the label is unobserved."
    )


def _holds_nan(label: Any) -> bool:
    """Return whether a label has NaN somewhere inside."""
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
