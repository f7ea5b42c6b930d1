"""Slow, obviously right twins of the family's kernels; used by tests only."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["perceptron_slow"]

Weights = dict[tuple[Any, ...], float]


def perceptron_slow(
    features: Sequence[NDArray[Any]], labels: Sequence[Sequence[int]], visits: Sequence[int], n_labels: int, order: int
) -> list[tuple[Weights, bool]]:
    """Return the weights after each visit of a sequence, and whether it made a mistake, by trying all labellings.

    Parameters
    ----------
    features : list of ndarray of shape (T, F)
        Window features of each sequence.
    labels : list of lists of int
        True labels.
    visits : list of int
        Numbers of the sequences, in the order in which they are visited.
    n_labels, order : int
        K and m.
    """

    def phi(x: NDArray[Any], path: Sequence[int]) -> Weights:
        counted: Weights = defaultdict(float)
        for t, k in enumerate(path):
            for j in np.flatnonzero(x[t]):
                counted["feature", int(j), k] += float(x[t, j])
            counted["transition", tuple(path[max(0, t - order) : t]), k] += 1.0
        return counted

    weights: Weights = defaultdict(float)
    history = []
    for visit in visits:
        x, truth = features[visit], tuple(labels[visit])
        # Of equally good labellings the first one, in the order of labels at the first difference.
        best, best_score = truth, -np.inf
        for path in itertools.product(range(n_labels), repeat=len(truth)):
            score = sum(weights[name] * count for name, count in phi(x, path).items())
            if score > best_score + 1e-9:
                best, best_score = path, score
        for sign, path in ((1.0, truth), (-1.0, best)):
            for name, count in phi(x, path).items():
                weights[name] += sign * count
        history.append((dict(weights), best != truth))
    return history
