"""Random numbers by counter: SplitMix64 (Steele, Lea and Flood 2014).

    number i of seed s  =  mix(s + (i + 1)·γ)          γ = 2^64 / golden ratio, made odd

Each number is a function of seed and counter alone, so that draws depend neither on their order nor on threads. All
arithmetic is modulo 2^64.
"""

from __future__ import annotations

import numpy as np

from seqboost.core.jit import inner

__all__ = ["GAMMA", "mix", "random_below", "random_number"]

GAMMA = np.uint64(0x9E3779B97F4A7C15)


@inner
def mix(z: np.uint64) -> np.uint64:
    """Return the 64 bits that stand for counter ``z``, each of which depends on all bits of ``z``."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def random_number(seed: np.uint64, number: int) -> np.uint64:
    """Return random number ``number`` of a seed, 64 bits."""
    return mix(seed + np.uint64(number + 1) * GAMMA)


@inner
def random_below(seed: np.uint64, number: int, bound: int) -> np.int64:
    """Return random number ``number`` of a seed, from 0 to ``bound`` − 1; ``bound`` is at least 1."""
    return np.int64(random_number(seed, number) % np.uint64(bound))
