"""Files of sequences: read into a batch with labels, written back with predictions, turned into other formats."""

from __future__ import annotations

from seqboost.files.formats import (
    FORMATS,
    detect_format,
    read_labels,
    read_sequences,
    write_answers,
    write_sequences,
)
from seqboost.files.reading import Answers, Reading, SequenceData
from seqboost.files.source import BadLine, Source, written
from seqboost.files.words import add_word_features, word_window

__all__ = [
    "FORMATS",
    "Answers",
    "BadLine",
    "Reading",
    "SequenceData",
    "Source",
    "add_word_features",
    "detect_format",
    "read_labels",
    "read_sequences",
    "word_window",
    "write_answers",
    "write_sequences",
    "written",
]
