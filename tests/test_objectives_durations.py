"""The likelihood within minimum durations: enumeration, finite differences, weights, steps that rise, errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

from seqboost.boosting import MAX_LEAF_VALUE
from seqboost.boosting.steps import TWO_BLOCKS
from seqboost.chain import DurationPotentials
from seqboost.chain.durations import forward_backward
from seqboost.chain.reference import duration_paths, random_potentials
from seqboost.exceptions import InputError, ParameterError
from seqboost.objectives import DurationLikelihood, Likelihood, raise_if_short

DURATIONS = [(1, 1), (3, 2), (2, 1, 3), (3, 3, 3)]
LENGTHS = (4, 1, 6, 2, 5)
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 1.5])
POISONED = ("_gradient", "_hessian", "_log_z", "_path_score", "_tau", "_reach", "_pair_reach", "_means", "_variances")


def make(durations, joint, hidden=0.0, seed=0, **kind):
    """Return potentials, and labels drawn from the allowed labellings, some of them unobserved."""
    rng = np.random.default_rng([seed, joint, *durations])
    p = random_potentials(rng, len(durations), 1, joint=joint, lengths=LENGTHS, **kind)
    p = DurationPotentials(p.scores, p.table, p.offsets, 1, p.end, np.array(durations))
    paths = [[path for path, score in duration_paths(p, s) if score > -np.inf] for s in range(p.n_sequences)]
    labels = np.concatenate([allowed[rng.integers(len(allowed))] for allowed in paths]).astype(np.int32)
    labels[rng.random(len(labels)) < hidden] = -1
    return p, labels


def objective_of(p, labels, **options):
    options = {"sequence_weights": WEIGHTS, "end": p.end, **options}
    return DurationLikelihood(labels, p.offsets, p.durations, n_labels=p.n_labels, joint=p.joint, **options)


class Twin:
    """Every labelling within the durations, written out."""

    def __init__(self, p, labels):
        self.paths, self.agrees, self.p = [], [], p
        for s, begin in enumerate(p.offsets[:-1]):
            observed = labels[begin : p.offsets[s + 1]]
            paths = np.array([path for path, _ in duration_paths(p, s)])
            self.paths.append(paths)
            self.agrees.append(np.all((observed < 0) | (observed == paths), axis=1))

    def log_likelihoods(self, scores, table):
        """Return log P of the observed labels of each sequence, in double precision."""
        found = []
        for begin, paths, agrees in zip(self.p.offsets, self.paths, self.agrees, strict=False):
            rows, before = begin + np.arange(paths.shape[1]), np.roll(paths, 1, axis=1)
            slot, extended = before if self.p.joint else np.zeros_like(paths), 1 + before
            slot[:, 0] = extended[:, 0] = 0
            values = (scores[paths, rows, slot] + table[extended, paths]).sum(axis=1) + self.p.end[paths[:, -1]]
            found.append(np.logaddexp.reduce(values[agrees]) - np.logaddexp.reduce(values))
        return np.array(found)


@pytest.mark.parametrize("kind", [{}, {"scale": 1e3}, {"closed": True}, {"forbidden": 0.15}])
@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("durations", DURATIONS)
def test_log_likelihood_is_that_of_enumeration(durations, joint, hidden, kind):
    p, labels = make(durations, joint, hidden, **kind)
    objective = objective_of(p, labels)
    found = objective.derivatives(p.scores, p.table)
    expected = Twin(p, labels).log_likelihoods(p.scores.astype(np.float64), p.table)
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(objective.log_likelihood(p.scores, p.table), found.log_likelihood, rtol=1e-12)
    assert np.all(found.hessian >= 0)
    assert np.all(np.isfinite(found.gradient))


@pytest.mark.parametrize("hidden", [0.0, 0.5])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("durations", DURATIONS)
def test_gradient_is_the_finite_difference(durations, joint, hidden):
    p, labels = make(durations, joint, hidden)
    found = objective_of(p, labels).derivatives(p.scores, p.table)
    scores, step, twin = p.scores.astype(np.float64), 1e-5, Twin(p, labels)
    for cell in zip(*np.nonzero(np.isfinite(scores)), strict=True):
        up, down = scores.copy(), scores.copy()
        up[cell] += step
        down[cell] -= step
        slope = twin.log_likelihoods(up, p.table) - twin.log_likelihoods(down, p.table)
        assert found.gradient[cell] == pytest.approx(WEIGHTS @ slope / (2 * step), abs=2e-6)
    assert np.all(found.gradient[~np.isfinite(scores)] == 0)
    if joint:
        assert found.table_gradient is None
        return
    for cell in np.ndindex(p.table.shape):
        up, down = p.table.copy(), p.table.copy()
        up[cell] += step
        down[cell] -= step
        slope = twin.log_likelihoods(scores, up) - twin.log_likelihoods(scores, down)
        assert found.table_gradient[cell] == pytest.approx(WEIGHTS @ slope / (2 * step), abs=2e-6)


@pytest.mark.parametrize("curvature", ["mixing", "newton", "count"])
@pytest.mark.parametrize("hidden", [0.0, 0.4])
@pytest.mark.parametrize("joint", [True, False])
def test_durations_of_one_are_the_plain_likelihood(joint, hidden, curvature):
    p, labels = make((1, 1, 1), joint, hidden)
    ours = objective_of(p, labels, curvature=curvature).derivatives(p.scores, p.table)
    plain = Likelihood(
        labels, p.offsets, n_labels=3, order=1, joint=joint, sequence_weights=WEIGHTS, curvature=curvature
    ).derivatives(p.scores, p.table)
    for name in ("gradient", "hessian", "table_gradient", "table_hessian", "log_likelihood", "n_correct"):
        if getattr(plain, name) is not None:
            np.testing.assert_allclose(getattr(ours, name), getattr(plain, name), rtol=1e-3, atol=1e-5)
    assert ours.caution == pytest.approx(plain.caution, rel=1e-3)


@pytest.mark.parametrize("joint", [True, False])
def test_buffers_runs_and_threads_do_not_matter(joint, monkeypatch):
    p, labels = make((2, 1, 3), joint, 0.3)
    objective = objective_of(p, labels)
    once = objective.derivatives(p.scores, p.table)
    kept = [once.gradient.copy(), once.hessian.copy(), once.log_likelihood.copy()]
    for name in POISONED:
        if hasattr(objective, name):
            getattr(objective, name)[:] = np.nan
    monkeypatch.setattr(forward_backward, "RUN_CELLS", 1)
    again = objective.derivatives(p.scores, p.table, n_threads=2)
    for ours, theirs in zip(kept, (again.gradient, again.hessian, again.log_likelihood), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def capped(gradient, hessian):
    return np.clip(gradient / (hessian + gradient.dtype.type(1e-3)), -MAX_LEAF_VALUE, MAX_LEAF_VALUE)


@pytest.mark.parametrize("hidden", [0.0, 0.4])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("durations", [(3, 2), (5, 5), (2, 1, 3)])
def test_steps_by_the_mixing_curvature_rise(durations, joint, scale, hidden):
    """The curvature is no bound here, but steps as boosting takes them, of a quarter of the way and capped, rise.

    Without the cap a few fall at scale 3, as they do without durations: curvature vanishes where labels are improbable.
    """
    for seed in range(5):
        p, labels = make(durations, joint, hidden, seed=seed, scale=scale)
        objective, scores, table = objective_of(p, labels), np.nan_to_num(p.scores), p.table.copy()
        before = -np.inf
        for _ in range(8):
            found = objective.derivatives(scores, table)
            value = WEIGHTS @ found.log_likelihood
            assert value >= before - 1e-6
            before = value
            way = 0.25 if joint else 0.25 * TWO_BLOCKS
            scores = scores + np.float32(way) * capped(found.gradient, found.hessian)
            if found.table_gradient is not None:
                table = table + way * capped(found.table_gradient, found.table_hessian)


def test_short_runs_are_named():
    labels, offsets = np.array([0, 0, 1, 0, 0, 1, 1, 0], np.int32), np.array([0, 2, 8])
    message = (
        "y[1] has a run of 2 position(s) of 'walk' that starts at position 1, but min_duration asks for 3 or more; "
        "smooth the labels, or lower min_duration of 'walk'"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        DurationLikelihood(labels, offsets, np.array([3, 2]), n_labels=2, joint=True, classes=["walk", "run"])
    DurationLikelihood(labels, offsets, np.array([2, 2]), n_labels=2, joint=True)
    with pytest.raises(InputError, match=re.escape("y_val[7] has a run of 2 position(s) of 0 that starts at")):
        raise_if_short(labels, offsets, np.array([3, 2]), name="y_val", numbers=np.array([3, 7]))


def test_impossible_unobserved_labels_and_forbidden_transitions_are_named():
    labels, offsets = np.array([0, 1, -1, 0, 1, 1], np.int32), np.array([0, 6])
    message = "of y[0] make every run of a label as long as min_duration asks for; lower min_duration, or leave more"
    with pytest.raises(InputError, match=re.escape(message)):
        DurationLikelihood(labels, offsets, np.array([1, 3]), n_labels=2, joint=False)
    labels, table = np.array([0, -1, -1, -1, 0, 0], np.int32), np.zeros((3, 2))
    table[1, 0] = -np.inf
    objective = DurationLikelihood(labels, offsets, np.array([1, 3]), n_labels=2, joint=False)
    for method in (objective.derivatives, objective.log_likelihood):
        with pytest.raises(InputError, match="moves from 0 to 0 at position 5, which transitions"):
            method(np.zeros((2, 6, 1), np.float32), table)
    labels = np.array([0, -1, -1, 0], np.int32)  # 0 0 0 0 would last, 0 1 1 0 would be allowed
    objective = DurationLikelihood(labels, np.array([0, 4]), np.array([1, 3]), n_labels=2, joint=False)
    with pytest.raises(InputError, match=re.escape("of y[0] keep to both min_duration and transitions; relax one")):
        objective.derivatives(np.zeros((2, 4, 1), np.float32), table)
    labels, table = np.array([0, 0, 1, 1, 1, 1], np.int32), np.zeros((3, 2))
    table[1, 1] = -np.inf
    objective = DurationLikelihood(labels, offsets, np.array([1, 3]), n_labels=2, joint=False)
    with pytest.raises(InputError, match="moves from 0 to 1 at position 2, which transitions"):
        objective.derivatives(np.zeros((2, 6, 1), np.float32), table)


def test_other_orders_are_refused():
    labels, offsets = np.array([0, 1], np.int32), np.array([0, 2])
    for order in (0, 2):
        with pytest.raises(ParameterError, match=f"need a chain of order 1, got order {order}"):
            DurationLikelihood(labels, offsets, np.array([1, 2]), n_labels=2, joint=True, order=order)
