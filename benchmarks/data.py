"""Benchmark data: one loader for each set, all through ``load(name)``.

The real sets are read from the folder named by ``SEQBOOST_DATA``; they are not part of this project. The synthetic sets
S1–S3 are made once by ``make_synthetic.py`` in the ``bench`` folder beside it and kept in ``SEQBOOST_CACHE``
(``~/.cache/seqboost`` unless set).

Every loader gives a list of folds, each a ``Split`` of whole sequences. Sets with a published split have one fold.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

__all__ = [
    "LOADERS",
    "POSITIONS",
    "Split",
    "crfsuite_attributes",
    "data_folder",
    "indicator_rows",
    "load",
    "synthetic_folder",
    "word_attributes",
]


class Split(NamedTuple):
    """Training and test sequences with their labels."""

    X_train: list[Any]
    y_train: list[np.ndarray]
    X_test: list[Any]
    y_test: list[np.ndarray]


# Positions (train, test) as the data's own README counts them; where recordings rotate, all positions are tested once.
POSITIONS = {
    "protein": (18105, 3520),
    "hyphen": (12049, 5836),
    "stress": (7230, 7242),
    "nettalk": (7230, 7242),
    "conll2000": (211727, 47377),
    "ncbi_disease": (136086, 24497),
    "rfid_activity": (None, 75128),
    "gesture_phase": (None, 9873),
    "occupancy": (8143, 12417),
    "letters": (4617, 47535),
}


def data_folder() -> Path:
    """Return the folder named by ``SEQBOOST_DATA``."""
    name = os.environ.get("SEQBOOST_DATA")
    if not name or not Path(name).is_dir():
        sys.exit(f"SEQBOOST_DATA must name the folder of benchmark data; it is {name!r}.")
    return Path(name).resolve()


def load(name: str) -> list[Split]:
    """Load a set by name and check that every sequence has as many labels as positions."""
    folds = LOADERS[name]()
    for split in folds:
        for X, y in ((split.X_train, split.y_train), (split.X_test, split.y_test)):
            lengths = [x.shape[0] if hasattr(x, "shape") else len(x) for x in X]
            if lengths != [len(labels) for labels in y]:
                raise ValueError(f"{name}: labels and positions differ in number")
    return folds


def protein() -> list[Split]:
    """Amino acids as strings, labels ``h e _``; sequences are split on ``<>``, ``end`` and ``<end>``."""

    def read(part: str) -> tuple[list[str], list[np.ndarray]]:
        path = data_folder() / "protein" / f"protein-secondary-structure.{part}"
        sequences: list[list[list[str]]] = [[]]
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = line.split()
            if line.startswith("#") or not fields:
                continue
            if fields[0] in ("<>", "end", "<end>"):
                sequences.append([])
            else:
                sequences[-1].append(fields)
        kept = [rows for rows in sequences if rows]
        return ["".join(r[0] for r in rows) for rows in kept], [np.array([r[1] for r in rows]) for rows in kept]

    return [Split(*read("train"), *read("test"))]


def _nettalk(label: Callable[[str, str], list[str]]) -> list[Split]:
    def read(part: str) -> tuple[list[str], list[np.ndarray]]:
        path = data_folder() / "nettalk" / f"decoded_{part}.tsv"
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        return [word for word, *_ in rows], [np.array(label(phonemes, stresses)) for _, phonemes, stresses in rows]

    return [Split(*read("train"), *read("test"))]


def stress() -> list[Split]:
    """Letters of words, 5 stress labels."""
    return _nettalk(lambda phonemes, stresses: list(stresses))


def nettalk() -> list[Split]:
    """Letters of words, pairs of phoneme and stress as labels."""
    return _nettalk(lambda phonemes, stresses: [p + s for p, s in zip(phonemes, stresses, strict=True)])


def hyphen() -> list[Split]:
    """Gaps of words as dicts of the three letters left and right of each gap, labels 0 and 1."""
    slots = ("left3", "left2", "left1", "right1", "right2", "right3")

    def read(part: str) -> tuple[list[list[dict[str, str]]], list[np.ndarray]]:
        lines = (data_folder() / "hyphen" / f"sparse.hyphen.6.{part}").read_text(encoding="utf-8").splitlines()
        n_sequences = int(lines[0].split()[0])
        X: list[list[dict[str, str]]] = [[] for _ in range(n_sequences)]
        y: list[list[int]] = [[] for _ in range(n_sequences)]
        for line in lines[1:]:
            sequence, _, _, *indices, label = map(int, line.split())
            letters = {slots[i // 27]: "abcdefghijklmnopqrstuvwxyz "[i % 27] for i in indices}
            X[sequence - 1].append(letters)
            y[sequence - 1].append(label)
        return X, [np.array(labels) for labels in y]

    return [Split(*read("train"), *read("test"))]


def conll2000() -> list[Split]:
    """Sentences as lists of (word, part of speech), chunk tags in IOB2."""

    def read(part: str) -> tuple[list[list[tuple[str, str]]], list[np.ndarray]]:
        blocks = (data_folder() / "conll2000" / f"{part}.txt").read_text(encoding="utf-8").split("\n\n")
        sentences = [[line.split() for line in block.splitlines()] for block in blocks if block.strip()]
        tokens = [[(word, tag) for word, tag, _ in rows] for rows in sentences]
        return tokens, [np.array([row[2] for row in rows]) for rows in sentences]

    return [Split(*read("train"), *read("test"))]


def ncbi_disease() -> list[Split]:
    """Sentences as lists of words, disease mentions in IOB2; the development part is left alone."""

    def read(part: str) -> tuple[list[list[str]], list[np.ndarray]]:
        blocks = (data_folder() / "ncbi_disease" / f"{part}.tsv").read_text(encoding="utf-8").split("\n\n")
        sentences = [[line.split("\t") for line in block.splitlines()] for block in blocks if block.strip()]
        words = [[row[0] for row in rows] for rows in sentences]
        return words, [np.array([row[1] for row in rows]) for rows in sentences]

    return [Split(*read("train"), *read("test"))]


def _rotate(X: list[Any], y: list[np.ndarray], n_folds: int) -> list[Split]:
    """Hold out whole recordings, each once; the order of recordings is shuffled with a fixed seed."""
    order = np.random.default_rng(0).permutation(len(X))
    folds = []
    for held_out in np.array_split(order, n_folds):
        kept = np.setdiff1d(order, held_out)
        folds.append(
            Split([X[i] for i in kept], [y[i] for i in kept], [X[i] for i in held_out], [y[i] for i in held_out])
        )
    return folds


def rfid_activity() -> list[Split]:
    """Trials with a wearable sensor: eight numeric columns as they are, labels 1–4; five folds of whole trials."""
    files = sorted(p for room in ("S1", "S2") for p in (data_folder() / "rfid_activity" / f"{room}_Dataset").glob("d*"))
    tables = [np.loadtxt(path, delimiter=",", ndmin=2) for path in files]
    return _rotate([t[:, :-1] for t in tables], [t[:, -1].astype(int) for t in tables], n_folds=5)


def gesture_phase() -> list[Split]:
    """Videos of gestures: 32 velocities and accelerations, five phases; leave one video out."""
    X, y = [], []
    for path in sorted((data_folder() / "gesture_phase" / "processed").glob("*.csv")):
        rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]
        X.append(np.array([row[:-1] for row in rows], dtype=float))
        y.append(np.array([row[-1].strip() for row in rows]))
    return _rotate(X, y, n_folds=len(X))


def letters() -> list[Split]:
    """Handwritten words: 128 pixels of each letter; one fold of ten for training, the others for testing."""
    with gzip.open(data_folder() / "letters" / "letters.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    starts = [i for i, row in enumerate(rows) if i == 0 or row[0] != rows[i - 1][0]]
    train, test = ([], []), ([], [])  # type: tuple[Any, Any], tuple[Any, Any]
    for a, b in zip(starts, [*starts[1:], len(rows)], strict=True):
        X, y = train if rows[a][1] == "0" else test
        X.append(np.array([[float(pixel) for pixel in row[4]] for row in rows[a:b]]))
        y.append(np.array([row[3] for row in rows[a:b]]))
    return [Split(*train, *test)]


def email_signature() -> list[Split]:
    """Lines of e-mails, described by what a glance shows; which of them are the signature; five folds."""
    X, y = [], []
    for path in sorted((data_folder() / "email_signature" / "dataset").glob("*/*_body")):
        lines = path.read_text(encoding="latin-1").splitlines()
        lines = lines[: 1 + max((i for i, line in enumerate(lines) if line.strip()), default=-1)]
        if lines:
            y.append(np.array([int(line.startswith("#sig#")) for line in lines]))
            X.append(_line_features([line.removeprefix("#sig#") for line in lines]))
    return _rotate(X, y, n_folds=5)


def _line_features(lines: list[str]) -> np.ndarray:
    """Return fifteen numbers for each line: its place, its size, and the marks that signatures tend to have."""
    n, rows = len(lines), []
    for t, line in enumerate(lines):
        text = line.strip()
        words = text.split()
        n_letters = sum(c.isalpha() for c in text)
        rows.append([
            t, n - 1 - t, (t + 1) / n, len(line), len(line) - len(line.lstrip()), len(words), n_letters,
            sum(c.isdigit() for c in text), sum(c.isupper() for c in text), sum(w[0].isupper() for w in words),
            sum(not c.isalnum() and not c.isspace() for c in text), "@" in text, text.startswith(("--", "__", "==")),
            text.startswith((">", "|")), any(w in text.lower() for w in ("phone", "fax", "tel", "http", "www.")),
        ])  # fmt: skip
    return np.array(rows, dtype=float)


def occupancy() -> list[Split]:
    """Room occupancy by the minute: five numeric columns, one long training sequence and two test sequences."""

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        lines = (data_folder() / "occupancy" / name).read_text(encoding="utf-8").splitlines()[1:]
        rows = [line.split(",") for line in lines]
        return np.array([row[2:7] for row in rows], dtype=float), np.array([int(row[7]) for row in rows])

    train, *tests = (read(name) for name in ("datatraining.txt", "datatest.txt", "datatest2.txt"))
    return [Split([train[0]], [train[1]], [X for X, _ in tests], [y for _, y in tests])]


def synthetic_folder() -> Path:
    """Return where the synthetic sets are kept."""
    return Path(os.environ.get("SEQBOOST_CACHE", Path.home() / ".cache" / "seqboost")) / "synthetic"


def _synthetic(name: str, rows: Callable[[Any, int, int], Any]) -> list[Split]:
    cache = synthetic_folder()
    if not (cache / "S3_test.npz").exists():
        script = data_folder().parent / "bench" / "make_synthetic.py"
        subprocess.run([sys.executable, str(script), str(cache)], check=True, stdout=subprocess.DEVNULL)

    def read(part: str) -> tuple[list[Any], list[np.ndarray]]:
        with np.load(cache / f"{name}_{part}.npz") as stored:
            world = dict(stored)
        ends = np.cumsum(world["lens"])
        spans = list(zip(ends - world["lens"], ends, strict=True))
        return [rows(world, a, b) for a, b in spans], [world["y"][a:b] for a, b in spans]

    return [Split(*read("train"), *read("test"))]


def s1() -> list[Split]:
    """Protein-like: one symbol of twenty per position, written as strings."""
    return _synthetic("S1", lambda world, a, b: "".join(chr(ord("A") + symbol) for symbol in world["X"][a:b]))


def s2() -> list[Split]:
    """Text-like: 20,000 indicator features as sparse rows, 20 labels."""

    def rows(world: Any, a: int, b: int) -> sparse.csr_array:
        indptr = world["indptr"][a : b + 1]
        indices = world["indices"][indptr[0] : indptr[-1]]
        values = np.ones(len(indices), dtype=np.float32)
        return sparse.csr_array((values, indices, indptr - indptr[0]), shape=(b - a, int(world["F"])))

    return _synthetic("S2", rows)


def s3() -> list[Split]:
    """Sensor-like: 30 numeric columns with 10 % missing, 6 labels."""
    return _synthetic("S3", lambda world, a, b: world["X"][a:b])


def crfsuite_attributes(sentence: list[tuple[str, str]]) -> list[list[str]]:
    """Return CRFsuite's usual chunking attributes: words and tags within ±2, pairs and triples of neighbours."""
    words, tags = [w for w, _ in sentence], [t for _, t in sentence]
    single = (-2, -1, 0, 1, 2)
    templates: list[tuple[str, list[str], tuple[int, ...]]] = [
        *(("w", words, (o,)) for o in single),
        *(("w", words, pair) for pair in ((-1, 0), (0, 1))),
        *(("pos", tags, (o,)) for o in single),
        *(("pos", tags, pair) for pair in ((-2, -1), (-1, 0), (0, 1), (1, 2))),
        *(("pos", tags, triple) for triple in ((-2, -1, 0), (-1, 0, 1), (0, 1, 2))),
    ]
    rows = []
    for t in range(len(sentence)):
        row = []
        for name, values, offsets in templates:
            if all(0 <= t + o < len(values) for o in offsets):
                places = "|".join(f"{name}[{o}]" for o in offsets)
                row.append(f"{places}=" + "|".join(values[t + o] for o in offsets))
        row += ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(sentence) - 1)
        rows.append(row)
    return rows


