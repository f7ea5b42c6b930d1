"""Benchmark data: one loader for each set, all through ``load(name)``.

The real sets are those of ``seqboost.datasets``; they are not part of this project. The synthetic sets
S1–S3 are made once by ``make_synthetic.py`` in the ``bench`` folder beside it and kept in ``SEQBOOST_CACHE``
(``~/.cache/seqboost`` unless set).

Every loader gives a list of folds, each a ``Split`` of whole sequences. Sets with a published split have one fold.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from seqboost import datasets
from seqboost.datasets import Split

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
    """Load a set by name."""
    return LOADERS[name]()


def protein() -> list[Split]:
    """Amino acids as strings, labels ``h e _``."""
    return datasets.load_protein().splits()


def stress() -> list[Split]:
    """Letters of words, 5 stress labels."""
    return datasets.load_nettalk("stress").splits()


def nettalk() -> list[Split]:
    """Letters of words, pairs of phoneme and stress as labels."""
    return datasets.load_nettalk("full").splits()


def hyphen() -> list[Split]:
    """Gaps of words as dicts of the three letters left and right of each gap, labels 0 and 1."""
    return datasets.load_hyphen().splits()


def conll2000() -> list[Split]:
    """Sentences as lists of (word, part of speech), chunk tags in IOB2."""
    return datasets.load_conll2000().splits()


def ncbi_disease() -> list[Split]:
    """Sentences as lists of words, disease mentions in IOB2; the development part is left alone."""
    return datasets.load_ncbi_disease().splits()


def rfid_activity() -> list[Split]:
    """Trials with a wearable sensor: eight numeric columns as they are, labels 1–4; five folds of whole trials."""
    return datasets.load_rfid_activity().splits()


def gesture_phase() -> list[Split]:
    """Videos of gestures: 32 velocities and accelerations, five phases; leave one video out."""
    return datasets.load_gesture_phase().splits()


def letters() -> list[Split]:
    """Handwritten words: 128 pixels of each letter; one fold of ten for training, the others for testing."""
    return [datasets.load_letters().split(0)]


def email_signature() -> list[Split]:
    """Lines of e-mails, described by what a glance shows; which of them are the signature; five folds."""
    return datasets.load_email_signature().splits()


def occupancy() -> list[Split]:
    """Room occupancy by the minute: five numeric columns, one long training sequence and two test sequences."""
    return datasets.load_occupancy().splits()


def synthetic_folder() -> Path:
    """Return where the synthetic sets are kept."""
    return datasets.cache_folder() / "synthetic"


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
