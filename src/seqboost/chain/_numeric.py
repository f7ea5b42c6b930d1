"""Small inlined helpers of the lattice kernels."""

from __future__ import annotations

import numpy as np

from seqboost.core.jit import inlined

__all__ = ["MAX_RANGE", "SMALLEST", "add_exp", "exp32"]

MAX_RANGE = 80.0
"""Largest spread of finite scores at a position that single-precision exponentials can hold."""

SMALLEST = 1e-200
"""Reachable messages below this (relative to the largest) are recomputed in log space."""


@inlined
def exp32(x: np.float32) -> np.float32:
    """Exponential of x <= 0 in single precision, within 1e-7; exactly 0 below -86.

    exp(x) = 2**n * exp(r), n = round(x / ln 2): a polynomial and a shift of exponent bits, without branches, so that
    loops over contiguous memory become vector instructions (below one nanosecond each).
    """
    clipped = x if x > np.float32(-86.0) else np.float32(-86.0)
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


@inlined
def add_exp(highest: float, total: float, score: float) -> tuple[float, float]:
    """Add exp(score) to exp(highest) * total, where ``highest`` stays the largest score so far (-inf at first)."""
    if score > highest:
        total = total * np.exp(highest - score) + 1.0
        highest = score
    elif score > -np.inf:
        total += np.exp(score - highest)
    return highest, total
