"""Files that are damaged, or made to do damage: an error of ours that names the file, never the end of the process."""

import bz2
import gzip
import subprocess
import sys
import tracemalloc

import pytest

from seqboost.exceptions import DataFileError
from seqboost.files import Reading, read_sequences
from seqboost.files.source import LONGEST_LINE

READ = """
import sys
from seqboost.exceptions import DataFileError
from seqboost.files import Reading, read_sequences

def watch(done, total):
    with open(sys.argv[1], "r+b") as file:
        file.truncate(2000)

try:
    read_sequences(sys.argv[1], Reading(sequence="id"), watch=watch if sys.argv[2:] else None)
except DataFileError as error:
    print(error)
"""


def read_elsewhere(path, *more):
    """Read a file in a process of its own; return what it complains about."""
    done = subprocess.run([sys.executable, "-c", READ, str(path), *more], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout


@pytest.fixture
def table():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"id": [f"s{i // 10}" for i in range(3000)], "word": [f"w{i:06}" for i in range(3000)]})


def write_arrow(table, path, **options):
    import pyarrow as pa

    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, **options)
    return path


def test_offsets_out_of_range(tmp_path, table):
    path = write_arrow(table, tmp_path / "d.arrow")
    content = path.read_bytes()
    offsets = b"".join((7 * i).to_bytes(4, "little") for i in range(100, 110))  # of the column of words
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, offsets[:20] + b"\xff\xff\xff\x7f" + offsets[24:]))
    assert "d.arrow: it cannot be read as a table" in read_elsewhere(path)


def test_text_that_is_none(tmp_path, table):
    path = write_arrow(table, tmp_path / "d.arrow")
    path.write_bytes(path.read_bytes().replace(b"w000500", b"w\xff00500"))
    assert "d.arrow: it cannot be read as a table" in read_elsewhere(path)


def test_names_that_are_no_text(tmp_path, table):
    path = write_arrow(table, tmp_path / "d.arrow")
    path.write_bytes(path.read_bytes().replace(b"word", b"w\xffrd"))
    assert "d.arrow: it cannot be read as Arrow" in read_elsewhere(path)


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path, table):
    path = write_arrow(table, tmp_path / "d.arrow", max_chunksize=100)
    assert "d.arrow: it cannot be read as a table" in read_elsewhere(path, "truncate")


@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_a_file_that_ends_anywhere(tmp_path, table, suffix):
    from pyarrow import parquet

    path = tmp_path / f"d.{suffix}"
    (write_arrow if suffix == "arrow" else parquet.write_table)(table, path)
    content = path.read_bytes()
    for share in (0.02, 0.3, 0.7, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(DataFileError, match=f"d.{suffix}: it cannot be read as"):
            read_sequences(path, Reading(sequence="id"))


@pytest.mark.parametrize("error", [SystemError("null result"), OverflowError("too large"), KeyError("x")])
def test_whatever_pyarrow_raises(tmp_path, table, monkeypatch, error):
    import pyarrow as pa

    path = write_arrow(table, tmp_path / "d.arrow")

    def fail(*_):
        raise error

    monkeypatch.setattr(pa.ipc, "open_file", fail)
    with pytest.raises(DataFileError, match="d.arrow: it cannot be read as Arrow"):
        read_sequences(path)


@pytest.fixture(scope="module")
def endless():
    """A packed line of 264 MiB without an end."""
    return gzip.compress(b"x" * (LONGEST_LINE + (200 << 20)), compresslevel=1)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("d.csv", b"a,label\n"), ("d.csv", b"a,label\r"), ("d.tsv", b"a\tlabel\n"), ("d.conll", b"a b\n"),
        ("d.crfsuite", b"a\tb\n"), ("d.jsonl", b'{"x": "ab"}\n'), ("d.sparse", b"9 9 9\n"), ("d.txt", b"a\tb\n"),
    ],
)  # fmt: skip
def test_a_line_without_end_is_refused_early(tmp_path, endless, name, first):
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(first) + endless)
    tracemalloc.start()
    with pytest.raises(DataFileError, match="line of more than 64 MiB"):
        read_sequences(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.5 * LONGEST_LINE  # the file holds 264 MiB


def test_a_wide_line_without_end(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(("x" * (LONGEST_LINE + 1)).encode("utf-16"))
    with pytest.raises(DataFileError, match="line of more than 64 MiB"):
        read_sequences(path, Reading(encoding="utf-16"))


def test_a_line_just_short_enough_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("seqboost.files.source.LONGEST_LINE", 100)
    path = tmp_path / "d.txt"
    path.write_text("a" * 99 + "\nb\n", encoding="utf-8")
    assert read_sequences(path).batch.lengths.tolist() == [99, 1]
    path.write_text("a" * 100 + "\nb\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="line of more than"):
        read_sequences(path)


def test_damaged_bz2(tmp_path):
    path = tmp_path / "d.txt.bz2"
    content = bytearray(bz2.compress(b"banana\t010101\n" * 100))
    content[30] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="packed file is damaged"):
        read_sequences(path)


@pytest.mark.parametrize("encoding", ["base64", "rot13", "none", "utf-8\0"])
def test_encodings_that_are_none_of_text(tmp_path, encoding):
    path = tmp_path / "d.txt"
    path.write_text("ab\t01\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="there is no encoding"):
        read_sequences(path, Reading(encoding=encoding))


@pytest.mark.parametrize("delimiter", ["", "ab", "\n", '"'])
def test_delimiters_that_are_none(tmp_path, delimiter):
    path = tmp_path / "d.csv"
    path.write_text("a,label\n1,x\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="cannot stand between cells"):
        read_sequences(path, Reading(delimiter=delimiter))


def test_half_a_character_in_json(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"x": "ab", "y": ["\\ud83d\\ude00", "b"]}\n{"x": "ab", "y": ["\\ud800", "b"]}\n', encoding="utf-8")
    with pytest.raises(DataFileError, match=r"line 2: it has half of a character, '\\ud800'"):
        read_sequences(path)
    assert read_sequences(path, skip_bad=True).labels == ["😀", "b"]


def test_numbers_of_sequences_take_no_memory(tmp_path):
    path = tmp_path / "d.sparse"
    many = 10**30
    path.write_text(f"{many} 2 5\n1 1 1 3 0\n1 2 1 3 1\n{many} 1 1 4 0\n", encoding="utf-8")
    assert read_sequences(path).batch.lengths.tolist() == [2, 1]
    path.write_text(f"1 2 5\n1 1 1 {'9' * 5000} 0\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="expected whole numbers"):
        read_sequences(path)


@pytest.mark.parametrize("digits", [30, 5000])
def test_labels_of_many_digits(tmp_path, digits):
    path = tmp_path / "d.csv"
    path.write_text(f"x,label\n1,{'9' * digits}\n2,5\n", encoding="utf-8")
    assert list(map(type, read_sequences(path).labels)) == [int if digits < 1000 else str] * 2
