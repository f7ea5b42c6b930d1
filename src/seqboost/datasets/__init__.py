"""Data sets, and what is done to them for experiments."""

from __future__ import annotations

from seqboost.datasets.missing import remove_values

__all__ = ["remove_values"]
