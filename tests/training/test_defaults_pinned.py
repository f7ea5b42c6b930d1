"""What ``TreeCRF()`` chooses on three sets, and how well it does: changes of structure must not change these."""

from __future__ import annotations

import numpy as np
import pytest

from seqboost import TreeCRF


def sensors(rng, n_sequences):
    """Noisy readings of a hidden state that lasts: neighbors help."""
    X, y = [], []
    for _ in range(n_sequences):
        state = np.repeat(rng.integers(3, size=12), rng.integers(3, 9, size=12))
        X.append(state[:, None] + rng.normal(scale=1.5, size=(len(state), 2)))
        y.append(state)
    return X, y


def letters(rng, n_sequences):
    """Vowels after an "x" have a label of their own."""
    words = ["".join(rng.choice(list("aeixbcd"), size=rng.integers(4, 20))) for _ in range(n_sequences)]
    labels = [
        [("late" if "x" in word[max(0, t - 2) : t] else "vowel") if c in "aei" else "other" for t, c in enumerate(word)]
        for word in words
    ]
    flips = [[label if rng.random() < 0.7 else "other" for label in row] for row in labels]
    return words, flips


def records(rng, n_sequences):
    """Dicts with numbers that are missing now and then, and a category; what counts is the position itself."""
    X, y = [], []
    for _ in range(n_sequences):
        numbers = rng.normal(size=(30, 8)).round(3)
        y.append((numbers[:, 0] + numbers[:, 1] * numbers[:, 2] + rng.normal(scale=1.5, size=30) > 0).tolist())
        numbers[rng.random(numbers.shape) < 0.1] = np.nan
        X.append([{**{f"v{j}": v for j, v in enumerate(row)}, "kind": "ab"[int(row[3] > 0)]} for row in numbers])
    return X, y


SIZES = {sensors: 120, letters: 500, records: 200}
PINNED = {
    sensors: (6, "shared", "joint", 10.0, 58, -0.2830, 0.7003),
    letters: (6, "shared", "factored", 100.0, 59, -0.3101, 0.8866),
    records: (0, "per_label", "joint", 10.0, 60, -0.6163, 0.7033),
}


@pytest.mark.parametrize("make", PINNED, ids=lambda make: make.__name__)
def test_chosen_settings_and_scores(make):
    rng = np.random.default_rng(0)
    X, y = make(rng, SIZES[make])
    X_test, y_test = make(rng, 60)
    model = TreeCRF(max_iter=60, random_state=0).fit(X, y)
    window, trees, potentials, penalty, n_rounds, held_out, accuracy = PINNED[make]
    assert (model.window_, model.trees_, model.potentials_, model.l2_regularization_) == (
        window, trees, potentials, penalty,
    )  # fmt: skip
    assert model.best_iteration_ == pytest.approx(n_rounds, abs=2)  # last bits differ between processors
    assert model.best_score_ == pytest.approx(held_out, abs=0.002)
    assert model.score(X_test, y_test) == pytest.approx(accuracy, abs=0.01)
