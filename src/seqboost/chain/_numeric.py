"""Small inlined helpers of the lattice kernels: a vectorisable exponential and contraction coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost._jit import jit

__all__ = ["MAX_RANGE", "SMALLEST", "contraction", "exp32", "mixing_position"]

MAX_RANGE = 80.0
"""Largest spread of finite scores at a position that single-precision exponentials can hold."""

SMALLEST = 1e-200
"""Reachable messages below this (relative to the largest) are recomputed in log space."""


@jit
def exp32(x: np.float32) -> np.float32:
    """Exponential of x <= 0 in single precision, within 1e-7; exactly 0 below -86.

    exp(x) = 2**n * exp(r), n = round(x / ln 2): a polynomial and a shift of exponent bits, without branches, so that
    loops over contiguous memory become vector instructions (below one nanosecond each).
    """
    clipped = max(x, np.float32(-86.0))
    shifted = clipped * np.float32(1.4426950408889634) + np.float32(12582912.0)  # low bits of the mantissa hold n
    n = shifted - np.float32(12582912.0)
    r = clipped - n * np.float32(0.693145751953125)
    r = r - n * np.float32(1.428606820309417e-06)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    bits = np.uint32((np.uint32(np.float32(shifted).view(np.uint32)) << np.uint32(23)) + np.uint32(0x3F800000))
    return p * bits.view(np.float32) if x > np.float32(-86.0) else np.float32(0.0)


@jit
def contraction(
    cond: NDArray[np.float32],  # IN (K, >= n_rows) P(outcome | row), rows contiguous
    n_rows: int,
    centre: NDArray[np.float64],  # IN (K,) any distribution over outcomes; the nearer to all rows the better
    spread: NDArray[np.float32],  # SCRATCH (>= n_rows,)
) -> float:
    """Largest total variation between two rows of a kernel: exact for few outcomes, else an upper bound.

    With up to 3 outcomes every event is an outcome or the complement of one, so TV = max_k |P(k) - Q(k)| and the
    answer is max_k (max_row - min_row).  Beyond 8 outcomes or 16 rows, by the triangle inequality through ``centre`` and
    by the mass that all rows share, it is at most min(1 - sum_k min_row P(k), sum of the two largest TV(row, centre)).
    """
    n_outcomes = cond.shape[0]
    largest = np.float32(0.0)
    if n_rows <= 1:
        return largest
    if n_outcomes <= 3:
        for k in range(n_outcomes):
            low = cond[k, 0]
            high = low
            for row in range(1, n_rows):
                low = min(low, cond[k, row])
                high = max(high, cond[k, row])
            largest = max(largest, high - low)
        return largest
    if n_outcomes <= 8 and n_rows <= 16:
        for i in range(n_rows - 1):
            for j in range(i + 1, n_rows):
                total = np.float32(0.0)
                for k in range(n_outcomes):
                    total += abs(cond[k, i] - cond[k, j])
                largest = max(largest, total)
        return np.float32(0.5) * largest
    spread[:n_rows] = 0.0
    shared = np.float32(0.0)
    for k in range(n_outcomes):
        middle = np.float32(centre[k])
        for row in range(n_rows):
            spread[row] += abs(cond[k, row] - middle)
        low_even, low_odd = cond[k, 0], cond[k, 1]
        for row in range(2, n_rows - 1, 2):
            low_even = min(low_even, cond[k, row])
            low_odd = min(low_odd, cond[k, row + 1])
        shared += min(low_even, low_odd, cond[k, n_rows - 1])
    return _from_bounds(shared, spread, n_rows)


@jit
def _from_bounds(shared: float, spread: NDArray[np.float32], n_rows: int) -> float:
    """Return min(1 - shared, half of the two largest L1 distances, 1)."""
    largest = np.float32(0.0)
    second = np.float32(0.0)
    for row in range(n_rows):
        if spread[row] > largest:
            second = largest
            largest = spread[row]
        elif spread[row] > second:
            second = spread[row]
    return max(min(np.float32(1.0) - shared, np.float32(0.5) * (largest + second), np.float32(1.0)), np.float32(0.0))


@jit
def mixing_position(
    pair: NDArray[np.float64],  # IN (K, C) P(c_t=c, y_t=k | X)
    now: NDArray[np.float64],  # IN (C,) P(c_t=c | X)
    following: NDArray[np.float64],  # IN (C,) P(c_{t+1}=c | X)
    n_shared: int,  # K**(m-1)
    cond: NDArray[np.float32],  # SCRATCH (K, C)
    centre: NDArray[np.float64],  # SCRATCH (K,)
    inverse: NDArray[np.float64],  # SCRATCH (C,)
    spread: NDArray[np.float32],  # SCRATCH (C,)
) -> tuple[float, float]:
    """Contraction coefficients at one position (order >= 1): of P(y_t | c_t) and of P(y_{t-m} | c_{t+1})."""
    n_labels, n_contexts = pair.shape
    n_rows = 0
    for c in range(n_contexts):
        if now[c] > 0.0:
            inverse[c] = 1.0 / now[c]
            n_rows += 1
    for k in range(n_labels):
        if n_rows == n_contexts:
            for c in range(n_contexts):
                cond[k, c] = np.float32(pair[k, c] * inverse[c])
        else:
            row = 0
            for c in range(n_contexts):
                if now[c] > 0.0:
                    cond[k, row] = np.float32(pair[k, c] * inverse[c])
                    row += 1
        total = 0.0
        for shared in range(n_shared):
            total += following[k + n_labels * shared]
        centre[k] = total
    forward = contraction(cond, n_rows, centre, spread)
    for k in range(n_labels):
        total = 0.0
        for shared in range(n_shared):
            total += now[shared + n_shared * k]
        centre[k] = total
    n_rows = 0
    for shared in range(n_shared):
        for k in range(n_labels):
            mass = following[k + n_labels * shared]
            if mass > 0.0:
                scale = 1.0 / mass
                for oldest in range(n_labels):
                    cond[oldest, n_rows] = np.float32(pair[k, shared + n_shared * oldest] * scale)
                n_rows += 1
    return forward, contraction(cond, n_rows, centre, spread)
