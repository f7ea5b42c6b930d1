"""Data sets by name: where they are looked for, what is downloaded, and what the real ones hold."""

import gzip
import hashlib
import io
import os
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

from seqboost import datasets
from seqboost.datasets import registry, storage
from seqboost.datasets.dataset import SequenceDataset, published, rotated
from seqboost.exceptions import DataFileError, InputError, MissingExtraError, ParameterError

HAS_DATA = Path(os.environ.get("SEQBOOST_DATA", "/nowhere")).is_dir()
needs_data = pytest.mark.skipif(not HAS_DATA, reason="SEQBOOST_DATA names no folder of data sets")

# sequences (train, test), positions (train, test), labels; as the data's own README counts them
COUNTS = {
    "load_protein": ((111, 17), (18105, 3520), 3),
    "load_hyphen": ((1951, 908), (12049, 5836), 2),
    "load_nettalk": ((1000, 1000), (7230, 7242), 134),
    "load_conll2000": ((8936, 2012), (211727, 47377), 23),  # one tag occurs in the test part only
    "load_ncbi_disease": ((5432, 940), (136086, 24497), 3),
    "load_occupancy": ((1, 2), (8143, 12417), 2),
}


@needs_data
@pytest.mark.parametrize("name", COUNTS)
def test_published_splits_have_the_published_sizes(name):
    sequences, positions, n_labels = COUNTS[name]
    found = getattr(datasets, name)()
    split = found.split()
    assert (len(split.X_train), len(split.X_test)) == sequences
    assert (sum(map(len, split.y_train)), sum(map(len, split.y_test))) == positions
    assert len(np.unique(np.concatenate(found.y))) in (n_labels, n_labels - 1)


@needs_data
def test_recordings_take_turns():
    for load, n_sequences, n_positions, n_folds in (
        (datasets.load_rfid_activity, 87, 75128, 5),
        (datasets.load_gesture_phase, 7, 9873, 7),
        (datasets.load_letters, 6877, 52152, 10),
    ):
        found = load()
        assert (len(found.X), sum(map(len, found.y)), len(found.folds)) == (n_sequences, n_positions, n_folds)
        for train, test in found.folds:
            assert sorted([*train, *test]) == list(range(n_sequences))
    assert len(datasets.load_gesture_phase("raw").X[0][0]) == 18
    assert len(np.unique(np.concatenate(datasets.load_gesture_phase("raw").y))) == 5
    assert len(datasets.load_letters("large").split().X_train) > 6000


@needs_data
def test_forms_of_nettalk():
    forms = [datasets.load_nettalk(target).y for target in ("stress", "binary", "phoneme", "full")]
    for stress, binary, phoneme, full in zip(*forms, strict=True):
        assert [p + s for p, s in zip(phoneme, stress, strict=True)] == full.tolist()
        assert [int(s in "12") for s in stress] == binary.tolist()
    dictionary = datasets.load_nettalk("stress", "dictionary")
    assert len(dictionary.X) == 20007
    assert "gunpowder" not in dictionary.X


