"""Data sets by name, and what is done to them for experiments."""

from __future__ import annotations

from seqboost.datasets.dataset import SequenceDataset, Split
from seqboost.datasets.futures import FutureBits, make_future_bits
from seqboost.datasets.markov import make_cycle, make_hmm, make_rare_events
from seqboost.datasets.missing import remove_values
from seqboost.datasets.recordings import (
    load_email_signature,
    load_gesture_phase,
    load_letters,
    load_occupancy,
    load_rfid_activity,
)
from seqboost.datasets.storage import cache_folder
from seqboost.datasets.texts import load_conll2000, load_hyphen, load_ncbi_disease, load_nettalk, load_protein

__all__ = [
    "FutureBits",
    "SequenceDataset",
    "Split",
    "cache_folder",
    "load_conll2000",
    "load_email_signature",
    "load_gesture_phase",
    "load_hyphen",
    "load_letters",
    "load_ncbi_disease",
    "load_nettalk",
    "load_occupancy",
    "load_protein",
    "load_rfid_activity",
    "make_cycle",
    "make_future_bits",
    "make_hmm",
    "make_rare_events",
    "remove_values",
]
