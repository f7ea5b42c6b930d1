"""Fuzz target: model files with a valid checksum whose content is forged.

A few dozen small models of every kind are trained once. A case takes one of them, changes one or more of its arrays,
fields of its header or members of its zip, seals the file anew, loads it and predicts.
"""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import seqboost
from fuzz.outcome import Finding, check_probabilities
from seqboost import (
    HMM,
    IOHMM,
    MEMM,
    FutureFeatureMEMM,
    LinearCRF,
    Method,
    OutputCoding,
    TreeCRF,
    VotedPerceptron,
    inspection,
)  # fmt: skip
from seqboost.exceptions import ModelFileError, SeqboostError
from seqboost.model import file as model_file
from seqboost.model import read_model

__all__ = ["forge", "kinds", "prepare", "run", "trained_model"]

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sample:
    """A model file as it should be, and sequences of its kind."""

    name: str
    header: str
    arrays: Arrays
    X: Any
    y: Any


@dataclass(frozen=True)
class State:
    """All samples, and where forged files are written."""

    samples: list[Sample]
    path: Path


# ------------------------------------------------------------------------------------------------------ the samples


def _numbers(n_labels: int = 3, n: int = 12, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Return sequences of two numbers, some missing, and labels that shift the first."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(1, 9, n):
        labels = rng.integers(n_labels, size=length)
        rows = rng.normal(size=(length, 2)) + np.column_stack([labels, np.zeros(length)])
        rows[rng.random(rows.shape) < 0.1] = np.nan
        X.append(rows)
        y.append([f"l{k}" for k in labels.tolist()])
    return X, y


def _records(n: int = 14, n_ids: int = 6, seed: int = 1) -> tuple[list[Any], list[Any]]:
    """Return sequences of dicts: words, numbers, tags, rare keys, missing values."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(2, 7, n):
        sequence = []
        for _ in range(length):
            word = str(rng.choice(list("abcd")))
            tags = [str(tag) for tag in rng.choice(["p", "q", "r", "s"], size=rng.integers(0, 3))]
            record = {"word": word, "id": f"i{rng.integers(n_ids)}", "tags": tags, "size": float(rng.normal())}
            if rng.random() < 0.2:
                record["rare"] = float(rng.choice([-2.0, -1.0, 0.0, 1.0, 2.5, np.nan]))
            if rng.random() < 0.2:
                record["size"] = None
            sequence.append(record)
        X.append(sequence)
        y.append(["B" if r["word"] == "a" else "I" if r["word"] == "b" and t else "O" for t, r in enumerate(sequence)])
    for labels in y:  # "I" follows "B" or "I" alone
        for t in range(len(labels)):
            if labels[t] == "I" and (t == 0 or labels[t - 1] == "O"):
                labels[t] = "B"
    return X, y


def _matrices(n: int = 10, seed: int = 2) -> tuple[list[Any], list[Any]]:
    """Return sparse matrices with values of both signs and explicit NaN."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(2, 7, n):
        dense = np.where(rng.random((length, 6)) < 0.4, rng.choice([-2.0, -1.0, 1.0, 2.0, 3.0, np.nan], (length, 6)), 0)
        X.append(sp.csr_array(dense))
        y.append((dense[:, 0] > 0).astype(int).tolist())
    return X, y


def _words(n: int = 14, seed: int = 3) -> tuple[list[str], list[str]]:
    """Return strings, each letter a position."""
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("abcde"), size=rng.integers(1, 8))) for _ in range(n)]
    return X, ["".join("v" if c in "ae" else "c" for c in word) for word in X]


def _later(n: int = 60, seed: int = 4) -> tuple[list[str], list[Any]]:
    """Return strings whose labels depend on letters that come later."""
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("abx"), 12, p=[0.5, 0.4, 0.1])) for _ in range(n)]
    return X, [[c == "a" and "x" in word[t + 1 : t + 6] for t, c in enumerate(word)] for word in X]


