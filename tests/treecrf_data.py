"""Small sequences for the tests of TreeCRF."""

from __future__ import annotations

import itertools

import numpy as np

from seqboost import TreeCRF
from tests.support.estimators import with_method

LABELS = np.array(list("abcdefgh"))


def chains(n=10, n_labels=3, n_columns=2, lengths=(1, 8), seed=0, stickiness=0.7):
    """Return ragged numeric sequences whose labels are sticky and shift the first column."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(*lengths, n):
        labels = [int(rng.integers(n_labels))]
        while len(labels) < length:
            labels.append(labels[-1] if rng.random() < stickiness else int(rng.integers(n_labels)))
        rows = rng.normal(size=(length, n_columns))
        rows[:, 0] += labels
        X.append(rows)
        y.append(LABELS[labels].tolist())
    return X, y


def small(**parameters):
    """Return a TreeCRF that learns from a handful of rows."""
    return TreeCRF(
        **{"max_iter": 4, "min_samples_leaf": 1, "max_leaf_nodes": 6, "early_stopping": False, "random_state": 0}
        | with_method(parameters)
    )


def labellings(classes, length):
    """Return all labellings of a length."""
    return [list(labels) for labels in itertools.product(classes.tolist(), repeat=length)]


def all_equal(a, b):
    """Tell whether two lists of arrays (or two arrays) hold the same bits."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(np.array_equal, a, b))
    return np.array_equal(a, b)
