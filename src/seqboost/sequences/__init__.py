"""The user's object -> :class:`SequenceBatch`: data, labels, weights and label schemes."""

from seqboost.sequences.batch import BatchSchema, ColumnSchema, SequenceBatch
from seqboost.sequences.door import as_batch
from seqboost.sequences.labels import LabelCoder
from seqboost.sequences.schemes import allowed_transitions
from seqboost.sequences.segments import Segment, from_segments, to_segments
from seqboost.sequences.targets import as_labels
from seqboost.sequences.weights import class_weights, sample_weights, sequence_weights

__all__ = [
    "BatchSchema",
    "ColumnSchema",
    "LabelCoder",
    "Segment",
    "SequenceBatch",
    "allowed_transitions",
    "as_batch",
    "as_labels",
    "class_weights",
    "from_segments",
    "sample_weights",
    "sequence_weights",
    "to_segments",
]
