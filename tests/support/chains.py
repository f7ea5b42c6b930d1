"""Kinds of random potentials for the tests of chains, and a run of forward-backward into poisoned buffers."""

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


SEEN_SHAPES = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (3, 3), (3, 4), (4, 2)]
SEEN_CASES = {
    "plain": {},
    "nothing seen": {"n_training": 1},
    "much seen": {"n_training": 60},
    "huge": {"scale": 1e4},
    "wide": {"table_scale": 60.0},
    "forbidden": {"forbidden": 0.5},
    "closed": {"closed": True},
    "huge_forbidden": {"scale": 1e4, "forbidden": 0.5, "closed": True},
    "spread_forbidden": {"scale": 40.0, "forbidden": 0.7},
}
