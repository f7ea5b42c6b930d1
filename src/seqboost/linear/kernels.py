"""Compiled loops of the linear model: scores of rows, gradients of weights, labels seen with each feature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqboost.core.jit import jit

__all__ = ["boundary_gradient", "linear_gradient", "linear_scores", "seen_labels", "sort_by_column"]


@jit
def linear_scores(
    span: tuple[int, int, int],  # sequences first, last; the position that scores begin with
    sequences: NDArray[np.int64],  # IN (n_sequences + 1,)
    indptr: NDArray[np.int64],  # IN (n_rows + 1,)
    column: NDArray[np.int32],  # IN (n_pairs,)
    value: NDArray[np.float32],  # IN (n_pairs,)
    offsets: NDArray[np.int32],  # IN (n_offsets,)
    feature_of: NDArray[np.int32],  # IN (n_offsets, n_columns)
    boundary: NDArray[np.int32],  # IN (n_offsets,)
    start: NDArray[np.int64],  # IN (n_features + 1,)
    label: NDArray[np.int32],  # IN (n_weights,)
    weight: NDArray[np.floating],  # IN (n_weights,)
    total: NDArray[np.float64],  # SCRATCH (K,)
    scores: NDArray[np.float32],  # OUT (K, n_positions)
) -> None:
    """Score the positions of some sequences."""
    n_labels = len(total)
    for s in range(span[0], span[1]):
        begin, stop = sequences[s], sequences[s + 1]
        for t in range(begin, stop):
            for k in range(n_labels):
                total[k] = 0.0
            for o in range(len(offsets)):
                r = t + offsets[o]
                if r < begin or r >= stop:
                    f = boundary[o]
                    if f >= 0:
                        for w in range(start[f], start[f + 1]):
                            total[label[w]] += np.float64(weight[w])
                    continue
                for pair in range(indptr[r], indptr[r + 1]):
                    f = feature_of[o, column[pair]] if column[pair] >= 0 else np.int32(-1)
                    if f < 0:
                        continue
                    x = np.float64(value[pair])
                    if start[f + 1] - start[f] == n_labels:
                        first = np.uint64(start[f])
                        for k in range(n_labels):
                            total[k] += x * np.float64(weight[first + np.uint64(k)])
                    else:
                        for w in range(start[f], start[f + 1]):
                            total[label[w]] += x * np.float64(weight[w])
            for k in range(n_labels):
                scores[k, t - span[2]] = np.float32(total[k])


@jit
def linear_gradient(
    span: tuple[int, int],  # columns first, last
    column_start: NDArray[np.int64],  # IN (n_columns + 1,)
    row: NDArray[np.int32],  # IN (n_pairs,)
    value: NDArray[np.float32],  # IN (n_pairs,)
    position: NDArray[np.int32],  # IN (n_rows,) within the sequence
    remaining: NDArray[np.int32],  # IN (n_rows,) rows to its end, this one included
    offsets: NDArray[np.int32],  # IN (n_offsets,)
    feature_of: NDArray[np.int32],  # IN (n_offsets, n_columns)
    start: NDArray[np.int64],  # IN (n_features + 1,)
    label: NDArray[np.int32],  # IN (n_weights,)
    gradient: NDArray[np.float32],  # IN (n_rows, K)
    total: NDArray[np.float64],  # SCRATCH (K,)
    summed: NDArray[np.float64],  # OUT (n_weights,)
) -> None:
    """Sum x · gradient over the rows that see some columns; row r is what row t = r − offset sees."""
    n_labels = len(total)
    for c in range(span[0], span[1]):
        for o in range(len(offsets)):
            f = feature_of[o, c]
            if f < 0:
                continue
            offset, first, last = offsets[o], start[f], start[f + 1]
            dense = last - first == n_labels
            for k in range(n_labels):
                total[k] = 0.0
            for pair in range(column_start[c], column_start[c + 1]):
                r = row[pair]
                if position[r] < offset or remaining[r] <= -offset:
                    continue
                x, t = np.float64(value[pair]), np.uint64(r - offset)
                if dense:
                    for k in range(n_labels):
                        total[k] += x * np.float64(gradient[t, np.uint64(k)])
                else:
                    for w in range(first, last):
                        total[w - first] += x * np.float64(gradient[t, np.uint64(label[w])])
            for w in range(first, last):
                summed[w] = total[w - first]


@jit
def boundary_gradient(
    sequences: NDArray[np.int64],  # IN (n_sequences + 1,)
    offsets: NDArray[np.int32],  # IN (n_offsets,)
    boundary: NDArray[np.int32],  # IN (n_offsets,)
    start: NDArray[np.int64],  # IN (n_features + 1,)
    label: NDArray[np.int32],  # IN (n_weights,)
    gradient: NDArray[np.float32],  # IN (n_rows, K)
    summed: NDArray[np.float64],  # OUT (n_weights,) those of the boundary features
) -> None:
    """Sum the gradient over the rows that look beyond the end of their sequence."""
    for o in range(len(offsets)):
        f, offset = boundary[o], offsets[o]
        if f < 0:
            continue
        for s in range(len(sequences) - 1):
            begin, stop = sequences[s], sequences[s + 1]
            first, last = (max(stop - offset, begin), stop) if offset > 0 else (begin, min(begin - offset, stop))
            for t in range(first, last):
                for w in range(start[f], start[f + 1]):
                    summed[w] += np.float64(gradient[t, label[w]])


@jit
def seen_labels(
    column_start: NDArray[np.int64],  # IN (n_columns + 1,)
    row: NDArray[np.int32],  # IN (n_pairs,)
    position: NDArray[np.int32],  # IN (n_rows,)
    remaining: NDArray[np.int32],  # IN (n_rows,)
    sequences: NDArray[np.int64],  # IN (n_sequences + 1,)
    offsets: NDArray[np.int32],  # IN (n_offsets,)
    feature_of: NDArray[np.int32],  # IN (n_offsets, n_columns)
    boundary: NDArray[np.int32],  # IN (n_offsets,)
    labels: NDArray[np.int32],  # IN (n_rows,) −1 = unobserved
    taken: NDArray[np.uint8],  # OUT (n_features, ceil(K / 8)) bits, zero before
    count: NDArray[np.int64],  # OUT (n_features,) zero before
) -> None:
    """Mark the labels of the rows that see each feature, and count the rows."""
    for c in range(len(column_start) - 1):
        for o in range(len(offsets)):
            f, offset = feature_of[o, c], offsets[o]
            for pair in range(column_start[c], column_start[c + 1] if f >= 0 else column_start[c]):
                r = row[pair]
                if position[r] >= offset and remaining[r] > -offset:
                    k = labels[r - offset]
                    count[f] += 1
                    if k >= 0:
                        taken[f, k >> 3] |= np.uint8(1 << (k & 7))
    for o in range(len(offsets)):
        f, offset = boundary[o], offsets[o]
        for s in range(len(sequences) - 1 if f >= 0 else 0):
            begin, stop = sequences[s], sequences[s + 1]
            first, last = (max(stop - offset, begin), stop) if offset > 0 else (begin, min(begin - offset, stop))
            for t in range(first, last):
                count[f] += 1
                if labels[t] >= 0:
                    taken[f, labels[t] >> 3] |= np.uint8(1 << (labels[t] & 7))


@jit
def sort_by_column(
    indptr: NDArray[np.int64],  # IN (n_rows + 1,)
    column: NDArray[np.int32],  # IN (n_pairs,)
    value: NDArray[np.float32],  # IN (n_pairs,)
    place: NDArray[np.int64],  # IN (n_columns,) where each column begins; changed
    row_of: NDArray[np.int32],  # OUT (n_pairs,) column by column, rows increasing
    value_of: NDArray[np.float32],  # OUT (n_pairs,)
) -> None:
    """Sort pairs by column."""
    for r in range(len(indptr) - 1):
        for pair in range(indptr[r], indptr[r + 1]):
            c = column[pair]
            if c >= 0:
                row_of[place[c]] = r
                value_of[place[c]] = value[pair]
                place[c] += 1