def test_choices_are_checked():
    for call, message in (
        (lambda: datasets.load_nettalk("tone"), "target='tone': expected one of 'stress'"),
        (lambda: datasets.load_nettalk("full", "all"), "words='all'"),
        (lambda: datasets.load_letters("tiny"), "protocol='tiny'"),
        (lambda: datasets.load_gesture_phase("x"), "part='x'"),
    ):
        with pytest.raises(ParameterError, match=message):
            call()


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data, an empty cache, and a pooch that gives what the test puts into ``served``."""
    monkeypatch.delenv("SEQBOOST_DATA", raising=False)
    monkeypatch.setenv("SEQBOOST_CACHE", str(tmp_path / "cache"))
    served: dict[str, bytes] = {}

    def retrieve(url, known_hash, path, progressbar):
        if url not in served:
            raise ConnectionError("no route to host")
        path.mkdir(parents=True, exist_ok=True)
        (path / "fetched").write_bytes(served[url])
        return str(path / "fetched")

    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=retrieve))
    return served


PROTEIN = b"#\n<>\nG _\nV e\nend\n<>\nA h\n"


def with_set(monkeypatch, name, **values):
    monkeypatch.setitem(registry.SETS, name, registry.DataSet("made up", "Free.", **values))


def test_the_users_folder_comes_first(nowhere, tmp_path, monkeypatch):
    for place in (tmp_path / "mine" / "protein", tmp_path / "cache" / "data" / "protein"):
        place.mkdir(parents=True)
        for part in ("train", "test"):
            text = PROTEIN if "mine" in str(place) else PROTEIN.replace(b"G", b"K")
            (place / f"protein-secondary-structure.{part}").write_bytes(text)
    assert datasets.load_protein().X == ["KV", "A"] * 2
    monkeypatch.setenv("SEQBOOST_DATA", str(tmp_path / "mine"))
    found = datasets.load_protein()
    assert found.X == ["GV", "A"] * 2
    assert [y.tolist() for y in found.y[:2]] == [["_", "e"], ["h"]]


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_downloaded_is_checked_and_kept(nowhere, monkeypatch, packed):
    url = "https://example.org/words.txt" + ".gz" * packed
    content = b"a\tb\n"
    with_set(monkeypatch, "made", files={"words.txt": registry.DataFile(url, hashlib.sha256(content).hexdigest())})
    nowhere[url] = gzip.compress(content) if packed else content
    (path,) = storage.data_files("made", "words.txt")
    assert path.read_bytes() == content
    nowhere.clear()  # from now on it is in the cache
    assert storage.data_files("made", "words.txt") == [path]
    assert not list(storage.cache_folder().glob("downloads/*"))


def test_something_else_is_not_kept(nowhere, monkeypatch):
    with_set(monkeypatch, "made", files={"f": registry.DataFile("https://example.org/f", "0" * 64)})
    nowhere["https://example.org/f"] = b"a page that says: not found"
    with pytest.raises(DataFileError, match="is not what was expected"):
        storage.data_files("made", "f")
    assert not list(storage.cache_folder().rglob("f"))


def test_members_of_an_archive(nowhere, monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("top/S1/d1", "top/S1/d2", "top/README", "top/S1/d../../../evil"):
            archive.writestr(name, name)
    members = {"S1/d1": b"top/S1/d1", "S1/d2": b"top/S1/d2"}
    source = registry.DataFile("https://example.org/a.zip", storage.digest(members), (("top/S1/d", "S1/d"),))
    with_set(monkeypatch, "made", archive=source)
    nowhere[source.url] = buffer.getvalue()
    assert [path.name for path in storage.find_files("made", "S1/*")] == ["d1", "d2"]


def test_without_network_the_message_says_what_to_do(nowhere, monkeypatch):
    with pytest.raises(DataFileError, match=r"could not be downloaded .*Is there a network\?.*SEQBOOST_DATA/protein"):
        datasets.load_protein()
    with pytest.raises(DataFileError, match=r"hyphen/sparse.hyphen.6.train is not here .* no archive"):
        datasets.load_hyphen()
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r'pip install "seqboost\[datasets\]"'):
        datasets.load_rfid_activity()


@needs_data
def test_registered_checksums_are_those_of_the_data():
    root = Path(os.environ["SEQBOOST_DATA"])
    for name, known in registry.SETS.items():
        for file, source in known.files.items():
            assert hashlib.sha256((root / name / file).read_bytes()).hexdigest() == source.sha256, file
        if known.archive is not None:
            places = {place for _, place in known.archive.members}
            files = [path for path in (root / name).rglob("*") if path.is_file()]
            names = {path.relative_to(root / name).as_posix(): path for path in files}
            members = {n: path.read_bytes() for n, path in names.items() if any(n.startswith(p) for p in places)}
            assert storage.digest(members) == known.archive.sha256, name


def test_a_set_checks_itself():
    with pytest.raises(InputError, match="made: sequence 1 has 2 positions but 1 labels"):
        SequenceDataset("made", ["a", "bc"], [np.array([0]), np.array([1])], [])
    found = published("made", (["ab"], [np.array([0, 1])]), (["c"], [np.array([1])]))
    assert repr(found) == "SequenceDataset(made: 2 sequences, 3 positions, 2 labels)"
    assert found.split().X_test == ["c"]


def test_every_recording_is_tested_once():
    folds = rotated(10, 3)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(10))
    assert all(not set(train) & set(test) for train, test in folds)
