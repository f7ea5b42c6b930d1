"""The model file: round trips, damage of every kind, and writing that leaves nothing behind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pytest

from seqboost.exceptions import ModelFileError
from seqboost.model import file as model_file
from seqboost.model import read_model, write_model

HEADER = {"labels": ["α", "b"], "order": 1, "nested": {"x": [1, 2.5, None, True]}}


def arrays():
    rng = np.random.default_rng(0)
    return {
        "words": rng.integers(0, 2**64, 50, dtype=np.uint64),
        "value": rng.normal(size=(4, 3)).astype(np.float32),
        "nan": np.array([np.nan, -0.0, np.inf]),
        "zeros": np.zeros(2000),
        "empty": np.zeros((0, 3), np.int32),
        "scalar": np.array(7),
        "flags": np.array([True, False]),
        "text": np.array(["é", "longer"]),
        "bytes": np.array([b"ab", b"c"]),
        "group/part.1": np.arange(3, dtype=np.int8),
        "big_endian": np.arange(5, dtype=">i4"),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    }


@pytest.fixture
def path(tmp_path):
    write_model(tmp_path / "m.seqboost", HEADER, arrays())
    return tmp_path / "m.seqboost"


def reseal(path, members):
    """Write a forged file: any members, and a seal that is right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
        archive.comment = b"\0" * model_file.SEAL_LENGTH
    path.write_bytes(model_file._sealed(buffer.getvalue()))


def manifest(**changes):
    content = {"format": "seqboost-model", "version": 1, "arrays": ["a"], "header": {}}
    return json.dumps({**content, **changes})


def npy(array, **kwargs):
    buffer = io.BytesIO()
    np.save(buffer, array, **kwargs)
    return buffer.getvalue()


def test_round_trip_is_bitwise(path):
    header, read = read_model(path)
    assert header == HEADER
    assert list(read) == list(arrays())
    for name, array in arrays().items():
        assert read[name].dtype == array.dtype.newbyteorder("=")
        assert read[name].shape == array.shape
        assert read[name].tobytes() == np.asarray(array, dtype=read[name].dtype, order="C").tobytes()
        assert read[name].flags.c_contiguous


def test_same_model_same_bytes(path, tmp_path):
    write_model(tmp_path / "again", HEADER, arrays())
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_is_a_plain_zip(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert json.loads(archive.read("header.json"))["format"] == "seqboost-model"


def test_every_flipped_byte_is_noticed(path):
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    places = {*rng.integers(0, len(content), 150).tolist(), *range(40), *range(len(content) - 120, len(content))}
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="model file"):
            read_model(path)


def test_every_truncation_is_noticed(path):
    content = path.read_bytes()
    n = len(content)
    for length in {*range(0, n, n // 150), 1, 3, 64, n - 1, n - 100}:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match="model file"):
            read_model(path)


def test_appended_bytes_are_noticed(path):
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelFileError, match="end is missing or changed"):
        read_model(path)


def test_messages_say_what_and_how_to_mend(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="no model file .*nowhere.* check the path"):
        read_model(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="is a folder.* name the file inside"):
        read_model(tmp_path)
    (tmp_path / "foreign").write_text("hello, I am a text of some length, longer than any seal could possibly be" * 3)
    with pytest.raises(ModelFileError, match="foreign' is not a seqboost model file"):
        read_model(tmp_path / "foreign")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ModelFileError, match="it is empty.* save the model again"):
        read_model(tmp_path / "empty")
    if os.path.exists("/dev/zero"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            read_model("/dev/zero")


def test_newer_version(path, monkeypatch):
    monkeypatch.setattr(model_file, "FORMAT_VERSION", 7)
    write_model(path, HEADER, {})
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="newer seqboost .file format 7.*upgrade"):
        read_model(path)
    newer = manifest(version=model_file.FORMAT_VERSION + 1)
    reseal(path, [("header.json", newer), ("arrays/a.npy", npy(np.arange(3)))])
    with pytest.raises(ModelFileError, match="newer seqboost"):
        read_model(path)


GOOD = npy(np.arange(3))


