"""Data sets, and what is done to them for experiments."""

from __future__ import annotations

from seqboost.datasets.markov import make_cycle, make_hmm
from seqboost.datasets.missing import remove_values

__all__ = ["make_cycle", "make_hmm", "remove_values"]
