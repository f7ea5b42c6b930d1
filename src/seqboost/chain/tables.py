"""Exponentials of the transition table, laid out as kernels read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqboost.chain._numeric import MAX_RANGE

__all__ = ["SMALLEST_ROW", "PaddedTable", "TableWeights", "minima_table", "padded_table", "table_weights"]

LANES = 8
"""Numbers in a vector: rows of many labels are padded with zeros to a multiple of it."""

SMALLEST_ROW = 1e-20
"""Sequences in which some b_t(c) is smaller than this, relative to the largest of its position, are lost."""

UNIT, MOST = 256, 62
"""Logarithms for minima are whole numbers of 1/UNIT octaves, rounded down, at most MOST octaves up or down."""

MINIMA_LANES = 16
NOTHING = -32000
"""Stands for the logarithm of 0, or of less than MOST octaves below 1: whatever is added, the sum is recognised."""


class TableWeights(NamedTuple):
    """Exponentials of the table of a factored model."""

    weights: NDArray[np.float64]  # (E, K) exp(table - highest), or (0, K) if the range of the table is too wide
    turned: NDArray[np.float64]  # (K, C) the same of contexts whose lags all exist, transposed
    highest: float  # largest entry of the table


class PaddedTable(NamedTuple):
    """Exponentials of the table of a factored model of order 1 with many labels, with P >= K numbers in a row."""

    n_labels: int  # K
    width: int  # P
    highest: float  # what was subtracted before
    weights: NDArray[np.float64]  # (K * K,) a(c, k)
    products: NDArray[np.float32]  # (2, P * P) a(c, k) at c * P + k, and transposed
    start: NDArray[np.float32]  # (P,) a(start, k)
    least: NDArray[np.float32]  # (P,) smallest b_t(c) that is not lost: 0 where nothing may follow c


def table_weights(table: NDArray[np.float64], n_contexts: int) -> TableWeights:
    """Return the exponentials of a table (E, K), of which the last C rows are those of full contexts."""
    n_labels = table.shape[1]
    finite = table[table > -np.inf]
    if finite.size == 0 or finite.max() - finite.min() > MAX_RANGE:
        return TableWeights(np.empty((0, n_labels)), np.empty((n_labels, n_contexts)), 0.0)
    highest = float(finite.max())
    weights = np.exp(table - highest)
    return TableWeights(weights, np.ascontiguousarray(weights[len(table) - n_contexts :].T), highest)


def padded_table(table: NDArray[np.float64]) -> PaddedTable:
    """Return the exponentials of a table (K + 1, K) in padded rows."""
    n_labels = table.shape[1]
    width = -(-n_labels // LANES) * LANES
    finite = table[table > -np.inf]
    highest = float(finite.max()) if finite.size else 0.0
    weights = np.exp(table - highest)
    square = np.zeros((2, width, width), np.float32)
    square[0, :n_labels, :n_labels] = weights[1:]
    square[1] = square[0].T
    start, least = np.zeros((2, width), np.float32)
    start[:n_labels] = weights[0]
    least[:n_labels] = np.where(np.any(table[1:] > -np.inf, axis=1), SMALLEST_ROW, 0.0)
    return PaddedTable(n_labels, width, highest, weights[1:].reshape(-1), square.reshape(2, -1), start, least)


def minima_table(table: PaddedTable) -> NDArray[np.int16]:
    """Return logarithms of a(c, k) for minima and their transpose, (2, Q * Q); beyond K they never are the minimum."""
    n_labels = table.n_labels
    wide = -(-n_labels // MINIMA_LANES) * MINIMA_LANES
    logs = np.zeros((wide, wide), np.int16)
    with np.errstate(divide="ignore"):
        octaves = np.floor(UNIT * np.log2(table.weights.reshape(n_labels, -1)))
    logs[:n_labels, :n_labels] = np.where(octaves > -MOST * UNIT, octaves, NOTHING)
    return np.stack([logs, logs.T]).reshape(2, -1)
