"""Model files are untrusted input: files with a valid checksum and forged content are refused at load."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import seqboost
from fuzz.model_files import trained_model
from seqboost.estimators import persistence
from seqboost.exceptions import ModelFileError
from seqboost.files.reading import Reading
from seqboost.model import file as model_file
from seqboost.model import read_model, write_model
from seqboost.sequences import BatchSchema

ADDED_LATER = {"binner.policies", "binner.indicators_has_zero"}  # files of earlier versions do without


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """Return a function that gives header and arrays of a kind of model."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def saved(kind):
        header, arrays = read_model(trained_model(kind, folder)[0])
        return json.dumps(header), arrays

    def of(kind):
        header, arrays = saved(kind)
        return json.loads(header), dict(arrays)

    return of


@pytest.fixture
def load(monkeypatch):
    """Return a function that loads what is read from a file as these header and arrays."""

    def loaded(header, arrays):
        monkeypatch.setattr(persistence, "read_model", lambda _: (json.loads(json.dumps(header)), arrays))
        return seqboost.load("forged")

    return loaded


def refused(load, header, arrays, match="model"):
    with pytest.raises(ModelFileError, match=match):
        load(header, arrays)


@pytest.mark.parametrize("kind", ["sparse", "sparse weighted"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("feature_of", lambda a: np.where(a >= 0, a + 10**6, a).astype(a.dtype)),
        ("feature_of", lambda a: a[::-1].copy()),
        ("feature_of", lambda a: a - 5),
        ("n_negative", lambda a: a + 200),
        ("n_positive", lambda a: a + 200),
        ("n_positive", lambda a: a * 0 - 1),
        ("has_missing", lambda a: a + 7),
        ("has_zero", lambda a: a[:-1]),
        ("thresholds", lambda a: np.append(a, 1.0)),
        ("thresholds", lambda a: a * np.nan),
        ("threshold_start", lambda a: a * 10**9),
        ("threshold_start", lambda a: a + 1),
    ],
)
def test_indicator_coder_stays_within_its_arrays(document, load, kind, name, change):
    header, arrays = document(kind)
    changed = change(arrays[f"binner.indicators_{name}"])
    assert not np.array_equal(changed, arrays[f"binner.indicators_{name}"])
    refused(load, header, arrays | {f"binner.indicators_{name}": changed})


@pytest.mark.parametrize("order", [10**9, 2**31, 10**30, -1, True, 1.0, "1", None])
@pytest.mark.parametrize("kind", ["seen contexts", "factored per label", "HMM", "perceptron"])
def test_order_is_a_small_number(document, load, kind, order):
    header, arrays = document(kind)
    header.get("model", header)["order"] = order
    refused(load, header, arrays)


def test_labels_ask_for_no_more_memory_than_they_need(document, load):
    header, arrays = document("joint per label")
    for dtype in ("<U1000000000", "<U300000000", "O", "<M8[s]", "V8", "(9999,9999)f8", "<i8", 5):
        refused(load, header | {"classes_dtype": dtype}, arrays)
    long = ["a" * 10**6, *map(str, range(20))]
    refused(load, header | {"classes": long, "classes_dtype": "object"}, arrays, "strings of up to 1000000 characters")
    header["parameters"]["transitions"] = {"array": long}
    refused(load, header, arrays, "strings of up to 1000000 characters")


@pytest.mark.parametrize("offset", [10_001, 2**30, -(2**31)])
def test_windows_ask_for_no_more_memory_than_they_may(document, load, offset):
    header, arrays = document("joint per label")
    offsets = arrays["binner.window_offsets"].copy()
    offsets[-1] = offset
    refused(load, header, arrays | {"binner.window_offsets": offsets}, "window_offsets")


