"""The objective of a linear chain: its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from features_batches import random_batch

from seqboost.core.contexts import ContextSpace
from seqboost.linear import LinearObjective
from tests.support.linear import task_of


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
    objective = LinearObjective(task, all_from)
    objective.penalty = 0.3
    theta = 0.3 * rng.normal(size=objective.n_parameters)
    _, gradient = objective(theta)
    directions = rng.normal(size=(6, len(theta)))
    directions[4:] = 0
    directions[4, : -task.table.size] = 1  # the weights alone
    directions[5, -task.table.size :] = rng.normal(size=task.table.size)  # the table alone
    for direction in directions:
        eps = 1e-2 / np.linalg.norm(direction)
        ahead, behind = (objective(theta + sign * eps * direction)[0] for sign in (1, -1))
        slope = (ahead - behind) / (2 * eps)
        np.testing.assert_allclose(gradient @ direction, slope, rtol=2e-3, atol=2e-2)
