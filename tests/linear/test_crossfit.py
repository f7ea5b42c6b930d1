"""Cross-fitted scores of a linear start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from features_batches import make_batch

from seqboost.linear import LinearObjective, cross_scores, digest, linear_start
from seqboost.linear.crossfit import FOLDS
from seqboost.linear.lbfgs import run_plan
from tests.support.linear import task_of, text

PLAN = ((1.0, 5), (0.1, 3))


def fitted(n, n_training=None, n_threads=1, seed=3):
    lengths, words, labels = text(n=n)
    task = task_of(make_batch(lengths, categorical=[words]), labels, n_training, window=1, n_threads=n_threads)
    weights, _, plan = linear_start(task, seed, PLAN)
    return task, weights, cross_scores(task, weights, plan, seed)


def test_every_fold_is_scored_by_a_chain_of_the_others():
    task, _, scores = fitted(40, 31)
    fold = np.random.default_rng(3).permutation(31) % FOLDS
    for f in range(FOLDS):
        others, _ = task.rearranged(np.flatnonzero(fold != f), int(np.count_nonzero(fold != f)))
        objective = LinearObjective(others)
        expected = objective.weights(run_plan(objective, PLAN)).scores(task.rows)
        for s in np.flatnonzero(fold == f):
            rows = slice(*task.rows.offsets[s : s + 2])
            np.testing.assert_allclose(scores[:, rows], expected[:, rows], rtol=1e-4, atol=1e-5)


def test_validation_sequences_have_the_scores_of_all_training_sequences():
    task, weights, scores = fitted(40, 31)
    first = task.rows.offsets[31]
    own = weights.scores(task.rows)
    assert np.array_equal(scores[:, first:], own[:, first:])
    assert not np.allclose(scores[:, :first], own[:, :first])


def test_labels_of_a_sequence_do_not_move_its_own_scores():
    task, weights, scores = fitted(30)
    labels = task.labels.copy()
    rows = slice(*task.rows.offsets[7:9])
    labels[rows] = (labels[rows] + 1) % 3
    again = cross_scores(replace(task, labels=labels), weights, PLAN, 3)
    assert np.array_equal(again[:, rows], scores[:, rows])
    assert not np.array_equal(again, scores)


def test_few_sequences_are_not_divided():
    task, weights, scores = fitted(19)
    assert np.array_equal(scores, weights.scores(task.rows))


def test_threads_do_not_change_a_bit():
    assert np.array_equal(fitted(30)[2], fitted(30, n_threads=3)[2])


@pytest.mark.parametrize("field", ["labels", "weights", "n_training"])
def test_digest_tells_other_sequences(field):
    task, _, _ = fitted(20)
    value = getattr(task, field)
    assert digest(task) == digest(replace(task))
    assert digest(task) != digest(replace(task, **{field: value - 1}))
    rows = replace(task.rows, value=2 * task.rows.value)
    assert digest(task) != digest(replace(task, rows=rows))
