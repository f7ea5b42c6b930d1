"""Each function of inference does only the work that its return type implies."""

import tracemalloc

import numpy as np
import pytest

from seqboost.chain import log_partition, posterior
from seqboost.chain.backoff import forward_backward as backoff
from seqboost.chain.exact import factored, joint, many_labels, solver
from seqboost.chain.reference import random_potentials, random_seen
from seqboost.exceptions import InputError
from tests.support.chains import CASES, SEEN_CASES

KINDS = {
    "joint": (3, 1, True),
    "joint, order 2": (3, 2, True),
    "factored": (12, 1, False),
    "many labels": (40, 1, False),
}


def some(kind, **options):
    n_labels, order, is_joint = KINDS[kind]
    rng = np.random.default_rng(len(kind))
    return random_potentials(rng, n_labels, order, joint=is_joint, lengths=(1, 30, 7, 2, 90), **options)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_log_partition_has_the_bits_of_posterior(kind, case, masked):
    p = some(kind, **CASES[case])
    labels = np.random.default_rng(1).integers(-1, p.n_labels, p.n_positions).astype(np.int32) if masked else None
    expected, marginals = np.empty(p.n_sequences), np.empty_like(p.scores)
    solver.posterior_chunk(p, 0, p.n_sequences, marginals, expected, labels=labels)
    np.testing.assert_array_equal(log_partition(p, labels=labels, allow_impossible=True), expected)


@pytest.mark.parametrize("case", SEEN_CASES)
def test_log_partition_of_back_off_chains_has_the_bits_of_posterior(case):
    p = random_seen(np.random.default_rng(len(case)), 3, 2, **SEEN_CASES[case])
    expected, marginals = np.empty(p.n_sequences), np.empty_like(p.scores)
    backoff.seen_posterior_chunk(p, 0, p.n_sequences, marginals, expected)
    np.testing.assert_array_equal(log_partition(p, allow_impossible=True), expected)


@pytest.mark.parametrize("beam", [None, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_log_partition_runs_one_pass(kind, beam, monkeypatch):
    def refuse(*_arguments):
        raise AssertionError("log Z needs no second pass")

    p = some(kind)
    expected = posterior(p, beam=beam).log_z
    for module, name in ((joint, "joint_forward"), (factored, "factored_forward"), (many_labels, "forward_rows")):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(solver, "posterior_chunk", refuse)
    np.testing.assert_array_equal(log_partition(p, beam=beam), expected)


@pytest.mark.parametrize("kind", [*KINDS, "seen"])
def test_log_partition_allocates_no_marginals(kind):
    rng, lengths = np.random.default_rng(0), (50,) * 4000
    n_labels, order, is_joint = KINDS.get(kind, (3, 2, False))
    if kind == "seen":
        p = random_seen(rng, n_labels, order, lengths=lengths)
    else:
        p = random_potentials(rng, n_labels, order, joint=is_joint, lengths=lengths[: 4000 if n_labels < 9 else 800])
    log_partition(p)
    tracemalloc.start()
    log_partition(p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * p.scores.nbytes


def test_impossible_sequences_are_an_error_unless_allowed():
    p = random_potentials(np.random.default_rng(2), 2, 1, lengths=(3, 1))
    p.table[1:] = -np.inf
    with pytest.raises(InputError, match="no labelling of sequence 0"):
        log_partition(p)
    found = log_partition(p, allow_impossible=True)
    assert found[0] == -np.inf
    assert np.isfinite(found[1])
