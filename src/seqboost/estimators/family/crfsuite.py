"""From pairs to CRFsuite, and from CRFsuite's model file back to weights.

Attributes and labels go there under their numbers. The file, as ``crf1d_model.c`` and ``cqdb.c`` write it (little
endian, offsets from the start of the file, or of its database)::

    header     "lCRF" size type[4] version n_features n_labels n_attributes off_features off_labels off_attributes ..
    features   "FEAT" size n, then n × (type, source, label: uint32; weight: float64)
               type 0: source = attribute, type 1: source = label before
    names      "CQDB" size flag byteorder n off_names .., there n offsets of records (number, length: uint32; text)

CRFsuite prints a model with six digits only; in the file weights have all of theirs.
"""

from __future__ import annotations

import ctypes
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqboost.core.exceptions import MissingExtraError, ParameterError
from seqboost.core.parameters import Rule, check_parameters, integer, one_of, real
from seqboost.estimators.family.matrices import indicator_matrix
from seqboost.linear import LinearColumns, LinearRows, LinearWeights

__all__ = ["attributes", "read_weights", "train"]

HEADER = struct.Struct("<4sI4s8I")
FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])
STATE, TRANSITION = 0, 1


def attributes(columns: LinearColumns, rows: LinearRows) -> Iterator[list[dict[str, float]]]:
    """Give the attributes of each sequence: at each position, values by number of the feature."""
    matrix = indicator_matrix(columns, rows)
    names = np.array([str(j) for j in range(columns.n_features)], dtype=object)[matrix.indices].tolist()
    values, indptr = matrix.data.tolist(), matrix.indptr.tolist()
    for begin, stop in zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True):
        spans = [slice(indptr[t], indptr[t + 1]) for t in range(begin, stop)]
        yield [dict(zip(names[span], values[span], strict=True)) for span in spans]


def train(
    columns: LinearColumns, rows: LinearRows, labels: NDArray[np.int32], algorithm: str, parameters: dict[str, Any]
) -> bytes:
    """Train, and return the content of the model file; nothing stays on the disk."""
    try:
        import pycrfsuite
    except ImportError as error:
        raise MissingExtraError(
            "LinearCRF trains with python-crfsuite, which is not installed; pip install 'seqboost[crfsuite]'"
        ) from error
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    known = set(trainer.params())
    strange = sorted(set(parameters) - known)
    if strange:
        raise ParameterError(
            f"CRFsuite's algorithm {algorithm!r} has no parameter {strange[0]!r}; it has {', '.join(sorted(known))}"
        )
    rules = {name: _rule(default) for name, default in trainer.get_params().items() if name in parameters}
    check_parameters("CRFsuite", parameters, rules)
    trainer.set_params(parameters)
    text = [str(k) for k in labels.tolist()]
    for begin, stop, sequence in zip(rows.offsets[:-1], rows.offsets[1:], attributes(columns, rows), strict=True):
        trainer.append(sequence, text[begin:stop])
    _seed_shuffles()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        trainer.train(path)
        return Path(path).read_bytes()


def _rule(default: Any) -> Rule:
    """Return what a parameter may be, by its default: CRFsuite takes what it cannot read for 0, and may crash at it."""
    if isinstance(default, bool):
        return one_of(True, False, 1, 0)
    if isinstance(default, int):
        return integer(1, 2**31 - 1)
    return one_of("MoreThuente", "Backtracking", "StrongBacktracking") if isinstance(default, str) else real(0)


def _seed_shuffles() -> None:
    """Seed the C library's generator, by which CRFsuite shuffles sequences: same data, same model.

    Where the C library cannot be reached, models of the algorithms that shuffle (all but "lbfgs") differ a little.
    """
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).srand(1)


def read_weights(content: bytes, columns: LinearColumns, n_labels: int) -> tuple[LinearWeights, NDArray[np.float64]]:
    """Return weights and the table of transitions, (1 + K, K), of a model file of CRFsuite."""
    fields = HEADER.unpack_from(content)
    at_features, at_labels, at_attributes = fields[7:10]
    n_found = struct.unpack_from("<I", content, at_features + 8)[0]
    found = np.frombuffer(content, FEATURE, n_found, at_features + 12)
    label_of, feature_of = _numbers(content, at_labels), _numbers(content, at_attributes)
    table = np.zeros((1 + n_labels, n_labels))
    of_pairs = found[found["type"] == TRANSITION]
    table[1 + label_of[of_pairs["source"]], label_of[of_pairs["label"]]] = of_pairs["weight"]
    of_states = found[found["type"] == STATE]
    feature, label = feature_of[of_states["source"]], label_of[of_states["label"]]
    order = np.lexsort((label, feature))
    start = np.searchsorted(feature[order], np.arange(columns.n_features + 1)).astype(np.int64)
    value = of_states["weight"][order].astype(np.float32)
    return LinearWeights(columns, n_labels, start, label[order].astype(np.int32), value), table


def _numbers(content: bytes, at: int) -> NDArray[np.int64]:
    """Return the names in a database of names, which are numbers, by CRFsuite's own numbers."""
    n_names, at_names = struct.unpack_from("<2I", content, at + 16)
    numbers = np.zeros(n_names, dtype=np.int64)
    for i, record in enumerate(np.frombuffer(content, "<u4", n_names, at + at_names).tolist()):
        length = struct.unpack_from("<I", content, at + record + 4)[0]
        begin = at + record + 8
        numbers[i] = int(content[begin : begin + length].rstrip(b"\0"))
    return numbers
