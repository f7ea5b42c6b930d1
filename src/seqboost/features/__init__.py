"""Columns become bin codes: quantile bins, categories, indicators, and the windows laid over them."""

from __future__ import annotations

from seqboost.features.binner import FeatureBinner
from seqboost.features.categories import MAX_DENSE_CATEGORIES, category_lookup
from seqboost.features.filling import Filler
from seqboost.features.layout import CATEGORICAL, NUMERIC, ORDERED, SUBSET, FeatureLayout
from seqboost.features.policies import parse_missing
from seqboost.features.rows import BinnedRows, binned_bytes
from seqboost.features.windows import MAX_OFFSET, SPARSE_KEY, parse_window, window_name

__all__ = [
    "CATEGORICAL",
    "MAX_DENSE_CATEGORIES",
    "MAX_OFFSET",
    "NUMERIC",
    "ORDERED",
    "SPARSE_KEY",
    "SUBSET",
    "BinnedRows",
    "FeatureBinner",
    "FeatureLayout",
    "Filler",
    "binned_bytes",
    "category_lookup",
    "parse_missing",
    "parse_window",
    "window_name",
]
