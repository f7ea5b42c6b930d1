"""JSON lines: an object for each sequence.

A sequence stands in it in one of these ways::

    {"x": [{"word": "the", "size": 3}, {"word": "cat"}], "y": ["D", "N"]}        dicts: a column for each key
    {"x": [[0.1, 2.5], [0.3, null]], "y": [0, 1]}                                rows of values
    {"x": ["the", "cat"], "y": ["D", "N"]}                                       one value for each position
    {"x": "banana", "y": "010101"}                                               characters
    {"words": ["the", "cat"], "pos": ["DT", "NN"], "labels": ["D", "N"]}         columns: all lists of one length

A value that is always true (or 1) is an indicator; so are the strings of a list, as ``key=string``. null is missing.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.files.building import Codes, Rows
from seqboost.files.output import sequence_values
from seqboost.files.reading import Answers, Reading, SequenceData, check_rows, label_values, made
from seqboost.files.source import Source
from seqboost.sequences.batch import Layout
from seqboost.sequences.columns import Column, Extra, renumber
from seqboost.sequences.records import MANY_KEYS, RARE, indicator_matrix

__all__ = ["answer_jsonl", "read_jsonl", "write_jsonl"]

INPUT_KEYS = ("x", "X", "features", "text")
LABEL_KEYS = ("y", "labels", "tags", "label")
FORMS = {"dict": "dicts", "columns": "dicts", "row": "arrays", "value": "scalars", "text": "strings"}

Position = dict[str, Any]


class _Key:
    """Values of one key: the rows that have it, and numbers or words."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.numbers = array("d")
        self.words = Codes()
        self.codes = array("i")
        self.kind = ""  # "number" or "word"
        self.only_ones = True

    def add(self, row: int, value: Any) -> None:
        """Add a value that was found to be of the right kind."""
        self.rows.append(row)
        if isinstance(value, str):
            self.codes.append(self.words.index[value])
        else:
            self.only_ones = self.only_ones and value == 1
            self.numbers.append(value)


def read_jsonl(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read JSON lines; see :func:`seqboost.files.read_sequences`."""
    keys: dict[str, _Key] = {}
    members: dict[str, int] = {}
    lists: dict[str, None] = {}
    member_rows, member_names = array("q"), array("i")
    lengths: list[int] = []
    tags = Rows([])
    tag_codes = array("i")
    form = ""
    n_rows = 0
    for source in sources:
        for number, line in source.lines():
            if not line.strip():
                continue
            try:
                found, positions, sequence_labels = _sequence(line, reading, labels)
                if form and found != form:
                    raise ValueError(f"the sequence is given as {found}, but those before as {form}")
                _check(positions, keys)
            except (ValueError, RecursionError) as error:
                source.report(number, str(error) or type(error).__name__, "see seqboost.files.jsonlines for the forms")
                continue
            form = found
            for row, position in enumerate(positions, start=n_rows):
                for key, value in position.items():
                    if isinstance(value, list):
                        lists[key] = None
                        for member in value:
                            member_rows.append(row)
                            member_names.append(members.setdefault(f"{key}={member}", len(members)))
                    else:
                        column = keys.setdefault(key, _Key())
                        if value is not None:
                            column.kind = "word" if isinstance(value, str) else "number"
                            column.add(row, value)
            tag_codes.extend(tags.labels.index[json.dumps(label)] for label in sequence_labels)
            lengths.append(len(positions))
            n_rows += len(positions)
    check_rows(n_rows, sources)
    layout = Layout.from_lengths(lengths)
    declared = {key: keys.pop(key) for key in reading.drop if key in keys}
    for key in reading.drop:
        if key not in declared:
            raise sources[0].stop(f"it has no key {key!r} to be dropped; its keys are {', '.join(keys)}")
    for name in members:
        if name in keys:
            raise sources[0].stop(f"it has a key {name!r} and a list with a member of that name; rename one of them")
    columns, extra = _columns(keys, FORMS[form], layout, (member_rows, member_names, list(members)))
    extra = replace(extra, lists=tuple(lists))
    of_rows: tuple[Any, tuple[Any, ...]] = (None, ())
    if len(tag_codes) == n_rows:
        of_rows = _labels(list(tags.labels.index), np.array(tag_codes, dtype=np.int32))
    return made(columns, layout, extra, FORMS[form], of_rows, sources, replace(reading, categorical=(), numeric=()))


def _labels(texts: list[str], codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], tuple[Any, ...]]:
    """Return labels, each kept as JSON text so that 1 and "1" differ, as codes and values."""
    values = [json.loads(text) for text in texts]
    real = [value for value in values if value is not None]
    place = np.cumsum([value is not None for value in values]) - 1
    new = np.array([-1 if value is None else place[k] for k, value in enumerate(values)], dtype=np.int32)
    return new[codes], tuple(real if not all(isinstance(v, str) for v in real) else label_values(real, typed=False))


def _sequence(line: str, reading: Reading, labels: str) -> tuple[str, list[Position], list[Any]]:
    """Read an object: the form of its sequence, the positions as dicts, and their labels."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON ({error.msg} at character {error.pos + 1})") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected an object {{...}} for each sequence, got a {type(record).__name__}")
    label = reading.label or next((key for key in LABEL_KEYS if key in record), None)
    if label is None or label not in record:
        if labels == "required":
            raise ValueError(f"there is no key {label or 'y'!r} with the labels; its keys are {', '.join(record)}")
        label = None
    form, positions = _positions(record, label)
    if not positions:
        raise ValueError("the sequence is empty")
    tags = [] if label is None or labels == "ignore" else record[label]
    if isinstance(tags, str):
        tags = list(tags)
    if not isinstance(tags, list) or any(isinstance(tag, (list, dict, float)) for tag in tags):
        raise ValueError(f"{label!r} should be a list of labels (strings or whole numbers)")
    if label is not None and labels != "ignore" and len(tags) != len(positions):
        raise ValueError(f"{label!r} has {len(tags)} labels for {len(positions)} positions")
    return form, positions, tags


