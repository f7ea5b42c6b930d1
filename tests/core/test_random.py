"""Random numbers by counter, against SplitMix64 in Python's integers."""

import numpy as np
import pytest
from kernels import from_python

from seqboost.core import random

SEEDS = [0, 1, 12345, 2**63 + 5, 2**64 - 1]


def mixed(z):
    """The finalizer of Steele, Lea and Flood (2014)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def number(seed, i):
    return mixed((seed + (i + 1) * 0x9E3779B97F4A7C15) % 2**64)


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_the_twin(seed):
    mix, draw, below = (from_python(k) for k in (random.mix, random.random_number, random.random_below))
    assert int(mix(np.uint64(seed))) == mixed(seed)
    for i in (0, 1, 2, 1000, 2**40):
        assert int(draw(np.uint64(seed), i)) == number(seed, i)
        for bound in (1, 2, 7, 10**9, 2**62):
            found = below(np.uint64(seed), i, bound)
            assert 0 <= found < bound
            assert int(found) == number(seed, i) % bound


def test_numbers_are_those_of_the_published_generator():
    """The first outputs of splitmix64.c (Vigna 2015) for the seed 1234567."""
    draw = from_python(random.random_number)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(np.uint64(1234567), i)) for i in range(4)] == expected


def test_numbers_are_spread_evenly():
    below = from_python(random.random_below)
    counts = np.bincount([below(np.uint64(3), i, 10) for i in range(20_000)], minlength=10)
    assert abs(counts - 2000).max() < 5 * np.sqrt(2000)
