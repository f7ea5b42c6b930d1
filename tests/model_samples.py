"""Random trees and rows for the tests of the `model` room."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from seqboost.trees.tree import DENSE, LAG, SPARSE, Tree


def random_rows(rng, lengths, n_dense=3, offsets=(-1, 0, 1), n_values=5, n_slots=(), sparse_offsets=(-1, 0)):
    """Binned rows with values, missing, boundary and unknown codes, and slots of sparse features."""
    margin = max([abs(o) for o in (*offsets, *sparse_offsets)], default=0)
    lengths = np.asarray(lengths)
    n_padded = int(lengths.sum()) + margin * (len(lengths) + 1)
    codes = np.full((n_padded, n_dense), n_values + 1, dtype=np.uint8)
    seq_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    sequence = np.repeat(np.arange(len(lengths)), lengths.astype(np.int64))
    padded_row = np.arange(len(sequence), dtype=np.int64) + margin * (sequence + 1)
    codes[padded_row] = rng.choice([*range(n_values + 1), n_values + 2], size=(len(padded_row), n_dense))
    slot_start = np.concatenate([[0], np.cumsum(n_slots)]).astype(np.int32)
    row_slots = [[] for _ in range(n_padded)]
    for row in range(n_padded):
        for s, n in enumerate(n_slots):
            if rng.random() < (0.9 if n > 5 else 0.3):
                row_slots[row].append(int(slot_start[s] + rng.integers(n)))
    column, offset = np.meshgrid(np.arange(n_dense), offsets)
    layout = SimpleNamespace(
        displacement=(offset * n_dense + column).ravel().astype(np.int64),
        slot_start=slot_start,
        sparse_kind=np.array([n > 1 for n in n_slots], dtype=np.uint8),
        sparse_offsets=np.array(sparse_offsets, dtype=np.int32),
    )
    return SimpleNamespace(
        codes=codes,
        address=padded_row * n_dense,
        padded_row=padded_row,
        offsets=seq_offsets,
        slot_indptr=np.concatenate([[0], np.cumsum([len(s) for s in row_slots])]).astype(np.int64),
        slot_indices=np.array([slot for slots in row_slots for slot in slots], dtype=np.int32),
        layout=layout,
    )


def random_tree(rng, binned, n_leaves, n_labels, order, kinds=(DENSE, SPARSE, LAG)):
    """Grow a tree of random splits, at random leaves."""
    layout, n_splits = binned.layout, n_leaves - 1
    n_sparse = len(layout.sparse_kind)
    counts = {DENSE: len(layout.displacement), SPARSE: n_sparse * len(layout.sparse_offsets), LAG: order}
    possible = [kind for kind, n in counts.items() if n and kind in kinds]
    if not possible:
        n_splits, n_leaves = 0, 1
    left, right = np.zeros(n_splits, np.int32), np.zeros(n_splits, np.int32)
    slots_open = [None]  # (side, split) where a leaf hangs
    for s in range(n_splits):
        place = slots_open.pop(int(rng.integers(len(slots_open))))
        if place is not None:
            place[0][place[1]] = s
        slots_open += [(left, s), (right, s)]
    for number, place in enumerate(rng.permutation(len(slots_open))):
        if slots_open[place] is not None:
            slots_open[place][0][slots_open[place][1]] = ~number
    kind = rng.choice(possible, size=n_splits).astype(np.uint8) if n_splits else np.zeros(0, np.uint8)
    feature, words = np.zeros(n_splits, np.int32), []
    for s in range(n_splits):
        if kind[s] == DENSE:
            feature[s], n_words = rng.integers(len(layout.displacement)), 4
        elif kind[s] == SPARSE:
            feature[s] = rng.integers(n_sparse * len(layout.sparse_offsets))
            f = feature[s] % n_sparse
            n_words = -(-int(layout.slot_start[f + 1] - layout.slot_start[f]) // 64)
        else:
            feature[s], n_words = rng.integers(1, order + 1), n_labels // 64 + 1
        words.append(rng.integers(0, 2**64, size=n_words, dtype=np.uint64))
    return Tree(
        kind=kind,
        feature=feature,
        word_start=np.concatenate([[0], np.cumsum([len(w) for w in words])]).astype(np.int32),
        words=np.concatenate([np.zeros(0, np.uint64), *words]),
        left=left,
        right=right,
        value=rng.normal(size=n_leaves).astype(np.float32),
        gain=rng.random(n_splits).astype(np.float32),
        n_rows=rng.integers(1, 99, n_splits).astype(np.int32),
        leaf_rows=rng.integers(1, 99, n_leaves).astype(np.int32),
    )