def _tree(**parameters: Any) -> TreeCRF:
    common = {"max_iter": 3, "min_samples_leaf": 1, "max_leaf_nodes": 5, "early_stopping": False, "random_state": 0}
    return TreeCRF(**{**common, "window": 1, "n_jobs": 1, **parameters})


def kinds() -> dict[str, tuple[Callable[[], tuple[Any, Any]], Any]]:
    """Return every kind of model file: its data and a labeller to train on them."""
    small: dict[str, Any] = {"max_iter": 3, "min_samples_leaf": 1, "max_leaf_nodes": 5, "random_state": 0, "n_jobs": 1}
    tuples = [("a", 1), ("b", 2), ("c", 3)]
    joint, factored = {"potentials": "joint", "init": "labels"}, {"potentials": "factored", "init": "labels"}
    voted = VotedPerceptron(method="voted", n_voters=3, max_iter=3, random_state=0, n_jobs=1)
    found: dict[str, tuple[Callable[[], tuple[Any, Any]], Any]] = {
        "joint per label": (_numbers, _tree(**joint, trees="per_label")),
        "joint shared": (_numbers, _tree(**joint, trees="shared")),
        "joint order 2": (_numbers, _tree(**joint, order=2, trees="per_label", decoding="viterbi")),
        "joint order 0": (_numbers, _tree(**joint, order=0)),
        "class weights": (_numbers, _tree(**joint, class_weight="balanced")),
        "joint beam": (lambda: _numbers(5), _tree(**joint, order=2, method=Method(beam=3))),
        "factored per label": (_numbers, _tree(**factored, trees="per_label")),
        "factored shared": (_numbers, _tree(**factored, trees="shared", order=2)),
        "many labels": (lambda: _numbers(40, 30), _tree(**factored, trees="shared", max_iter=2)),
        "very many labels": (lambda: _numbers(70, 60), _tree(**joint, trees="per_label", max_iter=1)),
        "many leaves": (lambda: _numbers(3, 60), _tree(**joint, max_leaf_nodes=90, trees="per_label", max_iter=2)),
        "seen contexts": (_numbers, _tree(method=Method(contexts="seen"), order=3, init="labels")),
        "seen constrained": (
            _records,
            _tree(method=Method(contexts="seen"), order=2, transitions="IOB2", init="labels"),
        ),
        "linear start": (_records, _tree(init="linear", potentials="factored", trees="shared")),
        "linear numbers": (_numbers, _tree(init="linear", potentials="joint")),
        "records": (_records, _tree(**joint, trees="per_label", transitions="IOB2")),
        "wide categories": (lambda: _records(140, 400), _tree(**factored, trees="per_label", window={"id": 1})),
        "imputed": (_records, _tree(**joint, missing="impute")),
        "indicator": (_records, _tree(potentials="joint", missing="indicator", init="linear")),
        "weighted": (_numbers, _tree(**factored, missing="instance_weighting")),
        "surrogates": (_numbers, _tree(**joint, missing="surrogate", trees="shared")),
        "sparse": (_matrices, _tree(**joint)),
        "sparse weighted": (_matrices, _tree(**factored, missing="instance_weighting")),
        "sparse imputed": (_matrices, _tree(**factored, missing="indicator")),
        "letters": (_words, _tree(window=2)),
        "tuples": (lambda: (_numbers()[0], [[tuples[int(k[1])] for k in part] for part in _numbers()[1]]), _tree()),
        "early stopping": (lambda: _numbers(3, 40), _tree(early_stopping=True, potentials="factored", init="labels")),
        "MEMM": (_numbers, MEMM(**small, window=1, early_stopping=False)),
        "MEMM factored": (_records, MEMM(**small, potentials="factored", order=2, early_stopping=False)),
        "FutureFeatureMEMM": (_later, FutureFeatureMEMM(**{**small, "max_iter": 20}, bag_size=5)),
        "FutureFeatureMEMM order 0": (lambda: _later(120), FutureFeatureMEMM(order=0, random_state=0, n_jobs=1)),
        "HMM": (_numbers, HMM(n_jobs=1)),
        "HMM records": (_records, HMM(order=2, n_jobs=1, decoding="viterbi")),
        "HMM sparse": (_matrices, HMM(order=0, n_jobs=1)),
        "IOHMM": (_words, IOHMM(max_iter=2, random_state=0, n_jobs=1)),
        "IOHMM records": (_records, IOHMM(max_iter=1, n_states=2, window=1, random_state=0, n_jobs=1)),
        "perceptron": (_records, VotedPerceptron(method="averaged", max_iter=3, random_state=0, window=1, n_jobs=1)),
        "voted perceptron": (_numbers, voted),
        "coded HMM": (_words, OutputCoding(HMM(n_jobs=1), code="one_vs_rest", random_state=0, n_jobs=1)),
        "coded cascade": (lambda: _numbers(5), OutputCoding(HMM(), n_bits=4, cascade=1, random_state=0, n_jobs=1)),
        "coded trees": (_numbers, OutputCoding(_tree(max_iter=1), n_bits=3, random_state=0, n_jobs=1)),
    }
    if find_spec("pycrfsuite") is not None:
        found["LinearCRF"] = (_records, LinearCRF(max_iter=5, window=1, n_jobs=1))
    return found


