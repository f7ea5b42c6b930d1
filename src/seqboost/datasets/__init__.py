"""Data sets, and what is done to them for experiments."""

from __future__ import annotations

from seqboost.datasets.futures import FutureBits, make_future_bits
from seqboost.datasets.missing import remove_values

__all__ = ["FutureBits", "make_future_bits", "remove_values"]
