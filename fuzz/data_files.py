"""Data files of every format: small sound ones, damaged in many ways, read, written in other formats and labelled."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import seqboost
from fuzz.outcome import Finding, check_probabilities
from seqboost.cli.data import answers_of
from seqboost.exceptions import SeqboostError
from seqboost.files import FORMATS, Reading, read_sequences, write_answers, write_sequences

__all__ = ["label", "prepare", "run"]

SUFFIXES = (
    ".csv", ".tsv", ".conll", ".crfpp", ".crfsuite", ".jsonl", ".sparse", ".txt", ".parquet", ".arrow", ".feather",
    ".csv.gz", ".jsonl.bz2", ".conll.xz",
)  # fmt: skip
PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
LABELS = ("optional", "required", "ignore", "only")
ENCODINGS = ("utf-8", "utf-16", "utf-32", "latin-1", "cp037", "utf-8-sig")
NAMES = ("id", "speed", "room", "state", "label", "x", "wet", "", "speed ", "[b]", "p(go)", "predicted")
CELLS = (
    "1", "2.5", "-3e4", "0", "nan", "inf", "1e999", "NA", "", "true", "False", "go", "stop", "A", "ß", "2024-01-31",
    "1,5", "9" * 30, "9" * 5000, "\u202e", "\x1b[31m", "a\u2028b", '"', "'", "\\", "-0", "٣", "-DOCSTART-", "a:b",
    "a:1", "w:nan",
)  # fmt: skip
JUNK = (
    b"\0", b"\r", b"\n", b"\n\n", b"\t", b",", b";", b'"', b"\xff", b"\xc3", b"[", b"]", b"{", b"}", b":", b"\\", b"-",
    b"nan", b"1e999", b"9" * 400, b"9" * 5000, b" ", "ß".encode(), b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"null",
    b"true", b"[[[[", b"{}", b'"y"', b'"x"', b"\\ud800", b"-1", b"4294967296", b"99999999999999999999", b"PAR1",
    b"ARROW1",
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """A folder to write to, and a model."""

    folder: Path
    model: Any


def label(seed: int) -> str:
    """Name the format of a case."""
    return SUFFIXES[seed % len(SUFFIXES)]


def prepare(folder: Path) -> State:
    """Train a small model of a table."""
    rows = [[{"speed": float(t % 3), "room": "AB"[t % 2], "wet": t % 5 == 0} for t in range(9)] for _ in range(4)]
    model = seqboost.HMM().fit(rows, [["go" if t % 3 else "stop" for t in range(9)]] * 4)
    return State(folder, model)


def run(state: State, seed: int) -> str:
    """Write a file, and use it as the command line does."""
    rng = np.random.default_rng(seed)
    suffix = label(seed)
    path = state.folder / f"case{suffix}"
    content = MAKERS[suffix.split(".")[1]](rng)
    if rng.random() < 0.7:
        content = damaged(content, rng)
    if "." + suffix.rpartition(".")[2] in PACKED:
        content = PACKED["." + suffix.rpartition(".")[2]](content)
        if rng.random() < 0.5:
            content = damaged(content, rng)
    path.write_bytes(content)
    try:
        data = read_sequences(
            path, _reading(rng, suffix), labels=LABELS[rng.integers(4)], skip_bad=bool(rng.integers(2))
        )
        _check(data)
        kind = rng.random()
        if kind < 0.3:
            target = state.folder / f"out{list(FORMATS.values())[rng.integers(len(FORMATS))].suffixes[0]}"
            write_sequences(data, target)
            read_sequences(target)
        elif kind < 0.6:
            proba, k = bool(rng.integers(2)), int(rng.integers(3))
            answers = answers_of(state.model, data, proba=proba, k=k)
            if answers.proba is not None:
                check_probabilities([answers.proba])
            write_answers(path, data, answers, state.folder / f"out{suffix}")
    except SeqboostError as error:
        if len(str(error)) < 15:
            raise Finding(f"the message says nothing: {error}") from error
        return "refused"
    return "accepted"


def _reading(rng: np.random.Generator, suffix: str) -> Reading:
    """Draw options of the command line."""

    def names(n: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(NAMES[i] for i in rng.integers(4, size=n)))

    if rng.random() < 0.4:
        return Reading()
    if rng.random() < 0.5:
        return Reading(sequence="id", label="state") if rng.random() < 0.8 else Reading(features="words")
    return Reading(
        label=(None, "state", "0", "-1", "1", "9" * 30)[rng.integers(6)],
        sequence=(None, "id", "x")[rng.integers(3)],
        categorical=names(int(rng.integers(2))),
        numeric=names(int(rng.integers(2))),
        drop=names(int(rng.integers(2))),
        missing=(("go",), ("1", "NA"), ())[rng.integers(3)],
        header=bool(rng.random() < 0.8),
        delimiter=(None, ",", "\t", " ", ";")[rng.integers(5)],
        encoding=ENCODINGS[rng.integers(len(ENCODINGS))] if rng.random() < 0.3 else "utf-8",
        features=(None, None, "words")[rng.integers(3)],
    )


def _check(data: Any) -> None:
    """Check what every reader promises."""
    batch = data.batch
    if batch.n_rows != batch.offsets[-1] or np.isinf(batch.numeric).any() or (batch.lengths < 1).any():
        raise Finding("the batch is not what a batch should be")
    for codes, values in zip(batch.categorical.T, batch.categories, strict=True):
        if len(codes) and not -1 <= codes.min() <= codes.max() < max(len(values), 1):
            raise Finding("codes of categories are out of range")
    if data.label_codes is not None and len(data.labels) != batch.n_rows:
        raise Finding("there are not as many labels as positions")


# ------------------------------------------------------------------------------------------------ sound files


def _table(rng: np.random.Generator, delimiter: str) -> bytes:
    rows = _rows(rng)
    return "\n".join(delimiter.join(row) for row in rows).encode() + b"\n"


def _rows(rng: np.random.Generator) -> list[list[str]]:
    """Return a header and rows, most of them sensible."""
    rows = [["id", "speed", "room", "wet", "state"]]
    for i in range(int(rng.integers(1, 12))):
        rows.append([f"s{i // 4}", f"{rng.normal():.3f}", "AB"[i % 2], str(bool(i % 3)), ("go", "stop")[i % 2]])
    for _ in range(int(rng.integers(3))):
        row = rows[rng.integers(len(rows))]
        row[rng.integers(len(row))] = CELLS[rng.integers(len(CELLS))]
    if rng.random() < 0.1:
        rows[0] = [NAMES[i] for i in rng.integers(len(NAMES), size=5)]
    return rows


def _conll(rng: np.random.Generator) -> bytes:
    mark = " \t"[rng.integers(2)]
    lines = [mark.join(row[1:]) if i % 4 else "" for i, row in enumerate(_rows(rng))]
    return "\n".join([*lines, ""]).encode()


def _crfsuite(rng: np.random.Generator) -> bytes:
    lines = [f"{row[4]}\tw={row[2]}\tspeed:{row[1]}\t{row[3]}" if i % 4 else "" for i, row in enumerate(_rows(rng))]
    return "\n".join([*lines, ""]).encode()


def _jsonl(rng: np.random.Generator) -> bytes:
    form, lines = rng.integers(5), []
    for s in range(int(rng.integers(1, 4))):
        rows = _rows(rng)[1:]
        tags: Any = [row[4] for row in rows]
        x: Any = [{"speed": i / 3, "room": row[2], "wet": i % 3 == 0} for i, row in enumerate(rows)]
        if form == 1:
            x = [[i, row[2], None] for i, row in enumerate(rows)]
        elif form == 2:
            x = [row[2] for row in rows]
        elif form == 3:
            x, tags = "ab" * len(rows), "01" * len(rows)
        elif form == 4:
            x[0]["tags"] = ["p", "q"]
            x[-1]["speed"] = (10**400, None, True, [], {}, -(2**70), "a")[rng.integers(7)]
            tags[0] = (None, 1, True, 2**80, "\ud800", 1.5, [])[rng.integers(7)]
        record = {"x": x, "y": tags}
        if rng.random() < 0.1:
            record = {"words": [row[2] for row in rows], "speed": list(range(len(rows))), "labels": tags}
        lines.append(json.dumps(record, ensure_ascii=bool(s % 2) or form == 4))
    return ("\n".join(lines) + "\n").encode()


def _sparse(rng: np.random.Generator) -> bytes:
    n = int(rng.integers(1, 4))
    lines = [f"{n} 2 {rng.integers(5, 30)}"]
    for s in range(1, n + 1):
        for t in range(1, int(rng.integers(2, 5))):
            indices = sorted(rng.choice(5, 3, replace=False).tolist())
            lines.append(" ".join(map(str, [s, t, 3, *indices, t % 2])))
    return ("\n".join(lines) + "\n").encode()


def _text(rng: np.random.Generator) -> bytes:
    words = ["".join(rng.choice(list("abß "), int(rng.integers(1, 8)))) for _ in range(int(rng.integers(1, 6)))]
    return "".join(f"{word}\t{''.join('01'[i % 2] for i in range(len(word)))}\n" for word in words).encode()


def _arrow_table(rng: np.random.Generator) -> Any:
    """Return a table of Arrow with some of its many types."""
    import pyarrow as pa

    n = int(rng.integers(1, 30))
    numbers = rng.normal(size=n)
    kinds = {
        "float": lambda: pa.array(numbers, mask=rng.random(n) < 0.2),
        "half": lambda: pa.array(numbers.astype(np.float16)),
        "int": lambda: pa.array(rng.integers(-9, 9, n), mask=rng.random(n) < 0.2),
        "unsigned": lambda: pa.array(rng.integers(0, 2**63, n).astype(np.uint64)),
        "bool": lambda: pa.array(rng.random(n) < 0.5, mask=rng.random(n) < 0.2),
        "text": lambda: pa.array([CELLS[i] for i in rng.integers(len(CELLS), size=n)]),
        "large": lambda: pa.array(["a"] * n, pa.large_string()),
        "view": lambda: pa.array(["a" * 20] * n, pa.string_view()),
        "dictionary": lambda: pa.array([f"w{i}" for i in rng.integers(5, size=n)]).dictionary_encode(),
        "numbers": lambda: pa.array(rng.integers(5, size=n)).dictionary_encode(),
        "decimal": lambda: pa.array(rng.integers(-99, 99, n)).cast(pa.decimal128(30, 2)),
        "date": lambda: pa.array(np.arange(n).astype("datetime64[s]")),
        "list": lambda: pa.array([[1, 2]] * n),
        "struct": lambda: pa.array([{"a": 1}] * n),
        "binary": lambda: pa.array([b"\xff"] * n),
        "fixed": lambda: pa.array([b"ab"] * n, pa.binary(2)),
        "null": lambda: pa.nulls(n),
        "infinite": lambda: pa.array(np.where(numbers > 1, np.inf, numbers)),
    }
    columns = {
        "id": pa.array([f"s{i // 5}" for i in range(n)]),
        "speed": pa.array(numbers),
        "room": pa.array(["AB"[i % 2] for i in range(n)]),
        "wet": pa.array([i % 3 == 0 for i in range(n)]),
        "state": pa.array([("go", "stop", None)[i % 3] for i in range(n)]),
    }
    for _ in range(int(rng.integers(3))):
        name = list(columns)[rng.integers(len(columns))] if rng.random() < 0.4 else NAMES[rng.integers(len(NAMES))]
        columns[name] = kinds[list(kinds)[rng.integers(len(kinds))]]()
    return pa.table(columns)


def _parquet(rng: np.random.Generator) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    file = io.BytesIO()
    pa.parquet.write_table(
        _arrow_table(rng), file, compression=("none", "snappy", "gzip", "zstd", "lz4")[rng.integers(5)],
        use_dictionary=bool(rng.integers(2)), row_group_size=int(rng.integers(3, 40)),
        data_page_version=("1.0", "2.0")[rng.integers(2)],
    )  # fmt: skip
    return file.getvalue()


def _arrow(rng: np.random.Generator) -> bytes:
    import pyarrow as pa
    import pyarrow.ipc

    table, file = _arrow_table(rng), io.BytesIO()
    make = (pa.ipc.new_file, pa.ipc.new_stream)[rng.integers(2)]
    options = pa.ipc.IpcWriteOptions(compression=(None, "lz4", "zstd")[rng.integers(3)])
    with make(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=int(rng.integers(3, 40)))
    return file.getvalue()


MAKERS: dict[str, Callable[[np.random.Generator], bytes]] = {
    "csv": lambda rng: _table(rng, ",;|"[rng.integers(3)]), "tsv": lambda rng: _table(rng, "\t"), "conll": _conll,
    "crfpp": _conll, "crfsuite": _crfsuite, "jsonl": _jsonl, "sparse": _sparse, "txt": _text, "parquet": _parquet,
    "arrow": _arrow, "feather": _arrow,
}  # fmt: skip


# ----------------------------------------------------------------------------------------------------- damage


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with some damage: of single bytes, of lines, of the encoding, or cut short."""
    for _ in range(int(rng.integers(1, 4))):
        content = DAMAGES[rng.integers(len(DAMAGES))](content, rng)
    return content


