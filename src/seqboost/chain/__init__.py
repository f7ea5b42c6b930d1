"""Chains of labels: log-scores in; log Z, marginals and labellings out."""

from seqboost.chain.backoff.automaton import SeenContexts
from seqboost.chain.backoff.expectations import Sums
from seqboost.chain.backoff.forward_backward import seen_chunks, seen_posterior_chunk
from seqboost.chain.backoff.paths import seen_counts, seen_steps
from seqboost.chain.backoff.potentials import SeenPotentials
from seqboost.chain.beam import beam_sequence, make_beam
from seqboost.chain.contexts import end_scores, transition_table
from seqboost.chain.contraction.pairs import position_blocks
from seqboost.chain.durations.forward_backward import (
    duration_log_partition_chunk,
    duration_pair_runs,
    duration_posterior_chunk,
)
from seqboost.chain.durations.potentials import DurationPotentials, short_run
from seqboost.chain.exact.factored import PairMessages, pair_block
from seqboost.chain.exact.forward_backward import log_partition_chunk, posterior_chunk
from seqboost.chain.exact.pair_sums import pair_sums_chunk
from seqboost.chain.inference import (
    Paths,
    Posterior,
    context_marginals,
    k_best,
    log_partition,
    log_probability,
    node_marginals,
    path_scores,
    posterior,
    viterbi,
)
from seqboost.chain.local import locally_normalised
from seqboost.chain.paths import viterbi_chunk
from seqboost.chain.potentials import Lattice, Potentials, factored_chunks
from seqboost.chain.protocol import Chain

__all__ = [
    "Chain",
    "DurationPotentials",
    "Lattice",
    "PairMessages",
    "Paths",
    "Posterior",
    "Potentials",
    "SeenContexts",
    "SeenPotentials",
    "Sums",
    "beam_sequence",
    "context_marginals",
    "duration_log_partition_chunk",
    "duration_pair_runs",
    "duration_posterior_chunk",
    "end_scores",
    "factored_chunks",
    "k_best",
    "locally_normalised",
    "log_partition",
    "log_partition_chunk",
    "log_probability",
    "make_beam",
    "node_marginals",
    "pair_block",
    "pair_sums_chunk",
    "path_scores",
    "position_blocks",
    "posterior",
    "posterior_chunk",
    "seen_chunks",
    "seen_counts",
    "seen_posterior_chunk",
    "seen_steps",
    "short_run",
    "transition_table",
    "viterbi",
    "viterbi_chunk",
]