def _positions(record: dict[str, Any], label: str | None) -> tuple[str, list[Position]]:
    key = next((key for key in INPUT_KEYS if key in record and key != label), None)
    if key is None:
        lists = {k: v for k, v in record.items() if isinstance(v, list) and k != label and k not in ("predicted",)}
        if not lists:
            raise ValueError(f"there is no sequence: expected the key 'x', or lists; its keys are {', '.join(record)}")
        lengths = {len(v) for v in lists.values()}
        if len(lengths) > 1:
            shown = ", ".join(f"{k!r} has {len(v)}" for k, v in lists.items())
            raise ValueError(f"its lists differ in length: {shown}")
        return "columns", [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    value = record[key]
    if isinstance(value, str):
        return "text", [{"x0": c} for c in value]
    if not isinstance(value, list):
        raise ValueError(f"{key!r} should be a list of positions or a string, got a {type(value).__name__}")
    kinds = {type(element) for element in value}
    if kinds == {dict}:
        return "dict", value
    if kinds == {list}:
        if len({len(row) for row in value}) > 1:
            raise ValueError(f"the rows of {key!r} differ in length")
        return "row", [{f"x{j}": cell for j, cell in enumerate(row)} for row in value]
    if kinds & {dict, list}:
        raise ValueError(f"the positions of {key!r} should all be of one kind (objects, lists or values)")
    return "value", [{"x0": element} for element in value]


def _check(positions: list[Position], keys: dict[str, _Key]) -> None:
    """Refuse values of another kind than those before, before any of the sequence is kept."""
    seen: dict[str, str] = {}
    for t, position in enumerate(positions):
        for key, value in position.items():
            if value is None:
                continue
            if isinstance(value, list):
                if not all(isinstance(member, str) for member in value):
                    raise ValueError(f"position {t}: the list {key!r} should hold strings only")
                continue
            if isinstance(value, dict):
                raise ValueError(f"position {t}: the value of {key!r} is itself an object; flatten it")
            kind = "word" if isinstance(value, str) else "number"
            if kind == "number" and not math.isfinite(value):
                raise ValueError(f"position {t}: {key!r} is not a finite number; use null for missing")
            known = seen.setdefault(key, keys[key].kind if key in keys and keys[key].kind else kind)
            if kind != known:
                raise ValueError(f"position {t}: {key!r} is the {kind} {value!r}, but a {known} elsewhere")


def _columns(
    keys: dict[str, _Key], form: str, layout: Layout, members: tuple[array[int], array[int], list[str]]
) -> tuple[list[Column], Extra]:
    """Turn keys into dense columns, and indicators into sparse ones."""
    columns, sparse_rows, sparse_names, sparse_values = [], [], [], []
    n_numeric = sum(key.kind == "number" and not key.only_ones for key in keys.values())
    for name in list(keys):
        key = keys.pop(name)
        rows = np.array(key.rows, dtype=np.int64)
        if key.kind == "word":
            codes = np.full(layout.n_rows, -1, dtype=np.int32)
            found, categories = renumber(np.array(key.codes, dtype=np.int32), list(key.words.index))
            codes[rows] = found
            columns.append(Column(name, codes, categories))
            continue
        numbers = np.array(key.numbers, dtype=np.float64)
        is_rare = n_numeric > MANY_KEYS and len(rows) < RARE * layout.n_rows
        if form == "dicts" and len(rows) and (key.only_ones or is_rare):
            sparse_rows.append(rows)
            sparse_names += [name] * len(rows)
            sparse_values.append(numbers)
            continue
        values = np.full(layout.n_rows, np.nan)
        values[rows] = numbers
        columns.append(Column(name, values))
    at, which, names = members
    if len(at):
        sparse_rows.append(np.array(at, dtype=np.int64))
        sparse_names += [names[j] for j in which]
        sparse_values.append(np.ones(len(at)))
    if not sparse_rows:
        return columns, Extra()
    return columns, Extra(
        *indicator_matrix(np.concatenate(sparse_rows), sparse_names, np.concatenate(sparse_values), layout)
    )


def answer_jsonl(source: Source, data: SequenceData, answers: Answers, file: Any) -> None:
    """Write each object again with the keys ``predicted``, ``proba`` and ``kbest``."""
    row = 0
    lengths: Iterator[int] = iter(data.batch.lengths.tolist())
    for number, line in source.lines():
        if not line.strip() or number in data.bad_lines:
            continue
        record = json.loads(line)
        span = range(row, row + next(lengths))
        row = span.stop
        record["predicted"] = [answers.original(answers.labels[t]) for t in span]
        if answers.proba is not None:
            record["proba"] = [
                {k: round(float(p), 6) for k, p in zip(answers.classes, answers.proba[t], strict=True)} for t in span
            ]
        if answers.paths:
            record["kbest"] = [
                {"labels": [answers.original(path[t]) for t in span], "log_prob": round(float(score[span.start]), 6)}
                for path, score in zip(answers.paths, answers.path_scores, strict=True)
                if path[span.start]
            ]
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_jsonl(data: SequenceData, file: Any) -> None:
    """Write an object for each sequence: positions as objects, and labels."""
    for rows, labels in sequence_values(data):
        record: dict[str, Any] = {"x": rows}
        if data.batch.schema.form == "strings":
            record = {"x": "".join(row.get("x0", " ") for row in rows)}
        if data.label_codes is not None:
            record["y"] = labels
        file.write(json.dumps(record, ensure_ascii=False) + "\n")
