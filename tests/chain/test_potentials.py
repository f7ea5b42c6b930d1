"""Potentials are checked, and chunks cover all sequences."""

import itertools

import numpy as np
import pytest

from seqboost.chain import Potentials
from seqboost.core.offsets import sequence_chunks
from seqboost.exceptions import InputError, ParameterError


def test_potentials_are_checked():
    scores = np.zeros((2, 5, 2), np.float32)
    table = np.zeros((3, 2))
    offsets = np.array([0, 2, 5])
    assert Potentials(scores, table, offsets, 1).joint
    assert not Potentials(scores[:, :, :1].copy(), table, offsets, 1).joint
    with pytest.raises(ParameterError, match="C-contiguous float32"):
        Potentials(scores.astype(np.float64), table, offsets, 1)
    with pytest.raises(ParameterError, match=r"4 context slots \(joint\) or 1 \(factored\)"):
        Potentials(scores, np.zeros((7, 2)), offsets, 2)
    with pytest.raises(ParameterError, match=r"float64 array of shape \(3, 2\)"):
        Potentials(scores, np.zeros((2, 2)), offsets, 1)
    with pytest.raises(ParameterError, match=r"end must have shape \(2,\)"):
        Potentials(scores, table, offsets, 1, np.zeros(3))
    with pytest.raises(InputError, match="sequence 1 is empty"):
        Potentials(scores, table, np.array([0, 2, 2, 5]), 1)
    with pytest.raises(InputError, match="they span 0:4"):
        Potentials(scores, table, np.array([0, 2, 4]), 1)


def test_chunks_cover_the_sequences():
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(1, 50, 300))])
    chunks = sequence_chunks(offsets, 100)
    assert chunks[0][0] == 0
    assert chunks[-1][1] == 300
    assert all(a[1] == b[0] for a, b in itertools.pairwise(chunks))
    assert all(offsets[last] - offsets[first] >= 100 for first, last in chunks[:-1])
