"""Training of a linear chain: its optimum, and the choice of penalty and steps."""

from __future__ import annotations

import numpy as np
import pycrfsuite
import pytest
from features_batches import make_batch

from seqboost.linear import LinearObjective, linear_start
from seqboost.linear.lbfgs import Optimum, maximize, run_plan, search_plan
from tests.support.linear import task_of, text


def test_optimum_is_that_of_crfsuite(tmp_path):
    lengths, words, labels = text()
    penalty = 0.7
    ends = np.cumsum(lengths)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": 0.0, "c2": penalty, "max_iterations": 1000, "epsilon": 1e-7, "delta": 1e-12, "period": 50,
            "feature.possible_states": True, "feature.possible_transitions": True,
        }
    )  # fmt: skip
    attributes = [
        [[f"w={words[t]}", *(["first"] if t == begin else [])] for t in range(begin, end)]
        for begin, end in zip(ends - lengths, ends, strict=True)
    ]
    for rows, begin, end in zip(attributes, ends - lengths, ends, strict=True):
        trainer.append(rows, [str(k) for k in labels[begin:end]])
    path = str(tmp_path / "crfsuite")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    theirs = tagger.info()

    batch = make_batch(lengths, categorical=[words])
    objective = LinearObjective(task_of(batch, labels), all_labels_from=1)
    objective.penalty = penalty
    end = maximize(objective, Optimum(np.zeros(objective.n_parameters), 0, np.nan), 1000, tolerance=1e-13)
    weights, table = objective.weights(end.theta), objective.table(end.theta)

    known = objective._task.columns.binner.categories[0]
    columns = objective._task.columns
    for (attribute, label), value in theirs.state_features.items():
        k = int(label)
        if attribute == "first":  # the score of a label that begins a sequence
            assert table[0, k] == pytest.approx(value, abs=2e-3)
            continue
        feature = columns.feature_of[0, known.index(attribute.removeprefix("w="))]
        places = slice(weights.start[feature], weights.start[feature + 1])
        ours = dict(zip(weights.label[places].tolist(), weights.value[places].tolist(), strict=True))
        assert ours[k] == pytest.approx(value, abs=2e-3)
    for (before, after), value in theirs.transitions.items():
        assert table[1 + int(before), int(after)] == pytest.approx(value, abs=2e-3)

    likelihood = 0.0
    for rows, begin, stop in zip(attributes, ends - lengths, ends, strict=True):
        tagger.set(rows)
        likelihood += np.log(tagger.probability([str(k) for k in labels[begin:stop]]))
    loss, _ = objective(end.theta)
    assert -(loss - penalty * end.theta @ end.theta) == pytest.approx(likelihood, rel=1e-4)


def test_search_keeps_the_best_step_and_its_plan_leads_there():
    lengths, words, labels = text(n=80, n_stems=40)
    batch = make_batch(lengths, categorical=[words])
    task = task_of(batch, labels, n_training=60)
    objective = LinearObjective(task)
    at_zero = objective.score_at(np.zeros(objective.n_parameters))
    theta, plan = search_plan(objective)
    assert plan
    assert all(n_steps > 0 for _, n_steps in plan)
    penalties = [penalty for penalty, _ in plan]
    assert penalties == sorted(penalties, reverse=True)
    assert objective.score_at(theta) > at_zero
    np.testing.assert_allclose(run_plan(objective, plan), theta, rtol=1e-9, atol=1e-12)
    objective.penalty = 0.0
    end = maximize(objective, Optimum(np.zeros(objective.n_parameters), 0, np.nan), 200, tolerance=1e-9)
    assert objective.score_at(theta) > objective.score_at(end.theta)  # without penalty it is overfitted


def test_columns_that_say_nothing_leave_the_start_nearly_alone():
    rng = np.random.default_rng(0)
    lengths = [6] * 60
    batch = make_batch(lengths, numeric=rng.normal(size=(360, 30)))
    labels = rng.integers(0, 3, size=360)
    task = task_of(batch, labels, n_training=40)
    objective = LinearObjective(task)
    theta, _ = search_plan(objective)
    assert objective.score_at(theta) >= objective.score_at(np.zeros_like(theta))


def test_weight_two_is_repetition():
    lengths, words, labels = text(n=12)
    ends = np.cumsum(lengths)
    weights = np.where(np.arange(12) % 3 == 0, 2.0, 1.0)
    weighted = task_of(make_batch(lengths, categorical=[words]), labels, weights=weights)
    order = np.repeat(np.arange(12), weights.astype(int))
    rows = np.concatenate([np.arange(ends[i] - lengths[i], ends[i]) for i in order])
    repeated = task_of(make_batch(lengths[order], categorical=[[words[r] for r in rows]]), labels[rows])
    results = []
    for task in (weighted, repeated):
        objective = LinearObjective(task, 1)
        objective.penalty = 1.0
        theta = maximize(objective, Optimum(np.zeros(objective.n_parameters), 0, np.nan), 100, tolerance=1e-10).theta
        results.append(theta)
    np.testing.assert_allclose(*results, atol=2e-3)


def test_forbidden_transitions_stay_forbidden():
    lengths, words, _ = text(n=30)
    labels = np.concatenate([np.arange(length) % 3 for length in lengths])
    table = np.zeros((4, 3))
    table[1, 0] = table[0, 1] = -np.inf
    weights, found, _ = linear_start(task_of(make_batch(lengths, categorical=[words]), labels, table=table), 0)
    assert np.array_equal(np.isinf(found), np.isinf(table))
    assert np.isfinite(weights.value).all()


@pytest.mark.parametrize(("n", "n_training"), [(8, None), (40, None), (40, 30)])
def test_threads_do_not_change_a_bit(n, n_training):
    lengths, words, labels = text(n=n)
    batch = make_batch(lengths, categorical=[words])
    one, three = (
        linear_start(task_of(batch, labels, n_training, window=1, n_threads=n_threads), 5) for n_threads in (1, 3)
    )
    assert np.array_equal(one[0].value, three[0].value)
    assert np.array_equal(one[1], three[1])
    assert one[0].value.any()
