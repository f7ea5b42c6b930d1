"""Damaged input files of every kind, each with the command that meets it and what the command must say.

``python tests/damaged_files.py FOLDER`` writes them all, to be tried by hand.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DAMAGES", "Damage", "good_table", "write_damage"]


@dataclass(frozen=True)
class Damage:
    """Files, the command that is given them, the exit code, and a pattern of the message."""

    name: str
    files: dict[str, bytes]
    args: tuple[str, ...]
    code: int
    message: str


def good_table(n_sequences: int = 6, length: int = 8) -> list[list[str]]:
    """Return the rows of a small, sound table."""
    rows = [["id", "speed", "room", "state"]]
    for s in range(n_sequences):
        for t in range(length):
            state = "go" if (t + s) % 4 < 2 else "stop"
            rows.append([f"s{s}", str((3.5 if state == "go" else 0.5) + t / 10), "AB"[t % 2], state])
    return rows


def table(change=lambda rows: None, delimiter: str = ",") -> bytes:
    """Return a table in which something was changed."""
    rows = good_table()
    change(rows)
    return "\n".join(delimiter.join(row) for row in rows).encode() + b"\n"


def cell(row: int, column: int, text: str):
    """Return a change of one cell."""

    def change(rows: list[list[str]]) -> None:
        rows[row][column] = text

    return change


def parquet(change=lambda columns: None) -> bytes:
    """Return a Parquet file in which something was changed."""
    import pyarrow as pa
    import pyarrow.parquet

    header, *rows = good_table()
    columns = {name: [row[j] for row in rows] for j, name in enumerate(header)}
    columns["speed"] = [float(x) for x in columns["speed"]]
    change(columns)
    buffer = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


CONLL = "".join(f"the DT B-NP\ncat NN I-NP\nsat{i} VB B-VP\n\n" for i in range(4)).encode()
CRFSUITE = b"A\tw=the\tn:2\nB\tw=cat\n\nA\tw=a\nB\tw=dog\n"
JSONL = b'{"x": [{"w": "the"}, {"w": "cat"}], "y": ["A", "B"]}\n'
SPARSE = b"2 2 5\n1 1 2 0 3 0\n1 2 1 4 1\n2 1 0 1\n"
TEXT = b"banana\t010101\nfig\t010\n"
TRAIN = ("--model", "m.seqboost")
CSV = ("train", "d.csv", "--sequence", "id", "--label", "state", *TRAIN)
BAD, USAGE = 1, 2


def csv(name: str, content: bytes, message: str, *more: str, code: int = BAD) -> Damage:
    """Return damage to a table that a model is trained from."""
    return Damage(name, {"d.csv": content}, (*CSV, *more), code, message)


def other(name: str, file: str, content: bytes, message: str, *more: str, code: int = BAD) -> Damage:
    """Return damage to another kind of file that a model is trained from."""
    return Damage(name, {file: content}, ("train", file, *TRAIN, *more), code, message)


def record(**values: object) -> bytes:
    """Return a sound line of JSON, and one with these values."""
    return JSONL + json.dumps(values).encode() + b"\n"


def damages() -> list[Damage]:
    """Return all kinds of damage."""
    packed = gzip.compress(table())
    return [
        csv("empty table", b"", "'d.csv' is empty; expected at least one line"),
        csv("header alone", b"id,speed,room,state\n", "d.csv holds no position"),
        csv("blank lines alone", b"\n\n\n", "d.csv: "),
        csv("cell missing", table(lambda r: r[9].pop()), r"d.csv, line 10: expected 4 cells.*got 3"),
        csv("cell too many", table(lambda r: r[9].append("x")), r"d.csv, line 10: expected 4 cells.*got 5"),
        csv("quote never closed", table(cell(20, 2, '"A')), r"d.csv, line 49: unexpected end of data.*quotes"),
        csv("text behind a quote", table(cell(20, 2, '"A"b')), r"d.csv, line 21: .*quotes"),
        csv("number damaged", table(cell(7, 1, "1.2.3")), r"line 8: column 'speed' holds numbers, but here '1.2.3'"),
        csv("number with a unit", table(cell(48, 1, "3 m/s")), r"line 49: column 'speed' holds numbers.*categorical"),
        csv("decimal comma", table(cell(5, 1, "1,5"), ";"), r"line 6: .*but here '1,5'.*decimal points"),
        csv("infinite number", table(cell(5, 1, "-inf")), r"line 6: column 'speed' holds '-inf', expected a finite"),
        csv("name twice", table(cell(0, 2, "speed")), r"has the column 'speed' 2 times"),
        csv("column without a name", table(cell(0, 2, "")), r"column 3 has no name in the header"),
        csv("label column missing", table(cell(0, 3, "stat")), r"no column 'state', which should be the label.*'stat'"),
        csv("sequence column missing", table(cell(0, 0, "nr")), r"no column 'id', which should be the sequence"),
        csv("sequence missing in a row", table(cell(12, 0, "")), r"line 13 has nothing in the sequence column 'id'"),
        csv("nothing to learn from", table(), "no column is left to learn from", "--drop", "speed,room"),
        csv("no label at all", table(lambda r: [x.__setitem__(3, "") for x in r[1:]]), "no label that is not empty"),
        csv("one label only", table(lambda r: [x.__setitem__(3, "go") for x in r[1:]]), "only one class, 'go'"),
        csv(
            "another encoding",
            table(cell(4, 2, "B\xe4r")).replace(b"\xc3", b""),
            r"line 5: byte \d+ is not valid utf-8",
        ),
        csv("UTF-16", table().decode().encode("utf-16"), "the text is UTF-16, not utf-8; give encoding='utf-16'"),
        csv("unknown encoding", table(), "there is no encoding 'utf-9'", "--encoding", "utf-9"),
        csv("zero bytes", table(cell(4, 2, "A\0")), "line 5: it holds a zero byte"),
        csv("a picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), "d.csv"),
        csv(
            "dates",
            table(lambda r: [x.__setitem__(2, "2024-05-01 10:00") for x in r[1:]]),
            "'room' holds dates or times",
        ),
        csv("unknown column dropped", table(), "no column 'rooms', which should be dropped", "--drop", "rooms"),
        csv("unknown categorical column", table(), "no column 'x', which should be categorical", "--categorical", "x"),
        csv(
            "all lines bad",
            b"id,speed,room,state\n1,2\n3,4\n",
            r"all 2 lines were bad, the first one because",
            "--skip-bad",
        ),
        csv("wrong delimiter", table(), "no column 'state'", "--delimiter", ";"),
        csv("parameter that makes no sense", table(), "'max_iter' parameter", "--max-iter", "0", code=USAGE),
        csv(
            "setting that does not exist", table(), "--set depth=3: expected name=value", "--set", "depth=3", code=USAGE
        ),
        csv("window that is no window", table(), "not valid JSON", "--window", "[1", code=USAGE),
        Damage(
            "label and sequence one column",
            {"d.csv": table()},
            ("train", "d.csv", "--sequence", "id", "--label", "id", *TRAIN),
            BAD,
            "cannot be both label and sequence",
        ),
        Damage(
            "packed file cut short",
            {"d.csv.gz": packed[:-20]},
            ("train", "d.csv.gz", "--sequence", "id", "--label", "state", *TRAIN),
            BAD,
            "damaged or cut short",
        ),
        Damage(
            "packed file that is not packed",
            {"d.csv.gz": table()},
            ("train", "d.csv.gz", "--sequence", "id", "--label", "state", *TRAIN),
            BAD,
            "damaged or cut short",
        ),
        Damage("no such file", {}, ("train", "d.csv", *TRAIN), BAD, "there is no file 'd.csv'"),
        Damage("a folder", {"d.csv/x": b""}, ("train", "d.csv", *TRAIN), BAD, "'d.csv' is a folder"),
        other("unknown suffix", "d.dat", table(), "format of 'd.dat' cannot be told from its suffix"),
        other("unknown format", "d.csv", table(), "there is no format 'excel'", "--format", "excel"),
        Damage(
            "two formats",
            {"a.csv": table(), "b.conll": CONLL},
            ("train", "a.csv", "b.conll", *TRAIN),
            BAD,
            "are of different formats",
        ),
        Damage(
            "two tables with other columns",
            {"a.csv": table(), "b.csv": table(cell(0, 1, "pace"))},
            ("train", "a.csv", "b.csv", "--sequence", "id", "--label", "state", *TRAIN),
            BAD,
            "but those of a.csv are",
        ),
        other("column missing in a line", "d.conll", CONLL + b"the DT\n", r"line 17: expected 3 columns.*got 2"),
        other("one column", "d.conll", b"the\ncat\n", "only one column, expected at least two"),
        other("empty lines alone", "d.conll", b"\n\n", "d.conll holds no position"),
        other("documents without words", "d.conll", b"-DOCSTART- -X- O\n\n", "d.conll holds no position"),
        other("label column out of reach", "d.conll", CONLL, "it has no column '7'", "--label", "7"),
        other("names for other columns", "d.conll", CONLL, "has 3 columns, expected 2", "--columns", "word,tag"),
        other(
            "tags that break the scheme",
            "d.conll",
            CONLL,
            "does not fit the scheme 'BIOES'|forbids",
            "--transitions",
            "BIOES",
        ),
        other(
            "tags of no scheme",
            "d.conll",
            CONLL.replace(b"B-VP", b"verb"),
            "'verb' does not fit the scheme",
            "--transitions",
            "IOB2",
            code=USAGE,
        ),
        other("no tabs", "d.crfsuite", b"A w=the n:2\n", "line 1: there is no tab"),
        other("attribute without its number", "d.crfsuite", CRFSUITE + b"A\ttime=10:15h\n", r"line 6: .*':number'"),
        other("empty label", "d.crfsuite", CRFSUITE + b"\tw=x\n", "line 6: the label is empty"),
        other("infinite attribute", "d.crfsuite", CRFSUITE + b"A\tn:inf\n", "line 6: .*not a finite number"),
        other("not JSON", "d.jsonl", JSONL + b"{'x': 1}\n", r"line 2: this is not JSON"),
        other("JSON cut short", "d.jsonl", JSONL + JSONL[:30], r"line 2: this is not JSON"),
        other("an array", "d.jsonl", JSONL + b"[1, 2]\n", "line 2: expected an object"),
        other(
            "labels too few", "d.jsonl", record(x=[{"w": "a"}, {"w": "b"}], y=["A"]), "'y' has 1 labels for 2 positions"
        ),
        other("no labels", "d.jsonl", record(x=[{"w": "a"}]), "line 2: there is no key 'y' with the labels"),
        other(
            "number among words",
            "d.jsonl",
            record(x=[{"w": 3}], y=["A"]),
            "position 0: 'w' is the number 3, but a word",
        ),
        other(
            "number among lists",
            "d.jsonl",
            record(x=[{"t": ["p"]}, {"t": 3}], y=["A", "B"]),
            "line 2: position 1: 't' is the number 3, but a list",
        ),
        other(
            "integer of 400 digits",
            "d.jsonl",
            JSONL + b'{"x": [{"n": 1' + b"0" * 400 + b'}], "y": ["A"]}\n',
            "line 2: position 0: 'n' is an integer too large for a float",
        ),
        other("empty sequence", "d.jsonl", record(x=[], y=[]), "line 2: the sequence is empty"),
        other(
            "object in an object", "d.jsonl", record(x=[{"w": {"a": 1}}], y=["A"]), "is itself an object; flatten it"
        ),
        other("not a number", "d.jsonl", JSONL + b'{"x": [{"n": NaN}], "y": ["A"]}\n', "'n' is not a finite number"),
        other("rows of two lengths", "d.jsonl", b'{"x": [[1, 2], [3]], "y": [0, 1]}\n', "rows of 'x' differ in length"),
        other(
            "lists of two lengths", "d.jsonl", b'{"a": [1, 2], "b": [3], "y": [0, 1]}\n', "its lists differ in length"
        ),
        other("mixed forms", "d.jsonl", record(x="ab", y="01"), "given as text, but those before as dict"),
        other("nested too deeply", "d.jsonl", b'{"x": ' + b"[" * 100_000 + b"\n", "d.jsonl, line 1: "),
        other("no header", "d.sparse", SPARSE[6:], "expected a first line of three numbers"),
        other("index too few", "d.sparse", SPARSE.replace(b"1 1 2 0 3 0", b"1 1 3 0 3 0"), "line 2: expected sequence"),
        other(
            "index out of range", "d.sparse", SPARSE.replace(b"1 4 1", b"1 9 1"), "line 3: index 9 is not one of the 5"
        ),
        other("sequences missing", "d.sparse", b"9" + SPARSE[1:], "announces 9 sequences, but it ends in sequence 2"),
        other("word among numbers", "d.sparse", SPARSE + b"2 2 1 x 1\n", "line 5: expected whole numbers, got 'x'"),
        other(
            "positions out of order", "d.sparse", SPARSE + b"1 3 1 2 1\n", "line 5: position 3 of sequence 1 follows"
        ),
        other("text without labels", "d.txt", TEXT + b"pear\n", "line 3: there are no labels after 'pear'"),
        other("label missing", "d.txt", TEXT + b"pear\t010\n", "line 3: 'pear' has 4 characters but 3 labels"),
        other("labels without text", "d.txt", TEXT + b"\t010\n", "line 3: there is no text before the tab"),
        other("Parquet cut short", "d.parquet", parquet()[:-40], "cannot be read as Parquet"),
        other("Parquet that is none", "d.parquet", table(), "cannot be read as Parquet"),
        other("Arrow that is none", "d.arrow", table(), "cannot be read as Arrow"),
        other(
            "lists in a table",
            "d.parquet",
            parquet(lambda c: c.update(room=[[1.0]] * 48)),
            "column 'room' holds values of type list",
            "--sequence",
            "id",
            "--label",
            "state",
        ),
        Damage("no model", {"d.csv": table()}, ("predict", "none.seqboost", "d.csv"), BAD, "there is no model file"),
        Damage(
            "model that is none",
            {"d.csv": table(), "bad.seqboost": b"hello"},
            ("predict", "bad.seqboost", "d.csv"),
            BAD,
            "is not a seqboost model file",
        ),
        Damage(
            "column that training had",
            {"d.csv": table(cell(0, 1, "pace"))},
            ("predict", "good.seqboost", "d.csv", "--output", "out.csv"),
            BAD,
            "no column 'speed', which should be a",
        ),
        Damage(
            "words where numbers were",
            {"d.csv": table(cell(30, 1, "fast"))},
            ("predict", "good.seqboost", "d.csv", "--output", "out.csv"),
            BAD,
            "line 31: column 'speed' holds numbers",
        ),
        Damage(
            "no folder for the output",
            {"d.csv": table()},
            ("predict", "good.seqboost", "d.csv", "--output", "none/out.csv"),
            BAD,
            "there is no folder",
        ),
        Damage(
            "no folder for the model",
            {"d.csv": table()},
            ("train", "d.csv", "--sequence", "id", "--label", "state", "--model", "none/m.seqboost"),
            BAD,
            "there is no folder 'none'",
        ),
        Damage(
            "no labels to evaluate by",
            {"d.csv": table(cell(0, 3, "condition"))},
            ("evaluate", "good.seqboost", "d.csv"),
            BAD,
            "no column 'state', which should be the label",
        ),
        Damage(
            "tags of another scheme",
            {"d.csv": table()},
            ("evaluate", "good.seqboost", "d.csv", "--scheme", "IOB2"),
            BAD,
            "no tag of the scheme IOB2",
        ),
        Damage(
            "predictions of another file",
            {"d.csv": table(), "p.csv": b"predicted\ngo\nstop\n"},
            ("evaluate", "good.seqboost", "d.csv", "--against", "p.csv"),
            BAD,
            "p.csv has 2 labels, but 48 positions",
        ),
        Damage(
            "predictions that are none",
            {"d.csv": table()},
            ("evaluate", "good.seqboost", "d.csv", "--against", "d.csv"),
            BAD,
            "no column 'predicted'",
        ),
        Damage(
            "no such sequence",
            {"d.csv": table()},
            ("inspect", "good.seqboost", "d.csv", "--sequence", "6"),
            BAD,
            "there is no sequence 6: X has 6",
        ),
        Damage(
            "no such label",
            {"d.csv": table()},
            ("inspect", "good.seqboost", "d.csv", "--against", "fly"),
            USAGE,
            "the model has no label 'fly'",
        ),
        Damage(
            "format that cannot hold it",
            {"d.crfsuite": CRFSUITE},
            ("convert", "d.crfsuite", "--output", "d.csv"),
            BAD,
            "cannot hold sparse features",
        ),
        Damage(
            "scheme that the tags break",
            {"d.conll": CONLL},
            ("convert", "d.conll", "--from-scheme", "BIOES", "--to-scheme", "IOB3", "--output", "o.conll"),
            USAGE,
            "unknown scheme 'IOB3'",
        ),
        Damage("option that does not exist", {}, ("train", "d.csv", "--modle", "m"), USAGE, "No such option"),
    ]


DAMAGES = damages()


def write_damage(damage: Damage, folder: Path) -> None:
    """Write the files of one kind of damage."""
    for name, content in damage.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    for number, one in enumerate(DAMAGES):
        place = Path(sys.argv[1]) / f"{number:02d}_{one.name.replace(' ', '_')}"
        place.mkdir(parents=True, exist_ok=True)
        write_damage(one, place)
        (place / "COMMAND.txt").write_text("seqboost " + " ".join(one.args) + "\n", encoding="utf-8")
