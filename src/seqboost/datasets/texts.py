"""Loaders of sets of symbols and words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import ParameterError
from seqboost.datasets.dataset import SequenceDataset, published
from seqboost.datasets.storage import data_files
from seqboost.files import Reading, SequenceData, read_sequences

__all__ = ["load_conll2000", "load_hyphen", "load_ncbi_disease", "load_nettalk", "load_protein"]

SLOTS = ("left3", "left2", "left1", "right1", "right2", "right3")
LETTERS = "abcdefghijklmnopqrstuvwxyz "
STRESSED = frozenset("12")
TARGETS = ("stress", "binary", "phoneme", "full")


def load_protein() -> SequenceDataset:
    """Load the secondary structure of proteins: strings of amino acids; labels ``h``, ``e``, ``_``.

    111 proteins (18,105 residues) to train on, 17 (3,520) to test on. For non-commercial research.

    References
    ----------
    Qian, N. and Sejnowski, T. J. (1988). Predicting the secondary structure of globular proteins using neural network
    models. Journal of Molecular Biology 202.
    """
    files = data_files("protein", *(f"protein-secondary-structure.{part}" for part in ("train", "test")))
    return published("protein", *map(_proteins, files))


def _proteins(path: Path) -> tuple[list[str], list[NDArray[Any]]]:
    """Read residues; sequences are divided by ``<>``, ``end`` and ``<end>``, for most but not all have an end."""
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


def load_nettalk(target: str = "full", words: str = "draw") -> SequenceDataset:
    """Load NETtalk: strings of letters; a label for each.

    Parameters
    ----------
    target : {"full", "phoneme", "stress", "binary"}, default="full"
        Labels: pairs of phoneme and stress (134 in the draw), phonemes (51), stresses (5), or whether a letter is
        stressed (stress 1 or 2; Hao 2009, section 5.4.2).
    words : {"draw", "dictionary"}, default="draw"
        1,000 words to train on and 1,000 to test on, as drawn at Oregon State University; or all 20,007 sound entries
        of the dictionary, without a split.

    References
    ----------
    Sejnowski, T. J. and Rosenberg, C. R. (1987). Parallel networks that learn to pronounce English text. Complex
    Systems 1.
    """
    if target not in TARGETS:
        raise ParameterError(f"target={target!r}: expected one of {', '.join(map(repr, TARGETS))}")
    if words not in ("draw", "dictionary"):
        raise ParameterError(f"words={words!r}: expected 'draw' or 'dictionary'")
    if words == "dictionary":
        (path,) = data_files("nettalk", "nettalk.data")
        lines = path.read_text(encoding="latin-1").splitlines()[10:]
        entries = [line.split("\t")[:3] for line in lines if line.count("\t") >= 2]
        sound = [entry for entry in entries if len(set(map(len, entry))) == 1]  # "gunpowder" lacks its stresses
        X, y = [word for word, *_ in sound], [_pronounced(p, s, target) for _, p, s in sound]
        return SequenceDataset("nettalk", X, y, [])

    def read(path: Path) -> tuple[list[str], list[NDArray[Any]]]:
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        return [word for word, *_ in rows], [_pronounced(p, s, target) for _, p, s in rows]

    return published("nettalk", *map(read, data_files("nettalk", "decoded_train.tsv", "decoded_test.tsv")))


def _pronounced(phonemes: str, stresses: str, target: str) -> NDArray[Any]:
    if target == "stress":
        return np.array(list(stresses))
    if target == "phoneme":
        return np.array(list(phonemes))
    if target == "binary":
        return np.array([int(stress in STRESSED) for stress in stresses])
    return np.array([p + s for p, s in zip(phonemes, stresses, strict=True)])


def load_hyphen() -> SequenceDataset:
    """Load hyphenation: a dict of the three letters left and right of each gap of a word; label 1 = a hyphen may stand.

    1,951 words (12,049 gaps) to train on, 908 (5,836) to test on.

    References
    ----------
    Dietterich, T. G., Hao, G. and Ashenfelter, A. (2008). Gradient tree boosting for training conditional random
    fields. JMLR 9.
    """
    return published("hyphen", *map(_gaps, data_files("hyphen", "sparse.hyphen.6.train", "sparse.hyphen.6.test")))


def _gaps(path: Path) -> tuple[list[list[dict[str, str]]], list[NDArray[Any]]]:
    """Read indices of indicators as letters: index = 27 · slot + letter, letter 26 is a blank."""
    data = read_sequences(path, Reading(format="sparse"))
    assert data.batch.sparse is not None
    indices = [int(name[1:]) for name in data.batch.schema.sparse_names]
    X: list[list[dict[str, str]]] = []
    for start, stop in zip(data.batch.offsets[:-1], data.batch.offsets[1:], strict=True):
        rows = []
        for row in range(start, stop):
            of_row = data.batch.sparse.indices[data.batch.sparse.indptr[row] : data.batch.sparse.indptr[row + 1]]
            present = sorted(indices[j] for j in of_row)
            rows.append({SLOTS[i // 27]: LETTERS[i % 27] for i in present})
        X.append(rows)
    return X, [np.array([int(label) for label in labels]) for labels in data.y]


def load_conll2000() -> SequenceDataset:
    """Load the shared task of CoNLL-2000: sentences as lists of (word, part of speech); chunk tags in IOB2.

    8,936 sentences (211,727 words) to train on, 2,012 (47,377) to test on.

    References
    ----------
    Tjong Kim Sang, E. F. and Buchholz, S. (2000). Introduction to the CoNLL-2000 shared task: chunking. CoNLL.
    """
    return published("conll2000", *map(_sentences, data_files("conll2000", "train.txt", "test.txt")))


def load_ncbi_disease() -> SequenceDataset:
    """Load mentions of diseases: sentences as lists of words; tags in IOB2. The development part is left alone.

    5,432 sentences (136,086 words) to train on, 940 (24,497) to test on.

    References
    ----------
    Doğan, R. I., Leaman, R. and Lu, Z. (2014). NCBI disease corpus. Journal of Biomedical Informatics 47.
    """

    def words(path: Path) -> tuple[list[list[str]], list[NDArray[Any]]]:
        sentences, tags = _sentences(path)
        return [[word for (word,) in sentence] for sentence in sentences], tags

    return published("ncbi_disease", *map(words, data_files("ncbi_disease", "train.tsv", "test.tsv")))


def _sentences(path: Path) -> tuple[list[list[tuple[str, ...]]], list[NDArray[Any]]]:
    """Read a column file as lists of tuples."""
    data: SequenceData = read_sequences(path, Reading(format="conll"))
    batch = data.batch
    cells = [batch.categories[j][batch.categorical[:, j]].tolist() for j in range(len(batch.categories))]
    rows = list(zip(*cells, strict=True))
    bounds = zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True)
    return [rows[a:b] for a, b in bounds], [np.array(tags) for tags in data.y]
