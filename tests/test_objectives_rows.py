"""The log-likelihood of factored models with many labels: gradients by finite differences, threads, held-out ones."""

import numpy as np
import pytest

from seqboost import TreeCRF
from seqboost.chain.potentials import MANY_LABELS
from seqboost.objectives import Likelihood

K = MANY_LABELS + 8


def make(lengths, seed=0, hidden=0.0, **options):
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64)
    labels = rng.integers(K, size=offsets[-1]).astype(np.int32)
    labels[rng.random(labels.size) < hidden] = -1
    scores = rng.normal(size=(K, offsets[-1], 1)).astype(np.float32)
    table = rng.normal(size=(K + 1, K))
    return Likelihood(labels, offsets, n_labels=K, order=1, joint=False, **options), scores, table


@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_gradients_are_finite_differences(hidden):
    objective, scores, table = make((1, 4, 2, 6), hidden=hidden)
    found = objective.derivatives(scores, table)
    gradient, table_gradient = found.gradient.copy(), found.table_gradient.copy()
    rng, step = np.random.default_rng(1), 0.05
    for _ in range(8):
        k, t = rng.integers(K), rng.integers(scores.shape[1])
        moved = [scores.copy(), scores.copy()]
        moved[0][k, t] += step
        moved[1][k, t] -= step
        up, down = (objective.log_likelihood(each, table).sum() for each in moved)
        assert gradient[k, t, 0] == pytest.approx((up - down) / (2 * step), abs=2e-4)
    for _ in range(8):
        cell = (rng.integers(K + 1), rng.integers(K))
        moved = [table.copy(), table.copy()]
        moved[0][cell] += step
        moved[1][cell] -= step
        up, down = (objective.log_likelihood(scores, each).sum() for each in moved)
        assert table_gradient[cell] == pytest.approx((up - down) / (2 * step), abs=5e-4)


def test_derivatives_have_the_same_bits_on_any_number_of_threads():
    objective, scores, table = make((7, 1, 30, 4) * 60)
    one = objective.derivatives(scores, table, n_threads=1)
    kept = one.gradient.copy(), one.hessian.copy()
    three = objective.derivatives(scores, table, n_threads=3)
    np.testing.assert_array_equal(kept[0], three.gradient)
    np.testing.assert_array_equal(kept[1], three.hessian)
    np.testing.assert_array_equal(one.table_gradient, three.table_gradient)
    np.testing.assert_array_equal(one.table_hessian, three.table_hessian)
    np.testing.assert_array_equal(one.log_likelihood, three.log_likelihood)


def test_held_out_sequences_change_no_derivative():
    lengths = (7, 1, 30, 4) * 60
    n = len(lengths)
    weights = np.where(np.arange(n) < n // 2, 1.0, 0.0)
    objective, scores, table = make(lengths, sequence_weights=weights)
    found = objective.derivatives(scores, table)
    n_rows = sum(lengths[: n // 2])
    plain, _, _ = make(lengths)
    every = plain.derivatives(scores, table)
    np.testing.assert_array_equal(found.gradient[:, :n_rows], every.gradient[:, :n_rows])
    np.testing.assert_array_equal(found.hessian[:, :n_rows], every.hessian[:, :n_rows])
    np.testing.assert_array_equal(found.log_likelihood, every.log_likelihood)
    assert not found.gradient[:, n_rows:].any()
    assert not found.hessian[:, n_rows:].any()
    np.testing.assert_allclose(found.table_gradient.sum(), 0.0, atol=1e-3)


@pytest.mark.parametrize("trees", ["per_label", "shared"])
def test_models_have_the_same_bits_for_any_n_jobs(trees):
    rng = np.random.default_rng(0)
    y = [rng.integers(K, size=n).tolist() for n in rng.integers(1, 12, 160)]
    X = [np.column_stack([np.array(labels) % 7, rng.normal(size=len(labels))]) for labels in y]
    settings = {"trees": trees, "potentials": "factored", "max_iter": 3, "random_state": 0, "early_stopping": False}
    one, two = (TreeCRF(n_jobs=n, **settings).fit(X, y) for n in (1, 2))
    for a, b in zip(one.predict_marginals(X), two.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.history_["train_score"] == two.history_["train_score"]