def _span(content: bytes, rng: np.random.Generator) -> slice:
    at = int(rng.integers(len(content) + 1))
    return slice(at, at + int(rng.geometric(0.1)))


def _deleted(content: bytes, rng: np.random.Generator) -> bytes:
    span = _span(content, rng)
    return content[: span.start] + content[span.stop :]


def _inserted(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + JUNK[rng.integers(len(JUNK))] + content[at:]


def _repeated(content: bytes, rng: np.random.Generator) -> bytes:
    span = _span(content, rng)
    return content[: span.stop] + content[span] * int(rng.integers(1, 20)) + content[span.stop :]


def _flipped(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for at in rng.integers(len(content), size=min(len(content), int(rng.geometric(0.3)))).tolist():
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwritten(content: bytes, rng: np.random.Generator) -> bytes:
    """Put a number where another may have been."""
    value = (0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, int(rng.integers(2**40)))[rng.integers(7)]
    width = (1, 2, 4, 8)[rng.integers(4)]
    at = int(rng.integers(len(content) + 1))
    return content[:at] + (value % 256**width).to_bytes(width, "little") + content[at + width :]


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content) + 1))]


def _shuffled(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.split(b"\n")
    i, j = rng.integers(len(lines), size=2).tolist()
    lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def _encoded(content: bytes, rng: np.random.Generator) -> bytes:
    try:
        return content.decode().encode(ENCODINGS[rng.integers(len(ENCODINGS))], "replace")
    except UnicodeError:
        return content


def _line_ends(content: bytes, rng: np.random.Generator) -> bytes:
    return content.replace(b"\n", (b"\r", b"\r\n", b"\n\n", b"\x85", b"")[rng.integers(5)])


DAMAGES = (
    _deleted, _inserted, _inserted, _repeated, _flipped, _flipped, _overwritten, _overwritten, _cut, _shuffled,
    _encoded, _line_ends,
)  # fmt: skip
