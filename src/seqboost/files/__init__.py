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
from seqboost.sequences.spans import SPAN_SCHEMES, Span, convert_tags, spans_of

__all__ = [
    "FORMATS",
    "SPAN_SCHEMES",
    "Answers",
    "BadLine",
    "Reading",
    "SequenceData",
    "Source",
    "Span",
    "add_word_features",
    "convert_tags",
    "detect_format",
    "read_labels",
    "read_sequences",
    "spans_of",
    "word_window",
    "write_answers",
    "write_sequences",
    "written",
]
