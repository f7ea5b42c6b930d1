"""How a file is to be read, what reading gives, and what predictions look like on their way back."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import DataFileError, InputError, ModelFileError
from seqboost.files.building import BOOLEANS, MISSING_NUMBERS, Rows
from seqboost.files.source import BadLine, Source
from seqboost.sequences.batch import Layout, SequenceBatch
from seqboost.sequences.columns import Column, Extra, assemble
from seqboost.sequences.ordering import gap_name

__all__ = ["Answers", "Reading", "SequenceData", "label_values", "labelled", "refuse_fractions", "tabled"]

MISSING_COLUMN = ". Add it, or have its values taken as missing (--allow-missing-columns)"

WHOLE = re.compile(r"0|-?[1-9][0-9]{0,999}")  # Python converts up to 4300 digits


@dataclass(frozen=True)
class Reading:
    """How a file is to be read; what is not given is found out, and kept with a model that is trained from the file.

    Parameters
    ----------
    format : str or None
        Name of the format; None: by the file's suffix.
    label : str or None
        Column of the labels; None: the usual one of the format.
    sequence : str, tuple of str, or None
        Column that tells sequences apart (tables), or several that do so together; None: a file is one sequence.
    categorical, numeric, drop : tuple of str
        Columns that are categories or numbers whatever they look like, and columns that are left out.
    missing : tuple of str
        Cells that mean "missing", besides empty ones.
    columns : tuple of str
        Names of the columns, for files that do not name them.
    header : bool
        Whether a table begins with the names of its columns.
    delimiter : str or None
        What stands between cells; None: found out.
    encoding : str
        Of text files.
    features : {None, "words"}
        What is derived from the columns: see :func:`seqboost.files.add_word_features`.
    inputs : tuple of str
        The columns that a model was trained with, before ``features``: others are not read.
    allow_missing_columns : bool
        Whether a file may lack some of ``inputs``.
    time : str or None
        Column that orders the positions of a sequence (tables): numbers, or dates and times.
    """

    format: str | None = None
    label: str | None = None
    sequence: str | tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    header: bool = True
    delimiter: str | None = None
    encoding: str = "utf-8"
    features: str | None = None
    inputs: tuple[str, ...] = ()
    allow_missing_columns: bool = False
    time: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what differs from the defaults, ready for JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Reading:
        """Rebuild what :meth:`to_json` returned; names that are not known are passed over.

        Raises
        ------
        ModelFileError
            If a value is of another type than it should be.
        """
        known: dict[str, Any] = {f.name: f.default for f in fields(cls)}
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known}
        for name, value in plain.items():
            kinds: Any = (str, type(None)) if known[name] is None else type(known[name])
            if name == "sequence" and isinstance(value, tuple):
                kinds = tuple
            if not isinstance(value, kinds) or (kinds is tuple and not all(isinstance(text, str) for text in value)):
                raise ModelFileError(
                    f"the model file says that files are read with {name}={value!r:.60}, which is of the wrong type; "
                    f"train the model again"
                )
        return cls(**plain)

    def inputs_in(self, names: Sequence[str]) -> list[str]:
        """Return the columns of training that are to be read from a file with these columns."""
        return [name for name in self.inputs if name in names or not self.allow_missing_columns]

    def kind_of(self, name: str, default: str = "auto") -> str:
        """Say what a column is declared to be."""
        if name in self.categorical:
            return "categorical"
        return "numeric" if name in self.numeric else default


@dataclass(frozen=True, eq=False)
class SequenceData:
    """Sequences read from files.

    Attributes
    ----------
    batch : SequenceBatch
        What ``fit`` and ``predict`` take as X.
    label_codes : ndarray of int32, shape (n_rows,), or None
        Labels in the order of the file, as numbers into ``label_names``; −1 = unobserved. None: the file has none.
    label_names : tuple
        The labels.
    reading : Reading
        How the file was read, complete.
    bad : list of BadLine
        The first lines that were left out.
    n_bad : int
        Number of lines that were left out.
    bad_lines : frozenset of int
        Their numbers, if there is one file.
    """

    batch: SequenceBatch
    label_codes: NDArray[np.int32] | None
    label_names: tuple[Any, ...]
    reading: Reading
    bad: list[BadLine] = field(default_factory=list)
    n_bad: int = 0
    bad_lines: frozenset[int] = frozenset()

    @property
    def labels(self) -> list[Any]:
        """Labels in the order of the file; None = unobserved."""
        if self.label_codes is None:
            raise DataFileError("the file has no labels")
        names = np.empty(len(self.label_names) + 1, dtype=object)
        names[:-1] = self.label_names
        flat: list[Any] = names[self.label_codes].tolist()
        return flat

    @property
    def y(self) -> list[Any]:
        """Labels as ``fit`` takes them: in the order of the rows of a table, else one list for each sequence."""
        refuse_fractions(self)
        flat = self.labels
        if self.batch.origin.origin == "table":
            return flat
        bounds = self.batch.offsets.tolist()
        return [flat[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]

    def sequences_of(self, flat: Sequence[Any]) -> list[list[Any]]:
        """Divide values in the order of the file into one list for each sequence, in the order of the batch."""
        rows = self.batch.origin.user_rows
        values = list(flat) if rows is None else [flat[row] for row in rows.tolist()]
        bounds = self.batch.offsets.tolist()
        return [values[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]

    def with_labels_of(self, classes: Iterable[Any]) -> SequenceData:
        """Return the same with labels that are written like one of ``classes`` replaced by it.

        Booleans may be written with small or capital letters, since formats differ in that.
        """
        known = {str(label): label for label in classes}
        booleans: dict[float | None, Any] = {BOOLEANS[text]: label for text, label in known.items() if text in BOOLEANS}
        names = (known.get(str(label), booleans.get(BOOLEANS.get(str(label)), label)) for label in self.label_names)
        return replace(self, label_names=tuple(names))


@dataclass(frozen=True, eq=False)
class Answers:
    """Predictions in the order of a file's rows.

    Attributes
    ----------
    labels : sequence of str
        A label for each row.
    classes : tuple of str
        All labels.
    proba : ndarray of shape (n_rows, n_labels) or None
        Probabilities of all labels.
    paths : tuple of sequences of str
        The best labellings of the sequences, best first, each with a label for each row ("" if there is none).
    path_scores : tuple of ndarray of shape (n_rows,)
        Log-probability of the labelling of the row's sequence.
    originals : dict
        The labels themselves by their text, for formats that can hold numbers.
    """

    labels: Sequence[str]
    classes: tuple[str, ...]
    proba: NDArray[np.float64] | None = None
    paths: tuple[Sequence[str], ...] = ()
    path_scores: tuple[NDArray[np.float64], ...] = ()
    originals: dict[str, Any] = field(default_factory=dict)

    def original(self, label: str) -> Any:
        """Return a label as it was before it became text."""
        return self.originals.get(label, label)

    def names(self) -> list[str]:
        """Return the names of the columns that are added to a table."""
        added = ["predicted"]
        if self.proba is not None:
            added += [f"p({label})" for label in self.classes]
        for i in range(1, len(self.paths) + 1):
            added += [f"path{i}", f"path{i}_logp"]
        return added

    def cells(self, row: int) -> list[str]:
        """Return what is added to a row of a table."""
        added = [self.labels[row]]
        if self.proba is not None:
            added += [f"{p:.6g}" for p in self.proba[row]]
        for path, score in zip(self.paths, self.path_scores, strict=True):
            added += [path[row], f"{score[row]:.6g}" if path[row] else ""]
        return added


def label_values(words: Sequence[str], *, typed: bool) -> list[Any]:
    """Return labels, as whole numbers or booleans if ``typed`` and all of them are written as Python writes such."""
    if typed and words and all(map(WHOLE.fullmatch, words)):
        return [int(word) for word in words]
    if typed and words and set(words) <= {"True", "False"}:
        return [word == "True" for word in words]
    return list(words)


def labelled(rows: Rows, *, typed: bool = False) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
    """Return the labels of rows as codes and names; −1 = unobserved."""
    codes = rows.labels.joined()
    words = [word for word in rows.labels.index if word not in rows.missing]
    place = {word: k for k, word in enumerate(words)}
    new = np.array([place.get(word, -1) for word in rows.labels.index], dtype=np.int32)
    return (new[codes] if len(new) else codes), tuple(label_values(words, typed=typed))


def refuse_fractions(data: SequenceData) -> None:
    """Refuse labels that are numbers, some of them with fractions: a target of regression, not classes."""
    if data.reading.format == "jsonl":  # which tells numbers from strings, and refuses such numbers when it is read
        return
    try:
        values = [0.0 if name in MISSING_NUMBERS else float(name) for name in data.label_names]
    except (TypeError, ValueError, OverflowError):  # words, None, or integers beyond floats
        return
    at = next((k for k, value in enumerate(values) if math.isfinite(value) and not value.is_integer()), None)
    if at is None or data.label_codes is None:
        return
    rows = data.batch.origin.user_rows
    codes = data.label_codes if rows is None else data.label_codes[rows]
    raise InputError(
        f"The labels are numbers with fractions, not classes: {data.batch.where(int(np.argmax(codes == at)))} has "
        f"{data.label_names[at]!r}. Bin the target, write labels that are not numbers if they really are classes (v0.5 "
        "instead of 0.5), or name another column with the labels (--label)."
    )


def tabled(
    rows: Rows, sources: Sequence[Source], reading: Reading, *, origin: str, has_labels: bool, typed: bool
) -> SequenceData:
    """Make the data of a file with columns; labels that are ``typed`` may be whole numbers or booleans."""
    check_rows(rows.n_rows, sources)
    layout = rows.layout(origin)
    labels = labelled(rows, typed=typed) if has_labels else (None, ())
    columns = rows.finish(layout)
    reading = replace(
        reading,
        categorical=tuple(column.name for column in columns if column.categories is not None),
        numeric=tuple(column.name for column in columns if column.categories is None),
        inputs=tuple(column.name for column in columns),
    )
    if rows.gaps is not None:
        columns.append(Column(gap_name(reading.time), rows.gaps))
    extra = Extra(sequence=reading.sequence, time=reading.time, has_clock=rows.has_clock)
    return made(columns, layout, extra, "table", labels, sources, reading)


def made(
    columns: Sequence[Column],
    layout: Layout,
    extra: Extra,
    form: str,
    labels: tuple[NDArray[np.int32] | None, tuple[Any, ...]],
    sources: Sequence[Source],
    reading: Reading,
) -> SequenceData:
    """Assemble columns and labels, and say what was left out."""
    if not columns and not extra.sparse_names:
        # labels alone: one column without a value, which nobody looks at
        columns = [Column("nothing", np.full(layout.n_rows, np.nan))]
    batch = assemble(columns, layout, form, extra)
    bad = [line for source in sources for line in source.bad]
    n_bad = sum(len(source.bad_lines) for source in sources)
    bad_lines = frozenset(sources[0].bad_lines) if len(sources) == 1 else frozenset()
    return SequenceData(batch, *labels, reading, bad, n_bad, bad_lines)


def check_rows(n_rows: int, sources: Sequence[Source]) -> None:
    """Refuse files without a single position."""
    if n_rows == 0:
        n_bad = sum(len(source.bad_lines) for source in sources)
        why = f": all {n_bad} lines were bad, the first one because {sources[0].bad[0].problem}" if n_bad else ""
        raise DataFileError(
            f"{os.fspath(sources[0].path)} holds no position{why}. Check that the format is the right one."
        )
