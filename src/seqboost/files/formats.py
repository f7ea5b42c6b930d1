"""The formats by name and suffix, and the functions that all of them share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from seqboost.core.exceptions import DataFileError
from seqboost.files import arrow, conll, crfsuite, delimited, jsonlines, sparse, text
from seqboost.files.reading import Answers, Reading, SequenceData, refuse_fractions
from seqboost.files.source import Source, Watcher, plain_suffixes, written
from seqboost.files.words import add_word_features

__all__ = ["FORMATS", "detect_format", "read_labels", "read_sequences", "write_answers", "write_sequences"]


PROBABILITY = re.compile(r"[:/][01]\.\d{6}$")  # as predict writes it behind a label


@dataclass(frozen=True)
class Format:
    """One format: its suffixes, what it is for, and how it is read and written."""

    name: str
    suffixes: tuple[str, ...]
    about: str
    read: Callable[[Sequence[Source], Reading, str], SequenceData]
    answer: Callable[[Source, SequenceData, Answers, Any], None]
    write: Callable[[SequenceData, Any], None]
    binary: bool = False

    @property
    def family(self) -> str:
        """What formats share that name labels and columns in the same way."""
        return {"csv": "table", "tsv": "table", "parquet": "table", "arrow": "table", "crf++": "conll"}.get(
            self.name, self.name
        )


FORMATS = {
    known.name: known
    for known in (
        Format("csv", (".csv",), "table with a header, a row for each position",
               delimited.read_table_file, delimited.answer_table, delimited.write_csv),
        Format("tsv", (".tsv", ".tab"), "the same between tabs",
               delimited.read_table_file, delimited.answer_table, delimited.write_tsv),
        Format("parquet", (".parquet", ".pq"), "Parquet table (extra: tables)",
               arrow.read_parquet, arrow.answer_parquet, arrow.write_parquet, binary=True),
        Format("arrow", (".arrow", ".feather", ".ipc"), "Arrow table (extra: tables)",
               arrow.read_arrow, arrow.answer_arrow, arrow.write_arrow, binary=True),
        Format("conll", (".conll", ".iob", ".iob2", ".bio", ".bioes", ".col"),
               "columns, label last, an empty line between sequences",
               conll.read_conll, conll.answer_conll, conll.write_conll),
        Format("crf++", (".crfpp", ".crf++", ".wapiti"), "the same, for CRF++ and Wapiti",
               conll.read_conll, conll.answer_conll, conll.write_conll),
        Format("crfsuite", (".crfsuite",), "label and attributes between tabs",
               crfsuite.read_crfsuite, crfsuite.answer_crfsuite, crfsuite.write_crfsuite),
        Format("jsonl", (".jsonl", ".ndjson"), "an object for each sequence",
               jsonlines.read_jsonl, jsonlines.answer_jsonl, jsonlines.write_jsonl),
        Format("sparse", (".sparse",), "indices of indicators, as in the hyphenation set",
               sparse.read_sparse_file, sparse.answer_sparse, sparse.write_sparse),
        Format("text", (".txt", ".text"), "a sequence of characters for each line, labels after a tab",
               text.read_text, text.answer_text, text.write_text),
    )
}  # fmt: skip


def detect_format(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """Return the format of a file: the one named, or that of its suffix.

    Examples
    --------
    >>> detect_format("train.conll.gz").name, detect_format("train.txt", "conll").name
    ('conll', 'conll')
    """
    if name is not None:
        if name.lower() not in FORMATS:
            raise DataFileError(f"there is no format {name!r}; known formats are {', '.join(FORMATS)}")
        return FORMATS[name.lower()]
    suffixes = plain_suffixes(path)
    for known in FORMATS.values():
        if suffixes and suffixes[-1] in known.suffixes:
            return known
    if Path(path).name.startswith("sparse."):
        return FORMATS["sparse"]
    raise DataFileError(
        f"the format of {os.fspath(path)!r} cannot be told from its suffix; name one of {', '.join(FORMATS)} (--format)"
    )


def read_sequences(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    reading: Reading | None = None,
    *,
    labels: str = "optional",
    skip_bad: bool = False,
    watch: Watcher | None = None,
) -> SequenceData:
    r"""Read sequences from one or more files of a format.

    Parameters
    ----------
    paths : str, path, or list of these
        Sequences of different files are different sequences.
    reading : Reading, optional
        How to read them.
    labels : {"optional", "required", "ignore", "only"}, default="optional"
        Whether there must be labels; "ignore" leaves them out, "only" leaves everything else out.
    skip_bad : bool, default=False
        Leave bad lines out, and list them, instead of stopping at the first one.
    watch : callable, optional
        Told from time to time how many bytes are read, of how many (or None).

    Returns
    -------
    SequenceData

    Raises
    ------
    DataFileError
        With the file, the line, what is wrong with it and how to mend it.
    MissingExtraError
        If a package is not installed that the format needs.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "words.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("banana\t010101\nfig\t010\n")
    >>> data = read_sequences(path)
    >>> data.batch, data.y[1]
    (SequenceBatch(2 sequences, 9 positions, 0 numeric, 1 categorical, 0 sparse), ['0', '1', '0'])
    """
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise DataFileError("there is no file to read; name at least one")
    reading = reading or Reading()
    known = detect_format(listed[0], reading.format)
    _check_delimiter(known, reading)
    if reading.time is not None and known.family != "table":
        raise DataFileError(
            f"the time, {reading.time!r}, is a column of a table (csv, tsv, parquet, arrow), but the format is "
            f"{known.name}; write a table, or leave the time out"
        )
    for path in listed[1:]:
        if reading.format is None and detect_format(path).name != known.name:
            raise DataFileError(
                f"{os.fspath(listed[0])!r} and {os.fspath(path)!r} are of different formats; convert one of them first"
            )
    sources = [Source(path, reading.encoding, skip_bad, watch) for path in listed]
    data = known.read(sources, replace(reading, format=known.name), labels)
    if labels == "required":
        if data.label_codes is None:
            raise DataFileError(f"{os.fspath(listed[0])} has no labels; name the column that holds them (--label)")
        if (data.label_codes < 0).all():
            raise DataFileError(f"{os.fspath(listed[0])} has no label that is not empty; at least one is needed")
        refuse_fractions(data)
    if reading.features == "words":
        data = add_word_features(data)
    elif reading.features is not None:
        raise DataFileError(f"there are no features {reading.features!r}; known ones are 'words'")
    return data


def _check_delimiter(known: Format, reading: Reading) -> None:
    """Refuse delimiters that cannot stand between cells."""
    text = reading.delimiter
    if text is not None and (not text or set(text) & set('\r\n"') or (known.family == "table" and len(text) > 1)):
        raise DataFileError(
            f"the delimiter {text!r} cannot stand between cells; expected one character, as ',' or a tab"
        )


def read_labels(path: str | os.PathLike[str], reading: Reading) -> list[Any]:
    """Return the predictions of a file that ``predict`` wrote, in the order of its rows.

    They stand in the column ``predicted`` of a table or under that key, last in column files, else in the place of
    labels.
    """
    known = detect_format(path, reading.format)
    _check_delimiter(known, reading)
    has_name = known.family == "table" or known.name == "jsonl"
    label = "predicted" if has_name else _column_of_labels(path, reading) if known.family == "conll" else None
    plain = Reading(
        format=known.name, label=label, delimiter=reading.delimiter, encoding=reading.encoding, header=reading.header
    )
    source = Source(path, reading.encoding)
    data = known.read([source], plain, "only" if known.family == "table" else "required")
    if data.label_codes is None:
        raise source.stop("it has no column 'predicted'; expected a file that predict wrote")
    if known.name == "crfsuite":
        return [PROBABILITY.sub("", label) for label in data.labels]
    return data.labels


def _column_of_labels(path: str | os.PathLike[str], reading: Reading) -> str | None:
    """Return the column of the predictions of a column file: the last one, probabilities aside."""
    for _, line in Source(path, reading.encoding).lines():
        cells = line.split() if reading.delimiter is None else line.rstrip("\r\n").split(reading.delimiter)
        if cells and cells[0] != conll.DOCUMENT:
            n_chances = sum(1 for _ in takewhile(PROBABILITY.search, reversed(cells)))
            return str(len(cells) - 1 - n_chances)
    return None


def write_answers(
    source: str | os.PathLike[str], data: SequenceData, answers: Answers, target: str | os.PathLike[str] | None
) -> None:
    """Write predictions beside what they were made from, in the format of the source; whole or not at all.

    Parameters
    ----------
    source : str or path
        The file that ``data`` was read from; it is read again, line by line.
    data : SequenceData
        What was read.
    answers : Answers
        Predictions, in the order of its rows.
    target : str, path or None
        Where to write; None is standard output.
    """
    known = detect_format(source, data.reading.format)
    if known.binary and target is None:
        raise DataFileError(f"a {known.name} file cannot be shown; name a file to write to")
    again = Source(source, data.reading.encoding, skip_bad=True)
    with written(target, binary=known.binary) as file:
        known.answer(again, data, answers, file)


def write_sequences(data: SequenceData, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write sequences in another format; whole or not at all.

    Parameters
    ----------
    data : SequenceData
        As read from a file.
    path : str or path
        Where to write.
    format : str, optional
        Name of the format; by the suffix unless given.
    """
    known = detect_format(path, format)
    with written(path, binary=known.binary) as file:
        known.write(data, file)
