"""Kinds of random potentials for the tests of forward-backward, and a run of it that shows what is not written."""

from __future__ import annotations

import numpy as np

from seqboost.chain import posterior_chunk

CASES = {
    "plain": {},
    "huge": {"scale": 1e4},
    "forbidden": {"forbidden": 0.25},
    "closed": {"closed": True},
    "huge_forbidden": {"scale": 1e4, "forbidden": 0.2, "closed": True},
}


def run(p, labels=None):
    """Forward-backward in two chunks, into buffers poisoned with NaN."""
    marginals = np.full_like(p.scores, np.nan)
    log_z = np.full(p.n_sequences, np.nan)
    taus = np.full((2, p.n_positions), np.nan, np.float32)
    half = p.n_sequences // 2
    messages = [
        posterior_chunk(p, a, b, marginals, log_z, labels=labels, tau_forward=taus[0], tau_backward=taus[1])
        for a, b in [(0, half), (half, p.n_sequences)]
    ]
    return log_z, marginals, taus, messages
