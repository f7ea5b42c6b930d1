"""Data sets, and what is done to them for experiments."""

from __future__ import annotations

from seqboost.datasets.futures import FutureBits, make_future_bits
from seqboost.datasets.markov import make_cycle, make_hmm
from seqboost.datasets.missing import remove_values

__all__ = ["FutureBits", "make_cycle", "make_future_bits", "make_hmm", "remove_values"]
