"""The share of a chain's labellings that agree with given labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.chain import Potentials, SeenPotentials, posterior_chunk, seen_chunks, seen_posterior_chunk
from seqboost.core.offsets import sequence_chunks
from seqboost.core.threads import run_tasks

__all__ = ["log_partition_of"]


def log_partition_of(
    labels: NDArray[np.int32], potentials: Potentials | SeenPotentials, n_threads: int
) -> NDArray[np.float64]:
    """Return the log of the summed exp-scores of the labellings that agree with ``labels`` (−1 = any label).

    Unlike :func:`seqboost.chain.log_partition` this gives −inf for labels that are forbidden: nothing is wrong with
    asking for their probability.
    """
    marginals = np.empty_like(potentials.scores)
    log_z = np.empty(potentials.n_sequences)

    def task(first: int, last: int) -> None:
        if isinstance(potentials, SeenPotentials):
            seen_posterior_chunk(potentials, first, last, marginals, log_z, labels=labels)
        else:
            posterior_chunk(potentials, first, last, marginals, log_z, labels=labels)

    is_seen = isinstance(potentials, SeenPotentials)
    run_tasks(task, (seen_chunks if is_seen else sequence_chunks)(potentials.offsets), n_threads)
    return log_z
