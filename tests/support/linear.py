"""Tasks of a linear chain that several test modules share."""

from __future__ import annotations

import numpy as np

from seqboost.core.contexts import ContextSpace
from seqboost.features import FeatureBinner
from seqboost.linear import LinearColumns, LinearTask


def columns_of(batch, window=1):
    return LinearColumns.fit(batch, FeatureBinner.fit(batch, window=window))


def task_of(batch, labels, n_training=None, *, n_labels=3, order=1, window=0, table=None, **change):
    columns = columns_of(batch, window)
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
