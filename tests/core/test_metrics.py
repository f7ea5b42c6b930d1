"""Metrics from counts: against scikit-learn, by hand, with weights and without anything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from seqboost.core.metrics import COUNT_METRICS, LabelCounts, log_loss, sequence_accuracy

# Codes 0..3, of which 3 never is true: scikit-learn is told to leave it out of means, as we do.
RNG = np.random.default_rng(0)
TRUE, PREDICTED, WEIGHTS = RNG.integers(3, size=50), RNG.integers(4, size=50), RNG.uniform(0.5, 3.0, size=50)

PEERS = {
    "accuracy": sklearn_metrics.accuracy_score,
    "macro_f1": lambda t, p, **weight: sklearn_metrics.f1_score(t, p, labels=[0, 1, 2], average="macro", **weight),
    "weighted_f1": lambda t, p, **weight: sklearn_metrics.f1_score(t, p, average="weighted", **weight),
    "balanced_accuracy": lambda t, p, **weight: sklearn_metrics.recall_score(
        t, p, labels=[0, 1, 2], average="macro", **weight
    ),
    "cohen_kappa": sklearn_metrics.cohen_kappa_score,
    "matthews_corrcoef": sklearn_metrics.matthews_corrcoef,
}


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("name", COUNT_METRICS)
def test_metrics_of_counts_agree_with_scikit_learn(name, weights):
    found = COUNT_METRICS[name](LabelCounts.from_codes(TRUE, PREDICTED, 4, weights))
    assert found == pytest.approx(PEERS[name](TRUE, PREDICTED, sample_weight=weights), rel=1e-12)


def test_macro_f1_by_hand():
    # label 0: 2 true, 1 predicted, 1 right: F1 = 2/3; label 1: 2 true, 2 predicted, 1 right: 1/2; label 2: never true
    counts = LabelCounts.from_codes(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), 3)
    assert COUNT_METRICS["macro_f1"](counts) == pytest.approx((2 / 3 + 1 / 2) / 2)


@pytest.mark.parametrize("name", COUNT_METRICS)
def test_without_positions_metrics_are_nan(name):
    empty = np.zeros(0, dtype=np.int64)
    assert math.isnan(COUNT_METRICS[name](LabelCounts.from_codes(empty, empty, 2)))


def test_one_label_alone_leaves_nothing_to_chance():
    counts = LabelCounts.from_codes(np.zeros(3, int), np.zeros(3, int), 2)
    assert math.isnan(COUNT_METRICS["cohen_kappa"](counts))
    assert COUNT_METRICS["matthews_corrcoef"](counts) == 0.0


def test_whole_sequences_by_weight():
    is_right, sequence = np.array([True, True, False, True]), np.array([0, 2, 2, 3])
    assert sequence_accuracy(is_right, sequence) == pytest.approx(2 / 3)
    assert sequence_accuracy(is_right, sequence, np.array([1.0, 9.0, 4.0, 3.0, 9.0])) == pytest.approx(4 / 8)
    assert math.isnan(sequence_accuracy(is_right[:0], sequence[:0], np.ones(3)))


def test_log_loss_clips_zeros_and_weights():
    assert log_loss(np.array([0.5, 0.25]), np.array([3.0, 1.0])) == pytest.approx(1.25 * math.log(2))
    assert log_loss(np.array([0.0])) == pytest.approx(-math.log(np.finfo(float).eps))
    assert math.isnan(log_loss(np.zeros(0)))
