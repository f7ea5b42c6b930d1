"""Chains of labels: log-scores in; log Z, marginals and labellings out."""

from seqboost.chain.beam import beam_sequence
from seqboost.chain.contexts import end_scores, transition_table
from seqboost.chain.failuresums import Sums
from seqboost.chain.forward_backward import PairMessages, pair_block, pair_sums_chunk, posterior_chunk
from seqboost.chain.histories import SeenContexts
from seqboost.chain.inference import (
    Paths,
    Posterior,
    k_best,
    log_partition,
    log_probability,
    node_marginals,
    path_scores,
    posterior,
    viterbi,
)
from seqboost.chain.local import locally_normalised
from seqboost.chain.mixing import position_blocks
from seqboost.chain.paths import path_scores_chunk
from seqboost.chain.potentials import Potentials, factored_chunks
from seqboost.chain.seen import SeenPotentials, seen_chunks, seen_counts, seen_posterior_chunk, seen_steps

__all__ = [
    "PairMessages",
    "Paths",
    "Posterior",
    "Potentials",
    "SeenContexts",
    "SeenPotentials",
    "Sums",
    "beam_sequence",
    "end_scores",
    "factored_chunks",
    "k_best",
    "locally_normalised",
    "log_partition",
    "log_probability",
    "node_marginals",
    "pair_block",
    "pair_sums_chunk",
    "path_scores",
    "path_scores_chunk",
    "position_blocks",
    "posterior",
    "posterior_chunk",
    "seen_chunks",
    "seen_counts",
    "seen_posterior_chunk",
    "seen_steps",
    "transition_table",
    "viterbi",
]