def word_attributes(sentence: list[str]) -> list[list[str]]:
    """Return the usual attributes of words: themselves, their ends, their shape; those of neighbours; word pairs."""
    described = []
    for word in sentence:
        shape = "".join("X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word)
        short = "".join(c for i, c in enumerate(shape) if i == 0 or c != shape[i - 1])
        low = word.lower()
        described.append(
            {
                "w": word, "low": low, "shape": short, "suf2": low[-2:], "suf3": low[-3:], "suf4": low[-4:],
                "pre2": low[:2], "pre3": low[:3], "pre4": low[:4],
            }
        )  # fmt: skip
    rows = []
    for t in range(len(sentence)):
        row = []
        for o in (-2, -1, 0, 1, 2):
            if 0 <= t + o < len(sentence):
                keys = described[t + o] if abs(o) < 2 else ("low", "shape", "suf3")
                row += [f"{key}[{o}]={described[t + o][key]}" for key in keys]
        for a, b in ((-1, 0), (0, 1)):
            if t + a >= 0 and t + b < len(sentence):
                row.append(f"low[{a}]|low[{b}]={described[t + a]['low']}|{described[t + b]['low']}")
        row += ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(sentence) - 1)
        rows.append(row)
    return rows


def indicator_rows(
    train: list[list[list[str]]], test: list[list[list[str]]], min_count: int = 1
) -> tuple[list[sparse.csr_array], list[sparse.csr_array], list[str]]:
    """Turn attribute strings into sparse indicator rows; attributes of fewer than ``min_count`` rows are dropped."""
    counts: dict[str, int] = {}
    for sequence in train:
        for row in sequence:
            for attribute in row:
                counts[attribute] = counts.get(attribute, 0) + 1
    names = [attribute for attribute, count in counts.items() if count >= min_count]
    column = {attribute: i for i, attribute in enumerate(names)}

    def encode(sequence: list[list[str]]) -> sparse.csr_array:
        rows = [[column[a] for a in row if a in column] for row in sequence]
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.array([i for row in rows for i in row], dtype=np.int32)
        matrix = sparse.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(rows), len(names)))
        matrix.sort_indices()
        return matrix

    return [encode(s) for s in train], [encode(s) for s in test], names


LOADERS: dict[str, Callable[[], list[Split]]] = {
    "protein": protein,
    "stress": stress,
    "hyphen": hyphen,
    "nettalk": nettalk,
    "conll2000": conll2000,
    "ncbi_disease": ncbi_disease,
    "rfid_activity": rfid_activity,
    "gesture_phase": gesture_phase,
    "occupancy": occupancy,
    "letters": letters,
    "email_signature": email_signature,
    "S1": s1,
    "S2": s2,
    "S3": s3,
}

if __name__ == "__main__":
    for set_name in LOADERS:
        loaded = load(set_name)
        n_train = [sum(map(len, split.y_train)) for split in loaded]
        n_test = sum(sum(map(len, split.y_test)) for split in loaded)
        labels = {label for split in loaded for y in (*split.y_train, *split.y_test) for label in np.unique(y).tolist()}
        counts = f"{[len(s.X_train) for s in loaded]} / {[len(s.X_test) for s in loaded]} sequences"
        print(f"{set_name:14} {counts}, {n_train} / {n_test} positions, {len(labels)} labels")
        expected = POSITIONS.get(set_name)
        if expected and (n_test != expected[1] or (expected[0] and n_train != [expected[0]])):
            sys.exit(f"{set_name}: expected {expected}")
