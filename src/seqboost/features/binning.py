"""Numeric columns: thresholds from quantiles, and the kernel that turns values into codes.

A column with thresholds t_0 < t_1 < ... < t_{B-2} has B value bins; a value x has the code

    b(x) = #{i : t_i < x}        so that x <= t_b exactly if its code is <= b

and a missing one (NaN) the code B. Values beyond the training range fall into the end bins.

Thresholds lie between values, where rounding to float32 switches from one number to the next: the threshold after a
float32 v is the largest float64 that rounds to v. So x and float32(x) have the same code, whatever x is. Only a column
whose bins float32 cannot tell apart (times in seconds since 1970) has plain midpoints instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import allocating

__all__ = [
    "MAX_NUMERIC_BINS",
    "MAX_SAMPLE",
    "TABLE_WIDTH",
    "agree_in_single",
    "encode_numeric",
    "find_thresholds",
    "first_rounded_to",
    "last_rounded_to",
    "not_in_single",
    "rise_within",
    "single_of",
    "threshold_table",
]

MAX_NUMERIC_BINS = 254  # codes are uint8: "missing" and "boundary" need one each
MAX_SAMPLE = 200_000  # quantiles of more values than this are taken from a sample
TABLE_WIDTH = 256  # thresholds per column in the kernel's table; a power of two >= MAX_NUMERIC_BINS
ROW_BLOCK = 256  # rows searched together; their values stay in the first-level cache


def find_thresholds(values: NDArray[np.floating], max_bins: int, max_sample: int = MAX_SAMPLE) -> NDArray[np.float64]:
    """Find the thresholds between the bins of one column.

    Up to `max_bins` distinct values get a bin each; more are cut at quantiles. Training values have the bins of
    scikit-learn's ``HistGradientBoosting*``. A threshold lies about midway between the neighbours it separates, where
    float32 and float64 agree; at the very middle if float32 would merge bins of the column.

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
    ordered = np.sort(_sample(values, max_sample)).astype(np.float64)
    distinct = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    if distinct.size <= max_bins:
        cuts = np.arange(1, distinct.size)
    else:
        quantiles = np.linspace(0, 100, num=max_bins + 1)[1:-1] / 100
        cuts = np.unique(np.searchsorted(distinct, _quantiles_of_sorted(ordered, quantiles), side="right"))
        cuts = cuts[cuts < distinct.size]
    lower, upper = distinct[cuts - 1], distinct[cuts]
    middle = _midpoints(lower, upper)
    rounded = _between_in_single(lower, upper, middle)
    places = np.searchsorted(distinct, rounded, side="right")
    is_lossless = np.unique(places[places < distinct.size]).size == cuts.size
    return rounded if is_lossless else middle


def _sample(values: NDArray[np.floating], max_sample: int) -> NDArray[np.floating]:
    """Take one value at random from each of `max_sample` equal stretches; the seed is fixed."""
    if values.size <= max_sample:
        return values
    jitter = np.random.default_rng(0).random(max_sample)
    positions = ((np.arange(max_sample) + jitter) * (values.size / max_sample)).astype(np.int64)
    return values[np.minimum(positions, values.size - 1)]


def _midpoints(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take the midpoints of neighbours a < b; a itself where a and b are so close that the midpoint rounds to b."""
    middle = 0.5 * lower + 0.5 * upper  # halved first: the sum of two huge values would overflow
    return np.where((middle >= lower) & (middle < upper), middle, lower)


def _between_in_single(
    lower: NDArray[np.float64], upper: NDArray[np.float64], middle: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Move midpoints to where rounding to float32 switches, still between a and b if float32 tells them apart."""
    before_upper = _next_single(single_of(upper), -np.inf)
    return last_rounded_to(np.maximum(single_of(lower), np.minimum(single_of(middle), before_upper)))


def last_rounded_to(single: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the largest float64 that rounds to each float32.

    It is the midpoint between v and the next float32, exact in float64, or the float64 before it: of two equally near
    neighbours, rounding takes the one with an even last bit.
    """
    following = _next_single(single, np.inf)
    middle = 0.5 * (_finite(single) + _finite(following))
    last = np.where(single_of(middle) > single, np.nextafter(middle, -np.inf), middle)
    return np.where(np.isposinf(single), np.finfo(np.float64).max, last)


def first_rounded_to(single: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the smallest float64 that rounds to each float32."""
    return np.nextafter(last_rounded_to(_next_single(single, -np.inf)), np.inf)


def agree_in_single(thresholds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return of each threshold whether x and float32(x) are always on the same side of it."""
    with np.errstate(over="ignore"):
        return single_of(thresholds) < single_of(np.nextafter(thresholds, np.inf))


def not_in_single(thresholds: NDArray[np.float64], start: NDArray[np.int64]) -> dict[int, NDArray[np.float64]]:
    """Return the thresholds of the columns that need float64, by number; those of column j begin at `start[j]`."""
    columns = np.unique(np.searchsorted(start, np.flatnonzero(~agree_in_single(thresholds)), side="right") - 1)
    return {int(j): thresholds[start[j] : start[j + 1]] for j in columns}


def single_of(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Round to float32; what is beyond its range becomes infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float32)


def _next_single(single: NDArray[np.float32], towards: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.nextafter(single, np.float32(towards))


def _finite(single: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return float64s, 2^128 for infinity: rounding goes by what would be the next number."""
    return np.clip(single.astype(np.float64), -(2.0**128), 2.0**128)


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


@allocating
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