def test_windows_times_columns_are_limited(document, load):
    header, arrays = document("letters")
    n = 10_000
    header["schema"]["columns"] *= n
    binner = header["model"]["binner"]
    binner["column_names"] *= n
    binner["categories"] *= n
    arrays |= {
        "binner.column_kinds": np.ones(n, np.uint8),
        "binner.policies": np.zeros(n + 1, np.uint8),
        "binner.window_offsets": np.append(np.zeros(n), 10_000).astype(np.int32),
        "binner.window_start": np.append(np.arange(n + 1), n + 1),
    }
    refused(load, header, arrays, "too large")


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(estimator=["TreeCRF"]),
        lambda header: header.update(estimator={}),
        lambda header: header.update(seed=1e300),
        lambda header: header.update(seed="x"),
        lambda header: header.update(classes=[["a"], ["b"], {"c": 1}]),
        lambda header: header.update(classes=[["a"], [["b"]], ["c"]], classes_dtype="object"),
        lambda header: header.update(classes=["l0", "l0", "l2"]),
        lambda header: header.update(classes=[10**40, 1, 2], classes_dtype="<i8"),
        lambda header: header.update(classes=5),
        lambda header: header.update(parameters=[]),
        lambda header: header["parameters"].update(decoding=5),
        lambda header: header["parameters"].update(beam="x"),
        lambda header: header["parameters"].update(n_jobs=[]),
        lambda header: header["parameters"].update(sequence=[[]]),
        lambda header: header["parameters"].update(window={"labeler": ["Ridge", {}]}),
        lambda header: header["parameters"].update(window={"a": 1, "b": 2}),
        lambda header: header.update(best_iteration=1e300),
        lambda header: header.update(lasting=None),
        lambda header: header.update(history={"train_score": ["x"]}),
        lambda header: header.update(model=[]),
        lambda header: header["model"].update(binner=7),
        lambda header: header["model"]["binner"].update(column_names=[[], {}]),
        lambda header: header["model"]["binner"].update(categories=5),
        lambda header: header["model"]["binner"].update(indicator_names={"a": 1}),
        lambda header: header["schema"].update(columns=[1, 2]),
        lambda header: header["schema"].update(columns=header["schema"]["columns"][:1]),
        lambda header: header["schema"]["columns"][0].update(name=["a"]),
        lambda header: header["schema"]["columns"][0].update(kind="categorical"),
        lambda header: header["schema"]["columns"][0].update(holds=[{}]),
        lambda header: header["schema"].update(form=[]),
        lambda header: header["schema"].update(sparse_names=[["a"]]),
        lambda header: header["schema"].update(sparse_names=["a"]),
        lambda header: header["schema"].update(lists=[[]]),
        lambda header: header["schema"].update(sequence=[]),
    ],
)
def test_headers_raise_one_exception(document, load, change):
    header, arrays = document("joint per label")
    change(header)
    refused(load, header, arrays)


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, json.dumps(deep(150))])
def test_headers_hold_plain_finite_values(document, tmp_path, text):
    header, arrays = document("joint per label")
    path = tmp_path / "forged"
    write_model(path, header | {"extra": 12345.5}, arrays)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["header.json"] = members["header.json"].replace(b"12345.5", text.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = b"\0" * model_file.SEAL_LENGTH
    path.write_bytes(model_file._sealed(path.read_bytes()))
    with pytest.raises(ModelFileError, match="damaged"):
        seqboost.load(path)


def test_zip_bombs_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "bomb"
    names = [f"a{i}" for i in range(60)]
    manifest = {"format": "seqboost-model", "version": 3, "arrays": names, "header": {}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(manifest))
        for name in names:
            archive.writestr(f"arrays/{name}.npy", bytes(200_000))
        archive.comment = b"\0" * model_file.SEAL_LENGTH
    path.write_bytes(model_file._sealed(path.read_bytes()))
    monkeypatch.setattr(model_file, "_member_bytes", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(ModelFileError, match="declares more than it can hold"):
        seqboost.load(path)


def filled(value):
    return lambda a: np.full_like(a, value)


def first(value):
    def change(a):
        b = a.copy()
        b.reshape(-1)[0] = value
        return b

    return change


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("joint per label", "forest.value", first(np.nan)),
        ("joint per label", "forest.value", filled(1e30)),
        ("joint shared", "forest.value", filled(1e30)),
        ("joint per label", "forest.gain", first(np.inf)),
        ("joint per label", "forest.leaf_rows", first(-1)),
        ("joint per label", "table", first(np.inf)),
        ("joint per label", "table", first(1e30)),
        ("joint per label", "end", first(np.nan)),
        ("seen contexts", "table", first(-1e300)),
        ("linear start", "linear.value", first(3e38)),
        ("linear start", "linear.columns_high", first(1e300)),
        ("linear start", "linear.columns_scale", first(np.inf)),
        ("linear start", "linear.columns_boundary", first(2**27)),
        ("imputed", "binner.filling_numbers", first(np.inf)),
        ("HMM", "table", lambda a: a + 0.5),
        ("HMM", "table", first(np.nan)),
        ("HMM", "variance", first(0.0)),
        ("HMM", "variance", first(-1.0)),
        ("HMM", "mean", first(np.nan)),
        ("HMM records", "category_scores.0", lambda a: a + 1.0),
        ("HMM records", "present", lambda a: a - 1.0),
        ("HMM sparse", "absent", first(0.5)),
        ("IOHMM", "moves", first(np.nan)),
        ("IOHMM", "emits", filled(1e300)),
        ("perceptron", "table", first(1e300)),
        ("voted perceptron", "votes", first(0)),
        ("voted perceptron", "votes", filled(-1)),
        ("voted perceptron", "voters.value", first(np.nan)),
        ("voted perceptron", "voters.table", first(np.inf)),
        ("coded cascade", "code", first(2)),
        ("FutureFeatureMEMM", "effects", first(np.nan)),
        ("FutureFeatureMEMM", "table", first(-np.inf)),
    ],
)
def test_numbers_that_would_give_wrong_probabilities(document, load, kind, name, change):
    header, arrays = document(kind)
    assert arrays[name].size
    refused(load, header, arrays | {name: change(arrays[name])})


