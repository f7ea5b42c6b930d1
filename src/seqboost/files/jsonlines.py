"""JSON lines: an object for each sequence.

A sequence stands in it in one of these ways::

    {"x": [{"word": "the", "size": 3}, {"word": "cat"}], "y": ["D", "N"]}        dicts: a column for each key
    {"x": [[0.1, 2.5], [0.3, null]], "y": [0, 1]}                                rows of values
    {"x": ["the", "cat"], "y": ["D", "N"]}                                       one value for each position
    {"x": "banana", "y": "010101"}                                               characters
    {"words": ["the", "cat"], "pos": ["DT", "NN"], "labels": ["D", "N"]}         columns: all lists of one length

A value that is always true (or 1) is an indicator; so are the strings of a list, as ``key=string``, and a lone string
under a key that has lists elsewhere. null is missing, in the place of a list it is an empty one: all as with dicts in
Python.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.files.building import Rows
from seqboost.files.keys import Keys, Position
from seqboost.files.output import sequence_values
from seqboost.files.reading import Answers, Reading, SequenceData, check_rows, label_values, made
from seqboost.files.source import Source

__all__ = ["answer_jsonl", "read_jsonl", "write_jsonl"]

INPUT_KEYS = ("x", "X", "features", "text")
LABEL_KEYS = ("y", "labels", "tags", "label")
HALF = re.compile(r"\\u[dD][89a-fA-F]")
FORMS = {"dict": "dicts", "columns": "dicts", "row": "arrays", "value": "scalars", "text": "strings"}


def read_jsonl(sources: Sequence[Source], reading: Reading, labels: str) -> SequenceData:
    """Read JSON lines; see :func:`seqboost.files.read_sequences`."""
    keys = Keys(reading.drop)
    tags = Rows([])
    tag_codes = array("i")
    form = ""
    for source in sources:
        for number, line in source.lines():
            if not line.strip():
                continue
            try:
                found, positions, sequence_labels = _sequence(line, reading, labels)
                if form and found != form:
                    raise ValueError(f"the sequence is given as {found}, but those before as {form}")
                keys.add(keys.kept(positions), source, number)
            except (ValueError, RecursionError) as error:
                source.report(number, str(error) or type(error).__name__, "see seqboost.files.jsonlines for the forms")
                continue
            form = found
            tag_codes.extend(tags.labels.index[json.dumps(label)] for label in sequence_labels)
    check_rows(keys.n_rows, sources)
    for key, was_there in keys.dropped.items():
        if not was_there:
            raise sources[0].stop(f"it has no key {key!r} to be dropped; its keys are {', '.join(keys.names)}")
    layout = keys.layout()
    columns, extra = keys.columns(layout, is_sparse=FORMS[form] == "dicts")
    of_rows: tuple[Any, tuple[Any, ...]] = (None, ())
    if len(tag_codes) == layout.n_rows:
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
    except ValueError:  # Python converts integers of up to 4300 digits
        raise ValueError("it has an integer of thousands of digits; write a number that a float can hold") from None
    if HALF.search(line):
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise ValueError(f"it has half of a character, {half!r}; write both halves of it") from None
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
        if any(list in map(type, row) for row in value):
            raise ValueError(f"the rows of {key!r} hold lists; only objects may (a list of strings under a key)")
        return "row", [{f"x{j}": cell for j, cell in enumerate(row)} for row in value]
    if kinds & {dict, list}:
        raise ValueError(f"the positions of {key!r} should all be of one kind (objects, lists or values)")
    return "value", [{"x0": element} for element in value]


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
