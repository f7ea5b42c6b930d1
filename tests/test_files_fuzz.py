"""Files changed at random are read, or refused by an error of ours; never anything else."""

import gzip

import numpy as np
import pytest
from damaged_files import CONLL, CRFSUITE, JSONL, SPARSE, TEXT, parquet, table

from seqboost.exceptions import SeqboostError
from seqboost.files import FORMATS, Reading, read_sequences, write_sequences

FILES = {
    "d.csv": table(),
    "d.tsv": table(delimiter="\t"),
    "d.conll": CONLL,
    "d.crfpp": CONLL.replace(b" ", b"\t"),
    "d.crfsuite": CRFSUITE,
    "d.jsonl": JSONL + b'{"x": [{"w": "b", "n": 2.5, "tags": ["p"]}], "y": [null]}\n',
    "d.sparse": SPARSE,
    "d.txt": TEXT,
    "d.csv.gz": gzip.compress(table()),
    "d.parquet": parquet(),
}
READINGS = [Reading(), Reading(sequence="id", label="state"), Reading(features="words")]
SPICE = [
    b"\0", b"\r", b"\n", b"\t", b",", b'"', b"\xff", b"\xc3", b"[", b"]", b"{", b"}", b":", b"\\", b"-", b"nan",
    b"1e999", b"9" * 400, b" ", "ß".encode(), b"\xef\xbb\xbf",
]  # fmt: skip
LABELS = ("optional", "required", "ignore")
TABLES = ("csv", "tsv", "parquet", "arrow")


def damaged(content, rng):
    """Return bytes with a few cuts, repetitions and strange bytes."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(len(content) + 1))
        kind = rng.integers(4)
        if kind == 0:
            del content[at : at + int(rng.integers(1, 20))]
        elif kind == 1:
            content[at:at] = SPICE[rng.integers(len(SPICE))]
        elif kind == 2:
            content[at:at] = content[at : at + int(rng.integers(1, 40))]
        else:
            content = content[:at] if rng.random() < 0.3 else content
    return bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_no_other_error_than_ours(name, tmp_path):
    rng = np.random.default_rng(sum(name.encode()))
    path = tmp_path / name
    n_read, messages = 0, []
    for trial in range(150):
        path.write_bytes(damaged(FILES[name], rng))
        reading = READINGS[trial % 3]
        for skip_bad in (False, True):
            try:
                data = read_sequences(path, reading, labels=LABELS[trial % 5 % 3], skip_bad=skip_bad)
            except SeqboostError as error:
                messages.append(str(error))
                continue
            n_read += 1
            assert data.batch.n_rows == data.batch.offsets[-1]
            assert not np.isinf(data.batch.numeric).any()
            if data.label_codes is not None:
                assert len(data.labels) == data.batch.n_rows
    assert n_read > 0
    assert all(len(message) > 20 for message in messages)


@pytest.mark.parametrize("name", ["d.csv", "d.conll", "d.jsonl", "d.crfsuite", "d.txt"])
def test_what_is_read_can_be_written_in_every_format(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    data = read_sequences(tmp_path / name)
    for known in FORMATS.values():
        target = tmp_path / f"o{known.suffixes[0]}"
        try:
            write_sequences(data, target)
        except SeqboostError:
            assert not target.exists()
            continue
        again = read_sequences(target, Reading(sequence="sequence" if known.name in TABLES else None))
        assert again.batch.lengths.tolist() == data.batch.lengths.tolist()