def trained_model(name: str, folder: Path) -> tuple[Path, Any, Any]:
    """Return the file of a small model, which is trained unless it is there, and sequences with their labels."""
    data, model = kinds()[name]
    X, y = data()
    path = folder / f"{name.replace(' ', '_')}.seqboost"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y).save(path)  # in one step: another worker may be at it too
    return path, X[:4], y[:4]


def prepare(folder: Path) -> State:
    """Train the models, or take those that another worker has trained."""
    samples = []
    for name in kinds():
        path, X, y = trained_model(name, folder.parent / "trained_models")
        header, arrays = read_model(path)
        samples.append(Sample(name, json.dumps(header), arrays, X, y))
    folder.mkdir(parents=True, exist_ok=True)
    return State(samples, folder / "forged.seqboost")


# --------------------------------------------------------------------------------------------------------- forging

NUMBERS = (-1, 0, 1, 2, 3, 7, 63, 64, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64, 10**9, 10**40, -(2**31))
FLOATS = (0.5, -0.0, 1e-320, 1e-30, 1e5, 1e10, 1e30, 1e38, 1e300, 1.7e308, -1e30, np.nan, np.inf, -np.inf)
TEXTS = ("", "x", "\0", "é" * 300, "object", "<U1000000000", "<U4", "<f8", "|O", "<M8[s]", "nan", "posterior", "auto")
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "f16", "U3", "S2", ">i4", ">f8")


def _strange(rng: np.random.Generator) -> Any:
    """Return some JSON value."""
    values: list[Callable[[], Any]] = [
        lambda: None,
        lambda: bool(rng.integers(2)),
        lambda: NUMBERS[rng.integers(len(NUMBERS))],
        lambda: FLOATS[rng.integers(len(FLOATS))],
        lambda: TEXTS[rng.integers(len(TEXTS))],
        list,
        dict,
        lambda: [NUMBERS[rng.integers(len(NUMBERS))] for _ in range(3)],
        lambda: [[], [None], {"a": []}],
        lambda: {str(rng.choice(["array", "tuple", "dict", "labeler", "x"])): _strange(rng)},
        lambda: _nested(int(rng.choice([3, 90, 200]))),
    ]
    return values[rng.integers(len(values))]()


def _nested(depth: int) -> Any:
    value: Any = []
    for level in range(depth):
        value = [value] if level % 2 else {"tuple": value}
    return value