def test_models_of_bits_are_those_of_two_labels(document, load):
    header, arrays = document("coded cascade")
    for change in (
        lambda header: header.update(cascade=1.5),
        lambda header: header.update(offsets=[0]),
        lambda header: header.update(offsets=[[1]]),
        lambda header: header["bits"].__setitem__(0, 2),
        lambda header: header["bits"].__setitem__(0, None),
        lambda header: header["bits"][0].update(classes=[1, 0]),
        lambda header: header["bits"][0].update(estimator=[]),
        lambda header: header["parameters"].update(n_jobs="x"),
    ):
        changed = json.loads(json.dumps(header))
        change(changed)
        refused(load, changed, arrays)


def test_memm_has_no_seen_contexts(document, load):
    header, arrays = document("seen contexts")
    header["estimator"] = "MEMM"
    for name in ("method",):
        del header["parameters"][name]
    refused(load, header, arrays, "seen contexts")


@pytest.mark.parametrize(
    "kind",
    ["records", "indicator", "surrogates", "seen contexts", "linear start", "FutureFeatureMEMM", "HMM records",
     "IOHMM", "voted perceptron", "coded cascade"],
)  # fmt: skip
def test_type_and_shape_of_every_array_are_checked(document, load, kind):
    header, arrays = document(kind)
    load(header, arrays)
    for name, array in arrays.items():
        other = {"f": np.longdouble, "i": np.int16, "u": np.int8, "b": np.uint8}[array.dtype.kind]
        for changed in (array.astype(other), array[None], array.astype("S4")):
            refused(load, header, arrays | {name: changed})
        if len(array):
            refused(load, header, arrays | {name: array[:-1]})
        # An array that belongs to an optional part is missed unless the whole part is gone.
        if not any(name.endswith(added) for added in ADDED_LATER) and name != "voters.value":
            refused(load, header, {other: kept for other, kept in arrays.items() if other != name})


def test_reading_of_a_model_file_is_checked():
    assert Reading.from_json({"format": "csv", "drop": ["a"], "header": False}).drop == ("a",)
    for name, value in (("format", 5), ("drop", "abc"), ("drop", [1]), ("header", "x"), ("encoding", None)):
        with pytest.raises(ModelFileError, match=f"{name}="):
            Reading.from_json({name: value})


def test_prediction_uses_no_intrinsics_that_address_memory():
    source = Path(seqboost.__file__).parent
    for room in ("sequences", "features", "chain", "model"):
        for module in (source / room).rglob("*.py"):
            text = module.read_text(encoding="utf-8")
            assert "trees.intrinsics" not in text, module
            assert "@intrinsic" not in text, module


def test_names_of_sparse_columns_are_distinct():
    with pytest.raises(ModelFileError, match="two sparse columns have one name"):
        BatchSchema.from_json({"columns": [], "sparse_names": ["a", "a"], "form": "dicts"})
