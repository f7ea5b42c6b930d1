"""Potentials of back-off chains are checked."""

from dataclasses import replace

import numpy as np
import pytest

from seqboost.chain import k_best, posterior, viterbi
from seqboost.chain.reference import random_seen
from seqboost.exceptions import InputError, ParameterError


def test_errors():
    p = random_seen(np.random.default_rng(0), 3, 2)
    with pytest.raises(ParameterError, match=r"scores must be a C-contiguous float32 array of shape \(3, 15, 1\)"):
        replace(p, scores=p.scores.astype(np.float64))
    with pytest.raises(ParameterError, match=r"table must hold \d+ finite numbers"):
        replace(p, table=p.table[:-1])
    with pytest.raises(ParameterError, match="finite numbers"):
        replace(p, table=p.table + np.inf)
    with pytest.raises(ParameterError, match=r"end must have shape \(3,\)"):
        replace(p, end=np.zeros(2))
    with pytest.raises(InputError, match="sequence 1 is empty"):
        replace(p, offsets=np.array([0, 5, 5, 15]))
    with pytest.raises(InputError, match="they begin at 1"):
        replace(p, offsets=np.array([1, 15]))
    with pytest.raises(ParameterError, match="k best labellings of a chain of seen contexts"):
        k_best(p, 2)
    with pytest.raises(ParameterError, match="no beam search, got beam=3"):
        posterior(p, beam=3)
    with pytest.raises(ParameterError, match="no beam search, got beam=3"):
        viterbi(p, beam=3)
    closed = replace(p, end=np.full(3, -np.inf))
    with pytest.raises(InputError, match="no labelling of sequence 0 .* is allowed"):
        posterior(closed)
