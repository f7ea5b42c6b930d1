"""The linear chain that boosting may start from: its gradient, its optimum, and the choice of penalty and steps."""

from __future__ import annotations

import numpy as np
import pycrfsuite
import pytest
from features_batches import make_batch, random_batch

from seqboost.boosting.linear import Climb, LinearProblem, LinearTask, climb, follow, linear_start, search
from seqboost.core.contexts import ContextSpace
from seqboost.features import FeatureBinner, LinearColumns


def task_of(batch, labels, n_training=None, *, n_labels=3, order=1, window=0, table=None, **change):
    columns = LinearColumns.fit(batch, FeatureBinner.fit(batch, window=window))
    n_sequences = batch.n_sequences
    space = ContextSpace(n_labels, order)
    fields = {
        "weights": np.ones(n_sequences),
        "table": np.zeros((space.n_extended, n_labels)) if table is None else table,
        "end": np.zeros(n_labels),
    } | change
    return LinearTask(
        columns,
        columns.transform(batch),
        labels.astype(np.int32),
        n_training=n_sequences if n_training is None else n_training,
        order=order,
        **fields,
    )


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("all_from", [1, 10**9])
def test_gradient_by_finite_differences(order, all_from):
    rng = np.random.default_rng(order)
    lengths = [1, 6, 3, 4, 5]
    batch = random_batch(rng, lengths, n_words=20)
    labels = rng.integers(-1, 3, size=sum(lengths))
    space = ContextSpace(3, order)
    task = task_of(
        batch, labels, 4, order=order, window=1, table=rng.normal(size=(space.n_extended, 3)),
        weights=np.array([1.0, 2.0, 0.5, 1.0, 1.0]),
    )  # fmt: skip
    problem = LinearProblem(task, all_from)
    problem.penalty = 0.3
    theta = 0.3 * rng.normal(size=problem.n_parameters)
    _, gradient = problem(theta)
    directions = rng.normal(size=(6, len(theta)))
    directions[4:] = 0
    directions[4, : -task.table.size] = 1  # the weights alone
    directions[5, -task.table.size :] = rng.normal(size=task.table.size)  # the table alone
    for direction in directions:
        eps = 1e-2 / np.linalg.norm(direction)
        ahead, behind = (problem(theta + sign * eps * direction)[0] for sign in (1, -1))
        slope = (ahead - behind) / (2 * eps)
        np.testing.assert_allclose(gradient @ direction, slope, rtol=2e-3, atol=2e-2)


def text(n=40, seed=0, n_stems=6):
    """Sentences of words whose ending tells most of the label."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=n)
    labels, words = [], []
    for length in lengths:
        label = int(rng.integers(3))
        for _ in range(length):
            label = label if rng.random() < 0.6 else int(rng.integers(3))
            labels.append(label)
            words.append(f"{rng.integers(n_stems)}{'abc'[label] if rng.random() < 0.8 else 'abc'[rng.integers(3)]}")
    return lengths, words, np.array(labels)


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
    problem = LinearProblem(task_of(batch, labels), all_labels_from=1)
    problem.penalty = penalty
    end = climb(problem, Climb(np.zeros(problem.n_parameters), 0, np.nan), 1000, tolerance=1e-13)
    weights, table = problem.weights(end.theta), problem.table(end.theta)

    known = problem._task.columns.binner.categories[0]
    columns = problem._task.columns
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
    loss, _ = problem(end.theta)
    assert -(loss - penalty * end.theta @ end.theta) == pytest.approx(likelihood, rel=1e-4)


def test_search_keeps_the_best_step_and_its_plan_leads_there():
    lengths, words, labels = text(n=80, n_stems=40)
    batch = make_batch(lengths, categorical=[words])
    task = task_of(batch, labels, n_training=60)
    problem = LinearProblem(task)
    at_zero = problem.score_at(np.zeros(problem.n_parameters))
    theta, plan = search(problem)
    assert plan
    assert all(n_steps > 0 for _, n_steps in plan)
    penalties = [penalty for penalty, _ in plan]
    assert penalties == sorted(penalties, reverse=True)
    assert problem.score_at(theta) > at_zero
    np.testing.assert_allclose(follow(problem, plan), theta, rtol=1e-9, atol=1e-12)
    problem.penalty = 0.0
    end = climb(problem, Climb(np.zeros(problem.n_parameters), 0, np.nan), 200, tolerance=1e-9)
    assert problem.score_at(theta) > problem.score_at(end.theta)  # without penalty it is overfitted


def test_columns_that_say_nothing_leave_the_start_nearly_alone():
    rng = np.random.default_rng(0)
    lengths = [6] * 60
    batch = make_batch(lengths, numeric=rng.normal(size=(360, 30)))
    labels = rng.integers(0, 3, size=360)
    task = task_of(batch, labels, n_training=40)
    problem = LinearProblem(task)
    theta, _ = search(problem)
    assert problem.score_at(theta) >= problem.score_at(np.zeros_like(theta))


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
        problem = LinearProblem(task, 1)
        problem.penalty = 1.0
        theta = climb(problem, Climb(np.zeros(problem.n_parameters), 0, np.nan), 100, tolerance=1e-10).theta
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