def _places(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Collect every place of a JSON tree as (container, key or number)."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        found.append((node, key))
        _places(node[key], found)
    return found


def _forge_header(rng: np.random.Generator, header: Header) -> None:
    """Change one place of the header."""
    places = _places(header, [])
    if rng.random() < 0.5:  # long lists of categories or names would take nearly all cases
        level: Any = header
        while True:
            keys = list(level) if isinstance(level, dict) else list(range(len(level)))
            key = keys[rng.integers(len(keys))]
            if not isinstance(level[key], (dict, list)) or not level[key] or rng.random() < 0.2:
                node = level
                break
            level = level[key]
    else:
        node, key = places[rng.integers(len(places))]
    value = node[key]
    match int(rng.integers(10)):
        case 0:
            del node[key]
        case 1:
            other, elsewhere = places[rng.integers(len(places))]
            node[key] = json.loads(json.dumps(other[elsewhere]))
        case 2 if isinstance(node, dict):
            node[str(rng.choice(["x", "labeler", "tuple", "format", "filling"]))] = _strange(rng)
        case 2:
            node.insert(int(rng.integers(len(node) + 1)), _strange(rng))
        case 3 if isinstance(value, list) and value:
            value.append(json.loads(json.dumps(value[rng.integers(len(value))])))
        case 4 if isinstance(value, list) and value:
            value.pop(int(rng.integers(len(value))))
        case 5 if isinstance(value, (int, float)) and not isinstance(value, bool):
            node[key] = value + [-1, 1, 2, 0.5, -value, 1e9][rng.integers(6)]
        case 6 if isinstance(value, (int, float)):
            node[key] = NUMBERS[rng.integers(len(NUMBERS))]
        case 7 if isinstance(value, (int, float)):
            node[key] = FLOATS[rng.integers(len(FLOATS))]
        case 8 if isinstance(value, str):
            node[key] = TEXTS[rng.integers(len(TEXTS))]
        case _:
            node[key] = _strange(rng)


def _forge_array(rng: np.random.Generator, arrays: Arrays) -> None:
    """Change one array."""
    names = list(arrays)
    name = names[rng.integers(len(names))]
    array = arrays[name].copy()
    flat = array.reshape(-1)
    match int(rng.integers(14)):
        case 0:
            del arrays[name]
            return
        case 1:
            other = names[rng.integers(len(names))]
            arrays[name], arrays[other] = arrays[other], arrays[name]
            return
        case 2:
            with np.errstate(over="ignore", invalid="ignore"):
                array = array.astype(DTYPES[rng.integers(len(DTYPES))])
        case 3:
            array = array[: rng.integers(len(array) + 1)] if array.ndim else array
        case 4:
            array = np.concatenate([array, array[: rng.integers(1, 4)]]) if array.ndim else array
        case 5:
            array = [array.reshape(-1), array[None], array[..., None], array.T, array.reshape(-1)[:0]][rng.integers(5)]
        case 6 if flat.size:
            array = np.asarray(flat[0])
        case 7 if flat.size:
            flat[:] = _extreme(rng, flat)
        case 8 if flat.size:
            rng.shuffle(flat)
        case 9 if flat.size > 1:
            i, j = rng.integers(flat.size, size=2)
            flat[i], flat[j] = flat[j], flat[i]
        case 10 if flat.size:
            raw = flat.view(np.uint8)
            raw[rng.integers(raw.size)] ^= np.uint8(1 << rng.integers(8))
        case _ if flat.size:
            for _ in range(int(rng.choice([1, 1, 1, 3]))):
                flat[rng.integers(flat.size)] = _extreme(rng, flat)
    arrays[name] = array


def _extreme(rng: np.random.Generator, flat: np.ndarray) -> Any:
    """Return a value at the edge of what an array, or its dtype, holds."""
    kind = flat.dtype.kind
    with np.errstate(over="ignore"):
        if kind == "f":
            near = [FLOATS[rng.integers(len(FLOATS))], flat[0] + 1, -flat[0], flat.max()]
            return np.asarray(near[rng.integers(4) if rng.random() < 0.5 else 0]).astype(flat.dtype)
        if kind in "iu":
            limits = np.iinfo(flat.dtype)
            near = [limits.min, limits.max, -1, 0, 1, 2, flat.size, int(flat.max()), int(flat.max()) + 1]
            near += [int(flat.min()) - 1, int(flat[-1]) + 1, int(flat[0]) + 7, 1000, 1 << 20]
            return np.asarray(np.clip(near[rng.integers(len(near))], limits.min, limits.max)).astype(flat.dtype)
    return not flat[0] if kind == "b" else flat[0]


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def forge(rng: np.random.Generator, sample: Sample) -> bytes:
    """Return the bytes of a forged file with a valid checksum."""
    header, arrays = json.loads(sample.header), dict(sample.arrays)
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        if rng.random() < 0.35:
            _forge_header(rng, header)
        else:
            _forge_array(rng, arrays)
    manifest: dict[str, Any] = {"format": model_file.FORMAT_NAME, "version": model_file.FORMAT_VERSION}
    manifest |= {"arrays": list(arrays), "header": header}
    part = rng.random()
    if part < 0.02:
        _forge_header(rng, manifest)
    members = {"header.json": json.dumps(manifest).encode()}
    members |= {f"arrays/{name}.npy": _npy(array) for name, array in arrays.items()}
    if part > 0.96:
        _forge_member(rng, members)
    packing = zipfile.ZIP_DEFLATED if part > 0.93 else zipfile.ZIP_STORED
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, model_file.EPOCH), data, compress_type=packing)
        archive.comment = b"\0" * model_file.SEAL_LENGTH
    packed = bytearray(buffer.getvalue())
    if part > 0.985:  # sizes and offsets of the zip itself
        place = int(rng.integers(len(packed) // 2, len(packed) - model_file.SEAL_LENGTH - 4))
        packed[place : place + 4] = struct.pack("<I", int(rng.choice([0, 1, 2**20, 2**31, 2**32 - 1])))
    return model_file._sealed(bytes(packed))


def _forge_member(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Change the bytes of one member."""
    names = list(members)
    name = names[rng.integers(len(names))]
    data = bytearray(members[name])
    match int(rng.integers(6)):
        case 0:
            data = data[: rng.integers(len(data) + 1)]
        case 1:
            data += bytes(int(rng.choice([1, 1000, 10**6])))
        case 2:
            data[rng.integers(min(len(data), 128))] = int(rng.integers(256))
        case 3:
            for digits in (b"(3,)", b"(1,)", b"(0,)", b"(2,)"):
                data = bytearray(bytes(data).replace(digits, rng.choice([b"(-1,)", b"(9999999999,)", b"(1,1)"])))
        case 4:
            data = bytearray(members[names[rng.integers(len(names))]])
        case _:
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    members[name] = bytes(data)


# --------------------------------------------------------------------------------------------------------- running


def run(state: State, seed: int) -> str:
    """Forge a file, load it, and ask the model everything; ``"accepted"`` if it answered."""
    rng = np.random.default_rng(seed)
    sample = state.samples[rng.integers(len(state.samples))]
    state.path.write_bytes(forge(rng, sample))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            model = seqboost.load(state.path)
        except ModelFileError:
            return "refused"
        except SeqboostError as error:
            raise Finding(f"load raised {type(error).__name__}, not ModelFileError: {error}") from error
        return _ask(rng, model, sample, state.path.with_suffix(".again"))


def _ask(rng: np.random.Generator, model: Any, sample: Sample, scratch: Path) -> str:
    """Ask a loaded model for labels and probabilities, and now and then for all else it knows."""
    X, y = sample.X, sample.y
    questions: list[Callable[[], Any]] = [lambda: model.predict(X)]
    if rng.random() < 0.2:
        questions += [lambda: model.score(X, y), lambda: repr(model), lambda: model.save(scratch)]
        if hasattr(model, "log_prob"):
            questions.append(lambda: model.log_prob(X, y))
        if hasattr(model, "predict_kbest"):
            questions.append(lambda: model.predict_kbest(X, 2))
        if type(model) is TreeCRF:
            questions += [lambda: inspection.summary(model), lambda: inspection.feature_importances(model)]
            questions += [lambda: inspection.transitions(model), lambda: inspection.explain(model, X)]
        if isinstance(model, FutureFeatureMEMM):
            questions.append(lambda: model.future_features(X))
    outcome = "accepted"
    try:
        check_probabilities(model.predict_proba(X))
    except SeqboostError:
        outcome = "refused"
    for question in questions:
        try:
            question()
        except SeqboostError:
            outcome = "refused"
    return outcome
