"""The table of a factored model of order 1 with many labels, as its kernels want it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqboost.chain.batched import SMALLEST_ROW, padded
from seqboost.chain.rowpairs import MINIMA_LANES, minima_table

__all__ = ["RowTables"]


class RowTables:
    """Exponentials of the table, with P numbers in a row.

    Attributes
    ----------
    table_max : float
        What was subtracted before.
    weights : float64 array (K * K,)
        a(c, k).
    products : float32 array (2, P * P)
        a(c, k) at c * P + k, and transposed.
    start : float32 array (P,)
        a(start, k).
    least : float32 array (P,)
        Smallest b_t(c) that is not lost.
    """

    def __init__(self, table: NDArray[np.float64]) -> None:
        n_labels = table.shape[1]
        width = padded(n_labels)
        self.n_labels, self.width = n_labels, width
        finite = table[table > -np.inf]
        self.table_max = float(finite.max()) if finite.size else 0.0
        weights = np.exp(table - self.table_max)
        self.weights = weights[1:].reshape(-1)
        square = np.zeros((2, width, width), np.float32)
        square[0, :n_labels, :n_labels] = weights[1:]
        square[1] = square[0].T
        self.products = square.reshape(2, -1)
        self.start = np.zeros(width, np.float32)
        self.start[:n_labels] = weights[0]
        self.least = np.zeros(width, np.float32)
        self.least[:n_labels] = np.where(np.any(table[1:] > -np.inf, axis=1), SMALLEST_ROW, 0.0)

    @property
    def wide(self) -> int:
        """Q: labels in a row of ``minima``."""
        return -(-self.n_labels // MINIMA_LANES) * MINIMA_LANES

    @cached_property
    def minima(self) -> NDArray[np.int16]:
        """Logarithms of ``products`` for minima, (2, Q * Q)."""
        logs = minima_table(self.weights.reshape(self.n_labels, -1))
        return np.stack([logs, logs.T]).reshape(2, -1)