class Evil:
    """Pickles to a call."""

    def __reduce__(self):
        return (os.mkdir, ("pwned",))


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ([("arrays/a.npy", GOOD)], "'header.json' is missing"),
        ([("header.json", manifest())], "parts are not those"),
        ([("header.json", manifest()), ("arrays/a.npy", GOOD), ("extra", b"")], "parts are not those"),
        ([("header.json", "{"), ("arrays/a.npy", GOOD)], "cannot be read"),
        ([("header.json", b"\xff\xfe\xff"), ("arrays/a.npy", GOOD)], "cannot be read"),
        ([("header.json", "[" * 9000), ("arrays/a.npy", GOOD)], "cannot be read|more than it can hold"),
        ([("header.json", "[]"), ("arrays/a.npy", GOOD)], "header is not that"),
        ([("header.json", manifest(format="other")), ("arrays/a.npy", GOOD)], "header is not that"),
        ([("header.json", manifest(header=3)), ("arrays/a.npy", GOOD)], "lacks the list"),
        ([("header.json", manifest(arrays=[["a"]])), ("arrays/a.npy", GOOD)], "damaged"),
        ([("header.json", manifest(version="1")), ("arrays/a.npy", GOOD)], "format version '1'"),
        ([("header.json", manifest()), ("arrays/a.npy", b"")], "cannot be read"),
        ([("header.json", manifest()), ("arrays/a.npy", GOOD[:-1])], "not what it declares"),
        ([("header.json", manifest()), ("arrays/a.npy", GOOD + b"x")], "not what it declares"),
        ([("header.json", manifest()), ("arrays/a.npy", GOOD.replace(b"(3,)", b"(9,)"))], "not what it declares"),
        ([("header.json", manifest()), ("arrays/a.npy", GOOD.replace(b"<i8", b"|O8"))], "not what it|cannot be read"),
        ([("header.json", manifest()), ("arrays/a.npy", GOOD.replace(b"<i8", b"<M8"))], "not what it declares"),
        ([("header.json", manifest()), ("arrays/a.npy", npy(np.zeros(10**6)))], "declares more than it can hold"),
    ],
)
def test_forged_files(path, members, complaint):
    reseal(path, members)
    with pytest.raises(ModelFileError, match=complaint):
        read_model(path)


def test_objects_are_never_unpickled(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = npy(np.array([Evil()], dtype=object), allow_pickle=True)
    reseal(path, [("header.json", manifest()), ("arrays/a.npy", evil)])
    with pytest.raises(ModelFileError, match="damaged"):
        read_model(path)
    assert not os.path.exists("pwned")


def test_part_that_stands_twice(path):
    with pytest.warns(UserWarning, match="Duplicate"):
        reseal(path, [("header.json", manifest()), ("arrays/a.npy", GOOD), ("arrays/a.npy", GOOD)])
    with pytest.raises(ModelFileError, match="twice"):
        read_model(path)


def test_declared_size_that_is_too_small_or_large(path):
    reseal(path, [("header.json", manifest()), ("arrays/a.npy", GOOD)])
    content = bytearray(path.read_bytes()[: -model_file.SEAL_LENGTH] + b"\0" * model_file.SEAL_LENGTH)
    size = len(GOOD).to_bytes(4, "little")
    for wrong in (1, len(GOOD) + 1, 2**31):
        changed = bytes(content).replace(size, wrong.to_bytes(4, "little"))
        assert changed != bytes(content)
        path.write_bytes(model_file._sealed(changed))
        with pytest.raises(ModelFileError, match="damaged"):
            read_model(path)


def test_seal_is_sha256_of_all_before(path):
    content = path.read_bytes()
    body = content[: -model_file.DIGEST_LENGTH]
    assert content.endswith(hashlib.sha256(body).hexdigest().encode())


@pytest.mark.parametrize(
    ("header", "array", "error", "match"),
    [
        ({"x": object()}, np.arange(2), TypeError, "serializable"),
        ({"x": float("nan")}, np.arange(2), ValueError, "JSON"),
        ({}, np.array([None]), TypeError, "array 'a' has dtype object"),
        ({}, np.zeros(2, dtype=[("x", "i4")]), TypeError, "expected plain numbers"),
    ],
)
def test_refused_content_leaves_the_old_file(path, header, array, error, match):
    before = path.read_bytes()
    with pytest.raises(error, match=match):
        write_model(path, header, {"a": array})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_bad_array_name(path):
    with pytest.raises(ValueError, match="array name '../x' cannot be stored"):
        write_model(path, {}, {"../x": np.arange(2)})


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_failed_write_leaves_the_old_file(path, monkeypatch, step):
    before = path.read_bytes()

    def fail(*_args):
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_model(path, {}, {})
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_write_to_a_folder_or_nowhere(tmp_path):
    with pytest.raises(ModelFileError, match="it is a folder; name a file inside it"):
        write_model(tmp_path, {}, {})
    with pytest.raises(FileNotFoundError):
        write_model(tmp_path / "no" / "m", {}, {})
    assert os.listdir(tmp_path) == []


def test_write_through_a_link(path):
    link = path.parent / "link"
    link.symlink_to(path)
    write_model(link, {"new": 1}, {})
    assert link.is_symlink()
    assert read_model(path)[0] == {"new": 1}
