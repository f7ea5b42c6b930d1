"""Loaders of sets of numbers: sensors, videos, handwriting, and lines described by numbers."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.datasets.dataset import SequenceDataset, published, rotated
from seqboost.datasets.storage import data_files, find_files
from seqboost.files import Reading, read_sequences

__all__ = [
    "load_email_signature",
    "load_gesture_phase",
    "load_letters",
    "load_occupancy",
    "load_rfid_activity",
]

RFID_COLUMNS = ("time", "frontal", "vertical", "lateral", "antenna", "rssi", "phase", "frequency")
OCCUPANCY_COLUMNS = ("temperature", "humidity", "light", "co2", "humidity_ratio")
LINE_COLUMNS = (
    "position", "from_end", "relative", "length", "indent", "words", "letters", "digits", "capitals", "capital_words",
    "punctuation", "at_sign", "rule", "quoted", "contact",
)  # fmt: skip
PHASES = {"Preparação": "Preparation"}  # one row of the raw data is in Portuguese


def load_rfid_activity() -> SequenceDataset:
    """Load activities of older people: 87 trials of 8 columns at irregular times; labels 1 (bed) to 4 (walking).

    Five folds of whole trials, 75,128 readings in all.

    References
    ----------
    Shinmoto Torres, R. L., Ranasinghe, D. C., Shi, Q. and Sample, A. P. (2013). Sensor enabled wearable RFID technology
    for mitigating the risk of falls near beds. IEEE RFID.
    """
    tables = [np.loadtxt(path, delimiter=",", ndmin=2) for path in find_files("rfid_activity", "S[12]_Dataset/d*")]
    X, y = [t[:, :-1] for t in tables], [t[:, -1].astype(int) for t in tables]
    return SequenceDataset("rfid_activity", X, y, rotated(len(X), 5), RFID_COLUMNS)


def load_gesture_phase(part: str = "processed") -> SequenceDataset:
    """Load phases of gestures: 7 videos, five phases; each video takes its turn as the test set.

    Parameters
    ----------
    part : {"processed", "raw"}, default="processed"
        32 velocities and accelerations, or 18 coordinates.

    References
    ----------
    Madeo, R. C. B., Lima, C. A. M. and Peres, S. M. (2013). Gesture unit segmentation using support vector machines.
    SAC.
    """
    if part not in ("processed", "raw"):
        raise ParameterError(f"part={part!r}: expected 'processed' or 'raw'")
    files = find_files("gesture_phase", f"{part}/*.csv")
    reading = Reading(label="Phase") if part == "processed" else Reading(label="phase", drop=("timestamp",))
    X, y = [], []
    for path in files:
        data = read_sequences(path, reading, labels="required")
        X.append(np.asarray(data.batch.numeric, dtype=np.float64))
        y.append(np.array([PHASES.get(label.strip(), label.strip()) for label in data.y[0]]))
    columns = data.batch.schema.names
    return SequenceDataset("gesture_phase", X, y, rotated(len(X), len(X)), columns)


def load_occupancy() -> SequenceDataset:
    """Load occupancy of a room by the minute: 5 sensors; one long sequence to train on (8,143), two to test on.

    References
    ----------
    Candanedo, L. M. and Feldheim, V. (2016). Accurate occupancy detection of an office room from light, temperature,
    humidity and CO2 measurements using statistical learning models. Energy and Buildings 112.
    """
    tables = []
    for path in data_files("occupancy", "datatraining.txt", "datatest.txt", "datatest2.txt"):
        # the header has one name fewer than there are columns
        rows = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        tables.append((np.array([row[2:7] for row in rows], dtype=float), np.array([int(row[7]) for row in rows])))
    X, y = [t[0] for t in tables], [t[1] for t in tables]
    found = published("occupancy", (X[:1], y[:1]), (X[1:], y[1:]))
    return SequenceDataset(found.name, found.X, found.y, found.folds, OCCUPANCY_COLUMNS)


def load_letters(protocol: str = "small") -> SequenceDataset:
    """Load handwritten words: 128 pixels for each letter; 6,877 words in ten folds.

    Parameters
    ----------
    protocol : {"small", "large"}, default="small"
        Train on one fold and test on the nine others, or the reverse.

    References
    ----------
    Taskar, B., Guestrin, C. and Koller, D. (2004). Max-margin Markov networks. NIPS.
    """
    if protocol not in ("small", "large"):
        raise ParameterError(f"protocol={protocol!r}: expected 'small' or 'large'")
    (path,) = data_files("letters", "letters.tsv.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    starts = [i for i, row in enumerate(rows) if i == 0 or row[0] != rows[i - 1][0]]
    X, y, fold = [], [], []
    for a, b in zip(starts, [*starts[1:], len(rows)], strict=True):
        pixels = np.array([np.frombuffer(row[4].encode("ascii"), dtype=np.uint8) for row in rows[a:b]])
        X.append((pixels - ord("0")).astype(np.float64))
        y.append(np.array([row[3] for row in rows[a:b]]))
        fold.append(int(rows[a][1]))
    is_of = np.array(fold)
    folds = [(np.flatnonzero(is_of == f), np.flatnonzero(is_of != f)) for f in range(10)]
    if protocol == "large":
        folds = [(others, own) for own, others in folds]
    return SequenceDataset("letters", X, y, folds)


def load_email_signature() -> SequenceDataset:
    """Load e-mails: 15 numbers for each line; label 1 = part of the signature. Five folds of whole e-mails."""
    X, y = [], []
    for path in find_files("email_signature", "dataset/*/*_body"):
        lines = path.read_text(encoding="latin-1").splitlines()
        lines = lines[: 1 + max((i for i, line in enumerate(lines) if line.strip()), default=-1)]
        if lines:
            y.append(np.array([int(line.startswith("#sig#")) for line in lines]))
            X.append(_described([line.removeprefix("#sig#") for line in lines]))
    return SequenceDataset("email_signature", X, y, rotated(len(X), 5), LINE_COLUMNS)


def _described(lines: list[str]) -> NDArray[Any]:
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
