"""Slow twins of the linear model: plain loops over Python values, used by tests only."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seqboost.features.layout import NUMERIC
from seqboost.features.reference import ABSENT, category_code
from seqboost.linear.columns import LinearColumns
from seqboost.linear.weights import LinearWeights
from seqboost.sequences import SequenceBatch

__all__ = ["reference_linear_features", "reference_linear_gradient", "reference_linear_scores"]


def reference_linear_features(columns: LinearColumns, batch: SequenceBatch, row: int) -> dict[int, float]:
    """Return the features that a position sees, with their values: visit the position at each offset."""
    sequence = next(i for i in range(batch.offsets.size - 1) if batch.offsets[i] <= row < batch.offsets[i + 1])
    found: dict[int, float] = {}
    for o, offset in enumerate(columns.offsets):
        at = row + int(offset)
        if batch.offsets[sequence] <= at < batch.offsets[sequence + 1]:
            pairs = [(columns.feature_of[o, c], x) for c, x in _linear_pairs(columns, batch, at)]
        else:
            pairs = [(columns.boundary[o], 1.0)]
        for feature, x in pairs:
            if feature >= 0:
                found[int(feature)] = found.get(int(feature), 0.0) + x
    return found


def _linear_pairs(columns: LinearColumns, batch: SequenceBatch, row: int) -> list[tuple[int, float]]:
    """Return columns and values of a position."""
    pairs: list[tuple[int, float]] = []
    n_numeric = int((columns.binner.column_kinds == NUMERIC).sum())
    for j in range(n_numeric):
        x = float(columns.binner.numbers(batch)[row, j])
        if math.isnan(x):
            pairs.append((2 * j + 1, 1.0))
        else:
            standard = (x - columns.mean[j]) / columns.scale[j]
            pairs.append((2 * j, min(max(standard, columns.low[j]), columns.high[j])))
    first = 2 * n_numeric
    for j, known in enumerate(columns.binner.categories):
        code = category_code(batch, row, j, known, len(known), ABSENT)
        if code != ABSENT:
            pairs.append((first + code, 1.0))
        first += len(known) + 1
    if batch.sparse is not None:
        cells = batch.sparse[[row]].tocoo()
        for column, x in zip(cells.coords[1], cells.data, strict=True):
            missing = math.isnan(x)
            limit = columns.sparse_limit[column]
            value = 1.0 if missing else min(max(float(x) / columns.sparse_scale[column], -limit), limit)
            pairs.append((first + int(column) + missing * batch.sparse.shape[1], value))
    return pairs


def reference_linear_scores(weights: LinearWeights, batch: SequenceBatch) -> list[list[float]]:
    """Return the scores of all positions, [row][label]; the slow twin of `LinearWeights.scores`."""
    scores = []
    for row in range(int(batch.offsets[-1])):
        total = [0.0] * weights.n_labels
        for feature, x in reference_linear_features(weights.columns, batch, row).items():
            for place in range(weights.start[feature], weights.start[feature + 1]):
                total[weights.label[place]] += x * float(weights.value[place])
        scores.append(total)
    return scores


def reference_linear_gradient(
    weights: LinearWeights, batch: SequenceBatch, n_rows: int, gradient: Sequence[Sequence[float]]
) -> list[float]:
    """Sum x · gradient[row][label] of each weight over the first rows; the slow twin of `LinearGradient`."""
    summed = [0.0] * len(weights.label)
    for row in range(n_rows):
        for feature, x in reference_linear_features(weights.columns, batch, row).items():
            for place in range(weights.start[feature], weights.start[feature + 1]):
                summed[place] += x * float(gradient[row][weights.label[place]])
    return summed
