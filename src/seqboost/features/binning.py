"""Numeric columns: thresholds from quantiles, and the kernel that turns values into codes.

A column with thresholds t_0 < t_1 < ... < t_{B-2} has B value bins; a value x has the code

    b(x) = #{i : t_i < x}        so that x <= t_b exactly if its code is <= b

and a missing one (NaN) the code B. Values beyond the training range fall into the end bins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit

__all__ = [
    "MAX_NUMERIC_BINS",
    "MAX_SAMPLE",
    "TABLE_WIDTH",
    "encode_numeric",
    "find_thresholds",
    "rise_within",
    "threshold_table",
]

MAX_NUMERIC_BINS = 254  # codes are uint8: "missing" and "boundary" need one each
MAX_SAMPLE = 200_000  # quantiles of more values than this are taken from a sample
TABLE_WIDTH = 256  # thresholds per column in the kernel's table; a power of two >= MAX_NUMERIC_BINS
ROW_BLOCK = 256  # rows searched together; their values stay in the first-level cache


def find_thresholds(values: NDArray[np.floating], max_bins: int, max_sample: int = MAX_SAMPLE) -> NDArray[np.float64]:
    """Find the thresholds between the bins of one column.

    Up to `max_bins` distinct values get a bin each, with thresholds midway between neighbours; more are cut at
    quantiles. These are the thresholds of scikit-learn's ``HistGradientBoosting*``, less those that would leave the
    last bin empty.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column; NaN is ignored.
    max_bins : int
        Largest number of bins.
    max_sample : int, default=200_000
        Longer columns are sampled: one value from each of this many equal stretches, always the same ones.

    Returns
    -------
    ndarray of shape (n_bins - 1,), dtype float64
        Strictly increasing; empty if there are fewer than two distinct values.
    """
    values = values[~np.isnan(values)]
    if values.size == 0:
        return np.empty(0)
    largest = np.float64(values.max())
    ordered = np.sort(_sample(values, max_sample)).astype(np.float64)
    distinct = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    if distinct.size <= max_bins:
        return _midpoints(distinct)
    quantiles = np.linspace(0, 100, num=max_bins + 1)[1:-1] / 100
    thresholds = np.unique(_quantiles_of_sorted(ordered, quantiles))
    return thresholds[thresholds < largest]


def _sample(values: NDArray[np.floating], max_sample: int) -> NDArray[np.floating]:
    """Take one value at random from each of `max_sample` equal stretches; the seed is fixed."""
    if values.size <= max_sample:
        return values
    jitter = np.random.default_rng(0).random(max_sample)
    positions = ((np.arange(max_sample) + jitter) * (values.size / max_sample)).astype(np.int64)
    return values[np.minimum(positions, values.size - 1)]


def _midpoints(distinct: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take the midpoints of neighbours a < b; a itself where a and b are so close that the midpoint rounds to b."""
    lower, upper = distinct[:-1], distinct[1:]
    middle = 0.5 * lower + 0.5 * upper  # halved first: the sum of two huge values would overflow
    return np.where((middle >= lower) & (middle < upper), middle, lower)


def _quantiles_of_sorted(ordered: NDArray[np.float64], quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Do what ``np.quantile(..., method="averaged_inverted_cdf")`` does, on values that are already sorted.

    With n values and h = n q - 1, the quantile is x[ceil(h)], or (x[h] + x[h+1]) / 2 if h is whole.
    """
    position = ordered.size * quantiles - 1
    below = np.floor(position)
    first = np.clip(below, 0, ordered.size - 1).astype(np.int64)
    second = np.clip(below + 1, 0, ordered.size - 1).astype(np.int64)
    averaged = 0.5 * ordered[first] + 0.5 * ordered[second]
    return np.where(position == below, averaged, ordered[second])


def rise_within(values: NDArray[np.float64], start: NDArray[np.int64]) -> bool:
    """Check that numbers never fall within a stretch; ``start`` says where stretches begin, and the last one ends."""
    rises = np.append(values[1:] >= values[:-1], True)
    inner = start[1:-1]
    rises[inner[(inner > 0) & (inner < values.size)] - 1] = True  # from the last of a stretch to the first of the next
    return bool(rises.all())


def threshold_table(
    thresholds: NDArray[np.float64], start: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Lay the columns' thresholds out for `encode_numeric`.

    Returns
    -------
    table : ndarray of shape (n_numeric, TABLE_WIDTH)
        Thresholds, then +inf.
    first_step : ndarray of shape (n_numeric,)
        First step of the binary search: the power of two above half the number of thresholds.
    """
    n_numeric = start.size - 1
    counts = np.diff(start)
    table = np.full((n_numeric, TABLE_WIDTH), np.inf)
    column = np.repeat(np.arange(n_numeric), counts)
    table[column, np.arange(thresholds.size) - start[column]] = thresholds
    first_step = np.array([(1 << int(count).bit_length()) >> 1 for count in counts], dtype=np.int64)
    return table, first_step


@jit
def encode_numeric(
    values: NDArray[np.floating],  # IN (n_rows, n_numeric), NaN = missing
    table: NDArray[np.float64],  # IN (n_numeric, TABLE_WIDTH) thresholds, then +inf
    first_step: NDArray[np.int64],  # IN (n_numeric,)
    missing: NDArray[np.uint8],  # IN (n_numeric,) code of a missing value
    target: NDArray[np.int64],  # IN (n_numeric,) column of `codes`
    padded_row: NDArray[np.int64],  # IN (n_rows,) row of `codes`
    first: int,
    last: int,
    codes: NDArray[np.uint8],  # OUT (n_padded, n_dense); rows first..last-1 of `values` are written
) -> None:
    """Write the codes of some rows: binary search for b(x) = #{i : t_i < x}.

    A block of rows takes each step of the search together: the inner loop has neither branches nor a chain of waiting
    loads, so that it is vectorised.
    """
    x = np.empty(ROW_BLOCK, dtype=np.float64)
    position = np.empty(ROW_BLOCK, dtype=np.int64)
    for block in range(first, last, ROW_BLOCK):
        n_block = min(ROW_BLOCK, last - block)
        for j in range(values.shape[1]):
            for i in range(n_block):
                x[i] = values[block + i, j]
                position[i] = 0
            step = first_step[j]
            while step > 0:
                for i in range(n_block):
                    b = position[i]
                    position[i] = b + step if table[j, b + step - 1] < x[i] else b
                step >>= 1
            for i in range(n_block):
                code = missing[j] if np.isnan(x[i]) else np.uint8(position[i])
                codes[padded_row[block + i], target[j]] = code
